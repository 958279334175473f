package platform

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ovnv1 "github.com/sallyport/sallyport/api/ovn/v1"
	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/internal/lab/program"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// egressAddress is the address of the EgressIP in most checks.
const egressAddress = "198.51.100.200"

// selectedPods is the namespaceSelector and podSelector of most checks.
const selectedPods = "namespaceSelector: {matchLabels: {egress: mail}}, podSelector: {matchLabels: {role: out}}"

// platformFixture is a lab without projects. Pods of the default VPC leave through their node, which translates their
// addresses to its own. The lab has no agent of Kube-OVN and no kube-proxy, so nftables rules on the nodes do what these
// would do.
type platformFixture struct {
	*harness.Cluster
	*harness.Controller
	nodeAddresses map[string]string // on the uplink, by node
	podAddresses  map[string]string // by pod
}

// TestPlatform1EgressIP shows EgressIPs for pods of the default VPC in a cluster without projects.
func TestPlatform1EgressIP(t *testing.T) {
	p := newPlatformFixture(t, "platform")
	for _, f := range []struct {
		item int
		what string
		run  func(*platformFixture, *testing.T) string
	}{
		{1, "selected pods", (*platformFixture).checkSelectedPods},
		{1, "traffic inside the cluster", (*platformFixture).checkInsideTraffic},
		{1, "connections from outside", (*platformFixture).checkInbound},
		{1, "labels that change", (*platformFixture).checkLabelChanges},
		{1, "several addresses", (*platformFixture).checkSeveralAddresses},
		{1, "fail closed before a pod is looked at", (*platformFixture).checkUnclassifiedPod},
		{1, "fail closed when the link is damaged", (*platformFixture).checkDamagedLink},
		{1, "no node", (*platformFixture).checkNoNode},
		{1, "nodes that become unavailable", (*platformFixture).checkUnavailableNodes},
		{1, "pods of one name", (*platformFixture).checkSameName},
		{1, "several EgressIPs", (*platformFixture).checkSeveralEgressIPs},
		{1, "NetworkPolicy", (*platformFixture).checkNetworkPolicy},
		{1, "a namespace is deleted", (*platformFixture).checkDeletedNamespace},
		{1, "with --management-network-type", (*platformFixture).checkHostAccess},
		{1, "leaks", (*platformFixture).checkLeaks},
		{1, "commands", (*platformFixture).checkCommands},
		{1, "a node that is drained", (*platformFixture).checkDrain},
		{6, "a namespace that moves", (*platformFixture).checkNamespaceMove},
		{7, "Kube-OVN", (*platformFixture).checkKubeOVN},
		{8, "a new pod", (*platformFixture).checkNewPods},
		{1, "deleted", (*platformFixture).checkDeletion},
		{1, "a node that dies", (*platformFixture).checkDeadNode},
	} {
		t.Run(f.what, func(t *testing.T) {
			item := platformItems.Item(t, f.item)
			if figure := f.run(p, t); !t.Failed() {
				item.AddFigure("%s: %s", f.what, figure)
			}
		})
	}
}

// newPlatformFixture starts a lab with pods in two namespaces of the default VPC. Pods of mail with the label role=out
// are the ones to select.
func newPlatformFixture(t *testing.T, name string) *platformFixture {
	t.Helper()
	c := harness.StartLab(t, name, harness.LoadTopology(t, "platform.yaml"))
	c.InstallSallyport(t)
	// It runs outside the lab, from where it cannot reach the nodes.
	p := &platformFixture{
		Cluster: c, Controller: c.NewController(t, os.TempDir(),
			"--egressip-reachability-total-timeout=0", "--cluster-prefixes=10.96.0.0/12"),
		nodeAddresses: map[string]string{}, podAddresses: map[string]string{},
	}
	p.StartForTest(t)
	for i, n := range c.Blueprint.NodeList() {
		p.nodeAddresses[n.Name] = c.Segment(t, "uplink-a").NodeAddresses(n)[0].Addr().String()
		p.translateOnNode(t, n.Name)
		if i > 0 {
			p.SetLabel(t, "Node "+n.Name, ovnv1.AssignableLabel, "")
		}
	}
	for _, namespace := range []string{"mail", "plain"} {
		p.CreateNamespace(t, namespace, "")
	}
	p.SetLabel(t, "Namespace mail", "egress", "mail")
	p.runPod(t, harness.Pod{Namespace: "mail", Name: "s1", Node: "node1", Labels: map[string]string{"role": "out"}})
	p.runPod(t, harness.Pod{Namespace: "mail", Name: "s3", Node: "node3", Labels: map[string]string{"role": "out"}})
	p.runPod(t, harness.Pod{Namespace: "mail", Name: "u1", Node: "node1"})
	p.runPod(t, harness.Pod{Namespace: "plain", Name: "u2", Node: "node2", Labels: map[string]string{"role": "out"}})
	return p
}

// runPod runs a pod and remembers its address.
func (p *platformFixture) runPod(t *testing.T, pod harness.Pod) {
	t.Helper()
	p.podAddresses[pod.Name] = p.RunPod(t, pod)
}

// translateOnNode lets a node forward what pods send, with its own address on the uplink.
func (p *platformFixture) translateOnNode(t *testing.T, node string) {
	t.Helper()
	for _, command := range [][]string{
		{"sysctl", "-qw", "net.ipv4.ip_forward=1"},
		{"nft", `add table ip platform
			add chain ip platform pre { type nat hook prerouting priority -100; }
			add chain ip platform post { type nat hook postrouting priority 100; }
			add rule ip platform post ip saddr 10.16.0.0/16 oifname uplink-a masquerade`},
	} {
		if err := harness.RunInNetns(p.NS(node), command...); err != nil {
			t.Fatal(err)
		}
	}
}

// createEgressIP creates an EgressIP and waits until it is Programmed.
func (p *platformFixture) createEgressIP(t *testing.T, name, spec string) {
	t.Helper()
	p.Apply(t, fmt.Sprintf("{apiVersion: k8s.ovn.org/v1, kind: EgressIP, metadata: {name: %s}, spec: {%s}}", name, spec))
	p.WaitProgrammedOnNodes(t, "EgressIP", "", name)
}

// redirectPods creates EgressIP mail for the test, which selects s1 and s3.
func (p *platformFixture) redirectPods(t *testing.T) {
	t.Helper()
	p.createEgressIP(t, "mail", "egressIPs: ["+egressAddress+"], "+selectedPods)
	p.SyncFlows(t)
}

// expectEgressAs waits until a pod's packets have a source address, and checks it with each protocol.
func (p *platformFixture) expectEgressAs(t *testing.T, pod, as string) {
	t.Helper()
	p.ExpectEgressAs(t, pod, as, harness.Protocols...)
}

// expectUnchanged checks that pods that are not selected leave through their nodes.
func (p *platformFixture) expectUnchanged(t *testing.T) {
	t.Helper()
	p.ExpectAnswers(t, "u1.mail", harness.InternetAddress, "internet", p.nodeAddresses["node1"])
	p.ExpectAnswers(t, "u2.plain", harness.InternetAddress, "internet", p.nodeAddresses["node2"])
}

// checkSelectedPods shows that pods on two nodes leave with the egress address, to the internet and to hosts on the
// network's wire, and that other pods leave as before.
func (p *platformFixture) checkSelectedPods(t *testing.T) string {
	p.expectEgressAs(t, "s1.mail", p.nodeAddresses["node1"]) // before
	p.expectEgressAs(t, "s3.mail", p.nodeAddresses["node3"])
	p.expectUnchanged(t)
	p.redirectPods(t)
	p.ResetDrops(t)
	asked := 0
	public := p.Network(t, "public")
	for _, pod := range []string{"s1.mail", "s3.mail"} {
		p.expectEgressAs(t, pod, egressAddress)
		asked += p.ExpectAnswers(t, pod, harness.InternetAddress, "internet", egressAddress)
		asked += p.ExpectAnswers(t, pod, public.NeighbourAddress, public.Neighbour, egressAddress)
	}
	p.expectUnchanged(t)
	p.ExpectNoDrops(t)
	return fmt.Sprintf("%d requests of pods on two nodes left as %s, others with the address of their node", asked,
		egressAddress)
}

// checkInsideTraffic shows that selected pods reach pods, Services and nodes as before.
func (p *platformFixture) checkInsideTraffic(t *testing.T) string {
	p.redirectPods(t)
	p.Apply(t, `
{apiVersion: v1, kind: Service, metadata: {name: inside, namespace: plain}, spec: {selector: {app: u2}, ports: [{port: 80}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: host, namespace: plain, labels: {app: host}}, spec: {nodeName: node2, hostNetwork: true, containers: [{name: main, image: lab/echo}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: host, namespace: plain}, spec: {selector: {app: host}, ports: [{port: 80}]}}`)
	p.WaitForObject(t, "Pod", "plain", "host", manifest.True("Ready"))
	node := p.ReadField(t, "Pod", "plain", "host", "status", "podIP")
	for _, target := range []struct{ address, name string }{
		{p.podAddresses["u2"], "u2"},
		{p.ReadField(t, "Service", "plain", "inside", "spec", "clusterIP"), "u2"},
		{node, "host"},
		{p.ReadField(t, "Service", "plain", "host", "spec", "clusterIP"), "host"},
	} {
		for _, pod := range []string{"s1.mail", "s3.mail", "u1.mail"} {
			name, _, _ := strings.Cut(pod, ".")
			harness.Eventually(t, pod+" reaches "+target.name+" at "+target.address, func() bool {
				_, err := p.SendRequest(pod, "http://"+target.address+":80")
				return err == nil
			})
			p.ExpectAnswer(t, pod, "http://"+target.address+":80", target.name, p.podAddresses[name])
		}
	}
	p.ExpectAnswer(t, "s1.mail", "http://"+p.podAddresses["s3"]+":80", "s3", p.podAddresses["s1"])
	return "pods, a ClusterIP, a node and a ClusterIP with a backend on the host network see the pod's own address"
}

// checkInbound shows that clients reach selected pods as before: through a load balancer, and through a node that keeps
// the client's address.
func (p *platformFixture) checkInbound(t *testing.T) string {
	p.redirectPods(t)
	p.Apply(t, `{apiVersion: v1, kind: Service, metadata: {name: in, namespace: mail, annotations: {network.kube-dc.com/external-network-type: cloud}}, `+
		`spec: {type: LoadBalancer, loadBalancerClass: kube-dc.com/sallyport, selector: {app: s1}, ports: [{port: 80}]}}`)
	p.WaitForObject(t, "Service", "mail", "in", func(o *unstructured.Unstructured) bool {
		return harness.IngressIP(o) != "" && manifest.True("Programmed")(o)
	})
	o, err := p.Objects.Get(harness.Within(t, harness.Patience), harness.ObjectRef("Service", "mail", "in"))
	if err != nil {
		t.Fatal(err)
	}
	p.SyncFlows(t)
	cloud, address := p.Network(t, "cloud"), harness.IngressIP(o)
	p.ExpectAnswer(t, "internet", "http://"+address+":80", "s1", harness.InternetAddress)
	p.ExpectAnswer(t, cloud.Client, "http://"+address+":80", "s1", cloud.ClientAddress)
	for node, pod := range map[string]string{"node1": "s1", "node3": "s3"} {
		rule := fmt.Sprintf("add rule ip platform pre iifname uplink-a tcp dport 8000 dnat to %s:80", p.podAddresses[pod])
		if err := harness.RunInNetns(p.NS(node), "nft", rule); err != nil {
			t.Fatal(err)
		}
		p.ExpectAnswer(t, "internet", "http://"+p.nodeAddresses[node]+":8000", pod, harness.InternetAddress)
		p.ExpectAnswer(t, "client-uplink-a", "http://"+p.nodeAddresses[node]+":8000", pod, "")
	}
	for _, pod := range []string{"s1.mail", "s3.mail"} { // their own connections still have the egress address
		p.expectEgressAs(t, pod, egressAddress)
	}
	p.expectNodeReturnNeeded(t)
	p.DeleteAndWait(t, "Service", "mail", "in")
	p.SyncFlows(t)
	p.ExpectAnswer(t, "internet", "http://"+p.nodeAddresses["node1"]+":8000", "s1", harness.InternetAddress)
	return "a load balancer and two nodes that keep the client's address: answers, with and without the load balancer"
}

// expectNodeReturnNeeded is the control of checkInbound: without the policy for replies through nodes, a client of a node
// gets no answer.
func (p *platformFixture) expectNodeReturnNeeded(t *testing.T) {
	t.Helper()
	target := "http://" + p.nodeAddresses["node1"] + ":8000"
	resume := p.Pause(t)
	p.RunNbctl(t, "lr-policy-del", "ovn-cluster", strconv.Itoa(ownership.ReturnReply),
		fmt.Sprintf(`inport == "ovn-cluster-ovn-default" && pkt.mark == %d`, ownership.NodeReturnMark))
	p.SyncFlows(t)
	p.ExpectSilence(t, "internet", target)
	resume()
	harness.Eventually(t, "the policy is restored", func() bool {
		_, err := p.SendRequest("internet", target)
		return err == nil
	})
}

// checkLabelChanges shows that the labels of pods and namespaces decide.
func (p *platformFixture) checkLabelChanges(t *testing.T) string {
	p.redirectPods(t)
	p.SetLabel(t, "Pod mail s1", "role", "-")
	p.expectEgressAs(t, "s1.mail", p.nodeAddresses["node1"])
	p.SetLabel(t, "Pod mail s1", "role", "out")
	p.expectEgressAs(t, "s1.mail", egressAddress)
	p.SetLabel(t, "Namespace plain", "egress", "mail")
	p.expectEgressAs(t, "u2.plain", egressAddress)
	p.SetLabel(t, "Namespace plain", "egress", "-")
	p.expectEgressAs(t, "u2.plain", p.nodeAddresses["node2"])
	return "a pod's and a namespace's label move a pod there and back"
}

// checkSeveralAddresses shows that connections use each of two addresses.
func (p *platformFixture) checkSeveralAddresses(t *testing.T) string {
	p.Apply(t, "{apiVersion: k8s.ovn.org/v1, kind: EgressIP, metadata: {name: several}, spec: "+
		"{egressIPs: [198.51.100.201, 100.65.9.9], namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: plain}}}}")
	p.WaitProgrammedOnNodes(t, "EgressIP", "", "several")
	seen := map[string]int{}
	harness.Eventually(t, "u2 leaves as both", func() bool {
		if a, err := p.SendRequest("u2.plain", "http://"+harness.InternetAddress); err == nil {
			seen[a.Saw.Addr().String()]++
		}
		return seen["198.51.100.201"] > 0 && seen["100.65.9.9"] > 0
	})
	p.DeleteAndWait(t, "EgressIP", "", "several")
	p.expectEgressAs(t, "u2.plain", p.nodeAddresses["node2"])
	return fmt.Sprintf("on two networks: %d connections of one pod until both were seen", seen["198.51.100.201"]+
		seen["100.65.9.9"])
}

// checkUnclassifiedPod shows that while the controller is paused a new pod that may be selected cannot leave, not even
// through its node, and reaches everything inside the cluster.
func (p *platformFixture) checkUnclassifiedPod(t *testing.T) string {
	p.redirectPods(t)
	leaks := p.capturePodPackets(t)
	resume := p.Pause(t)
	p.runPod(t, harness.Pod{Namespace: "mail", Name: "early", Node: "node1", Labels: map[string]string{"role": "out"}})
	p.runPod(t, harness.Pod{Namespace: "plain", Name: "other", Node: "node2"})
	for _, pod := range []string{"early.mail", "other.plain"} {
		p.ExpectSilence(t, pod, "http://"+harness.InternetAddress)
		p.ExpectSilence(t, pod, "udp://"+harness.InternetAddress+":80")
	}
	if t.Failed() {
		t.Log(p.podAddresses, p.RunNbctl(t, "--columns=name,addresses", "find", "Address_Set",
			"external_ids:sallyport-vpc=ovn-cluster"))
	}
	p.ExpectAnswer(t, "early.mail", "http://"+p.podAddresses["u2"], "u2", p.podAddresses["early"])
	p.ExpectAnswer(t, "early.mail", "http://"+p.ReadField(t, "Pod", "mail", "u1", "status", "podIP"), "u1", "")
	if got := leaks.count(p.podAddresses["early"]); got > 0 {
		t.Errorf("%d packets left with the address of a pod that was not looked at", got)
	}
	p.expectUnchanged(t) // pods that were processed before, and the control: their packets are captured
	harness.Eventually(t, "the capture sees a pod that is not selected", func() bool {
		return leaks.count(p.podAddresses["u1"]) > 0
	})
	resume()
	p.expectEgressAs(t, "early.mail", egressAddress)
	p.expectEgressAs(t, "other.plain", p.nodeAddresses["node2"])
	if got := leaks.count(p.podAddresses["early"]); got > 0 {
		t.Errorf("%d packets left with the pod's address before it had %s", got, egressAddress)
	}
	return "a selected pod that starts while the controller is stopped gets nothing out, and its address when it goes on"
}

// waitSilent waits until a request gets no answer.
func (p *platformFixture) waitSilent(t *testing.T, from, target string) {
	t.Helper()
	harness.Eventually(t, from+" gets no answer", func() bool {
		_, err := p.SendRequest(from, target)
		return err != nil
	})
}

// checkDamagedLink shows that nothing leaves with a pod's address, and nothing through a node, while the default VPC's
// end of the link has no chassis group, or is gone, or the group has no chassis.
func (p *platformFixture) checkDamagedLink(t *testing.T) string {
	p.redirectPods(t)
	leaks := p.capturePodPackets(t)
	end := ownership.VPCEgressLinkPort("ovn-cluster", netip.MustParseAddr(egressAddress))
	group := ownership.EgressRouterPort(netip.MustParseAddr(egressAddress))
	for _, damage := range []struct {
		what    string
		command []string
		control []string // removes what drops the packets
	}{
		{
			"no chassis group",
			[]string{"clear", "logical_router_port", end, "ha_chassis_group"},
			[]string{"lr-policy-del", ownership.EgressVpc, strconv.Itoa(ownership.EgressLinkSource)},
		},
		{
			"no chassis group at the address",
			[]string{"clear", "logical_router_port", group, "ha_chassis_group"},
			[]string{"--type=port-group", "acl-del", ownership.EgressPortGroup("ext-public")},
		},
		{"a group without chassis", []string{"clear", "ha_chassis_group", group, "ha_chassis"}, nil},
		{"no port", []string{"lrp-del", end}, nil},
	} {
		t.Run(damage.what, func(t *testing.T) {
			p.expectEgressAs(t, "s1.mail", egressAddress)
			resume := p.Pause(t)
			p.RunNbctl(t, damage.command...)
			p.SyncFlows(t)
			p.waitSilent(t, "s1.mail", "http://"+harness.InternetAddress) // the datapath still has the previous flows for a moment
			p.ResetDrops(t)
			before := leaks.count(p.podAddresses["s1"])
			for _, protocol := range []string{"http", "udp"} {
				p.ExpectSilence(t, "s1.mail", protocol+"://"+harness.InternetAddress+":80")
			}
			if got := leaks.count(p.podAddresses["s1"]) - before; got > 0 {
				t.Errorf("%d packets left through the node", got)
			}
			if drops := p.ReadDroppedFlows(t, "router-ext-public"); len(drops) > 0 {
				t.Errorf("packets with other source addresses reached the network: %v", drops)
			}
			if damage.control != nil {
				p.expectSpoofedPackets(t, damage.control)
			}
			resume()
			p.expectEgressAs(t, "s1.mail", egressAddress)
		})
	}
	p.expectUnchanged(t)
	harness.Eventually(t, "the capture sees a pod that is not selected", func() bool {
		return leaks.count(p.podAddresses["u1"]) > 0
	})
	return "without its group, without chassis and without the port nothing leaves; repaired afterwards"
}

// expectSpoofedPackets is the control of checkDamagedLink: without the policy that drops what a link has not translated,
// packets with a pod's address reach the network, and its router drops them.
func (p *platformFixture) expectSpoofedPackets(t *testing.T, removal []string) {
	t.Helper()
	p.RunNbctl(t, removal...)
	p.SyncFlows(t)
	p.ExpectSilence(t, "s1.mail", "http://"+harness.InternetAddress)
	if len(p.ReadDroppedFlows(t, "router-ext-public")) == 0 {
		t.Error("no packet reaches the network without the rule either")
	}
}

// checkNoNode shows that without a node selected pods cannot leave, or leave through their node if the EgressIP fails
// open.
func (p *platformFixture) checkNoNode(t *testing.T) string {
	p.redirectPods(t)
	assignable := func(value string) {
		for _, n := range p.Blueprint.NodeList()[1:] {
			p.SetLabel(t, "Node "+n.Name, ovnv1.AssignableLabel, value)
		}
	}
	p.expectEgressAs(t, "s1.mail", egressAddress)
	assignable("-")
	harness.Eventually(t, "s1 stays inside", func() bool {
		_, err := p.SendRequest("s1.mail", "udp://"+harness.InternetAddress+":80")
		return err != nil
	})
	for range 3 {
		p.ExpectSilence(t, "s1.mail", "http://"+harness.InternetAddress)
	}
	p.expectUnchanged(t)
	p.Apply(t, "{apiVersion: k8s.ovn.org/v1, kind: EgressIP, metadata: {name: mail}, spec: {egressIPs: ["+egressAddress+
		"], failurePolicy: Open, "+selectedPods+"}}")
	p.expectEgressAs(t, "s1.mail", p.nodeAddresses["node1"])
	assignable("")
	p.expectEgressAs(t, "s1.mail", egressAddress)
	return "a selected pod stays inside, or with failurePolicy Open leaves through its node"
}

// checkHostAccess shows that selected pods keep their address when pods of the default VPC get access to the hosts of a
// network, which other pods reach with the address of the router there.
func (p *platformFixture) checkHostAccess(t *testing.T) string {
	p.redirectPods(t)
	cloud, args := p.Network(t, "cloud"), p.Args
	restart := func(args []string) {
		p.Stop(syscall.SIGTERM)
		p.Args = args
		p.Start(t)
	}
	restart(append(slices.Clone(args), "--management-network-type=cloud"))
	t.Cleanup(func() { restart(args) })
	var router netip.Addr
	harness.Eventually(t, "u1 reaches hosts of the network with an address there", func() bool {
		a, err := p.SendRequest("u1.mail", "http://"+cloud.NeighbourAddress)
		router = a.Saw.Addr()
		return err == nil && p.Segment(t, "ext-cloud").Prefixes[0].Contains(router)
	})
	p.ExpectAnswers(t, "s1.mail", cloud.NeighbourAddress, cloud.Neighbour, egressAddress)
	p.ExpectAnswers(t, "s1.mail", harness.InternetAddress, "internet", egressAddress)
	return fmt.Sprintf("a host of the network sees %s, and %s for another pod", egressAddress, router)
}

// ownRows returns Sallyport's router policies, address sets and router ports of the default VPC, without pods' addresses.
func (p *platformFixture) ownRows(t *testing.T) []string {
	t.Helper()
	var out []string
	for table, column := range map[string]string{
		"Logical_Router_Policy": "match", "Address_Set": "name", "Logical_Router_Port": "name", "ACL": "match", "NAT": "gateway_port",
	} {
		for line := range strings.Lines(p.RunNbctl(t, "--bare", "--columns=_uuid,"+column, "find", table,
			"external_ids:sallyport-vpc=ovn-cluster")) {
			out = append(out, table+" "+strings.TrimSpace(line))
		}
	}
	slices.Sort(out)
	return out
}

// checkDeletion shows that pods leave through their nodes again, and that no row is left.
func (p *platformFixture) checkDeletion(t *testing.T) string {
	p.redirectPods(t)
	p.expectEgressAs(t, "s1.mail", egressAddress)
	p.DeleteAndWait(t, "EgressIP", "", "mail")
	p.expectEgressAs(t, "s1.mail", p.nodeAddresses["node1"])
	p.expectEgressAs(t, "s3.mail", p.nodeAddresses["node3"])
	harness.Eventually(t, "no row is left", func() bool { return len(p.ownRows(t)) == 0 })
	p.WaitForObject(t, "Vpc", "", "sallyport-egress", manifest.Gone)
	return "pods leave through their nodes again; no row is left"
}

// checkDeadNode shows how long a selected pod is without answers when the node with its address dies, and that it is
// never seen with another address.
func (p *platformFixture) checkDeadNode(t *testing.T) string {
	p.redirectPods(t)
	p.expectEgressAs(t, "s1.mail", egressAddress)
	holder := p.holder(t)
	t.Cleanup(func() { p.ControlLab(t, "start", holder) })
	p.ControlLab(t, "kill", holder)
	begun := time.Now()
	harness.Eventually(t, "answers from another node", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		a, err := program.Ask(ctx, p.NS("s1.mail"), "udp://"+harness.InternetAddress+":80")
		if err == nil && a.Saw.Addr().String() != egressAddress {
			t.Errorf("seen as %s", a.Saw.Addr())
		}
		return err == nil
	})
	took := time.Since(begun)
	if limit := show.ChooseSize(time.Second, 20*time.Second); took > limit { // CI: other labs run beside it
		t.Errorf("no answer for %s, want at most %s", took, limit)
	}
	return fmt.Sprintf("%d ms until the next answer, never with another address", took.Milliseconds())
}

// holder waits until a node holds the only address of EgressIP mail, and returns the node.
func (p *platformFixture) holder(t *testing.T) (node string) {
	t.Helper()
	harness.Eventually(t, "a node holds the address of mail", func() bool {
		e := &ovnv1.EgressIP{}
		err := p.NewDirectClient(t, nil).Get(harness.Within(t, harness.Patience), client.ObjectKey{Name: "mail"}, e)
		if err == nil && len(e.Status.Items) == 1 {
			node = e.Status.Items[0].Node
		}
		return node != ""
	})
	return node
}
