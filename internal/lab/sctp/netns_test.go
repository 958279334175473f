package sctp_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sallyport/sallyport/internal/lab/netns"
	"github.com/sallyport/sallyport/internal/lab/sctp"
)

// wired makes two namespaces with a cable between them; the server's end has two addresses of each family.
func wired(t *testing.T) (client, server netns.NS) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: makes network namespaces and raw sockets")
	}
	made := func(name string) netns.NS {
		ns, err := netns.Create(fmt.Sprintf("sctp-%s-%d", name, os.Getpid()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := ns.Delete(); err != nil {
				t.Error(err)
			}
		})
		return ns
	}
	client, server = made("client"), made("server")
	a := netns.End{NS: client, Name: "eth0", Addresses: prefixes("192.0.2.1/24", "2001:db8::1/64")}
	b := netns.End{
		NS: server, Name: "eth0",
		Addresses: prefixes("192.0.2.2/24", "192.0.2.3/24", "2001:db8::2/64", "2001:db8::3/64"),
	}
	if err := netns.Veth(a, b, 1400); err != nil {
		t.Fatal(err)
	}
	return client, server
}

func prefixes(all ...string) (out []netip.Prefix) {
	for _, s := range all {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

func serve(t *testing.T, n sctp.Net, ports ...uint16) (stop func()) {
	t.Helper()
	l, err := sctp.Listen(t.Context(), n, ports...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- l.Serve(ctx, func(peer netip.AddrPort, message []byte) []byte {
			return []byte(peer.Addr().String() + " said " + string(message))
		})
	}()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	}
}

func TestTwoNamespacesTalk(t *testing.T) {
	client, server := wired(t)
	defer serve(t, server, 80, 8080)()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	long := strings.Repeat("x", sctp.MaxMessage-40)
	for _, dst := range []string{
		"192.0.2.2:80", "192.0.2.3:80", "192.0.2.2:8080", "[2001:db8::2]:80", "[2001:db8::3]:80", "[2001:db8::3]:8080",
	} {
		from := "192.0.2.1"
		if dst[0] == '[' {
			from = "2001:db8::1"
		}
		for _, message := range []string{"hello", long} {
			got, err := sctp.Exchange(ctx, client, netip.MustParseAddrPort(dst), []byte(message))
			if want := from + " said " + message; err != nil || string(got) != want {
				t.Errorf("%s: %q, %v; want %q", dst, got, err, want)
			}
		}
	}
	silent, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	_, err := sctp.Exchange(silent, client, netip.MustParseAddrPort("192.0.2.2:81"), []byte("hello"))
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a port that is not served: %v, want silence until the deadline", err)
	}
}

func TestServerComesBack(t *testing.T) {
	client, server := wired(t)
	dst := netip.MustParseAddrPort("192.0.2.2:80")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for range 2 {
		stop := serve(t, server, 80)
		if _, err := sctp.Exchange(ctx, client, dst, []byte("hello")); err != nil {
			t.Error(err)
		}
		stop()
	}
}

func TestManyAskAtOnce(t *testing.T) {
	client, server := wired(t)
	defer serve(t, server, 80)()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var g errgroup.Group
	for i := range 50 {
		g.Go(func() error {
			message := fmt.Sprint("message ", i)
			got, err := sctp.Exchange(ctx, client, netip.MustParseAddrPort("[2001:db8::3]:80"), []byte(message))
			if want := "2001:db8::1 said " + message; err == nil && string(got) != want {
				err = fmt.Errorf("%q, want %q", got, want)
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}

func TestNoRouteIsSaidAtOnce(t *testing.T) {
	client, _ := wired(t)
	_, err := sctp.Exchange(t.Context(), client, netip.MustParseAddrPort("198.51.100.1:80"), []byte("hello"))
	if err == nil || !strings.Contains(err.Error(), "network is unreachable") {
		t.Errorf("error is %v, want network is unreachable", err)
	}
}
