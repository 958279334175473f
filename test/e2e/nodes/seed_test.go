package nodes

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/model/nodepath"
	"github.com/sallyport/sallyport/internal/model/state"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/page"
)

// manualCommand is a command of the proof of concept, what the agent writes instead, and the test that shows it.
type manualCommand struct {
	command      string
	method       string
	withVethPair bool
	steering     string
	agentWrites  string // text to find in the agent's output; empty: nothing is needed
	note         string // instead of agentWrites
	test         string
}

// manualCommands are the commands in the order of the proof of concept.
var manualCommands = []manualCommand{
	{
		command:     "`ip route add 10.111.223.0/24 via 10.111.221.21 dev eth1` (route to the clients)",
		method:      "Static",
		agentWrites: `^route 10\.111\.223`,
		test:        "TestAgentOnNodes/methods/Static",
	},
	{
		command:     "`ip route add default via 10.111.221.21 dev eth1 table device1`",
		method:      "SourceRule",
		agentWrites: `^route 0\.0\.0\.0/0`,
		test:        "TestAgentOnNodes/methods/SourceRule",
	},
	{
		command:     "`echo 200 device1 >> /etc/iproute2/rt_tables`",
		method:      "SourceRule",
		agentWrites: `^name of table`,
		test:        "TestPlatform4VRFWithMarks",
	},
	{
		command:     "`ip rule add from $CLUSTERIP1 lookup device1`",
		method:      "SourceRule",
		agentWrites: `^rule .*from 10\.96\.145\.170`,
		test:        "TestAgentOnNodes/methods/SourceRule",
	},
	{
		command:     "`iptables -A PREROUTING -t mangle -s $CLUSTERIP1 -j MARK --set-mark 1`",
		method:      "Mark",
		agentWrites: `^nft (rule marks|element services)`,
		test:        "TestAgentOnNodes/methods/Mark",
	},
	{
		command:     "`ip rule add fwmark 1 table device1`",
		method:      "Mark",
		agentWrites: `^rule .*fwmark`,
		test:        "TestAgentOnNodes/methods/Mark",
	},
	{
		command:     "(none: each Service needs its own rule)",
		method:      "Connection",
		agentWrites: `^(nft rule|rule)`,
		test:        "TestAgentOnNodes/methods/Connection",
	},
	{command: "`ip link add vrf1 type vrf table 2`", method: "VRF", agentWrites: `^link sp-vrf`, test: "TestAgent2VRF"},
	{command: "`ip link set eth1 master vrf1`", method: "VRF", agentWrites: `^master of eth1`, test: "TestAgent2VRF"},
	{
		command:     "`ip route add default via 10.111.221.21 dev eth1 table 2`",
		method:      "VRF",
		agentWrites: `^route 0\.0\.0\.0/0 table \d+ via`,
		test:        "TestAgent2VRF",
	},
	{
		command:     "(none: the proof of concept has no VRF without a veth pair)",
		method:      "VRF",
		agentWrites: `^rule (990|1120)`,
		test:        "TestAgent2VRF",
	},
	{
		command: "`router_setup_vrf.sh` (routes on the router, because a BGP speaker in the default VRF no longer receives " +
			"connections)",
		method:      "VRF",
		agentWrites: `^setting net\.ipv4\.(tcp|udp)_l3mdev_accept`,
		test:        "TestAgent2VRF",
	},
	{
		command:      "`ip link add eth1veth-def type veth peer name eth1veth-vrf`",
		method:       "VRF",
		withVethPair: true,
		agentWrites:  `^link sp-leg`,
		test:         "TestAgent2VRF",
	},
	{
		command:      "`ip link set eth1veth-vrf master vrf1`",
		method:       "VRF",
		withVethPair: true,
		agentWrites:  `^master of sp-far`,
		test:         "TestAgent2VRF",
	},
	{
		command:      "`ip addr add 192.169.1.1/24 …`, `ip addr add 192.169.1.2/24 …`",
		method:       "VRF",
		withVethPair: true,
		agentWrites:  `^addresses of`,
		test:         "TestAgent2VRF",
	},
	{
		command:      "`ip route add $SERVICECIDR via 192.169.1.1 table 2`",
		method:       "VRF",
		withVethPair: true,
		agentWrites:  `^route 10\.96\.0\.0/12`,
		test:         "TestAgent2VRF",
	},
	{
		command:      "`ip route add 10.244.0.0/16 via 192.169.1.1 table 2` (for connections that pods open)",
		method:       "VRF",
		withVethPair: true,
		agentWrites:  `^route 10\.244\.0\.0/16`,
		test:         "TestAgent2VRF",
	},
	{
		command:      "`ip route add default via 192.169.1.2 dev eth1veth-def table 200`",
		method:       "VRF",
		withVethPair: true,
		agentWrites:  `^route 0\.0\.0\.0/0 table \d+ via 169`,
		test:         "TestAgent2VRF",
	},
	{
		command:      "`ip rule add from $CLUSTERIP1 lookup 200`",
		method:       "VRF",
		withVethPair: true,
		agentWrites:  `^rule .*from 10\.96\.145\.170`,
		test:         "TestAgent2VRF",
	},
	{
		command: "`vrf/setup_marking.sh`: `iptables -A PREROUTING -t mangle -s $CLUSTERIP1 -j MARK --set-mark 1`, " +
			"`ip rule add fwmark 1 table 200`",
		method:       "VRF",
		withVethPair: true,
		steering:     "Mark",
		agentWrites:  `^(nft (rule marks|element services)|rule .*fwmark)`,
		test:         "TestPlatform4VRFWithMarks",
	},
	{
		command:      "(none: each Service needs its own rule)",
		method:       "VRF",
		withVethPair: true,
		steering:     "Connection",
		agentWrites:  `^(nft rule (marks|local)|rule .*fwmark)`,
		test:         "TestPlatform4VRFWithMarks",
	},
	{
		command:     "`-A OVN-KUBE-EGRESS-SVC -s 10.244.0.5/32 -j SNAT --to-source 192.168.12.0` (an EgressService)",
		method:      "Connection",
		agentWrites: `^nft rule leaves net1 egress0`, test: "TestNodeEgress",
	},
	{
		command:     "a mark on packets of a pod to a destination",
		method:      "Connection",
		agentWrites: `^nft rule marks net1 egress1`,
		test:        "TestNodeEgress",
	},
	{
		command: "`iptables -t nat -A POSTROUTING -s 192.169.1.1 -j MASQUERADE` (because the veth pair had changed the " +
			"pod's address)",
		method:      "Connection",
		agentWrites: `^nft rule leaves net1 egress1`,
		test:        "TestNodeEgress",
	},
	{
		command: "MetalLB's `BGPAdvertisement` to one peer",
		note:    "nothing: the announcing program continues to do so",
		test:    "TestUplinkBGP",
	},
}

// compileManualSetup returns the kernel state for the proof of concept's node and network.
func compileManualSetup(h manualCommand) *nodepath.Kernel {
	n := nodepath.NetworkSpec{
		Name: "net1", Number: 1, Interface: "eth1", Gateways: []string{"10.111.221.21"},
		Method: nodepath.Method(h.method), Legs: h.withVethPair, Steering: kubedcv1alpha1.NodeSteering(h.steering),
		Clients: []string{"10.111.223.0/24"}, Services: []string{"10.96.145.170"},
		Inside: []string{"10.96.0.0/12", "10.244.0.0/16"},
	}
	if strings.Contains(h.agentWrites, "egress") {
		n.Egress = []nodepath.EgressSpec{
			{Pods: []string{"10.244.0.5"}, Address: "192.168.12.0"},
			{Pods: []string{"10.244.0.6"}, Destinations: []string{"10.111.223.23/32"}},
		}
	}
	eth1 := nodepath.Interface{
		Name:      "eth1",
		Up:        true,
		Addresses: []netip.Prefix{netip.MustParsePrefix("10.111.221.11/24")},
	}
	return nodepath.Compile(nodepath.Spec{Networks: []nodepath.NetworkSpec{n}},
		nodepath.Node{Interfaces: []nodepath.Interface{eth1}})
}

// kernelLines returns everything that the kernel should hold, one line each.
func kernelLines(k *nodepath.Kernel) []string {
	return slices.Concat(entryLines(k.Links), entryLines(k.Rules), entryLines(k.Routes), entryLines(k.Nft),
		entryLines(k.Sysctls), entryLines(k.TableNames))
}

func entryLines[K state.Key[K], V state.Value[V]](set state.Set[K, V]) (out []string) {
	for key, e := range set {
		out = append(out, strings.TrimSpace(key.String()+" "+e.Value.String()))
	}
	slices.Sort(out)
	return out
}

// TestAgent5Seed checks that the page lists, for every command of the proof of concept, what the agent writes.
func TestAgent5Seed(t *testing.T) {
	item := agentItems.Item(t, 5)
	var text strings.Builder
	text.WriteString("# What the agent writes on a node\n\n" +
		"`make golden` generates this page from the commands of a proof of concept for return traffic on nodes. For each manual\n" +
		"command it shows what `sallyport-agent` writes on the same node (eth1 has 10.111.221.11/24, the router is\n" +
		"10.111.221.21), and the test that verifies it with packets. How to use it:\n" +
		"[nodes with several uplinks](../howto/nodes.md).\n\n" +
		"| manual command | method | written by the agent | tested by |\n|---|---|---|---|\n")
	tests := harness.TestNames(t)
	for _, h := range manualCommands {
		what := h.note
		if h.agentWrites != "" {
			wanted := regexp.MustCompile(h.agentWrites)
			found := slices.DeleteFunc(kernelLines(compileManualSetup(h)), func(line string) bool {
				return !wanted.MatchString(line)
			})
			if len(found) == 0 {
				t.Errorf("%s: the agent writes nothing like %s", h.command, h.agentWrites)
			}
			what = "`" + strings.Join(found, "`<br>`") + "`"
		}
		if name, _, _ := strings.Cut(h.test, "/"); !tests[name] {
			t.Errorf("%s: there is no test %s", h.command, name)
		}
		method := h.method
		if h.withVethPair {
			method += " with `legs: true`"
		}
		if h.steering != "" {
			method += ", `steering: " + h.steering + "`"
		}
		fmt.Fprintf(&text, "| %s | %s | %s | `%s` |\n", h.command, method, what, h.test)
	}
	page.Check(t, harness.ReferenceDir+"nodes.md", text.String())
	item.AddFigure("%d commands, each with what the agent writes and the test that shows it", len(manualCommands))
}
