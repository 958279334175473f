package probe

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// MarkedPacket is the first packet of a connection with a mark, by which it and its reply are recognized wherever they
// pass, also after NAT. NAT changes addresses and ports. The mark is the sequence number of a SYN, the initiate tag of
// an INIT, and otherwise a part of the payload.
type MarkedPacket struct {
	MAC      net.HardwareAddr // of the receiver
	VLAN     uint16           // 0: untagged
	From, To netip.AddrPort   // ports are 0 for icmp
	Protocol string           // tcp, udp, sctp or icmp
	Mark     uint32           // not 0
}

// markedMAC is the sender of marked packets, a locally administered address. OVN does not learn from it.
var markedMAC = net.HardwareAddr{0x02, 0x5a, 0x11, 0, 0, 1}

// markedPayload begins the payload of a marked packet. The mark follows.
const markedPayload = "sallyprt"

// Validate returns why a packet can't be sent. Its addresses must be those of two hosts.
func (m MarkedPacket) Validate() error {
	from, to := m.From.Addr(), m.To.Addr()
	if !from.Is4() && !from.Is6() || from.Zone() != "" || to.Zone() != "" || from.Is4In6() || to.Is4In6() {
		return fmt.Errorf("%s and %s are not addresses of hosts", from, to)
	}
	q := PortQuery{MAC: m.MAC, To: m.To, From: from, Protocol: m.Protocol}
	switch err := q.validate(); {
	case err != nil:
		return err
	case to.IsUnspecified() || to.IsLoopback() || isLimitedBroadcast(from) || isLimitedBroadcast(to) ||
		from.IsLinkLocalUnicast() || to.IsLinkLocalUnicast():
		return fmt.Errorf("a packet from %s to %s is not allowed", from, to)
	case m.Mark == 0:
		return fmt.Errorf("a packet from %s to %s has no mark", from, to)
	}
	return nil
}

func isLimitedBroadcast(a netip.Addr) bool { return a == netip.AddrFrom4([4]byte{255, 255, 255, 255}) }

// Frame returns the frame.
func (m MarkedPacket) Frame() []byte {
	f := m.firstPacket()
	switch m.Protocol {
	case "tcp":
		return m.addTag(f.buildFrame(f.buildTCP(tcpSYN, m.Mark)))
	case "sctp":
		return m.addTag(f.buildFrame(f.buildInitWith(m.Mark)))
	case "udp":
		length := byte(udpHeaderLength + len(markedPayload) + 4)
		return m.addTag(f.buildFrame(f.addChecksum(m.appendMark(f.buildPorts(0, length, 0, 0)), 6)))
	}
	kind := byte(icmpEchoRequest)
	if m.From.Addr().Is6() {
		kind = icmp6EchoRequest
	}
	message := binary.BigEndian.AppendUint16([]byte{kind, 0, 0, 0}, f.port)
	return m.addTag(f.buildFrame(f.addChecksum(m.appendMark(append(message, 0, 1)), 2)))
}

// ResetFrame returns the frame that ends a connection that a server accepted, and false for other protocols than TCP.
func (m MarkedPacket) ResetFrame() ([]byte, bool) {
	f := m.firstPacket()
	return m.addTag(f.buildFrame(f.buildTCP(tcpRST, m.Mark+1))), m.Protocol == "tcp"
}

func (m MarkedPacket) firstPacket() firstPacket {
	out := firstPacket{
		PortQuery: PortQuery{MAC: m.MAC, To: m.To, From: m.From.Addr(), Protocol: m.Protocol},
		mac:       markedMAC, port: m.From.Port(),
	}
	if m.Protocol == "icmp" {
		out.port = uint16(m.Mark) //nolint:gosec // any identifier
	}
	return out
}

func (m MarkedPacket) appendMark(message []byte) []byte {
	return binary.BigEndian.AppendUint32(append(message, markedPayload...), m.Mark)
}

// addTag adds the VLAN tag to a frame.
func (m MarkedPacket) addTag(frame []byte) []byte {
	if m.VLAN == 0 {
		return frame
	}
	out := append([]byte{}, frame[:etherTypeOffset]...)
	out = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(out, unix.ETH_P_8021Q), m.VLAN)
	return append(out, frame[etherTypeOffset:]...)
}

// Kinds of packets that have a mark.
const (
	MarkedRequest = "Request"
	MarkedReply   = "Reply"
	MarkedRefusal = "Refusal" // a RST, an ABORT, or an ICMP error
)

// markedSighting is a packet with a mark in a frame.
type markedSighting struct {
	kind     string
	from, to netip.AddrPort
	tunnel   bool // the frame is one between nodes, and contains the packet
}

// Constants of Geneve.
const (
	genevePort         = 6081
	geneveHeaderLength = 8
	vlanTagLength      = 4
)

// parseMarked returns the marked packet in a frame.
func parseMarked(frame []byte, mark uint32) (out markedSighting, ok bool) {
	raw, ok := parseEthernet(frame)
	if !ok {
		return out, false
	}
	p, ok := parsePacket(raw)
	if !ok {
		return out, false
	}
	if inner, is := parseGeneve(p); is {
		if raw, ok = parseEthernet(inner); !ok {
			return out, false
		}
		out.tunnel = true
		if p, ok = parsePacket(raw); !ok {
			return out, false
		}
	}
	if out.kind, ok = p.classifyMarked(mark); !ok {
		return out, false
	}
	out.from, out.to = netip.AddrPortFrom(p.source, 0), netip.AddrPortFrom(p.destination, 0)
	if p.protocol != unix.IPPROTO_ICMP && p.protocol != unix.IPPROTO_ICMPV6 {
		out.from = netip.AddrPortFrom(p.source, binary.BigEndian.Uint16(p.message))
		out.to = netip.AddrPortFrom(p.destination, binary.BigEndian.Uint16(p.message[2:]))
	}
	return out, true
}

// parseEthernet returns the IP packet of a frame with at most one tag.
func parseEthernet(frame []byte) ([]byte, bool) {
	if len(frame) >= ipOffset+vlanTagLength && etherTypeOf(frame) == unix.ETH_P_8021Q {
		frame = frame[vlanTagLength:]
	}
	if len(frame) < ipOffset {
		return nil, false
	}
	kind := etherTypeOf(frame)
	return frame[ipOffset:], kind == unix.ETH_P_IP || kind == unix.ETH_P_IPV6
}

// parseGeneve returns the frame in a packet between nodes.
func parseGeneve(p ipPacket) ([]byte, bool) {
	if p.protocol != unix.IPPROTO_UDP || len(p.message) < udpHeaderLength+geneveHeaderLength ||
		binary.BigEndian.Uint16(p.message[2:]) != genevePort {
		return nil, false
	}
	header := p.message[udpHeaderLength:]
	length := geneveHeaderLength + int(header[0]&0x3f)*4
	if len(header) < length {
		return nil, false
	}
	return header[length:], true
}

// classifyMarked returns what a packet with the mark is.
func (p ipPacket) classifyMarked(mark uint32) (string, bool) {
	m := p.message
	word := func(at int) uint32 {
		if len(m) < at+4 {
			return 0
		}
		return binary.BigEndian.Uint32(m[at:])
	}
	switch p.protocol {
	case unix.IPPROTO_TCP:
		if len(m) < tcpHeaderLength {
			return "", false
		}
		switch m[tcpFlagsOffset] & (tcpSYN | tcpRST | tcpACK) {
		case tcpSYN:
			return MarkedRequest, word(4) == mark
		case tcpSYN | tcpACK:
			return MarkedReply, word(8) == mark+1
		case tcpRST | tcpACK:
			return MarkedRefusal, word(8) == mark+1
		}
	case unix.IPPROTO_SCTP:
		switch {
		case len(m) <= sctpHeaderLength:
		case m[sctpHeaderLength] == sctpInit:
			return MarkedRequest, word(16) == mark
		case m[sctpHeaderLength] == sctpInitAck:
			return MarkedReply, word(4) == mark
		case m[sctpHeaderLength] == sctpAbort:
			return MarkedRefusal, word(4) == mark
		}
	case unix.IPPROTO_UDP:
		return MarkedRequest, len(m) >= udpHeaderLength && hasMark(m[udpHeaderLength:], mark)
	case unix.IPPROTO_ICMP, unix.IPPROTO_ICMPV6:
		return p.classifyMarkedICMP(mark)
	}
	return "", false
}

// classifyMarkedICMP returns what an ICMP message is: an echo with the mark, or an error about a packet with the mark.
func (p ipPacket) classifyMarkedICMP(mark uint32) (string, bool) {
	if len(p.message) < icmpHeaderLength {
		return "", false
	}
	six, body := p.protocol == unix.IPPROTO_ICMPV6, p.message[icmpHeaderLength:]
	switch kind := p.message[0]; {
	case !six && kind == icmpEchoRequest, six && kind == icmp6EchoRequest:
		return MarkedRequest, hasMark(body, mark)
	case !six && kind == 0, six && kind == icmp6EchoReply:
		return MarkedReply, hasMark(body, mark)
	}
	quoted, ok := parsePacket(body)
	if !ok || len(quoted.message) < icmpHeaderLength {
		return "", false
	}
	m := quoted.message
	switch quoted.protocol {
	case unix.IPPROTO_TCP:
		return MarkedRefusal, binary.BigEndian.Uint32(m[4:]) == mark
	case unix.IPPROTO_SCTP:
		return MarkedRefusal, len(m) >= 20 && binary.BigEndian.Uint32(m[16:]) == mark
	default: // the payload of UDP and of an echo request begins at the same offset
		return MarkedRefusal, hasMark(m[icmpHeaderLength:], mark)
	}
}

func hasMark(payload []byte, mark uint32) bool {
	n := len(markedPayload)
	return len(payload) >= n+4 && string(payload[:n]) == markedPayload && binary.BigEndian.Uint32(payload[n:]) == mark
}
