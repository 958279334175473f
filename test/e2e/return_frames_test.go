package e2e

import (
	order "encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/internal/lab/netns"
)

// frame is an Ethernet frame that a pod makes itself.
type frame struct {
	from, to       net.HardwareAddr
	source, target netip.AddrPort
	protocol       byte
	flags          byte   // of TCP
	vlan           uint16 // 0: none
	fragment       uint16 // flags and offset
	text           string
}

const (
	syn    = 0x02
	synAck = 0x12
	ack    = 0x18 // with PSH: it carries data
	rst    = 0x04

	moreFragments = 0x2000
)

// bytes is the frame as it goes on the wire. Its checksums are right: connection tracking would call it invalid otherwise.
func (f frame) bytes() []byte {
	payload := f.transport()
	ip := make([]byte, 20, 20+len(payload))
	ip[0], ip[8], ip[9] = 0x45, 64, f.protocol
	order.BigEndian.PutUint16(ip[2:], uint16(20+len(payload)))
	order.BigEndian.PutUint16(ip[6:], f.fragment)
	copy(ip[12:], f.source.Addr().AsSlice())
	copy(ip[16:], f.target.Addr().AsSlice())
	order.BigEndian.PutUint16(ip[10:], checksum(ip))
	out := append(append([]byte{}, f.to...), f.from...)
	if f.vlan != 0 {
		out = order.BigEndian.AppendUint16(order.BigEndian.AppendUint16(out, unix.ETH_P_8021Q), f.vlan)
	}
	return append(append(order.BigEndian.AppendUint16(out, unix.ETH_P_IP), ip...), payload...)
}

// transport is what the packet carries.
func (f frame) transport() []byte {
	var head []byte
	at := 6 // of the checksum
	switch f.protocol {
	case unix.IPPROTO_TCP:
		head, at = make([]byte, 20), 16
		order.BigEndian.PutUint32(head[4:], 1000)
		if f.flags != syn {
			order.BigEndian.PutUint32(head[8:], 1000)
		}
		head[12], head[13], head[14] = 5<<4, f.flags, 0xff
	case unix.IPPROTO_UDP:
		head = make([]byte, 8)
		order.BigEndian.PutUint16(head[4:], uint16(8+len(f.text)))
	default: // an ICMP echo request
		head, at = []byte{8, 0, 0, 0, 0, 7, 0, 1}, 2
	}
	out := append(head, f.text...)
	sum := out
	if f.protocol != unix.IPPROTO_ICMP {
		order.BigEndian.PutUint16(out, f.source.Port())
		order.BigEndian.PutUint16(out[2:], f.target.Port())
		sum = append(append(append([]byte{}, f.source.Addr().AsSlice()...), f.target.Addr().AsSlice()...), 0, f.protocol)
		sum = append(order.BigEndian.AppendUint16(sum, uint16(len(out))), out...)
	}
	order.BigEndian.PutUint16(out[at:], checksum(sum))
	return out
}

// checksum is the Internet checksum.
func checksum(b []byte) uint16 {
	var sum uint32
	for i, c := range b {
		sum += uint32(c) << (8 * (1 - i%2))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// arpReply claims that an address is at a MAC address.
func arpReply(from, to net.HardwareAddr, claimed, asked netip.Addr) []byte {
	out := append(append([]byte{}, to...), from...)
	out = append(order.BigEndian.AppendUint16(out, unix.ETH_P_ARP), 0, 1, 8, 0, 6, 4, 0, 2)
	out = append(append(out, from...), claimed.AsSlice()...)
	return append(append(out, to...), asked.AsSlice()...)
}

// arpRequest asks where an address is.
func arpRequest(from net.HardwareAddr, asker, asked netip.Addr) []byte {
	out := append([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, from...)
	out = append(order.BigEndian.AppendUint16(out, unix.ETH_P_ARP), 0, 1, 8, 0, 6, 4, 0, 1)
	out = append(append(out, from...), asker.AsSlice()...)
	return append(append(out, make([]byte, len(from))...), asked.AsSlice()...)
}

// inject sends a frame as it is from a namespace's eth0.
func inject(ns netns.NS, raw []byte) error { return injectBy(ns, "eth0", raw) }

// injectBy sends a frame as it is by a link.
func injectBy(ns netns.NS, name string, raw []byte) error {
	return ns.Do(func() error {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd) //nolint:errcheck // nothing is kept in it
		return unix.Sendto(fd, raw, 0, &unix.SockaddrLinklayer{Ifindex: link.Attrs().Index, Protocol: 0x0008})
	})
}

// tap reads what comes in by one link of a host, and remembers the words that it knows as ours.
type tap struct {
	mu   sync.Mutex
	seen map[string]int
	came chan struct{}
}

var word = regexp.MustCompile(`~[a-z]+[0-9]+~`)

// tap listens at a place until the test ends. What the place itself sends does not count.
func (c *cluster) tap(t *testing.T, place, link string) *tap {
	t.Helper()
	p := &tap{seen: map[string]int{}, came: make(chan struct{}, 1)}
	c.sniff(t, place, link, unix.ETH_P_ALL, func(b []byte, own bool) {
		if !own {
			p.hear(word.FindAllString(string(b), -1))
		}
	})
	return p
}

// sniff gives every frame of a protocol that passes a link to a function, until the test ends.
func (c *cluster) sniff(t *testing.T, place, link string, protocol uint16, hear func(frame []byte, own bool)) {
	t.Helper()
	var fd int
	err := c.NS(place).Do(func() error {
		l, err := netlink.LinkByName(link)
		if err != nil {
			return err
		}
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 8<<20); err != nil {
			return err
		}
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 100_000}); err != nil {
			return err
		}
		return unix.Bind(fd, &unix.SockaddrLinklayer{Ifindex: l.Attrs().Index, Protocol: protocol<<8 | protocol>>8}) // in network order
	})
	if err != nil {
		t.Fatalf("listen on %s of %s: %v", link, place, err)
	}
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() { defer close(ended); receive(fd, stop, hear) }()
	t.Cleanup(func() { close(stop); <-ended; _ = unix.Close(fd) })
}

// receive reads from a socket until it is stopped.
func receive(fd int, stop <-chan struct{}, hear func(frame []byte, own bool)) {
	b := make([]byte, 64<<10)
	for {
		select {
		case <-stop:
			return
		default:
		}
		n, from, err := unix.Recvfrom(fd, b, 0)
		if at, ok := from.(*unix.SockaddrLinklayer); err == nil && ok {
			hear(b[:n], at.Pkttype == unix.PACKET_OUTGOING)
		}
	}
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

// hardware is the MAC address of a host's eth0.
func hardware(t *testing.T, ns netns.NS) (out net.HardwareAddr) {
	t.Helper()
	for _, l := range linksOf(t, ns) {
		if l.Attrs().Name == "eth0" {
			out = l.Attrs().HardwareAddr
		}
	}
	if out == nil {
		t.Fatal(fmt.Errorf("%s has no eth0", ns.Name))
	}
	return out
}
