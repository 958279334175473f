package trace

import (
	"fmt"
	"net/netip"
	"slices"

	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/insight/diagnosis"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
)

// Entry is where a packet from outside enters OVN.
type Entry struct {
	Node        string
	Network     string
	LogicalPort string // of type localnet
	VLAN        int
	MAC         string // what answers for the destination
}

// Exit is where a packet leaves to an external network.
type Exit struct {
	Node    string
	Network string // the provider network
}

// SendQuestion returns the question to the node at which the packet of a query enters, and false if no packet can enter:
// it is not one from outside, or nothing answers for its destination.
func (p Path) SendQuestion(q Query, port uint16, mark uint32) (kubedcv1alpha1.SendQuestion, bool) {
	if p.Entry == nil || q.Pod != "" || q.Node != "" {
		return kubedcv1alpha1.SendQuestion{}, false
	}
	out := kubedcv1alpha1.SendQuestion{
		LogicalPort: p.Entry.LogicalPort, Vlan: int32(p.Entry.VLAN), MAC: p.Entry.MAC, //nolint:gosec // a VLAN has 12 bits
		From: q.Client.Addr().String(), To: q.Server.Addr().String(), Protocol: q.Protocol, Mark: int64(mark),
	}
	if q.Protocol != "icmp" {
		out.Port, out.FromPort = int32(q.Server.Port()), int32(port)
		if q.Client.Port() != 0 {
			out.FromPort = int32(q.Client.Port())
		}
	}
	return out, true
}

// maxCountingNodes limits the nodes that count a packet.
const maxCountingNodes = 32

// CountingNodes returns the nodes that a packet may pass on any path.
func CountingNodes(paths []Path) (out []string) {
	add := func(node string) {
		if node != "" && !slices.Contains(out, node) && len(out) < maxCountingNodes {
			out = append(out, node)
		}
	}
	for _, p := range paths {
		if p.Entry != nil {
			add(p.Entry.Node)
		}
		for _, h := range slices.Concat(p.RequestHops, p.ReplyHops) {
			add(h.Node)
		}
	}
	return out
}

// SentPoint is a point on a path where a sent packet should be seen, and how often it was.
type SentPoint struct {
	Node  string `json:"node"`
	Text  string `json:"text"`
	Reply bool   `json:"reply,omitempty"`
	Seen  int    `json:"seen"`
}

// SentPacket is the comparison of a sent packet with a trace.
type SentPacket struct {
	Agrees bool `json:"agrees"`
	// Text says what the packet did, or where it was lost, and Remediation what to do if it differs from the trace.
	Text        string      `json:"text"`
	Remediation string      `json:"remediation,omitempty"`
	Points      []SentPoint `json:"points"`
	// Seen lists everything that was seen.
	Seen []clusterstate.PacketSighting `json:"seen"`
}

// CompareSent compares what was seen of a sent packet with the paths that it may take. A load balancer chooses one of
// them.
func CompareSent(q Query, paths []Path, seen []clusterstate.PacketSighting) SentPacket {
	s := sentRun{query: q, seen: seen}
	var first SentPacket
	for i, p := range paths {
		if out := s.comparePath(p); out.Agrees {
			return out
		} else if i == 0 || s.reaches(p) && !s.reaches(paths[0]) {
			first = out
		}
	}
	return first
}

// sentRun compares what was seen of one packet.
type sentRun struct {
	query Query
	seen  []clusterstate.PacketSighting
}

// count returns how often a packet was seen. Some nodes see one packet at several interfaces.
func (s sentRun) count(is func(clusterstate.PacketSighting) bool) (out int) {
	for _, o := range s.seen {
		if is(o) {
			out = max(out, o.Count)
		}
	}
	return out
}

const (
	atPodPlace, onWirePlace, inTunnelPlace = kubedcv1alpha1.PacketAtPod, kubedcv1alpha1.PacketOnWire, kubedcv1alpha1.PacketInTunnel
	request, refusal                       = "Request", "Refusal"
)

// countAtPod counts the request on its way into the pod that a path leads to.
func (s sentRun) countAtPod(server netip.AddrPort) int {
	if s.query.Protocol == "icmp" {
		server = netip.AddrPortFrom(server.Addr(), 0)
	}
	return s.count(func(o clusterstate.PacketSighting) bool {
		return o.Place == atPodPlace && o.Outgoing && o.Kind == request && (o.Destination == server || !server.IsValid())
	})
}

// countAnswers counts replies of any pod; only those of one kind if it is not empty.
func (s sentRun) countAnswers(kind string) int {
	return s.count(func(o clusterstate.PacketSighting) bool {
		return o.Place == atPodPlace && !o.Outgoing && o.Kind != request && (kind == "" || o.Kind == kind)
	})
}

// countLeaving counts replies that leave to a provider network; nil: to any. If the trace says that the client gets the
// reply, they are from the address that the client asked. Errors may have another source.
func (s sentRun) countLeaving(at *Exit, verdict string) int {
	return s.count(func(o clusterstate.PacketSighting) bool {
		return o.Place == onWirePlace && o.Outgoing && o.Kind != request &&
			(at == nil || o.Node == at.Node && o.Network == at.Network) &&
			(o.Kind == refusal || verdict == Lost || o.Source.Addr() == s.query.Server.Addr())
	})
}

// reaches reports whether the packet was seen at the pod of a path.
func (s sentRun) reaches(p Path) bool { return p.reachesPod() && s.countAtPod(p.Server) > 0 }

// reachesPod reports whether the trace leads the request into a pod.
func (p Path) reachesPod() bool {
	n := len(p.RequestHops)
	asked := p.Code == diagnosis.NothingListens || p.Code == diagnosis.PortBlocked
	return n > 0 && p.Server.IsValid() && p.RequestHops[n-1].About.Kind == clusterstate.PodKind &&
		(p.Passes() || p.Verdict == Lost || asked)
}

// comparePath compares with one path.
func (s sentRun) comparePath(p Path) SentPacket {
	out := SentPacket{Points: s.points(p), Seen: s.seen}
	out.Agrees, out.Text = s.judge(p, out.Points)
	if !out.Agrees {
		out.Remediation = "Compare OVN's flows with its rows: add --live. If they agree, look at the node where it was last seen: " +
			"ovs-appctl ofproto/trace, and ovs-appctl dpctl/dump-conntrack."
	}
	return out
}

// judge reports whether a packet did what the trace says, and says what it did.
func (s sentRun) judge(p Path, points []SentPoint) (bool, string) {
	reached := s.countAtPod(netip.AddrPort{}) > 0
	switch missing := slices.IndexFunc(points, func(at SentPoint) bool { return at.Seen == 0 }); {
	case p.Verdict == Unknown:
		return true, "it was sent, and the trace has no verdict to compare with"
	case (p.Verdict == Dropped || p.Verdict == Refused) && !p.reachesPod() && reached:
		return false, "it reached a pod, although the trace says that it is " + verdictVerb(p.Verdict)
	case p.Verdict == Lost && p.Exit == nil && s.countLeaving(nil, Lost) > 0:
		return false, "a reply left, although the trace says that it is lost before"
	case p.Verdict == Answered && s.countAnswers(refusal) > 0:
		return false, "the pod refused it, although it had answered another packet before"
	case missing < 0:
		return true, s.describeAgreement(p)
	default:
		return false, describeLoss(points, missing)
	}
}

func verdictVerb(verdict string) string {
	if verdict == Refused {
		return "refused before"
	}
	return "dropped before"
}

// describeAgreement says what a packet did that was seen at all points.
func (s sentRun) describeAgreement(p Path) string {
	switch {
	case p.Verdict == Dropped && !p.reachesPod():
		return "it was dropped as the trace says: no pod received it"
	case p.Verdict == Lost:
		return s.describeLostReply(p)
	case p.Verdict == Refused:
		return "it was refused as the trace says"
	case p.reachesPod() && s.countAnswers("") == 0 && s.query.Protocol == "udp":
		return "it reached the pod; a reply to a datagram is not recognized"
	case p.reachesPod() && s.countAnswers("") == 0:
		return "it reached the pod, which did not answer"
	case s.countAnswers(refusal) > 0:
		return "it reached the pod, which refused it: nothing listens on the port"
	}
	return "it was seen at each point, and so was the reply"
}

// leavesWrongly reports whether the trace says that the reply leaves, and that the client does not get it. In other cases
// it may be lost before, such as while the address of a silent gateway is resolved.
func (p Path) leavesWrongly() bool {
	return p.Code == ReplyLeavesElsewhere || p.Code == LeavesUntranslated
}

// describeLostReply says what is known of a reply that the client does not get.
func (s sentRun) describeLostReply(p Path) string {
	switch {
	case s.countAnswers("") == 0:
		return "it went where the trace says; no reply to compare was recognized"
	case p.Exit != nil && p.leavesWrongly():
		return "it went where the trace says, and the reply left through network " + p.Network + ", where it is lost"
	case p.Exit == nil:
		return "it went where the trace says, and the reply did not leave"
	}
	return "it went where the trace says; what happens to the reply outside is not seen"
}

// describeLoss says between which points a packet was lost.
func describeLoss(points []SentPoint, missing int) string {
	what, last := "it", points[max(0, missing-1)]
	if points[missing].Reply {
		what = "the reply"
	}
	return fmt.Sprintf("%s was lost between %s (%s) and %s (%s)", what, last.Node, last.Text, points[missing].Node,
		points[missing].Text)
}

// points returns the points at which the packet and its reply should be seen on a path, in order.
func (s sentRun) points(p Path) []SentPoint {
	if p.Entry == nil {
		return nil
	}
	out := []SentPoint{{Node: p.Entry.Node, Text: "entry from " + p.Entry.Network, Seen: 1}}
	node := p.Entry.Node
	out, node = s.addTunnels(out, node, p.RequestHops, false)
	replies := p.Passes() && s.query.Protocol != "udp"
	if p.reachesPod() {
		pod := p.RequestHops[len(p.RequestHops)-1]
		out = append(out, SentPoint{Node: node, Text: pod.About.String(), Seen: s.countAtPod(p.Server)})
		// Whether a pod answers is not what the trace computes, unless it was asked.
		answers := s.countAnswers("")
		replies = replies && (answers > 0 || p.Verdict == Answered)
		if replies || p.Code == diagnosis.NothingListens && s.query.Protocol != "udp" {
			out = append(out, SentPoint{Node: node, Text: pod.About.String() + ", reply", Reply: true, Seen: answers})
		}
	}
	if replies {
		out, _ = s.addTunnels(out, node, p.ReplyHops, true)
	}
	leaves := p.Verdict == Lost && p.leavesWrongly() && s.countAnswers("") > 0 || p.Verdict == Refused && !p.reachesPod()
	if p.Exit != nil && (replies || leaves) {
		out = append(out, SentPoint{
			Node: p.Exit.Node, Text: "exit to network " + p.Network, Reply: true, Seen: s.countLeaving(p.Exit, p.Verdict),
		})
	}
	return out
}

// addTunnels adds the points where the packet goes from one node to the next.
func (s sentRun) addTunnels(to []SentPoint, node string, hops []Hop, reply bool) ([]SentPoint, string) {
	for _, h := range hops {
		if h.Node == "" || h.Node == node {
			continue
		}
		for _, at := range []struct {
			node, text string
			outgoing   bool
		}{{node, "tunnel to " + h.Node, true}, {h.Node, "tunnel from " + node, false}} {
			to = append(to, SentPoint{Node: at.node, Text: at.text, Reply: reply, Seen: s.count(
				func(o clusterstate.PacketSighting) bool {
					return o.Place == inTunnelPlace && o.Node == at.node && o.Outgoing == at.outgoing && (o.Kind != request) == reply
				})})
		}
		node = h.Node
	}
	return to, node
}
