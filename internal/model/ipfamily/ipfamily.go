// Package ipfamily names the two families of IP addresses.
package ipfamily

import "net/netip"

// Family is IPv4 or IPv6.
type Family uint8

// The families.
const (
	V4 Family = 4
	V6 Family = 6
)

// Both are the families in order.
var Both = []Family{V4, V6}

// Default is the family of a cluster that does not say which it uses.
const Default = V4

// Of returns the family in which an address is written. An IPv4-mapped address such as ::ffff:10.0.0.1 is IPv6: OVN and
// the kernel do not accept its text where they expect IPv4.
func Of(a netip.Addr) Family {
	if a.Is4() {
		return V4
	}
	return V6
}

// Other returns the other family.
func (f Family) Other() Family { return V4 + V6 - f }

// Same reports whether two addresses are of one family.
func Same(a, b netip.Addr) bool { return Of(a) == Of(b) }

// HasBroadcast reports whether an address is of the family that has broadcast addresses.
func HasBroadcast(a netip.Addr) bool { return Of(a) == V4 }

// String returns the name that Kubernetes uses.
func (f Family) String() string {
	if f == V4 {
		return "IPv4"
	}
	return "IPv6"
}

// Contains reports whether an address is of the family.
func (f Family) Contains(a netip.Addr) bool { return Of(a) == f }

// Everything returns the prefix of all addresses of a family.
func (f Family) Everything() netip.Prefix {
	if f == V4 {
		return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	}
	return netip.PrefixFrom(netip.IPv6Unspecified(), 0)
}

// OutsideHosts returns addresses that are reserved for documentation, as examples of hosts outside a cluster.
func (f Family) OutsideHosts() []netip.Addr {
	if f == V4 {
		return []netip.Addr{
			netip.AddrFrom4([4]byte{203, 0, 113, 1}), netip.AddrFrom4([4]byte{192, 0, 2, 1}),
			netip.AddrFrom4([4]byte{198, 51, 100, 1}),
		}
	}
	return []netip.Addr{netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("3fff::1")}
}

// FirstPrefix returns the first prefix of a family; invalid: there is none.
func FirstPrefix(f Family, from []netip.Prefix) netip.Prefix {
	for _, p := range from {
		if Of(p.Addr()) == f {
			return p
		}
	}
	return netip.Prefix{}
}

// Parse returns the family with the name that Kubernetes uses; zero: there is none.
func Parse(name string) Family {
	for _, f := range Both {
		if f.String() == name {
			return f
		}
	}
	return 0
}
