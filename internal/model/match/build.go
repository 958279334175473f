package match

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/sallyport/sallyport/internal/model/ipfamily"
)

// Expr is a match that is built from values. Parse reads what it prints.
type Expr struct{ text string }

// String prints the match as OVN reads it.
func (e Expr) String() string { return e.text }

// All returns the match for packets that all parts match.
func All(parts ...Expr) Expr {
	texts := make([]string, 0, len(parts))
	for _, p := range parts {
		if p.text != "" {
			texts = append(texts, p.text)
		}
	}
	return Expr{strings.Join(texts, " && ")}
}

// Symbol returns OVN's word for a family. No other place prints it.
func Symbol(f ipfamily.Family) string {
	if f == ipfamily.V4 {
		return "ip4"
	}
	return "ip6"
}

// FamilyOf returns the family of an operand.
func FamilyOf(o Operand) ipfamily.Family {
	f, _ := o.operand()
	return f
}

// Operand is what an address of a packet is compared with.
type Operand interface {
	operand() (ipfamily.Family, string)
}

// Network is one address or one prefix.
type Network struct {
	family ipfamily.Family
	text   string
}

// String prints the network as OVN reads it.
func (n Network) String() string { return n.text }

func (n Network) operand() (ipfamily.Family, string) { return n.family, n.text }

// Addr compares with an address.
func Addr(a netip.Addr) Network { return Network{ipfamily.Of(a), a.String()} }

// Prefix compares with a prefix.
func Prefix(p netip.Prefix) Network { return Network{ipfamily.Of(p.Addr()), p.String()} }

// set is several networks. Its comparison cannot be negated: ovn-controller expands a negated set to a product of
// flows.
type set struct {
	family ipfamily.Family
	text   string
}

func (s set) operand() (ipfamily.Family, string) { return s.family, s.text }

// AddressSet compares with a row of Address_Set, which has addresses of one family.
func AddressSet(f ipfamily.Family, name string) Operand { return set{f, "$" + name} }

// AnyOf compares with several networks of one family, sorted as text. There is at least one.
func AnyOf(networks ...Network) Operand {
	texts := make([]string, 0, len(networks))
	for _, n := range networks {
		texts = append(texts, n.text)
	}
	slices.Sort(texts)
	return set{networks[0].family, "{" + strings.Join(slices.Compact(texts), ", ") + "}"}
}

// From matches packets by their source.
func From(o Operand) Expr { return compare("src", "==", o) }

// To matches packets by their destination.
func To(o Operand) Expr { return compare("dst", "==", o) }

// NotFrom matches packets of a family from other sources than a network.
func NotFrom(n Network) Expr { return compare("src", "!=", n) }

// NotTo matches packets of a family to other destinations than a network.
func NotTo(n Network) Expr { return compare("dst", "!=", n) }

func compare(field, relation string, o Operand) Expr {
	f, text := o.operand()
	return Expr{fmt.Sprintf("%s.%s %s %s", Symbol(f), field, relation, text)}
}

// IP matches packets of both families.
func IP() Expr { return Expr{"ip"} }

// OfFamily matches packets of a family.
func OfFamily(f ipfamily.Family) Expr { return Expr{Symbol(f)} }

// UnicastPacket matches packets of a family to a destination that is not a multicast or broadcast address.
func UnicastPacket(f ipfamily.Family) Expr {
	unicast := All(OfFamily(f), Expr{"!" + Symbol(f) + ".mcast"})
	if f == ipfamily.V4 { // IPv6 has no broadcast
		return All(unicast, NotTo(Addr(netip.AddrFrom4([4]byte{255, 255, 255, 255}))))
	}
	return unicast
}

// InPort matches packets that enter through a logical port.
func InPort(name string) Expr { return Expr{fmt.Sprintf("inport == %q", name)} }

// OutPort matches packets that leave through a logical port.
func OutPort(name string) Expr { return Expr{fmt.Sprintf("outport == %q", name)} }

// InPortGroup matches packets that enter through a port of a group.
func InPortGroup(group string) Expr { return Expr{"inport == @" + group} }

// OutPortGroup matches packets that leave through a port of a group.
func OutPortGroup(group string) Expr { return Expr{"outport == @" + group} }

// ToMAC matches frames to a MAC address.
func ToMAC(mac string) Expr { return Expr{"eth.dst == " + mac} }

// MulticastFrame matches frames to a multicast or broadcast MAC address.
func MulticastFrame() Expr { return Expr{"eth.mcast"} }

// Marked matches packets with a mark.
func Marked(mark int) Expr { return Expr{"pkt.mark == " + strconv.Itoa(mark)} }

// Tracked matches packets that connection tracking has seen.
func Tracked() Expr { return Expr{"ct.trk"} }

// Either matches packets that one of two expressions matches.
func Either(a, b Expr) Expr { return Expr{"(" + a.text + " || " + b.text + ")"} }

// NewConnection matches packets of connections that connection tracking has not seen before.
func NewConnection() Expr { return Expr{"ct.new"} }

// Reply matches packets in the reply direction of their connection.
func Reply() Expr { return Expr{"ct.rpl"} }

// Labelled matches packets of connections with a label.
func Labelled(label int) Expr { return Expr{"ct_label.label == " + strconv.Itoa(label)} }

// ToPorts matches packets of a transport protocol to some ports.
func ToPorts(protocol string, ports []string) Expr {
	return Expr{protocol + ".dst == {" + strings.Join(ports, ", ") + "}"}
}

// TCPFromPortBelow matches TCP segments from a port below a limit.
func TCPFromPortBelow(port int) Expr { return Expr{"tcp.src < " + strconv.Itoa(port)} }

// TCPToPortFrom matches TCP to ports that are at least this one.
func TCPToPortFrom(port int) Expr { return Expr{"tcp.dst >= " + strconv.Itoa(port)} }

// TCPWithoutSYN matches TCP segments that do not open a connection.
func TCPWithoutSYN() Expr { return Expr{"tcp.flags == 0/2"} }
