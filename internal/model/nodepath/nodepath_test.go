package nodepath

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/model/state"
)

// testNode has an interface of each relevant kind.
func testNode() Node {
	at := func(list ...string) []netip.Prefix { return parseValid(list, netip.ParsePrefix) }
	return Node{ForwardsIPv6: true, Interfaces: []Interface{
		{Name: "eth0", MAC: "02:00:00:00:00:01", Up: true, Addresses: at("10.0.0.2/24")},
		{
			Name:      "eth1",
			MAC:       "02:00:00:00:00:02",
			Up:        true,
			Addresses: at("192.0.2.2/24", "2001:db8::2/64", "192.0.2.9/32"),
		},
		{Name: "eth1.7", MAC: "02:00:00:00:00:02", Up: true, Addresses: at("198.51.100.2/24")},
		{Name: "ens5", MAC: "02:00:00:00:00:0a", Up: true, Addresses: at("203.0.113.2/24")},
		{Name: "ens6", MAC: "02:00:00:00:00:0b", Up: true},
		{Name: "down0", MAC: "02:00:00:00:00:0c", Addresses: at("192.0.2.3/24")},
		{Name: "sp-leg-1", MAC: "02:00:00:00:00:0d", Up: true, Ours: true},
	}}
}

// testNetwork returns a network with everything that methods need.
func testNetwork(method kubedcv1alpha1.NodeMethod) NetworkSpec {
	return NetworkSpec{
		Name: "outer", Number: 1, Interface: "eth1", Gateways: []string{"192.0.2.1", "2001:db8::1"}, Method: method,
		Clients: []string{"203.0.113.0/24", "2001:db8:9::/48"}, Services: []string{"10.96.0.1", "fd00::1"},
		Inside: []string{"10.96.0.0/12", "fd00::/108"},
	}
}

// formatKernel formats the kernel state, one line for each entry.
func formatKernel(k *Kernel) string {
	var out []string
	out = append(out, formatSet(k.Links)...)
	out = append(out, formatSet(k.Rules)...)
	out = append(out, formatSet(k.Routes)...)
	out = append(out, formatSet(k.Nft)...)
	out = append(out, formatSet(k.Sysctls)...)
	out = append(out, formatSet(k.TableNames)...)
	return strings.Join(out, "\n")
}

func formatSet[K state.Key[K], V state.Value[V]](set state.Set[K, V]) (out []string) {
	for _, key := range slices.SortedFunc(maps.Keys(set), K.Compare) {
		out = append(out, strings.TrimSpace(key.String()+" "+set[key].Value.String()))
	}
	return out
}

// compileText returns the text for networks, none of which may have a problem.
func compileText(t *testing.T, networks ...NetworkSpec) string {
	t.Helper()
	k := Compile(Spec{Networks: networks}, testNode())
	for _, n := range k.Networks {
		if n.Problem != "" {
			t.Errorf("%s: %s", n.Name, n.Problem)
		}
	}
	return formatKernel(k)
}

var update = flag.Bool("update", false, "rewrite what is compared with")

// The kernel state of each network is in a file of its own.
func TestMeanings(t *testing.T) {
	for name, network := range goldenNetworks {
		t.Run(name, func(t *testing.T) {
			file, got := filepath.Join("testdata", name+".txt"), compileText(t, network)+"\n"
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("the kernel should hold\n%s\nand in %s there is\n%s", got, file, want)
			}
		})
	}
}

// networkWith returns testNetwork with a change.
func networkWith(method kubedcv1alpha1.NodeMethod, change func(*NetworkSpec)) NetworkSpec {
	n := testNetwork(method)
	change(&n)
	return n
}

// goldenNetworks are networks, each for one feature.
var goldenNetworks = map[string]NetworkSpec{
	"connection":    testNetwork("Connection"),
	"static":        testNetwork("Static"),
	"source-rule":   testNetwork("SourceRule"),
	"mark":          testNetwork("Mark"),
	"vrf":           testNetwork("VRF"),
	"vrf-with-legs": networkWith("VRF", func(n *NetworkSpec) { n.Legs, n.Number = true, 200 }),
	"vrf-by-mark":   networkWith("VRF", func(n *NetworkSpec) { n.Steering = "Mark" }),
	"vrf-by-connection": networkWith("VRF", func(n *NetworkSpec) {
		n.Steering, n.Services = "Connection", nil
		addEgress(n)
		n.Egress = n.Egress[:1]
	}),
	"vrf-with-legs-by-mark": networkWith("VRF", func(n *NetworkSpec) { n.Legs, n.Steering = true, "Mark" }),
	"vrf-with-legs-by-connection": networkWith("VRF", func(n *NetworkSpec) {
		n.Legs, n.Steering, n.Services = true, "Connection", nil
	}),
	"one-family": networkWith("SourceRule", func(n *NetworkSpec) { n.Gateways = n.Gateways[:1] }),
	"dotted": networkWith("Connection", func(n *NetworkSpec) {
		n.Interface, n.Gateways = "eth1.7", []string{"198.51.100.1"}
	}),
	"by-mac-and-near-gateway": networkWith("Connection", func(n *NetworkSpec) {
		n.Interface, n.MAC, n.Gateways = "", "02:00:00:00:00:0A", []string{"203.0.113.1", "fe80::1"}
	}),
	"egress-connection": networkWith("Connection", addEgress),
	"egress-static": networkWith("Static", func(n *NetworkSpec) {
		addEgress(n)
		n.Egress = n.Egress[:1]
	}),
	"egress-everywhere": networkWith("SourceRule", func(n *NetworkSpec) {
		addEgress(n)
		n.Inside, n.Egress, n.Services = nil, n.Egress[1:], nil
	}),
}

// addEgress adds pods: some with destinations and an address of their own, and one for all destinations.
func addEgress(n *NetworkSpec) {
	n.Egress = []EgressSpec{
		{
			Pods:         []string{"10.1.0.5", "fd01::5"},
			Address:      "192.0.2.50",
			Destinations: []string{"198.51.100.0/24", "198.51.100.7/32", "203.0.113.9/32", "203.0.113.9/32"},
		},
		{Pods: []string{"10.1.0.6", "fd01::6"}},
	}
}

// The order of lists in the API does not matter.
func TestOrderSaysNothing(t *testing.T) {
	var networks []NetworkSpec
	for i, method := range []kubedcv1alpha1.NodeMethod{"Connection", "Mark", "SourceRule", "VRF", "VRF"} {
		n := networkWith(method, addEgress)
		n.Name, n.Number, n.Legs = fmt.Sprint(method, i), int32(i+1), i == 4
		networks = append(networks, n)
	}
	chance, want := rand.New(rand.NewPCG(1, 2)), compileText(t, networks...) // deterministic
	for range 50 {
		shuffled := slices.Clone(networks)
		shuffle(chance, shuffled)
		for i := range shuffled {
			n := &shuffled[i]
			n.Services, n.Inside, n.Clients, n.Gateways = slices.Clone(n.Services), slices.Clone(n.Inside),
				slices.Clone(n.Clients), slices.Clone(n.Gateways)
			shuffle(chance, n.Services)
			shuffle(chance, n.Inside)
			shuffle(chance, n.Clients)
			shuffle(chance, n.Gateways)
		}
		if got := compileText(t, shuffled...); got != want {
			t.Fatalf("in another order it is\n%s\nand not\n%s", got, want)
		}
	}
}

func shuffle[T any](chance *rand.Rand, list []T) {
	chance.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
}

// If rp_filter is 1 for all interfaces, 0 on one of them has no effect.
func TestStrictNodeNeedsTheSetting(t *testing.T) {
	for strict, does := range map[bool]bool{false: true, true: false} {
		is := testNode()
		is.StrictRPFilter = strict
		want := Compile(Spec{Networks: []NetworkSpec{testNetwork("Connection")}},
			is).Sysctls["net.ipv4.conf.eth1.rp_filter"].Value
		if got := (Sysctl{Text: "0"}).Equal(want); got != does || (Sysctl{Text: "1"}).Equal(want) {
			t.Errorf("where the node is strict (%v), 0 does: %v; the setting is %+v", strict, got, want)
		}
	}
}

func TestProblems(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*NetworkSpec, *Node)
		want    string
		missing bool
	}{
		"no such interface": {func(n *NetworkSpec, _ *Node) {
			n.Interface = "eth9"
		}, "the node has no interface eth9; plug it in", true},
		"no such MAC address": {func(n *NetworkSpec, _ *Node) {
			n.MAC = "02:00:00:00:00:99"
		}, "the node has no interface with MAC address 02:00:00:00:00:99; plug it in", true},
		"two fit a wildcard": {func(n *NetworkSpec, _ *Node) {
			n.Interface = "ens*"
		}, "interfaces ens5 and ens6 both fit ens*; name one of them", true},
		"two have a MAC address": {func(n *NetworkSpec, _ *Node) {
			n.MAC = "02:00:00:00:00:02"
		}, "interfaces eth1 and eth1.7 both fit with MAC address", true},
		"no wildcard": {func(n *NetworkSpec, _ *Node) {
			n.Interface = "eth["
		}, `interface "eth[" is no name with wildcards`, true},
		"one of ours": {func(n *NetworkSpec, _ *Node) {
			n.Interface = "sp-*"
		}, "the node has no interface sp-*", true},
		"it is down": {func(n *NetworkSpec, _ *Node) {
			n.Interface = "down0"
		}, "interface down0 is down; set it up", true},
		"gateway elsewhere": {
			func(n *NetworkSpec, _ *Node) { n.Gateways = []string{"198.51.100.1"} },
			"gateway 198.51.100.1 is in no prefix of eth1 (192.0.2.0/24, 2001:db8::/64, 192.0.2.9/32); correct", false,
		},
		"no addresses": {func(n *NetworkSpec, _ *Node) {
			n.Interface = "ens6"
		}, "gateway 2001:db8::1 is in no prefix of ens6 (it has none); correct", false},
		"IPv6 is not forwarded": {func(_ *NetworkSpec, node *Node) {
			node.ForwardsIPv6 = false
		}, "the node does not forward IPv6; set net.ipv6.conf.all.forwarding to 1", false},
		"static to everywhere": {
			func(n *NetworkSpec, _ *Node) {
				n.Method, n.Egress = "Static", []EgressSpec{{Pods: []string{"10.1.0.5"}}}
			},
			"method Static can't lead pods out by this network: routes know destinations only; choose another method",
			false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			n, is := testNetwork("Connection"), testNode()
			c.change(&n, &is)
			k := Compile(Spec{Networks: []NetworkSpec{n}}, is)
			if got := k.Networks[0]; !strings.HasPrefix(got.Problem, c.want) || got.Missing != c.missing {
				t.Errorf("the problem is %q (missing: %v), wanted %q (%v)", got.Problem, got.Missing, c.want, c.missing)
			}
			// A problem with IPv6 does not affect IPv4.
			if _, there := k.Nft[NftKey{Kind: NftChain, Name: "marks"}]; there != (name == "IPv6 is not forwarded") {
				t.Errorf("connections are marked: %v", there)
			}
		})
	}
}

// A network with a problem does not affect others, and an empty spec gives nothing.
func TestOneProblemIsOneNetworks(t *testing.T) {
	wrong := networkWith("Connection", func(n *NetworkSpec) { n.Name, n.Number, n.Interface = "wrong", 2, "eth9" })
	k := Compile(Spec{Networks: []NetworkSpec{wrong, testNetwork("Connection")}}, testNode())
	if k.Networks[0].Problem != "" || k.Networks[1].Problem == "" {
		t.Errorf("the networks are %+v", k.Networks)
	}
	if got, want := formatKernel(k), compileText(t, testNetwork("Connection")); got != want {
		t.Errorf("beside a network with a problem there is\n%s\nand not\n%s", got, want)
	}
	if got := formatKernel(Compile(Spec{}, testNode())); got != "" {
		t.Errorf("nothing is asked for, and there should be\n%s", got)
	}
}

// Every network has its own tables, marks and veth addresses.
func TestNetworksDoNotShare(t *testing.T) {
	seen := map[string]int32{}
	for number := int32(1); number <= 255; number++ {
		n := networkWith("VRF", func(n *NetworkSpec) { n.Number, n.Legs = number, true })
		k := Compile(Spec{Networks: []NetworkSpec{n}}, testNode())
		var mine []string
		for key, l := range k.Links {
			if key.Aspect == LinkAddresses {
				mine = append(mine, strings.Fields(l.Value.Addresses)...)
			}
		}
		for key := range k.Routes {
			mine = append(mine, key.String())
		}
		for _, one := range slices.Compact(slices.Sorted(slices.Values(mine))) {
			if other, taken := seen[one]; taken {
				t.Fatalf("networks %d and %d both have %s", other, number, one)
			}
			seen[one] = number
		}
	}
}

func TestCommentIsReadBack(t *testing.T) {
	for _, name := range []string{"outer comes", "outer", "a b c"} {
		v := NftValue{"accept", checksum("accept")}
		if gotName, gotSum := ParseComment(FormatComment(name, v)); gotName != name || gotSum != v.Checksum {
			t.Errorf("%q with %s is read as %q with %s", name, v.Checksum, gotName, gotSum)
		}
	}
	if name, sum := ParseComment("drop"); name != "drop" || sum != "" {
		t.Errorf("somebody's remark is read as %q and %q", name, sum)
	}
}
