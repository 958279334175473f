package program_test

import (
	"fmt"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/lab/netns"
	"github.com/sallyport/sallyport/internal/lab/program"
)

// A pod with two addresses of each family is asked over every protocol at every address, and names the client.
func TestPodIsReachedAtAllItsAddresses(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: makes network namespaces and raw sockets")
	}
	client, pod := namespace(t, "client"), namespace(t, "pod")
	a := netns.End{NS: client, Name: "eth0", Addresses: prefixes("192.0.2.1/24", "2001:db8::1/64")}
	b := netns.End{
		NS: pod, Name: "eth0",
		Addresses: prefixes("192.0.2.2/24", "192.0.2.3/24", "2001:db8::2/64", "2001:db8::3/64"),
	}
	if err := netns.Veth(a, b, 1400); err != nil {
		t.Fatal(err)
	}
	start(t, pod, "lab/echo")
	ctx := within(t, 20*time.Second)
	for _, scheme := range []string{"http", "tcp", "udp", "sctp"} {
		for _, prefix := range b.Addresses {
			want := netip.MustParseAddr("192.0.2.1")
			if prefix.Addr().Is6() {
				want = netip.MustParseAddr("2001:db8::1")
			}
			target := fmt.Sprintf("%s://%s", scheme, netip.AddrPortFrom(prefix.Addr(), 8080))
			answer, err := program.Ask(ctx, client, target)
			if err != nil || answer.Name != "web-1" || answer.Saw.Addr() != want {
				t.Errorf("%s: %q, %v; want to be seen as %s", target, answer.Text, err, want)
			}
		}
	}
}

func namespace(t *testing.T, name string) netns.NS {
	t.Helper()
	ns, err := netns.Create(fmt.Sprintf("program-%s-%d", name, os.Getpid()))
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

func prefixes(all ...string) (out []netip.Prefix) {
	for _, s := range all {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}
