package explain

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/logical"
	"github.com/sallyport/sallyport/internal/state"
	"github.com/sallyport/sallyport/internal/survey"
	"github.com/sallyport/sallyport/internal/words"
)

// step is something on the way of packets.
func (e *explainer) step(about state.Ref, format string, args ...any) {
	e.onWay(Step{About: about, Text: fmt.Sprintf(format, args...)})
}

// broken is where they do not go on.
func (e *explainer) broken(about state.Ref, format string, args ...any) {
	e.onWay(Step{About: about, Text: fmt.Sprintf(format, args...), Broken: true})
}

func (e *explainer) onWay(s Step) {
	if !slices.Contains(e.out.Path, s) {
		e.out.Path = append(e.out.Path, s)
	}
}

// has is something that the object consists of.
func (e *explainer) has(about state.Ref, format string, args ...any) {
	e.out.Has = append(e.out.Has, Step{About: about, Text: fmt.Sprintf(format, args...)})
}

// router is the router of a VPC as OVN has it; nil: there is none, which is told.
func (e *explainer) router(name string) *logical.Router {
	r := e.s.Logical.Router(name)
	switch {
	case r != nil || name == "":
	case e.blind:
		e.step(survey.RouterRef(name), "router %s, of which nothing is known: OVN could not be read", name)
	default:
		e.broken(survey.RouterRef(name), "there is no router %s in OVN", name)
	}
	return r
}

// enter is the way of a packet for an external address to the router of a VPC.
func (e *explainer) enter(shard string, a netip.Addr) {
	if !a.IsValid() {
		return
	}
	e.onNetwork(a)
	e.byNodes(e.s.Cluster.NetworkAt(a))
	e.hold(shard, a)
}

// leave is the way of a packet from the router of a VPC to an external network, with an address of it.
func (e *explainer) leave(shard string, a netip.Addr) {
	e.hold(shard, a)
	e.onNetwork(a)
}

// byNodes is the way through nodes that are on a network themselves.
func (e *explainer) byNodes(on *survey.Network) {
	if on != nil && on.Interface != "" {
		e.step(on.Ref, "nodes %s, which are on it by %s", cmp.Or(words.Few(on.OnNodes, 6), "none"), on.Interface)
	}
}

// onNetwork is the network of an address.
func (e *explainer) onNetwork(a netip.Addr) {
	c := &e.s.Cluster
	on, pool := c.NetworkAt(a), c.Pool(a)
	switch {
	case !a.IsValid():
	case on == nil:
		e.broken(e.ref, "%s is of no external network", a)
	case pool != nil:
		e.step(on.Ref, "network %s, Subnet %s %s%s; its gateway is %s", on.Name, pool.Name, few(pool.Prefixes), vlan(pool), few(pool.Gateways))
	default:
		e.step(on.Ref, "network %s; its gateway is %s", on.Name, cmp.Or(few(on.Gateways), "not known"))
	}
}

// hold is the node that holds the port by which a router has an address, and those that stand by.
func (e *explainer) hold(router string, a netip.Addr) {
	if e.s.Cluster.Pool(a) == nil || e.s.Logical.Router(router) == nil {
		return // somebody else is on the way, or that is told by whoever looks at the router
	}
	p := e.s.Gateway(router, a)
	if p == nil {
		e.broken(survey.RouterRef(router), "router %s has no port on that network", router)
		return
	}
	var others []string
	for _, chassis := range p.Chassis {
		if chassis != p.Holder {
			others = append(others, e.s.NodeOf(chassis))
		}
	}
	holder, port := e.s.NodeOf(p.Holder), fmt.Sprintf("port %s of router %s", p.Name, router)
	switch {
	case p.Holder == "" && len(p.Chassis) == 0:
		e.broken(survey.RouterRef(router), "no node holds %s, and none may", port)
	case p.Holder == "":
		e.broken(survey.RouterRef(router), "no node holds %s; it may be %s", port, strings.Join(others, " or "))
	case len(others) == 0:
		e.step(survey.NodeRef(holder), "%s holds %s, and no other may", holder, port)
	default:
		e.step(survey.NodeRef(holder), "%s holds %s; it may also be %s", holder, port, words.Few(others, 4))
	}
}

// translate is the way of a packet from the router to what a floating IP leads to.
func (e *explainer) translate(f *survey.FIp) {
	if !f.External.IsValid() {
		return
	}
	e.translates(f.Ref, f.Shard, f.External)
	if p := e.s.PodAt(f.Shard, f.Target); p != nil {
		e.pod(p)
	} else if f.Target.IsValid() {
		e.broken(f.Ref, "no pod has %s", f.Target)
	}
}

func (e *explainer) pod(p *survey.Pod) {
	text := fmt.Sprintf("pod %s/%s %s on %s %s", p.Namespace, p.Name, few(p.Addresses), p.Node, doing(p))
	e.onWay(Step{About: p.Ref, Text: text, Broken: !p.Ready})
}

// translates is how a router translates an external address, as OVN has it.
func (e *explainer) translates(by state.Ref, router string, a netip.Addr) {
	r := e.router(router)
	if r == nil {
		return
	}
	var into []string
	for _, n := range r.NATs {
		switch {
		case n.External != a:
		case n.Type != "snat":
			into = append(into, bare(n.Logical)+" has it both ways")
		case n.Match != "":
			into = append(into, "selected pods leave with it")
		default:
			into = append(into, bare(n.Logical)+" leaves with it")
		}
	}
	into = slices.Compact(into)
	if len(into) == 0 {
		e.broken(by, "router %s does not translate %s", router, text(a))
		return
	}
	e.step(by, "router %s translates %s: %s", router, a, words.Few(into, 3))
}

// balance is the way of connections from the router to the pods behind a Service, which are only counted in brief.
func (e *explainer) balance(v *survey.Service, brief bool) {
	for _, a := range slices.Concat(v.Ingress, v.ExternalIPs) {
		for _, p := range v.Ports {
			if v.Ours {
				e.balances(v, a, p)
			}
		}
	}
	var up, down []string
	for _, x := range v.Endpoints {
		name := fmt.Sprintf("%s %s on %s", cmp.Or(x.Pod, "no pod"), x.Address, cmp.Or(x.Node, "no node"))
		if x.Ready {
			up = append(up, name)
			continue
		}
		if p := e.s.Cluster.Pod(survey.PodRef(v.Namespace, x.Pod)); p != nil {
			name += " " + doing(p)
		}
		down = append(down, name)
	}
	switch {
	case len(v.Endpoints) == 0:
		e.broken(v.Ref, "%s has no endpoints", v.Ref)
		return
	case brief:
		text := fmt.Sprintf("%s: %d of %d endpoints ready", v.Ref, len(up), len(v.Endpoints))
		e.onWay(Step{About: v.Ref, Text: text, Broken: len(up) == 0})
		return
	}
	for _, name := range down {
		e.onWay(Step{About: v.Ref, Text: "not ready: " + name, Broken: len(up) == 0})
	}
	for _, name := range up {
		e.step(v.Ref, "ready: %s", name)
	}
}

// balances is over what a router balances a port of a Service, as OVN has it.
func (e *explainer) balances(v *survey.Service, a netip.Addr, p survey.ServicePort) {
	r := e.router(v.Shard)
	if r == nil {
		return
	}
	to := netip.AddrPortFrom(a, uint16(p.Port)) //nolint:gosec // a port of a Service
	port := strings.ToLower(p.Protocol) + " " + to.String()
	for _, b := range r.Balancers {
		for _, vip := range b.VIPs {
			switch {
			case vip.Address != to || !strings.EqualFold(cmp.Or(b.Protocol, "tcp"), p.Protocol):
			case len(vip.Backends) == 0:
				e.broken(v.Ref, "router %s refuses %s: nothing is behind it", v.Shard, port)
				return
			default:
				e.step(v.Ref, "router %s balances %s over %s", v.Shard, port, words.Few(words.Of(vip.Backends), 4))
				return
			}
		}
	}
	e.broken(v.Ref, "router %s does not balance %s", v.Shard, port)
}

// inward says whether packets are sent to the object from outside.
func (e *explainer) inward() bool {
	switch intent.Kind(e.ref.Kind) {
	case intent.EIp:
		return len(e.s.Users(e.out.Addresses[0])) > 0
	case intent.FIp, intent.Service:
		return true
	default:
		return false
	}
}

// example is an address and port to trace.
func (e *explainer) example() string {
	a := e.out.Addresses[0]
	for _, u := range append([]state.Ref{e.ref}, e.s.Users(a)...) {
		if v := e.s.Cluster.Service(u); v != nil && len(v.Ports) > 0 {
			return netip.AddrPortFrom(a, uint16(v.Ports[0].Port)).String() //nolint:gosec // a port of a Service
		}
	}
	return strings.TrimSuffix(netip.AddrPortFrom(a, 0).String(), "0") + "PORT"
}
