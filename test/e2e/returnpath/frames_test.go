package returnpath

import (
	order "encoding/binary"
	"net"
	"net/netip"
	"regexp"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/test/e2e/harness"
)

// arpReply returns an ARP reply that claims an address for a MAC address.
func arpReply(from, to net.HardwareAddr, claimed, asked netip.Addr) []byte {
	out := append(append([]byte{}, to...), from...)
	out = append(order.BigEndian.AppendUint16(out, unix.ETH_P_ARP), 0, 1, 8, 0, 6, 4, 0, 2)
	out = append(append(out, from...), claimed.AsSlice()...)
	return append(append(out, to...), asked.AsSlice()...)
}

// tap reads packets that arrive on one link of a host and records the words of this test in them.
type tap struct {
	mu      sync.Mutex
	counts  map[string]int
	arrived chan struct{}
}

var wordPattern = regexp.MustCompile(`~[a-z]+[0-9]+~`)

// newTap captures packets until the test ends. It ignores packets that the host itself sends.
func newTap(t *testing.T, c *harness.Cluster, place, link string) *tap {
	t.Helper()
	p := &tap{counts: map[string]int{}, arrived: make(chan struct{}, 1)}
	c.CaptureFrames(t, place, link, unix.ETH_P_ALL, func(b []byte, own bool) {
		if !own {
			p.record(wordPattern.FindAllString(string(b), -1))
		}
	})
	return p
}

func (p *tap) record(words []string) {
	if len(words) == 0 {
		return
	}
	p.mu.Lock()
	for _, w := range words {
		p.counts[w]++
	}
	p.mu.Unlock()
	select {
	case p.arrived <- struct{}{}:
	default:
	}
}

// countWord returns how often a word was received.
func (p *tap) countWord(word string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts[word]
}

// waitForWord reports whether a word is received within the limit.
func (p *tap) waitForWord(word string, limit time.Duration) bool {
	end := time.After(limit)
	for p.countWord(word) == 0 {
		select {
		case <-p.arrived:
		case <-end:
			return p.countWord(word) > 0
		}
	}
	return true
}
