package platform

import (
	"net/netip"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/test/e2e/harness"
)

// podPackets counts the packets to the internet that pods send through their nodes, by source address.
type podPackets struct {
	mu     sync.Mutex
	counts map[string]int
}

// capturePodPackets counts packets until the test ends, on the link of each node to the pods, where they have not been
// translated yet.
func (p *platformFixture) capturePodPackets(t *testing.T) *podPackets {
	t.Helper()
	out := &podPackets{counts: map[string]int{}}
	for _, node := range p.Blueprint.NodeList() {
		p.CaptureFrames(t, node.Name, "ovn0", unix.ETH_P_IP, func(frame []byte, _ bool) {
			if len(frame) < 34 {
				return
			}
			from, _ := netip.AddrFromSlice(frame[26:30])
			if to, _ := netip.AddrFromSlice(frame[30:34]); to.String() == harness.InternetAddress {
				out.mu.Lock()
				out.counts[from.String()]++
				out.mu.Unlock()
			}
		})
	}
	return out
}

// count returns the number of packets from an address so far.
func (c *podPackets) count(from string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts[from]
}
