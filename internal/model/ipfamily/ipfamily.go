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

// Of returns the family in which an address is written. An IPv4-mapped address such as ::ffff:10.0.0.1 is IPv6: OVN and
// the kernel do not accept its text where they expect IPv4.
func Of(a netip.Addr) Family {
	if a.Is4() {
		return V4
	}
	return V6
}

// String returns the name that Kubernetes uses.
func (f Family) String() string {
	if f == V4 {
		return "IPv4"
	}
	return "IPv6"
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
