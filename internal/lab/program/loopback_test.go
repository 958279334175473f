package program_test

import (
	"bytes"
	"context"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/lab/program"
)

// loopback is a Net without a namespace; tests ask loopback addresses only.
type loopback struct{}

func (loopback) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	return (&net.ListenConfig{}).Listen(ctx, network, address)
}

func (loopback) ListenPacket(ctx context.Context, network, address string) (net.PacketConn, error) {
	return (&net.ListenConfig{}).ListenPacket(ctx, network, address)
}

func (loopback) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, network, address)
}

// logbook is a log that tells when its first line is there: the program listens.
type logbook struct {
	sync.Mutex
	bytes.Buffer
	first chan struct{}
}

func newLogbook() *logbook { return &logbook{first: make(chan struct{})} }

func (l *logbook) Write(b []byte) (int, error) {
	l.Lock()
	defer l.Unlock()
	if l.Len() == 0 {
		close(l.first)
	}
	return l.Buffer.Write(b)
}

func (l *logbook) lines() []string {
	l.Lock()
	defer l.Unlock()
	return strings.Split(strings.TrimSpace(l.String()), "\n")
}

// start runs an image until the test or the returned function ends it, and fails the test if it crashes.
func start(t *testing.T, n program.Net, image string, args ...string) (stop func()) {
	t.Helper()
	run, ok := program.Lookup(image)
	if !ok {
		t.Fatalf("no image %s", image)
	}
	log := newLogbook()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx, n, program.Spec{Name: "web-1", Args: args, Log: log}) }()
	select {
	case <-log.first:
	case err := <-done:
		t.Fatalf("%s ended at once: %v", image, err)
	}
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("%s: %v", image, err)
			}
		case <-time.After(5 * time.Second):
			t.Errorf("%s does not end with its context", image)
		}
	})
	t.Cleanup(stop)
	return stop
}

// freePort is a port that nobody has for TCP nor UDP, as text.
func freePort(t *testing.T) string {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", ":0")
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
		port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
		p, err := net.ListenPacket("udp", ":"+port)
		if err != nil {
			continue
		}
		_ = p.Close()
		return port
	}
	t.Fatal("no free port")
	return ""
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
