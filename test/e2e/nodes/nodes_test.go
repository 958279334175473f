package nodes

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// returnMethod is a method of the return path and the fields of the ExternalNetwork that select it.
type returnMethod struct{ name, spec string }

func (g *nodeFixture) returnMethods(t *testing.T, network string) []returnMethod {
	t.Helper()
	addresses := fmt.Sprintf("addresses: [%s/32]", g.serviceIPs[network])
	return []returnMethod{
		{"Connection", "method: Connection"},
		{"Static", "method: Static, clients: [" + g.clientPrefixes(t, network) + "]"},
		{"SourceRule", "method: SourceRule, " + addresses},
		{"Mark", "method: Mark, " + addresses},
	}
}

// TestAgentOnNodes shows the guarantees of the agent in one lab.
func TestAgentOnNodes(t *testing.T) {
	g := newNodeFixture(t, "agent")
	g.startAgent(t)
	g.ExpectAnswer(t, "node1", "http://"+g.clusterIPs["vlan1"], "vlan1", "") // the Service itself works
	t.Run("methods", func(t *testing.T) {
		item := agentItems.Item(t, 1)
		before := g.dumpKernel(t)
		for _, m := range g.returnMethods(t, "vlan1") {
			t.Run(m.name, func(t *testing.T) {
				g.checkMethod(t, m)
				g.DeleteAndWait(t, "ExternalNetwork", "", "vlan1")
				g.expectKernelRestored(t, before)
				if !t.Failed() {
					item.AddFigure("%s: by HTTP, UDP and SCTP the client got its answer by vlan1 and the server saw its address; without it the reply left by uplink-a, "+
						"whose router dropped it; removed, the kernel is as found", m.name)
				}
			})
		}
		for _, f := range []struct {
			what string
			run  func(*nodeFixture, *testing.T) string
		}{
			{"two networks at once", (*nodeFixture).checkTwoNetworks},
			{"the node's own", (*nodeFixture).checkHostListeners},
			{"disturbed", (*nodeFixture).checkDisturbances},
			{"interfaces that come and go", (*nodeFixture).checkInterfaceChanges},
		} {
			t.Run(f.what, func(t *testing.T) {
				if figure := f.run(g, t); !t.Failed() {
					item.AddFigure("%s: %s", f.what, figure)
				}
			})
		}
	})
	t.Run("switched", func(t *testing.T) { g.checkMethodSwitch(t, agentItems.Item(t, 4)) })
	t.Run("privileges", func(t *testing.T) { g.checkPrivileges(t, agentItems.Item(t, 6)) })
}

// checkMethod shows a method with packets: without it the reply leaves through the default uplink, with it through the
// network.
func (g *nodeFixture) checkMethod(t *testing.T, m returnMethod) {
	t.Helper()
	left := g.countEgressPackets(t, g.serviceIPs["vlan1"], "uplink-a", "vlan1")
	g.ResetDrops(t)
	g.ExpectSilence(t, "client-vlan1", g.serviceURL("vlan1", "http"))
	if g.CountDrops(t)["router-uplink-a"] == 0 || left()["vlan1"] > 0 {
		t.Errorf("without it the reply did not leave by the default uplink: %v", left())
	}
	g.applyNetwork(t, "vlan1", m.spec)
	g.ResetDrops(t)
	wrong := left()["uplink-a"]
	for _, protocol := range []string{"http", "udp", "sctp"} {
		g.ExpectAnswer(t, "client-vlan1", g.serviceURL("vlan1", protocol), "vlan1", g.clientIPv4(t, "vlan1"))
	}
	g.ExpectNoDrops(t)
	if now := left(); now["vlan1"] < 3 || now["uplink-a"] > wrong {
		t.Errorf("replies left by %v; by uplink-a %d before", now, wrong)
	}
}

// checkTwoNetworks shows that one client reaches two Services through two networks at the same time, and one Service
// through both; each reply leaves through the network of its request.
func (g *nodeFixture) checkTwoNetworks(t *testing.T) string {
	both := netip.PrefixFrom(g.serviceIPs["vlan1"], 32)
	if err := g.Announce(harness.Within(t, harness.Patience), "node1", both, "vlan1", "vlan2"); err != nil {
		t.Fatal(err)
	}
	for _, n := range []string{"vlan1", "vlan2"} {
		g.applyNetwork(t, n, "method: Connection")
		wide := g.Segment(t, n).WideArea[0]
		if err := g.NS("internet").Do(func() error { // it has the same address on every network
			return netlink.RouteAdd(&netlink.Route{Dst: &net.IPNet{IP: g.serviceIPs[n].AsSlice(), Mask: net.CIDRMask(32,
				32)}, Gw: wide.Router.Addr().AsSlice(), Src: net.ParseIP(harness.InternetAddress)})
		}); err != nil {
			t.Fatal(err)
		}
	}
	harness.Eventually(t, "vlan2's router knows the address of vlan1", func() bool {
		return hasBGPRoute(t, g.Cluster, "router-vlan2", both)
	})
	g.ResetDrops(t)
	for range 5 {
		for _, n := range []string{"vlan1", "vlan2"} {
			g.ExpectAnswer(t, "internet", g.serviceURL(n, "http"), n, harness.InternetAddress)
		}
		g.ExpectAnswer(t, "client-vlan2", g.serviceURL("vlan1", "http"), "vlan1", g.clientIPv4(t, "vlan2"))
		g.ExpectAnswer(t, "client-vlan1", g.serviceURL("vlan1", "http"), "vlan1", g.clientIPv4(t, "vlan1"))
	}
	g.ExpectNoDrops(t)
	if err := g.Announce(harness.Within(t, harness.Patience), "node1", both, "vlan1"); err != nil {
		t.Fatal(err)
	}
	g.DeleteAndWait(t, "ExternalNetwork", "", "vlan2")
	return harness.InternetAddress + " was answered by two networks in turn, and one address by both of them, 20 times, no drops"
}

// checkHostListeners shows that servers on the node itself are reachable at its address on any network, by IPv4 and
// IPv6.
func (g *nodeFixture) checkHostListeners(t *testing.T) string {
	g.Apply(t, `
apiVersion: v1
kind: Pod
metadata: {name: own, namespace: shop}
spec: {nodeName: node1, hostNetwork: true, containers: [{name: main, image: lab/echo}]}`)
	g.WaitForObject(t, "Pod", "shop", "own", manifest.True("Ready"))
	s, node := g.Segment(t, "vlan1"), g.Blueprint.NodeList()[0]
	ask := func(answer bool) {
		t.Helper()
		for i, a := range s.NodeAddresses(node) {
			if target := "http://" + netip.AddrPortFrom(a.Addr(), 80).String(); answer {
				g.ExpectAnswer(t, "client-vlan1", target, "own", s.ClientSide[i].Peer.Addr().String())
			} else {
				g.ExpectSilence(t, "client-vlan1", target)
			}
		}
	}
	g.applyNetwork(t, "vlan1", "method: Connection")
	ask(true)
	g.DeleteAndWait(t, "ExternalNetwork", "", "vlan1")
	g.PollUntil(t, "the node answers by its default uplink again", func() bool {
		_, err := g.SendRequest("client-vlan1", g.serviceURL("vlan1", "http"))
		return err != nil
	})
	ask(false)
	return "by IPv4 and IPv6, the client got its answer with Connection, and none without"
}

// checkDisturbances shows that the node works again within a second (in CI: ten) after changes to its kernel by others,
// and that established connections continue unless conntrack was flushed.
func (g *nodeFixture) checkDisturbances(t *testing.T) string {
	g.applyNetwork(t, "vlan1", "method: Connection")
	g.ExpectAnswer(t, "client-vlan1", g.serviceURL("vlan1", "http"), "vlan1", "")
	var figures []string
	for _, d := range []struct{ what, command string }{
		{"ip rule flush", "ip rule flush; ip rule add pref 32766 lookup main; ip rule add pref 32767 lookup default"},
		{"nft flush of our table", "nft flush table inet sallyport"},
		{"nft delete of our table", "nft delete table inet sallyport"},
		{"routes flushed", "ip route flush table " + fmt.Sprint(ownership.NodeTableBase+g.networkNumber(t, "vlan1"))},
		{"rp_filter strict", "sysctl -qw net.ipv4.conf.vlan1.rp_filter=1"},
		{"link down and up", "ip link set vlan1 down; ip link set vlan1 up; ip addr add " + g.nodeIPv6(t, "vlan1") +
			" dev vlan1 nodad"},
		{"conntrack flushed", ""},
	} {
		stream := g.StartStream(t, "client-vlan1", g.serviceIPs["vlan1"].String())
		if d.command != "" {
			g.RunOnNode1(t, "sh", "-c", d.command)
		} else if err := g.NS("node1").Do(func() error {
			return netlink.ConntrackTableFlush(netlink.ConntrackTable)
		}); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		harness.Eventually(t, "it works after "+d.what, func() bool {
			return g.answersAtOnce(g.serviceURL("vlan1", "http"))
		})
		took := time.Since(begun)
		if took > show.ChooseSize(time.Second, 30*time.Second) { // in CI other themes run at the same time
			t.Errorf("%s: it worked again after %v", d.what, took)
		}
		if d.command == "" { // the kernel has lost the translation of open connections
			figures = append(figures, fmt.Sprintf("%s %d ms (open connections end)", d.what, took.Milliseconds()))
			continue
		}
		longest := harness.ExpectStreamsContinue(t, d.what, stream)
		figures = append(figures, fmt.Sprintf("%s %d ms (a stream was silent for %d ms)", d.what, took.Milliseconds(),
			longest.Milliseconds()))
	}
	g.WaitForObject(t, "NodePath", "", "node1", func(o *unstructured.Unstructured) bool {
		return harness.FalseReason(o, "Undisturbed") == "Disturbed"
	})
	g.DeleteAndWait(t, "ExternalNetwork", "", "vlan1")
	return "works again after " + strings.Join(figures, ", ") + "; then the NodePath says that somebody disturbs it"
}

// checkInterfaceChanges shows that a missing interface is reported and used when it appears, and that an interface
// selected by MAC address may be renamed.
func (g *nodeFixture) checkInterfaceChanges(t *testing.T) string {
	g.applyNetwork(t, "vlan1", "method: Connection")
	s := g.Segment(t, "vlan1")
	works := func() bool { _, err := g.SendRequest("client-vlan1", g.serviceURL("vlan1", "http")); return err == nil }
	rename := func(from, to string) {
		g.RunOnNode1(t, "sh", "-c", fmt.Sprintf(
			"ip link set %[1]s down; ip link set %[1]s name %[2]s; ip link set %[2]s up; ip addr add %[3]s dev %[2]s nodad",
			from, to, g.nodeIPv6(t, "vlan1")))
	}
	rename("vlan1", "other")
	g.WaitForObject(t, "NodePath", "", "node1", func(o *unstructured.Unstructured) bool {
		return harness.FalseReason(o, "ResolvedRefs") == "InterfaceNotFound"
	})
	if works() {
		t.Error("it answers without the interface")
	}
	g.WaitForObject(t, "ExternalNetwork", "", "vlan1", func(o *unstructured.Unstructured) bool {
		return harness.FalseReason(o, "Programmed") == "WaitingForAgent"
	})
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
	g.Apply(t, fmt.Sprintf(`
apiVersion: kube-dc.com/v1alpha1
kind: ExternalNetwork
metadata: {name: vlan1}
spec: {type: vlan1, nodes: {mac: %q, gateways: [%q], nodeSelector: {matchLabels: {kubernetes.io/hostname: node1}}}}`, mac, s.Gateways[0].Addr()))
	g.PollUntil(t, "it works by MAC address", works)
	rename("other", "vlan1")
	took := harness.Eventually(t, "it works under its old name", works)
	g.DeleteAndWait(t, "ExternalNetwork", "", "vlan1")
	return fmt.Sprintf("InterfaceNotFound while it had another name; found by MAC address, also after it was renamed (%d ms)", took.Milliseconds())
}

// checkMethodSwitch changes the method of a network while a client is connected.
func (g *nodeFixture) checkMethodSwitch(t *testing.T, item *show.Item) {
	methods := g.returnMethods(t, "vlan1")
	g.applyNetwork(t, "vlan1", methods[0].spec)
	stream := g.StartStream(t, "client-vlan1", g.serviceIPs["vlan1"].String())
	was := methods[0]
	for _, i := range []int{1, 2, 3, 0, 2, 1, 3, 2, 0, 3, 1, 0} { // every transition between methods
		now := methods[i]
		g.applyNetwork(t, "vlan1", now.spec)
		longest := harness.ExpectStreamsContinue(t, was.name+" → "+now.name, stream)
		item.AddFigure("%s → %s: the connection went on, its longest silence so far was %d ms", was.name, now.name,
			longest.Milliseconds())
		was = now
	}
	g.checkMissingVRF(t, stream)
	g.DeleteAndWait(t, "ExternalNetwork", "", "vlan1")
	item.AddFigure("→ VRF on a kernel without it: the NodePath says so, and the old way stays")
}

// checkMissingVRF shows that a method that the kernel does not support is reported, and that the previous setup is
// kept.
func (g *nodeFixture) checkMissingVRF(t *testing.T, stream *harness.Stream) {
	t.Helper()
	g.Apply(t, fmt.Sprintf(`
apiVersion: kube-dc.com/v1alpha1
kind: ExternalNetwork
metadata: {name: vlan1}
spec: {type: vlan1, nodes: {interface: vlan1, gateways: [%q], method: VRF, addresses: [%s/32], nodeSelector: {matchLabels: {kubernetes.io/hostname: node1}}}}`,
		g.Segment(t, "vlan1").Gateways[0].Addr(), g.serviceIPs["vlan1"]))
	g.WaitForObject(t, "NodePath", "", "node1", func(o *unstructured.Unstructured) bool {
		message, _ := harness.FindCondition(o, "Programmed")["message"].(string)
		return harness.FalseReason(o, "Programmed") == "WriteFailed" && strings.Contains(message, "load the kernel module vrf")
	})
	harness.ExpectStreamsContinue(t, "→ VRF, which this kernel does not have", stream)
	g.ExpectAnswer(t, "client-vlan1", g.serviceURL("vlan1", "http"), "vlan1", g.clientIPv4(t, "vlan1"))
}

// checkPrivileges shows that the agent has only the permissions it needs. It has run with only the chart's three
// capabilities all the time.
func (g *nodeFixture) checkPrivileges(t *testing.T, item *show.Item) {
	g.applyNetwork(t, "vlan1", "method: Connection")
	agent := harness.NewUser(t, "the agent",
		harness.LoadConfig(t, g.KubeconfigForHost(t, g.AgentKubeconfig(t, "node1"))))
	agent.Can(t, "its own status", harness.TryPatch("nodepaths//node1/status", `{"status":{"repairs":0}}`))
	other := harness.NewUser(t, "the agent of node2",
		harness.LoadConfig(t, g.KubeconfigForHost(t, g.AgentKubeconfig(t, "node2"))))
	other.Cannot(t, "the status of another", harness.TryPatch("nodepaths//node1/status", `{"status":{"repairs":7}}`),
		"an agent reports on the node that it runs on, and this is the NodePath of node1")
	for what, try := range map[string]harness.Attempt{
		"a Secret":           harness.TryGet("secrets/kube-system/any"),
		"a NodePath":         harness.TryPatch("nodepaths//node1", `{"spec":{}}`),
		"a NodePath, gone":   harness.TryDelete("nodepaths//node1"),
		"an ExternalNetwork": harness.TryPatch("externalnetworks//vlan1", `{"spec":{}}`),
		"Pods":               harness.TryGet("pods/shop/vlan1"),
		"Nodes":              harness.TryPatch("nodes//node1", `{}`),
	} {
		agent.Cannot(t, what, try, "cannot")
	}
	g.DeleteAndWait(t, "ExternalNetwork", "", "vlan1")
	if t.Failed() {
		return
	}
	item.AddFigure("all of this list was carried out with CAP_NET_ADMIN, CAP_NET_RAW and CAP_DAC_OVERRIDE alone, without new privileges; in Kubernetes the agent writes the status of its own " +
		"NodePath and of Inspections of its node, and events, and reads both kinds: six other things are refused, and so is the NodePath of another node")
}
