// Package trace is the way of a packet through a cluster and of its reply, worked out from a survey, in the words of the API.
//
// It does what OVN does with the rows of the northbound database as they are, in the order of OVN's own tables: it does not matter who
// wrote a row, nor whether it should be there. Connections are kept track of, so that the reply is led as a reply.
package trace

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"

	"github.com/sallyport/sallyport/internal/match"
	"github.com/sallyport/sallyport/internal/state"
	"github.com/sallyport/sallyport/internal/survey"
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
	There []Hop `json:"there"`
	Back  []Hop `json:"back,omitempty"`
	// Verdict is one of the constants below, Code and Reason why, as a constant and in words. About is what it is because of.
	Verdict string      `json:"verdict"`
	Code    string      `json:"code,omitempty"`
	Reason  string      `json:"reason,omitempty"`
	About   []state.Ref `json:"about,omitempty"`
	// Server is who gets the packet: the pod's address and port; and Seen is the source address that it sees.
	Server netip.AddrPort `json:"server"`
	Seen   netip.Addr     `json:"seen"`
	// Network is the one by which what leaves the cluster leaves: the reply, or what a pod sends.
	Network string `json:"network,omitempty"`
	// Passed is everything that the packet and its reply pass: routers, networks, nodes, pods, and the objects behind rows.
	Passed []state.Ref `json:"passed,omitempty"`
	// Doubts are what could not be told, and others that may answer.
	Doubts []string `json:"doubts,omitempty"`
	// Steps are what ovn-trace can be asked about.
	Steps []Step `json:"-"`
}

// The verdicts.
const (
	Answered = "Answered" // the packet arrives, and its reply finds back to the client
	Dropped  = "Dropped"  // on its way there
	Refused  = "Refused"  // somebody answers that nobody is there
	Lost     = "Lost"     // the reply does not find back, or by another network
	Unknown  = "Unknown"  // it can't be told from what is known: the address is none of the cluster's, or a node forwards the packet
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
type Tracer struct{ *fabric }

// New is the tracer of a survey.
func New(s *survey.Survey) *Tracer { return &Tracer{newFabric(s)} }

// most is how many paths are followed.
const most = 256

// anyPort is the client's port where none is given.
const anyPort = 50000

// Trace follows a packet by every way that it may take.
func (t *Tracer) Trace(q Query) Trace {
	out := Trace{Query: q}
	if t.home(q.Server.Addr()) == nil {
		if out.Paths = t.byNodes(q); len(out.Paths) > 0 {
			return out
		}
	}
	chosen := &choices{made: map[string]int{}}
	for range most {
		p := t.follow(q, chosen)
		if !slices.ContainsFunc(out.Paths, func(o Path) bool { return reflect.DeepEqual(o, p) }) { // a policy may overrule a choice
			out.Paths = append(out.Paths, p)
		}
		if !chosen.next() {
			break
		}
	}
	return out
}

// follow is one way.
func (t *Tracer) follow(q Query, chosen *choices) Path {
	w := &walk{fabric: t.fabric, choices: chosen, query: q}
	first, step, wrong := w.first()
	if wrong != nil {
		return *wrong
	}
	end := w.run(step)
	if end.Code == TooDeep && first.repeats() { // the next packet finds what this one has written down, and may get further
		if w.hops, w.steps = nil, nil; first.at != nil {
			w.sends(first)
		}
		end = w.retry(end, func() ending { return w.run(w.resend(first)) })
	}
	out := end.Path
	out.There, out.Seen, out.Server = w.hops, end.flight.Source, end.flight.tuple().destination
	node, forwards := w.forwarder(end)
	switch {
	case forwards:
		w.leavesByNode(&out, node, first, end)
	case end.kind == lost:
		out.Seen, out.Server = netip.Addr{}, netip.AddrPort{}
		if out.Code == AddressUnknown && w.home(q.Server.Addr()) == nil {
			out.Verdict = Unknown
		}
	case end.kind != arrived || first.at != nil:
		w.back(&out, first, end)
	}
	if w.left != nil {
		out.Network = w.networkAbout(w.left).Name
	}
	out.Doubts, out.Passed = w.doubts, w.passed
	out.Steps = slices.DeleteFunc(w.steps, func(s Step) bool { return s.skip })
	return out
}

// start is where a packet begins, and how it looked.
type start struct {
	at     *socket // of the pod that sends it; nil: a host outside
	flight flight
}

// first is the packet of a query, and its first step.
func (w *walk) first() (start, step, *Path) {
	q := w.query
	f := flight{Packet: match.Packet{TTL: 64}}
	f.become(tuple{source: q.Client, destination: q.Server})
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
		return start{}, step{}, &Path{Verdict: Unknown, Code: CantTell, Reason: fmt.Sprintf("protocol %q is none of tcp, udp, sctp and icmp", q.Protocol)}
	}
	if f.SourcePort == 0 {
		f.SourcePort = anyPort
	}
	if q.Pod == "" {
		return start{flight: f}, w.begin(f), nil
	}
	return w.sender(f)
}

// sender is a packet that a pod sends.
func (w *walk) sender(f flight) (start, step, *Path) {
	i := slices.IndexFunc(w.survey.Cluster.Pods, func(p survey.Pod) bool { return p.Namespace+"/"+p.Name == w.query.Pod })
	if i < 0 {
		return start{}, step{}, &Path{Verdict: Unknown, Code: CantTell, Reason: "there is no pod " + w.query.Pod}
	}
	pod := w.survey.Cluster.Pods[i]
	at := w.sockets[pod.Name+"."+pod.Namespace]
	if at == nil || pod.HostNetwork {
		reason := fmt.Sprintf("%s has no port on a switch of OVN", pod.Ref)
		if pod.HostNetwork {
			reason = fmt.Sprintf("%s is on the network of its node %s: what it sends leaves by the node's own routes", pod.Ref, pod.Node)
		}
		return start{}, step{}, &Path{Verdict: Unknown, Code: CantTell, Reason: reason, About: []state.Ref{pod.Ref}}
	}
	for _, a := range at.Addresses {
		if a.Is4() == f.Destination.Is4() {
			f.Source = a
		}
	}
	f.chassis, f.EthSource = at.Chassis, at.mac
	w.sends(start{at, f})
	return start{at, f}, w.send(at, f), nil
}

// sends notes who sends the packet.
func (w *walk) sends(s start) {
	w.hop(s.flight, w.socketAbout(s.at), "Logical_Switch_Port "+s.at.Name, "sends it")
}

// send is the first step of what somebody at a port of a switch sends: to who has the address there, or to the gateway.
func (w *walk) send(at *socket, f flight) step {
	hop := f.Destination
	prefix, _ := at.on.prefix(f.Source)
	if !prefix.Contains(hop) {
		hop = at.on.gateway(f.Source)
	}
	f.chassis, f.EthSource = at.Chassis, at.mac
	for _, o := range w.owners(at.on, hop) {
		if o.socket != at {
			f.EthDestination = o.mac
			return step{swtch: at, flight: f}
		}
	}
	if at.on.outside == nil {
		return w.drop(NobodyAnswers, fmt.Sprintf("nobody on %s has address %s, which %s asks for", at.on.Name, hop, w.socketAbout(at)), w.socketAbout(at))
	}
	f.EthDestination, f.hop = elsewhere, hop
	return step{swtch: at, flight: f}
}

// resend is the first step of one more packet of the same sender.
func (w *walk) resend(s start) step {
	if s.at != nil {
		return w.send(s.at, s.flight)
	}
	return w.begin(s.flight)
}

// repeats says whether a packet that is lost is sent again by itself.
func (s start) repeats() bool {
	return s.flight.Protocol == match.TCP || s.flight.Protocol == match.SCTP
}

// retry follows a packet that is sent once more.
func (w *walk) retry(before ending, again func() ending) ending {
	end := again()
	if end.Code != TooDeep {
		w.doubt("the first packet of a connection is lost, which then takes a second longer: %s", before.Reason)
	}
	return end
}

// back follows the reply, and the packet after it.
func (w *walk) back(out *Path, first start, end ending) {
	there := w.hops
	w.hops = nil
	w.arrives(end, &there)
	out.There = there
	w.returns = true
	back := w.run(w.reply(end))
	if back.Code == TooDeep && first.repeats() {
		w.hops = nil
		back = w.retry(back, func() ending { return w.run(w.reply(end)) })
	}
	w.arrives(back, &out.Back)
	w.silent = true
	switch wrong := w.misses(first, back); {
	case wrong != nil:
		out.Verdict, out.Code, out.Reason, out.About = Lost, wrong.Code, wrong.Reason, wrong.About
	default:
		out.Verdict, out.Code, out.Reason, out.About = Answered, "", "", nil
		w.again(out, first, end)
	}
}

// arrives notes who gets the packet.
func (w *walk) arrives(end ending, there *[]Hop) {
	switch end.kind {
	case delivered:
		about := w.socketAbout(end.at)
		w.hop(end.flight, about, "Logical_Switch_Port "+end.at.Name, "gets it, from %s", end.flight.Source)
	case echoed:
		w.hop(end.flight, end.About[0], "Logical_Router_Port "+end.Reason, "answers itself")
	case arrived:
		w.hop(end.flight, state.Ref{Kind: "Host", Name: end.flight.Destination.String()}, "", "gets it, from %s", end.flight.Source)
	}
	*there = append(*there, w.hops...)
	w.hops = nil
}

// reply is the first step of the answer.
func (w *walk) reply(end ending) step {
	f := end.flight.reversed()
	switch end.kind {
	case delivered:
		w.hop(f, w.socketAbout(end.at), "Logical_Switch_Port "+end.at.Name, "answers")
		return w.send(end.at, f)
	case echoed:
		f.looped = true // it is the router's own
		return step{router: end.echo, flight: f}
	default:
		return w.begin(f)
	}
}

// misses is why a reply does not get to who waits for it; nil: it does.
func (w *walk) misses(first start, back ending) *Path {
	wanted := first.flight.tuple().reversed()
	there := back.kind == arrived && first.at == nil || back.kind == delivered && back.at == first.at
	switch got := back.flight.tuple(); {
	case back.kind == lost:
		return &Path{Code: back.Code, Reason: "the reply is lost: " + back.Reason, About: back.About}
	case there && got == wanted:
		return nil
	case there && got.destination == wanted.destination:
		return &Path{Code: ReplyLeavesElsewhere, About: append(w.blame, w.leftBy()...), Reason: fmt.Sprintf(
			"the reply comes from %s instead of %s, and the client does not know it%s", got.source, wanted.source, w.leftText())}
	default:
		return &Path{Code: ReplyLeavesElsewhere, About: append(w.blame, w.leftBy()...), Reason: fmt.Sprintf(
			"the reply goes to %s instead of %s%s", got.destination, wanted.destination, w.leftText())}
	}
}

func (w *walk) leftText() string {
	if w.left == nil {
		return ""
	}
	return "; it left by " + w.networkName(w.left)
}

func (w *walk) leftBy() []state.Ref {
	if w.left == nil {
		return nil
	}
	return []state.Ref{w.networkAbout(w.left)}
}

// again sends one more packet there: what belongs to a connection is led otherwise than what begins one.
func (w *walk) again(out *Path, first start, end ending) {
	left := w.left
	f := first.flight
	if f.Protocol == match.TCP {
		f.TCPFlags = match.ACK
	}
	third := w.run(w.resend(start{first.at, f}))
	w.left = left
	if third.kind == end.kind && third.at == end.at {
		return
	}
	out.Verdict, out.Code, out.About = Lost, third.Code, third.About
	if out.Reason = "the first packet is answered, the next one is not: " + third.Reason; third.kind != lost {
		out.Code, out.Reason = ReplyLeavesElsewhere, "the first packet is answered, and the next one goes elsewhere"
	}
}
