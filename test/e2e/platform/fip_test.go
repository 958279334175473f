package platform

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// fipFixture is the platform fixture with an EIp on each of two networks, in namespace mail.
type fipFixture struct {
	*platformFixture
	public, cloud                 harness.ExternalNetwork
	publicAddress, cloudAddress   string
	publicEIP, cloudEIP, outbound string     // parts of FIp specs
	all                           *testing.T // the test of all checks
}

// TestPlatform2FloatingIPs shows floating IPs of pods of the default VPC, and outbound traffic of floating IPs there and
// in a project.
func TestPlatform2FloatingIPs(t *testing.T) {
	item := platformItems.Item(t, 2)
	p := &fipFixture{
		platformFixture: newPlatformFixture(t, "platform-fip"),
		publicEIP:       "eip: front", cloudEIP: "eip: back", outbound: "outbound: true", all: t,
	}
	p.public, p.cloud = p.Network(t, "public"), p.Network(t, "cloud")
	p.publicAddress = p.CreateEIP(t, "mail", "front", "{externalNetworkType: public}")
	p.cloudAddress = p.CreateEIP(t, "mail", "back", "{externalNetworkType: cloud}")
	for _, f := range []struct {
		what string
		run  func(*fipFixture, *testing.T) string
	}{
		{"inbound", (*fipFixture).checkInboundFIPs},
		{"outbound", (*fipFixture).checkOutboundFIP},
		{"other objects for the same pod", (*fipFixture).checkPrecedence},
		{"the pod is re-created", (*fipFixture).checkRecreatedPod},
		{"Kube-OVN restarts, and a pod with its annotation", (*fipFixture).checkKubeOVN},
		{"targets of others", (*fipFixture).checkForeignTargets},
		{"commands", (*fipFixture).checkFIPCommands},
		{"in a project", (*fipFixture).checkProjectOutbound},
	} {
		t.Run(f.what, func(t *testing.T) {
			if figure := f.run(p, t); !t.Failed() {
				item.AddFigure("%s: %s", f.what, figure)
			}
		})
	}
	harness.Eventually(t, "no translation is left", func() bool { return len(p.natRows(t)) == 0 })
}

// createFIP creates or changes a FIp of pod s1 in namespace mail, and checks what its status says about directions.
func (p *fipFixture) createFIP(t *testing.T, name, direction string, spec ...string) {
	t.Helper()
	p.CreateFIP(t, "mail", name, "{"+strings.Join(append(spec, "podTarget: {podName: s1}"), ", ")+"}")
	p.WaitForObject(t, "FIp", "mail", name, func(o *unstructured.Unstructured) bool {
		return harness.StringField(o, "status", "direction") == direction
	})
}

// natRows returns the NAT rows of the default VPC that are Sallyport's.
func (p *fipFixture) natRows(t *testing.T) []string {
	t.Helper()
	return slices.Sorted(slices.Values(strings.Fields(p.RunNbctl(t, "--bare", "--columns=_uuid", "find", "NAT",
		"external_ids:sallyport-vpc=ovn-cluster"))))
}

// otherNetwork returns the other one of the two networks.
func (p *fipFixture) otherNetwork(network harness.ExternalNetwork) harness.ExternalNetwork {
	if network.Neighbour == p.public.Neighbour {
		return p.cloud
	}
	return p.public
}

// expectInbound checks that clients on a network, behind it and on the other one reach s1 with their own addresses, and
// returns the number of requests.
func (p *fipFixture) expectInbound(t *testing.T, network harness.ExternalNetwork, address string) (asked int) {
	t.Helper()
	harness.Eventually(t, address+" answers", func() bool {
		a, err := p.SendRequest("internet", "http://"+address)
		return err == nil && a.Name == "s1"
	})
	other := p.otherNetwork(network)
	for client, seen := range map[string]string{
		"internet": harness.InternetAddress, network.Client: network.ClientAddress, network.Neighbour: network.NeighbourAddress,
		other.Neighbour: other.NeighbourAddress,
	} {
		asked += p.ExpectAnswers(t, client, address, "s1", seen)
	}
	return asked
}

// expectOutbound checks that s1 leaves with an address, to the internet and to hosts on both networks, and returns the
// number of requests.
func (p *fipFixture) expectOutbound(t *testing.T, network harness.ExternalNetwork, address string) int {
	t.Helper()
	p.expectEgressAs(t, "s1.mail", address)
	asked := p.ExpectAnswers(t, "s1.mail", harness.InternetAddress, "internet", address)
	for _, n := range []harness.ExternalNetwork{network, p.otherNetwork(network)} {
		asked += p.ExpectAnswers(t, "s1.mail", n.NeighbourAddress, n.Neighbour, address)
	}
	return asked
}

// checkInboundFIPs shows a pod with an address on each of two networks. Nothing answers before and after, and the pod's
// own connections leave through its node.
func (p *fipFixture) checkInboundFIPs(t *testing.T) string {
	silent := func(t *testing.T) {
		for _, target := range []string{p.publicAddress, p.cloudAddress} {
			p.ExpectSilence(t, "internet", "http://"+target)
		}
	}
	silent(t)
	asked := 0
	t.Run("while they exist", func(t *testing.T) {
		p.createFIP(t, "public", "Inbound", p.publicEIP)
		p.createFIP(t, "cloud", "Inbound", p.cloudEIP)
		p.WaitGatewaysSettled(t) // they are the first of this lab
		p.ResetDrops(t)
		asked += p.expectInbound(t, p.public, p.publicAddress) + p.expectInbound(t, p.cloud, p.cloudAddress)
		p.expectEgressAs(t, "s1.mail", p.nodeAddresses["node1"])
		p.expectUnchanged(t)
		p.ExpectNoDrops(t)
	})
	harness.Eventually(t, "no translation is left", func() bool { return len(p.natRows(t)) == 0 })
	p.SyncFlows(t)
	silent(t)
	return fmt.Sprintf("%d requests to one pod on two networks, the pod saw the clients' addresses; silent before and after",
		asked)
}

// checkOutboundFIP shows that outbound moves the pod's own connections to each of the two addresses and back, and changes
// nothing else: connections to it, inside the cluster and through a node, and those of other pods.
func (p *fipFixture) checkOutboundFIP(t *testing.T) string {
	p.expectEgressAs(t, "s1.mail", p.nodeAddresses["node1"])
	p.createFIP(t, "public", "Both", p.publicEIP, p.outbound)
	p.createFIP(t, "cloud", "Inbound", p.cloudEIP)
	p.ResetDrops(t)
	asked := p.expectOutbound(t, p.public, p.publicAddress)
	p.expectInbound(t, p.public, p.publicAddress)
	p.expectInbound(t, p.cloud, p.cloudAddress)
	p.ExpectAnswer(t, "s1.mail", "http://"+p.podAddresses["u2"], "u2", p.podAddresses["s1"])
	p.ExpectAnswer(t, "u2.plain", "http://"+p.podAddresses["s1"], "s1", p.podAddresses["u2"])
	rule := fmt.Sprintf("add rule ip platform pre iifname uplink-a tcp dport 8000 dnat to %s:80", p.podAddresses["s1"])
	if err := harness.RunInNetns(p.NS("node1"), "nft", rule); err != nil {
		t.Fatal(err)
	}
	p.ExpectAnswer(t, "internet", "http://"+p.nodeAddresses["node1"]+":8000", "s1", harness.InternetAddress)
	p.expectUnchanged(t)
	p.createFIP(t, "public", "Inbound", p.publicEIP)
	p.expectEgressAs(t, "s1.mail", p.nodeAddresses["node1"])
	p.createFIP(t, "cloud", "Both", p.cloudEIP, p.outbound)
	asked += p.expectOutbound(t, p.cloud, p.cloudAddress)
	p.expectInbound(t, p.public, p.publicAddress)
	p.expectInbound(t, p.cloud, p.cloudAddress)
	p.ExpectNoDrops(t)
	return fmt.Sprintf("%d requests left as the floating IP of either network; inbound, other pods and a client of the node "+
		"as before; no router dropped a packet", asked)
}

// outboundOverridden waits until a FIp reports that another object decides about its target's connections.
func (p *fipFixture) outboundOverridden(t *testing.T, name string) {
	t.Helper()
	p.WaitForObject(t, "FIp", "mail", name, func(o *unstructured.Unstructured) bool {
		return harness.FalseReason(o, "Programmed") == intent.OutboundOverridden &&
			harness.StringField(o, "status", "direction") == "Inbound"
	})
	p.SyncFlows(t)
}

// checkPrecedence shows that of two FIps with outbound the older one decides, and an EgressIP before both. Connections to
// the addresses are not affected.
func (p *fipFixture) checkPrecedence(t *testing.T) string {
	p.createFIP(t, "public", "Both", p.publicEIP, p.outbound)
	// of FIps of the same second, the name decides
	p.ApplyObject(t, "FIp", "mail", "younger", "{"+p.cloudEIP+", "+p.outbound+", podTarget: {podName: s1}}")
	p.outboundOverridden(t, "younger")
	p.expectOutbound(t, p.public, p.publicAddress)
	p.expectInbound(t, p.cloud, p.cloudAddress)
	t.Run("an EgressIP", func(t *testing.T) {
		p.redirectPods(t)
		p.outboundOverridden(t, "public")
		p.expectOutbound(t, p.public, egressAddress)
		p.expectInbound(t, p.public, p.publicAddress)
		p.expectInbound(t, p.cloud, p.cloudAddress)
	})
	p.expectOutbound(t, p.public, p.publicAddress)
	return "EgressIP before FIp, the older FIp before the younger; both said so and inbound went on"
}

// checkRecreatedPod shows that a floating IP follows its pod to another node and another address.
func (p *fipFixture) checkRecreatedPod(t *testing.T) string {
	p.createFIP(t, "public", "Both", p.publicEIP, p.outbound)
	p.expectOutbound(t, p.public, p.publicAddress)
	before := p.podAddresses["s1"]
	p.DeleteAndWait(t, "Pod", "mail", "s1")
	harness.Eventually(t, "the address is silent", func() bool {
		_, err := p.SendRequest("internet", "http://"+p.publicAddress)
		return err != nil
	})
	p.runPod(t, harness.Pod{Namespace: "plain", Name: "filler", Node: "node1"}) // may get the address
	p.runPod(p.all, harness.Pod{Namespace: "mail", Name: "s1", Node: "node2", Labels: map[string]string{"role": "out"}})
	p.WaitForObject(t, "FIp", "mail", "public", func(o *unstructured.Unstructured) bool {
		return manifest.True("Programmed")(o) && harness.StringField(o, "status", "resolvedTargetIP") == p.podAddresses["s1"]
	})
	p.SyncFlows(t)
	p.expectOutbound(t, p.public, p.publicAddress)
	p.expectInbound(t, p.public, p.publicAddress)
	p.expectEgressAs(t, "filler.plain", p.nodeAddresses["node1"])
	return fmt.Sprintf("from node1 and %s to node2 and %s", before, p.podAddresses["s1"])
}

// checkKubeOVN shows that Kube-OVN removes no row when it starts and when it processes the pod, while Sallyport is
// stopped, and that the floating IP has precedence over what Kube-OVN adds for its own annotation. Without its ConfigMap,
// Kube-OVN removes the router's port on one network when it starts: in the lab, that of ext-public.
func (p *fipFixture) checkKubeOVN(t *testing.T) string {
	p.createFIP(t, "cloud", "Both", p.cloudEIP, p.outbound)
	p.expectOutbound(t, p.cloud, p.cloudAddress)
	before := p.natRows(t)
	resume := p.Pause(t)
	p.ControlLab(t, "kill", "kube-ovn-controller")
	p.ControlLab(t, "start", "kube-ovn-controller")
	p.SetLabel(t, "Pod mail s1", "touched", "yes")
	p.runPod(t, harness.Pod{Namespace: "plain", Name: "after", Node: "node2"}) // Kube-OVN gave it an address
	if after := p.natRows(t); len(before) != 2 || !slices.Equal(before, after) {
		t.Errorf("NAT rows before %v and after %v", before, after)
	}
	p.expectOutbound(t, p.cloud, p.cloudAddress)
	p.expectInbound(t, p.cloud, p.cloudAddress)
	resume()
	p.annotatePod(t, `"100.65.7.7"`)
	t.Cleanup(func() { p.RunNbctl(t, "--if-exists", "lr-nat-del", "ovn-cluster", "dnat_and_snat", "100.65.7.7") })
	// what Kube-OVN does if its ConfigMap exists
	p.RunNbctl(t, "lr-nat-add", "ovn-cluster", "dnat_and_snat", "100.65.7.7", p.podAddresses["s1"])
	p.SyncFlows(t)
	p.expectOutbound(t, p.cloud, p.cloudAddress)
	p.expectInbound(t, p.cloud, p.cloudAddress)
	if t.Failed() {
		t.Log(p.podAddresses, p.RunNbctl(t, "lr-policy-list", "ovn-cluster"), p.RunNbctl(t, "lr-route-list", "ovn-cluster"),
			p.RunNbctl(t, "lr-nat-list", "ovn-cluster"), p.RunNbctl(t, "list", "Logical_Router_Port"), p.RunNbctl(t, "list", "ACL"))
	}
	p.annotatePod(t, "null")
	if after := p.natRows(t); !slices.Equal(before, after) {
		t.Errorf("NAT rows before the annotation %v and after %v", before, after)
	}
	return "the rows are the same after a restart while Sallyport is stopped, and next to the row of Kube-OVN's annotation"
}

// annotatePod sets Kube-OVN's annotation for an external address on s1.
func (p *fipFixture) annotatePod(t *testing.T, value string) {
	t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{"ovn.kubernetes.io/eip":%s}}}`, value)
	if _, err := p.Client.CoreV1().Pods("mail").Patch(harness.Within(t, harness.Patience), "s1", types.MergePatchType,
		[]byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// checkForeignTargets shows that a FIp can't have a pod of another namespace as target, nor the gateway of the subnet.
func (p *fipFixture) checkForeignTargets(t *testing.T) string {
	address := p.CreateEIP(t, "mail", "greedy", "{externalNetworkType: public}")
	for name, target := range map[string]string{
		"others": p.podAddresses["u2"], "gateway": "10.16.0.1", "node": "172.22.1.1",
	} {
		p.ApplyObject(t, "FIp", "mail", name, "{eip: greedy, outbound: true, ipAddress: "+target+"}")
		p.WaitForObject(t, "FIp", "mail", name, func(o *unstructured.Unstructured) bool {
			return harness.FalseReason(o, "Accepted") == intent.TargetOutsideProject
		})
	}
	p.SyncFlows(t)
	p.ExpectSilence(t, "internet", "http://"+address)
	p.expectUnchanged(t)
	p.CreateFIP(t, "mail", "own", "{eip: greedy, ipAddress: "+p.podAddresses["u1"]+"}") // the control
	p.ExpectAnswers(t, "internet", address, "u1", harness.InternetAddress)
	return "a pod of another namespace, the gateway and a node are refused as targets"
}

// checkFIPCommands shows that trace, explain, map and doctor say what packets do.
func (p *fipFixture) checkFIPCommands(t *testing.T) string {
	p.createFIP(t, "public", "Both", p.publicEIP, p.outbound)
	p.createFIP(t, "cloud", "Inbound", p.cloudEIP)
	p.expectOutbound(t, p.public, p.publicAddress)
	p.expectInbound(t, p.cloud, p.cloudAddress)
	checks := []commandCheck{
		{
			"trace " + harness.InternetAddress + " " + p.publicAddress + ":80",
			[]string{"Delivered", "FIp mail/public", "s1"},
			[]string{"LeavesByNode"},
		},
		{
			"trace --from pod/s1 -n mail " + harness.InternetAddress + ":80",
			[]string{"Delivered", p.publicAddress, "FIp mail/public"},
			[]string{"LeavesByNode", p.cloudAddress},
		},
		{"doctor", nil, []string{"FIp mail", "ovn-cluster"}},
	}
	p.expectCommands(t, append(checks, show.ChooseSize([]commandCheck{
		{
			"trace " + harness.InternetAddress + " " + p.cloudAddress + ":80",
			[]string{"Delivered", "FIp mail/cloud", "s1"},
			[]string{"LeavesByNode"},
		},
		{"trace --from pod/u1 -n mail " + harness.InternetAddress + ":80", []string{"LeavesByNode"}, []string{p.publicAddress}},
		{"explain fip/public -n mail", []string{p.publicAddress, "s1"}, []string{"✗"}},
		{"map ovn-cluster", []string{p.publicAddress, p.cloudAddress}, nil},
		{"explain fip/cloud -n mail", []string{p.cloudAddress, "s1", "for connections to it"}, []string{"✗"}},
	}, nil)...))
	return show.ChooseSize("trace to both addresses, from the pod and from another; explain, map and doctor",
		"trace to an address and from the pod; doctor")
}

// checkProjectOutbound shows outbound of a floating IP on a secondary network of a project: the pod leaves with it, and
// replies to connections on both networks leave through theirs.
func (p *fipFixture) checkProjectOutbound(t *testing.T) string {
	p.CreateOrganization(t, "acme")
	namespace := p.CreateProject(t, "acme", "shop", "10.50.0.0/24", "cloud")
	p.RunPod(t, harness.Pod{Namespace: namespace, Name: "web", Node: "node3"})
	p.RunPod(t, harness.Pod{Namespace: namespace, Name: "other", Node: "node1"})
	pod, target := "web."+namespace, "podTarget: {podName: web}}"
	gateway := p.ReadField(t, "EIp", namespace, "default-gw", "status", "ipAddress")
	second := p.CreateFIP(t, namespace, "second", "{externalNetworkType: public, "+target)
	p.expectEgressAs(t, pod, gateway) // before
	p.CreateFIP(t, namespace, "second", "{externalNetworkType: public, outbound: true, "+target)
	first := p.CreateFIP(t, namespace, "first", "{externalNetworkType: cloud, "+target)
	p.ResetDrops(t)
	p.expectEgressAs(t, pod, second)
	for _, n := range []harness.ExternalNetwork{p.public, p.cloud} {
		p.ExpectAnswers(t, pod, n.NeighbourAddress, n.Neighbour, second)
	}
	p.ExpectAnswers(t, p.cloud.Neighbour, second, "web", p.cloud.NeighbourAddress)
	p.ExpectAnswers(t, p.public.Neighbour, first, "web", p.public.NeighbourAddress)
	for _, address := range []string{first, second} {
		p.ExpectAnswers(t, "internet", address, "web", harness.InternetAddress)
	}
	p.ExpectAnswers(t, p.cloud.Client, first, "web", p.cloud.ClientAddress)
	p.ExpectAnswers(t, p.public.Client, second, "web", p.public.ClientAddress)
	p.expectEgressAs(t, "other."+namespace, gateway)
	p.expectCommands(t, []commandCheck{{
		"trace --from pod/web -n " + namespace + " " + harness.InternetAddress + ":80",
		[]string{"Delivered", second, "FIp " + namespace + "/second"},
		nil,
	}})
	p.ExpectNoDrops(t)
	p.ApplyObject(t, "FIp", namespace, "theirs", "{externalNetworkType: public, outbound: true, ipAddress: "+
		p.podAddresses["u1"]+"}")
	p.WaitForObject(t, "FIp", namespace, "theirs", func(o *unstructured.Unstructured) bool {
		return harness.FalseReason(o, "Accepted") == intent.TargetOutsideProject
	})
	p.CreateFIP(t, namespace, "second", "{externalNetworkType: public, "+target)
	p.expectEgressAs(t, pod, first) // the floating IP on the default network
	return fmt.Sprintf("a pod of a project left as %s on the secondary network, others as before; a pod of the default VPC is "+
		"refused as target", second)
}
