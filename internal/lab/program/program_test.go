package program_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/lab/program"
)

func TestLookup(t *testing.T) {
	want := []string{"lab/blob", "lab/client", "lab/echo", "lab/idle"}
	if got := program.Images(); !slices.Equal(got, want) {
		t.Errorf("images are %v, want %v", got, want)
	}
	for image, want := range map[string]bool{
		"lab/echo": true, "lab/echo:latest": true, "docker.io/lab/echo": true, "docker.io/lab/idle:v1": true,
		"lab/echo@sha256:00": true, "echo": false, "lab/nothing": false, "quay.io/lab/echo": false, "": false,
	} {
		if _, got := program.Lookup(image); got != want {
			t.Errorf("Lookup(%q) finds a program: %v, want %v", image, got, want)
		}
	}
}

func TestAskTakesOnlyLiteralAddresses(t *testing.T) {
	for _, target := range []string{
		"http://localhost/", "tcp://127.0.0.1", "udp://:80", "https://127.0.0.1/", "127.0.0.1:80", "sctp://name:80", "",
	} {
		_, err := program.Ask(t.Context(), loopback{}, target)
		if err == nil || !strings.HasPrefix(err.Error(), "ask "+target+": ") {
			t.Errorf("Ask(%q): %v, want it refused", target, err)
		}
	}
}

func TestAskEndsWithItsContext(t *testing.T) {
	silent, err := loopback{}.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	deaf, err := loopback{}.ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	for _, target := range []string{
		"tcp://" + silent.Addr().String(), "http://" + silent.Addr().String(), "udp://" + deaf.LocalAddr().String(),
	} {
		_, err := program.Ask(within(t, 50*time.Millisecond), loopback{}, target)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want the context's error", err)
		}
	}
}

func TestBlobSendsTheSamePageEverywhere(t *testing.T) {
	port := freePort(t)
	start(t, loopback{}, "lab/blob", "--mb", "2", "--port", port)
	for _, path := range []string{"/", "/any/where"} {
		a, err := program.Ask(within(t, 10*time.Second), loopback{}, "http://127.0.0.1:"+port+path)
		if err != nil || a.Size != 2<<20 {
			t.Errorf("%s: %d bytes, %v; want 2 MiB", path, a.Size, err)
		}
	}
}

func runClient(t *testing.T, args ...string) ([]string, error) {
	t.Helper()
	run, _ := program.Lookup("lab/client")
	log := newLogbook()
	err := run(within(t, 10*time.Second), loopback{}, program.Spec{Name: "client", Args: args, Log: log})
	return log.lines(), err
}

func TestClientCounts(t *testing.T) {
	port := freePort(t)
	stop := start(t, loopback{}, "lab/echo", "--ports", port)
	for _, target := range [][]string{
		{"--url", "http://127.0.0.1:" + port + "/"}, {"--tcp", "127.0.0.1:" + port}, {"--udp", "127.0.0.1:" + port},
	} {
		log, err := runClient(t, append(target, "--count", "3", "--interval", "1ms")...)
		if err != nil || len(log) != 3 || !strings.Contains(log[2], ": web-1 saw 127.0.0.1:") {
			t.Errorf("%v: %v, log %q; want three answers", target, err, log)
		}
	}
	stop()
	log, err := runClient(t, "--tcp", "127.0.0.1:"+port, "--count", "2", "--interval", "1ms")
	if err == nil || len(log) != 2 || !strings.Contains(log[0], "connection refused") {
		t.Errorf("server is gone: %v, log %q; want two refusals", err, log)
	}
	if _, err := runClient(t, "--count", "1"); err == nil {
		t.Error("a client without a target must not run")
	}
}

func TestIdleEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- program.Idle(ctx, nil, program.Spec{}) }()
	select {
	case <-done:
		t.Fatal("ended before its context")
	default:
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestBadOptionsAreACrash(t *testing.T) {
	for image, args := range map[string][]string{
		"lab/echo": {"--ports", "80,http"}, "lab/blob": {"--mb", "-1"}, "lab/client": {"--nonsense"},
	} {
		run, _ := program.Lookup(image)
		if err := run(t.Context(), loopback{}, program.Spec{Args: args}); err == nil {
			t.Errorf("%s %v: no error", image, args)
		}
	}
}
