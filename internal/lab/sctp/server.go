package sctp

import (
	"net/netip"
	"time"
)

const mostAssociations = 1024

// pair is the two ends of an association: the peer, and the address and port of ours that it asked.
type pair struct{ remote, local netip.AddrPort }

// outgoing is a packet with its way.
type outgoing struct {
	pair
	packet
}

// server holds the associations of a listener in one family. It does no I/O, and the clock is passed in.
type server struct {
	ports        map[uint16]bool
	answer       func(peer netip.AddrPort, message []byte) []byte
	secret       secret
	associations map[pair]*association
}

func newServer(ports []uint16, answer func(netip.AddrPort, []byte) []byte) *server {
	s := &server{ports: map[uint16]bool{}, answer: answer, secret: newSecret(), associations: map[pair]*association{}}
	for _, p := range ports {
		s.ports[p] = true
	}
	return s
}

// handle takes a packet and returns what to send to where it came from.
func (s *server) handle(p packet, id pair, now time.Time) []packet {
	if !s.ports[p.dst] || len(p.chunks) == 0 {
		return nil // another socket's business: a raw socket sees every packet of the namespace
	}
	switch p.chunks[0].kind {
	case kindInit:
		return s.meet(p, id, now)
	case kindCookieEcho:
		return s.setUp(p, id, now)
	}
	a := s.associations[id]
	if a == nil {
		return stranger(p)
	}
	if !a.fits(p.tag, p.chunks[0]) {
		return nil
	}
	return s.converse(a, p.chunks, id, now)
}

// meet answers INIT and remembers nothing. A repeated INIT gets the same answer: its client may take either, and a router
// on the way drops what has the tag of the earlier one.
func (s *server) meet(p packet, id pair, now time.Time) []packet {
	peer, err := parseInitial(p.chunks[0])
	if err != nil || p.tag != 0 || len(p.chunks) > 1 {
		return nil
	}
	c := cookie{theirs: peer.tag, theirsTSN: peer.tsn, made: now}
	c.mine, c.mineTSN = s.secret.chooseTags(peer.tag, id)
	reply := initial{tag: c.mine, tsn: c.mineTSN, cookie: s.secret.seal(c, id)}
	return packets(p, peer.tag, reply.encode(kindInitAck))
}

// setUp makes the association that the cookie describes; the packet may carry messages already. The same cookie again
// means that COOKIE ACK was lost; another cookie, that the peer has started anew.
func (s *server) setUp(p packet, id pair, now time.Time) []packet {
	c, err := s.secret.open(p.chunks[0].body, id, now)
	if err != nil || c.mine != p.tag {
		return nil
	}
	a := s.associations[id]
	if a == nil || a.mine != c.mine {
		if !s.room(now) {
			return packets(p, c.theirs, chunk{kind: kindAbort})
		}
		a = newAssociation(c, now)
		s.associations[id] = a
	}
	rest := s.converse(a, p.chunks[1:], id, now)
	return append(packets(p, c.theirs, chunk{kind: kindCookieAck}), rest...)
}

// converse takes the chunks of an association. What goes back is bundled up to the first message.
func (s *server) converse(a *association, chunks []chunk, id pair, now time.Time) []packet {
	var control, messages []chunk
	a.used = now
	asked := false
	for _, c := range chunks {
		switch c.kind {
		case kindData:
			d, err := parseData(c)
			if err != nil || !d.whole {
				delete(s.associations, id)
				return a.packets(id, chunk{kind: kindAbort})
			}
			asked = true
			if !a.accept(d) {
				continue
			}
			if answer := s.answer(id.remote, d.payload); len(answer) > 0 {
				messages = append(messages, a.say(answer[:min(len(answer), MaxMessage)], now))
			}
		case kindSack:
			if tsn, err := acked(c); err == nil {
				a.acknowledge(tsn, now)
			}
		case kindHeartbeat:
			control = append(control, chunk{kind: kindHeartbeatAck, body: c.body})
		case kindShutdown:
			if tsn, err := acked(c); err == nil {
				a.acknowledge(tsn, now)
				messages = append(messages, a.close(now)...)
			}
		case kindAbort, kindShutdownComplete:
			delete(s.associations, id)
			return nil
		}
	}
	if asked {
		control = append(control, sack(a.seen))
	}
	return a.packets(id, append(control, messages...)...)
}

// stranger answers a packet of no association (RFC 9260, section 8.4).
func stranger(p packet) []packet {
	switch p.chunks[0].kind {
	case kindData, kindSack, kindHeartbeat, kindShutdown:
		return packets(p, p.tag, chunk{kind: kindAbort, flags: flagReflected})
	case kindShutdownAck:
		return packets(p, p.tag, chunk{kind: kindShutdownComplete, flags: flagReflected})
	}
	return nil
}

// room drops idle associations and says whether there is place for one more.
func (s *server) room(now time.Time) bool {
	for id, a := range s.associations {
		if now.Sub(a.used) > idleLife {
			delete(s.associations, id)
		}
	}
	return len(s.associations) < mostAssociations
}

// packets is one packet back to the sender of p.
func packets(p packet, tag uint32, chunks ...chunk) []packet {
	return []packet{{src: p.dst, dst: p.src, tag: tag, chunks: chunks}}
}
