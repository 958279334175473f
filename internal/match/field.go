package match

import (
	"fmt"
	"net/netip"
)

// Packet is what a match is evaluated on.
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
	Tracked                     bool // it was looked up among the connections; the rest is what was found
	New, Established, Related   bool
	Reply, Invalid, SNAT, DNAT  bool
	ConnectionMark              uint32
	ConnectionLabel             [2]uint64 // the high half, and the low one
}

// The protocols, by their numbers.
const (
	ICMP   = 1
	TCP    = 6
	UDP    = 17
	ICMPv6 = 58
	SCTP   = 132
)

// SYN is the flag of a TCP connection's first packet, and ACK that of all others.
const (
	SYN = 0x2
	ACK = 0x10
)

// field is something that a match can ask about.
type field struct {
	name    string
	bits    int // 0: it is a text
	nominal bool
	number  func(*Packet) wide
	text    func(*Packet) string
	needs   node // what has to hold for a packet to have it; nil: nothing
	means   node // what it stands for; nil: itself
}

// fits says whether a value can be in the field.
func (f *field) fits(v value) error {
	switch {
	case v.quoted != (f.bits == 0) && v.set == "" && v.group == "", v.set != "" && f.bits == 0, v.group != "" && f.bits > 0:
		return fmt.Errorf("field %s can't be compared with that kind of value", f.name)
	case f.bits > 0 && (v.number.length() > f.bits || v.masked && v.mask.length() > f.bits):
		return fmt.Errorf("a value has more bits than field %s", f.name)
	default:
		return nil
	}
}

// fields are all that is known, by name. Those that stand for others come after them.
var fields = func() map[string]*field {
	out := map[string]*field{}
	for _, d := range definitions {
		f := &field{name: d.name, bits: d.bits, nominal: d.nominal, number: d.number, text: d.text}
		f.needs, f.means = mean(out, d.needs), mean(out, d.means)
		switch parent := out[d.of]; {
		case f.means != nil:
			f.bits, f.nominal = 1, f.means.nominal()
		case parent != nil:
			f.number = func(p *Packet) wide { return parent.number(p).right(d.from) }
		}
		out[d.name] = f
	}
	return out
}()

// mean parses what a definition says.
func mean(known map[string]*field, text string) node {
	if text == "" {
		return nil
	}
	root, err := (&parser{words: lex(text), fields: known}).whole()
	if err != nil {
		panic(fmt.Sprintf("definition %q: %v", text, err)) // every one is read when the program starts
	}
	return root
}

// definition is a field as OVN's manual has it.
type definition struct {
	name    string
	bits    int
	number  func(*Packet) wide
	text    func(*Packet) string
	nominal bool
	needs   string
	means   string
	of      string // it is bits of another field
	from    int
}

func ofUint[T ~uint8 | ~uint16 | ~uint32 | ~uint64](get func(*Packet) T) func(*Packet) wide {
	return func(p *Packet) wide { return small(uint64(get(p))) }
}

func ofBool(get func(*Packet) bool) func(*Packet) wide {
	return func(p *Packet) wide {
		if get(p) {
			return small(1)
		}
		return small(0)
	}
}

func etherType(p *Packet) uint16 {
	if p.Source.Is4() {
		return 0x800
	}
	return 0x86dd
}

var definitions = []definition{
	{name: "inport", text: func(p *Packet) string { return p.Inport }, nominal: true},
	{name: "outport", text: func(p *Packet) string { return p.Outport }, nominal: true},

	{name: "ct_mark", bits: 32, number: ofUint(func(p *Packet) uint32 { return p.ConnectionMark })},
	{name: "ct_mark.blocked", bits: 1, of: "ct_mark"},
	{name: "ct_mark.natted", bits: 1, of: "ct_mark", from: 1},
	{name: "ct_label", bits: 128, number: func(p *Packet) wide { return wide{p.ConnectionLabel[0], p.ConnectionLabel[1]} }},
	{name: "ct_label.label", bits: 32, of: "ct_label", from: 96},
	{name: "ct_label.obs_point_id", bits: 32, of: "ct_label", from: 96},
	{name: "ct_label.acl_id", bits: 16, of: "ct_label", from: 80},
	{name: "ct.trk", bits: 1, number: ofBool(func(p *Packet) bool { return p.Tracked })},
	{name: "ct.new", bits: 1, number: ofBool(func(p *Packet) bool { return p.New }), needs: "ct.trk"},
	{name: "ct.est", bits: 1, number: ofBool(func(p *Packet) bool { return p.Established }), needs: "ct.trk"},
	{name: "ct.rel", bits: 1, number: ofBool(func(p *Packet) bool { return p.Related }), needs: "ct.trk"},
	{name: "ct.rpl", bits: 1, number: ofBool(func(p *Packet) bool { return p.Reply }), needs: "ct.trk"},
	{name: "ct.inv", bits: 1, number: ofBool(func(p *Packet) bool { return p.Invalid }), needs: "ct.trk"},
	{name: "ct.snat", bits: 1, number: ofBool(func(p *Packet) bool { return p.SNAT }), needs: "ct.trk"},
	{name: "ct.dnat", bits: 1, number: ofBool(func(p *Packet) bool { return p.DNAT }), needs: "ct.trk"},

	{name: "eth.src", bits: 48, number: ofUint(func(p *Packet) MAC { return p.EthSource })},
	{name: "eth.dst", bits: 48, number: ofUint(func(p *Packet) MAC { return p.EthDestination })},
	{name: "eth.type", bits: 16, number: ofUint(etherType), nominal: true},
	{name: "eth.bcast", means: "eth.dst == ff:ff:ff:ff:ff:ff"},
	{name: "eth.mcast", bits: 1, of: "eth.dst", from: 40},
	{name: "eth.mcastv6", means: "eth.dst[32..47] == 0x3333"},

	{name: "vlan.tci", bits: 16, number: ofUint(func(*Packet) uint16 { return 0 })}, // the switch takes tags off
	{name: "vlan.present", means: "vlan.tci[12]"},
	{name: "vlan.pcp", bits: 3, of: "vlan.tci", from: 13, needs: "vlan.present"},
	{name: "vlan.vid", bits: 12, of: "vlan.tci", needs: "vlan.present"},

	{name: "ip4", means: "eth.type == 0x800"},
	{name: "ip6", means: "eth.type == 0x86dd"},
	{name: "ip", means: "ip4 || ip6"},
	{name: "arp", means: "eth.type == 0x806"},
	{name: "rarp", means: "eth.type == 0x8035"},
	{name: "ip.proto", bits: 8, number: ofUint(func(p *Packet) uint8 { return p.Protocol }), nominal: true, needs: "ip"},
	{name: "ip.ttl", bits: 8, number: ofUint(func(p *Packet) uint8 { return p.TTL }), nominal: true, needs: "ip"},
	{name: "ip.frag", bits: 2, number: ofUint(func(*Packet) uint8 { return 0 }), needs: "ip"}, // the packets here are small
	{name: "ip.is_frag", means: "ip.frag[0]"},
	{name: "ip.later_frag", means: "ip.frag[1]"},
	{name: "ip.first_frag", means: "ip.is_frag && !ip.later_frag"},

	{name: "ip4.src", bits: 32, number: func(p *Packet) wide { return ofAddress(p.Source) }, needs: "ip4"},
	{name: "ip4.dst", bits: 32, number: func(p *Packet) wide { return ofAddress(p.Destination) }, needs: "ip4"},
	{name: "ip4.src_mcast", means: "ip4.src[28..31] == 0xe"},
	{name: "ip4.mcast", means: "eth.mcast && ip4.dst[28..31] == 0xe"},
	{name: "ip6.src", bits: 128, number: func(p *Packet) wide { return ofAddress(p.Source) }, needs: "ip6"},
	{name: "ip6.dst", bits: 128, number: func(p *Packet) wide { return ofAddress(p.Destination) }, needs: "ip6"},
	{name: "ip6.mcast", means: "eth.mcastv6 && ip6.dst[120..127] == 0xff"},

	{name: "icmp4", means: "ip4 && ip.proto == 1"},
	{name: "icmp4.type", bits: 8, number: ofUint(func(p *Packet) uint8 { return p.ICMPType }), nominal: true, needs: "icmp4"},
	{name: "icmp4.code", bits: 8, number: ofUint(func(p *Packet) uint8 { return p.ICMPCode }), nominal: true, needs: "icmp4"},
	{name: "icmp6", means: "ip6 && ip.proto == 58"},
	{name: "icmp6.type", bits: 8, number: ofUint(func(p *Packet) uint8 { return p.ICMPType }), nominal: true, needs: "icmp6"},
	{name: "icmp6.code", bits: 8, number: ofUint(func(p *Packet) uint8 { return p.ICMPCode }), nominal: true, needs: "icmp6"},
	{name: "icmp", means: "icmp4 || icmp6"},
	{name: "igmp", means: "ip4.mcast && ip.proto == 2"},
	{name: "nd", means: "icmp6.type == {135, 136} && icmp6.code == 0 && ip.ttl == 255"},
	{name: "nd_ns", means: "icmp6.type == 135 && icmp6.code == 0 && ip.ttl == 255"},
	{name: "nd_na", means: "icmp6.type == 136 && icmp6.code == 0 && ip.ttl == 255"},
	{name: "nd_rs", means: "icmp6.type == 133 && icmp6.code == 0 && ip.ttl == 255"},
	{name: "nd_ra", means: "icmp6.type == 134 && icmp6.code == 0 && ip.ttl == 255"},

	{name: "tcp", means: "ip.proto == 6"},
	{name: "tcp.src", bits: 16, number: ofUint(func(p *Packet) uint16 { return p.SourcePort }), needs: "tcp"},
	{name: "tcp.dst", bits: 16, number: ofUint(func(p *Packet) uint16 { return p.DestinationPort }), needs: "tcp"},
	{name: "tcp.flags", bits: 12, number: ofUint(func(p *Packet) uint16 { return p.TCPFlags }), needs: "tcp"},
	{name: "udp", means: "ip.proto == 17"},
	{name: "udp.src", bits: 16, number: ofUint(func(p *Packet) uint16 { return p.SourcePort }), needs: "udp"},
	{name: "udp.dst", bits: 16, number: ofUint(func(p *Packet) uint16 { return p.DestinationPort }), needs: "udp"},
	{name: "sctp", means: "ip.proto == 132"},
	{name: "sctp.src", bits: 16, number: ofUint(func(p *Packet) uint16 { return p.SourcePort }), needs: "sctp"},
	{name: "sctp.dst", bits: 16, number: ofUint(func(p *Packet) uint16 { return p.DestinationPort }), needs: "sctp"},

	{name: "pkt.mark", bits: 32, number: ofUint(func(p *Packet) uint32 { return p.Mark })},
}
