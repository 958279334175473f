package platform

import (
	"fmt"
	"net/netip"
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// selectSubnetPods labels pods on two other Subnets, so that EgressIP mail selects them: g1 on gates, which has a
// distributed gateway, b3 on builds, which has a centralized one, and x3, which chose builds itself. x1 is on gates as
// well, in a selected namespace, and is not selected.
func (p *platformFixture) selectSubnetPods(t *testing.T) {
	t.Helper()
	for _, namespace := range []string{"gates", "builds", "shared"} {
		p.SetLabel(t, "Namespace "+namespace, "egress", "mail")
		t.Cleanup(func() { p.SetLabel(t, "Namespace "+namespace, "egress", "-") })
	}
	for _, pod := range []string{"gates g1", "builds b3", "shared x3"} {
		p.SetLabel(t, "Pod "+pod, "role", "out")
		t.Cleanup(func() { p.SetLabel(t, "Pod "+pod, "role", "-") })
	}
	p.redirectPods(t)
}

// checkSubnetEgress shows EgressIPs for pods on other Subnets: selected pods leave with the egress address, others and
// everything inside the cluster as before, and connections from outside are answered.
func (p *platformFixture) checkSubnetEgress(t *testing.T, addresses map[string]string) string {
	p.expectEgressAs(t, "g1.gates", p.nodeAddresses["node1"]) // before
	p.expectEgressAs(t, "b3.builds", p.nodeAddresses["node2"])
	p.expectEgressAs(t, "x3.shared", p.nodeAddresses["node2"])
	p.selectSubnetPods(t)
	p.ResetDrops(t)
	asked, public := 0, p.Network(t, "public")
	for _, pod := range []string{"s1.mail", "g1.gates", "b3.builds", "x3.shared"} {
		p.expectEgressAs(t, pod, egressAddress)
		asked += p.ExpectAnswers(t, pod, public.NeighbourAddress, public.Neighbour, egressAddress)
	}
	p.ExpectAnswers(t, "x1.shared", harness.InternetAddress, "internet", p.nodeAddresses["node1"])
	p.expectUnchanged(t)
	for _, target := range []struct{ from, address, name string }{
		{"g1.gates", p.podAddresses["b3"], "b3"},
		{"g1.gates", p.podAddresses["x1"], "x1"},
		{"g1.gates", p.podAddresses["u2"], "u2"},
		{"b3.builds", p.podAddresses["s1"], "s1"},
		{"s1.mail", p.podAddresses["g1"], "g1"},
		{"g1.gates", p.nodeInternalAddress(t, "node2"), "h2"},
		{"g1.gates", p.ReadField(t, "Service", "mail", "first-cloud", "spec", "clusterIP"), "s1"},
	} {
		p.ExpectAnswer(t, target.from, "http://"+target.address, target.name, p.podAddresses[target.from[:2]])
	}
	for _, s := range []balancedService{balancedServices[1], balancedServices[2]} {
		asked += p.expectBalanced(t, s, "cloud", addresses[s.name+"-cloud"])
	}
	p.ExpectNoDrops(t)
	p.expectSubnetNodeReturn(t)
	p.expectSubnetCommands(t)
	return fmt.Sprintf("%d requests: pods on 3 Subnets, with distributed and centralized gateways, left as %s; pods that are "+
		"not selected, traffic inside, load balancers and clients of nodes as before", asked, egressAddress)
}

// expectSubnetNodeReturn checks that replies to connections through a node return to it: the pod's own, and the gateway of
// a centralized Subnet. Without the policy for them there is no answer.
func (p *platformFixture) expectSubnetNodeReturn(t *testing.T) {
	t.Helper()
	for node, pod := range map[string]string{"node1": "g1", "node2": "b3"} {
		p.RunInNetns(t, node, "nft", fmt.Sprintf("add rule ip platform pre iifname uplink-a tcp dport 8000 dnat to %s:80",
			p.podAddresses[pod]))
		p.ExpectAnswer(t, "internet", "http://"+p.nodeAddresses[node]+":8000", pod, harness.InternetAddress)
	}
	target := "http://" + p.nodeAddresses["node1"] + ":8000"
	resume := p.Pause(t)
	p.RunNbctl(t, "lr-policy-del", "ovn-cluster", strconv.Itoa(ownership.ReturnReply),
		fmt.Sprintf(`inport == "ovn-cluster-gates" && pkt.mark == %d`, ownership.NodeReturnMark))
	p.SyncFlows(t)
	p.waitSilent(t, "internet", target) // the datapath still has the previous flows for a moment
	p.ExpectSilence(t, "internet", target)
	resume()
	harness.Eventually(t, "the policy is restored", func() bool {
		_, err := p.SendRequest("internet", target)
		return err == nil
	})
}

// expectSubnetCommands checks that commands say the same about pods on other Subnets.
func (p *platformFixture) expectSubnetCommands(t *testing.T) {
	t.Helper()
	checks := []commandCheck{
		{
			"trace --from pod/g1 -n gates " + harness.InternetAddress + ":80",
			[]string{"Delivered", egressAddress, "EgressIP mail"},
			[]string{"LeavesByNode"},
		},
		{"doctor", nil, []string{"EgressIP mail", "EgressOutsideProject"}},
		{"trace --from pod/x1 -n shared " + harness.InternetAddress + ":80", []string{"LeavesByNode"}, []string{egressAddress}},
		{"trace --from pod/g1 -n gates " + p.podAddresses["b3"] + ":80", []string{"Delivered"}, []string{egressAddress}},
		{
			"explain egressip/mail",
			[]string{"Pod builds/b3: sends it", "currently 5"}, // the path of one pod
			[]string{"not served", "✗"},
		},
		{"map ovn-cluster", []string{egressAddress}, nil},
	}
	p.expectCommands(t, checks[:show.ChooseSize(len(checks), 1)])
}

// checkSubnetFailClosed shows that nothing leaves through a node: a new pod on another Subnet while the controller is
// paused, and a selected pod whose link is gone. Its control removes the policy that drops the packets.
func (p *platformFixture) checkSubnetFailClosed(t *testing.T, _ map[string]string) string {
	p.selectSubnetPods(t)
	p.expectEgressAs(t, "g1.gates", egressAddress)
	leaks := p.capturePodPackets(t)
	resume := p.Pause(t)
	p.runPod(t, harness.Pod{Namespace: "gates", Name: "early", Node: "node1", Labels: map[string]string{"role": "out"}})
	p.ExpectSilence(t, "early.gates", "http://"+harness.InternetAddress)
	p.ExpectAnswer(t, "early.gates", "http://"+p.podAddresses["s1"], "s1", p.podAddresses["early"])
	p.RunNbctl(t, "lrp-del", ownership.VPCEgressLinkPort("ovn-cluster", netip.MustParseAddr(egressAddress)))
	p.SyncFlows(t)
	p.waitSilent(t, "g1.gates", "http://"+harness.InternetAddress) // the datapath still has the previous flows
	p.ExpectSilence(t, "g1.gates", "udp://"+harness.InternetAddress+":80")
	for _, pod := range []string{"early", "g1"} {
		if got := leaks.count(p.podAddresses[pod]); got > 0 {
			t.Errorf("%d packets of %s left through the node", got, pod)
		}
	}
	p.RunNbctl(t, "lr-policy-del", "ovn-cluster", strconv.Itoa(ownership.ManagementFailClosed))
	p.SyncFlows(t)
	harness.Eventually(t, "without the policy, packets leave through the node", func() bool {
		_, _ = p.SendRequest("g1.gates", "http://"+harness.InternetAddress)
		return leaks.count(p.podAddresses["g1"]) > 0
	})
	resume()
	p.expectEgressAs(t, "early.gates", egressAddress)
	p.expectEgressAs(t, "g1.gates", egressAddress)
	if got := leaks.count(p.podAddresses["early"]); got > 0 {
		t.Errorf("%d packets of early left through the node before it had %s", got, egressAddress)
	}
	return "a new pod while the controller is stopped, and a pod without a link, get nothing out"
}

// checkSubnetFIPs shows a floating IP of a pod on another Subnet, in both directions, and that a FIp can't have a pod of
// another namespace on the same Subnet as target.
func (p *platformFixture) checkSubnetFIPs(t *testing.T, _ map[string]string) string {
	public := p.Network(t, "public")
	address := p.CreateEIP(t, "gates", "front", "{externalNetworkType: public}")
	p.ExpectSilence(t, "internet", "http://"+address)
	p.ApplyObject(t, "FIp", "gates", "theirs", "{eip: front, outbound: true, ipAddress: "+p.podAddresses["x1"]+"}")
	p.WaitForObject(t, "FIp", "gates", "theirs", func(o *unstructured.Unstructured) bool {
		return harness.FalseReason(o, "Accepted") == intent.TargetOutsideProject
	})
	p.SyncFlows(t)
	p.ExpectSilence(t, "internet", "http://"+address)
	p.CreateFIP(t, "gates", "front", "{eip: front, podTarget: {podName: g1}}")
	asked := 0
	for from, saw := range map[string]string{
		"internet": harness.InternetAddress, public.Client: public.ClientAddress, public.Neighbour: public.NeighbourAddress,
	} {
		asked += p.ExpectAnswers(t, from, address, "g1", saw)
	}
	p.expectEgressAs(t, "g1.gates", p.nodeAddresses["node1"])
	p.CreateFIP(t, "gates", "front", "{eip: front, outbound: true, podTarget: {podName: g1}}")
	p.ResetDrops(t)
	p.expectEgressAs(t, "g1.gates", address)
	asked += p.ExpectAnswers(t, "g1.gates", public.NeighbourAddress, public.Neighbour, address)
	asked += p.ExpectAnswers(t, "internet", address, "g1", harness.InternetAddress)
	for _, pod := range []string{"x1", "b3", "s1"} { // on its own Subnet and on two others
		p.ExpectAnswer(t, "g1.gates", "http://"+p.podAddresses[pod], pod, p.podAddresses["g1"])
	}
	p.ExpectAnswers(t, "x1.shared", harness.InternetAddress, "internet", p.nodeAddresses["node1"])
	p.ExpectNoDrops(t)
	checks := []commandCheck{
		{
			"trace --from pod/g1 -n gates " + harness.InternetAddress + ":80",
			[]string{"Delivered", address, "FIp gates/front"},
			[]string{"LeavesByNode"},
		},
		{
			"trace " + harness.InternetAddress + " " + address + ":80",
			[]string{"Delivered", "FIp gates/front", "g1"},
			[]string{"LeavesByNode"},
		},
		{"explain fip/front -n gates", []string{address, "g1"}, []string{"✗"}},
	}
	p.expectCommands(t, checks[:show.ChooseSize(len(checks), 0)])
	return fmt.Sprintf("%d requests to and from a pod on another Subnet, then out as %s; a pod of another namespace there is "+
		"refused as target", asked, address)
}
