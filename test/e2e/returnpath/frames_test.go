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
	mu   sync.Mutex
	seen map[string]int
	came chan struct{}
}

var word = regexp.MustCompile(`~[a-z]+[0-9]+~`)

// newTap listens at a place until the test ends. What the place itself sends does not count.
func newTap(t *testing.T, c *harness.Cluster, place, link string) *tap {
	t.Helper()
	p := &tap{seen: map[string]int{}, came: make(chan struct{}, 1)}
	c.Capture(t, place, link, unix.ETH_P_ALL, func(b []byte, own bool) {
		if !own {
			p.hear(word.FindAllString(string(b), -1))
		}
	})
	return p
}

func (p *tap) hear(words []string) {
	if len(words) == 0 {
		return
	}
	p.mu.Lock()
	for _, w := range words {
		p.seen[w]++
	}
	p.mu.Unlock()
	select {
	case p.came <- struct{}{}:
	default:
	}
}

// heard is how often a word came by.
func (p *tap) heard(word string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen[word]
}

// waits says whether a word comes by in time.
func (p *tap) waits(word string, limit time.Duration) bool {
	end := time.After(limit)
	for p.heard(word) == 0 {
		select {
		case <-p.came:
		case <-end:
			return p.heard(word) > 0
		}
	}
	return true
}
