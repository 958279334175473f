// Package trace is the way of a packet through a cluster and of its reply, worked out from a survey, in the words of
// the API.
//
// It does what OVN does with the rows of the northbound database as they are, in the order of OVN's own tables: it does
// not matter who wrote a row, nor whether it should be there. Connections are kept track of, so that the reply is led
// as a reply.
package trace

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/match"
	"github.com/sallyport/sallyport/internal/model/state"
)

// Query is the packet that is asked about: a connection's first.
type Query struct {
	// Pod it is sent from, as namespace/name; empty: it comes from outside, from Client.
	Pod string `json:"pod,omitempty"`
	// Client is the source. Port 0: any.
	Client netip.AddrPort `json:"client"`
	// Server is the destination, and Protocol tcp, udp, sctp or icmp.
	Server   netip.AddrPort `json:"server"`
	Protocol string         `json:"protocol"`
	// Size of the largest packets in bytes; 0: small ones.
	Size int `json:"size,omitempty"`
}

// Trace is what becomes of it. Where connections are spread over several backends, each is a Path.
type Trace struct {
	Query Query  `json:"query"`
	Paths []Path `json:"paths"`
}

// Path is one way there, and the way back.
type Path struct {
	RequestHops []Hop `json:"there"`
	ReplyHops   []Hop `json:"back,omitempty"`
	// Verdict is one of the constants below, Code and Reason why, as a constant and in words. About is what it is
	// because of.
	Verdict string      `json:"verdict"`
	Code    string      `json:"code,omitempty"`
	Reason  string      `json:"reason,omitempty"`
	About   []state.Ref `json:"about,omitempty"`
	// Server is who gets the packet: the pod's address and port; and Seen is the source address that it sees.
	Server     netip.AddrPort `json:"server"`
	SeenSource netip.Addr     `json:"seen"`
	// Network is the one by which what leaves the cluster leaves: the reply, or what a pod sends.
	Network string `json:"network,omitempty"`
	// PassedRefs is everything that the packet and its reply pass: routers, networks, nodes, pods, and the objects
	// behind rows.
	PassedRefs []state.Ref `json:"passed,omitempty"`
	// Caveats are what could not be told, and others that may answer.
	Caveats []string `json:"doubts,omitempty"`
	// Steps are what ovn-trace can be asked about.
	Steps []DatapathStep `json:"-"`
}

// The verdicts.
const (
	Answered = "Answered" // the packet arrives, and its reply finds back to the client
	Dropped  = "Dropped"  // on its way there
	Refused  = "Refused"  // somebody answers that nobody is there
	Lost     = "Lost"     // the reply does not find back, or by another network
	// it can't be told from what is known: the address is none of the cluster's, or a node forwards the packet
	Unknown = "Unknown"
)

// Hop is a step on the way.
type Hop struct {
	// About is the object of the API, or the Network, Router, Node or Pod, that the step is about.
	About state.Ref `json:"about"`
	Text  string    `json:"text"` // what happens there
	Node  string    `json:"node,omitempty"`
	// Row is the row of OVN that makes it happen, as somebody would look it up, and Packet the packet after it.
	Row    string `json:"row,omitempty"`
	Packet string `json:"packet,omitempty"`
}

// Tracer answers questions about one survey.
type Tracer struct{ *topology }

// New is the tracer of a survey.
func New(s *clusterstate.State) *Tracer { return &Tracer{newTopology(s)} }

// maxPaths is how many paths are followed.
const maxPaths = 256

// defaultClientPort is the client's port where none is given.
const defaultClientPort = 50000

// Trace follows a packet by every way that it may take.
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
		// a policy may overrule a choice
		if !slices.ContainsFunc(out.Paths, func(o Path) bool { return reflect.DeepEqual(o, p) }) {
			out.Paths = append(out.Paths, p)
		}
		if !chosen.nextCombination() {
			break
		}
	}
	return out
}

// tracePath is one way.
func (t *Tracer) tracePath(q Query, chosen *choices) Path {
	w := &traceRun{topology: t.topology, choices: chosen, query: q}
	first, step, wrong := w.buildFirstPacket()
	if wrong != nil {
		return *wrong
	}
	end := w.followPacket(step)
	// the next packet finds what this one has written down, and may get further
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
		if out.Code == AddressUnknown && w.externalSwitchFor(q.Server.Addr()) == nil {
			out.Verdict = Unknown
		}
	case end.kind != outcomeArrived || first.switchPort != nil:
		w.traceReply(&out, first, end)
	}
	if w.exitSwitch != nil {
		out.Network = w.networkRef(w.exitSwitch).Name
	}
	out.Caveats, out.PassedRefs = w.caveats, w.passedRefs
	out.Steps = slices.DeleteFunc(w.steps, func(s DatapathStep) bool { return s.skipOVNTrace })
	return out
}

// origin is where a packet begins, and how it looked.
type origin struct {
	switchPort *switchPort // of the pod that sends it; nil: a host outside
	packet     packet
}

// buildFirstPacket is the packet of a query, and its first step.
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
		f.Protocol, f.ICMPType, f.DestinationPort = match.ICMP, 8, 0
		if f.Destination.Is6() {
			f.Protocol, f.ICMPType = match.ICMPv6, 128
		}
	default:
		return origin{}, transition{}, &Path{
			Verdict: Unknown,
			Code:    CantTell,
			Reason:  fmt.Sprintf("protocol %q is none of tcp, udp, sctp and icmp", q.Protocol),
		}
	}
	if f.SourcePort == 0 {
		f.SourcePort = defaultClientPort
	}
	if q.Pod == "" {
		return origin{packet: f}, w.enterFromOutside(f), nil
	}
	return w.sendFromPod(f)
}

// sendFromPod is a packet that a pod sends.
func (w *traceRun) sendFromPod(f packet) (origin, transition, *Path) {
	i := slices.IndexFunc(w.survey.Cluster.Pods, func(p clusterstate.Pod) bool {
		return p.Namespace+"/"+p.Name == w.query.Pod
	})
	if i < 0 {
		return origin{}, transition{}, &Path{Verdict: Unknown, Code: CantTell, Reason: "there is no pod " + w.query.Pod}
	}
	pod := w.survey.Cluster.Pods[i]
	at := w.switchPorts[kubeovn.PodPort(pod.Name, pod.Namespace)]
	if at == nil || pod.HostNetwork {
		reason := fmt.Sprintf("%s has no port on a switch of OVN", pod.Ref)
		if pod.HostNetwork {
			reason = fmt.Sprintf("%s is on the network of its node %s: what it sends leaves by the node's own routes",
				pod.Ref, pod.Node)
		}
		return origin{}, transition{}, &Path{
			Verdict: Unknown,
			Code:    CantTell,
			Reason:  reason,
			About:   []state.Ref{pod.Ref},
		}
	}
	for _, a := range at.Addresses {
		if a.Is4() == f.Destination.Is4() {
			f.Source = a
		}
	}
	f.chassis, f.EthSource = at.Chassis, at.mac
	w.noteSender(origin{at, f})
	return origin{at, f}, w.sendFromPort(at, f), nil
}

// noteSender notes who sends the packet.
func (w *traceRun) noteSender(s origin) {
	w.addHop(s.packet, w.switchPortRef(s.switchPort), "Logical_Switch_Port "+s.switchPort.Name, "sends it")
}

// sendFromPort is the first step of what somebody at a port of a switch sends: to who has the address there, or to the
// gateway.
func (w *traceRun) sendFromPort(at *switchPort, f packet) transition {
	hop := f.Destination
	prefix, _ := at.onSwitch.prefixContaining(f.Source)
	if !prefix.Contains(hop) {
		hop = at.onSwitch.gatewayFor(f.Source)
	}
	f.chassis, f.EthSource = at.Chassis, at.mac
	for _, o := range w.findAddressOwners(at.onSwitch, hop) {
		if o.switchPort != at {
			f.EthDestination = o.mac
			return transition{toSwitch: at, packet: f}
		}
	}
	if at.onSwitch.localnetPort == nil {
		return w.dropPacket(NobodyAnswers, fmt.Sprintf("nobody on %s has address %s, which %s asks for",
			at.onSwitch.Name, hop, w.switchPortRef(at)), w.switchPortRef(at))
	}
	f.EthDestination, f.nextHop = externalMAC, hop
	return transition{toSwitch: at, packet: f}
}

// resendPacket is the first step of one more packet of the same sender.
func (w *traceRun) resendPacket(s origin) transition {
	if s.switchPort != nil {
		return w.sendFromPort(s.switchPort, s.packet)
	}
	return w.enterFromOutside(s.packet)
}

// retransmits says whether a packet that is lost is sent again by itself.
func (s origin) retransmits() bool {
	return s.packet.Protocol == match.TCP || s.packet.Protocol == match.SCTP
}

// retryPacket follows a packet that is sent once more.
func (w *traceRun) retryPacket(before outcome, again func() outcome) outcome {
	end := again()
	if end.Code != TooDeep {
		w.addCaveat("the first packet of a connection is lost, which then takes a second longer: %s", before.Reason)
	}
	return end
}

// traceReply follows the reply, and the packet after it.
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
		out.Verdict, out.Code, out.Reason, out.About = Answered, "", "", nil
		w.traceNextPacket(out, first, end)
	}
}

// noteArrival notes who gets the packet.
func (w *traceRun) noteArrival(end outcome, there *[]Hop) {
	switch end.kind {
	case outcomeDelivered:
		about := w.switchPortRef(end.switchPort)
		w.addHop(end.packet, about, "Logical_Switch_Port "+end.switchPort.Name, "gets it, from %s", end.packet.Source)
	case outcomeEchoed:
		w.addHop(end.packet, end.About[0], "Logical_Router_Port "+end.Reason, "answers itself")
	case outcomeArrived:
		w.addHop(end.packet, state.Ref{Kind: "Host", Name: end.packet.Destination.String()}, "", "gets it, from %s",
			end.packet.Source)
	}
	*there = append(*there, w.hops...)
	w.hops = nil
}

// startReply is the first step of the answer.
func (w *traceRun) startReply(end outcome) transition {
	f := end.packet.replyPacket()
	switch end.kind {
	case outcomeDelivered:
		w.addHop(f, w.switchPortRef(end.switchPort), "Logical_Switch_Port "+end.switchPort.Name, "answers")
		return w.sendFromPort(end.switchPort, f)
	case outcomeEchoed:
		f.egressLooped = true // it is the router's own
		return transition{toRouter: end.echoPort, packet: f}
	default:
		return w.enterFromOutside(f)
	}
}

// checkReply is why a reply does not get to who waits for it; nil: it does.
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
				"the reply comes from %s instead of %s, and the client does not know it%s", got.source, wanted.source,
				w.describeExit()),
		}
	default:
		return &Path{
			Code: ReplyLeavesElsewhere, About: append(w.foreignPolicies, w.exitNetworkRefs()...),
			Reason: fmt.Sprintf(
				"the reply goes to %s instead of %s%s", got.destination, wanted.destination, w.describeExit()),
		}
	}
}

func (w *traceRun) describeExit() string {
	if w.exitSwitch == nil {
		return ""
	}
	return "; it left by " + w.networkName(w.exitSwitch)
}

func (w *traceRun) exitNetworkRefs() []state.Ref {
	if w.exitSwitch == nil {
		return nil
	}
	return []state.Ref{w.networkRef(w.exitSwitch)}
}

// traceNextPacket sends one more packet there: what belongs to a connection is led otherwise than what begins one.
func (w *traceRun) traceNextPacket(out *Path, first origin, end outcome) {
	left := w.exitSwitch
	f := first.packet
	if f.Protocol == match.TCP {
		f.TCPFlags = match.ACK
	}
	third := w.followPacket(w.resendPacket(origin{first.switchPort, f}))
	w.exitSwitch = left
	if third.kind == end.kind && third.switchPort == end.switchPort {
		return
	}
	out.Verdict, out.Code, out.About = Lost, third.Code, third.About
	if out.Reason = "the first packet is answered, the next one is not: " + third.Reason; third.kind != outcomeLost {
		out.Code, out.Reason = ReplyLeavesElsewhere, "the first packet is answered, and the next one goes elsewhere"
	}
}
