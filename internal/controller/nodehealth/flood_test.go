package nodehealth

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/sallyport/sallyport/internal/model/health"
)

// startHealthServer starts the health server of a node and returns its address.
func startHealthServer(t *testing.T) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	on, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, on, nil) }()
	t.Cleanup(func() { cancel(); <-done })
	return on.Addr().String()
}

// newControllerProbe returns a probe like the controller's.
func newControllerProbe(t *testing.T, address string) func() health.SampleResult {
	t.Helper()
	at := netip.MustParseAddrPort(address)
	c := &grpcChecker{port: int(at.Port())}
	t.Cleanup(c.closeConn)
	return func() health.SampleResult {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		return c.checkNode(ctx, []netip.Addr{at.Addr()})
	}
}

// newOutsideClient returns a client with its own source address.
func newOutsideClient(t *testing.T, address, source string) grpc_health_v1.HealthClient {
	t.Helper()
	from := &net.TCPAddr{IP: net.ParseIP(source)}
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, to string) (net.Conn, error) {
			return (&net.Dialer{LocalAddr: from}).DialContext(ctx, "tcp", to)
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return grpc_health_v1.NewHealthClient(conn)
}

// An outsider with 20 connections and 5,000 streams on each (M4) causes no significant memory use, and the controller
// still gets its answers. The measured memory includes both sides: they are one process here.
func TestStreamsOfAnOutsiderCostNothing(t *testing.T) {
	const connections, streams, most = 20, 5000, 48 << 20
	address := startHealthServer(t)
	ask := newControllerProbe(t, address)
	if got := ask(); got != health.Alive { // control: it answers before
		t.Fatalf("the sign is %d", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var group sync.WaitGroup
	for i := range connections {
		client := newOutsideClient(t, address, fmt.Sprintf("127.0.0.%d", 2+i%2))
		for range 10 { // each opens its streams one after the other, as fast as they are refused
			group.Go(func() {
				for range streams / 10 {
					if w, err := client.Watch(ctx,
						&grpc_health_v1.HealthCheckRequest{Service: HealthService}); err == nil {
						_, _ = w.Recv()
					}
				}
			})
		}
	}
	flooded := make(chan struct{})
	go func() { group.Wait(); close(flooded) }()
	var peak uint64
	for done := false; !done; {
		select {
		case <-flooded:
			done = true
		case <-time.After(50 * time.Millisecond):
		}
		if got := ask(); got != health.Alive {
			t.Fatalf("under the flood the sign is %d", got)
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		peak = max(peak, m.HeapInuse+m.StackInuse)
	}
	if t.Logf("at most %d MB were in use", peak>>20); peak > most {
		t.Errorf("%d MB were in use", peak>>20)
	}
}

// The server offers neither Watch, which would hold a stream open, nor a list of services.
func TestNobodyMayWatch(t *testing.T) {
	client := newOutsideClient(t, startHealthServer(t), "127.0.0.2")
	watch, err := client.Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: HealthService})
	if err == nil {
		_, err = watch.Recv()
	}
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("Watch says %v", err)
	}
	if _, err := client.List(t.Context(),
		&grpc_health_v1.HealthListRequest{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("List says %v", err)
	}
	// control
	if _, err := client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: HealthService}); err != nil {
		t.Errorf("Check says %v", err)
	}
}

// A large request, or one with large headers, is refused; a normal request on the same connection is answered.
func TestQuestionsAreSmall(t *testing.T) {
	client := newOutsideClient(t, startHealthServer(t), "127.0.0.2")
	ask := func(name string) error {
		_, err := client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: name})
		return err
	}
	if err := ask(strings.Repeat("x", 2*maxRequestBytes)); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a large question: %v", err)
	}
	if err := ask("somebody else"); status.Code(err) != codes.NotFound {
		t.Errorf("another's name: %v", err)
	}
	if err := ask(HealthService); err != nil {
		t.Error(err)
	}
}

// Idle connections: their number is limited per source and in total, and the controller's connection is not closed.
func TestConnectionsAreFew(t *testing.T) {
	address := startHealthServer(t)
	ask := newControllerProbe(t, address)
	if got := ask(); got != health.Alive {
		t.Fatalf("the sign is %d", got)
	}
	var silent []net.Conn
	dial := func(source string) {
		t.Helper()
		conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}}).DialContext(t.Context(), "tcp",
			address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		silent = append(silent, conn)
	}
	for range 5 * maxConnsPerSource {
		dial("127.0.0.2")
	}
	if open := waitForOpenConns(silent, maxConnsPerSource); open > maxConnsPerSource {
		t.Errorf("%d connections of one source are open", open)
	}
	for i := range 2 * maxConns {
		dial(fmt.Sprintf("127.0.%d.%d", 1+i/250, 1+i%250))
	}
	if open := waitForOpenConns(silent, maxConns); open > maxConns {
		t.Errorf("%d connections are open", open)
	}
	for range 2 * maxConnsPerSource {
		dial("127.0.0.1") // the controller's own address: someone behind the same SNAT
	}
	if got := ask(); got != health.Alive {
		t.Errorf("afterwards the sign is %d", got)
	}
}

// waitForOpenConns waits until few enough connections are open: the server closes them a moment after it has accepted
// others.
func waitForOpenConns(conns []net.Conn, enough int) (open int) {
	for begun := time.Now(); time.Since(begun) < 10*time.Second; {
		if open = countOpenConns(conns); open <= enough {
			break
		}
	}
	return open
}

// countOpenConns counts the connections that the server has not closed.
func countOpenConns(conns []net.Conn) (open int) {
	for _, c := range conns {
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		for {
			_, err := c.Read(make([]byte, 256))
			if err == nil {
				continue // the server's HTTP/2 settings
			}
			var timeout net.Error
			if errors.As(err, &timeout) && timeout.Timeout() && !errors.Is(err, io.EOF) {
				open++
			}
			break
		}
	}
	return open
}

// A connection with an answer is kept while there is one without; among equals, the oldest is closed.
func TestWhoGoes(t *testing.T) {
	a, b, c := &boundedConn{source: "a", answered: true}, &boundedConn{source: "b"}, &boundedConn{source: "c"}
	for _, x := range []struct {
		conns []*boundedConn
		goes  *boundedConn
	}{{[]*boundedConn{a, b, c}, b}, {[]*boundedConn{b, a, c}, b}, {[]*boundedConn{a, c}, a}} {
		if got := pickConnToClose(slices.Clone(x.conns)); got != x.goes {
			t.Errorf("%s goes, not %s", got.source, x.goes.source)
		}
	}
}

// The expiry of an agent's certificate is known for its node; without TLS there is none.
func TestExpiries(t *testing.T) {
	issued := httptest.NewUnstartedServer(nil)
	issued.StartTLS()
	pair := issued.TLS.Certificates[0]
	issued.Close()
	for secure, client := range map[bool]*tls.Config{true: {InsecureSkipVerify: true}, false: nil} {
		ctx, cancel := context.WithCancel(t.Context())
		on, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		var server *tls.Config
		if secure {
			server = &tls.Config{Certificates: []tls.Certificate{pair}}
		}
		done := make(chan error, 1)
		go func() { done <- Serve(ctx, on, server) }()
		p := New(Config{Timeout: time.Second, Period: time.Second, Port: on.Addr().(*net.TCPAddr).Port, TLS: client},
			func() {})
		p.SetNodes([]Node{{Name: "a", Addresses: loopback}})
		p.probeNode(ctx, p.nodes["a"])
		end, known := p.CertificateExpiries()["a"]
		if known != secure || secure && !end.Equal(issued.Certificate().NotAfter) {
			t.Errorf("TLS %t: it ends at %v", secure, end)
		}
		p.SetNodes(nil)
		cancel()
		<-done
	}
}
