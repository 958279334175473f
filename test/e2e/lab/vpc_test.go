package lab

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

func TestLab2PodsServicesAndVPCs(t *testing.T) {
	item := labItems.Item(t, 2)
	c := harness.SharedLab(t)
	c.CreateVPC(t, "red", "10.1.0.0/24")
	c.CreateVPC(t, "blue", "10.1.0.0/24")
	addresses := map[string]string{}
	for i, node := range []string{"node1", "node2", "node3"} {
		name := fmt.Sprintf("web%d", i+1)
		address := fmt.Sprintf("10.1.0.1%d", i+1)
		addresses[name] = c.RunPod(t, harness.Pod{
			Namespace: "red", Name: name, Node: node, Address: address, Labels: map[string]string{"set": "web"},
		})
	}
	onlyBlue := c.RunPod(t, harness.Pod{Namespace: "blue", Name: "web4", Node: "node1", Address: "10.1.0.14"})
	c.RunPod(t, harness.Pod{Namespace: "blue", Name: "ask", Node: "node2", Address: "10.1.0.15"})

	before := countTunnelPackets(t, c)
	ways := 0
	for from := range addresses {
		for to, address := range addresses {
			for _, proto := range []string{"http", "tcp", "udp", "sctp"} {
				if from != to {
					c.ExpectAnswer(t, from+".red", proto+"://"+address+":80", to, addresses[from])
					ways++
				}
			}
		}
	}
	after := countTunnelPackets(t, c)
	for node := range after {
		if after[node] <= before[node] {
			t.Errorf("%s sent no packet by geneve while its pods talked to other nodes", node)
		}
	}
	item.AddFigure("%d ways pod → pod on 3 nodes (HTTP, TCP, UDP, SCTP) answered, %d packets by geneve", ways,
		sumCounts(after)-sumCounts(before))

	backends := createService(t, c, "red")
	item.AddFigure("ClusterIP in a VPC: %d backends on %d nodes answered", backends, backends)

	c.ExpectAnswer(t, "ask.blue", "http://"+onlyBlue, "web4", "10.1.0.15") // control: it answers in its own VPC
	c.ExpectSilence(t, "web1.red", "http://"+onlyBlue)
	c.ExpectAnswer(t, "web1.red", "http://"+addresses["web2"], "web2", addresses["web1"]) // control: red works
	c.ExpectSilence(t, "ask.blue", "http://"+addresses["web2"])
	item.AddFigure("two VPCs with 10.1.0.0/24: each reaches its own pods and none of the other's")
}

// createService creates a Service for red's web pods and counts the backends that answer at its ClusterIP.
func createService(t *testing.T, c *harness.Cluster, namespace string) int {
	t.Helper()
	c.Apply(t, fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: web, namespace: %s}
spec: {selector: {set: web}, ports: [{port: 8000, targetPort: 80}]}`, namespace))
	svc, err := c.Client.CoreV1().Services(namespace).Get(harness.Within(t, harness.Patience), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	waitBackends(t, c, svc.Spec.ClusterIP+":8000", 3)
	target := fmt.Sprintf("http://%s:8000", svc.Spec.ClusterIP)
	seen := map[string]bool{}
	for range 60 {
		a, err := c.SendRequest("web1."+namespace, target)
		if err != nil {
			t.Fatalf("web1 → %s: %v", target, err)
		}
		seen[a.Name] = true
		if len(seen) == 3 {
			break
		}
	}
	if len(seen) != 3 {
		t.Errorf("of 3 backends only %v answered at the ClusterIP", seen)
	}
	return len(seen)
}

// waitBackends waits until Kube-OVN has written the wanted number of backends of a VIP and every node has the flows.
func waitBackends(t *testing.T, c *harness.Cluster, vip string, want int) {
	t.Helper()
	deadline := time.Now().Add(harness.Patience)
	for {
		table := c.RunTool(t, "ovn-nbctl", "--db=unix:"+c.Dir+"/data/ovn/nb1.sock", "lb-list")
		for line := range strings.Lines(table) {
			if strings.Contains(line, vip) && strings.Count(line, ":80,")+1 >= want {
				c.SyncFlows(t)
				return
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("Kube-OVN did not write %d backends for %s:\n%s", want, vip, table)
		}
	}
}

// countTunnelPackets counts the packets that each node has sent on the tunnel wire, which carries only Geneve.
func countTunnelPackets(t *testing.T, c *harness.Cluster) map[string]int {
	t.Helper()
	out := map[string]int{}
	for _, n := range c.Blueprint.NodeList() {
		links, err := c.NS(n.Name).Links()
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range links {
			if l.Attrs().Name == "ul0" {
				out[n.Name] = int(l.Attrs().Statistics.TxPackets)
			}
		}
	}
	return out
}

func sumCounts(m map[string]int) (total int) {
	for _, v := range m {
		total += v
	}
	return total
}

// TestLab3OneSourcePolicyBreaksTheDefaultNetwork shows the problem that Sallyport solves, without any part of
// Sallyport.
func TestLab3OneSourcePolicyBreaksTheDefaultNetwork(t *testing.T) {
	item := labItems.Item(t, 3)
	c := harness.SharedLab(t)
	c.Apply(t, harness.ReadFile(t, "../testdata/test-jump.yaml"))
	c.WaitForObject(t, "Subnet", "", "net1", manifest.True("Ready"))
	c.CreateNamespace(t, "test-jump", "net1")
	c.RunPod(t, harness.Pod{Namespace: "test-jump", Name: "web", Node: "node1", Address: "10.0.0.7"})
	c.RunPod(t, harness.Pod{Namespace: "test-jump", Name: "other", Node: "node2"})
	c.Apply(t, harness.ReadFile(t, "../testdata/test-jump-nat.yaml"))
	for _, o := range [][2]string{{"OvnFip", "fip"}, {"OvnSnatRule", "test-jump"}, {"OvnDnatRule", "lb"}} {
		c.WaitForObject(t, o[0], "", o[1], manifest.Field("true", "status", "ready"))
	}
	const (
		fip, lb, internet = "http://91.224.11.10", "http://100.65.0.51", "http://203.0.113.10"
		client            = "203.0.113.10" // the same address on both networks
		cloud, public     = "100.65.0.103", "91.224.11.10"
	)

	setPolicyRoutes(t, c, defaultEgressPolicy)
	c.ResetDrops(t)
	c.ExpectAnswer(t, "internet", lb, "web", client) // control: the default network works
	c.ExpectAnswer(t, "web.test-jump", internet, "internet", cloud)
	c.ExpectNoDrops(t)
	c.ExpectSilence(t, "internet", fip)
	c.ExpectSilence(t, "client-ext-public", fip)
	dropped := c.CountDrops(t)["router-ext-cloud"]
	if dropped == 0 {
		t.Error("the floating IP is silent, but the router of ext-cloud dropped no reply: something else is wrong")
	}
	item.AddFigure("without a policy: load balancer on ext-cloud answers, floating IP on ext-public does not (router-ext-cloud dropped %d replies)", dropped)

	setPolicyRoutes(t, c, defaultEgressPolicy, fmt.Sprintf(sourcePolicy, "10.0.0.7", "91.224.11.1"))
	c.ResetDrops(t)
	c.ExpectAnswer(t, "internet", fip, "web", client)
	c.ExpectAnswer(t, "client-ext-public", fip, "web", "172.20.0.10")
	c.ExpectNoDrops(t)
	item.AddFigure("with one policy route: floating IP answers, the server sees %s, no router drops anything", client)
	c.ExpectSilence(t, "internet", lb)
	c.ExpectAnswer(t, "web.test-jump", internet, "internet", public)
	c.ExpectAnswer(t, "other.test-jump", internet, "internet", cloud) // control: the default network itself works
	item.AddFigure("and then: load balancer on ext-cloud is silent, the pod's own traffic left as %s instead of %s",
		public, cloud)

	setPolicyRoutes(t, c, defaultEgressPolicy)
	c.ExpectAnswer(t, "internet", lb, "web", client) // control: the policy was the cause
	c.ExpectSilence(t, "internet", fip)
}

// defaultEgressPolicy is needed because Kube-OVN adds a source route to every VPC, which stock OVN ranks above the
// default route: without a policy for the default network no packet leaves the VPC. The inport excludes packets that
// come from outside.
const defaultEgressPolicy = `{priority: 100, action: reroute, nextHopIP: 100.65.0.1,
  match: 'inport == "test-jump-net1" && ip4.src == 10.0.0.0/24 && ip4.dst != 10.0.0.0/24'}`

const sourcePolicy = `{priority: 30000, match: "ip4.src == %s", action: reroute, nextHopIP: %s}`

// setPolicyRoutes sets test-jump's policy routes and waits until they take effect.
func setPolicyRoutes(t *testing.T, c *harness.Cluster, routes ...string) {
	t.Helper()
	spec := harness.ReadFile(t, "../testdata/test-jump.yaml")
	first, _, _ := strings.Cut(spec, "\n---\n")
	text := first + "\n  policyRoutes: [" + strings.Join(routes, ", ") + "]"
	if err := c.Objects.Apply(harness.Within(t, harness.Patience), text); err != nil {
		t.Fatal(err)
	}
	objects, err := manifest.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	want, _, _ := unstructured.NestedSlice(objects[0].Object, "spec", "policyRoutes")
	deadline := time.Now().Add(harness.Patience)
	for {
		table := c.RunTool(t, "ovn-nbctl", "--db=unix:"+c.Dir+"/data/ovn/nb1.sock", "lr-policy-list", "test-jump")
		if strings.Count(table, "reroute") == len(want) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("Kube-OVN did not write %d policies:\n%s", len(want), table)
		}
	}
	c.SyncFlows(t)
}

func TestDualStackNetwork(t *testing.T) {
	c := harness.SharedLab(t)
	for _, address := range []string{"198.18.0.2", "2001:db8:18::2"} {
		target := "http://" + netip.AddrPortFrom(netip.MustParseAddr(address), 80).String()
		saw := map[bool]string{true: "172.20.3.10", false: "fd00:ab:20:3::a"}[strings.Contains(address, ".")]
		c.ExpectAnswer(t, "client-ext-dual", target, "host-ext-dual", saw)
	}
}

// TestDualStackPods shows that pods of a dual-stack subnet reach each other by both families, across nodes.
func TestDualStackPods(t *testing.T) {
	c := harness.SharedLab(t)
	c.CreateVPC(t, "six", "10.6.0.0/24,fd00:6::/64")
	c.RunPod(t, harness.Pod{Namespace: "six", Name: "a", Node: "node1", Address: "10.6.0.11,fd00:6::11"})
	c.RunPod(t, harness.Pod{Namespace: "six", Name: "b", Node: "node3", Address: "10.6.0.12,fd00:6::12"})
	for _, proto := range []string{"http", "tcp", "udp", "sctp"} {
		c.ExpectAnswer(t, "a.six", proto+"://10.6.0.12:80", "b", "10.6.0.11")
		c.ExpectAnswer(t, "a.six", proto+"://[fd00:6::12]:80", "b", "fd00:6::11")
	}
}
