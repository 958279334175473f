package world

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/internal/lab/netns"
)

const (
	patience = 5 * time.Second        // to wait for what has to happen
	moment   = 300 * time.Millisecond // to wait for what must not
)

func withTimeout(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// serve answers each connection in the namespace with the address that it came from.
func serve(t *testing.T, name string, at netip.Addr) (address string) {
	t.Helper()
	l, err := netns.Named(name).Listen(t.Context(), "tcp", netip.AddrPortFrom(at, 0).String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, conn.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().String())
			_ = conn.Close()
		}
	}()
	return l.Addr().String()
}

// ask connects from the namespace and returns what the server says it saw.
func ask(t *testing.T, from, address string, d time.Duration) (saw string, err error) {
	t.Helper()
	conn, err := netns.Named(from).Dial(withTimeout(t, d), "tcp", address)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(d))
	raw, err := io.ReadAll(conn)
	return string(raw), err
}

// sees fails the test unless the server at address sees a client in namespace from as want.
func sees(t *testing.T, from, address string, want netip.Addr) {
	t.Helper()
	saw, err := ask(t, from, address, patience)
	if err != nil {
		t.Errorf("%s → %s: %v", from, address, err)
		return
	}
	if saw != want.String() {
		t.Errorf("%s → %s: the server saw %s, want %s", from, address, saw, want)
	}
}

// send sends one datagram with whatever source is asked for, the namespace's own or not.
func send(t *testing.T, from string, src netip.Addr, to net.Addr, text string) {
	t.Helper()
	level, option := unix.SOL_IP, unix.IP_TRANSPARENT
	if src.Is6() {
		level, option = unix.SOL_IPV6, unix.IPV6_TRANSPARENT
	}
	dialer := &net.Dialer{
		LocalAddr: net.UDPAddrFromAddrPort(netip.AddrPortFrom(src, 0)),
		Control: func(_, _ string, raw syscall.RawConn) (err error) {
			outer := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), level, option, 1) })
			return errors.Join(outer, err)
		},
	}
	conn, err := netns.Named(from).DialFrom(t.Context(), dialer, "udp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
}

// hear listens for datagrams in a namespace.
func hear(t *testing.T, name string, at netip.Addr) net.PacketConn {
	t.Helper()
	p, err := netns.Named(name).ListenPacket(t.Context(), "udp", netip.AddrPortFrom(at, 0).String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// next is the next datagram that arrives within d; empty if none does.
func next(t *testing.T, p net.PacketConn, d time.Duration) string {
	t.Helper()
	buf := make([]byte, 1500)
	_ = p.SetReadDeadline(time.Now().Add(d))
	n, _, err := p.ReadFrom(buf)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(buf[:n])
}

// counted is what one counter of a router holds.
func counted(t *testing.T, router, counter string) uint64 {
	t.Helper()
	counters, err := Counters(netns.Named(router))
	if err != nil {
		t.Fatal(err)
	}
	c, ok := counters[counter]
	if !ok {
		t.Fatalf("%s has no counter %s, but %v", router, counter, counters)
	}
	return c.Packets
}

// await is what a counter of a router holds once it has come to n, or when patience is at its end.
func await(t *testing.T, router, counter string, n uint64) uint64 {
	t.Helper()
	ctx := withTimeout(t, patience)
	got := counted(t, router, counter)
	for got < n && ctx.Err() == nil {
		got = counted(t, router, counter)
	}
	return got
}

// counts fails the test unless a counter of a router comes to n and no further.
func counts(t *testing.T, router, counter string, n uint64) {
	t.Helper()
	if got := await(t, router, counter, n); got != n {
		t.Errorf("%s counted %d packets as %s, want %d", router, got, counter, n)
	}
}

// nothingDropped fails the test if a router of the lab dropped a packet.
func nothingDropped(t *testing.T) {
	t.Helper()
	for _, seg := range testBlueprint().Segments() {
		n, err := Dropped(netns.Named(seg.Router))
		if err != nil {
			t.Fatal(err)
		}
		if n != 0 {
			t.Errorf("%s dropped %d packets, want none", seg.Router, n)
		}
	}
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}
