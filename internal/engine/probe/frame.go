package probe

import (
	"encoding/binary"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Constants of ARP, ICMPv6 and Ethernet, and offsets in an untagged frame.
const (
	arpRequest = 1

	neighbourSolicitation  = 135
	neighbourAdvertisement = 136
	targetLinkOption       = 2 // target link-layer address
	ndHopLimit             = 255

	minFrameLength = 60 // minimum length of a frame

	arpSenderOffset  = 22 // MAC address, then IPv4 address
	icmpOffset       = 14 + 40
	ndTargetOffset   = icmpOffset + 8
	ndOptionsOffset  = ndTargetOffset + 16
	etherTypeOffset  = 12
	nextHeaderOffset = 14 + 6
	hopLimitOffset   = 14 + 7
)

var (
	broadcastMAC = net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	allNodesMAC  = net.HardwareAddr{0x33, 0x33, 0, 0, 0, 1} // where answers to unspecified addresses go
)

// buildFrame returns a request from a MAC address.
func buildFrame(from net.HardwareAddr, k claimKey) []byte {
	kind, to, body := uint16(unix.ETH_P_ARP), broadcastMAC, buildARPRequest(from, k.address)
	if k.address.Is6() {
		kind, to, body = unix.ETH_P_IPV6, solicitedNodeMAC(k.address), buildSolicitation(k.address)
	}
	out := append(append([]byte{}, to...), from...)
	if k.vlan != 0 {
		out = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(out, unix.ETH_P_8021Q), k.vlan)
	}
	out = append(binary.BigEndian.AppendUint16(out, kind), body...)
	return append(out, make([]byte, max(0, minFrameLength-len(out)))...)
}

// buildARPRequest returns an ARP request without sender address.
func buildARPRequest(from net.HardwareAddr, target netip.Addr) []byte {
	out := []byte{0, 1, 8, 0, 6, 4, 0, arpRequest} // Ethernet, IPv4, and the lengths of their addresses
	out = append(append(out, from...), 0, 0, 0, 0)
	return append(append(out, 0, 0, 0, 0, 0, 0), target.AsSlice()...)
}

// buildSolicitation returns a neighbour solicitation without source address, with its IPv6 header.
func buildSolicitation(target netip.Addr) []byte {
	message := append([]byte{neighbourSolicitation, 0, 0, 0, 0, 0, 0, 0}, target.AsSlice()...)
	addresses := append(make([]byte, 16), solicitedNodeGroup(target)...)
	pseudo := append(append([]byte{}, addresses...), 0, 0, 0, byte(len(message)), 0, 0, 0, unix.IPPROTO_ICMPV6) //nolint:gosec // a message of 24 bytes
	binary.BigEndian.PutUint16(message[2:], checksum(append(pseudo, message...)))
	header := []byte{0x60, 0, 0, 0, 0, byte(len(message)), unix.IPPROTO_ICMPV6, ndHopLimit} //nolint:gosec // a message of 24 bytes
	return append(append(header, addresses...), message...)
}

// solicitedNodeGroup returns the solicited-node multicast address.
func solicitedNodeGroup(a netip.Addr) []byte {
	ip := a.As16()
	return []byte{0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, ip[13], ip[14], ip[15]}
}

func solicitedNodeMAC(a netip.Addr) net.HardwareAddr {
	return append(net.HardwareAddr{0x33, 0x33}, solicitedNodeGroup(a)[12:]...)
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

// parseClaim returns the address that an untagged frame claims, and the MAC address that claims it. Any ARP packet with
// the address as sender counts, also a request (RFC 5227, 2.1.1).
func parseClaim(frame []byte) (netip.Addr, net.HardwareAddr, bool) {
	switch {
	case len(frame) >= arpSenderOffset+10 && etherTypeOf(frame) == unix.ETH_P_ARP:
		return netip.AddrFrom4([4]byte(frame[arpSenderOffset+6:])),
			net.HardwareAddr(frame[arpSenderOffset : arpSenderOffset+6]), true
	case len(frame) >= ndOptionsOffset && etherTypeOf(frame) == unix.ETH_P_IPV6 &&
		frame[nextHeaderOffset] == unix.IPPROTO_ICMPV6 && frame[icmpOffset] == neighbourAdvertisement &&
		frame[hopLimitOffset] == ndHopLimit: // otherwise it was forwarded from another link
		return netip.AddrFrom16([16]byte(frame[ndTargetOffset:])), targetLinkAddress(frame), true
	default:
		return netip.Addr{}, nil, false
	}
}

func etherTypeOf(frame []byte) uint16 { return binary.BigEndian.Uint16(frame[etherTypeOffset:]) }

// targetLinkAddress returns the MAC address in an advertisement, or that of the sender if there is none.
func targetLinkAddress(frame []byte) net.HardwareAddr {
	for rest := frame[ndOptionsOffset:]; len(rest) >= 8 && rest[1] > 0; {
		if rest[0] == targetLinkOption {
			return net.HardwareAddr(rest[2:8])
		}
		rest = rest[min(len(rest), int(rest[1])*8):]
	}
	return net.HardwareAddr(frame[6:12])
}
