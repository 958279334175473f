package e2e

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/lab/blueprint"
	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/internal/lab/program"
)

// gatehouse is a lab whose nodes have a default uplink and two networks, with an agent on node1. Service addresses come to node1, which
// sends them to the Service's cluster address, as OVN-Kubernetes does for addresses of MetalLB's.
type gatehouse struct {
	*cluster
	*controller
	agent *exec.Cmd
	log   string
	vips  map[string]netip.Addr // Service address by network
	ips   map[string]string     // cluster address by network
}

func newGatehouse(t *testing.T, name string) *gatehouse {
	t.Helper()
	b, err := blueprint.Load("testdata/agent.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c := own(t, name, b)
	c.equip(t)
	g := &gatehouse{
		cluster: c, controller: c.controller(t, os.TempDir(), "--cluster-prefixes=10.96.0.0/12,10.16.0.0/16"), log: filepath.Join(t.TempDir(), "agent.log"),
		vips: map[string]netip.Addr{}, ips: map[string]string{},
	}
	c.applyAgent(t)
	g.start(t)
	t.Cleanup(func() {
		if t.Failed() {
			said, _ := os.ReadFile(g.log)
			t.Logf("the controller's log ends with\n%s\nand the agent's is\n%s", g.tail(10), said)
		}
		g.stop(syscall.SIGTERM)
	})
	c.namespace(t, "shop", "")
	eventually(t, "node1 is connected with the pods", func() bool {
		var on []netlink.Route // its address comes a moment after the link
		err := g.NS("node1").Do(func() (err error) { on, err = netlink.RouteGet(net.IPv4(100, 64, 0, 1)); return err })
		return err == nil && len(on) > 0 && on[0].Gw == nil // not by a router
	})
	g.onNode1(t, "sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1") // as every node of Kubernetes has it
	g.onNode1(t, "ip", "route", "replace", "10.96.0.0/12", "via", "100.64.0.1", "dev", "ovn0")
	g.onNode1(t, "nft", "add table ip external; add chain ip external pre { type nat hook prerouting priority -100; }")
	for i, network := range []string{"uplink-a", "vlan1", "vlan2"} {
		g.serve(t, network, netip.AddrFrom4([4]byte{198, 18, 10, byte(i + 1)}))
	}
	for _, proto := range []string{"tcp", "udp", "sctp"} {
		g.nbctl(t, "--may-exist", "ls-lb-add", "join", "cluster-"+proto+"-loadbalancer")
	}
	return g
}

// parseFile reads a manifest.
func parseFile(t *testing.T, file string) []*unstructured.Unstructured {
	t.Helper()
	objects, err := manifest.Parse(readFile(t, file))
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// serve runs a pod behind a Service with an external address of its own, which a network's router learns.
func (g *gatehouse) serve(t *testing.T, network string, vip netip.Addr) {
	t.Helper()
	g.apply(t, fmt.Sprintf(`
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
	g.wait(t, "Pod", "shop", network, manifest.True("Ready"))
	s, err := g.client.CoreV1().Services("shop").Get(within(t, time.Minute), network, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	patch := fmt.Appendf(nil, `{"status":{"loadBalancer":{"ingress":[{"ip":%q}]}}}`, vip)
	if _, err := g.client.CoreV1().Services("shop").Patch(within(t, time.Minute), network, types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	g.vips[network], g.ips[network] = vip, s.Spec.ClusterIP
	g.onNode1(t, "nft", fmt.Sprintf("add rule ip external pre ip daddr %s dnat to %s", vip, s.Spec.ClusterIP))
	if network != "uplink-a" {
		if err := g.Announce(within(t, time.Minute), "node1", netip.PrefixFrom(vip, 32), network); err != nil {
			t.Fatal(err)
		}
		eventually(t, network+"'s router knows the address", func() bool { return g.learnt(t, "router-"+network, netip.PrefixFrom(vip, 32)) })
	}
}

// run runs the agent of node1.
func (g *gatehouse) run(t *testing.T) {
	t.Helper()
	g.agent = g.runAgent(t, "node1", g.log)
}

// runAgent runs the agent of a node until the test ends, with the rights of the chart's ServiceAccount as a pod on that node has them, and with
// the chart's capabilities only. Its log goes to a file.
func (c *cluster) runAgent(t *testing.T, node, file string) *exec.Cmd {
	t.Helper()
	program, err := filepath.Abs("../../bin/sallyport-agent")
	if err != nil {
		t.Fatal(err)
	}
	const few = "=-all,+net_admin,+net_raw,+dac_override"
	agent, err := c.Command("", node, append([]string{"setpriv", "--bounding-set" + few, "--inh-caps" + few, "--no-new-privs", "--", program},
		c.AgentFlags(node, c.agentKubeconfig(t, node))...)...)
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	agent.Stdout, agent.Stderr = log, log
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = agent.Process.Kill(); _ = agent.Wait(); _ = log.Close() })
	return agent
}

// applyAgent applies what the chart has for agents, but the agents: the lab's kubelet runs images of its own only.
func (c *cluster) applyAgent(t *testing.T) {
	t.Helper()
	for _, o := range parseFile(t, "../../bin/sallyport-agent.yaml") {
		if o.GetKind() == "DaemonSet" {
			continue
		}
		if err := c.objects.ApplyObject(within(t, time.Minute), o); err != nil {
			t.Fatal(err)
		}
	}
}

// agentKubeconfig is that of the agent on a node.
func (c *cluster) agentKubeconfig(t *testing.T, node string) string {
	t.Helper()
	path, err := c.AgentConfig(within(t, time.Minute), c.client, chartNamespace, node)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// segment is an external network or an uplink.
func (c *cluster) segment(t *testing.T, name string) blueprint.Segment {
	t.Helper()
	all := c.blueprint.Segments()
	i := slices.IndexFunc(all, func(s blueprint.Segment) bool { return s.Name == name })
	if i < 0 {
		t.Fatalf("the lab has no network %s", name)
	}
	return all[i]
}

// network makes or changes the ExternalNetwork of an uplink, and waits until the agent has carried it out.
func (g *gatehouse) network(t *testing.T, name, more string) {
	t.Helper()
	s := g.segment(t, name)
	var gateways []string
	for _, p := range s.Gateways {
		gateways = append(gateways, fmt.Sprintf("%q", p.Addr()))
	}
	g.apply(t, fmt.Sprintf(`
apiVersion: kube-dc.com/v1alpha1
kind: ExternalNetwork
metadata: {name: %[1]s}
spec:
  type: %[1]s
  nodes: {interface: %[1]s, gateways: [%[2]s], nodeSelector: {matchLabels: {kubernetes.io/hostname: node1}}, %[3]s}`, name, strings.Join(gateways, ", "), more))
	g.carriedOut(t)
}

// carriedOut waits until the NodePath of node1 says so.
func (g *gatehouse) carriedOut(t *testing.T) {
	t.Helper()
	g.sync(t)
	g.wait(t, "NodePath", "", "node1", manifest.True("Programmed"))
	for _, n := range g.networks(t) {
		g.wait(t, "ExternalNetwork", "", n, manifest.True("Programmed"))
	}
}

// networks are those that node1 is on.
func (g *gatehouse) networks(t *testing.T) (out []string) {
	t.Helper()
	for _, n := range g.path(t).Spec.Networks {
		out = append(out, n.Name)
	}
	return out
}

// path is the NodePath of node1.
func (g *gatehouse) path(t *testing.T) (out kubedcv1alpha1.NodePath) {
	t.Helper()
	if err := g.direct(t, nil).Get(within(t, time.Minute), client.ObjectKey{Name: "node1"}, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// url is how a Service is reached from outside.
func (g *gatehouse) url(network, protocol string) string {
	return fmt.Sprintf("%s://%s:80", protocol, g.vips[network])
}

// clients is the prefix in which the client of an uplink is.
func (g *gatehouse) clients(t *testing.T, network string) string {
	t.Helper()
	var out []string
	for _, p := range g.segment(t, network).ClientSide {
		out = append(out, fmt.Sprintf("%q", p.Peer.Masked()))
	}
	return strings.Join(out, ", ")
}

// client4 is the IPv4 address of the client of an uplink.
func (g *gatehouse) client4(t *testing.T, network string) string {
	return g.segment(t, network).ClientSide[0].Peer.Addr().String()
}

// leaves counts the packets with a source address that leave node1 by each of some links.
func (g *gatehouse) leaves(t *testing.T, source netip.Addr, links ...string) func() map[string]int {
	t.Helper()
	var mu sync.Mutex
	counts := map[string]int{}
	for _, link := range links {
		g.sniff(t, "node1", link, unix.ETH_P_ALL, func(frame []byte, own bool) {
			if from, ok := netip.AddrFromSlice(frame[26:30]); own && len(frame) > 34 && frame[12] == 8 && ok && from == source {
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

// atOnce says whether a question from the client of vlan1 is answered before anything would be sent again.
func (g *gatehouse) atOnce(target string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 150*time.Millisecond)
	defer cancel()
	_, err := program.Ask(ctx, g.NS("client-vlan1"), target)
	return err == nil
}

// address6 is the IPv6 address of node1 on an uplink. The kernel forgets it when the link goes down.
func (g *gatehouse) address6(t *testing.T, network string) string {
	t.Helper()
	return g.segment(t, network).NodeAddresses(g.blueprint.NodeList()[0])[1].String()
}

// number is what stands for a network on node1.
func (g *gatehouse) number(t *testing.T, network string) int {
	t.Helper()
	for _, n := range g.path(t).Spec.Networks {
		if n.Name == network {
			return int(n.Number)
		}
	}
	t.Fatalf("the NodePath has no network %s", network)
	return 0
}

// outside is a kubeconfig that was made for a node, for use here.
func (c *cluster) outside(t *testing.T, path string) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	here, err := clientcmd.LoadFromFile(c.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range config.Clusters {
		c.Server = here.Clusters[name].Server
	}
	out := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// asFound fails the test unless the kernel of node1 becomes again what it was.
func (g *gatehouse) asFound(t *testing.T, before map[string]bool) {
	t.Helper()
	var after map[string]bool
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); <-time.After(50 * time.Millisecond) {
		if after = g.kernel(t); maps.Equal(before, after) {
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

// kernel is what the kernel of node1 holds, as far as we could have touched it.
func (g *gatehouse) kernel(t *testing.T) map[string]bool {
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
		if !strings.Contains(line, "fe80") { // comes some time after its link
			lines[strings.TrimSpace(line)] = true
		}
	}
	return lines
}
