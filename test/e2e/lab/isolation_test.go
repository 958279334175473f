package lab

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/internal/lab/netns"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// TestLabHasNoLinkToTheMachine shows that no packet can leave a lab: no link leads out, and nothing in the lab reaches
// a server on the machine.
func TestLabHasNoLinkToTheMachine(t *testing.T) {
	c := harness.SharedLab(t)
	everywhere := map[string]netns.NS{"lab": c.OwnNS()}
	names, err := c.Namespaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		everywhere[name] = c.NS(name)
	}
	if len(everywhere) < 10 {
		t.Fatalf("only %d namespaces to check: %v", len(everywhere), names)
	}
	checkVethPairs(t, everywhere)
	server, reached := startHostServer(t)
	for name, ns := range everywhere {
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		if conn, err := ns.Dial(ctx, "tcp", server); err == nil {
			_ = conn.Close()
			t.Errorf("%s reaches a server on the machine at %s", name, server)
		}
		cancel()
	}
	if n := reached(); n != 1 {
		t.Errorf("the server on the machine had %d connections; wanted 1, the control", n)
	}
}

// TestTunnelEndsAnswerOnce shows that a node has one MAC address on the tunnel wire. If its kernel also answered,
// another node could use that answer as the tunnel endpoint and would not reach the node for a quarter of an hour.
func TestTunnelEndsAnswerOnce(t *testing.T) {
	c := harness.SharedLab(t)
	nodes := c.Blueprint.NodeList()
	asker := nodes[0]
	var mu sync.Mutex
	heard := map[netip.Addr]map[string]bool{}
	c.CaptureFrames(t, asker.Name, "ul0", unix.ETH_P_ARP, func(b []byte, own bool) {
		const isReply, sender = 21, 22
		if own || len(b) < 32 || b[isReply] != 2 {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		address := netip.AddrFrom4([4]byte(b[sender+6:]))
		if heard[address] == nil {
			heard[address] = map[string]bool{}
		}
		heard[address][net.HardwareAddr(b[sender:sender+6]).String()] = true
	})
	mine := net.HardwareAddr{2, 0, 0, 0, 0, 1} // not the tunnel's: OVS would also receive the answers
	for _, n := range nodes[1:] {
		if err := harness.InjectFrameOn(c.NS(asker.Name), "ul0",
			harness.ArpRequest(mine, asker.Tunnel.Addr(), n.Tunnel.Addr())); err != nil {
			t.Fatal(err)
		}
	}
	<-time.After(time.Second) // for unwanted answers
	mu.Lock()
	defer mu.Unlock()
	for _, n := range nodes[1:] {
		if macs := heard[n.Tunnel.Addr()]; len(macs) != 1 {
			t.Errorf("the tunnel's end of %s was said to be at %d MAC addresses: %v", n.Name, len(macs), macs)
		}
	}
}

// vethEnd is one end of a veth pair: its index, and that of the peer.
type vethEnd struct{ index, peer int }

// checkVethPairs checks that the peer of every veth interface is in the lab as well, and that the machine has none.
func checkVethPairs(t *testing.T, everywhere map[string]netns.NS) {
	t.Helper()
	ends := map[vethEnd]int{}
	for name, ns := range everywhere {
		for _, l := range harness.NetnsLinks(t, ns) {
			switch l.Type() {
			case "veth":
				ends[vethEnd{l.Attrs().Index, l.Attrs().ParentIndex}]++
			case "bridge", "tuntap", "tun":
			default:
				if l.Attrs().Name != "lo" {
					t.Errorf("%s has a link %s of type %s, which could lead anywhere", name, l.Attrs().Name, l.Type())
				}
			}
		}
	}
	if len(ends) == 0 {
		t.Error("no cable was found, so nothing was checked")
	}
	for e, n := range ends {
		if ends[vethEnd{e.peer, e.index}] != n {
			t.Errorf("a cable with ends %d and %d has one of them outside the lab", e.index, e.peer)
		}
	}
	for _, l := range harness.NetnsLinks(t, netns.Own()) {
		if l.Type() == "veth" {
			t.Errorf("the machine's own namespace has a cable %s", l.Attrs().Name)
		}
	}
}

// startHostServer listens on the machine's loopback address and counts connections.
func startHostServer(t *testing.T) (address string, reached func() int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	came := make(chan struct{}, 1000)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				close(came)
				return
			}
			came <- struct{}{}
			_ = conn.Close()
		}
	}()
	conn, err := net.DialTimeout("tcp", l.Addr().String(), time.Second) // control: the server does answer
	if err != nil {
		t.Fatalf("the machine does not reach its own server: %v", err)
	}
	_ = conn.Close()
	return l.Addr().String(), func() (n int) {
		_ = l.Close()
		for range came {
			n++
		}
		return n
	}
}
