package snapshot

import (
	"fmt"
	"math"
	"net/netip"
	"strings"

	"go4.org/netipx"
)

// SecondPrefix is what an ExternalNetwork says about the second family of its wire.
type SecondPrefix struct {
	Prefix  netip.Prefix
	Gateway netip.Addr
	Pool    netip.Prefix // from which EIps get addresses; invalid: all of Prefix
}

// maxSecondBits is the longest prefix of the second family. A longer one would not have room for routers and EIps.
const maxSecondBits = 120

// AddSecond adds the second family to a subnet. It returns what is wrong with it; then nothing is added.
func (x *ExternalSubnet) AddSecond(p SecondPrefix) error {
	routers := x.Prefix.Addr().BitLen() - x.Prefix.Bits()
	switch left := p.Prefix.Addr().BitLen() - p.Prefix.Bits(); {
	case !x.Prefix.IsValid() || x.Unsupported:
		return fmt.Errorf("subnet %s has no IPv4 prefix, or has IPv6 itself: use a Subnet with IPv4 only", x.Subnet)
	case !p.Prefix.IsValid() || p.Prefix.Bits() > maxSecondBits:
		return fmt.Errorf("spec.ipv6.cidr must be an IPv6 prefix of at most %d bits", maxSecondBits)
	case left <= routers:
		return fmt.Errorf("spec.ipv6.cidr %s is too small: routers need %d bits, as many as in %s", p.Prefix, routers, x.Prefix)
	case !p.Prefix.Contains(p.Gateway):
		return fmt.Errorf("spec.ipv6.gateway is not in spec.ipv6.cidr %s", p.Prefix)
	case p.Pool.IsValid() && (!p.Prefix.Contains(p.Pool.Addr()) || p.Pool.Bits() < p.Prefix.Bits()):
		return fmt.Errorf("spec.ipv6.range is not in spec.ipv6.cidr %s", p.Prefix)
	}
	second := *x
	second.Prefix, second.Gateway, second.Pool = p.Prefix.Masked(), p.Gateway, p.Pool.Masked()
	if !p.Pool.IsValid() {
		second.Pool = second.Prefix
	}
	first := second.Prefix.Addr()
	last := x.SecondAddress(&second, netipx.PrefixLastIP(x.Prefix))
	ofRouters := netip.PrefixFrom(first, first.BitLen()-routers)
	if ofRouters.Contains(second.Pool.Addr()) && second.Pool.Bits() >= ofRouters.Bits() {
		return fmt.Errorf("spec.ipv6.range %s has addresses of routers only (%s to %s)", second.Pool, first, last)
	}
	second.ReservedRanges = []AddressRange{{First: first, Last: last}}
	second.SharedAddresses, second.Second = nil, nil
	second.Free, second.Used = math.MaxInt32, 0
	x.Second = &second
	return nil
}

// SecondAddress returns the address in the second family for an address of the subnet: the one with the same number in
// its prefix. So no two routers have the same, because Kube-OVN gives their addresses in the subnet.
func (x *ExternalSubnet) SecondAddress(second *ExternalSubnet, a netip.Addr) netip.Addr {
	if !a.IsValid() {
		return netip.Addr{}
	}
	out, number, zero := second.Prefix.Masked().Addr().AsSlice(), a.AsSlice(), x.Prefix.Masked().Addr().AsSlice()
	for i := 1; i <= len(number); i++ {
		out[len(out)-i] |= number[len(number)-i] ^ zero[len(zero)-i]
	}
	address, _ := netip.AddrFromSlice(out) // as long as before
	return address
}

// HasNetwork reports whether a port has a network in the subnet, of those that intent.FormatNetworks has formatted.
func (x *ExternalSubnet) HasNetwork(networks string) bool {
	for text := range strings.FieldsSeq(networks) {
		if p, err := netip.ParsePrefix(text); err == nil && p.Masked() == x.Prefix.Masked() {
			return true
		}
	}
	return false
}
