// Package trace computes the path of a packet through a cluster, and the path of its reply, from a survey. It reports
// them in terms of API objects.
//
// It evaluates the rows of the northbound database as they are, in the order of OVN's pipeline stages. It does not
// matter who wrote a row or whether it should exist. Connections are tracked, so that the reply is processed as a
// reply.
package trace

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/humanize"
	"github.com/sallyport/sallyport/internal/model/ipfamily"
	"github.com/sallyport/sallyport/internal/model/match"
	"github.com/sallyport/sallyport/internal/model/state"
)

// Query describes the first packet of a connection.
type Query struct {
	// Pod is the sender, as namespace/name. Empty: the packet enters from outside, from Client.
	Pod string `json:"pod,omitempty"`
	// Node is the sender, if it is a node itself. Pod and Client are not set then.
	Node string `json:"node,omitempty"`
	// Client is the source. Port 0 means any port.
	Client netip.AddrPort `json:"client"`
	// Server is the destination. Protocol is tcp, udp, sctp or icmp.
	Server   netip.AddrPort `json:"server"`
	Protocol string         `json:"protocol"`
	// Size is the size of the largest packets in bytes; 0 means small packets. It has no effect yet.
	Size int `json:"size,omitempty"`
}

// Trace is the result for a query. If a load balancer or several routes may choose, there is one Path for each choice.
type Trace struct {
	Query Query  `json:"query"`
	Paths []Path `json:"paths"`
}

// Path is one path of the request, and the path of its reply.
type Path struct {
	RequestHops []Hop `json:"there"`
	ReplyHops   []Hop `json:"back,omitempty"`
	// Verdict is one of the constants below. Code and Reason explain it, as a constant and as text. About lists the
	// objects that caused it.
	Verdict string      `json:"verdict"`
	Code    string      `json:"code,omitempty"`
	Reason  string      `json:"reason,omitempty"`
	About   []state.Ref `json:"about,omitempty"`
	// Server is the address and port of the pod that gets the packet. SeenSource is the source address it sees.
	Server     netip.AddrPort `json:"server"`
	SeenSource netip.Addr     `json:"seen"`
	// Network is the network through which traffic leaves the cluster: the reply, or the request of a pod.
	Network string `json:"network,omitempty"`
	// PassedRefs lists everything the packet and its reply pass: routers, networks, nodes, pods, and the API objects
	// behind rows.
	PassedRefs []state.Ref `json:"passed,omitempty"`
	// Caveats lists what could not be determined, and other hosts that may answer.
	Caveats []string `json:"doubts,omitempty"`
	// Target is the port of the pod that gets the packet, for asking its node; nil: no pod gets it.
	Target *Target `json:"-"`
	// Entry is where a packet from outside enters OVN, and Exit where the last packet left it. Nil: nowhere.
	Entry *Entry `json:"-"`
	Exit  *Exit  `json:"-"`
	// Steps lists the datapaths passed, for comparison with ovn-trace.
	Steps []DatapathStep `json:"-"`
}

// The verdicts.
const (
	// The packet arrives, and its reply would reach the client: computed. Whether the receiver replies is not known.
	Delivered = "Delivered"
	Answered  = "Answered" // also, the receiver was asked through its node's agent, and replied
	Dropped   = "Dropped"  // the request is dropped
	Refused   = "Refused"  // the request is rejected, by a rule or by the receiver, and the sender is told so
	Lost      = "Lost"     // the reply does not reach the client, or leaves through another network
	// the survey is not enough to decide: the address is not one of the cluster's, or a node forwards the packet
	Unknown = "Unknown"
)

// Hop is one event on the path.
type Hop struct {
	// About is the API object, or the Network, Router, Node or Pod, that the hop concerns.
	About state.Ref `json:"about"`
	Text  string    `json:"text"` // what happens
	Node  string    `json:"node,omitempty"`
	// Row names the OVN row that causes it, in a form that can be looked up. Packet is the packet after it.
	Row    string `json:"row,omitempty"`
	Packet string `json:"packet,omitempty"`
	// Broken is set if packets end here although they should not; see EndedHops.
	Broken bool `json:"broken,omitempty"`
	// Places are where it happens; see Path.Places.
	Places []Place `json:"-"`
}

// Tracer answers queries about one survey.
type Tracer struct {
	*topology
	outsideHosts map[ipfamily.Family]netip.Addr // a host outside, for examples
}

// New returns a tracer for a survey.
func New(s *clusterstate.State) *Tracer {
	t := &Tracer{topology: newTopology(s), outsideHosts: map[ipfamily.Family]netip.Addr{}}
	for _, f := range ipfamily.Both {
		t.outsideHosts[f] = t.findOutsideHost(f)
	}
	return t
}

// maxPaths is the maximum number of paths of a trace.
const maxPaths = 256

// defaultClientPort is used as the client's port if the query has none.
const defaultClientPort = 50000

// TraceFirst follows a packet along the first of the paths it may take.
func (t *Tracer) TraceFirst(q Query) Path {
	if t.externalSwitchFor(q.Server.Addr()) == nil {
		if paths := t.traceViaNodes(q); len(paths) > 0 {
			return paths[0]
		}
	}
	return t.tracePath(q, &choices{indexByRow: map[string]int{}})
}

// Trace follows a packet along every path it may take.
func (t *Tracer) Trace(q Query) Trace {
	out := Trace{Query: q}
	if t.externalSwitchFor(q.Server.Addr()) == nil {
		if out.Paths = t.traceViaNodes(q); len(out.Paths) > 0 {
			return out
		}
	}
	chosen := &choices{indexByRow: map[string]int{}}
	for range maxPaths {
		p := t.tracePath(q, chosen)
		// different choices can give the same path: a policy may override a route
		if !slices.ContainsFunc(out.Paths, func(o Path) bool { return reflect.DeepEqual(o, p) }) {
			out.Paths = append(out.Paths, p)
		}
		if !chosen.nextCombination() {
			break
		}
	}
	return out
}

// tracePath follows one path, with the choices given.
func (t *Tracer) tracePath(q Query, chosen *choices) Path {
	w := &traceRun{topology: t.topology, choices: chosen, query: q}
	first, step, wrong := w.buildFirstPacket()
	if wrong != nil {
		return *wrong
	}
	end := w.followPacket(step)
	// A retransmission finds the connections that the first packet created, and may get further.
	if end.Code == TooDeep && first.retransmits() {
		if w.hops, w.steps = nil, nil; first.switchPort != nil {
			w.noteSender(first)
		}
		end = w.retryPacket(end, func() outcome { return w.followPacket(w.resendPacket(first)) })
	}
	out := end.Path
	out.RequestHops, out.SeenSource, out.Server = w.hops, end.packet.Source, end.packet.tuple().destination
	node, forwards := w.forwardingNode(end)
	switch {
	case forwards:
		w.endAtForwardingNode(&out, node, first, end)
	case end.kind == outcomeLost:
		out.SeenSource, out.Server = netip.Addr{}, netip.AddrPort{}
		if out.Code == CantTell || out.Code == AddressUnknown && w.externalSwitchFor(q.Server.Addr()) == nil {
			out.Verdict = Unknown
		}
	case end.kind != outcomeArrived || first.switchPort != nil:
		w.traceReply(&out, first, end)
	}
	if w.exitSwitch != nil {
		out.Network = w.networkRef(w.exitSwitch).Name
		out.Exit = &Exit{Node: w.nodeOfChassis(w.exitChassis), Network: w.exitSwitch.localnetPort.Localnet}
	}
	out.Entry = w.entry
	out.Caveats, out.PassedRefs = w.caveats, w.passedRefs
	if out.Verdict == Delivered && end.kind == outcomeDelivered {
		out.Target = w.targetOf(end)
		w.applyPortAnswer(&out)
	}
	out.Steps = slices.DeleteFunc(w.steps, func(s DatapathStep) bool { return s.skipOVNTrace })
	return out
}

// origin is the sender of a packet, and the packet as it was sent.
type origin struct {
	switchPort *switchPort // port of the sending pod; nil: a host outside the cluster
	packet     packet
}

// buildFirstPacket builds the packet of the query and returns its first transition, or the Path of a query that cannot
// be traced.
func (w *traceRun) buildFirstPacket() (origin, transition, *Path) {
	q := w.query
	f := packet{Packet: match.Packet{TTL: 64}}
	f.setTuple(tuple{source: q.Client, destination: q.Server})
	switch q.Protocol {
	case "tcp":
		f.Protocol, f.TCPFlags = match.TCP, match.SYN
	case "udp":
		f.Protocol = match.UDP
	case "sctp":
		f.Protocol = match.SCTP
	case "icmp":
		f.Protocol, f.ICMPType = match.EchoRequest(ipfamily.Of(f.Destination))
		f.DestinationPort = 0
	default:
		return origin{}, transition{}, &Path{
			Verdict: Unknown,
			Code:    CantTell,
			Reason:  fmt.Sprintf("protocol %q is not supported; use tcp, udp, sctp or icmp", q.Protocol),
		}
	}
	if f.SourcePort == 0 {
		f.SourcePort = defaultClientPort
	}
	switch {
	case q.Node != "":
		return w.sendFromNode(q.Node, f)
	case q.Pod != "":
		return w.sendFromPod(f)
	default:
		return origin{packet: f}, w.enterFromOutside(f), nil
	}
}

// sendFromPod sends the packet of the query from its pod.
func (w *traceRun) sendFromPod(f packet) (origin, transition, *Path) {
	pod := w.podsByName[w.query.Pod]
	if pod == nil {
		return origin{}, transition{}, &Path{
			Verdict: Unknown, Code: CantTell,
			Reason: "pod " + w.query.Pod + " " + w.survey.DescribeAbsence(clusterstate.Kubernetes) +
				humanize.SuggestName(w.query.Pod, sortedKeys(w.podsByName)),
		}
	}
	at := w.switchPorts[kubeovn.PodPort(pod.Name, pod.Namespace)]
	if own := w.switchPorts[kubeovn.NodePort(pod.Node)]; pod.HostNetwork && own.reachesOverRouter(f.Destination) {
		return w.sendFromNode(pod.Node, f)
	}
	if at == nil || pod.HostNetwork {
		reason := fmt.Sprintf("%s has no logical switch port in OVN", pod.Ref)
		if pod.HostNetwork {
			reason = fmt.Sprintf("%s uses the host network of its node %s: its packets follow the routes of the node",
				pod.Ref, pod.Node)
		}
		return origin{}, transition{}, &Path{
			Verdict: Unknown,
			Code:    CantTell,
			Reason:  reason,
			About:   []state.Ref{pod.Ref},
		}
	}
	first, next := w.sendFirstPacket(at, f)
	return first, next, nil
}

// sendFirstPacket sends the packet of the query from a switch port, with the port's address.
func (w *traceRun) sendFirstPacket(at *switchPort, f packet) (origin, transition) {
	for _, a := range at.Addresses {
		if ipfamily.Same(a, f.Destination) {
			f.Source = a
		}
	}
	f.chassis, f.EthSource = at.Chassis, at.mac
	w.noteSender(origin{at, f})
	return origin{at, f}, w.sendFromPort(at, f)
}

func (w *traceRun) noteSender(s origin) {
	about, node := w.switchPortRef(s.switchPort), w.nodeOfChassis(s.packet.chassis)
	places := atPod(about, s.packet.formatSource(w.query), node)
	if about.Kind == clusterstate.NodeKind {
		places = []Place{atNode(about.Name, "sends it from "+s.packet.Source.String())}
	}
	w.addHop(s.packet, Hop{About: about, Row: "Logical_Switch_Port " + s.switchPort.Name, Places: places}, "sends it")
}

// sendFromPort sends a packet from a port of a switch: to the owner of the destination address on that switch, or to
// the gateway.
func (w *traceRun) sendFromPort(at *switchPort, f packet) transition {
	hop := f.Destination
	prefix, _ := at.onSwitch.prefixContaining(f.Source)
	if !prefix.Contains(hop) {
		hop = at.onSwitch.gatewayFor(f.Source)
	}
	f.chassis, f.EthSource = at.Chassis, at.mac
	for _, o := range at.onSwitch.findAddressOwners(hop) {
		if o.switchPort != at {
			f.EthDestination = o.mac
			return transition{toSwitch: at, packet: f}
		}
	}
	if at.onSwitch.localnetPort == nil {
		return w.dropPacket(NobodyAnswers, fmt.Sprintf("no port on %s has address %s, which %s tries to resolve",
			at.onSwitch.Name, hop, w.switchPortRef(at)), w.switchPortRef(at))
	}
	f.EthDestination, f.nextHop = externalMAC, hop
	return transition{toSwitch: at, packet: f}
}

// resendPacket sends another packet of the same sender.
func (w *traceRun) resendPacket(s origin) transition {
	if s.switchPort != nil {
		return w.sendFromPort(s.switchPort, s.packet)
	}
	return w.enterFromOutside(s.packet)
}

// retransmits reports whether the protocol sends a lost packet again.
func (s origin) retransmits() bool {
	return s.packet.Protocol == match.TCP || s.packet.Protocol == match.SCTP
}

// retryPacket follows a retransmission, and adds a caveat if it gets further than the first packet.
func (w *traceRun) retryPacket(before outcome, again func() outcome) outcome {
	end := again()
	if end.Code != TooDeep {
		w.addCaveat("the first packet of each connection is lost, so opening one takes a second longer: %s",
			before.Reason)
	}
	return end
}

// traceReply follows the reply, and then the next packet of the connection.
func (w *traceRun) traceReply(out *Path, first origin, end outcome) {
	there := w.hops
	w.hops = nil
	w.noteArrival(end, &there)
	out.RequestHops = there
	w.onReply = true
	back := w.followPacket(w.startReply(end))
	if back.Code == TooDeep && first.retransmits() {
		w.hops = nil
		back = w.retryPacket(back, func() outcome { return w.followPacket(w.startReply(end)) })
	}
	w.noteArrival(back, &out.ReplyHops)
	w.silent = true
	switch wrong := w.checkReply(first, back); {
	case wrong != nil:
		out.Verdict, out.Code, out.Reason, out.About = Lost, wrong.Code, wrong.Reason, wrong.About
	default:
		out.Verdict, out.Code, out.Reason, out.About = Delivered, "", "", nil
		w.traceNextPacket(out, first, end)
	}
}

// noteArrival adds a hop for the receiver of the packet.
func (w *traceRun) noteArrival(end outcome, there *[]Hop) {
	switch end.kind {
	case outcomeDelivered:
		about := w.switchPortRef(end.switchPort)
		w.addHop(end.packet, Hop{
			About:  about,
			Row:    "Logical_Switch_Port " + end.switchPort.Name,
			Places: atPod(about, end.packet.formatDestination(w.query), w.nodeOfChassis(end.packet.chassis)),
		}, "receives it, from %s", end.packet.Source)
	case outcomeEchoed:
		w.addHop(end.packet, Hop{
			About:  end.About[0],
			Row:    "Logical_Router_Port " + end.Reason,
			Places: atRouter(end.echoPort.router.Name, "answers the ping itself"),
		}, "answers the ping itself")
	case outcomeArrived:
		w.addHop(end.packet, Hop{
			About:  state.Ref{Kind: "Host", Name: end.packet.Destination.String()},
			Places: []Place{w.atOutside(end.packet.Destination)},
		}, "receives it, from %s", end.packet.Source)
	}
	*there = append(*there, w.hops...)
	w.hops = nil
}

// startReply sends the reply.
func (w *traceRun) startReply(end outcome) transition {
	f := end.packet.replyPacket()
	switch end.kind {
	case outcomeDelivered:
		about := w.switchPortRef(end.switchPort)
		w.addHop(f, Hop{
			About:  about,
			Row:    "Logical_Switch_Port " + end.switchPort.Name,
			Places: atPod(about, f.formatSource(w.query), w.nodeOfChassis(f.chassis)),
		}, "answers")
		return w.sendFromPort(end.switchPort, f)
	case outcomeEchoed:
		f.egressLooped = true // the router itself sends it
		return transition{toRouter: end.echoPort, packet: f}
	default:
		return w.enterFromOutside(f)
	}
}

// checkReply returns why a reply does not reach the sender of the request, or nil if it does.
func (w *traceRun) checkReply(first origin, back outcome) *Path {
	wanted := first.packet.tuple().reversed()
	there := back.kind == outcomeArrived && first.switchPort == nil || back.kind == outcomeDelivered &&
		back.switchPort == first.switchPort
	switch got := back.packet.tuple(); {
	case back.kind == outcomeLost:
		return &Path{Code: back.Code, Reason: "the reply is lost: " + back.Reason, About: back.About}
	case there && got == wanted:
		return nil
	case there && got.destination == wanted.destination:
		return &Path{
			Code: ReplyLeavesElsewhere, About: append(w.foreignPolicies, w.exitNetworkRefs()...),
			Reason: fmt.Sprintf(
				"the reply has source %s instead of %s, so the client discards it%s", got.source, wanted.source,
				w.describeExit()),
		}
	default:
		return &Path{
			Code: ReplyLeavesElsewhere, About: append(w.foreignPolicies, w.exitNetworkRefs()...),
			Reason: fmt.Sprintf(
				"the reply has destination %s instead of %s%s", got.destination, wanted.destination, w.describeExit()),
		}
	}
}

func (w *traceRun) describeExit() string {
	if w.exitSwitch == nil {
		return ""
	}
	return "; it left through " + w.networkName(w.exitSwitch)
}

func (w *traceRun) exitNetworkRefs() []state.Ref {
	if w.exitSwitch == nil {
		return nil
	}
	return []state.Ref{w.networkRef(w.exitSwitch)}
}

// traceNextPacket sends one more request packet: packets of an established connection take other flows than the first
// one.
func (w *traceRun) traceNextPacket(out *Path, first origin, end outcome) {
	left, by := w.exitSwitch, w.exitChassis
	f := first.packet
	if f.Protocol == match.TCP {
		f.TCPFlags = match.ACK
	}
	third := w.followPacket(w.resendPacket(origin{first.switchPort, f}))
	w.exitSwitch, w.exitChassis = left, by
	if third.kind == end.kind && third.switchPort == end.switchPort {
		return
	}
	out.Verdict, out.Code, out.About = Lost, third.Code, third.About
	if out.Reason = "the first packet is answered, the next one is not: " + third.Reason; third.kind != outcomeLost {
		out.Code, out.Reason = ReplyLeavesElsewhere, "the first packet is answered, the next one takes another path"
	}
}
