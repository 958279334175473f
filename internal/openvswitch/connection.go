package openvswitch

import (
	"net/netip"
	"strconv"
	"strings"
	"unique"
)

// Connection is a connection that the switch tracks in one zone.
type Connection struct {
	Protocol string // tcp, udp, sctp, icmp, icmpv6
	Original Tuple
	Reply    Tuple  // as replies are expected
	State    string // of TCP and SCTP
	Zone     int
}

// Tuple is where packets come from and go to. Ports of ICMP are the number that echoes have.
type Tuple struct{ From, To netip.AddrPort }

// ends are the four of a connection.
func (c Connection) ends() [4]netip.AddrPort {
	return [4]netip.AddrPort{c.Original.From, c.Original.To, c.Reply.From, c.Reply.To}
}

// parse reads a line like
//
//	tcp,orig=(src=10.1.0.2,dst=10.1.0.3,sport=1024,dport=80),reply=(src=…),zone=5,protoinfo=(state=ESTABLISHED)
func parse(line string) (Connection, bool) {
	protocol, rest, _ := strings.Cut(line, ",")
	c := Connection{Protocol: known(protocol)}
	var original, reply bool
	for field := range fields(rest) {
		name, value, _ := strings.Cut(field, "=")
		value = strings.Trim(value, "()")
		switch name {
		case "orig":
			c.Original, original = tuple(value)
		case "reply":
			c.Reply, reply = tuple(value)
		case "zone":
			c.Zone = int(number(value)) // left out for zone 0
		case "protoinfo":
			_, after, _ := strings.Cut(value, "state=")
			text, _, _ := strings.Cut(after, ",")
			c.State = known(text)
		}
	}
	return c, original && reply
}

// known is the same word, and not a part of the line, which would be kept with it.
func known(word string) string { return unique.Make(word).Value() }

// fields are what is between commas that are not within parentheses.
func fields(text string) func(func(string) bool) {
	return func(yield func(string) bool) {
		depth, begin := 0, 0
		for i := range len(text) {
			switch text[i] {
			case '(':
				depth++
			case ')':
				depth--
			case ',':
				if depth == 0 {
					if !yield(text[begin:i]) {
						return
					}
					begin = i + 1
				}
			}
		}
		yield(text[begin:])
	}
}

func tuple(text string) (Tuple, bool) {
	var from, to netip.Addr
	var fromPort, toPort uint16
	for field := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(field, "=")
		switch name {
		case "src":
			from = address(value) // what is none is no connection
		case "dst":
			to = address(value)
		case "sport":
			fromPort = number(value)
		case "dport":
			toPort = number(value)
		case "id":
			fromPort, toPort = number(value), number(value)
		}
	}
	return Tuple{netip.AddrPortFrom(from, fromPort), netip.AddrPortFrom(to, toPort)}, from.IsValid() && to.IsValid()
}

// address reads an address. Connections have none that is only valid on one interface.
func address(text string) netip.Addr {
	a, err := netip.ParseAddr(text)
	if err != nil || a.Zone() != "" {
		return netip.Addr{}
	}
	return a
}

// number reads a port, the number of echoes or that of a zone.
func number(text string) uint16 {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 0
	}
	return uint16(n)
}
