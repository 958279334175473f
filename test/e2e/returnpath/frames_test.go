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

// arpReply claims that an address is at a MAC address.
func arpReply(from, to net.HardwareAddr, claimed, asked netip.Addr) []byte {
	out := append(append([]byte{}, to...), from...)
	out = append(order.BigEndian.AppendUint16(out, unix.ETH_P_ARP), 0, 1, 8, 0, 6, 4, 0, 2)
	out = append(append(out, from...), claimed.AsSlice()...)
	return append(append(out, to...), asked.AsSlice()...)
}

// tap reads what comes in by one link of a host, and remembers the words that it knows as ours.
type tap struct {
	mu      sync.Mutex
	counts  map[string]int
	arrived chan struct{}
}

var wordPattern = regexp.MustCompile(`~[a-z]+[0-9]+~`)

// newTap listens at a place until the test ends. What the place itself sends does not count.
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

// countWord is how often a word came by.
func (p *tap) countWord(word string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts[word]
}

// waitForWord says whether a word comes by in time.
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
