package nodes

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/internal/nodepath"
	"github.com/sallyport/sallyport/internal/state"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/page"
)

// byHand is a command of the proof of concept, what the agent writes in its place, and the test that shows it.
type byHand struct {
	seed   string
	method string
	legs   bool
	wrote  string // what to look for among what the agent writes; empty: nothing is needed
	says   string // in place of that
	test   string
}

// inSeed are the commands, in the order of the proof of concept.
var inSeed = []byHand{
	{seed: "`ip route add 10.111.223.0/24 via 10.111.221.21 dev eth1` (route to the clients)", method: "Static", wrote: `^route 10\.111\.223`, test: "TestAgentOnNodes/methods/Static"},
	{seed: "`ip route add default via 10.111.221.21 dev eth1 table device1`", method: "SourceRule", wrote: `^route 0\.0\.0\.0/0`, test: "TestAgentOnNodes/methods/SourceRule"},
	{seed: "`ip rule add from $CLUSTERIP1 lookup device1`", method: "SourceRule", wrote: `^rule .*from 10\.96\.145\.170`, test: "TestAgentOnNodes/methods/SourceRule"},
	{seed: "`iptables -A PREROUTING -t mangle -s $CLUSTERIP1 -j MARK --set-mark 1`", method: "Mark", wrote: `^nft (rule marks|element services)`, test: "TestAgentOnNodes/methods/Mark"},
	{seed: "`ip rule add fwmark 1 table device1`", method: "Mark", wrote: `^rule .*fwmark`, test: "TestAgentOnNodes/methods/Mark"},
	{seed: "(nothing: each Service needs its own rule)", method: "Connection", wrote: `^(nft rule|rule)`, test: "TestAgentOnNodes/methods/Connection"},
	{seed: "`ip link add vrf1 type vrf table 2`", method: "VRF", wrote: `^link sp-vrf`, test: "TestAgent2VRF"},
	{seed: "`ip link set eth1 master vrf1`", method: "VRF", wrote: `^master of eth1`, test: "TestAgent2VRF"},
	{seed: "`ip route add default via 10.111.221.21 dev eth1 table 2`", method: "VRF", wrote: `^route 0\.0\.0\.0/0 table \d+ via`, test: "TestAgent2VRF"},
	{seed: "(nothing: the way without legs is not in the proof of concept)", method: "VRF", wrote: `^rule (990|1120)`, test: "TestAgent2VRF"},
	{
		seed: "`router_setup_vrf.sh` (routes on the router, because a speaker in the default VRF is not heard any more)", method: "VRF",
		wrote: `^setting net\.ipv4\.(tcp|udp)_l3mdev_accept`, test: "TestAgent2VRF",
	},
	{seed: "`ip link add eth1veth-def type veth peer name eth1veth-vrf`", method: "VRF", legs: true, wrote: `^link sp-leg`, test: "TestAgent2VRF"},
	{seed: "`ip link set eth1veth-vrf master vrf1`", method: "VRF", legs: true, wrote: `^master of sp-far`, test: "TestAgent2VRF"},
	{seed: "`ip addr add 192.169.1.1/24 …`, `ip addr add 192.169.1.2/24 …`", method: "VRF", legs: true, wrote: `^addresses of`, test: "TestAgent2VRF"},
	{seed: "`ip route add $SERVICECIDR via 192.169.1.1 table 2`", method: "VRF", legs: true, wrote: `^route 10\.96\.0\.0/12`, test: "TestAgent2VRF"},
	{seed: "`ip route add 10.244.0.0/16 via 192.169.1.1 table 2` (for what pods begin themselves)", method: "VRF", legs: true, wrote: `^route 10\.244\.0\.0/16`, test: "TestAgent2VRF"},
	{seed: "`ip route add default via 192.169.1.2 dev eth1veth-def table 200`", method: "VRF", legs: true, wrote: `^route 0\.0\.0\.0/0 table \d+ via 169`, test: "TestAgent2VRF"},
	{seed: "`ip rule add from $CLUSTERIP1 lookup 200`", method: "VRF", legs: true, wrote: `^rule .*from 10\.96\.145\.170`, test: "TestAgent2VRF"},
	{
		seed: "`-A OVN-KUBE-EGRESS-SVC -s 10.244.0.5/32 -j SNAT --to-source 192.168.12.0` (an EgressService)", method: "Connection",
		wrote: `^nft rule leaves net1 egress0`, test: "TestNodeEgress",
	},
	{seed: "a mark on what a pod sends to a destination", method: "Connection", wrote: `^nft rule marks net1 egress1`, test: "TestNodeEgress"},
	{
		seed: "`iptables -t nat -A POSTROUTING -s 192.169.1.1 -j MASQUERADE` (because legs had changed the pod's address)", method: "Connection",
		wrote: `^nft rule leaves net1 egress1`, test: "TestNodeEgress",
	},
	{seed: "MetalLB's `BGPAdvertisement` to one peer", says: "nothing: whoever announces addresses goes on doing so", test: "TestUplinkBGP"},
}

// inTheSeed is the proof of concept's node and network, as a NodePath.
func inTheSeed(h byHand) *nodepath.Kernel {
	n := nodepath.NetworkSpec{
		Name: "net1", Number: 1, Interface: "eth1", Gateways: []string{"10.111.221.21"}, Method: nodepath.Method(h.method), Legs: h.legs,
		Clients: []string{"10.111.223.0/24"}, Services: []string{"10.96.145.170"}, Inside: []string{"10.96.0.0/12", "10.244.0.0/16"},
	}
	if strings.Contains(h.wrote, "egress") {
		n.Egress = []nodepath.EgressSpec{
			{Pods: []string{"10.244.0.5"}, Address: "192.168.12.0"},
			{Pods: []string{"10.244.0.6"}, Destinations: []string{"10.111.223.23/32"}},
		}
	}
	eth1 := nodepath.Interface{Name: "eth1", Up: true, Addresses: []netip.Prefix{netip.MustParsePrefix("10.111.221.11/24")}}
	return nodepath.Compile(nodepath.Spec{Networks: []nodepath.NetworkSpec{n}}, nodepath.Node{Interfaces: []nodepath.Interface{eth1}})
}

// laid is everything that the kernel should hold, a line each.
func laid(k *nodepath.Kernel) []string {
	return slices.Concat(entryLines(k.Links), entryLines(k.Rules), entryLines(k.Routes), entryLines(k.Nft), entryLines(k.Settings))
}

func entryLines[K state.Key[K], V state.Value[V]](set state.Set[K, V]) (out []string) {
	for key, e := range set {
		out = append(out, strings.TrimSpace(key.String()+" "+e.Value.String()))
	}
	slices.Sort(out)
	return out
}

// TestAgent5Seed: for every command of the proof of concept there is what the agent writes, on the page.
func TestAgent5Seed(t *testing.T) {
	item := agents.Item(t, 5)
	var text strings.Builder
	text.WriteString("# What the agent writes on a node\n\nMade by `make golden` from the commands of the proof of concept for return traffic on nodes: what it does by\n" +
		"hand, what `sallyport-agent` writes in its place for the same node (eth1 has 10.111.221.11/24, the router is 10.111.221.21),\n" +
		"and the test that shows it by packets. How to ask for it: [nodes with several uplinks](../howto/nodes.md).\n\n| by hand | method | the agent | shown by |\n|---|---|---|---|\n")
	tests := harness.TestNames(t)
	for _, h := range inSeed {
		what := h.says
		if h.wrote != "" {
			wanted := regexp.MustCompile(h.wrote)
			found := slices.DeleteFunc(laid(inTheSeed(h)), func(line string) bool { return !wanted.MatchString(line) })
			if len(found) == 0 {
				t.Errorf("%s: the agent writes nothing like %s", h.seed, h.wrote)
			}
			what = "`" + strings.Join(found, "`<br>`") + "`"
		}
		if name, _, _ := strings.Cut(h.test, "/"); !tests[name] {
			t.Errorf("%s: there is no test %s", h.seed, name)
		}
		method := h.method
		if h.legs {
			method += " with legs"
		}
		fmt.Fprintf(&text, "| %s | %s | %s | `%s` |\n", h.seed, method, what, h.test)
	}
	page.Check(t, harness.Reference+"nodes.md", text.String())
	item.Figure("%d commands, each with what the agent writes and the test that shows it", len(inSeed))
}
