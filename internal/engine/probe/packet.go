package probe

import (
	"encoding/binary"
	"hash/crc32"
	"net"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"
)

// Lengths and offsets in untagged frames.
const (
	ipOffset              = 14
	ipv4HeaderLength      = 20
	ipv6HeaderLength      = 40
	ipv4DestinationOffset = ipOffset + 16
	ipv6DestinationOffset = ipOffset + 24
	hopLimit              = 64
)

// Constants of the protocols.
const (
	tcpHeaderLength = 20
	tcpSYN, tcpRST  = 0x02, 0x04
	tcpACK          = 0x10
	tcpFlagsOffset  = 13

	udpHeaderLength = 8

	sctpHeaderLength = 12
	sctpInit         = 1
	sctpInitAck      = 2
	sctpAbort        = 6

	icmpUnreachable       = 3 // IPv4
	icmpPortUnreachable   = 3
	icmpProtoUnreachable  = 2
	icmpEchoRequest       = 8
	icmp6Unreachable      = 1
	icmp6PortUnreachable  = 4
	icmp6ParameterProblem = 4 // unknown next header: the protocol is not supported
	icmp6EchoRequest      = 128
	icmp6EchoReply        = 129
	icmpHeaderLength      = 8

	anyNumber = 0x5a11 // sequence number, SCTP tag and so on; nothing depends on it
)

// probes has the IP protocol number of each protocol; that of ICMP depends on the family.
var probes = map[string]uint8{"tcp": unix.IPPROTO_TCP, "udp": unix.IPPROTO_UDP, "sctp": unix.IPPROTO_SCTP, "icmp": unix.IPPROTO_ICMP}

// firstPacket is the first packet of a connection: a SYN, an empty datagram, an INIT or an echo request.
type firstPacket struct {
	PortQuery
	mac  net.HardwareAddr // of the sender
	port uint16           // of the sender; the identifier of an echo request
}

func (f firstPacket) number() uint8 {
	if f.Protocol == "icmp" && f.From.Is6() {
		return unix.IPPROTO_ICMPV6
	}
	return probes[f.Protocol]
}

// build returns the frame.
func (f firstPacket) build() []byte {
	switch f.Protocol {
	case "tcp":
		return f.buildFrame(f.buildTCP(tcpSYN, anyNumber))
	case "udp":
		return f.buildFrame(f.addChecksum(f.buildPorts(0, udpHeaderLength, 0, 0), 6))
	case "sctp":
		return f.buildFrame(f.buildInit())
	}
	kind := byte(icmpEchoRequest)
	if f.From.Is6() {
		kind = icmp6EchoRequest
	}
	message := binary.BigEndian.AppendUint16([]byte{kind, 0, 0, 0}, f.port)
	return f.buildFrame(f.addChecksum(append(message, 0, 1), 2))
}

// buildReset returns the frame that ends a TCP connection that the pod accepted.
func (f firstPacket) buildReset() []byte { return f.buildFrame(f.buildTCP(tcpRST, anyNumber+1)) }

// buildPorts returns both ports and further bytes.
func (f firstPacket) buildPorts(more ...byte) []byte {
	out := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, f.port), f.To.Port())
	return append(out, more...)
}

func (f firstPacket) buildTCP(flags byte, sequence uint32) []byte {
	out := binary.BigEndian.AppendUint32(f.buildPorts(), sequence)
	return f.addChecksum(append(out, 0, 0, 0, 0, tcpHeaderLength/4<<4, flags, 0xff, 0xff, 0, 0, 0, 0), 16)
}

// buildInit returns an INIT chunk for one stream in each direction. The checksum of SCTP is a CRC, in little endian.
func (f firstPacket) buildInit() []byte { return f.buildInitWith(anyNumber) }

// buildInitWith returns an INIT chunk with an initiate tag.
func (f firstPacket) buildInitWith(tag uint32) []byte {
	out := f.buildPorts(0, 0, 0, 0, 0, 0, 0, 0, sctpInit, 0, 0, 20)
	out = binary.BigEndian.AppendUint32(out, tag)
	out = append(out, 0, 0, 0xff, 0xff, 0, 1, 0, 1, 0, 0, 0x5a, 0x11)
	binary.LittleEndian.PutUint32(out[8:], crc32.Checksum(out, crc32.MakeTable(crc32.Castagnoli)))
	return out
}

// addChecksum writes the Internet checksum at an offset. Only ICMP for IPv4 leaves out the addresses.
func (f firstPacket) addChecksum(message []byte, at int) []byte {
	var pseudo []byte
	if f.number() != unix.IPPROTO_ICMP {
		pseudo = append(f.From.AsSlice(), f.To.Addr().AsSlice()...)
		pseudo = append(pseudo, 0, f.number(), 0, byte(len(message))) //nolint:gosec // a message of at most 32 bytes
	}
	sum := checksum(append(pseudo, message...))
	if sum == 0 {
		sum = 0xffff // 0 means no checksum in UDP, and is the same number
	}
	binary.BigEndian.PutUint16(message[at:], sum)
	return message
}

// buildFrame returns a message with its Ethernet and IP headers.
func (f firstPacket) buildFrame(message []byte) []byte {
	out := append(slices.Clone([]byte(f.MAC)), f.mac...)
	if f.From.Is6() {
		out = binary.BigEndian.AppendUint16(out, unix.ETH_P_IPV6)
		out = append(out, 0x60, 0, 0, 0, 0, byte(len(message)), f.number(), hopLimit) //nolint:gosec // a message of at most 32 bytes
		out = append(append(out, f.From.AsSlice()...), f.To.Addr().AsSlice()...)
		return append(out, message...)
	}
	out = binary.BigEndian.AppendUint16(out, unix.ETH_P_IP)
	length := byte(ipv4HeaderLength + len(message)) //nolint:gosec // a message of at most 32 bytes
	header := []byte{0x45, 0, 0, length, 0, 0, 0x40, 0, hopLimit, f.number(), 0, 0}
	header = append(append(header, f.From.AsSlice()...), f.To.Addr().AsSlice()...)
	binary.BigEndian.PutUint16(header[10:], checksum(header))
	return append(append(out, header...), message...)
}

// ipPacket is a received packet.
type ipPacket struct {
	source, destination netip.Addr
	protocol            uint8
	message             []byte
}

// parsePacket parses an IP packet without extension headers. A packet quoted by an ICMP error may be cut off.
func parsePacket(raw []byte) (ipPacket, bool) {
	switch {
	case len(raw) >= ipv4HeaderLength && raw[0]>>4 == 4:
		length := int(raw[0]&0x0f) * 4
		if length < ipv4HeaderLength || len(raw) < length {
			return ipPacket{}, false
		}
		return ipPacket{
			netip.AddrFrom4([4]byte(raw[12:16])), netip.AddrFrom4([4]byte(raw[16:20])), raw[9], raw[length:],
		}, true
	case len(raw) >= ipv6HeaderLength && raw[0]>>4 == 6:
		return ipPacket{
			netip.AddrFrom16([16]byte(raw[8:24])), netip.AddrFrom16([16]byte(raw[24:40])), raw[6], raw[ipv6HeaderLength:],
		}, true
	}
	return ipPacket{}, false
}

// parseReply returns what a frame says about the port, and false if it is no reply to the packet.
func (f firstPacket) parseReply(frame []byte) (string, bool) {
	if len(frame) < ipOffset {
		return "", false
	}
	p, ok := parsePacket(frame[ipOffset:])
	if !ok || p.source != f.To.Addr() || p.destination != f.From || len(p.message) < icmpHeaderLength {
		return "", false
	}
	if p.protocol == unix.IPPROTO_ICMP || p.protocol == unix.IPPROTO_ICMPV6 {
		return f.parseICMP(p)
	}
	if p.protocol != f.number() || binary.BigEndian.Uint16(p.message) != f.To.Port() ||
		binary.BigEndian.Uint16(p.message[2:]) != f.port {
		return "", false
	}
	return f.classify(p.message)
}

// classify returns what a reply from the port means.
func (f firstPacket) classify(message []byte) (string, bool) {
	switch {
	case f.Protocol == "udp":
		return PortOpen, true
	case f.Protocol == "tcp" && len(message) >= tcpHeaderLength:
		switch message[tcpFlagsOffset] & (tcpSYN | tcpRST | tcpACK) {
		case tcpSYN | tcpACK:
			return PortOpen, true
		case tcpRST, tcpRST | tcpACK:
			return PortClosed, true
		}
	case f.Protocol == "sctp" && len(message) > sctpHeaderLength:
		switch message[sctpHeaderLength] {
		case sctpInitAck:
			return PortOpen, true
		case sctpAbort:
			return PortClosed, true
		}
	}
	return "", false
}

// parseICMP returns what an echo reply or an error about the packet means.
func (f firstPacket) parseICMP(p ipPacket) (string, bool) {
	kind, code := p.message[0], p.message[1]
	if echo := f.Protocol == "icmp" && p.protocol == f.number(); echo &&
		(kind == 0 && f.From.Is4() || kind == icmp6EchoReply && f.From.Is6()) {
		return PortOpen, binary.BigEndian.Uint16(p.message[4:]) == f.port
	}
	quoted, ok := parsePacket(p.message[icmpHeaderLength:])
	if !ok || quoted.source != f.From || quoted.destination != f.To.Addr() || quoted.protocol != f.number() {
		return "", false
	}
	if f.Protocol != "icmp" && (len(quoted.message) < 4 || binary.BigEndian.Uint16(quoted.message) != f.port ||
		binary.BigEndian.Uint16(quoted.message[2:]) != f.To.Port()) {
		return "", false
	}
	return f.classifyError(kind, code)
}

// classifyError returns what an ICMP error means. Kernels refuse a UDP port like that, and a protocol that they do not
// support; for TCP they send a reset, so the error is of a firewall.
func (f firstPacket) classifyError(kind, code byte) (string, bool) {
	six := f.From.Is6()
	switch {
	case !six && kind != icmpUnreachable, six && kind != icmp6Unreachable && kind != icmp6ParameterProblem:
		return "", false
	case f.Protocol == "udp" && (!six && code == icmpPortUnreachable || six && kind == icmp6Unreachable && code == icmp6PortUnreachable),
		f.Protocol == "sctp" && (!six && code == icmpProtoUnreachable || six && kind == icmp6ParameterProblem):
		return PortClosed, true
	}
	return PortRejected, true
}
