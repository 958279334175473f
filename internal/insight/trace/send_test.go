package trace

import (
	"strings"
	"testing"

	"github.com/sallyport/sallyport/internal/insight/diagnosis"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
)

// sentSurvey is a trace to the floating IP, whose pod is on another node than the gateway.
func sentSurvey(t *testing.T) (Query, []Path) {
	t.Helper()
	q := Query{Client: addrPort(internet + ":50001"), Server: addrPort(floatingIP + ":80"), Protocol: "tcp"}
	paths := New(shopSurvey()).Trace(q).Paths
	if len(paths) != 1 || paths[0].Entry == nil || paths[0].Exit == nil || !paths[0].Passes() {
		t.Fatalf("the trace is %+v", paths)
	}
	return q, paths
}

// seenOn returns a sighting.
func seenOn(node, place, kind string, outgoing bool) clusterstate.PacketSighting {
	return clusterstate.PacketSighting{Node: node, Place: place, Kind: kind, Outgoing: outgoing, Count: 1}
}

// wholePath are the sightings of a packet that was answered.
func wholePath(q Query, p Path) []clusterstate.PacketSighting {
	node := p.RequestHops[len(p.RequestHops)-1].Node
	at, back := seenOn(node, atPodPlace, request, true), seenOn(node, atPodPlace, "Reply", false)
	at.Destination = p.Server
	left := seenOn(p.Exit.Node, onWirePlace, "Reply", true)
	left.Network, left.Source = p.Exit.Network, q.Server
	return []clusterstate.PacketSighting{
		seenOn(p.Entry.Node, inTunnelPlace, request, true), seenOn(node, inTunnelPlace, request, false), at, back,
		seenOn(node, inTunnelPlace, "Reply", true), seenOn(p.Entry.Node, inTunnelPlace, "Reply", false), left,
	}
}

// The question enters where the trace enters, with the MAC address of the router.
func TestSendQuestion(t *testing.T) {
	q, paths := sentSurvey(t)
	got, ok := paths[0].SendQuestion(q, 60000, 7)
	if !ok || paths[0].Entry.Node != "node3" || got.From != internet || got.FromPort != 50001 || got.To != floatingIP ||
		got.Port != 80 || got.MAC == "" || got.LogicalPort == "" || got.Mark != 7 {
		t.Errorf("%+v at %+v", got, paths[0].Entry)
	}
	q.Pod = "acme-shop/web"
	if _, ok := paths[0].SendQuestion(q, 60000, 7); ok {
		t.Error("a packet of a pod is sent")
	}
	if nodes := CountingNodes(paths); len(nodes) != 2 {
		t.Errorf("%v count", nodes)
	}
}

// A packet that was seen everywhere agrees. Without one sighting, the text names the points before and after.
func TestCompareSent(t *testing.T) {
	q, paths := sentSurvey(t)
	all := wholePath(q, paths[0])
	if got := CompareSent(q, paths, all); !got.Agrees || len(got.Points) != len(all)+1 {
		t.Fatalf("%+v", got)
	}
	for i := range all[:3] { // a pod that does not answer is not the trace's claim
		got := CompareSent(q, paths, all[:i])
		if got.Agrees || !strings.Contains(got.Text, got.Points[i].Text) || !strings.Contains(got.Text, got.Points[i+1].Text) {
			t.Errorf("with %d sightings: %q", i, got.Text)
		}
	}
	for i := 4; i < len(all); i++ {
		if got := CompareSent(q, paths, all[:i]); got.Agrees || !strings.HasPrefix(got.Text, "the reply was lost between") {
			t.Errorf("with %d sightings: %q", i, got.Text)
		}
	}
	elsewhere := wholePath(q, paths[0])
	elsewhere[len(elsewhere)-1].Network = "another"
	if CompareSent(q, paths, elsewhere).Agrees {
		t.Error("a reply through another network agrees")
	}
}

// A packet that the trace drops must not reach a pod, and one that nothing listens for is refused by the pod.
func TestCompareSentDrops(t *testing.T) {
	q, paths := sentSurvey(t)
	all := wholePath(q, paths[0])
	dropped := []Path{{Verdict: Dropped, Code: RuleDrops, Entry: paths[0].Entry}}
	if !CompareSent(q, dropped, nil).Agrees || CompareSent(q, dropped, all).Agrees {
		t.Error("a drop is not compared")
	}
	lost := paths[0]
	lost.Verdict, lost.Code, lost.Exit = Lost, RuleDrops, nil
	if !CompareSent(q, []Path{lost}, all[:4]).Agrees || CompareSent(q, []Path{lost}, all).Agrees {
		t.Error("a lost reply is not compared")
	}
	lost.Code, lost.Exit = ReplyLeavesElsewhere, paths[0].Exit
	if CompareSent(q, []Path{lost}, all[:4]).Agrees || !CompareSent(q, []Path{lost}, all).Agrees {
		t.Error("a reply that leaves through another network is not compared")
	}
	closed := paths[0]
	closed.Verdict, closed.Code = Refused, diagnosis.NothingListens
	all[3].Kind = refusal
	if got := CompareSent(q, []Path{closed}, all[:4]); !got.Agrees {
		t.Errorf("%q", got.Text)
	}
	if CompareSent(q, []Path{closed}, all[:1]).Agrees {
		t.Error("a refusal of a pod agrees without the pod")
	}
	answered := paths[0]
	answered.Verdict = Answered
	if CompareSent(q, []Path{answered}, all).Agrees {
		t.Error("a refusal agrees with an answer")
	}
}
