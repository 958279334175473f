package view

import (
	"path/filepath"
	"strings"
	"testing"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// verdict is a situation in which a command used to say the wrong thing, or nothing.
type verdict struct {
	what   string
	inject func(*faultFixture, *testing.T) // undone at the end of the subtest; nil: nothing is wrong
	checks []verdictCheck
	slow   bool // tried at full size only
}

// verdictCheck is a command without "sallyport", what it says, and what it must not say. If something is injected, it does
// not say it before.
type verdictCheck struct{ command, says, never string }

// verdicts are the wrong and missing verdicts that a new user met.
var verdicts = []verdict{
	{
		what: "the pod answers, or was not asked",
		checks: []verdictCheck{
			{"trace {out} {shop}:80", "Answered by ", "Delivered"},
			{"trace --no-nodes {out} {shop}:80", "Delivered to ", "Answered"},
			{"trace --from pod/b1 -n hall-ward {out}:80", "Delivered to ", "Answered"},
		},
	},
	{
		what: "nothing listens on the target port",
		inject: patchShop(`{"spec":{"ports":[{"name":"web","port":80,"protocol":"TCP","targetPort":8099}]}}`,
			`{"spec":{"ports":[{"name":"web","port":80,"protocol":"TCP","targetPort":80},{"name":"flows","port":80,"protocol":"UDP","targetPort":80}]}}`),
		checks: []verdictCheck{
			{"trace {out} {shop}:80", "Cause: NothingListens Service hall-ward/shop", "Answered"},
			{"explain svc/shop -n hall-ward", "NothingListens", "nothing found"},
			{"doctor", "ERROR NothingListens", "nothing is wrong"},
		},
	},
	{
		what: "a firewall in the pod",
		inject: runAt("till.hall-ward", "nft 'add table inet shut; add chain inet shut in {type filter hook input priority 0;}; "+
			"add rule inet shut in tcp dport 80 drop'", "nft delete table inet shut"),
		checks: []verdictCheck{
			{"trace {out} {shop}:80", "Cause: PortBlocked Service hall-ward/shop", "Answered"},
			{"doctor", "ERROR PortBlocked", "nothing is wrong"},
		},
	},
	{
		what: "the node of a floating IP's pod is dead", slow: true,
		inject: func(w *faultFixture, t *testing.T) {
			t.Cleanup(func() { w.WaitNodeReady(t, "node2", true); w.ResolveTunnelPeers(t) })
			w.CreateService(t, harness.ServiceSpec{Name: "beside", Selector: "{app: b2}"})
			labAction("cut", "mend", "node2")(w, t)
			w.WaitNodeReady(t, "node2", false)
		},
		checks: []verdictCheck{
			{"trace {out} {desk}:80", "Cause: NodeNotReady Node node2", "PodsNotReady"},
			{"status", "NodeNotReady Node node2", " all\n"},
		},
	},
	{
		what:   "ovn-controller is paused",
		inject: labAction("pause", "resume", "node1-ovn-controller"),
		checks: []verdictCheck{{"status", "ChassisBehind Node node1", " all\n"}},
	},
	{
		what: "the controller is dead, and a row is missing", slow: true,
		inject: whileControllerStopped(nbctlAction("lr-nat-del", "hall-ward", "dnat_and_snat", deskAddress)),
		checks: []verdictCheck{
			{"doctor", "ERROR ControllerDead", "The controller restores it"},
			{"status", "ControllerDead", " all\n"},
		},
	},
	{
		what:   "a gateway node lost its label",
		inject: (*faultFixture).unlabelGatewayNode,
		checks: []verdictCheck{{"doctor", "WARNING GatewayNotMoved", "nothing is wrong"}},
	},
	{
		what: "two default networks",
		inject: func(w *faultFixture, t *testing.T) {
			label := func(value string) {
				kubectl(t, w.Cluster, "label", "--overwrite", "subnet", "ext-public", kubedcv1.DefaultExternalLabel+"="+value)
			}
			t.Cleanup(func() { label("false") })
			label("true")
		},
		checks: []verdictCheck{{"doctor", "WARNING SeveralDefaultNetworks", "nothing is wrong"}},
	},
	{
		what:   "a pod's name is mistyped",
		checks: []verdictCheck{{"trace --from pod/b11 -n hall-ward {out}:80", "did you mean hall-ward/b1", "Answered"}},
	},
	{
		what: "an EgressIP on the path",
		checks: []verdictCheck{{
			"trace --from pod/b3 -n hall-ward {out}:80", "EgressIP mail", "EgressIP mail reroutes it",
		}},
	},
	{
		what:   "nodes were not asked",
		checks: []verdictCheck{{"doctor --survey {survey}", "nodes were not asked", "nothing is wrong:"}},
	},
	{
		what: "no node holds the gateway at this moment", slow: true,
		inject: func(w *faultFixture, t *testing.T) {
			for _, node := range []string{"node1", "node2", "node3"} {
				labAction("pause", "resume", node+"-ovn-controller")(w, t)
			}
			w.RunSbctl(t, "clear", "port_binding", "cr-hall-ward-ext-public", "chassis")
		},
		checks: []verdictCheck{{"trace {out} {shop}:80", "at this moment no node holds gateway", "external-gw=true"}},
	},
}

// unlabelGatewayNode takes the label of gateways from the node that holds the lab's gateway.
func (w *faultFixture) unlabelGatewayNode(t *testing.T) {
	node, label := "Node "+w.gatewayNode(t), "ovn.kubernetes.io/external-gw"
	t.Cleanup(func() { w.SetLabel(t, node, label, "true") })
	w.SetLabel(t, node, label, "false")
}

// TestDay4Verdicts checks that commands say what is right in situations in which they said something else, or nothing.
func TestDay4Verdicts(t *testing.T) {
	item := dayItems.Item(t, 4)
	w := newFaultFixture(t)
	survey := filepath.Join(t.TempDir(), "survey.json")
	if said, err := runCommand(t, w.Cluster, "survey", survey); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	tried, right := 0, 0
	for _, v := range verdicts {
		if v.slow && !show.IsFullSize() {
			continue
		}
		t.Run(v.what, func(t *testing.T) {
			tried++
			w.checkVerdict(t, v, survey)
			if !t.Failed() {
				right++
			}
		})
	}
	w.expectDoctorClean(t)
	item.AddFigure("%d of %d wrong or missing verdicts are right", right, tried)
	w.checkSend(t).addFigure(item)
	item.AddFigure("a flow of a node that drops the packet: %s", w.checkBrokenHop(t))
}

// checkVerdict runs the commands of a situation.
func (w *faultFixture) checkVerdict(t *testing.T, v verdict, survey string) {
	run := func(c verdictCheck) string {
		command := strings.ReplaceAll(placeholders(w.Blueprint).Replace(c.command), "{survey}", survey)
		out, _ := runCommand(t, w.Cluster, strings.Fields(command)...) // the exit code indicates a finding
		return out
	}
	if v.inject != nil {
		for _, c := range v.checks {
			if out := run(c); strings.Contains(out, c.says) {
				t.Fatalf("%s says %q before anything is wrong:\n%s", c.command, c.says, out)
			}
		}
		v.inject(w, t)
	}
	for _, c := range v.checks {
		var out string
		harness.Eventually(t, c.command+" says "+c.says, func() bool {
			out = run(c)
			return strings.Contains(out, c.says)
		})
		if !strings.Contains(out, c.says) || strings.Contains(out, c.never) {
			t.Errorf("sallyport %s: wanted %q, and never %q:\n%s", c.command, c.says, c.never, out)
		}
	}
}
