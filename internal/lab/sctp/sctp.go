// Package sctp is just enough SCTP in user space to talk where the kernel has none.
//
// It speaks RFC 9260 over raw IP sockets: one address on each side, messages of one chunk, one message answered by one.
// A kernel that has SCTP loaded aborts every association it does not know, so this package and the kernel's SCTP don't
// live in one machine. Raw sockets never load the kernel's module.
package sctp

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"net/netip"
	"time"

	"github.com/sallyport/sallyport/internal/lab/program/datagram"
)

// MaxMessage is the longest message; with all headers it fits every link of a lab unfragmented.
const MaxMessage = 1200

// ErrAborted says that the other side has cut the association.
var ErrAborted = errors.New("aborted by the peer")

// Timers. They are shorter than the RFC's (1 s to 60 s): a lab's round trip is below a millisecond, and a test that
// measures an outage should see its end at once.
const (
	resendFirst = 200 * time.Millisecond
	resendMost  = time.Second
	resendTries = 5
	cookieLife  = 60 * time.Second
	idleLife    = 5 * time.Minute
)

// Net is the network namespace to talk in; opening raw sockets takes CAP_NET_RAW there.
type Net interface {
	ListenPacket(ctx context.Context, network, address string) (net.PacketConn, error)
}

// wire is a raw SCTP socket of one IP family.
type wire interface {
	Read(b []byte) (datagram.Packet, error)
	Write(b []byte, from netip.Addr, to netip.AddrPort) error
	SetReadDeadline(t time.Time) error
	Close() error
}

// open makes a raw socket for all SCTP packets of the namespace in one family.
func open(ctx context.Context, n Net, v6 bool) (wire, error) {
	network, wildcard := "ip4:132", "0.0.0.0"
	if v6 {
		network, wildcard = "ip6:132", "::"
	}
	p, err := n.ListenPacket(ctx, network, wildcard)
	if err != nil {
		return nil, fmt.Errorf("open raw SCTP socket: %w", err)
	}
	c, err := datagram.New(p)
	if err != nil {
		_ = p.Close()
		return nil, fmt.Errorf("open raw SCTP socket: %w", err)
	}
	return c, nil
}

// interrupt makes the socket's reads end with the context. The reader must look at the context after it has set a
// deadline of its own; the function returned ends the watch.
func interrupt(ctx context.Context, w wire) func() bool {
	return context.AfterFunc(ctx, func() { _ = w.SetReadDeadline(time.Unix(1, 0)) })
}

// newTag is a random verification tag; zero is only for INIT.
func newTag() uint32 { return 1 + rand.Uint32N(math.MaxUint32) } //nolint:gosec // a number of a lab's connection, and no secret

// backoff is how long to wait for an answer to the given try, counted from zero.
func backoff(try int) time.Duration { return min(resendFirst<<min(try, 8), resendMost) }
