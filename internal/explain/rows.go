package explain

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/logical"
	"github.com/sallyport/sallyport/internal/state"
	"github.com/sallyport/sallyport/internal/survey"
	"github.com/sallyport/sallyport/internal/words"
)

// findRows is the rows of OVN that were made for the object, or that have one of its addresses, whoever wrote them.
func (e *explainer) findRows() {
	for _, r := range e.s.Logical.Routers {
		e.routerRows(r)
	}
	for _, w := range e.s.Logical.Switches {
		e.switchRows(w)
	}
	for _, g := range e.s.Logical.Groups {
		for _, a := range g.ACLs {
			if e.mine(a.IDs.Owner()) {
				e.row("ACL", g.Name, "%s", acl(a))
			}
		}
	}
}

func (e *explainer) row(table, on, format string, args ...any) {
	r := Row{table, on, fmt.Sprintf(format, args...)}
	if !slices.Contains(e.out.Rows, r) {
		e.out.Rows = append(e.out.Rows, r)
	}
}

// owns says whether an address is one of the object's.
func (e *explainer) owns(a netip.Addr) bool {
	return a.IsValid() && slices.Contains(e.out.Addresses, a)
}

func (e *explainer) routerRows(r logical.Router) {
	gateways := e.gateways(r.Name)
	for _, p := range r.Ports {
		own := slices.ContainsFunc(p.Networks, func(n netip.Prefix) bool { return e.owns(n.Addr()) })
		if own || e.mine(p.IDs.Owner()) || slices.Contains(gateways, p.Name) {
			e.row("Logical_Router_Port", r.Name, "%s", e.onPort(p))
		}
	}
	for _, n := range r.NATs {
		if e.owns(n.External) || e.mine(n.IDs.Owner()) {
			e.row("NAT", r.Name, "%s", nat(n))
		}
	}
	for _, b := range r.Balancers {
		e.balancerRow(r.Name, b)
	}
	for _, p := range r.Policies {
		if e.mine(p.IDs.Owner()) {
			e.row("Logical_Router_Policy", r.Name, "%d %s → %s", p.Priority, p.Match, strings.TrimSpace(p.Action+" "+strings.Join(words.Of(p.NextHops), " ")))
		}
	}
	for _, t := range r.Routes {
		if e.mine(t.IDs.Owner()) {
			e.row("Logical_Router_Static_Route", r.Name, "%s", route(t))
		}
	}
}

// gateways are the names of the ports by which a router has the object's addresses.
func (e *explainer) gateways(router string) []string {
	if !slices.Contains(e.chain, survey.RouterRef(router)) {
		return nil
	}
	var out []string
	for _, a := range e.out.Addresses {
		if p := e.s.Gateway(router, a); p != nil {
			out = append(out, p.Name)
		}
	}
	return out
}

// onPort says where a port of a router is.
func (e *explainer) onPort(p logical.RouterPort) string {
	out := p.Name + " " + few(p.Networks)
	if p.Holder != "" {
		out += ", held by " + e.s.NodeOf(p.Holder)
	} else if len(p.Chassis) > 0 {
		out += ", held by no node"
	}
	return out
}

func (e *explainer) switchRows(w logical.Switch) {
	for _, b := range w.Balancers {
		e.balancerRow(w.Name, b)
	}
	for _, p := range w.Ports {
		if e.mine(p.IDs.Owner()) || e.isPort(p.Name) {
			e.row("Logical_Switch_Port", w.Name, "%s", e.onSwitch(p))
		}
	}
	for _, a := range w.ACLs {
		if e.mine(a.IDs.Owner()) {
			e.row("ACL", w.Name, "%s", acl(a))
		}
	}
	for _, q := range w.QoS {
		if e.mine(q.IDs.Owner()) {
			e.row("QoS", w.Name, "%d %s %s", q.Priority, q.Direction, q.Match)
		}
	}
}

// isPort says whether a switch port is that of a pod which the object leads to. Kube-OVN names ports so.
func (e *explainer) isPort(name string) bool {
	return slices.ContainsFunc(e.chain, func(r state.Ref) bool { return r.Kind == survey.PodKind && name == r.Name+"."+r.Namespace })
}

func (e *explainer) onSwitch(p logical.SwitchPort) string {
	out := p.Name
	if len(p.Addresses) > 0 {
		out += " " + few(p.Addresses)
	}
	switch {
	case p.Type != "":
		return fmt.Sprintf("%s, type %s", out, p.Type)
	case p.Chassis == "":
		return out + ", on no node"
	case !p.Up:
		return fmt.Sprintf("%s, not up yet on %s", out, e.s.NodeOf(p.Chassis))
	default:
		return fmt.Sprintf("%s, up on %s", out, e.s.NodeOf(p.Chassis))
	}
}

func (e *explainer) balancerRow(on string, b logical.Balancer) {
	for _, v := range b.VIPs {
		if e.mine(b.IDs.Owner()) || e.owns(v.Address.Addr()) {
			e.row("Load_Balancer", on, "%s %s %s → %s", b.Name, cmp.Or(b.Protocol, "tcp"), v.Address, cmp.Or(words.Few(words.Of(v.Backends), 8), "nothing"))
		}
	}
}

func nat(n logical.NAT) string {
	out := fmt.Sprintf("%s %s %s", n.Type, n.External, bare(n.Logical))
	if n.Port != "" {
		out += " on " + n.Port
	}
	if n.LogicalPort != "" {
		out += " where " + n.LogicalPort + " is"
	}
	if n.Match != "" {
		out += " if " + n.Match
	}
	return out
}

func route(t logical.Route) string {
	out := t.Prefix.String()
	if t.Table != "" {
		out = t.Table + " " + out
	}
	if t.NextHop.IsValid() {
		out += " via " + t.NextHop.String()
	}
	if t.Output != "" {
		out += " out by " + t.Output
	}
	return out
}

func acl(a logical.ACL) string {
	return fmt.Sprintf("tier %d, %d %s %s → %s", a.Tier, a.Priority, a.Direction, a.Match, a.Action)
}
