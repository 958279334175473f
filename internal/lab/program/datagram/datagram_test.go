package datagram_test

import (
	"fmt"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/lab/netns"
	"github.com/sallyport/sallyport/internal/lab/program/datagram"
)

func namespace(t *testing.T, name string) netns.NS {
	t.Helper()
	ns, err := netns.Create(fmt.Sprintf("datagram-%s-%d", name, os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ns.Delete() })
	return ns
}

func open(t *testing.T, ns netns.NS, network, address string) *datagram.Conn {
	t.Helper()
	p, err := ns.ListenPacket(t.Context(), network, address)
	if err != nil {
		t.Fatal(err)
	}
	c, err := datagram.New(p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
	return c
}

// ask sends a question to an address and says from where the answer came. The server answers from the asked address, or
// lets the kernel choose.
func ask(t *testing.T, client, server *datagram.Conn, to netip.AddrPort, kernelChooses bool) netip.Addr {
	t.Helper()
	if err := client.Write([]byte("question"), netip.Addr{}, to); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 64)
	question, err := server.Read(b)
	if err != nil || string(question.Payload) != "question" || question.To != to.Addr() {
		t.Fatalf("asked %s: %+v, %v", to, question, err)
	}
	from := question.To
	if kernelChooses {
		from = netip.Addr{}
	}
	if err := server.Write([]byte("answer"), from, question.From); err != nil {
		t.Fatal(err)
	}
	answer, err := client.Read(b)
	if err != nil || string(answer.Payload) != "answer" || answer.From.Port() != to.Port() ||
		answer.To != question.From.Addr() {
		t.Fatalf("answer of %s: %+v, %v", to, answer, err)
	}
	return answer.From.Addr()
}

// A host with two addresses of each family is asked at its second one. Left alone, the kernel answers from the first.
func TestAnswerComesFromTheAddressAsked(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: makes network namespaces and raw sockets")
	}
	near, far := namespace(t, "near"), namespace(t, "far")
	a, b := netns.End{NS: near, Name: "eth0"}, netns.End{NS: far, Name: "eth0"}
	for i, p := range []string{
		"192.0.2.1/24", "2001:db8::1/64", "192.0.2.2/24", "192.0.2.3/24", "2001:db8::2/64",
		"2001:db8::3/64",
	} {
		end := map[bool]*netns.End{true: &a, false: &b}[i < 2]
		end.Addresses = append(end.Addresses, netip.MustParsePrefix(p))
	}
	if err := netns.Veth(a, b, 1500); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		network, near, far string
		asked              [2]string
		port               uint16
	}{
		{"udp4", "0.0.0.0:0", "0.0.0.0:53", [2]string{"192.0.2.2", "192.0.2.3"}, 53},
		{"udp6", "[::]:0", "[::]:53", [2]string{"2001:db8::2", "2001:db8::3"}, 53},
		{"ip4:253", "192.0.2.1", "0.0.0.0", [2]string{"192.0.2.2", "192.0.2.3"}, 0}, // 253 is for experiments
		{"ip6:253", "2001:db8::1", "::", [2]string{"2001:db8::2", "2001:db8::3"}, 0},
	} {
		t.Run(c.network, func(t *testing.T) {
			client, server := open(t, near, c.network, c.near), open(t, far, c.network, c.far)
			chosen := map[netip.Addr]bool{}
			for _, address := range c.asked {
				to := netip.AddrPortFrom(netip.MustParseAddr(address), c.port)
				if got := ask(t, client, server, to, false); got != to.Addr() {
					t.Errorf("%s was asked, %s answered", to.Addr(), got)
				}
				chosen[ask(t, client, server, to, true)] = true
			}
			if len(chosen) != 1 {
				t.Errorf("left alone the kernel chooses %v: this test proves nothing", chosen)
			}
		})
	}
}
