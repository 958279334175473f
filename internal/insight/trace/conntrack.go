package trace

import (
	"net/netip"

	"github.com/sallyport/sallyport/internal/model/match"
)

// tuple identifies a connection.
type tuple struct {
	protocol            uint8
	source, destination netip.AddrPort
}

func (t tuple) reversed() tuple { return tuple{t.protocol, t.destination, t.source} }

// connection is a conntrack entry: the tuples of its packets in both directions, as they arrive. If they differ in more
// than the direction, the connection has NAT.
type connection struct {
	zone            string
	original, reply tuple
	label           uint32
	natted          bool
	seenReply       bool
}

// conntrackTable holds the connections of all zones.
type conntrackTable []*connection

// findConnection returns the connection of a packet, and whether the packet is a reply.
func (t conntrackTable) findConnection(zone string, of tuple) (_ *connection, reply bool) {
	for _, c := range t {
		if c.zone != zone {
			continue
		}
		switch of {
		case c.original:
			return c, false
		case c.reply:
			return c, true
		}
	}
	return nil, false
}

// packet is a packet on its path.
type packet struct {
	match.Packet
	chassis        string
	nextHop        netip.Addr  // next hop chosen by a router
	egressLooped   bool        // lr_out_egr_loop has sent it back to its router
	recirculations int         // see recirculate
	conn           *connection // its connection in the last zone; nil: not looked up, or not found
}

func (f packet) tuple() tuple {
	return tuple{
		f.Protocol, netip.AddrPortFrom(f.Source, f.SourcePort),
		netip.AddrPortFrom(f.Destination, f.DestinationPort),
	}
}

// canStartConnection reports whether the packet can be the first of its connection.
func (f packet) canStartConnection() bool {
	switch f.Protocol {
	case match.TCP:
		return f.TCPFlags&(match.SYN|match.ACK) == match.SYN
	case match.ICMP, match.ICMPv6:
		return f.ICMPType != match.EchoReply(f.Protocol)
	default:
		return true
	}
}

func (f packet) isICMP() bool { return f.Protocol == match.ICMP || f.Protocol == match.ICMPv6 }

func (f *packet) setTuple(t tuple) {
	f.Source, f.SourcePort = t.source.Addr(), t.source.Port()
	f.Destination, f.DestinationPort = t.destination.Addr(), t.destination.Port()
}

// replyPacket returns the reply to a packet.
func (f packet) replyPacket() packet {
	out := packet{Packet: match.Packet{
		Protocol:       f.Protocol,
		TTL:            64,
		EthSource:      f.EthDestination,
		EthDestination: f.EthSource,
	}, chassis: f.chassis}
	out.setTuple(f.tuple().reversed())
	switch {
	case f.Protocol == match.TCP:
		out.TCPFlags = match.SYN | match.ACK
	case f.isICMP():
		out.ICMPType = match.EchoReply(f.Protocol)
	}
	return out
}

// clearConntrack removes the connection state from the packet. It is not carried from a switch to a router, nor to
// another node.
func (f *packet) clearConntrack() {
	f.Tracked, f.New, f.Established, f.Related, f.Reply, f.Invalid, f.SNAT, f.DNAT = false, false, false, false, false,
		false, false, false
	f.CTMark, f.CTLabel, f.conn = 0, [2]uint64{}, nil
}

// lookupConntrack looks the packet up in a zone. With translate, it applies the NAT of its connection.
func (w *traceRun) lookupConntrack(zone string, f *packet, translate bool) {
	w.recirculate(f)
	before := f.tuple()
	defer func() { w.noteCTState(f, f.tuple() != before) }()
	if f.conn != nil && f.conn.zone == w.ctZone(zone, f) {
		return // Open vSwitch keeps the state, even if it has translated the packet since
	}
	f.clearConntrack()
	f.Tracked = true
	c, reply := w.conntrack.findConnection(w.ctZone(zone, f), f.tuple())
	if c == nil {
		f.New = true
		return
	}
	c.seenReply = c.seenReply || reply
	f.New = !c.seenReply && f.canStartConnection() // until a reply is seen
	f.Established, f.Reply, f.conn = !f.New, reply, c
	f.CTLabel = [2]uint64{uint64(c.label) << 32, 0}
	if c.natted {
		f.CTMark = 1 << 1
	}
	if translate {
		w.applyConnectionNAT(c, reply, f)
	}
}

// applyConnectionNAT translates a packet as its connection requires.
func (w *traceRun) applyConnectionNAT(c *connection, reply bool, f *packet) {
	if reply {
		f.setTuple(c.original.reversed())
	} else {
		f.setTuple(c.reply.reversed())
	}
}

// commitNAT creates a connection whose packets are translated to the given tuple.
func (w *traceRun) commitNAT(zone string, f *packet, as tuple) {
	w.recirculate(f)
	c, reply := w.conntrack.findConnection(w.ctZone(zone, f), f.tuple())
	f.clearConntrack()
	f.Tracked, f.New, f.Reply = true, c == nil || !c.seenReply && f.canStartConnection(), reply
	f.Established = !f.New
	if c == nil {
		c = &connection{zone: w.ctZone(zone, f), original: f.tuple(), reply: as.reversed()}
		w.conntrack = append(w.conntrack, c)
	}
	c.natted = c.natted || as != f.tuple()
	w.applyConnectionNAT(c, reply, f)
}

// commitConnection creates a connection without NAT, and sets its label if there is one.
func (w *traceRun) commitConnection(zone string, f *packet, label uint32) {
	c, _ := w.conntrack.findConnection(w.ctZone(zone, f), f.tuple())
	if c == nil {
		// The packet may have been translated in this zone since the lookup.
		for _, other := range w.conntrack {
			if other.zone == w.ctZone(zone, f) && other.reply == f.tuple().reversed() {
				c = other
			}
		}
	}
	if c == nil {
		c = &connection{zone: w.ctZone(zone, f), original: f.tuple(), reply: f.tuple().reversed()}
		w.conntrack = append(w.conntrack, c)
	}
	if label != 0 {
		c.label = label
	}
}

// maxRecirculations is how often Open vSwitch's userspace datapath recirculates a packet on one node: once for each
// pass through connection tracking, once for choosing a backend, and once when it arrives through a tunnel. The kernel
// datapath has no such limit.
const maxRecirculations = 8

// recirculate counts a recirculation.
func (w *traceRun) recirculate(f *packet) {
	if f.recirculations++; f.recirculations > maxRecirculations && w.userspaceChassis[f.chassis] {
		w.exhaustedChassis = f.chassis
	}
}

// ctZone names the conntrack zone of a port or router on the packet's chassis.
func (w *traceRun) ctZone(name string, f *packet) string { return f.chassis + "/" + name }
