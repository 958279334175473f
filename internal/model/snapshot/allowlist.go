package snapshot

import (
	"net/netip"

	"github.com/sallyport/sallyport/internal/model/ipfamily"
)

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

// Restricts reports whether there is an address of a family that the list does not allow.
func (l AllowList) Restricts(f ipfamily.Family) bool {
	for _, p := range l.Prefixes {
		if p.Masked() == f.Everything() {
			return false
		}
	}
	return l.IsSet
}
