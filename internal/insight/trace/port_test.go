package trace

import (
	"slices"
	"strings"
	"testing"

	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/insight/diagnosis"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
)

// answerAs is a node's answer about a port of pod web.
func answerAs(s *clusterstate.State, p Path, result, problem string) {
	t := p.Target
	s.Inspected = map[string]clusterstate.NodeInspection{t.Node: {Ports: []clusterstate.PortAnswer{
		{LogicalPort: "other", Address: t.Address, Protocol: t.Protocol, Result: clusterstate.PortClosed},
		{LogicalPort: t.LogicalPort, Address: t.Address, Protocol: t.Protocol, Result: result, Problem: problem},
	}}}
}

// A path that is delivered by the rows gets the verdict of the pod, if its node was asked: the packet to a floating IP.
func TestPodsAnswer(t *testing.T) {
	for _, c := range []struct {
		protocol, result, verdict, code, says string
		replies                               bool // hops of the reply are shown
	}{
		{"tcp", clusterstate.PortOpen, Answered, "", "", true},
		{"tcp", clusterstate.PortClosed, Refused, diagnosis.NothingListens, "nothing listens on port 80/tcp of Pod acme-shop/web", true},
		{"tcp", clusterstate.PortRejected, Refused, diagnosis.PortBlocked, "a firewall in Pod acme-shop/web rejects port 80/tcp", true},
		{"tcp", clusterstate.PortSilent, Dropped, diagnosis.PortBlocked, "Pod acme-shop/web does not answer port 80/tcp", false},
		{"udp", clusterstate.PortSilent, Delivered, "", "", true},
		{"icmp", clusterstate.PortSilent, Dropped, diagnosis.PortBlocked, "does not answer pings", false},
		{"tcp", "", Delivered, "", "", true},
	} {
		s, q := shopSurvey(), queryFromClient(internet, floatingIP+":80")
		if q.Protocol = c.protocol; q.Protocol == "icmp" {
			q = queryFromClient(internet, floatingIP+":0")
			q.Protocol = c.protocol
		}
		before := traceOnePath(t, s, q)
		assertVerdict(t, before, Delivered, "")
		answerAs(s, before, c.result, "no such interface")
		p := traceOnePath(t, s, q)
		assertVerdict(t, p, c.verdict, c.code)
		if !strings.Contains(p.Reason, c.says) || (len(p.ReplyHops) > 0) != c.replies || p.IsBroken() != (c.code != "") {
			t.Errorf("%s %s: %q, %d hops back, broken: %t", c.protocol, c.result, p.Reason, len(p.ReplyHops), p.IsBroken())
		}
		if doubts := c.result == "" || c.protocol == "udp"; doubts != (len(p.Caveats) > len(before.Caveats)) {
			t.Errorf("%s %s: caveats %q", c.protocol, c.result, p.Caveats)
		}
		if request, _ := p.Places(); len(request) != 0 && c.code != "" && request[len(request)-1].Ref != p.Target.Pod {
			t.Errorf("%s %s: it ends at %+v", c.protocol, c.result, request[len(request)-1])
		}
	}
}

// The Service that chose the port is the cause, not the pod. A declared port is not an issue if the pod answers.
func TestServiceWithoutListener(t *testing.T) {
	s, q := shopSurvey(), queryFromClient(internet, loadBalancerIP+":80")
	paths := New(s).Trace(q).Paths
	answerAs(s, paths[1], clusterstate.PortClosed, "")
	after := New(s).Trace(q).Paths
	assertVerdict(t, after[0], Delivered, "") // its pod was not asked
	assertVerdict(t, after[1], Refused, diagnosis.NothingListens)
	undeclared := newFinding(diagnosis.TargetPortNotDeclared, 1, after[1].About[0])
	causes := after[1].Causes(s, []diagnosis.Finding{undeclared})
	if got := causes[0].Headline(); got != "NothingListens Service acme-shop/web" || causes[0].Remediation == "" ||
		!strings.Contains(causes[0].Message, "Service acme-shop/web sends it there") {
		t.Errorf("the cause is %s: %+v", got, causes[0])
	}
	answerAs(s, paths[1], clusterstate.PortOpen, "")
	if causes := New(s).Trace(q).Paths[1].Causes(s, []diagnosis.Finding{undeclared}); len(causes) > 0 {
		t.Errorf("it is answered, but %+v", causes)
	}
}

// Each pod is asked on its own node, once, from its gateway. A node that is down is not asked.
func TestPortQuestions(t *testing.T) {
	s := shopSurvey()
	paths := New(s).Trace(queryFromClient(internet, loadBalancerIP+":80")).Paths
	before := []kubedcv1alpha1.InspectionSpec{{Node: paths[0].Target.Node, Usage: []string{"kept"}}}
	got := AddPortQuestions(s, before, slices.Concat(paths, paths))
	if len(got) != 2 || len(got[0].Ports) != 1 || len(got[0].Usage) != 1 || len(got[1].Ports) != 1 ||
		got[1].Node != paths[1].Target.Node {
		t.Fatalf("the questions are %+v", got)
	}
	want := kubedcv1alpha1.PortQuestion{
		LogicalPort: paths[0].Target.LogicalPort, MAC: paths[0].Target.MAC, Address: "10.0.0.2", From: "10.0.0.1",
		Protocol: "tcp", Port: 8080,
	}
	if got[0].Ports[0] != want || want.MAC == "" || want.LogicalPort == "" {
		t.Errorf("the question is %+v, wanted %+v", got[0].Ports[0], want)
	}
	for i := range s.Cluster.Nodes {
		s.Cluster.Nodes[i].Ready = false
	}
	if got := AddPortQuestions(s, nil, paths); len(got) > 0 {
		t.Errorf("nodes that are down are asked %+v", got)
	}
}
