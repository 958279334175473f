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

// Of returns the family of an address. An IPv4 address in IPv6 form is an IPv4 address.
func Of(a netip.Addr) Family {
	if a.Unmap().Is4() {
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
