package nodepath

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/model/ipfamily"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/state"
)

// MainTable is the number of the kernel's main routing table.
const MainTable = 254

// Links are the interfaces that the agent creates, and its settings on other interfaces.
type Links = state.Set[LinkKey, Link]

// Rules are policy routing rules.
type Rules = state.Set[RuleKey, Rule]

// Routes are routes.
type Routes = state.Set[RouteKey, Route]

// Nft is the content of the agent's nftables table.
type Nft = state.Set[NftKey, NftValue]

// Sysctls are kernel settings.
type Sysctls = state.Set[SysctlKey, Sysctl]

// TableNames are names of routing tables.
type TableNames = state.Set[TableID, TableName]

// LinkKey is the name of an interface and one aspect of it.
type LinkKey struct {
	Aspect LinkAspect
	Name   string
}

// LinkAspect is an aspect of an interface: the device, its master or its addresses.
type LinkAspect int

// The aspects, in the order of creation.
const (
	LinkDevice LinkAspect = iota
	LinkMaster
	LinkAddresses
)

// Compare orders by creation order, then by name.
func (k LinkKey) Compare(o LinkKey) int {
	return cmp.Or(cmp.Compare(k.Aspect, o.Aspect), cmp.Compare(k.Name, o.Name))
}

// String formats the key for people.
func (k LinkKey) String() string {
	return [...]string{"link ", "master of ", "addresses of "}[k.Aspect] + k.Name
}

// Link is an interface that the agent creates, the VRF that an interface is in, or its addresses.
type Link struct {
	VRF       int    // the VRF's table
	Peer      string // the veth's peer
	Master    string
	Addresses string // separated by spaces
}

// Equal compares all fields.
func (l Link) Equal(o Link) bool { return l == o }

// String formats the link as ip does.
func (l Link) String() string {
	switch {
	case l.VRF != 0:
		return fmt.Sprintf("type vrf table %d", l.VRF)
	case l.Peer != "":
		return "type veth peer name " + l.Peer
	case l.Master != "":
		return l.Master
	default:
		return l.Addresses
	}
}

// RuleKey is the selector of a policy routing rule.
type RuleKey struct {
	Pref   int
	Family ipfamily.Family
	From   netip.Prefix // invalid: any
	To     netip.Prefix // invalid: any
	Mark   uint32       // under ownership.NodeMarkMask; 0: any
}

// Compare orders by preference.
func (k RuleKey) Compare(o RuleKey) int {
	return cmp.Or(cmp.Compare(k.Pref, o.Pref), cmp.Compare(k.Family, o.Family), k.From.Compare(o.From), k.To.Compare(o.To),
		cmp.Compare(k.Mark, o.Mark))
}

// String formats the rule as ip does.
func (k RuleKey) String() string {
	parts := []string{fmt.Sprintf("rule %d", k.Pref)}
	if k.From.IsValid() {
		parts = append(parts, "from "+k.From.String())
	}
	if k.To.IsValid() {
		parts = append(parts, "to "+k.To.String())
	}
	if k.Mark != 0 {
		parts = append(parts, fmt.Sprintf("fwmark %#x/%#x", k.Mark, ownership.NodeMarkMask))
	}
	if k.Family == ipfamily.V6 {
		parts[0] = "-6 " + parts[0]
	}
	return strings.Join(parts, " ")
}

// Rule is the table that a rule looks up.
type Rule struct{ Table int }

// Equal compares tables.
func (r Rule) Equal(o Rule) bool { return r == o }

// String formats the table as ip does.
func (r Rule) String() string { return fmt.Sprintf("lookup %d", r.Table) }

// RouteKey identifies a route in the kernel.
type RouteKey struct {
	Table  int
	To     netip.Prefix
	Metric int
}

// Compare orders by table, metric and prefix, longer prefixes first: the gateway of a shorter one may need them.
func (k RouteKey) Compare(o RouteKey) int {
	return cmp.Or(cmp.Compare(k.Table, o.Table), cmp.Compare(k.Metric, o.Metric), cmp.Compare(o.To.Bits(), k.To.Bits()),
		k.To.Compare(o.To))
}

// String formats the key as ip does.
func (k RouteKey) String() string {
	text := fmt.Sprintf("route %s table %d", k.To, k.Table)
	if k.Metric != 0 {
		text += fmt.Sprintf(" metric %d", k.Metric)
	}
	return text
}

// Route is a route of one table.
type Route struct {
	Table  int
	To     netip.Prefix
	Metric int
	Via    netip.Addr // invalid: on-link
	Dev    string     // empty: unreachable
}

// Key returns the key of the route.
func (r Route) Key() RouteKey {
	if ipfamily.V6.Contains(r.To.Addr()) && r.Metric == 0 {
		r.Metric = 1024 // the kernel's default for IPv6
	}
	return RouteKey{r.Table, r.To, r.Metric}
}

// Equal compares gateway and device.
func (r Route) Equal(o Route) bool { return r.Via == o.Via && r.Dev == o.Dev }

// String formats the route as ip does.
func (r Route) String() string {
	switch {
	case r.Dev == "":
		return "unreachable"
	case r.Via.IsValid():
		return fmt.Sprintf("via %s dev %s", r.Via, r.Dev)
	default:
		return "dev " + r.Dev
	}
}

// NftKind is a kind of nftables object.
type NftKind int

// The kinds, in the order of creation.
const (
	NftChain NftKind = iota
	NftSet
	NftElement
	NftRule
)

// NftKey names an object in the agent's table.
type NftKey struct {
	Kind   NftKind
	Parent string // chain of a rule, set of an element; otherwise empty
	Name   string
}

// Compare orders by creation order, then by name.
func (k NftKey) Compare(o NftKey) int {
	return cmp.Or(cmp.Compare(k.Kind, o.Kind), strings.Compare(k.Parent, o.Parent), strings.Compare(k.Name, o.Name))
}

// String formats the key for people.
func (k NftKey) String() string {
	return "nft " + strings.Join(slices.DeleteFunc([]string{
		[...]string{"chain", "set", "element", "rule"}[k.Kind],
		k.Parent, k.Name,
	},
		func(s string) bool { return s == "" }), " ")
}

// NftValue is an object in nft's syntax. The kernel does not return rules as they were written, so a rule carries a
// checksum of its text, which is compared. Other objects are fully described by their keys.
type NftValue struct{ Text, Checksum string }

// Equal compares checksums.
func (v NftValue) Equal(o NftValue) bool { return v.Checksum == o.Checksum }

// String returns the text, or the checksum of a rule that was read from the kernel.
func (v NftValue) String() string { return cmp.Or(v.Text, v.Checksum) }

// SysctlKey is the name of a setting as sysctl writes it.
type SysctlKey string

// Compare orders by name.
func (k SysctlKey) Compare(o SysctlKey) int { return strings.Compare(string(k), string(o)) }

// String formats the key for people.
func (k SysctlKey) String() string { return "setting " + string(k) }

// Sysctl is the value of a setting. Acceptable are other values, separated by spaces, that are left unchanged.
type Sysctl struct{ Text, Acceptable string }

// Equal reports whether one value is acceptable for the other.
func (s Sysctl) Equal(o Sysctl) bool {
	return s.Text == o.Text || slices.Contains(strings.Fields(o.Acceptable), s.Text) ||
		slices.Contains(strings.Fields(s.Acceptable), o.Text)
}

// String returns the value.
func (s Sysctl) String() string { return s.Text }

// TableID is the number of a routing table.
type TableID int

// Compare orders by number.
func (t TableID) Compare(o TableID) int { return cmp.Compare(t, o) }

// String formats the key for people.
func (t TableID) String() string { return fmt.Sprintf("name of table %d", int(t)) }

// TableName is the name that ip prints for a routing table.
type TableName string

// Equal compares names.
func (n TableName) Equal(o TableName) bool { return n == o }

// String returns the name.
func (n TableName) String() string { return string(n) }
