package sctp

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/internal/lab/program/datagram"
)

var (
	clientAddr = netip.MustParseAddr("192.0.2.1")
	serverAddr = netip.MustParseAddr("192.0.2.2")
)

// cable is one end of a socket pair, in the place of a raw socket.
type cable struct {
	net.Conn
	own, peer netip.Addr
	sent      int
	copies    func(n int) int // how often the nth packet arrives
}

func (c *cable) Read(b []byte) (datagram.Packet, error) {
	n, err := c.Conn.Read(b)
	return datagram.Packet{Payload: b[:n], From: netip.AddrPortFrom(c.peer, 0), To: c.own}, err
}

func (c *cable) Write(b []byte, _ netip.Addr, _ netip.AddrPort) error {
	c.sent++
	for range c.copies(c.sent) {
		_, _ = c.Conn.Write(b)
	}
	return nil
}

func newCable(t *testing.T, up, down func(int) int) (client, server *cable) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]net.Conn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "cable")
		if ends[i], err = net.FileConn(f); err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
		t.Cleanup(func() { _ = ends[i].Close() })
	}
	client = &cable{Conn: ends[0], own: clientAddr, peer: serverAddr, copies: up}
	server = &cable{Conn: ends[1], own: serverAddr, peer: clientAddr, copies: down}
	return client, server
}

// over asks one question over a cable and returns the answer and how often the server heard it.
func over(t *testing.T, up, down func(int) int) (string, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	cw, sw := newCable(t, up, down)
	var heard atomic.Int32
	s := newServer([]uint16{80}, func(_ netip.AddrPort, message []byte) []byte {
		heard.Add(1)
		return append([]byte("heard "), message...)
	})
	served := make(chan error, 1)
	serving, stop := context.WithCancel(ctx)
	go func() { served <- serve(serving, sw, s) }()
	c := newClient(50000, 80, []byte("hello"))
	if err := c.drive(ctx, cw, serverAddr); err != nil {
		t.Errorf("exchange: %v", err)
	}
	stop()
	if err := <-served; err != nil {
		t.Errorf("serve: %v", err)
	}
	return string(c.answer), int(heard.Load())
}

func always(n int) func(int) int { return func(int) int { return n } }

func lose(which int) func(int) int {
	return func(n int) int {
		if n == which {
			return 0
		}
		return 1
	}
}

func TestExchangeSurvivesLossAndCopies(t *testing.T) {
	type way struct{ up, down func(int) int }
	ways := map[string]way{"clean": {always(1), always(1)}, "doubled": {always(2), always(2)}}
	for n := 1; n <= 6; n++ { // INIT, COOKIE ECHO, DATA, SACK, SHUTDOWN, SHUTDOWN COMPLETE
		ways["lost up "+string(rune('0'+n))] = way{lose(n), always(1)}
		ways["lost down "+string(rune('0'+n))] = way{always(1), lose(n)}
	}
	ways["every second lost"] = way{func(n int) int { return n % 2 }, func(n int) int { return n % 2 }}
	for name, w := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer, heard := over(t, w.up, w.down)
			if answer != "heard hello" || heard != 1 {
				t.Errorf("answer %q after the server heard it %d times, want one", answer, heard)
			}
		})
	}
}

func TestExchangeEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	cw, _ := newCable(t, always(1), always(1)) // the other end is not served
	err := newClient(50000, 80, []byte("hello")).drive(ctx, cw, serverAddr)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error is %v, want the context's", err)
	}
}

func TestServerThatEndsAborts(t *testing.T) {
	cw, sw := newCable(t, always(1), always(1))
	serving, stop := context.WithCancel(t.Context())
	s := newServer([]uint16{80}, func(netip.AddrPort, []byte) []byte {
		stop()
		return nil // no answer: only the end of the server can end the exchange
	})
	served := make(chan error, 1)
	go func() { served <- serve(serving, sw, s) }()
	err := newClient(50000, 80, []byte("hello")).drive(t.Context(), cw, serverAddr)
	if !errors.Is(err, ErrAborted) {
		t.Errorf("error is %v, want %v", err, ErrAborted)
	}
	if err := <-served; err != nil {
		t.Errorf("serve: %v", err)
	}
}
