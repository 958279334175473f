package match

import (
	"fmt"
	"net/netip"

	"github.com/sallyport/sallyport/internal/model/ipfamily"
)

// Packet has the fields that matches can refer to.
type Packet struct {
	Inport, Outport             string
	EthSource, EthDestination   MAC
	Source, Destination         netip.Addr
	Protocol                    uint8
	TTL                         uint8
	SourcePort, DestinationPort uint16 // of TCP, UDP and SCTP
	TCPFlags                    uint16
	ICMPType, ICMPCode          uint8
	Mark                        uint32
	Tracked                     bool // it has passed connection tracking, with the result below
	New, Established, Related   bool
	Reply, Invalid, SNAT, DNAT  bool
	CTMark                      uint32
	CTLabel                     [2]uint64 // high and low half
}

// IP protocol numbers.
const (
	ICMP   = 1
	TCP    = 6
	UDP    = 17
	ICMPv6 = 58
	SCTP   = 132
)

// EchoRequest returns the protocol and the ICMP type of a ping in a family.
func EchoRequest(f ipfamily.Family) (protocol, icmpType uint8) {
	if f == ipfamily.V4 {
		return ICMP, 8
	}
	return ICMPv6, 128
}

// EchoReply returns the ICMP type of the answer to a ping.
func EchoReply(protocol uint8) uint8 {
	if protocol == ICMPv6 {
		return 129
	}
	return 0
}

// SYN and ACK are TCP flags.
const (
	SYN = 0x2
	ACK = 0x10
)

// field is a field that a match can use.
type field struct {
	name      string
	width     int // in bits; 0: a string
	nominal   bool
	number    func(*Packet) uint128
	text      func(*Packet) string
	prereqs   node // prerequisites for a packet to have the field; nil: none
	predicate node // the expression it stands for; nil: it is no predicate
}

// checkValue returns an error if the field can't be compared with a value.
func (f *field) checkValue(v value) error {
	switch {
	case v.quoted != (f.width == 0) && v.set == "" && v.group == "", v.set != "" && f.width == 0, v.group != "" &&
		f.width > 0:
		return fmt.Errorf("field %s can't be compared with that kind of value", f.name)
	case f.width > 0 && (v.number.bitLength() > f.width || v.masked && v.mask.bitLength() > f.width):
		return fmt.Errorf("a value has more bits than field %s", f.name)
	default:
		return nil
	}
}

// fields has all fields by name. Definitions may only refer to earlier ones.
var fields = func() map[string]*field {
	out := map[string]*field{}
	for _, d := range fieldDefinitions {
		f := &field{name: d.name, width: d.width, nominal: d.nominal, number: d.number, text: d.text}
		f.prereqs, f.predicate = parseDefinition(out, d.prereqs), parseDefinition(out, d.predicate)
		switch parent := out[d.parent]; {
		case f.predicate != nil:
			f.width, f.nominal = 1, f.predicate.isNominal()
		case parent != nil:
			f.number = func(p *Packet) uint128 { return parent.number(p).shiftRight(d.parentOffset) }
		}
		out[d.name] = f
	}
	return out
}()

// parseDefinition parses prerequisites or a predicate.
func parseDefinition(known map[string]*field, text string) node {
	if text == "" {
		return nil
	}
	root, err := (&parser{tokens: tokenize(text), fields: known}).parseAll()
	if err != nil {
		panic(fmt.Sprintf("definition %q: %v", text, err)) // all definitions are parsed when the program starts
	}
	return root
}

// fieldDefinition defines a field as ovn-sb(5) does.
type fieldDefinition struct {
	name         string
	width        int
	number       func(*Packet) uint128
	text         func(*Packet) string
	nominal      bool
	prereqs      string
	predicate    string
	parent       string // for a subfield: the field that contains it
	parentOffset int
}

func extractUint[T ~uint8 | ~uint16 | ~uint32 | ~uint64](get func(*Packet) T) func(*Packet) uint128 {
	return func(p *Packet) uint128 { return newUint128(uint64(get(p))) }
}

func extractBool(get func(*Packet) bool) func(*Packet) uint128 {
	return func(p *Packet) uint128 {
		if get(p) {
			return newUint128(1)
		}
		return newUint128(0)
	}
}

func etherType(p *Packet) uint16 {
	if p.Source.Is4() {
		return 0x800
	}
	return 0x86dd
}

var fieldDefinitions = []fieldDefinition{
	{name: "inport", text: func(p *Packet) string { return p.Inport }, nominal: true},
	{name: "outport", text: func(p *Packet) string { return p.Outport }, nominal: true},

	{name: "ct_mark", width: 32, number: extractUint(func(p *Packet) uint32 { return p.CTMark })},
	{name: "ct_mark.blocked", width: 1, parent: "ct_mark"},
	{name: "ct_mark.natted", width: 1, parent: "ct_mark", parentOffset: 1},
	{name: "ct_label", width: 128, number: func(p *Packet) uint128 { return uint128{p.CTLabel[0], p.CTLabel[1]} }},
	{name: "ct_label.label", width: 32, parent: "ct_label", parentOffset: 96},
	{name: "ct_label.obs_point_id", width: 32, parent: "ct_label", parentOffset: 96},
	{name: "ct_label.acl_id", width: 16, parent: "ct_label", parentOffset: 80},
	{name: "ct.trk", width: 1, number: extractBool(func(p *Packet) bool { return p.Tracked })},
	{name: "ct.new", width: 1, number: extractBool(func(p *Packet) bool { return p.New }), prereqs: "ct.trk"},
	{name: "ct.est", width: 1, number: extractBool(func(p *Packet) bool { return p.Established }), prereqs: "ct.trk"},
	{name: "ct.rel", width: 1, number: extractBool(func(p *Packet) bool { return p.Related }), prereqs: "ct.trk"},
	{name: "ct.rpl", width: 1, number: extractBool(func(p *Packet) bool { return p.Reply }), prereqs: "ct.trk"},
	{name: "ct.inv", width: 1, number: extractBool(func(p *Packet) bool { return p.Invalid }), prereqs: "ct.trk"},
	{name: "ct.snat", width: 1, number: extractBool(func(p *Packet) bool { return p.SNAT }), prereqs: "ct.trk"},
	{name: "ct.dnat", width: 1, number: extractBool(func(p *Packet) bool { return p.DNAT }), prereqs: "ct.trk"},

	{name: "eth.src", width: 48, number: extractUint(func(p *Packet) MAC { return p.EthSource })},
	{name: "eth.dst", width: 48, number: extractUint(func(p *Packet) MAC { return p.EthDestination })},
	{name: "eth.type", width: 16, number: extractUint(etherType), nominal: true},
	{name: "eth.bcast", predicate: "eth.dst == ff:ff:ff:ff:ff:ff"},
	{name: "eth.mcast", width: 1, parent: "eth.dst", parentOffset: 40},
	{name: "eth.mcastv6", predicate: "eth.dst[32..47] == 0x3333"},

	{name: "vlan.tci", width: 16, number: extractUint(func(*Packet) uint16 { return 0 })}, // the switch removes tags
	{name: "vlan.present", predicate: "vlan.tci[12]"},
	{name: "vlan.pcp", width: 3, parent: "vlan.tci", parentOffset: 13, prereqs: "vlan.present"},
	{name: "vlan.vid", width: 12, parent: "vlan.tci", prereqs: "vlan.present"},

	{name: "ip4", predicate: "eth.type == 0x800"},
	{name: "ip6", predicate: "eth.type == 0x86dd"},
	{name: "ip", predicate: "ip4 || ip6"},
	{name: "arp", predicate: "eth.type == 0x806"},
	{name: "rarp", predicate: "eth.type == 0x8035"},
	{name: "ip.proto", width: 8, number: extractUint(func(p *Packet) uint8 {
		return p.Protocol
	}), nominal: true, prereqs: "ip"},
	{name: "ip.ttl", width: 8, number: extractUint(func(p *Packet) uint8 {
		return p.TTL
	}), nominal: true, prereqs: "ip"},
	// packets are never fragments here
	{name: "ip.frag", width: 2, number: extractUint(func(*Packet) uint8 { return 0 }), prereqs: "ip"},
	{name: "ip.is_frag", predicate: "ip.frag[0]"},
	{name: "ip.later_frag", predicate: "ip.frag[1]"},
	{name: "ip.first_frag", predicate: "ip.is_frag && !ip.later_frag"},

	{name: "ip4.src", width: 32, number: func(p *Packet) uint128 { return addressToUint128(p.Source) }, prereqs: "ip4"},
	{name: "ip4.dst", width: 32, number: func(p *Packet) uint128 {
		return addressToUint128(p.Destination)
	}, prereqs: "ip4"},
	{name: "ip4.src_mcast", predicate: "ip4.src[28..31] == 0xe"},
	{name: "ip4.mcast", predicate: "eth.mcast && ip4.dst[28..31] == 0xe"},
	{name: "ip6.src", width: 128, number: func(p *Packet) uint128 {
		return addressToUint128(p.Source)
	}, prereqs: "ip6"},
	{name: "ip6.dst", width: 128, number: func(p *Packet) uint128 {
		return addressToUint128(p.Destination)
	}, prereqs: "ip6"},
	{name: "ip6.mcast", predicate: "eth.mcastv6 && ip6.dst[120..127] == 0xff"},

	{name: "icmp4", predicate: "ip4 && ip.proto == 1"},
	{name: "icmp4.type", width: 8, number: extractUint(func(p *Packet) uint8 {
		return p.ICMPType
	}), nominal: true, prereqs: "icmp4"},
	{name: "icmp4.code", width: 8, number: extractUint(func(p *Packet) uint8 {
		return p.ICMPCode
	}), nominal: true, prereqs: "icmp4"},
	{name: "icmp6", predicate: "ip6 && ip.proto == 58"},
	{name: "icmp6.type", width: 8, number: extractUint(func(p *Packet) uint8 {
		return p.ICMPType
	}), nominal: true, prereqs: "icmp6"},
	{name: "icmp6.code", width: 8, number: extractUint(func(p *Packet) uint8 {
		return p.ICMPCode
	}), nominal: true, prereqs: "icmp6"},
	{name: "icmp", predicate: "icmp4 || icmp6"},
	{name: "igmp", predicate: "ip4.mcast && ip.proto == 2"},
	{name: "nd", predicate: "icmp6.type == {135, 136} && icmp6.code == 0 && ip.ttl == 255"},
	{name: "nd_ns", predicate: "icmp6.type == 135 && icmp6.code == 0 && ip.ttl == 255"},
	{name: "nd_na", predicate: "icmp6.type == 136 && icmp6.code == 0 && ip.ttl == 255"},
	{name: "nd_rs", predicate: "icmp6.type == 133 && icmp6.code == 0 && ip.ttl == 255"},
	{name: "nd_ra", predicate: "icmp6.type == 134 && icmp6.code == 0 && ip.ttl == 255"},

	{name: "tcp", predicate: "ip.proto == 6"},
	{name: "tcp.src", width: 16, number: extractUint(func(p *Packet) uint16 { return p.SourcePort }), prereqs: "tcp"},
	{name: "tcp.dst", width: 16, number: extractUint(func(p *Packet) uint16 {
		return p.DestinationPort
	}), prereqs: "tcp"},
	{name: "tcp.flags", width: 12, number: extractUint(func(p *Packet) uint16 { return p.TCPFlags }), prereqs: "tcp"},
	{name: "udp", predicate: "ip.proto == 17"},
	{name: "udp.src", width: 16, number: extractUint(func(p *Packet) uint16 { return p.SourcePort }), prereqs: "udp"},
	{name: "udp.dst", width: 16, number: extractUint(func(p *Packet) uint16 {
		return p.DestinationPort
	}), prereqs: "udp"},
	{name: "sctp", predicate: "ip.proto == 132"},
	{name: "sctp.src", width: 16, number: extractUint(func(p *Packet) uint16 { return p.SourcePort }), prereqs: "sctp"},
	{name: "sctp.dst", width: 16, number: extractUint(func(p *Packet) uint16 {
		return p.DestinationPort
	}), prereqs: "sctp"},

	{name: "pkt.mark", width: 32, number: extractUint(func(p *Packet) uint32 { return p.Mark })},
}
