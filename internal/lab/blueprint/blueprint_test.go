package blueprint

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func load(t *testing.T, text string) (Blueprint, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "topology.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Load(path)
}

func prefixes(all ...string) (out []netip.Prefix) {
	for _, s := range all {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

func TestFileIsLaidOverTheDefault(t *testing.T) {
	for text, change := range map[string]func(*Blueprint){
		"":                       func(*Blueprint) {},
		"nodes: 5":               func(b *Blueprint) { b.Nodes = 5 },
		"raft: 3\nfakeNodes: 10": func(b *Blueprint) { b.Raft, b.FakeNodes = 3, 10 },
		"networks: []":           func(b *Blueprint) { b.Networks = []Network{} },
		"uplinks: []":            func(b *Blueprint) { b.Uplinks = []Uplink{} },
		"pods: 10.100.0.0/16\njoin: 172.30.0.0/22\nservices: 10.101.0.0/16": func(b *Blueprint) {
			p := prefixes("10.100.0.0/16", "172.30.0.0/22", "10.101.0.0/16")
			b.Pods, b.Join, b.Services = p[0], p[1], p[2]
		},
		`networks: [{name: one, prefixes: [192.168.50.0/24, "2001:db8:50::/64"], default: true}]`: func(b *Blueprint) {
			b.Networks = []Network{{
				Name:     "one",
				Prefixes: prefixes("192.168.50.0/24", "2001:db8:50::/64"),
				Default:  true,
			}}
		},
		`uplinks: [{name: up, prefixes: ["2001:db8:50::/64"]}]`: func(b *Blueprint) {
			b.Uplinks = []Uplink{{Name: "up", Prefixes: prefixes("2001:db8:50::/64")}}
		},
		`uplinks: [{name: up, prefixes: [192.168.50.0/24], bgp: true}]`: func(b *Blueprint) {
			b.Uplinks = []Uplink{{Name: "up", Prefixes: prefixes("192.168.50.0/24"), BGP: true}}
		},
	} {
		want := Default()
		change(&want)
		if got, err := load(t, text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, %v; want %+v", text, got, err, want)
		}
	}
}

func TestMistakeInAFileIsSaid(t *testing.T) {
	for wrong, right := range map[string]string{
		"node: 5": "nodes: 5", "nodes: two": "nodes: 2", "nodes: 1\nnodes: 2": "nodes: 1\nraft: 1",
		"networks: [{name: a, prefix: 192.168.50.0/24}]":                "networks: [{name: a, prefixes: [192.168.50.0/24]}]",
		"networks: [{name: a, prefixes: [192.168.50.0/24], bgp: true}]": "uplinks: [{name: a, prefixes: [192.168.50.0/24], bgp: true}]",
		"uplinks: [{name: a, prefixes: [192.168.50.0/24], bgp: 64512}]": "uplinks: [{name: a, prefixes: [192.168.50.0/24], bgp: false}]",
		"networks: [{name: a, prefixes: [192.168.50.256/24]}]":          "networks: [{name: a, prefixes: [192.168.50.0/24]}]",
	} {
		if b, err := load(t, wrong); err == nil {
			t.Errorf("%q is taken: %+v", wrong, b)
		}
		if _, err := load(t, right); err != nil {
			t.Errorf("%q is refused: %v", right, err)
		}
	}
}

// only has the prefixes as its one network, and nothing else that could be in the way.
func only(prefixes ...netip.Prefix) func(*Blueprint) {
	return func(b *Blueprint) {
		b.Networks, b.Uplinks = []Network{{Name: "one", Prefixes: prefixes}}, nil
	}
}

// named has a network and an uplink of these names.
func named(network, uplink string) func(*Blueprint) {
	return func(b *Blueprint) {
		b.Networks = []Network{{Name: network, Prefixes: prefixes("192.168.50.0/24")}}
		b.Uplinks = []Uplink{{Name: uplink, Prefixes: prefixes("192.168.60.0/24")}}
	}
}

// sized has so many nodes, and one uplink with the prefix.
func sized(nodes int, uplink string) func(*Blueprint) {
	return func(b *Blueprint) {
		b.Nodes, b.Gateways = nodes, 0
		b.Uplinks = []Uplink{{Name: "up", Prefixes: prefixes(uplink)}}
	}
}

// many has so many networks.
func many(count int) func(*Blueprint) {
	return func(b *Blueprint) {
		b.Networks, b.Uplinks = nil, nil
		for i := range count {
			p := hostIn(netip.MustParsePrefix("192.168.0.0/16"), 8*i)
			b.Networks = append(b.Networks,
				Network{Name: fmt.Sprintf("n%d", i), Prefixes: []netip.Prefix{netip.PrefixFrom(p.Addr(), 29)}})
		}
	}
}

type mistake struct {
	say        string // part of the complaint
	bad, right func(*Blueprint)
}

func checkMistakes(t *testing.T, all []mistake) {
	t.Helper()
	for i, m := range all {
		t.Run(fmt.Sprintf("%d %s", i, m.say), func(t *testing.T) {
			bad, right := Default(), Default()
			m.bad(&bad)
			m.right(&right)
			if err := bad.Check(); err == nil || !strings.Contains(err.Error(), m.say) {
				t.Errorf("%+v: %v, want a complaint with %q", bad, err, m.say)
			}
			if err := right.Check(); err != nil {
				t.Errorf("the control %+v is refused: %v", right, err)
			}
		})
	}
}

func TestNumbersAreChecked(t *testing.T) {
	checkMistakes(t, []mistake{
		{"nodes: 201", sized(201, "10.200.0.0/16"), sized(200, "10.200.0.0/16")},
		{"nodes: -1", sized(-1, "10.200.0.0/16"), sized(0, "10.200.0.0/16")},
		{"realNodes: 4", func(b *Blueprint) { b.RealNodes = 4 }, func(b *Blueprint) { b.RealNodes = 3 }},
		{"realNodes: -1", func(b *Blueprint) { b.RealNodes = -1 }, func(b *Blueprint) { b.RealNodes = 0 }},
		{"gateways: 4", func(b *Blueprint) { b.Gateways = 4 }, func(b *Blueprint) { b.Gateways = 3 }},
		{"gateways: -1", func(b *Blueprint) { b.Gateways = -1 }, func(b *Blueprint) { b.Gateways = 0 }},
		{"raft: 0", func(b *Blueprint) { b.Raft = 0 }, func(b *Blueprint) { b.Raft = 1 }},
		{"raft: 2", func(b *Blueprint) { b.Raft = 2 }, func(b *Blueprint) { b.Raft = 3 }},
		{"raft: 257", func(b *Blueprint) { b.Raft = 257 }, func(b *Blueprint) { b.Raft = 9 }}, // 172.22.1.1 is node1's
		{"negative", func(b *Blueprint) { b.FakeNodes = -1 }, func(b *Blueprint) { b.FakeNodes = 1 }},
		{"negative", func(b *Blueprint) { b.FakePods = -1 }, func(b *Blueprint) { b.FakePods = 0 }},
		// 172.22.0.0/16 is full
		{"fakeNodes", func(b *Blueprint) { b.FakeNodes = 64_512 }, func(b *Blueprint) { b.FakeNodes = 10_000 }},
		{"at least one fake node", func(b *Blueprint) {
			b.FakePods = 5
		}, func(b *Blueprint) { b.FakePods, b.FakeNodes = 5, 1 }},
		{"marked default", func(b *Blueprint) {
			b.Networks[0].Default = true
		}, func(b *Blueprint) { b.Networks[1].Default = false }},
		{"networks", many(257), many(200)}, // 172.20.256.0 is no address
	})
}

func TestNamesAreChecked(t *testing.T) {
	good := named("one", "two")
	checkMistakes(t, []mistake{
		{"used twice", named("one", "one"), good},
		{"at most 12", named("a234567890123", "two"), named("a23456789012", "two")},
		{"lower case", named("One", "two"), good},
		{"lower case", named("1one", "two"), named("one1", "two")},
		{"lower case", named("one-", "two"), named("one-1", "two")},
		{"lower case", named("", "two"), good},
		{"another use", named("eth0", "two"), named("eth1", "two")},
		{"another use", named("one", "lo"), named("one", "lo1")},
		{"another use", named("ul0", "two"), named("ul1", "two")}, // the cable under br-phy
		{"another use", named("one", "br-int"), named("one", "br-inn")},
		{"another use", named("int", "two"), named("inn", "two")},    // its bridge would be br-int
		{"another use", named("phy", "two"), named("physio", "two")}, // its bridge would be br-phy
		{"another use", named("join", "two"), named("joined", "two")},
		{"another use", named("ovn-default", "two"), named("ovn-def", "two")}, // Kube-OVN's own subnets
		{"br-one", named("one", "br-one"), named("one", "br-two")},            // the bridge of network one
	})
}

func TestPrefixesAreChecked(t *testing.T) {
	p := prefixes
	checkMistakes(t, []mistake{
		{"needs one prefix", only(), only(p("192.168.50.0/24")...)},
		{
			"needs one prefix", only(p("192.168.50.0/24", "2001:db8::/64", "192.168.51.0/24")...),
			only(p("192.168.50.0/24", "2001:db8::/64")...),
		},
		{
			"two prefixes of one family", only(p("192.168.50.0/24", "192.168.51.0/24")...),
			only(p("2001:db8::/64", "192.168.51.0/24")...),
		},
		{"did you mean 192.168.50.0/24", only(p("192.168.50.1/24")...), only(p("192.168.50.0/24")...)},
		{"too small", only(p("192.168.50.0/30")...), only(p("192.168.50.0/29")...)},
		{"too small", only(p("2001:db8::/126")...), only(p("2001:db8::/125")...)},
		{"too small", only(p("255.255.255.255/32")...), only(p("192.168.50.0/29")...)},
		{"is not valid", only(netip.Prefix{}), only(p("192.168.50.0/24")...)},
		{"unicast", only(p("127.1.0.0/16")...), only(p("128.1.0.0/16")...)},
		{"unicast", only(p("224.0.1.0/24")...), only(p("223.0.1.0/24")...)},
		{"unicast", only(p("fe80::/64")...), only(p("fd80::/64")...)},
		{"unicast", only(p("::ffff:192.168.50.0/120")...), only(p("192.168.50.0/24")...)},
		{"the lab's own links", only(p("172.23.0.0/24")...), only(p("172.24.0.0/24")...)},
		{"the lab's own links", only(p("fd00:ab:1::/64")...), only(p("fd00:ac:1::/64")...)},
		{"default subnet", only(p("10.16.5.0/24")...), only(p("10.17.5.0/24")...)},
		{"join subnet", only(p("100.64.0.0/10")...), only(p("100.65.0.0/16")...)},
		{"Services", only(p("10.100.0.0/16")...), only(p("10.112.0.0/16")...)},
		{
			"Services: prefix 10.96.0.0/12 overlaps 10.100.0.0/16 of Kube-OVN's default subnet",
			func(b *Blueprint) { b.Pods = p("10.100.0.0/16")[0] },
			func(b *Blueprint) { b.Pods, b.Services = p("10.100.0.0/16")[0], p("10.101.0.0/16")[0] },
		},
		{"join subnet: prefix 172.30.0.1/22 has host bits", func(b *Blueprint) {
			b.Join = p("172.30.0.1/22")[0]
		}, func(b *Blueprint) { b.Join = p("172.30.0.0/22")[0] }},
		{
			"6 reserved addresses",
			func(b *Blueprint) { b.Networks[0].Prefixes, b.Networks[0].Reserved = p("192.168.50.0/29"), 6 },
			func(b *Blueprint) { b.Networks[0].Prefixes, b.Networks[0].Reserved = p("192.168.50.0/29"), 5 },
		},
		{"1 reserved addresses", func(b *Blueprint) {
			b.Uplinks[0].Reserved = 1
		}, func(b *Blueprint) { b.Uplinks[0].Reserved = 2 }},
		{"VLAN 4095", func(b *Blueprint) {
			b.Networks[0].VLAN = 4095
		}, func(b *Blueprint) { b.Networks[0].VLAN = 4094 }},
		{"the internet host", only(p("203.0.113.0/24")...), only(p("203.0.113.16/28")...)},
		{"the internet host", only(p("2001:db8:113::/64")...), only(p("2001:db8:114::/64")...)},
		{
			"overlaps 198.51.100.0/24 of ext-public",
			func(b *Blueprint) { b.Uplinks[0].Prefixes = p("198.51.100.64/26") },
			func(b *Blueprint) { b.Uplinks[0].Prefixes = p("198.51.101.64/26") },
		},
		{"117 nodes", sized(117, "192.0.2.0/25"), sized(116, "192.0.2.0/25")}, // the 117th would be 192.0.2.127
		{"5 nodes", sized(5, "192.0.2.0/29"), sized(4, "192.0.2.0/29")},
	})
}
