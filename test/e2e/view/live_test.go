package view

import (
	"encoding/json"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/internal/insight/diagnosis"
	"github.com/sallyport/sallyport/internal/model/state"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// traceResult is the part of a trace that the tests check.
type traceResult struct {
	Delivered bool
	Ways      []tracePath
	Live      []string
}

type tracePath struct {
	Verdict, Code, Network, Server, Seen string
	There, Back                          []struct {
		About              state.Ref
		Text, Node, Packet string
	}
	Causes    []struct{ Code, Cure string }
	Disagrees *struct {
		Back bool
		Hop  int
		Text string
	}
}

// traceLive traces with --live. The exit code is 1 if there is no answer.
func (d *explainFixture) traceLive(t *testing.T, question string) (out traceResult, raw string) {
	t.Helper()
	raw, ended := runCommand(t, d.Cluster,
		append([]string{"trace", "--live", "-o", "json"}, strings.Fields(question)...)...)
	if err := json.Unmarshal([]byte(raw), &out); err != nil {
		t.Fatalf("sallyport trace %s -o json: %v\n%s", question, err, raw)
	}
	var exit *exec.ExitError
	if out.Delivered != (ended == nil) || ended != nil && (!errors.As(ended, &exit) || exit.ExitCode() != 1) {
		t.Errorf("trace %s ends with %v:\n%s", question, ended, raw)
	}
	return out, raw
}

// TestViewTraceCommand checks that traces agree with packets and with OVN's flows, in both directions, from outside and
// from pods, and that they show where flows or a node lag behind the rows.
func TestViewTraceCommand(t *testing.T) {
	d := newExplainFixture(t)
	t.Run("answered", d.checkInbound)
	t.Run("from pods", d.checkOutbound)
	t.Run("northd behind", d.checkNorthdBehind)
	t.Run("node behind", d.checkChassisBehind)
}

// expectAgreement fails the test unless every path is answered, with and without ovn-trace.
func (d *explainFixture) expectAgreement(t *testing.T, question string) (traceResult, string) {
	t.Helper()
	got, text := d.traceLive(t, question)
	if !got.Delivered || len(got.Ways) == 0 || len(got.Live) != 1 ||
		!strings.Contains(got.Live[0], "OVN's flows do the same in all") {
		t.Errorf("trace %s: want it answered, and flows that do the same:\n%s", question, text)
	}
	return got, text
}

// checkInbound traces a client outside to the floating IP's pod and to each endpoint of the load balancer, and back
// through the network.
func (d *explainFixture) checkInbound(t *testing.T) {
	holder := d.gatewayNode(t, d.Namespace+"-ext-public")
	for _, c := range []struct {
		address, object string
		pods            []string
	}{
		{d.fipAddress, "FIp " + d.Namespace + "/one", []string{"b2"}},
		{d.frontAddress, "Service " + d.Namespace + "/web", []string{"b1", "b2", "b3"}},
	} {
		got, text := d.expectAgreement(t, harness.InternetAddress+" "+c.address+":80")
		var pods []string
		for _, w := range got.Ways {
			last := w.There[len(w.There)-1].About
			pods = append(pods, last.Name)
			if w.Network != "ext-public" || w.Seen != harness.InternetAddress || w.Server != d.Pods[last.Name]+":80" ||
				!w.passesInOrder("Node "+holder, c.object) {
				t.Errorf("trace to %s:80 goes otherwise:\n%s", c.address, text)
			}
		}
		if slices.Sort(pods); !slices.Equal(pods, c.pods) {
			t.Errorf("trace to %s:80 gets to %v:\n%s", c.address, pods, text)
		}
		if a, err := d.SendRequest("internet", "tcp://"+c.address+":80"); err != nil ||
			!slices.Contains(pods, a.Name) || a.Saw.Addr().String() != harness.InternetAddress {
			t.Errorf("packets to %s: %+v %v", c.address, a, err)
		}
	}
	d.expectAgreement(t, harness.InternetAddress+" "+d.fipAddress+" --proto icmp")
}

// passesInOrder reports whether the forward path passes objects in the given order.
func (w tracePath) passesInOrder(names ...string) bool {
	for _, h := range w.There {
		if len(names) > 0 && h.About.String() == names[0] {
			names = names[1:]
		}
	}
	return len(names) == 0
}

// checkOutbound checks that traces of pods show the source address that the server sees.
func (d *explainFixture) checkOutbound(t *testing.T) {
	for pod, address := range map[string]string{"b1": d.projectAddress, "b3": d.egressAddress} {
		got, text := d.expectAgreement(t, "--from pod/"+pod+" -n "+d.Namespace+" "+harness.InternetAddress+":80")
		if len(got.Ways) != 1 || got.Ways[0].Seen != address || got.Ways[0].Network != "ext-cloud" ||
			len(got.Ways[0].Back) == 0 {
			t.Errorf("trace from %s does not leave as %s:\n%s", pod, address, text)
		}
		d.ExpectAnswer(t, pod+"."+d.Namespace, "tcp://"+harness.InternetAddress+":80", "internet", address)
	}
}

// checkNorthdBehind traces a floating IP for which northd has not yet written flows: the rows answer, the flows do not,
// the step is marked, and packets are not answered either. When northd continues, all agree.
func (d *explainFixture) checkNorthdBehind(t *testing.T) {
	d.ControlLab(t, "pause", "ovn-northd")
	resumed := false
	resume := func() {
		if !resumed {
			resumed = true
			d.ControlLab(t, "resume", "ovn-northd")
		}
	}
	t.Cleanup(resume)
	d.ApplyObject(t, "FIp", d.Namespace, "late", "{podTarget: {podName: b1}, externalNetworkType: public}")
	t.Cleanup(func() { d.DeleteAndWait(t, "FIp", d.Namespace, "late") })
	var address string
	harness.Eventually(t, "the row is there", func() bool {
		address = d.ReadField(t, "FIp", d.Namespace, "late", "status", "externalIP")
		return address != "" && strings.Contains(d.RunNbctl(t, "lr-nat-list", d.Namespace), address)
	})
	got, text := d.traceLive(t, harness.InternetAddress+" "+address+":80")
	if len(got.Ways) != 1 || got.Delivered || got.Ways[0].Disagrees == nil || got.Ways[0].Disagrees.Back {
		t.Fatalf("want the step marked that the flows do otherwise:\n%s", text)
	}
	way := got.Ways[0]
	if hop := way.There[way.Disagrees.Hop]; hop.About.String() != "FIp "+d.Namespace+"/late" {
		t.Errorf("%s is marked, not the floating IP:\n%s", hop.About, text)
	}
	if way.Verdict != "Delivered" && way.Verdict != "Answered" || !way.hasCause(diagnosis.NorthdBehind) {
		t.Errorf("want it answered by the rows, and northd named:\n%s", text)
	}
	d.ExpectSilence(t, "internet", "tcp://"+address+":80")
	resume()
	d.SyncFlows(t)
	d.expectAgreement(t, harness.InternetAddress+" "+address+":80")
	d.ExpectAnswer(t, "internet", "tcp://"+address+":80", "b1", harness.InternetAddress)
}

func (w tracePath) hasCause(code string) bool {
	return slices.ContainsFunc(w.Causes, func(c struct {
		Code, Cure string
	},
	) bool {
		return c.Code == code && c.Cure != ""
	})
}

// checkChassisBehind pauses ovn-controller on a node, so that the node's flows differ from the database. The first hop
// there is marked.
func (d *explainFixture) checkChassisBehind(t *testing.T) {
	d.ControlLab(t, "pause", "node1-ovn-controller")
	t.Cleanup(func() { d.ControlLab(t, "resume", "node1-ovn-controller") })
	got, text := d.traceLive(t, "--from pod/b1 -n "+d.Namespace+" "+harness.InternetAddress+":80")
	way := got.Ways[0]
	if got.Delivered || way.Disagrees == nil || !way.hasCause(diagnosis.ChassisBehind) {
		t.Fatalf("want the hop on node1 marked:\n%s", text)
	}
	if hop := way.There[way.Disagrees.Hop]; way.Disagrees.Back || hop.Node != "node1" {
		t.Errorf("a hop on %s is marked:\n%s", hop.Node, text)
	}
	// on another node, which is not affected
	d.expectAgreement(t, "--from pod/cli -n "+d.Namespace+" "+harness.InternetAddress+":80")
}
