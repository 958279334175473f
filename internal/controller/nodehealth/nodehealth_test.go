package nodehealth

import (
	"context"
	"net"
	"net/netip"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sallyport/sallyport/internal/model/health"
)

var loopback = []netip.Addr{netip.MustParseAddr("127.0.0.1")}

// A kernel that refuses a connection is alive. Without an address, or after the timeout, a node is silent.
func TestRefusal(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if got := (tcpChecker{}).checkNode(ctx, loopback); got != health.Alive {
		t.Errorf("our own kernel gives sign %d", got)
	}
	if got := (tcpChecker{}).checkNode(ctx, nil); got != health.Silent {
		t.Errorf("no address gives sign %d", got)
	}
	cancel()
	if got := (tcpChecker{}).checkNode(ctx, loopback); got != health.Silent {
		t.Errorf("no time gives sign %d", got)
	}
}

// A serving node is alive. After its server stops, the first check is inconclusive and the next one silent. When the
// server is back, the node is alive again.
func TestConversation(t *testing.T) {
	serve := func(address string) (port int, end func()) {
		ctx, cancel := context.WithCancel(t.Context())
		on, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- Serve(ctx, on, nil) }()
		return on.Addr().(*net.TCPAddr).Port, func() { cancel(); <-done }
	}
	port, end := serve("127.0.0.1:0")
	c := &grpcChecker{port: port}
	defer c.closeConn()
	ask := func() health.SampleResult {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		return c.checkNode(ctx, loopback)
	}
	if got := ask(); got != health.Alive {
		t.Fatalf("it serves, and the sign is %d", got)
	}
	end()
	first, second := ask(), ask()
	if first == health.Alive || second != health.Silent {
		t.Errorf("it ended, and the signs are %d and %d", first, second)
	}
	_, end = serve("127.0.0.1:" + strconv.Itoa(port))
	defer end()
	if got := ask(); got != health.Alive {
		t.Errorf("it serves again, and the sign is %d", got)
	}
}

// fakeChecker returns a settable result.
type fakeChecker struct{ sign atomic.Int64 }

func (o *fakeChecker) checkNode(context.Context, []netip.Addr) health.SampleResult {
	return health.SampleResult(o.sign.Load())
}

func (*fakeChecker) certificateExpiry() time.Time { return time.Time{} }
func (*fakeChecker) closeConn()                   {}

// A node that falls silent is dead after the timeout, is reported once, and is alive again after the recovery delay. A
// node without probes is not dead.
func TestProber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told atomic.Int64
		p := New(Config{Timeout: time.Second, Period: time.Second}, func() { told.Add(1) })
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = p.Start(ctx) }()
		p.SetNodes([]Node{{Name: "a", Addresses: loopback}})
		o := &fakeChecker{}
		o.sign.Store(int64(health.Alive))
		p.nodes["a"].checker = o
		at := func(wait time.Duration, dead bool, news int64) {
			t.Helper()
			<-time.After(wait)
			synctest.Wait()
			if got := p.DeadNodes()["a"]; got != dead || told.Load() != news {
				t.Errorf("dead is %t after %d news, want %t after %d", got, told.Load(), dead, news)
			}
		}
		at(0, false, 0)
		at(5500*time.Millisecond, false, 0)
		o.sign.Store(int64(health.Silent))
		at(time.Second, false, 0)
		at(2*time.Second, true, 1)
		o.sign.Store(int64(health.Alive))
		at(2*time.Second, true, 1)
		at(5*time.Second, false, 2)
		p.SetNodes(nil)
		at(0, false, 2)
		cancel()
		synctest.Wait()
	})
}

// Nodes that are not in the list are not probed.
func TestNobodyIsAsked(t *testing.T) {
	if err := New(Config{}, func() { t.Error("somebody was asked") }).Start(t.Context()); err != nil {
		t.Error(err)
	}
}
