package explain

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/humanize"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/logical"
	"github.com/sallyport/sallyport/internal/model/state"
)

// addStep adds a step to the path.
func (e *explainer) addStep(about state.Ref, format string, args ...any) {
	e.appendStep(Step{About: about, Text: fmt.Sprintf(format, args...)})
}

// addBrokenStep adds a step that packets do not pass.
func (e *explainer) addBrokenStep(about state.Ref, format string, args ...any) {
	e.appendStep(Step{About: about, Text: fmt.Sprintf(format, args...), Broken: true})
}

func (e *explainer) appendStep(s Step) {
	if !slices.Contains(e.out.Path, s) {
		e.out.Path = append(e.out.Path, s)
	}
}

// addPart adds something that the object consists of.
func (e *explainer) addPart(about state.Ref, format string, args ...any) {
	e.out.Parts = append(e.out.Parts, Step{About: about, Text: fmt.Sprintf(format, args...)})
}

// findRouter returns the router of a VPC, or nil. A missing router is added to the path.
func (e *explainer) findRouter(name string) *logical.Router {
	r := e.s.Logical.Router(name)
	switch {
	case r != nil || name == "":
	case e.ovnUnread:
		e.addStep(clusterstate.RouterRef(name), "router %s: state unknown, because OVN could not be read", name)
	default:
		e.addBrokenStep(clusterstate.RouterRef(name), "there is no router %s in OVN", name)
	}
	return r
}

// addIngressPath adds the path from an external network to the router of a VPC.
func (e *explainer) addIngressPath(shard string, a netip.Addr) {
	if !a.IsValid() {
		return
	}
	e.addNetworkStep(a)
	e.addNodesStep(e.s.Cluster.NetworkAt(a))
	e.addGatewayStep(shard, a)
}

// addEgressPath adds the path from the router of a VPC to the external network of the source address.
func (e *explainer) addEgressPath(shard string, a netip.Addr) {
	e.addGatewayStep(shard, a)
	e.addNetworkStep(a)
}

// addNodesStep adds the nodes that are attached to a network.
func (e *explainer) addNodesStep(on *clusterstate.Network) {
	if on != nil && on.Interface != "" {
		e.addStep(on.Ref, "nodes %s, attached through interface %s",
			cmp.Or(humanize.JoinLimited(on.OnNodes, 6), "none"), on.Interface)
	}
}

// addNetworkStep adds the network of an address.
func (e *explainer) addNetworkStep(a netip.Addr) {
	c := &e.s.Cluster
	on, pool := c.NetworkAt(a), c.ExternalSubnetAt(a)
	switch {
	case !a.IsValid():
	case on == nil:
		e.addBrokenStep(e.ref, "%s is in no external network", a)
	case pool != nil:
		e.addStep(on.Ref, "network %s, Subnet %s %s%s; its gateway is %s", on.Name, pool.Name, joinFew(pool.Prefixes),
			formatVLAN(pool), joinFew(pool.Gateways))
	default:
		e.addStep(on.Ref, "network %s; its gateway is %s", on.Name, cmp.Or(joinFew(on.Gateways), "not known"))
	}
}

// addGatewayStep adds the node that holds the router port on the network of an address, and the standby nodes.
func (e *explainer) addGatewayStep(router string, a netip.Addr) {
	if e.s.Cluster.ExternalSubnetAt(a) == nil || e.s.Logical.Router(router) == nil {
		return // there is no gateway port, or findRouter reports the missing router
	}
	p := e.s.GatewayPort(router, a)
	if p == nil {
		e.addBrokenStep(clusterstate.RouterRef(router), "router %s has no port on that network", router)
		return
	}
	var others []string
	for _, chassis := range p.Chassis {
		if chassis != p.Holder {
			others = append(others, e.s.NodeOfChassis(chassis))
		}
	}
	holder, port := e.s.NodeOfChassis(p.Holder), fmt.Sprintf("port %s of router %s", p.Name, router)
	switch {
	case p.Holder == "" && len(p.Chassis) == 0:
		e.addBrokenStep(clusterstate.RouterRef(router), "no node holds %s, and none may", port)
	case p.Holder == "":
		e.addBrokenStep(clusterstate.RouterRef(router), "no node holds %s; it may be %s", port, strings.Join(others, " or "))
	case len(others) == 0:
		e.addStep(clusterstate.NodeRef(holder), "%s holds %s, and no other may", holder, port)
	default:
		e.addStep(clusterstate.NodeRef(holder), "%s holds %s; it may also be %s", holder, port, humanize.JoinLimited(others, 4))
	}
}

// addFloatingIPPath adds the path from the router to the target of a floating IP.
func (e *explainer) addFloatingIPPath(f *clusterstate.FIp) {
	if !f.External.IsValid() {
		return
	}
	e.addNATStep(f.Ref, f.Shard, f.External)
	if p := e.s.PodAt(f.Shard, f.Target); p != nil {
		e.addPodStep(p)
	} else if f.Target.IsValid() {
		e.addBrokenStep(f.Ref, "no pod has %s", f.Target)
	}
}

func (e *explainer) addPodStep(p *clusterstate.Pod) {
	text := fmt.Sprintf("pod %s/%s %s on %s %s", p.Namespace, p.Name, joinFew(p.Addresses), p.Node, formatPodState(p))
	e.appendStep(Step{About: p.Ref, Text: text, Broken: !p.Ready})
}

// addNATStep adds the NAT rows of a router for an external address.
func (e *explainer) addNATStep(by state.Ref, router string, a netip.Addr) {
	r := e.findRouter(router)
	if r == nil {
		return
	}
	var into []string
	for _, n := range r.NATs {
		switch {
		case n.External != a:
		case n.Type != "snat":
			into = append(into, formatPrefix(n.Logical)+" has it both ways")
		case n.Match != "":
			into = append(into, "source address of selected pods")
		default:
			into = append(into, "source address of "+formatPrefix(n.Logical))
		}
	}
	into = slices.Compact(into)
	if len(into) == 0 {
		e.addBrokenStep(by, "router %s does not translate %s", router, addressOrNone(a))
		return
	}
	e.addStep(by, "router %s translates %s: %s", router, a, humanize.JoinLimited(into, 3))
}

// addServicePath adds the path from the router to the endpoints of a Service. If brief is set, endpoints are only
// counted.
func (e *explainer) addServicePath(v *clusterstate.Service, brief bool) {
	for _, a := range slices.Concat(v.Ingress, v.ExternalIPs) {
		for _, p := range v.Ports {
			if v.Ours {
				e.addLoadBalancerStep(v, a, p)
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
		if p := e.s.Cluster.Pod(clusterstate.PodRef(v.Namespace, x.Pod)); p != nil {
			name += " " + formatPodState(p)
		}
		down = append(down, name)
	}
	switch {
	case len(v.Endpoints) == 0:
		e.addBrokenStep(v.Ref, "%s has no endpoints", v.Ref)
		return
	case brief:
		text := fmt.Sprintf("%s: %d of %d endpoints ready", v.Ref, len(up), len(v.Endpoints))
		e.appendStep(Step{About: v.Ref, Text: text, Broken: len(up) == 0})
		return
	}
	for _, name := range down {
		e.appendStep(Step{About: v.Ref, Text: "not ready: " + name, Broken: len(up) == 0})
	}
	for _, name := range up {
		e.addStep(v.Ref, "ready: %s", name)
	}
}

// addLoadBalancerStep adds the backends of a Service port according to OVN.
func (e *explainer) addLoadBalancerStep(v *clusterstate.Service, a netip.Addr, p clusterstate.ServicePort) {
	r := e.findRouter(v.Shard)
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
				e.addBrokenStep(v.Ref, "router %s rejects %s: it has no backends", v.Shard, port)
				return
			default:
				e.addStep(v.Ref, "router %s balances %s over %s", v.Shard, port,
					humanize.JoinLimited(humanize.Strings(vip.Backends), 4))
				return
			}
		}
	}
	e.addBrokenStep(v.Ref, "router %s does not balance %s", v.Shard, port)
}

// acceptsIngress reports whether the object receives packets from outside.
func (e *explainer) acceptsIngress() bool {
	switch intent.Kind(e.ref.Kind) {
	case intent.EIp:
		return len(e.s.AddressUsers(e.out.Addresses[0])) > 0
	case intent.FIp, intent.Service:
		return true
	default:
		return false
	}
}

// exampleEndpoint returns an address and port to trace.
func (e *explainer) exampleEndpoint() string {
	a := e.out.Addresses[0]
	for _, u := range append([]state.Ref{e.ref}, e.s.AddressUsers(a)...) {
		if v := e.s.Cluster.Service(u); v != nil && len(v.Ports) > 0 {
			return netip.AddrPortFrom(a, uint16(v.Ports[0].Port)).String() //nolint:gosec // a port of a Service
		}
	}
	return strings.TrimSuffix(netip.AddrPortFrom(a, 0).String(), "0") + "PORT"
}
