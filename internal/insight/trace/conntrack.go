package trace

import (
	"net/netip"

	"github.com/sallyport/sallyport/internal/model/match"
)

// tuple is what tells connections apart.
type tuple struct {
	protocol            uint8
	source, destination netip.AddrPort
}

func (t tuple) reversed() tuple { return tuple{t.protocol, t.destination, t.source} }

// connection is one that somebody keeps track of: how its packets look as they arrive, in both directions. Where they
// differ in more than the direction, it is translated.
type connection struct {
	zone            string
	original, reply tuple
	label           uint32
	natted          bool
	seenReply       bool
}

// conntrackTable is the connections of all zones.
type conntrackTable []*connection

// findConnection is the connection that a packet belongs to, and whether it is a reply.
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

// packet is a packet on its way.
type packet struct {
	match.Packet
	chassis        string
	nextHop        netip.Addr  // to which a router sends it
	egressLooped   bool        // a router has sent it to itself
	recirculations int         // see repeat
	conn           *connection // that it was found to be of; nil: nobody has looked, or it is of none
}

func (f packet) tuple() tuple {
	return tuple{
		f.Protocol, netip.AddrPortFrom(f.Source, f.SourcePort),
		netip.AddrPortFrom(f.Destination, f.DestinationPort),
	}
}

// canStartConnection says whether a packet can be the first of its connection.
func (f packet) canStartConnection() bool {
	switch f.Protocol {
	case match.TCP:
		return f.TCPFlags&(match.SYN|match.ACK) == match.SYN
	case match.ICMP:
		return f.ICMPType != 0
	default:
		return true
	}
}

func (f *packet) setTuple(t tuple) {
	f.Source, f.SourcePort = t.source.Addr(), t.source.Port()
	f.Destination, f.DestinationPort = t.destination.Addr(), t.destination.Port()
}

// replyPacket is the answer to a packet.
func (f packet) replyPacket() packet {
	out := packet{Packet: match.Packet{
		Protocol:       f.Protocol,
		TTL:            64,
		EthSource:      f.EthDestination,
		EthDestination: f.EthSource,
	}, chassis: f.chassis}
	out.setTuple(f.tuple().reversed())
	if f.Protocol == match.TCP {
		out.TCPFlags = match.SYN | match.ACK
	}
	return out
}

// clearConntrack takes off what was found out about the packet's connection: it does not cross from a switch to a
// router, nor to another node.
func (f *packet) clearConntrack() {
	f.Tracked, f.New, f.Established, f.Related, f.Reply, f.Invalid, f.SNAT, f.DNAT = false, false, false, false, false,
		false, false, false
	f.CTMark, f.CTLabel, f.conn = 0, [2]uint64{}, nil
}

// lookupConntrack looks a packet up in a zone and, when it is of a connection that is translated there, translates it.
func (w *traceRun) lookupConntrack(zone string, f *packet, translate bool) {
	w.recirculate(f)
	before := f.tuple()
	defer func() { w.noteCTState(f, f.tuple() != before) }()
	if f.conn != nil && f.conn.zone == w.ctZone(zone, f) {
		return // Open vSwitch remembers, also when it has translated the packet since
	}
	f.clearConntrack()
	f.Tracked = true
	c, reply := w.conntrack.findConnection(w.ctZone(zone, f), f.tuple())
	if c == nil {
		f.New = true
		return
	}
	c.seenReply = c.seenReply || reply
	f.New = !c.seenReply && f.canStartConnection() // as long as nobody has answered
	f.Established, f.Reply, f.conn = !f.New, reply, c
	f.CTLabel = [2]uint64{uint64(c.label) << 32, 0}
	if c.natted {
		f.CTMark = 1 << 1
	}
	if translate {
		w.applyConnectionNAT(c, reply, f)
	}
}

// applyConnectionNAT gives a packet the addresses that it has behind the translation.
func (w *traceRun) applyConnectionNAT(c *connection, reply bool, f *packet) {
	if reply {
		f.setTuple(c.original.reversed())
	} else {
		f.setTuple(c.reply.reversed())
	}
}

// commitNAT writes down a connection, translated to what its packets become.
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

// commitConnection writes down a connection as it is, with a label if there is one.
func (w *traceRun) commitConnection(zone string, f *packet, label uint32) {
	c, _ := w.conntrack.findConnection(w.ctZone(zone, f), f.tuple())
	if c == nil {
		// It may have been translated in this zone since it was looked up.
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

// maxRecirculations is how often Open vSwitch's userspace datapath lets a packet begin again on one node: for each pass
// through connection tracking, for the choice of a backend, and once when it comes out of a tunnel. The kernel's has no
// such limit.
const maxRecirculations = 8

// recirculate notes that a packet begins again.
func (w *traceRun) recirculate(f *packet) {
	if f.recirculations++; f.recirculations > maxRecirculations && w.userspaceChassis[f.chassis] {
		w.exhaustedChassis = f.chassis
	}
}

// ctZone is where a node keeps track of connections for a port or a router.
func (w *traceRun) ctZone(name string, f *packet) string { return f.chassis + "/" + name }
