package program_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/lab/program"
)

func TestEchoSaysWhoAndFromWhere(t *testing.T) {
	port, other := freePort(t), freePort(t)
	start(t, loopback{}, "lab/echo", "--ports", port+","+other)
	ctx := within(t, 10*time.Second)
	schemes := []string{"http", "tcp", "udp"}
	if os.Geteuid() == 0 {
		schemes = append(schemes, "sctp") // raw sockets need root
	}
	for _, scheme := range schemes {
		for _, target := range []string{"127.0.0.1:" + port, "127.0.0.1:" + other, "[::1]:" + port} {
			a, err := program.Ask(ctx, loopback{}, scheme+"://"+target)
			if err != nil {
				t.Error(err)
				continue
			}
			dst := netip.MustParseAddrPort(target)
			if a.Name != "web-1" || a.Saw.Addr() != dst.Addr() || a.Saw.Port() == 0 {
				t.Errorf("%s://%s: %q", scheme, target, a.Text)
			}
			if want := "web-1 saw " + a.Saw.String(); a.Text != want {
				t.Errorf("%s://%s: %q, want %q", scheme, target, a.Text, want)
			}
		}
	}
}

func TestEchoAnswersFromTheAddressThatWasAsked(t *testing.T) {
	port := freePort(t)
	start(t, loopback{}, "lab/echo", "--ports", port)
	ctx := within(t, 5*time.Second)
	for _, address := range []string{"127.0.0.1", "127.0.0.2", "127.3.2.1"} { // all of 127/8 is local
		if _, err := program.Ask(ctx, loopback{}, "udp://"+address+":"+port); err != nil {
			t.Error(err)
		}
	}
}

func TestEchoPages(t *testing.T) {
	port := freePort(t)
	start(t, loopback{}, "lab/echo", "--ports", port)
	ctx := within(t, 10*time.Second)
	site := "http://127.0.0.1:" + port
	for path, want := range map[string]string{"/name": "web-1", "/healthz": "ok"} {
		if a, err := program.Ask(ctx, loopback{}, site+path); err != nil || a.Text != want {
			t.Errorf("%s: %q, %v; want %q", path, a.Text, err, want)
		}
	}
	if a, err := program.Ask(ctx, loopback{}, site+"/some/where?x=y"); err != nil || a.Name != "web-1" {
		t.Errorf("any path: %q, %v", a.Text, err)
	}
	if a, err := program.Ask(ctx, loopback{}, site+"/blob?mb=3"); err != nil || a.Size != 3<<20 {
		t.Errorf("blob: %d bytes, %v; want 3 MiB", a.Size, err)
	}
	if a, err := program.Ask(ctx, loopback{}, site+"/blob?mb=lots"); err == nil || !strings.Contains(a.Text, "mb: ") {
		t.Errorf("bad blob: %q, %v; want an error that names mb", a.Text, err)
	}
	r, err := http.Post(site+"/upload", "", strings.NewReader(strings.Repeat("x", 2<<20)))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if b, _ := io.ReadAll(r.Body); string(b) != "2097152\n" {
		t.Errorf("upload of 2 MiB was counted as %q", b)
	}
}

// The answer must be bytes that any client understands, so this one is taken apart by hand.
func TestEchoSpeaksPlainHTTPAndLinesOnOnePort(t *testing.T) {
	port := freePort(t)
	start(t, loopback{}, "lab/echo", "--ports", port)
	open := func() net.Conn {
		c, err := loopback{}.Dial(t.Context(), "tcp", "127.0.0.1:"+port)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_ = c.SetDeadline(time.Now().Add(5 * time.Second))
		return c
	}
	web := open()
	body := fmt.Sprintf("web-1 saw %s\n", web.LocalAddr())
	fmt.Fprint(web, "GET /x HTTP/1.1\r\nHost: a\r\n\r\n")
	all, err := io.ReadAll(web)
	head, got, _ := strings.Cut(string(all), "\r\n\r\n")
	if err != nil || got != body || !strings.HasPrefix(head, "HTTP/1.1 200 OK\r\n") ||
		!strings.Contains(head, fmt.Sprintf("\r\nContent-Length: %d", len(body))) {
		t.Errorf("HTTP answer is %q, %v; want the body %q", all, err, body)
	}
	plain := open()
	lines := bufio.NewReader(plain)
	for _, said := range []string{"hello\n", "GET it\n", "\n"} {
		fmt.Fprint(plain, said)
		got, err := lines.ReadString('\n')
		if want := fmt.Sprintf("web-1 saw %s\n", plain.LocalAddr()); err != nil || got != want {
			t.Errorf("%q was answered with %q, %v; want %q", said, got, err, want)
		}
	}
}

func TestEchoReturnsMarkedDatagrams(t *testing.T) {
	port := freePort(t)
	start(t, loopback{}, "lab/echo", "--ports", port)
	c, err := loopback{}.Dial(t.Context(), "udp", "[::1]:"+port)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	for said, tail := range map[string]string{"#17 of 20": " #17 of 20", "hello": ""} {
		fmt.Fprint(c, said)
		b := make([]byte, 200)
		n, err := c.Read(b)
		if want := fmt.Sprintf("web-1 saw %s%s\n", c.LocalAddr(), tail); err != nil || string(b[:n]) != want {
			t.Errorf("%q was answered with %q, %v; want %q", said, b[:n], err, want)
		}
	}
}

func TestStreamEndsWithItsServer(t *testing.T) {
	port := freePort(t)
	stop := start(t, loopback{}, "lab/echo", "--ports", port)
	ctx := within(t, 10*time.Second)
	lines, err := program.Stream(ctx, loopback{}, "http://127.0.0.1:"+port+"/stream?interval=5ms")
	if err != nil {
		t.Fatal(err)
	}
	var last time.Time
	for n := 1; n <= 10; n++ {
		line := <-lines.C
		if want := fmt.Sprintf("%d web-1 127.0.0.1:", n); !strings.HasPrefix(line.Text, want) {
			t.Errorf("line %d is %q, want %q…", n, line.Text, want)
		}
		if line.At.Before(last) {
			t.Error("a line came before the one before it")
		}
		last = line.At
	}
	stop()
	for range lines.C {
	}
	if lines.Err() == nil || ctx.Err() != nil {
		t.Errorf("stream of a stopped server ended with %v, test with %v", lines.Err(), ctx.Err())
	}
}

func TestStreamEndsWithItsContext(t *testing.T) {
	port := freePort(t)
	start(t, loopback{}, "lab/echo", "--ports", port)
	ctx := within(t, 200*time.Millisecond)
	lines, err := program.Stream(ctx, loopback{}, "http://127.0.0.1:"+port+"/stream?interval=10ms")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for range lines.C {
		count++
	}
	if count == 0 || !errors.Is(lines.Err(), ctx.Err()) {
		t.Errorf("%d lines, then %v; want some, then %v", count, lines.Err(), ctx.Err())
	}
}

func TestEchoEndsWithOpenConnections(t *testing.T) {
	port := freePort(t)
	stop := start(t, loopback{}, "lab/echo", "--ports", port)
	silent, err := loopback{}.Dial(t.Context(), "tcp", "127.0.0.1:"+port)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	if _, err := program.Ask(within(t, 5*time.Second), loopback{}, "tcp://127.0.0.1:"+port); err != nil {
		t.Fatal(err) // once a later client was served, the silent one is taken too
	}
	stop()
	_ = silent.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := silent.Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
		t.Errorf("connection of an ended server: %v, want it closed", err)
	}
}
