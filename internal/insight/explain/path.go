package explain

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/insight/trace"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/humanize"
	"github.com/sallyport/sallyport/internal/model/state"
)

// maxTraced limits the connections that are traced: a Service may have many ports, and an EgressIP pods of many projects.
const maxTraced = 8

// addPath adds the path of the connections that the object is for, as the tracer follows them. Hops that several of
// them share are added once.
func (e *explainer) addPath() {
	if e.ovnUnread {
		e.addPart(e.ref, "path unknown, because OVN could not be read")
		return
	}
	for _, q := range limitQueries(e.examples) {
		p := e.tracer.TraceFirst(q)
		if f, failed := p.Finding(); failed && p.Target != nil {
			e.pathFindings = append(e.pathFindings, f)
		}
		for _, h := range p.EndedHops() {
			if !slices.ContainsFunc(e.out.Path, func(o trace.Hop) bool { return o.About == h.About && o.Text == h.Text }) {
				e.out.Path = append(e.out.Path, h)
			}
		}
	}
}

func limitQueries(all []trace.Query) []trace.Query { return all[:min(maxTraced, len(all))] }

// isBroken reports whether packets do not pass, or a part of the object does not work.
func (x *Explanation) isBroken() bool {
	return slices.ContainsFunc(x.Path, func(h trace.Hop) bool { return h.Broken }) ||
		slices.ContainsFunc(x.Parts, func(p Part) bool { return p.Broken })
}

// addPart adds something that the object consists of or depends on.
func (e *explainer) addPart(about state.Ref, format string, args ...any) {
	e.appendPart(Part{About: about, Text: fmt.Sprintf(format, args...)})
}

// addBrokenPart adds a part that does not work.
func (e *explainer) addBrokenPart(about state.Ref, format string, args ...any) {
	e.appendPart(Part{About: about, Text: fmt.Sprintf(format, args...), Broken: true})
}

func (e *explainer) appendPart(p Part) {
	if !slices.Contains(e.out.Parts, p) {
		e.out.Parts = append(e.out.Parts, p)
	}
}

// addAddressParts adds the network of an external address, and the nodes that may hold the router's port there.
func (e *explainer) addAddressParts(router string, a netip.Addr) {
	c := &e.s.Cluster
	on, pool := c.NetworkAt(a), c.ExternalSubnetAt(a)
	switch {
	case !a.IsValid():
		return
	case on == nil:
		e.addBrokenPart(e.ref, "%s is in no external network", a)
	case pool != nil:
		e.addPart(on.Ref, "network %s, Subnet %s %s%s; its gateway is %s", on.Name, pool.Name, joinFew(pool.Prefixes),
			formatVLAN(pool), joinFew(pool.Gateways))
		e.addGatewayPart(router, a)
	default:
		e.addNodeNetworkParts(on)
	}
}

// addNodeNetworkParts adds a network that nodes are attached to.
func (e *explainer) addNodeNetworkParts(on *clusterstate.Network) {
	e.addPart(on.Ref, "network %s; its gateway is %s", on.Name, cmp.Or(joinFew(on.Gateways), "not known"))
	if on.Interface != "" {
		e.addPart(on.Ref, "nodes %s, attached through interface %s",
			cmp.Or(humanize.JoinLimited(on.OnNodes, 6), "none"), on.Interface)
	}
}

// addGatewayPart adds the node that holds the router port on the network of an address, and the standby nodes.
func (e *explainer) addGatewayPart(router string, a netip.Addr) {
	ref := clusterstate.RouterRef(router)
	p := e.s.GatewayPort(router, a)
	switch {
	case e.ovnUnread:
		return
	case e.s.Logical.Router(router) == nil:
		e.addBrokenPart(ref, "there is no router %s in OVN", router)
		return
	case p == nil:
		e.addBrokenPart(ref, "router %s has no port on that network", router)
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
		e.addBrokenPart(ref, "no node holds %s, and none may", port)
	case p.Holder == "":
		e.addBrokenPart(ref, "no node holds %s; it may be %s", port, strings.Join(others, " or "))
	case len(others) == 0:
		e.addPart(clusterstate.NodeRef(holder), "%s holds %s, and no other may", holder, port)
	default:
		e.addPart(clusterstate.NodeRef(holder), "%s holds %s; it may also be %s", holder, port,
			humanize.JoinLimited(others, 4))
	}
}

// addPodPart adds a pod that gets packets.
func (e *explainer) addPodPart(p *clusterstate.Pod) {
	text := fmt.Sprintf("pod %s/%s %s on %s %s", p.Namespace, p.Name, joinFew(p.Addresses), p.Node, formatPodState(p))
	e.appendPart(Part{About: p.Ref, Text: text, Broken: !p.Ready})
}

// addEndpointParts adds the endpoints of a Service. If brief is set, they are only counted.
func (e *explainer) addEndpointParts(v *clusterstate.Service, brief bool) {
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
		e.addBrokenPart(v.Ref, "%s has no endpoints", v.Ref)
		return
	case brief:
		text := fmt.Sprintf("%s: %d of %d endpoints ready", v.Ref, len(up), len(v.Endpoints))
		e.appendPart(Part{About: v.Ref, Text: text, Broken: len(up) == 0})
		return
	}
	for _, name := range down {
		e.appendPart(Part{About: v.Ref, Text: "not ready: " + name, Broken: len(up) == 0})
	}
	for _, name := range up {
		e.addPart(v.Ref, "ready: %s", name)
	}
}

// exampleEndpoint returns an address and port to trace from outside; empty: the object has none.
func (e *explainer) exampleEndpoint() string {
	for _, q := range e.examples {
		switch {
		case q.Pod != "":
		case q.Server.Port() == 0:
			return strings.TrimSuffix(q.Server.String(), "0") + "PORT"
		default:
			return q.Server.String()
		}
	}
	return ""
}
