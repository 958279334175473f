package blueprint

import (
	"fmt"
	"net/netip"
	"reflect"
	"testing"
)

// The addresses that the manual promises.
func TestAddressesOfTheDefaultLab(t *testing.T) {
	b := Default()
	b.Networks[0].Prefixes = prefixes("198.51.100.0/24", "2001:db8:51::/64")
	nodes, segments := b.NodeList(), b.Segments()
	for _, c := range []struct {
		what string
		got  any
		want string
	}{
		{"node3", nodes[2].Management, "172.22.1.3/16"},
		{"node3's tunnel end", nodes[2].Tunnel, "172.23.1.3/16"},
		{"API server", b.ServerAddresses()[0], "172.22.0.1/16"},
		{"router", segments[0].Gateways, "[198.51.100.1/24 2001:db8:51::1/64]"},
		{"neighbour", segments[0].Neighbours, "[198.51.100.2/24 2001:db8:51::2/64]"},
		{"client of ext-cloud", segments[1].ClientSide, "[{172.20.1.1/24 172.20.1.10/24}]"},
		{"client of ext-public", segments[0].ClientSide[1], "{fd00:ab:20::1/64 fd00:ab:20::a/64}"},
		{"wan of uplink-b", segments[3].WideArea, "[{172.21.3.1/24 172.21.3.2/24}]"},
		{"node1 on uplink-b", segments[3].NodeAddresses(nodes[0]), "[192.0.2.139/25]"},
		{"reserved", b.Networks[0].ReservedRange(b.Networks[0].Prefixes[0]), "198.51.100.1..198.51.100.10"},
		{
			"reserved of a /27", b.Networks[0].ReservedRange(netip.MustParsePrefix("192.0.2.32/27")),
			"192.0.2.33..192.0.2.34",
		},
		{
			"reserved as asked", Network{Reserved: 100}.ReservedRange(netip.MustParsePrefix("100.65.0.0/16")),
			"100.65.0.1..100.65.0.100",
		},
		{
			"node1 behind what is reserved",
			Segment{Prefixes: b.Uplinks[1].Prefixes, Reserved: 36}.NodeAddresses(nodes[0]), "[192.0.2.165/25]",
		},
		{
			"reserved of a /122", b.Networks[0].ReservedRange(netip.MustParsePrefix("2001:db8::/122")),
			"2001:db8::1..2001:db8::a",
		},
	} {
		if got := fmt.Sprint(c.got); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
}

// choices are which nodes are gateways, and which network is the default.
func choices(b Blueprint) string {
	var gateways []bool
	for _, n := range b.NodeList() {
		gateways = append(gateways, n.Gateway)
	}
	if n := b.DefaultNetwork(); n != nil {
		return fmt.Sprint(gateways, " ", n.Name)
	}
	return fmt.Sprint(gateways)
}

func TestLastNodesAreGatewaysAndLastNetworkDefault(t *testing.T) {
	marked, unmarked := Default(), Default()
	marked.Networks[0].Default, marked.Networks[1].Default = true, false
	unmarked.Networks[1].Default, unmarked.Gateways = false, 0
	for want, b := range map[string]Blueprint{
		"[false true true] ext-public": marked, "[false false false] ext-cloud": unmarked,
		"[true]": {Nodes: 1, Gateways: 1},
	} {
		if got := choices(b); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// greatest is the largest lab that is allowed, with ten networks and three uplinks of both families.
func greatest() Blueprint {
	b := Blueprint{Nodes: maxNodes, Gateways: maxNodes, Raft: 9, FakeNodes: 10_000, FakePods: 1}
	both := func(i int) []netip.Prefix {
		return prefixes(fmt.Sprintf("10.200.%d.0/24", i), fmt.Sprintf("2001:db8:%d::/64", i))
	}
	for i := range 10 {
		b.Networks = append(b.Networks, Network{Name: fmt.Sprintf("network-%d", i), Prefixes: both(i)})
	}
	for i := range 3 {
		b.Uplinks = append(b.Uplinks, Uplink{Name: fmt.Sprintf("uplink-%d", i), Prefixes: both(100 + i)})
	}
	return b
}

// Equal blueprints give equal labs, and in a lab nothing is there twice.
func TestGreatestLab(t *testing.T) {
	b, again := greatest(), greatest()
	if err := b.Check(); err != nil {
		t.Fatal(err)
	}
	for _, c := range clashes(b) {
		t.Error(c)
	}
	if !reflect.DeepEqual(b.Segments(), again.Segments()) || !reflect.DeepEqual(b.NodeList(), again.NodeList()) {
		t.Error("two equal blueprints differ in names or addresses")
	}
	names := map[string]bool{"internet": true}
	for _, n := range append(b.NodeList(), b.FakeNodeList()...) {
		names[n.Name] = true
	}
	for _, s := range b.Segments() {
		names[s.Router], names[s.Client], names[s.Neighbour] = true, true, true
	}
	if want := 1 + 200 + 10_000 + 13*3; len(names) != want {
		t.Errorf("%d names, want %d: some are there twice", len(names), want)
	}
}

func TestWhoLearnsByBGP(t *testing.T) {
	b := Default()
	if got := b.BGP(); len(got) != 0 {
		t.Errorf("the usual lab has BGP on %v", got)
	}
	b.Uplinks[1].BGP, b.Uplinks[1].Prefixes = true, []netip.Prefix{netip.MustParsePrefix("2001:db8:50::/64")}
	got := b.BGP()
	if len(got) != 1 || got[0].Name != "uplink-b" || got[0].RouterID != netip.MustParseAddr("172.21.3.1") {
		t.Errorf("BGP on %+v, want uplink-b, whose router has an IPv4 address for a name though it has no IPv4", got)
	}
}

// holders is who has which address, and what is wrong with that.
type holders struct {
	of    map[netip.Addr]string
	wrong []string
}

// give notes addresses: each has one holder, and is that of a host in its prefix.
func (h *holders) give(who string, in netip.Prefix, all ...netip.Prefix) {
	for _, p := range all {
		broadcast := p.Addr().Is4() && !in.Contains(p.Addr().Next())
		if other := h.of[p.Addr()]; other != "" || !in.Contains(p.Addr()) || p.Addr() == in.Addr() || broadcast {
			h.wrong = append(h.wrong, fmt.Sprintf("%s has %s of %s; %q has it too", who, p, in, other))
		}
		h.of[p.Addr()] = who
	}
}

// clashes is what is wrong with the addresses of a lab.
func clashes(b Blueprint) []string {
	h := holders{of: map[netip.Addr]string{internet4: "internet", internet6: "internet"}}
	h.give("servers", management, b.ServerAddresses()...)
	nodes := b.NodeList()
	for _, n := range append(nodes, b.FakeNodeList()...) {
		h.give(n.Name, management, n.Management)
		h.give(n.Name, tunnels, n.Tunnel)
	}
	for _, s := range b.Segments() {
		for i, p := range s.Prefixes {
			h.give(s.Router, p, s.Gateways[i], s.Neighbours[i])
			for _, link := range []Pair{s.ClientSide[i], s.WideArea[i]} {
				h.give(s.Router, link.Router.Masked(), link.Router, link.Peer)
			}
			for _, n := range nodes[:len(nodes)*int(s.Kind)] { // on plain segments only
				h.give(n.Name, p, s.NodeAddresses(n)[i])
			}
		}
	}
	return h.wrong
}

// Whatever Check accepts has no address twice and none outside its prefix, and nothing makes Check panic.
func FuzzCheckedLabHasNothingTwice(f *testing.F) {
	f.Add(3, 1, 0, "198.51.100.0/24", "192.0.2.0/25", "192.0.2.128/25")
	f.Add(116, 3, 500, "198.51.100.0/24", "192.0.2.0/25", "192.0.2.128/25")
	f.Add(118, 1, 0, "198.51.100.0/24", "192.0.2.0/25", "192.0.2.128/25") // node118 would be the other's .129
	f.Add(200, 257, 64_511, "2001:db8::/125", "2001:db8::8/125", "255.255.255.248/29")
	f.Add(4, 1, 64_511, "0.0.0.0/29", "255.255.255.248/29", "ffff::/16")
	f.Add(0, 1, 1_000_000, "203.0.113.10/32", "::ffff:192.0.2.0/120", "192.0.2.0/24")
	f.Fuzz(func(t *testing.T, nodes, raft, fakes int, network, first, second string) {
		b := Blueprint{Nodes: nodes, Raft: raft, FakeNodes: fakes}
		for i, text := range []string{network, first, second} {
			p, _ := netip.ParsePrefix(text) // an invalid one is Check's to refuse
			if i == 0 {
				b.Networks = []Network{{Name: "network", Prefixes: []netip.Prefix{p}}}
				continue
			}
			b.Uplinks = append(b.Uplinks, Uplink{Name: fmt.Sprintf("up%d", i), Prefixes: []netip.Prefix{p}})
		}
		if b.Check() != nil {
			return
		}
		for _, c := range clashes(b) {
			t.Error(c)
		}
	})
}
