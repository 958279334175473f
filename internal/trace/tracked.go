package trace

import (
	"net/netip"

	"github.com/sallyport/sallyport/internal/match"
)

// tuple is what tells connections apart.
type tuple struct {
	protocol            uint8
	source, destination netip.AddrPort
}

func (t tuple) reversed() tuple { return tuple{t.protocol, t.destination, t.source} }

// connection is one that somebody keeps track of: how its packets look as they arrive, in both directions. Where they differ in more than
// the direction, it is translated.
type connection struct {
	zone        string
	there, back tuple
	label       uint32
	natted      bool
	answered    bool
}

// tracker is the connections of all zones.
type tracker []*connection

// find is the connection that a packet belongs to, and whether it is a reply.
func (t tracker) find(zone string, of tuple) (_ *connection, reply bool) {
	for _, c := range t {
		if c.zone != zone {
			continue
		}
		switch of {
		case c.there:
			return c, false
		case c.back:
			return c, true
		}
	}
	return nil, false
}

// flight is a packet on its way.
type flight struct {
	match.Packet
	chassis string
	hop     netip.Addr  // to which a router sends it
	looped  bool        // a router has sent it to itself
	repeats int         // see repeat
	of      *connection // that it was found to be of; nil: nobody has looked, or it is of none
}

func (f flight) tuple() tuple {
	return tuple{f.Protocol, netip.AddrPortFrom(f.Source, f.SourcePort), netip.AddrPortFrom(f.Destination, f.DestinationPort)}
}

// begins says whether a packet can be the first of its connection.
func (f flight) begins() bool {
	switch f.Protocol {
	case match.TCP:
		return f.TCPFlags&(match.SYN|match.ACK) == match.SYN
	case match.ICMP:
		return f.ICMPType != 0
	default:
		return true
	}
}

func (f *flight) become(t tuple) {
	f.Source, f.SourcePort = t.source.Addr(), t.source.Port()
	f.Destination, f.DestinationPort = t.destination.Addr(), t.destination.Port()
}

// reversed is the answer to a packet.
func (f flight) reversed() flight {
	out := flight{Packet: match.Packet{Protocol: f.Protocol, TTL: 64, EthSource: f.EthDestination, EthDestination: f.EthSource}, chassis: f.chassis}
	out.become(f.tuple().reversed())
	if f.Protocol == match.TCP {
		out.TCPFlags = match.SYN | match.ACK
	}
	return out
}

// forget takes off what was found out about the packet's connection: it does not cross from a switch to a router, nor to another node.
func (f *flight) forget() {
	f.Tracked, f.New, f.Established, f.Related, f.Reply, f.Invalid, f.SNAT, f.DNAT = false, false, false, false, false, false, false, false
	f.ConnectionMark, f.ConnectionLabel, f.of = 0, [2]uint64{}, nil
}

// lookUp looks a packet up in a zone and, when it is of a connection that is translated there, translates it.
func (w *walk) lookUp(zone string, f *flight, translate bool) {
	w.repeat(f)
	before := f.tuple()
	defer func() { w.note(f, f.tuple() != before) }()
	if f.of != nil && f.of.zone == w.zone(zone, f) {
		return // Open vSwitch remembers, also when it has translated the packet since
	}
	f.forget()
	f.Tracked = true
	c, reply := w.tracked.find(w.zone(zone, f), f.tuple())
	if c == nil {
		f.New = true
		return
	}
	c.answered = c.answered || reply
	f.New = !c.answered && f.begins() // as long as nobody has answered
	f.Established, f.Reply, f.of = !f.New, reply, c
	f.ConnectionLabel = [2]uint64{uint64(c.label) << 32, 0}
	if c.natted {
		f.ConnectionMark = 1 << 1
	}
	if translate {
		w.apply(c, reply, f)
	}
}

// apply gives a packet the addresses that it has behind the translation.
func (w *walk) apply(c *connection, reply bool, f *flight) {
	if reply {
		f.become(c.there.reversed())
	} else {
		f.become(c.back.reversed())
	}
}

// commit writes down a connection, translated to what its packets become.
func (w *walk) commit(zone string, f *flight, as tuple) {
	w.repeat(f)
	c, reply := w.tracked.find(w.zone(zone, f), f.tuple())
	f.forget()
	f.Tracked, f.New, f.Reply = true, c == nil || !c.answered && f.begins(), reply
	f.Established = !f.New
	if c == nil {
		c = &connection{zone: w.zone(zone, f), there: f.tuple(), back: as.reversed()}
		w.tracked = append(w.tracked, c)
	}
	c.natted = c.natted || as != f.tuple()
	w.apply(c, reply, f)
}

// keep writes down a connection as it is, with a label if there is one.
func (w *walk) keep(zone string, f *flight, label uint32) {
	c, _ := w.tracked.find(w.zone(zone, f), f.tuple())
	if c == nil {
		// It may have been translated in this zone since it was looked up.
		for _, other := range w.tracked {
			if other.zone == w.zone(zone, f) && other.back == f.tuple().reversed() {
				c = other
			}
		}
	}
	if c == nil {
		c = &connection{zone: w.zone(zone, f), there: f.tuple(), back: f.tuple().reversed()}
		w.tracked = append(w.tracked, c)
	}
	if label != 0 {
		c.label = label
	}
}

// deepest is how often Open vSwitch's userspace datapath lets a packet begin again on one node: for each pass through connection tracking, for
// the choice of a backend, and once when it comes out of a tunnel. The kernel's has no such limit.
const deepest = 8

// repeat notes that a packet begins again.
func (w *walk) repeat(f *flight) {
	if f.repeats++; f.repeats > deepest && w.userspace[f.chassis] {
		w.tired = f.chassis
	}
}

// zone is where a node keeps track of connections for a port or a router.
func (w *walk) zone(name string, f *flight) string { return f.chassis + "/" + name }
