package platform

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// policyRewrites make Kube-OVN write router policies of the default VPC. Each has a way to see that it did, and is undone
// by the next patch of the same object or by undo.
var policyRewrites = []struct {
	what       string
	kind, name string
	patch      string
	undo       string
	wrote      func(policies string) bool
}{
	{
		"a centralized gateway", "Subnet", "ovn-default", `{"spec":{"gatewayType":"centralized","gatewayNode":"node2"}}`,
		`{"spec":{"gatewayType":"distributed","gatewayNode":""}}`,
		func(policies string) bool {
			return strings.Contains(policies, "29000") && !hasPolicyOfEachNode(policies)
		},
	},
	{
		"a policy of the Vpc", "Vpc", "ovn-cluster",
		`{"spec":{"policyRoutes":[{"priority":29800,"match":"ip4.src == 10.16.250.0/24","action":"drop"}]}}`,
		`{"spec":{"policyRoutes":null}}`,
		func(policies string) bool { return strings.Contains(policies, "29800") },
	},
}

// hasPolicyOfEachNode reports whether Kube-OVN's policies send the pods of each node to it.
func hasPolicyOfEachNode(policies string) bool {
	for _, node := range []string{"node1", "node2", "node3"} {
		if !strings.Contains(policies, "ovn.default."+node+"_ip4") {
			return false
		}
	}
	return true
}

// foreignPolicies returns Kube-OVN's policies of the default VPC.
func (p *platformFixture) foreignPolicies(t *testing.T) string {
	t.Helper()
	var out []string
	for line := range strings.Lines(p.RunNbctl(t, "lr-policy-list", "ovn-cluster")) {
		if !strings.Contains(line, "sallyport") && !strings.Contains(line, "pkt.mark") {
			out = append(out, strings.Join(strings.Fields(line), " "))
		}
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// patchObject patches an object of Kube-OVN.
func (p *platformFixture) patchObject(t *testing.T, kind, name, patch string) {
	t.Helper()
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(harness.ObjectRef(kind, "", name).GVK)
	o.SetName(name)
	if err := p.NewDirectClient(t, nil).Patch(harness.Within(t, harness.Patience), o,
		client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		t.Fatal(err)
	}
}

// checkKubeOVN restarts Kube-OVN's controller and makes it write its policies again, while Sallyport is stopped and
// can't restore anything. No row is lost, and a selected pod that sends all the time is seen with its address only.
func (p *platformFixture) checkKubeOVN(t *testing.T) string {
	p.redirectPods(t)
	p.expectEgressAs(t, "s1.mail", egressAddress)
	rows, policies := p.ownRows(t), p.foreignPolicies(t)
	if len(rows) == 0 || !hasPolicyOfEachNode(policies) {
		t.Fatalf("there are %d rows to lose, and Kube-OVN's policies are\n%s", len(rows), policies)
	}
	p.Pause(t)
	wires := p.captureWires(t)
	asking := p.startSender(t, "s1.mail")
	compare := func(what string) {
		t.Helper()
		if now := p.ownRows(t); !slices.Equal(rows, now) {
			t.Errorf("%s: rows before\n%s\nand after\n%s", what, strings.Join(rows, "\n"), strings.Join(now, "\n"))
		}
		asking.waitAnswered(t, "answers after "+what)
	}
	restart := func(i int) {
		p.ControlLab(t, "kill", "kube-ovn-controller")
		p.ControlLab(t, "start", "kube-ovn-controller")
		// Kube-OVN works: it gives a pod an address
		p.runPod(t, harness.Pod{Namespace: "plain", Name: fmt.Sprintf("after%d", i), Node: "node2"})
	}
	restarts := show.ChooseSize(10, 1)
	for i := range restarts {
		restart(i)
		compare(fmt.Sprintf("restart %d", i+1))
	}
	for _, r := range policyRewrites {
		t.Cleanup(func() { p.patchObject(t, r.kind, r.name, r.undo) })
		p.patchObject(t, r.kind, r.name, r.patch)
		harness.Eventually(t, "Kube-OVN writes "+r.what, func() bool { return r.wrote(p.foreignPolicies(t)) })
		compare(r.what)
		p.patchObject(t, r.kind, r.name, r.undo)
		harness.Eventually(t, "Kube-OVN undoes "+r.what, func() bool { return p.foreignPolicies(t) == policies })
		compare("undo of " + r.what)
	}
	p.addAndRemoveSubnet(t, policies)
	compare("another Subnet")
	p.RunNbctl(t, "lr-policy-del", "ovn-cluster", "29000") // Kube-OVN restores them when it starts
	compare("Kube-OVN's policies for nodes deleted")
	restart(restarts)
	harness.Eventually(t, "Kube-OVN restores its policies", func() bool { return p.foreignPolicies(t) == policies })
	compare("their restoration")

	asking.finish()
	packets := wires.expectOnly(t, "all the time", "ext-public", egressAddress)
	p.expectUnchanged(t) // Kube-OVN's policies are complete, and the control of the capture
	wires.expectSeen(t, "node1 "+p.podAddresses["u1"], "uplink-a "+p.nodeAddresses["node1"])
	sent, answered := asking.sent.Load(), asking.answered.Load()
	if answered < sent*9/10 {
		t.Errorf("of %d requests %d were answered", sent, answered)
	}
	return fmt.Sprintf("%d restarts, and policies rewritten %d times: %d rows stay, with Sallyport stopped; of %d "+
		"requests %d were answered, %d packets on every wire, all as %s", restarts+1, 2*len(policyRewrites)+2, len(rows),
		sent, answered, packets, egressAddress)
}

// addAndRemoveSubnet adds a Subnet to the default VPC, for which Kube-OVN writes policies, and deletes it.
func (p *platformFixture) addAndRemoveSubnet(t *testing.T, policies string) {
	t.Helper()
	p.Apply(t, "{apiVersion: kubeovn.io/v1, kind: Subnet, metadata: {name: beside}, spec: {vpc: ovn-cluster, "+
		`protocol: IPv4, cidrBlock: "10.18.0.0/24"}}`)
	p.WaitForObject(t, "Subnet", "", "beside", manifest.True("Ready"))
	harness.Eventually(t, "Kube-OVN has policies for the Subnet", func() bool {
		return strings.Contains(p.foreignPolicies(t), "10.18.0.0/24")
	})
	p.DeleteAndWait(t, "Subnet", "", "beside")
	harness.Eventually(t, "Kube-OVN removes them", func() bool { return p.foreignPolicies(t) == policies })
}
