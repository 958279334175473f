package nodes

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/lab/blueprint"
	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/internal/lab/program"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// nodeFixture is a lab whose nodes have a default uplink and two networks, with an agent on node1. Packets to Service
// addresses arrive at node1, which translates them to the Service's cluster address, as OVN-Kubernetes does for MetalLB
// addresses.
type nodeFixture struct {
	*harness.Cluster
	*harness.Controller
	agent      *exec.Cmd
	agentLog   string
	serviceIPs map[string]netip.Addr // Service address by network
	clusterIPs map[string]string     // cluster address by network
}

func newNodeFixture(t *testing.T, name string) *nodeFixture {
	t.Helper()
	b, err := blueprint.Load("../testdata/agent.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c := harness.StartLab(t, name, b)
	c.InstallSallyport(t)
	g := &nodeFixture{
		Cluster: c, Controller: c.NewController(t, os.TempDir(), "--cluster-prefixes=10.96.0.0/12,10.16.0.0/16"),
		agentLog:   filepath.Join(t.TempDir(), "agent.log"),
		serviceIPs: map[string]netip.Addr{}, clusterIPs: map[string]string{},
	}
	c.ApplyAgent(t)
	g.Start(t)
	t.Cleanup(func() {
		if t.Failed() {
			said, _ := os.ReadFile(g.agentLog)
			t.Logf("the controller's log ends with\n%s\nand the agent's is\n%s", g.LogTail(10), said)
		}
		g.Stop(syscall.SIGTERM)
	})
	c.CreateNamespace(t, "shop", "")
	harness.Eventually(t, "node1 is connected with the pods", func() bool {
		var on []netlink.Route // the address is added shortly after the link
		err := g.NS("node1").Do(func() (err error) { on, err = netlink.RouteGet(net.IPv4(100, 64, 0, 1)); return err })
		return err == nil && len(on) > 0 && on[0].Gw == nil // directly connected
	})
	// as on every Kubernetes node
	g.RunOnNode1(t, "sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
	g.RunOnNode1(t, "ip", "route", "replace", "10.96.0.0/12", "via", "100.64.0.1", "dev", "ovn0")
	g.RunOnNode1(t, "nft", "add table ip external; add chain ip external pre { type nat hook prerouting priority -100; }")
	for i, network := range []string{"uplink-a", "vlan1", "vlan2"} {
		g.createService(t, network, netip.AddrFrom4([4]byte{198, 18, 10, byte(i + 1)}))
	}
	for _, proto := range []string{"tcp", "udp", "sctp"} {
		g.RunNbctl(t, "--may-exist", "ls-lb-add", "join", "cluster-"+proto+"-loadbalancer")
	}
	return g
}

// createService runs a pod behind a Service with its own external address, which a network's router learns.
func (g *nodeFixture) createService(t *testing.T, network string, vip netip.Addr) {
	t.Helper()
	g.Apply(t, fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %[1]s, namespace: shop, labels: {app: %[1]s}}
spec: {nodeName: node1, containers: [{name: main, image: lab/echo}]}
---
apiVersion: v1
kind: Service
metadata: {name: %[1]s, namespace: shop}
spec:
  type: LoadBalancer
  loadBalancerClass: example.com/announced
  selector: {app: %[1]s}
  ports: [{name: t, port: 80, protocol: TCP}, {name: u, port: 80, protocol: UDP}, {name: s, port: 80, protocol: SCTP}]`, network))
	g.WaitForObject(t, "Pod", "shop", network, manifest.True("Ready"))
	s, err := g.Client.CoreV1().Services("shop").Get(harness.Within(t, harness.Patience), network, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	patch := fmt.Appendf(nil, `{"status":{"loadBalancer":{"ingress":[{"ip":%q}]}}}`, vip)
	if _, err := g.Client.CoreV1().Services("shop").Patch(harness.Within(t, harness.Patience), network, types.MergePatchType,
		patch, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	g.serviceIPs[network], g.clusterIPs[network] = vip, s.Spec.ClusterIP
	g.RunOnNode1(t, "nft", fmt.Sprintf("add rule ip external pre ip daddr %s dnat to %s", vip, s.Spec.ClusterIP))
	if network != "uplink-a" {
		if err := g.Announce(harness.Within(t, harness.Patience), "node1", netip.PrefixFrom(vip, 32), network); err != nil {
			t.Fatal(err)
		}
		harness.Eventually(t, network+"'s router knows the address", func() bool {
			return hasBGPRoute(t, g.Cluster, "router-"+network, netip.PrefixFrom(vip, 32))
		})
	}
}

// startAgent runs the agent of node1.
func (g *nodeFixture) startAgent(t *testing.T) {
	t.Helper()
	g.agent = g.RunAgent(t, "node1", g.agentLog)
}

// applyNetwork creates or changes the ExternalNetwork of an uplink, and waits until the agent has applied it.
func (g *nodeFixture) applyNetwork(t *testing.T, name, more string) {
	t.Helper()
	s := g.Segment(t, name)
	var gateways []string
	for _, p := range s.Gateways {
		gateways = append(gateways, fmt.Sprintf("%q", p.Addr()))
	}
	g.Apply(t, fmt.Sprintf(`
apiVersion: kube-dc.com/v1alpha1
kind: ExternalNetwork
metadata: {name: %[1]s}
spec:
  type: %[1]s
  nodes: {interface: %[1]s, gateways: [%[2]s], nodeSelector: {matchLabels: {kubernetes.io/hostname: node1}}, %[3]s}`, name, strings.Join(gateways, ", "), more))
	g.waitNodePathProgrammed(t)
}

// waitNodePathProgrammed waits until the NodePath of node1 is Programmed.
func (g *nodeFixture) waitNodePathProgrammed(t *testing.T) {
	t.Helper()
	g.SyncFlows(t)
	g.WaitForObject(t, "NodePath", "", "node1", manifest.True("Programmed"))
	for _, n := range g.nodeNetworks(t) {
		g.WaitForObject(t, "ExternalNetwork", "", n, manifest.True("Programmed"))
	}
}

// nodeNetworks returns the networks of node1.
func (g *nodeFixture) nodeNetworks(t *testing.T) (out []string) {
	t.Helper()
	for _, n := range g.readNodePath(t).Spec.Networks {
		out = append(out, n.Name)
	}
	return out
}

// readNodePath returns the NodePath of node1.
func (g *nodeFixture) readNodePath(t *testing.T) (out kubedcv1alpha1.NodePath) {
	t.Helper()
	if err := g.NewDirectClient(t, nil).Get(harness.Within(t, harness.Patience), client.ObjectKey{Name: "node1"},
		&out); err != nil {
		t.Fatal(err)
	}
	return out
}

// serviceURL returns the URL of a Service for clients outside.
func (g *nodeFixture) serviceURL(network, protocol string) string {
	return fmt.Sprintf("%s://%s:80", protocol, g.serviceIPs[network])
}

// clientPrefixes returns the prefix of the client of an uplink.
func (g *nodeFixture) clientPrefixes(t *testing.T, network string) string {
	t.Helper()
	var out []string
	for _, p := range g.Segment(t, network).ClientSide {
		out = append(out, fmt.Sprintf("%q", p.Peer.Masked()))
	}
	return strings.Join(out, ", ")
}

// clientIPv4 returns the IPv4 address of the client of an uplink.
func (g *nodeFixture) clientIPv4(t *testing.T, network string) string {
	return g.Segment(t, network).ClientSide[0].Peer.Addr().String()
}

// countEgressPackets counts the packets with a source address that leave node1 through each of the links.
func (g *nodeFixture) countEgressPackets(t *testing.T, source netip.Addr, links ...string) func() map[string]int {
	t.Helper()
	var mu sync.Mutex
	counts := map[string]int{}
	for _, link := range links {
		g.CaptureFrames(t, "node1", link, unix.ETH_P_ALL, func(frame []byte, own bool) {
			if from, ok := netip.AddrFromSlice(frame[26:30]); own && len(frame) > 34 && frame[12] == 8 && ok &&
				from == source {
				mu.Lock()
				counts[link]++
				mu.Unlock()
			}
		})
	}
	return func() map[string]int {
		mu.Lock()
		defer mu.Unlock()
		return maps.Clone(counts)
	}
}

// answersAtOnce reports whether a request from the client of vlan1 is answered before any retransmission.
func (g *nodeFixture) answersAtOnce(target string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 150*time.Millisecond)
	defer cancel()
	_, err := program.Ask(ctx, g.NS("client-vlan1"), target)
	return err == nil
}

// nodeIPv6 returns the IPv6 address of node1 on an uplink. The kernel removes it when the link goes down.
func (g *nodeFixture) nodeIPv6(t *testing.T, network string) string {
	t.Helper()
	return g.Segment(t, network).NodeAddresses(g.Blueprint.NodeList()[0])[1].String()
}

// networkNumber returns the number of a network on node1.
func (g *nodeFixture) networkNumber(t *testing.T, network string) int {
	t.Helper()
	for _, n := range g.readNodePath(t).Spec.Networks {
		if n.Name == network {
			return int(n.Number)
		}
	}
	t.Fatalf("the NodePath has no network %s", network)
	return 0
}

// expectKernelRestored fails the test unless the kernel state of node1 returns to the earlier dump.
func (g *nodeFixture) expectKernelRestored(t *testing.T, before map[string]bool) {
	t.Helper()
	var after map[string]bool
	for end := time.Now().Add(harness.Patience); time.Now().Before(end); <-time.After(50 * time.Millisecond) {
		if after = g.dumpKernel(t); maps.Equal(before, after) {
			return
		}
	}
	for line := range before {
		if !after[line] {
			t.Errorf("the kernel has lost: %s", line)
		}
	}
	for line := range after {
		if !before[line] {
			t.Errorf("the kernel still has: %s", line)
		}
	}
}

// dumpKernel returns the state of node1's kernel, as far as the agent could have changed it.
func (g *nodeFixture) dumpKernel(t *testing.T) map[string]bool {
	t.Helper()
	cmd, err := g.Command("", "node1", "sh", "-c", `ip rule; ip -6 rule; ip route show table all; ip -6 route show table all; ip -br link | awk '{print $1}'
nft list ruleset; sysctl -a 2>/dev/null | grep 'conf\.\(vlan\|all\|ovn0\).*\(forwarding\|rp_filter\|keep_addr\)'`)
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	lines := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		if !strings.Contains(line, "fe80") { // is added some time after its link
			lines[strings.TrimSpace(line)] = true
		}
	}
	return lines
}
