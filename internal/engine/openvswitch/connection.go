package openvswitch

import (
	"net/netip"
	"strconv"
	"strings"
	"unique"
)

// Connection is a tracked connection of the switch in one zone.
type Connection struct {
	Protocol string // tcp, udp, sctp, icmp, icmpv6
	Original Tuple
	Reply    Tuple  // expected replies
	State    string // of TCP and SCTP
	Zone     int
}

// Tuple has source and destination. For ICMP, the ports are the echo identifier.
type Tuple struct{ From, To netip.AddrPort }

// endpoints returns the four endpoints of a connection.
func (c Connection) endpoints() [4]netip.AddrPort {
	return [4]netip.AddrPort{c.Original.From, c.Original.To, c.Reply.From, c.Reply.To}
}

// parseConnection reads a line like
//
//	tcp,orig=(src=10.1.0.2,dst=10.1.0.3,sport=1024,dport=80),reply=(src=…),zone=5,protoinfo=(state=ESTABLISHED)
func parseConnection(line string) (Connection, bool) {
	protocol, rest, _ := strings.Cut(line, ",")
	c := Connection{Protocol: internString(protocol)}
	var original, reply bool
	for field := range splitFields(rest) {
		name, value, _ := strings.Cut(field, "=")
		value = strings.Trim(value, "()")
		switch name {
		case "orig":
			c.Original, original = parseTuple(value)
		case "reply":
			c.Reply, reply = parseTuple(value)
		case "zone":
			c.Zone = int(parseUint16(value)) // omitted for zone 0
		case "protoinfo":
			_, after, _ := strings.Cut(value, "state=")
			text, _, _ := strings.Cut(after, ",")
			c.State = internString(text)
		}
	}
	return c, original && reply
}

// internString returns a copy of a word that does not keep the whole line in memory.
func internString(word string) string { return unique.Make(word).Value() }

// splitFields splits at commas outside parentheses.
func splitFields(text string) func(func(string) bool) {
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

func parseTuple(text string) (Tuple, bool) {
	var from, to netip.Addr
	var fromPort, toPort uint16
	for field := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(field, "=")
		switch name {
		case "src":
			from = parseAddress(value) // invalid addresses make the connection invalid
		case "dst":
			to = parseAddress(value)
		case "sport":
			fromPort = parseUint16(value)
		case "dport":
			toPort = parseUint16(value)
		case "id":
			fromPort, toPort = parseUint16(value), parseUint16(value)
		}
	}
	return Tuple{netip.AddrPortFrom(from, fromPort), netip.AddrPortFrom(to, toPort)}, from.IsValid() && to.IsValid()
}

// parseAddress parses an address. Tracked connections have no link-local zones.
func parseAddress(text string) netip.Addr {
	a, err := netip.ParseAddr(text)
	if err != nil || a.Zone() != "" {
		return netip.Addr{}
	}
	return a
}

// parseUint16 parses a port, an echo identifier or a zone number.
func parseUint16(text string) uint16 {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 0
	}
	return uint16(n)
}
