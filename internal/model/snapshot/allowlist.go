package snapshot

import "net/netip"

// AllowList restricts a project's external connections in one direction to some prefixes. The zero value allows
// everything.
type AllowList struct {
	IsSet    bool
	Prefixes []netip.Prefix
	// Malformed is the reason why the list can't be parsed; then it allows nothing.
	Malformed Malformed
}

// MaxAllowListEntries is the maximum number of entries. They are one address set in OVN.
const MaxAllowListEntries = 256

// RestrictsAny reports whether there is any IPv4 address that the list does not allow.
func (l AllowList) RestrictsAny() bool {
	for _, p := range l.Prefixes {
		if p.Bits() == 0 && p.Addr().Is4() {
			return false
		}
	}
	return l.IsSet
}
