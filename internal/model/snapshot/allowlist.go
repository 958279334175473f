package snapshot

import "net/netip"

// AllowList is with whom outside a project may have connections that begin in one direction. The zero value: with
// everybody.
type AllowList struct {
	IsSet    bool
	Prefixes []netip.Prefix
	// Malformed is why it can't be read; then it allows nobody.
	Malformed Malformed
}

// MaxAllowListEntries is how many entries an allow-list may have: they are one address set in OVN.
const MaxAllowListEntries = 256

// RestrictsAny says whether there is somebody whom it does not allow.
func (l AllowList) RestrictsAny() bool {
	for _, p := range l.Prefixes {
		if p.Bits() == 0 && p.Addr().Is4() {
			return false
		}
	}
	return l.IsSet
}
