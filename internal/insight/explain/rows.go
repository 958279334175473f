package explain

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/humanize"
	"github.com/sallyport/sallyport/internal/model/logical"
	"github.com/sallyport/sallyport/internal/model/state"
)

// collectRows adds the OVN rows that belong to the object or contain one of its addresses, whoever wrote them.
func (e *explainer) collectRows() {
	for _, r := range e.s.Logical.Routers {
		e.collectRouterRows(r)
	}
	for _, w := range e.s.Logical.Switches {
		e.collectSwitchRows(w)
	}
	for _, g := range e.s.Logical.Groups {
		for _, a := range g.ACLs {
			if e.belongsToObject(a.IDs.Owner()) {
				e.addRow("ACL", g.Name, "%s", formatACL(a))
			}
		}
	}
}

func (e *explainer) addRow(table, on, format string, args ...any) {
	r := Row{table, on, fmt.Sprintf(format, args...)}
	if !slices.Contains(e.out.Rows, r) {
		e.out.Rows = append(e.out.Rows, r)
	}
}

func (e *explainer) ownsAddress(a netip.Addr) bool {
	return a.IsValid() && slices.Contains(e.out.Addresses, a)
}

func (e *explainer) collectRouterRows(r logical.Router) {
	gateways := e.gatewayPorts(r.Name)
	for _, p := range r.Ports {
		own := slices.ContainsFunc(p.Networks, func(n netip.Prefix) bool { return e.ownsAddress(n.Addr()) })
		if own || e.belongsToObject(p.IDs.Owner()) || slices.Contains(gateways, p.Name) {
			e.addRow("Logical_Router_Port", r.Name, "%s", e.formatRouterPort(p))
		}
	}
	for _, n := range r.NATs {
		if e.ownsAddress(n.External) || e.belongsToObject(n.IDs.Owner()) {
			e.addRow("NAT", r.Name, "%s", formatNAT(n))
		}
	}
	for _, b := range r.Balancers {
		e.collectBalancerRows(r.Name, b)
	}
	for _, p := range r.Policies {
		if e.belongsToObject(p.IDs.Owner()) {
			e.addRow("Logical_Router_Policy", r.Name, "%d %s → %s", p.Priority, p.Match,
				strings.TrimSpace(p.Action+" "+strings.Join(humanize.Strings(p.NextHops), " ")))
		}
	}
	for _, t := range r.Routes {
		if e.belongsToObject(t.IDs.Owner()) {
			e.addRow("Logical_Router_Static_Route", r.Name, "%s", formatRoute(t))
		}
	}
}

// gatewayPorts returns the ports of a router that are on the networks of the object's addresses.
func (e *explainer) gatewayPorts(router string) []string {
	if !slices.Contains(e.dependencies, clusterstate.RouterRef(router)) {
		return nil
	}
	var out []string
	for _, a := range e.out.Addresses {
		if p := e.s.GatewayPort(router, a); p != nil {
			out = append(out, p.Name)
		}
	}
	return out
}

// formatRouterPort returns the networks of a router port and the node that holds it.
func (e *explainer) formatRouterPort(p logical.RouterPort) string {
	out := p.Name + " " + joinFew(p.Networks)
	if p.Holder != "" {
		out += ", held by " + e.s.NodeOfChassis(p.Holder)
	} else if len(p.Chassis) > 0 {
		out += ", held by no node"
	}
	return out
}

func (e *explainer) collectSwitchRows(w logical.Switch) {
	for _, b := range w.Balancers {
		e.collectBalancerRows(w.Name, b)
	}
	for _, p := range w.Ports {
		if e.belongsToObject(p.IDs.Owner()) || e.isPodPort(p.Name) {
			e.addRow("Logical_Switch_Port", w.Name, "%s", e.formatSwitchPort(p))
		}
	}
	for _, a := range w.ACLs {
		if e.belongsToObject(a.IDs.Owner()) {
			e.addRow("ACL", w.Name, "%s", formatACL(a))
		}
	}
	for _, q := range w.QoS {
		if e.belongsToObject(q.IDs.Owner()) {
			e.addRow("QoS", w.Name, "%d %s %s", q.Priority, q.Direction, q.Match)
		}
	}
}

// isPodPort reports whether a switch port belongs to a pod that the object depends on. Kube-OVN names it POD.NAMESPACE.
func (e *explainer) isPodPort(name string) bool {
	return slices.ContainsFunc(e.dependencies, func(r state.Ref) bool {
		return r.Kind == clusterstate.PodKind && name == kubeovn.PodPort(r.Name, r.Namespace)
	})
}

func (e *explainer) formatSwitchPort(p logical.SwitchPort) string {
	out := p.Name
	if len(p.Addresses) > 0 {
		out += " " + joinFew(p.Addresses)
	}
	switch {
	case p.Type != "":
		return fmt.Sprintf("%s, type %s", out, p.Type)
	case p.Chassis == "":
		return out + ", on no node"
	case !p.Up:
		return fmt.Sprintf("%s, not up yet on %s", out, e.s.NodeOfChassis(p.Chassis))
	default:
		return fmt.Sprintf("%s, up on %s", out, e.s.NodeOfChassis(p.Chassis))
	}
}

func (e *explainer) collectBalancerRows(on string, b logical.LoadBalancer) {
	for _, v := range b.VIPs {
		if e.belongsToObject(b.VIPOwner(v.Address)) || e.ownsAddress(v.Address.Addr()) {
			e.addRow("Load_Balancer", on, "%s %s %s → %s", b.Name, cmp.Or(b.Protocol, "tcp"), v.Address,
				cmp.Or(humanize.JoinLimited(humanize.Strings(v.Backends), 8), "nothing"))
		}
	}
}

func formatNAT(n logical.NAT) string {
	out := fmt.Sprintf("%s %s %s", n.Type, n.External, formatPrefix(n.Logical))
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

func formatRoute(t logical.StaticRoute) string {
	out := t.Prefix.String()
	if t.Table != "" {
		out = t.Table + " " + out
	}
	if t.NextHop.IsValid() {
		out += " via " + t.NextHop.String()
	}
	if t.Output != "" {
		out += " output port " + t.Output
	}
	return out
}

func formatACL(a logical.ACL) string {
	return fmt.Sprintf("tier %d, %d %s %s → %s", a.Tier, a.Priority, a.Direction, a.Match, a.Action)
}
