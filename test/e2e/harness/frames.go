package harness

import (
	order "encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/internal/lab/netns"
)

// NetnsLinks returns the links of a network namespace.
func NetnsLinks(t *testing.T, ns netns.NS) []netlink.Link {
	t.Helper()
	links, err := ns.Links()
	if err != nil {
		t.Fatal(err)
	}
	return links
}

// Frame is an Ethernet frame that a pod crafts itself.
type Frame struct {
	From, To       net.HardwareAddr
	Source, Target netip.AddrPort
	Protocol       byte
	Flags          byte   // TCP flags
	Vlan           uint16 // 0: untagged
	Fragment       uint16 // flags and offset
	Text           string
}

// Flags of a TCP header, and MoreFragments of an IPv4 header.
const (
	Syn    = 0x02
	SynAck = 0x12
	Ack    = 0x18 // with PSH: the segment carries data
	Rst    = 0x04

	MoreFragments = 0x2000
)

// Bytes encodes the frame with correct checksums, because connection tracking would classify it as invalid otherwise.
func (f Frame) Bytes() []byte {
	payload := f.transport()
	ip := make([]byte, 20, 20+len(payload))
	ip[0], ip[8], ip[9] = 0x45, 64, f.Protocol
	order.BigEndian.PutUint16(ip[2:], uint16(20+len(payload)))
	order.BigEndian.PutUint16(ip[6:], f.Fragment)
	copy(ip[12:], f.Source.Addr().AsSlice())
	copy(ip[16:], f.Target.Addr().AsSlice())
	order.BigEndian.PutUint16(ip[10:], checksum(ip))
	out := append(append([]byte{}, f.To...), f.From...)
	if f.Vlan != 0 {
		out = order.BigEndian.AppendUint16(order.BigEndian.AppendUint16(out, unix.ETH_P_8021Q), f.Vlan)
	}
	return append(append(order.BigEndian.AppendUint16(out, unix.ETH_P_IP), ip...), payload...)
}

// transport encodes the transport header and payload.
func (f Frame) transport() []byte {
	var head []byte
	at := 6 // offset of the checksum
	switch f.Protocol {
	case unix.IPPROTO_TCP:
		head, at = make([]byte, 20), 16
		order.BigEndian.PutUint32(head[4:], 1000)
		if f.Flags != Syn {
			order.BigEndian.PutUint32(head[8:], 1000)
		}
		head[12], head[13], head[14] = 5<<4, f.Flags, 0xff
	case unix.IPPROTO_UDP:
		head = make([]byte, 8)
		order.BigEndian.PutUint16(head[4:], uint16(8+len(f.Text)))
	default: // an ICMP echo request
		head, at = []byte{8, 0, 0, 0, 0, 7, 0, 1}, 2
	}
	out := append(head, f.Text...)
	sum := out
	if f.Protocol != unix.IPPROTO_ICMP {
		order.BigEndian.PutUint16(out, f.Source.Port())
		order.BigEndian.PutUint16(out[2:], f.Target.Port())
		sum = append(append(append([]byte{}, f.Source.Addr().AsSlice()...), f.Target.Addr().AsSlice()...), 0,
			f.Protocol)
		sum = append(order.BigEndian.AppendUint16(sum, uint16(len(out))), out...)
	}
	order.BigEndian.PutUint16(out[at:], checksum(sum))
	return out
}

// checksum returns the Internet checksum.
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

// ArpRequest returns an ARP request for an address.
func ArpRequest(from net.HardwareAddr, asker, asked netip.Addr) []byte {
	out := append([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, from...)
	out = append(order.BigEndian.AppendUint16(out, unix.ETH_P_ARP), 0, 1, 8, 0, 6, 4, 0, 1)
	out = append(append(out, from...), asker.AsSlice()...)
	return append(append(out, make([]byte, len(from))...), asked.AsSlice()...)
}

// InjectFrame sends a raw frame through eth0 of a namespace.
func InjectFrame(ns netns.NS, raw []byte) error { return InjectFrameOn(ns, "eth0", raw) }

// InjectFrameOn sends a raw frame through a link.
func InjectFrameOn(ns netns.NS, name string, raw []byte) error {
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

// CaptureFrames passes every frame of a protocol on a link to a function until the test ends.
func (c *Cluster) CaptureFrames(t *testing.T, place, link string, protocol uint16, hear func(frame []byte, own bool)) {
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
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO,
			&unix.Timeval{Usec: 100_000}); err != nil {
			return err
		}
		// the protocol is in network byte order
		return unix.Bind(fd, &unix.SockaddrLinklayer{Ifindex: l.Attrs().Index, Protocol: protocol<<8 | protocol>>8})
	})
	if err != nil {
		t.Fatalf("listen on %s of %s: %v", link, place, err)
	}
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() { defer close(ended); readFrames(fd, stop, hear) }()
	t.Cleanup(func() { close(stop); <-ended; _ = unix.Close(fd) })
}

// readFrames reads from a socket until it is stopped.
func readFrames(fd int, stop <-chan struct{}, hear func(frame []byte, own bool)) {
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

// HardwareAddress returns the MAC address of a host's eth0.
func HardwareAddress(t *testing.T, ns netns.NS) (out net.HardwareAddr) {
	t.Helper()
	for _, l := range NetnsLinks(t, ns) {
		if l.Attrs().Name == "eth0" {
			out = l.Attrs().HardwareAddr
		}
	}
	if out == nil {
		t.Fatal(fmt.Errorf("%s has no eth0", ns.Name))
	}
	return out
}
