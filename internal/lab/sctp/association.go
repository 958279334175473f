package sctp

import (
	"bytes"
	"slices"
	"time"
)

// mostUnacked is how many answers may be on their way to one peer; a peer that asks more is asked to say it again.
const mostUnacked = 16

// association is a server's side of one set up association.
type association struct {
	mine, theirs uint32 // tags
	seen         uint32 // last TSN received in order
	next         uint32 // TSN of the next answer
	seq          uint16
	unacked      []data
	closing      bool // SHUTDOWN ACK is out
	resend       time.Time
	tries        int
	used         time.Time
}

func newAssociation(c cookie, now time.Time) *association {
	return &association{mine: c.mine, theirs: c.theirs, seen: c.theirsTSN - 1, next: c.mineTSN, used: now}
}

// fits says whether the packet's tag is right. A chunk with the T flag carries the tag that its sender was given.
func (a *association) fits(tag uint32, first chunk) bool {
	mayReflect := first.kind == kindAbort || first.kind == kindShutdownComplete
	if mayReflect && first.flags&flagReflected != 0 {
		return tag == a.theirs
	}
	return tag == a.mine
}

// accept takes a message if it is the next one.
func (a *association) accept(d data) bool {
	if d.tsn != a.seen+1 || len(a.unacked) >= mostUnacked || a.closing {
		return false
	}
	a.seen++
	return true
}

// say sends an answer, until it is acknowledged.
func (a *association) say(answer []byte, now time.Time) chunk {
	d := data{tsn: a.next, seq: a.seq, payload: bytes.Clone(answer)}
	a.next++
	a.seq++
	a.unacked = append(a.unacked, d)
	a.arm(now)
	return d.encode()
}

// acknowledge forgets the answers that have arrived.
func (a *association) acknowledge(tsn uint32, now time.Time) {
	n := len(a.unacked)
	a.unacked = slices.DeleteFunc(a.unacked, func(d data) bool { return !before(tsn, d.tsn) })
	if len(a.unacked) == n {
		return
	}
	a.tries = 0
	a.arm(now)
}

// close answers SHUTDOWN, once all answers have arrived.
func (a *association) close(now time.Time) []chunk {
	if len(a.unacked) > 0 {
		return a.again()
	}
	a.closing = true
	a.arm(now)
	return a.again()
}

// again is what the peer has not acknowledged.
func (a *association) again() (chunks []chunk) {
	for _, d := range a.unacked {
		chunks = append(chunks, d.encode())
	}
	if a.closing {
		chunks = append(chunks, chunk{kind: kindShutdownAck})
	}
	return chunks
}

// arm sets the time to send again, if there is anything to.
func (a *association) arm(now time.Time) {
	a.resend = time.Time{}
	if len(a.unacked) > 0 || a.closing {
		a.resend = now.Add(backoff(a.tries))
	}
}

func (a *association) outgoing(id pair, chunks ...chunk) (out []outgoing) {
	for _, p := range a.packets(id, chunks...) {
		out = append(out, outgoing{pair: id, packet: p})
	}
	return out
}

// packets bundles chunks for the peer; a packet ends with its first message, so that it stays small.
func (a *association) packets(id pair, chunks ...chunk) (out []packet) {
	head := packet{src: id.local.Port(), dst: id.remote.Port(), tag: a.theirs}
	p := head
	for _, c := range chunks {
		p.chunks = append(p.chunks, c)
		if c.kind == kindData {
			out = append(out, p)
			p = head
		}
	}
	if len(p.chunks) > 0 {
		out = append(out, p)
	}
	return out
}
