package trace

import (
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/insight/diagnosis"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/humanize"
	"github.com/sallyport/sallyport/internal/model/state"
)

// traceViaNodes traces a packet to an address that nodes have themselves or that kube-proxy serves. It returns one path
// for each node that may get the packet. What the kernel of a node does is known only from the inspection of that node.
func (t *Tracer) traceViaNodes(q Query) (out []Path) {
	if q.Pod != "" || q.Node != "" {
		return nil
	}
	cluster := &t.survey.Cluster
	network := cluster.NetworkAt(q.Server.Addr())
	for i := range cluster.Nodes {
		n := &cluster.Nodes[i]
		by, on := t.interfaceWithAddress(n.Name, q.Server.Addr()), network
		own := slices.Contains(n.Addresses, q.Server.Addr()) || by != ""
		if on == nil && by != "" {
			on = t.networkOfInterface(n.Name, by)
		}
		if own || on != nil && slices.Contains(on.OnNodes, n.Name) {
			out = append(out, t.traceViaNode(q, n, on, own))
		}
	}
	if i := slices.IndexFunc(out, func(p Path) bool {
		return len(p.RequestHops) > 0 && p.RequestHops[0].About.Kind == clusterstate.NodeKind
	}); i >= 0 {
		return out[i : i+1] // the node that has the address
	}
	if len(out) == 0 {
		return t.traceViaAnyNode(q)
	}
	return out
}

// traceViaNode traces a packet that arrives at one node.
func (t *Tracer) traceViaNode(q Query, n *clusterstate.Node, network *clusterstate.Network, own bool) Path {
	out := Path{PassedRefs: []state.Ref{n.Ref}, Server: q.Server, SeenSource: q.Client.Addr()}
	hop := func(about state.Ref, at []Place, format string, args ...any) {
		out.RequestHops = append(out.RequestHops,
			Hop{About: about, Text: fmt.Sprintf(format, args...), Node: n.Name, Places: at})
		out.PassedRefs = append(out.PassedRefs, about)
	}
	at := []Place{{Kind: AtClient, Label: "client " + q.Client.Addr().String()}}
	if own {
		hop(n.Ref, nil, "has the address itself")
	}
	if network != nil {
		out.Network = network.Name
		at = append(at, Place{Kind: AtNetwork, Ref: network.Ref, Label: network.Name})
		hop(network.Ref, nil, "enters through an interface of node %s", n.Name)
	}
	service, wrong := t.findNodeService(q, own)
	if service != nil {
		hop(service.Ref, nil, "kube-proxy on node %s forwards it to an endpoint", n.Name)
		at = append(at, atNode(n.Name, t.describeKubeProxy(service, q, n.Name)))
		at = append(at, t.atEndpoint(service, q, n.Name)...)
	} else {
		at = append(at, atNode(n.Name, ""))
	}
	if len(out.RequestHops) > 0 {
		out.RequestHops[len(out.RequestHops)-1].Places = at
	}
	switch {
	case wrong != nil:
		out.Verdict, out.Code, out.Reason, out.About = wrong.Verdict, wrong.Code, wrong.Reason, wrong.About
	case !n.Ready:
		out.Verdict, out.Code, out.Reason, out.About = Dropped, diagnosis.NodeNotReady,
			fmt.Sprintf("node %s is not Ready", n.Name), []state.Ref{n.Ref}
	default:
		t.traceNodeReply(&out, q, n, network)
	}
	return out
}

// describeKubeProxy says what kube-proxy does with the client's address.
func (t *Tracer) describeKubeProxy(s *clusterstate.Service, q Query, node string) string {
	if s.Local {
		return q.Server.String() + ", kube-proxy keeps the client's address"
	}
	address, such := "address", " "
	if node == "" && len(t.survey.Cluster.Nodes) > 0 {
		node, such = t.survey.Cluster.Nodes[0].Name, ", such as "
	}
	if at := t.switchPorts[kubeovn.NodePort(node)]; at != nil && len(at.Addresses) > 0 {
		address += such + at.Addresses[0].String()
	}
	return q.Server.String() + ", kube-proxy, SNAT to the node's own " + address + ": the client's is lost"
}

// traceViaAnyNode traces a packet to an external IP of a Service if it is not known which node has the address.
func (t *Tracer) traceViaAnyNode(q Query) []Path {
	service, wrong := t.findNodeService(q, false)
	if q.Pod != "" || service == nil || wrong != nil {
		return nil
	}
	at := []Place{
		{Kind: AtClient, Label: "client " + q.Client.Addr().String()},
		{Kind: AtNode, Label: "any node", Action: t.describeKubeProxy(service, q, "")},
	}
	return []Path{{
		RequestHops: []Hop{{
			About: service.Ref, Text: "kube-proxy on a node forwards it to an endpoint",
			Places: append(at, t.atEndpoint(service, q, "")...),
		}},
		Verdict: Unknown, Code: CantTell, About: []state.Ref{service.Ref}, Server: q.Server, SeenSource: q.Client.Addr(),
		Reason: fmt.Sprintf("%s is an external IP of %s, but no node is known to have it", q.Server.Addr(), service.Ref),
	}}
}

// atEndpoint is the endpoint that kube-proxy on a node sends a packet to.
func (t *Tracer) atEndpoint(s *clusterstate.Service, q Query, node string) []Place {
	for _, p := range s.Ports {
		for _, e := range s.Endpoints {
			if p.Port == int(q.Server.Port()) && e.Port == p.Name && (e.Ready || e.Serving) && (!s.Local || node == "" || e.Node == node) {
				return atPod(clusterstate.PodRef(s.Namespace, e.Pod), e.Address.String(), e.Node)
			}
		}
	}
	return nil
}

// findNodeService returns the Service that serves the address and port on nodes, or the Path of a packet that nothing
// serves.
func (t *Tracer) findNodeService(q Query, own bool) (*clusterstate.Service, *Path) {
	var there *clusterstate.Service
	for i := range t.survey.Cluster.Services {
		s := &t.survey.Cluster.Services[i]
		if !slices.Contains(s.ExternalIPs, q.Server.Addr()) &&
			(s.Ours || !slices.Contains(s.Ingress, q.Server.Addr())) {
			continue
		}
		there = s
		for _, p := range s.Ports {
			if p.Port != int(q.Server.Port()) || !strings.EqualFold(p.Protocol, q.Protocol) {
				continue
			}
			if !slices.ContainsFunc(s.Endpoints, func(e clusterstate.Endpoint) bool {
				return e.Port == p.Name && (e.Ready || e.Serving)
			}) {
				nobody := fmt.Sprintf("%s has no endpoint for port %d", s.Ref, p.Port)
				return s, &Path{Verdict: Refused, Code: NoEndpoints, Reason: nobody, About: []state.Ref{s.Ref}}
			}
			return s, nil
		}
	}
	switch {
	case there != nil && q.Protocol != "icmp":
		return nil, &Path{
			Verdict: Dropped, Code: NoSuchPort, About: []state.Ref{there.Ref},
			Reason: fmt.Sprintf("%s has no port %d/%s", there.Ref, q.Server.Port(), q.Protocol),
		}
	case own || there != nil:
		return nil, nil
	default:
		return nil, &Path{
			Verdict: Dropped,
			Code:    AddressUnknown,
			Reason:  fmt.Sprintf("no Service and no node has %s", q.Server.Addr()),
		}
	}
}

// traceNodeReply finds the interface through which the node replies.
func (t *Tracer) traceNodeReply(out *Path, q Query, n *clusterstate.Node, network *clusterstate.Network) {
	unknown := func(reason string) {
		out.Verdict, out.Code, out.Reason, out.About = Unknown, CantTell, reason, []state.Ref{n.Ref}
	}
	i, asked := t.survey.Inspected[n.Name]
	if !asked || i.Problem != "" {
		unknown(fmt.Sprintf("node %s did not report its routes: check that sallyport-agent runs there",
			n.Name))
		return
	}
	in := t.interfaceWithAddress(n.Name, q.Server.Addr())
	if network != nil {
		in = t.interfaceOnNetwork(n.Name, network)
	}
	route := t.findReplyRoute(i, q, t.nodePathFor(n.Name, network))
	switch {
	case route == nil || in == "":
		unknown(fmt.Sprintf("node %s did not report which interface it uses for replies to %s", n.Name,
			q.Client.Addr()))
	case route.Output != in:
		out.Verdict, out.Code, out.About = Lost, diagnosis.AsymmetricRoute, []state.Ref{n.Ref}
		out.Reason = fmt.Sprintf("the reply is lost: node %s sends it through %s, but the request arrives on %s",
			n.Name, interfaceOrNone(route.Output), in)
	default:
		out.Verdict = Delivered
		out.ReplyHops = []Hop{{
			About: n.Ref,
			Node:  n.Name,
			Text:  fmt.Sprintf("replies through %s, to next hop %s", route.Output, route.NextHop),
		}}
	}
}

func interfaceOrNone(output string) string {
	if output == "" {
		return "no interface"
	}
	return output
}

// nodePathFor returns the settings of the NodePath of a node for a network.
func (t *Tracer) nodePathFor(node string, network *clusterstate.Network) clusterstate.NodeNetwork {
	for _, p := range t.survey.Cluster.NodePaths {
		for _, w := range p.Ways {
			if network != nil && p.Name == node && w.Network == network.Name {
				return w
			}
		}
	}
	return clusterstate.NodeNetwork{}
}

// findReplyRoute returns the route of a reply: the one for the network's mark, otherwise the one from the server to the
// client.
func (t *Tracer) findReplyRoute(i clusterstate.NodeInspection, q Query, w clusterstate.NodeNetwork) *clusterstate.RouteLookup {
	for k := range i.Routes {
		if r := &i.Routes[k]; w.Mark != 0 && r.Mark == w.Mark {
			return r
		}
	}
	for k := range i.Routes {
		if r := &i.Routes[k]; r.Mark == 0 && r.From == q.Server.Addr() && r.To == q.Client.Addr() {
			return r
		}
	}
	return nil
}

// interfaceWithAddress returns the interface of a node that has an address. Empty: no interface has it, or the node was
// not inspected.
func (f *topology) interfaceWithAddress(node string, a netip.Addr) string {
	for _, x := range f.survey.Inspected[node].Interfaces {
		if slices.ContainsFunc(x.Addresses, func(p netip.Prefix) bool { return p.Addr() == a }) {
			return x.Name
		}
	}
	return ""
}

// interfaceOnNetwork returns the interface that connects a node to a network.
func (t *Tracer) interfaceOnNetwork(node string, network *clusterstate.Network) string {
	for _, x := range t.survey.Inspected[node].Interfaces {
		if fits, err := path.Match(network.Interface, x.Name); err == nil && fits {
			return x.Name
		}
	}
	return ""
}

// networkOfInterface returns the network that an interface connects a node to, or nil.
func (t *Tracer) networkOfInterface(node, by string) *clusterstate.Network {
	for i := range t.survey.Cluster.Networks {
		n := &t.survey.Cluster.Networks[i]
		if fits, err := path.Match(n.Interface, by); err == nil && fits && slices.Contains(n.OnNodes, node) {
			return n
		}
	}
	return nil
}

// forwardingNode returns the node that receives a pod's packet for an address the node does not have, and so forwards
// it.
func (w *traceRun) forwardingNode(end outcome) (state.Ref, bool) {
	if w.query.Pod == "" || end.kind != outcomeDelivered {
		return state.Ref{}, false
	}
	about, to := w.switchPortRef(end.switchPort), end.packet.Destination
	if about.Kind != clusterstate.NodeKind || slices.Contains(end.switchPort.Addresses, to) ||
		w.interfaceWithAddress(about.Name, to) != "" {
		return state.Ref{}, false
	}
	has := func(n clusterstate.Node) bool { return n.Name == about.Name && slices.Contains(n.Addresses, to) }
	return about, !slices.ContainsFunc(w.survey.Cluster.Nodes, has)
}

// endAtForwardingNode ends the path of a packet that a node forwards. kube-ovn-cni configures NAT in the kernel of the
// node, which is not visible in OVN's rows.
func (w *traceRun) endAtForwardingNode(out *Path, node state.Ref, first origin, end outcome) {
	does := "forwards it without translating it"
	if subnet := first.switchPort.onSwitch.subnet; subnet != nil && subnet.NatOutgoing {
		does = fmt.Sprintf("forwards it and translates its source to an address of the node (natOutgoing of %s)",
			subnet.Ref)
	}
	w.addHop(end.packet, Hop{
		About:  node,
		Row:    "Logical_Switch_Port " + end.switchPort.Name,
		Places: []Place{atNode(node.Name, does)},
	}, "%s", does)
	out.RequestHops, out.SeenSource, out.Server = w.hops, netip.Addr{}, netip.AddrPort{}
	out.Verdict, out.Code, out.About = Unknown, LeavesByNode, []state.Ref{node}
	out.Reason = fmt.Sprintf("it leaves through node %s, which %s; what happens to it next is not in OVN's rows",
		node.Name, does)
}

// sendFromNode sends the packet of the query from a node's port in OVN, for the node or a pod on its host network. The node has routes through that port to the
// Subnets of Kube-OVN's default VPC; other destinations follow routes that are not in OVN's rows.
func (w *traceRun) sendFromNode(node string, f packet) (origin, transition, *Path) {
	about := clusterstate.NodeRef(node)
	at := w.switchPorts[kubeovn.NodePort(node)]
	switch {
	case at == nil:
		var names []string
		for _, n := range w.survey.Cluster.Nodes {
			names = append(names, n.Name)
		}
		reason := fmt.Sprintf("node %s does not exist, or has no logical switch port in OVN%s", node,
			humanize.SuggestName(node, names))
		if len(w.survey.Unread) > 0 {
			reason = fmt.Sprintf("node %s %s", node, w.survey.DescribeAbsence(clusterstate.Northbound,
				clusterstate.Kubernetes, clusterstate.Southbound))
		}
		return origin{}, transition{}, &Path{
			Verdict: Unknown, Code: CantTell, About: []state.Ref{about}, Reason: reason,
		}
	case !at.reachesOverRouter(f.Destination):
		return origin{}, transition{}, &Path{
			Verdict: Unknown, Code: CantTell, About: []state.Ref{about},
			Reason: fmt.Sprintf("%s is in no Subnet that node %s reaches through OVN: its packets follow the routes of the node",
				f.Destination, node),
		}
	}
	first, next := w.sendFirstPacket(at, f)
	return first, next, nil
}

// reachesOverRouter reports whether a router on the port's switch has a Subnet with an address.
func (p *switchPort) reachesOverRouter(a netip.Addr) bool {
	if p == nil {
		return false
	}
	for _, at := range p.onSwitch.ports {
		if at.routerPort == nil {
			continue
		}
		for _, o := range at.routerPort.router.ports {
			if o.switchPort == nil || o.switchPort.onSwitch.localnetPort != nil {
				continue
			}
			if _, in := o.switchPort.onSwitch.prefixContaining(a); in {
				return true
			}
		}
	}
	return false
}
