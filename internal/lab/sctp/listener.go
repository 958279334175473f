package sctp

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sallyport/sallyport/internal/lab/program/datagram"
)

// Listener is a set of ports that answers SCTP on every address of its namespace, in both families.
type Listener struct {
	ports []uint16
	wires []wire
}

// Listen opens the sockets. From here on, and until Serve, packets wait in them.
func Listen(ctx context.Context, n Net, ports ...uint16) (*Listener, error) {
	l := &Listener{ports: ports}
	for _, v6 := range []bool{false, true} {
		w, err := open(ctx, n, v6)
		if v6 && errors.Is(err, syscall.EAFNOSUPPORT) {
			continue // booted with ipv6.disable=1
		}
		if err != nil {
			_ = l.Close()
			return nil, err
		}
		l.wires = append(l.wires, w)
	}
	return l, nil
}

// Close closes the sockets of a listener that does not serve.
func (l *Listener) Close() (err error) {
	for _, w := range l.wires {
		err = errors.Join(err, w.Close())
	}
	return err
}

// Serve answers messages until the context ends; then it aborts what is open and closes the sockets. The two families
// call answer at the same time. An empty answer is not sent, one longer than MaxMessage is cut.
func (l *Listener) Serve(ctx context.Context, answer func(peer netip.AddrPort, message []byte) []byte) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, w := range l.wires {
		g.Go(func() error { return serve(ctx, w, newServer(l.ports, answer)) })
	}
	return g.Wait()
}

func serve(ctx context.Context, w wire, s *server) error {
	defer w.Close()
	defer interrupt(ctx, w)()
	b := make([]byte, 64<<10)
	for {
		if err := w.SetReadDeadline(s.next()); err != nil {
			return fmt.Errorf("serve SCTP: %w", err)
		}
		if ctx.Err() != nil {
			send(w, s.end())
			return nil
		}
		p, err := w.Read(b)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			send(w, s.tick(time.Now()))
			continue
		}
		if err != nil {
			return fmt.Errorf("serve SCTP: %w", err)
		}
		s.take(w, p)
	}
}

// take answers one packet; one that is no SCTP is dropped, as a kernel does.
func (s *server) take(w wire, raw datagram.Packet) {
	p, err := parse(raw.Payload)
	if err != nil {
		return
	}
	id := pair{
		remote: netip.AddrPortFrom(raw.From.Addr(), p.src),
		local:  netip.AddrPortFrom(raw.To, p.dst),
	}
	now := time.Now()
	for _, reply := range s.handle(p, id, now) {
		send(w, []outgoing{{pair: id, packet: reply}})
	}
	send(w, s.tick(now)) // under constant traffic the deadline would never pass
}

// send is for packets that are sent again if they get lost, so an error here is a loss like any other.
func send(w wire, out []outgoing) {
	for _, o := range out {
		_ = w.Write(o.encode(), o.local.Addr(), netip.AddrPortFrom(o.remote.Addr(), 0))
	}
}
