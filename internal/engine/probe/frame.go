package probe

import (
	"encoding/binary"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Numbers of ARP, ICMPv6 and Ethernet, and where things are in a frame without a tag.
const (
	arpRequest = 1

	neighbourSolicitation  = 135
	neighbourAdvertisement = 136
	targetLinkOption       = 2 // the MAC address of who is asked for
	ndHopLimit             = 255

	minFrameLength = 60 // a frame is no shorter

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
	allNodesMAC  = net.HardwareAddr{0x33, 0x33, 0, 0, 0, 1} // who answers somebody without an address answers all
)

// buildFrame is a question, from a MAC address.
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

// buildARPRequest is an ARP request from nobody.
func buildARPRequest(from net.HardwareAddr, target netip.Addr) []byte {
	out := []byte{0, 1, 8, 0, 6, 4, 0, arpRequest} // Ethernet, IPv4, and the lengths of their addresses
	out = append(append(out, from...), 0, 0, 0, 0)
	return append(append(out, 0, 0, 0, 0, 0, 0), target.AsSlice()...)
}

// buildSolicitation is a neighbour solicitation from nobody, with its IPv6 header.
func buildSolicitation(target netip.Addr) []byte {
	message := append([]byte{neighbourSolicitation, 0, 0, 0, 0, 0, 0, 0}, target.AsSlice()...)
	addresses := append(make([]byte, 16), solicitedNodeGroup(target)...)
	pseudo := append(append([]byte{}, addresses...), 0, 0, 0, byte(len(message)), 0, 0, 0, unix.IPPROTO_ICMPV6) //nolint:gosec // a message of 24 bytes
	binary.BigEndian.PutUint16(message[2:], checksum(append(pseudo, message...)))
	header := []byte{0x60, 0, 0, 0, 0, byte(len(message)), unix.IPPROTO_ICMPV6, ndHopLimit} //nolint:gosec // a message of 24 bytes
	return append(append(header, addresses...), message...)
}

// solicitedNodeGroup is the multicast address that whoever has an address listens to.
func solicitedNodeGroup(a netip.Addr) []byte {
	ip := a.As16()
	return []byte{0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, ip[13], ip[14], ip[15]}
}

func solicitedNodeMAC(a netip.Addr) net.HardwareAddr {
	return append(net.HardwareAddr{0x33, 0x33}, solicitedNodeGroup(a)[12:]...)
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

// parseClaim is the address that a frame without a tag says somebody has, and that one's MAC address. Whatever ARP
// packet has an address as its sender's counts: also a request (RFC 5227, 2.1.1).
func parseClaim(frame []byte) (netip.Addr, net.HardwareAddr, bool) {
	switch {
	case len(frame) >= arpSenderOffset+10 && etherTypeOf(frame) == unix.ETH_P_ARP:
		return netip.AddrFrom4([4]byte(frame[arpSenderOffset+6:])),
			net.HardwareAddr(frame[arpSenderOffset : arpSenderOffset+6]), true
	case len(frame) >= ndOptionsOffset && etherTypeOf(frame) == unix.ETH_P_IPV6 &&
		frame[nextHeaderOffset] == unix.IPPROTO_ICMPV6 && frame[icmpOffset] == neighbourAdvertisement &&
		frame[hopLimitOffset] == ndHopLimit: // one that was forwarded is not from this wire
		return netip.AddrFrom16([16]byte(frame[ndTargetOffset:])), targetLinkAddress(frame), true
	default:
		return netip.Addr{}, nil, false
	}
}

func etherTypeOf(frame []byte) uint16 { return binary.BigEndian.Uint16(frame[etherTypeOffset:]) }

// targetLinkAddress is the MAC address that an advertisement names; without one it is its sender's.
func targetLinkAddress(frame []byte) net.HardwareAddr {
	for rest := frame[ndOptionsOffset:]; len(rest) >= 8 && rest[1] > 0; {
		if rest[0] == targetLinkOption {
			return net.HardwareAddr(rest[2:8])
		}
		rest = rest[min(len(rest), int(rest[1])*8):]
	}
	return net.HardwareAddr(frame[6:12])
}
