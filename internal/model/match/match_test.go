package match

import (
	"net/netip"
	"strings"
	"testing"
)

// testResolver has the names of a small cluster.
type testResolver struct{}

func (testResolver) AddressSet(name string) ([]string, bool) {
	set, there := map[string][]string{
		"pods":  {"10.0.0.4", "10.0.0.128/25"},
		"none":  nil,
		"six":   {"fd00::1"},
		"a.b_c": {"10.0.0.5"},
	}[name]
	return set, there
}

func (testResolver) PortGroup(name string) ([]string, bool) {
	group, there := map[string][]string{"guarded": {"web.shop", "db.shop"}, "empty": nil}[name]
	return group, there
}

func (testResolver) IsChassisResident(port string) bool { return port == "cr-here" }

// requestPacket returns a client's first packet to a pod, in the egress pipeline of its switch.
var requestPacket = Packet{
	Inport: "shop-net-shop", Outport: "web.shop", EthSource: 0x0a5a01020304, EthDestination: 0x020304050607,
	Source: netip.MustParseAddr("198.51.100.9"), Destination: netip.MustParseAddr("10.0.0.4"),
	Protocol: TCP, TTL: 63, SourcePort: 40000, DestinationPort: 80, TCPFlags: SYN,
	Mark: 7, Tracked: true, New: true, CTLabel: [2]uint64{91 << 32, 0},
}

func TestMatchesThatHold(t *testing.T) {
	for _, text := range []string{
		"1", "!0", "(1)", "ip", "ip4", "ip4 && tcp", "tcp || udp",
		"ip4.src == 198.51.100.9", "ip4.src == 198.51.100.0/24", "ip4.src == 198.51.0.0/255.255.0.0",
		"ip4.src == {10.0.0.0/8, 198.51.100.9}",
		"ip4.src != 198.51.100.8", "ip4.src != {198.51.100.8, 10.0.0.0/8}", "!(ip4.src == {198.51.100.8, 10.0.0.0/8})",
		"ip4.dst == $pods", "ip4.src != $pods", "ip4.src != $none", "ip4.dst == {$none, $pods}", "ip4.dst != $a.b_c",
		"outport == @guarded", `outport == {"x", "web.shop"}`, `inport == "shop-net-shop" && ip`,
		"outport == {@empty @guarded}",
		"tcp.dst == 80", "tcp.dst == {80, 443}", "tcp.dst < 81", "tcp.dst <= 80", "tcp.src > 32768", "tcp.src >= 40000",
		"81 > tcp.dst",
		"1 < tcp.dst < 100", "100 >= tcp.dst > 79", "tcp.flags == 2/2", "tcp.flags != 0/2", "tcp.flags[1]",
		"tcp.dst != 81", "tcp.dst[0..3] == 0",
		"ct.trk && ct.new", "!ct.est", "ct_label.label == 91", "ct_label[96..127] == 91", "ct_label != 0",
		"ct_mark == 0", "!ct_mark.blocked", "!ct.rpl",
		"pkt.mark == 7", "pkt.mark == 0x7", "pkt.mark == 0x5/0x5", "eth.src == 0a:5a:01:02:03:04",
		"eth.src == 0a:5a:00:00:00:00/ff:ff:00:00:00:00", "!eth.mcast",
		"eth.mcast == 0", "!ip4.mcast", `is_chassis_resident("cr-here")`, `!is_chassis_resident("cr-there")`,
		"ip.ttl == 63",
		"(ip4.src == 10.0.0.0/8 || ip4.src == 198.51.100.9) && !(tcp.dst == 53)", "!vlan.present",
	} {
		if holds, err := evaluateText(text, requestPacket); err != nil || !holds {
			t.Errorf("%s: %t, %v; wanted it to hold", text, holds, err)
		}
	}
}

func TestMatchesThatDoNotHold(t *testing.T) {
	for _, text := range []string{
		"0", "!1", "ip6", "udp", "icmp4.type == 8", "ip4.src == 198.51.100.8", "ip4.src == $pods", "ip4.src == $none",
		"ip6.src == $six",
		"ip4.src != 198.51.100.0/24", `outport == "x"`, "outport == @empty", "tcp.dst > 80", "tcp.dst < 80",
		"udp.dst == 80", "udp.dst != 80", "!(udp.dst == 80)",
		"ct.est", "ct.rpl", "!ct.new", "ct_label.label == 0", "pkt.mark == 0", "tcp.flags == 0/2",
		`is_chassis_resident("cr-there")`,
		"ip4.dst == 10.0.0.4 && ip4.src == 10.0.0.4", "ip6 || arp", "ip.is_frag",
		// comparing a field that the packet does not have never holds, not even with !=
		"!(ip6.src == fd00::1)", "!(udp.dst == 53)",
	} {
		if holds, err := evaluateText(text, requestPacket); err != nil || holds {
			t.Errorf("%s: %t, %v; wanted it not to hold", text, holds, err)
		}
	}
	untracked := requestPacket
	untracked.Tracked, untracked.New = false, false
	for _, text := range []string{"ct.new", "!ct.new", "!ct.est", "ct.est"} { // the packet is not tracked
		if holds, err := evaluateText(text, untracked); err != nil || holds {
			t.Errorf("%s of a packet that nobody looked up: %t, %v", text, holds, err)
		}
	}
	if holds, err := evaluateText("!ct.trk", untracked); err != nil || !holds {
		t.Errorf("!ct.trk of a packet that nobody looked up: %t, %v", holds, err)
	}
}

// What OVN rejects is an error, not a match that does not hold.
func TestMatchesThatOVNRefuses(t *testing.T) {
	for text, why := range map[string]string{
		"":                       "not a value",
		"ip4.sorc == 1.2.3.4":    "no field",
		"reg0[3] == 1":           "no field",
		"ip && tcp || udp":       "parentheses",
		"!tcp.dst == 80":         "parentheses",
		"inport":                 "compared with something",
		"tcp.dst":                "more than one bit",
		`inport != "a"`:          "tested for equality",
		`!(inport == "a")`:       "tested for equality",
		"ip.proto != 6":          "tested for equality",
		"!ip4":                   "can't be negated",
		"tcp == 0":               "can't be negated",
		"tcp.dst < {1, 2}":       "sets of values",
		"ip4.src > 10.0.0.0/8":   "masks",
		"ip.ttl > 5":             "can't be used with field",
		"tcp.dst == 65536":       "more bits",
		"ip4.src == fd00::1":     "more bits",
		"ip4.src == $six":        "more bits",
		"ip4.src == $missing":    "address set missing",
		"outport == @missing":    "no port group",
		`ip4.src == "x"`:         "kind of value",
		"outport == 5":           "kind of value",
		"outport == $pods":       "kind of value",
		"ip4.src == @guarded":    "kind of value",
		"1 == tcp.dst == 2":      "a range has the form",
		"1 < tcp.dst > 2":        "a range has the form",
		"ip4.src == 10.0.0.0/8x": "neither a number nor an address",
		"tcp.dst == 080":         "neither a number nor an address",
		"ip4.src == 1/ff:ff":     "neither a number nor an address",
		"pkt.mark == 1/1.2.3.4":  "different notations",
		"eth.dst[40..50]":        "no bits",
		"ip.proto[0..1] == 1":    "can't be selected",
		"ip4 &&":                 "not a value",
		"ip4 tcp":                "unexpected",
		"(ip4":                   "expected before",
		"ip4.src == {1.2.3.4":    "not a value",
		"is_chassis_resident(5)": "name of a port",
		`ip4.src == "`:           "not a value",
		"5":                      "not compared with a field",
		"pkt.mark == 0x":         "hexadecimal",
		strings.Repeat("(", 101): "too many parentheses",
		"ip4.src == {}":          "not a value",
		"!!ip4.mcast":            "not a value",
	} {
		if _, err := evaluateText(text, requestPacket); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v; wanted an error about %q", text, err, why)
		}
	}
}

// An operand that cannot be evaluated only matters if the others do not decide.
func TestUnknownPartsDecideNothing(t *testing.T) {
	for text, holds := range map[string]bool{"udp && ip4.src == $missing": false, "tcp || ip4.src == $missing": true} {
		if got, err := evaluateText(text, requestPacket); err != nil || got != holds {
			t.Errorf("%s: %t, %v; wanted %t", text, got, err, holds)
		}
	}
}

func TestIPv6(t *testing.T) {
	p := Packet{
		Source: netip.MustParseAddr("fd00::5"), Destination: netip.MustParseAddr("fd00:1::80"), Protocol: ICMPv6,
		TTL: 255, ICMPType: 135,
		EthDestination: 0x3333ff000080,
	}
	for _, text := range []string{
		"ip6 && ip6.src == fd00::/64", "nd_ns", "nd", "icmp6.type == 135", "eth.mcastv6",
		"ip6.dst != fd00::/64", "ip6.dst[0..7] == 0x80", "icmp",
	} {
		if holds, err := evaluateText(text, p); err != nil || !holds {
			t.Errorf("%s: %t, %v; wanted it to hold", text, holds, err)
		}
	}
}

func evaluateText(text string, p Packet) (bool, error) {
	m, err := Parse(text)
	if err != nil {
		return false, err
	}
	return m.Evaluate(p, testResolver{})
}

// FuzzMatch: any text is a match or an error, and a match equals its double negation.
func FuzzMatch(f *testing.F) {
	for _, text := range []string{
		`inport == "a" && ip4.src == {$pods, 10.0.0.0/8}`, "!(tcp.dst < 5) || ct_label[3..100] != 0x5",
		"1 < tcp.dst <= 7", `is_chassis_resident("x")`,
		"eth.dst == 00:11:22:33:44:55/ff:00:00:00:00:00", "outport == @guarded", `"\u00ff`,
		"ip6.dst == ::ffff:1.2.3.4/96",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := Parse(text)
		if err != nil {
			return
		}
		holds, err := m.Evaluate(requestPacket, testResolver{})
		twice, errTwice := Match{m.root.negate().negate()}.Evaluate(requestPacket, testResolver{})
		if holds != twice || (err == nil) != (errTwice == nil) {
			t.Errorf("%s holds %t (%v), and negated twice %t (%v)", text, holds, err, twice, errTwice)
		}
	})
}
