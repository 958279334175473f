package sctp

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"sync/atomic"
	"time"
)

// Ports that clients ask from (RFC 6335, dynamic ports). The process counts through them from a random start, so that
// no two associations of a namespace meet on one port.
const (
	firstPort = 49152
	portCount = 1 << 14
	byeTries  = 2 // SHUTDOWNs sent in vain before a client leaves without the last word
)

var lastPort atomic.Uint32

func init() { lastPort.Store(rand.Uint32N(portCount)) } //nolint:gosec // a number of a lab's connection, and no secret

// Exchange sets up an association, sends one message, waits for one message back, and shuts the association down. The
// error does not name dst: the caller does.
func Exchange(ctx context.Context, n Net, dst netip.AddrPort, message []byte) ([]byte, error) {
	if len(message) == 0 || len(message) > MaxMessage {
		return nil, fmt.Errorf("message of %d bytes, want 1 to %d", len(message), MaxMessage)
	}
	dst = netip.AddrPortFrom(dst.Addr().Unmap(), dst.Port())
	w, err := open(ctx, n, dst.Addr().Is6())
	if err != nil {
		return nil, err
	}
	defer w.Close()
	src := uint16(firstPort + lastPort.Add(1)%portCount)
	c := newClient(src, dst.Port(), message)
	if err := c.drive(ctx, w, dst.Addr()); err != nil {
		return nil, err
	}
	return c.answer, nil
}

// drive runs the association until it is shut down or has failed. Once the answer is here, nothing is a failure.
func (c *client) drive(ctx context.Context, w wire, dst netip.Addr) error {
	defer interrupt(ctx, w)()
	for try := 0; c.phase != gone; try++ {
		began := c.phase
		err := c.send(w, dst, c.due())
		if err == nil {
			err = c.wait(ctx, w, dst, time.Now().Add(backoff(try)))
		}
		switch {
		case c.err != nil:
			return c.err
		case began != c.phase && err == nil:
			try = -1
		case c.phase == leaving && (err != nil || try >= byeTries):
			return nil
		case err != nil:
			c.giveUp(w, dst)
			return err
		}
	}
	return nil
}

// wait takes packets until the phase changes or the deadline passes.
func (c *client) wait(ctx context.Context, w wire, dst netip.Addr, deadline time.Time) error {
	began := c.phase
	if c.phase == listening {
		deadline = time.Time{} // nothing to repeat: the peer has the question and must get its answer here
	}
	if err := w.SetReadDeadline(deadline); err != nil {
		return err
	}
	b := make([]byte, 64<<10)
	for c.phase == began && c.err == nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		raw, err := w.Read(b)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		p, err := parse(raw.Payload)
		if err != nil || raw.From.Addr() != dst {
			continue
		}
		if err := c.send(w, dst, c.handle(p)); err != nil {
			return err
		}
	}
	return nil
}

func (c *client) send(w wire, dst netip.Addr, packets []packet) error {
	for _, p := range packets {
		if err := w.Write(p.encode(), netip.Addr{}, netip.AddrPortFrom(dst, 0)); err != nil {
			return err
		}
	}
	return nil
}

// giveUp tells a peer that has an association, as far as it can be told.
func (c *client) giveUp(w wire, dst netip.Addr) {
	if c.phase > greeting {
		_ = c.send(w, dst, c.packets(chunk{kind: kindAbort}))
	}
}
