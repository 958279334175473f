package sctp

import "errors"

// phase is how far a client has come.
type phase int

const (
	greeting  phase = iota // INIT is out
	echoing                // COOKIE ECHO is out
	asking                 // DATA is out
	listening              // DATA has arrived there; the answer has not come
	leaving                // the answer is here and SHUTDOWN is out
	gone
)

// client is one association that asks one question. It does no I/O.
type client struct {
	src, dst     uint16
	mine, theirs uint32 // tags
	tsn          uint32 // of the question
	seen         uint32 // last TSN received in order
	question     []byte
	answer       []byte
	phase        phase
	cookie       []byte
	err          error
}

func newClient(src, dst uint16, question []byte) *client {
	return &client{src: src, dst: dst, mine: newTag(), tsn: newTag(), question: question}
}

// due is what the phase sends, and sends again until the next phase.
func (c *client) due() []packet {
	switch c.phase {
	case greeting:
		return c.packets(initial{tag: c.mine, tsn: c.tsn}.encode(kindInit))
	case echoing:
		return c.packets(chunk{kind: kindCookieEcho, body: c.cookie})
	case asking:
		return c.packets(data{tsn: c.tsn, payload: c.question}.encode())
	case leaving:
		return c.packets(shutdown(c.seen))
	}
	return nil
}

// ours says whether a packet is for this association and not for another socket of the namespace.
func (c *client) ours(p packet) bool {
	if p.src != c.dst || p.dst != c.src || len(p.chunks) == 0 {
		return false
	}
	first := p.chunks[0]
	if first.kind == kindAbort && first.flags&flagReflected != 0 {
		return p.tag == c.theirs && c.phase > greeting
	}
	return p.tag == c.mine
}

// handle takes a packet and returns what to send at once.
func (c *client) handle(p packet) (out []packet) {
	if !c.ours(p) {
		return nil
	}
	for _, ch := range p.chunks {
		if reply := c.take(ch); len(reply) > 0 {
			out = append(out, c.packets(reply...)...)
		}
		if c.err != nil || c.phase == gone {
			break
		}
	}
	return out
}

func (c *client) take(ch chunk) []chunk {
	switch ch.kind {
	case kindInitAck:
		c.met(ch)
	case kindCookieAck:
		if c.phase == echoing {
			c.phase = asking
		}
	case kindSack:
		if tsn, err := acked(ch); err == nil && c.phase == asking && !before(tsn, c.tsn) {
			c.phase = listening
		}
	case kindData:
		return c.hear(ch)
	case kindHeartbeat:
		return []chunk{{kind: kindHeartbeatAck, body: ch.body}}
	case kindShutdown:
		if c.phase < leaving {
			c.err = errors.New("closed by the peer without an answer")
		}
		return []chunk{{kind: kindShutdownAck}}
	case kindShutdownAck:
		if c.phase != leaving {
			return nil
		}
		c.phase = gone
		return []chunk{{kind: kindShutdownComplete}}
	case kindAbort:
		if c.phase < leaving {
			c.err = ErrAborted
		}
		c.phase = gone
	}
	return nil
}

func (c *client) met(ch chunk) {
	peer, err := parseInitial(ch)
	if c.phase != greeting || err != nil || len(peer.cookie) == 0 {
		return
	}
	c.theirs, c.seen = peer.tag, peer.tsn-1
	c.cookie = append([]byte(nil), peer.cookie...)
	c.phase = echoing
}

// hear takes a message: the first is the answer, later ones are only acknowledged.
func (c *client) hear(ch chunk) []chunk {
	if c.phase < asking {
		return nil // the peer sends it again
	}
	d, err := parseData(ch)
	if err != nil || !d.whole {
		c.err = errors.New("the answer is not one whole message")
		return []chunk{{kind: kindAbort}}
	}
	if d.tsn == c.seen+1 {
		c.seen++
	}
	if c.phase < leaving && c.seen == d.tsn {
		c.answer = append([]byte(nil), d.payload...)
		c.phase = leaving
	}
	return []chunk{sack(c.seen)}
}

func (c *client) packets(chunks ...chunk) []packet {
	return []packet{{src: c.src, dst: c.dst, tag: c.theirs, chunks: chunks}}
}
