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
	"github.com/sallyport/sallyport/internal/ownership"
	"github.com/sallyport/sallyport/test/show"
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
	for _, o := range parseFile(t, "../../bin/sallyport-agent.yaml") {
		if o.GetKind() == "DaemonSet" { // the lab's kubelet runs images of its own only
			continue
		}
		if err := c.objects.ApplyObject(within(t, time.Minute), o); err != nil {
			t.Fatal(err)
		}
	}
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
		return g.NS("node1").Do(func() error { _, err := netlink.LinkByName("ovn0"); return err }) == nil
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

// run runs the agent of node1, with the rights of the chart's ServiceAccount as a pod on that node has them, and with CAP_NET_ADMIN only.
func (g *gatehouse) run(t *testing.T) {
	t.Helper()
	program, err := filepath.Abs("../../bin/sallyport-agent")
	if err != nil {
		t.Fatal(err)
	}
	g.agent, err = g.Command("", "node1", "setpriv", "--bounding-set=-all,+net_admin", "--inh-caps=-all,+net_admin", "--no-new-privs", "--",
		program, "--node=node1", "--kubeconfig="+g.agentKubeconfig(t, "node1"), "--state-dir="+g.stateDir())
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.OpenFile(g.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	g.agent.Stdout, g.agent.Stderr = log, log
	if err := g.agent.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.agent.Process.Kill(); _ = g.agent.Wait(); _ = log.Close() })
}

func (g *gatehouse) stateDir() string { return filepath.Join(g.Dir, "agent-node1") }

// agentKubeconfig is that of the agent on a node.
func (g *gatehouse) agentKubeconfig(t *testing.T, node string) string {
	t.Helper()
	path, err := g.AgentConfig(within(t, time.Minute), g.client, chartNamespace, node)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// segment is an uplink.
func (g *gatehouse) segment(t *testing.T, name string) blueprint.Segment {
	t.Helper()
	all := g.blueprint.Segments()
	i := slices.IndexFunc(all, func(s blueprint.Segment) bool { return s.Name == name })
	if i < 0 {
		t.Fatalf("the lab has no uplink %s", name)
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

// method is how an ExternalNetwork asks for a way back.
type method struct{ name, spec string }

// clients is the prefix in which the client of an uplink is.
func (g *gatehouse) clients(t *testing.T, network string) string {
	t.Helper()
	var out []string
	for _, p := range g.segment(t, network).ClientSide {
		out = append(out, fmt.Sprintf("%q", p.Peer.Masked()))
	}
	return strings.Join(out, ", ")
}

func (g *gatehouse) methods(t *testing.T, network string) []method {
	t.Helper()
	addresses := fmt.Sprintf("addresses: [%s/32]", g.vips[network])
	return []method{
		{"Connection", "method: Connection"},
		{"Static", "method: Static, clients: [" + g.clients(t, network) + "]"},
		{"SourceRule", "method: SourceRule, " + addresses},
		{"Mark", "method: Mark, " + addresses},
	}
}

// TestAgentOnNodes: what the agent promises, in one lab.
func TestAgentOnNodes(t *testing.T) {
	g := newGatehouse(t, "agent")
	g.run(t)
	g.answers(t, "node1", "http://"+g.ips["vlan1"], "vlan1", "") // the Service itself works
	t.Run("methods", func(t *testing.T) {
		item := agents.Item(t, 1)
		before := g.kernel(t)
		for _, m := range g.methods(t, "vlan1") {
			t.Run(m.name, func(t *testing.T) {
				g.leadsBack(t, m)
				g.remove(t, "ExternalNetwork", "", "vlan1")
				g.asFound(t, before)
				if !t.Failed() {
					item.Figure("%s: by HTTP, UDP and SCTP the client got its answer by vlan1 and the server saw its address; without it the reply left by uplink-a, "+
						"whose router dropped it; removed, the kernel is as found", m.name)
				}
			})
		}
		for _, f := range []struct {
			what string
			run  func(*gatehouse, *testing.T) string
		}{
			{"two networks at once", (*gatehouse).twoNetworks},
			{"the node's own", (*gatehouse).nodesOwn},
			{"disturbed", (*gatehouse).disturbed},
			{"interfaces that come and go", (*gatehouse).interfaces},
		} {
			t.Run(f.what, func(t *testing.T) {
				if figure := f.run(g, t); !t.Failed() {
					item.Figure("%s: %s", f.what, figure)
				}
			})
		}
	})
	t.Run("switched", func(t *testing.T) { g.switched(t, agents.Item(t, 4)) })
	t.Run("privileges", func(t *testing.T) { g.privileges(t, agents.Item(t, 6)) })
}

// client4 is the IPv4 address of the client of an uplink.
func (g *gatehouse) client4(t *testing.T, network string) string {
	return g.segment(t, network).ClientSide[0].Peer.Addr().String()
}

// leadsBack shows a method by packets: without it the reply leaves by the default uplink, with it by the network.
func (g *gatehouse) leadsBack(t *testing.T, m method) {
	t.Helper()
	left := g.leaves(t, g.vips["vlan1"], "uplink-a", "vlan1")
	g.resetDrops(t)
	g.silent(t, "client-vlan1", g.url("vlan1", "http"))
	if g.drops(t)["router-uplink-a"] == 0 || left()["vlan1"] > 0 {
		t.Errorf("without it the reply did not leave by the default uplink: %v", left())
	}
	g.network(t, "vlan1", m.spec)
	g.resetDrops(t)
	wrong := left()["uplink-a"]
	for _, protocol := range []string{"http", "udp", "sctp"} {
		g.answers(t, "client-vlan1", g.url("vlan1", protocol), "vlan1", g.client4(t, "vlan1"))
	}
	g.noDrops(t)
	if now := left(); now["vlan1"] < 3 || now["uplink-a"] > wrong {
		t.Errorf("replies left by %v; by uplink-a %d before", now, wrong)
	}
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

// twoNetworks: one client reaches two Services by two networks at the same time, and one Service by both; each reply goes back by its own.
func (g *gatehouse) twoNetworks(t *testing.T) string {
	both := netip.PrefixFrom(g.vips["vlan1"], 32)
	if err := g.Announce(within(t, time.Minute), "node1", both, "vlan1", "vlan2"); err != nil {
		t.Fatal(err)
	}
	for _, n := range []string{"vlan1", "vlan2"} {
		g.network(t, n, "method: Connection")
		wide := g.segment(t, n).WideArea[0]
		if err := g.NS("internet").Do(func() error { // whose address is the same by every network
			return netlink.RouteAdd(&netlink.Route{Dst: &net.IPNet{IP: g.vips[n].AsSlice(), Mask: net.CIDRMask(32, 32)}, Gw: wide.Router.Addr().AsSlice(), Src: net.ParseIP(theInternet)})
		}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "vlan2's router knows the address of vlan1", func() bool { return g.learnt(t, "router-vlan2", both) })
	g.resetDrops(t)
	for range 5 {
		for _, n := range []string{"vlan1", "vlan2"} {
			g.answers(t, "internet", g.url(n, "http"), n, theInternet)
		}
		g.answers(t, "client-vlan2", g.url("vlan1", "http"), "vlan1", g.client4(t, "vlan2"))
		g.answers(t, "client-vlan1", g.url("vlan1", "http"), "vlan1", g.client4(t, "vlan1"))
	}
	g.noDrops(t)
	if err := g.Announce(within(t, time.Minute), "node1", both, "vlan1"); err != nil {
		t.Fatal(err)
	}
	g.remove(t, "ExternalNetwork", "", "vlan2")
	return theInternet + " was answered by two networks in turn, and one address by both of them, 20 times, no drops"
}

// nodesOwn: what listens on the node itself is reached by its address on any network, by IPv4 and IPv6.
func (g *gatehouse) nodesOwn(t *testing.T) string {
	g.apply(t, `
apiVersion: v1
kind: Pod
metadata: {name: own, namespace: shop}
spec: {nodeName: node1, hostNetwork: true, containers: [{name: main, image: lab/echo}]}`)
	g.wait(t, "Pod", "shop", "own", manifest.True("Ready"))
	s, node := g.segment(t, "vlan1"), g.blueprint.NodeList()[0]
	ask := func(answer bool) {
		t.Helper()
		for i, a := range s.NodeAddresses(node) {
			if target := "http://" + netip.AddrPortFrom(a.Addr(), 80).String(); answer {
				g.answers(t, "client-vlan1", target, "own", s.ClientSide[i].Peer.Addr().String())
			} else {
				g.silent(t, "client-vlan1", target)
			}
		}
	}
	g.network(t, "vlan1", "method: Connection")
	ask(true)
	g.remove(t, "ExternalNetwork", "", "vlan1")
	g.until(t, "the node answers by its default uplink again", func() bool { _, err := g.ask("client-vlan1", g.url("vlan1", "http")); return err != nil })
	ask(false)
	return "by IPv4 and IPv6, the client got its answer with Connection, and none without"
}

// disturbed: whatever others do to the node's kernel, it works again within a second, and established connections go on.
func (g *gatehouse) disturbed(t *testing.T) string {
	g.network(t, "vlan1", "method: Connection")
	g.answers(t, "client-vlan1", g.url("vlan1", "http"), "vlan1", "")
	var figures []string
	for _, d := range []struct{ what, command string }{
		{"ip rule flush", "ip rule flush; ip rule add pref 32766 lookup main; ip rule add pref 32767 lookup default"},
		{"nft flush of our table", "nft flush table inet sallyport"},
		{"nft delete of our table", "nft delete table inet sallyport"},
		{"routes flushed", "ip route flush table " + fmt.Sprint(ownership.NodeTables+g.number(t, "vlan1"))},
		{"rp_filter strict", "sysctl -qw net.ipv4.conf.vlan1.rp_filter=1"},
		{"link down and up", "ip link set vlan1 down; ip link set vlan1 up; ip addr add " + g.address6(t, "vlan1") + " dev vlan1 nodad"},
	} {
		stream := g.stream(t, "client-vlan1", g.vips["vlan1"].String())
		g.onNode1(t, "sh", "-c", d.command)
		begun := time.Now()
		eventually(t, "it works after "+d.what, func() bool { return g.atOnce(g.url("vlan1", "http")) })
		took := time.Since(begun)
		if took > time.Second {
			t.Errorf("%s: it worked again after %v", d.what, took)
		}
		longest := survive(t, d.what, 10*time.Second, stream)
		figures = append(figures, fmt.Sprintf("%s %d ms (a stream was silent for %d ms)", d.what, took.Milliseconds(), longest.Milliseconds()))
	}
	g.wait(t, "NodePath", "", "node1", func(o *unstructured.Unstructured) bool { return reasonOf(o, "Undisturbed") == "Disturbed" })
	g.remove(t, "ExternalNetwork", "", "vlan1")
	return "works again after " + strings.Join(figures, ", ") + "; then the NodePath says that somebody disturbs it"
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

// interfaces: one that is not there is told of, and taken when it comes; one that is known by its MAC address may be renamed.
func (g *gatehouse) interfaces(t *testing.T) string {
	g.network(t, "vlan1", "method: Connection")
	s := g.segment(t, "vlan1")
	works := func() bool { _, err := g.ask("client-vlan1", g.url("vlan1", "http")); return err == nil }
	rename := func(from, to string) {
		g.onNode1(t, "sh", "-c", fmt.Sprintf("ip link set %[1]s down; ip link set %[1]s name %[2]s; ip link set %[2]s up; ip addr add %[3]s dev %[2]s nodad",
			from, to, g.address6(t, "vlan1")))
	}
	rename("vlan1", "other")
	g.wait(t, "NodePath", "", "node1", func(o *unstructured.Unstructured) bool { return reasonOf(o, "ResolvedRefs") == "InterfaceNotFound" })
	if works() {
		t.Error("it answers without the interface")
	}
	g.wait(t, "ExternalNetwork", "", "vlan1", func(o *unstructured.Unstructured) bool { return reasonOf(o, "Programmed") == "WaitingForAgent" })
	var mac string
	if err := g.NS("node1").Do(func() error {
		l, err := netlink.LinkByName("other")
		if err == nil {
			mac = l.Attrs().HardwareAddr.String()
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	g.apply(t, fmt.Sprintf(`
apiVersion: kube-dc.com/v1alpha1
kind: ExternalNetwork
metadata: {name: vlan1}
spec: {type: vlan1, nodes: {mac: %q, gateways: [%q], nodeSelector: {matchLabels: {kubernetes.io/hostname: node1}}}}`, mac, s.Gateways[0].Addr()))
	g.until(t, "it works by MAC address", works)
	rename("other", "vlan1")
	took := eventually(t, "it works under its old name", works)
	g.remove(t, "ExternalNetwork", "", "vlan1")
	return fmt.Sprintf("InterfaceNotFound while it had another name; found by MAC address, also after it was renamed (%d ms)", took.Milliseconds())
}

// switched: the method of a network changes while a client is connected.
func (g *gatehouse) switched(t *testing.T, item *show.Item) {
	methods := g.methods(t, "vlan1")
	g.network(t, "vlan1", methods[0].spec)
	stream := g.stream(t, "client-vlan1", g.vips["vlan1"].String())
	was := methods[0]
	for _, i := range []int{1, 2, 3, 0, 2, 1, 3, 2, 0, 3, 1, 0} { // each after each other
		now := methods[i]
		g.network(t, "vlan1", now.spec)
		longest := survive(t, was.name+" → "+now.name, 10*time.Second, stream)
		item.Figure("%s → %s: the connection went on, its longest silence so far was %d ms", was.name, now.name, longest.Milliseconds())
		was = now
	}
	g.lacksVRF(t, stream)
	g.remove(t, "ExternalNetwork", "", "vlan1")
	item.Figure("→ VRF on a kernel without it: the NodePath says so, and the old way stays")
}

// lacksVRF: a method that the kernel does not have is told of, and the way that there was stays.
func (g *gatehouse) lacksVRF(t *testing.T, stream *stream) {
	t.Helper()
	g.apply(t, fmt.Sprintf(`
apiVersion: kube-dc.com/v1alpha1
kind: ExternalNetwork
metadata: {name: vlan1}
spec: {type: vlan1, nodes: {interface: vlan1, gateways: [%q], method: VRF, addresses: [%s/32], nodeSelector: {matchLabels: {kubernetes.io/hostname: node1}}}}`,
		g.segment(t, "vlan1").Gateways[0].Addr(), g.vips["vlan1"]))
	g.wait(t, "NodePath", "", "node1", func(o *unstructured.Unstructured) bool {
		message, _ := condition(o, "Programmed")["message"].(string)
		return reasonOf(o, "Programmed") == "WriteFailed" && strings.Contains(message, "load the module vrf")
	})
	survive(t, "→ VRF, which this kernel does not have", 10*time.Second, stream)
	g.answers(t, "client-vlan1", g.url("vlan1", "http"), "vlan1", g.client4(t, "vlan1"))
}

// privileges: what the agent may do, and nothing else. It has run with CAP_NET_ADMIN only all the time.
func (g *gatehouse) privileges(t *testing.T, item *show.Item) {
	g.network(t, "vlan1", "method: Connection")
	agent := someone(t, "the agent", configFrom(t, g.outside(t, g.agentKubeconfig(t, "node1"))))
	agent.can(t, "its own status", patch("nodepaths//node1/status", `{"status":{"repairs":0}}`))
	other := someone(t, "the agent of node2", configFrom(t, g.outside(t, g.agentKubeconfig(t, "node2"))))
	other.cannot(t, "the status of another", patch("nodepaths//node1/status", `{"status":{"repairs":7}}`), "an agent reports on the NodePath of the node that it runs on")
	for what, try := range map[string]tried{
		"a Secret":           get("secrets/kube-system/any"),
		"a NodePath":         patch("nodepaths//node1", `{"spec":{}}`),
		"a NodePath, gone":   remove("nodepaths//node1"),
		"an ExternalNetwork": patch("externalnetworks//vlan1", `{"spec":{}}`),
		"Pods":               get("pods/shop/vlan1"),
		"Nodes":              patch("nodes//node1", `{}`),
	} {
		agent.cannot(t, what, try, "cannot")
	}
	g.remove(t, "ExternalNetwork", "", "vlan1")
	if t.Failed() {
		return
	}
	item.Figure("all of this list was carried out with CAP_NET_ADMIN alone, without new privileges; in Kubernetes the agent writes the status of its own " +
		"NodePath and events, and reads NodePaths: six other things are refused, and so is the NodePath of another node")
}

// outside is a kubeconfig that was made for a node, for use here.
func (g *gatehouse) outside(t *testing.T, path string) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	here, err := clientcmd.LoadFromFile(g.Kubeconfig())
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
