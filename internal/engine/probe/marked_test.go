package probe

import (
	"encoding/binary"
	"net"
	"net/netip"
	"testing"

	"golang.org/x/net/bpf"
)

const testMark = 0x8badf00d

func markedPacket(protocol string, six bool, vlan uint16) MarkedPacket {
	out := MarkedPacket{
		MAC: net.HardwareAddr{0, 0, 0, 1, 2, 3}, VLAN: vlan, Protocol: protocol, Mark: testMark,
		From: netip.MustParseAddrPort("203.0.113.9:50001"), To: netip.MustParseAddrPort("198.51.100.7:443"),
	}
	if six {
		out.From, out.To = netip.MustParseAddrPort("[2001:db8::9]:50001"), netip.MustParseAddrPort("[2001:db8:1::7]:443")
	}
	if protocol == "icmp" {
		out.From, out.To = netip.AddrPortFrom(out.From.Addr(), 0), netip.AddrPortFrom(out.To.Addr(), 0)
	}
	return out
}

// inTunnel returns a frame as one between nodes has it, with the option of OVN.
func inTunnel(frame []byte) []byte {
	inner := append([]byte{2, 0, 0x65, 0x58, 0, 0, 1, 0, 1, 2, 0x80, 1, 0, 1, 0, 2}, frame...)
	m := MarkedPacket{
		MAC: net.HardwareAddr{0, 0, 0, 9, 9, 9}, Protocol: "udp",
		From: netip.MustParseAddrPort("10.0.0.1:40000"), To: netip.MustParseAddrPort("10.0.0.2:6081"),
	}.firstPacket()
	return m.buildFrame(append(m.buildPorts(0, byte(8+len(inner)), 0, 0), inner...))
}

// acceptsFrame reports whether the filter of a mark accepts a frame.
func acceptsFrame(t *testing.T, mark uint32, frame []byte) bool {
	t.Helper()
	vm, err := bpf.NewVM(buildMarkFilter(mark))
	if err != nil {
		t.Fatal(err)
	}
	n, err := vm.Run(frame)
	if err != nil {
		t.Fatal(err)
	}
	return n > 0
}

// A marked packet is recognized with and without a tag and in a tunnel, and only by its own mark; so are replies.
func TestMarkedPacketsAreRecognized(t *testing.T) {
	for _, protocol := range []string{"tcp", "udp", "sctp", "icmp"} {
		for _, six := range []bool{false, true} {
			for _, vlan := range []uint16{0, 7} {
				expectRecognized(t, markedPacket(protocol, six, vlan))
			}
		}
	}
}

func expectRecognized(t *testing.T, m MarkedPacket) {
	t.Helper()
	if err := m.Validate(); err != nil {
		t.Fatal(err)
	}
	for tunnel, frame := range map[bool][]byte{false: m.Frame(), true: inTunnel(m.Frame())} {
		got, ok := parseMarked(frame, testMark)
		want := markedSighting{MarkedRequest, m.From, m.To, tunnel}
		if !ok || got != want || (!tunnel || m.VLAN == 0) && !acceptsFrame(t, testMark, frame) {
			t.Errorf("%s, tunnel %t: %+v %t, wanted %+v", m.Protocol, tunnel, got, ok, want)
		}
		if _, ok := parseMarked(frame, testMark+5); ok || acceptsFrame(t, testMark+5, frame) {
			t.Errorf("%s is recognized by another mark", m.Protocol)
		}
	}
}

// The replies of a server: a SYN-ACK, a RST, an INIT-ACK, and an error about a datagram.
func TestMarkedRepliesAreRecognized(t *testing.T) {
	back := markedPacket("tcp", false, 0)
	back.From, back.To = back.To, back.From
	f := back.firstPacket()
	tcp := func(flags byte) []byte {
		message := f.buildTCP(flags, 77)
		binary.BigEndian.PutUint32(message[8:], testMark+1)
		return f.buildFrame(message)
	}
	accepted, refused := tcp(tcpSYN|tcpACK), tcp(tcpRST|tcpACK)
	f.Protocol = "sctp"
	initAck := f.buildInitWith(5)
	initAck[12] = sctpInitAck
	binary.BigEndian.PutUint32(initAck[4:], testMark)
	sctp := f.buildFrame(initAck)
	f.Protocol = "icmp"
	asked := markedPacket("udp", false, 0).Frame()[ipOffset:]
	unreachable := f.buildFrame(append([]byte{icmpUnreachable, icmpPortUnreachable, 0, 0, 0, 0, 0, 0}, asked...))
	for _, c := range []struct {
		frame []byte
		want  string
	}{
		{accepted, MarkedReply},
		{refused, MarkedRefusal},
		{sctp, MarkedReply},
		{unreachable, MarkedRefusal},
	} {
		got, ok := parseMarked(c.frame, testMark)
		if !ok || got.kind != c.want || !acceptsFrame(t, testMark, c.frame) {
			t.Errorf("% x: %+v %t, wanted %s", c.frame, got, ok, c.want)
		}
		if _, ok := parseMarked(c.frame, testMark+1); ok {
			t.Errorf("% x is recognized by another mark", c.frame)
		}
	}
}

// Packets to or from addresses that are not those of two hosts are not built.
func TestMarkedPacketsThatAreRefused(t *testing.T) {
	for what, change := range map[string]func(*MarkedPacket){
		"two families":     func(m *MarkedPacket) { m.From = netip.MustParseAddrPort("[2001:db8::9]:1") },
		"multicast":        func(m *MarkedPacket) { m.To = netip.MustParseAddrPort("224.0.0.1:1") },
		"from multicast":   func(m *MarkedPacket) { m.From = netip.MustParseAddrPort("224.0.0.1:1") },
		"broadcast":        func(m *MarkedPacket) { m.To = netip.MustParseAddrPort("255.255.255.255:1") },
		"loopback":         func(m *MarkedPacket) { m.To = netip.MustParseAddrPort("127.0.0.1:1") },
		"from loopback":    func(m *MarkedPacket) { m.From = netip.MustParseAddrPort("127.0.0.1:1") },
		"link-local":       func(m *MarkedPacket) { m.From = netip.MustParseAddrPort("169.254.1.1:1") },
		"to itself":        func(m *MarkedPacket) { m.From = m.To },
		"mapped":           func(m *MarkedPacket) { m.From = netip.MustParseAddrPort("[::ffff:192.0.2.1]:1") },
		"with a zone":      func(m *MarkedPacket) { m.From = netip.MustParseAddrPort("[fe80::1%eth0]:1") },
		"no address":       func(m *MarkedPacket) { m.From = netip.AddrPort{} },
		"to all stations":  func(m *MarkedPacket) { m.MAC = broadcastMAC },
		"without MAC":      func(m *MarkedPacket) { m.MAC = nil },
		"another protocol": func(m *MarkedPacket) { m.Protocol = "ospf" },
		"without mark":     func(m *MarkedPacket) { m.Mark = 0 },
		"from nothing":     func(m *MarkedPacket) { m.From = netip.MustParseAddrPort("0.0.0.0:1") },
		"to nothing":       func(m *MarkedPacket) { m.To = netip.MustParseAddrPort("0.0.0.0:1") },
	} {
		m := markedPacket("tcp", false, 0)
		if change(&m); m.Validate() == nil {
			t.Errorf("a packet is sent: %s", what)
		}
	}
}

// FuzzMarked: any frame is a packet with the mark or none, and what is accepted has two addresses of one family.
func FuzzMarked(f *testing.F) {
	for _, protocol := range []string{"tcp", "udp", "sctp", "icmp"} {
		frame := markedPacket(protocol, protocol == "icmp", 7).Frame()
		f.Add(frame)
		f.Add(inTunnel(frame))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, ok := parseMarked(data, testMark)
		if ok && (got.from.Addr().BitLen() != got.to.Addr().BitLen() || got.kind == "") {
			t.Errorf("% x: %+v", data, got)
		}
	})
}
