package nodepath

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/state"
)

// MainTable is the number of the kernel's main routing table.
const MainTable = 254

// Links are the interfaces that we make, and what we do with others.
type Links = state.Set[LinkKey, Link]

// Rules are policy routing rules.
type Rules = state.Set[RuleKey, Rule]

// Routes are routes.
type Routes = state.Set[RouteKey, Route]

// Nft is what is in our nftables table.
type Nft = state.Set[NftKey, NftValue]

// Sysctls are settings of the kernel.
type Sysctls = state.Set[SysctlKey, Sysctl]

// LinkKey is the name of an interface, and what of it is meant.
type LinkKey struct {
	Aspect LinkAspect
	Name   string
}

// LinkAspect is what of an interface is meant.
type LinkAspect int

// The aspects, in the order in which they are made.
const (
	LinkDevice LinkAspect = iota
	LinkMaster
	LinkAddresses
)

// Compare orders by what is made first.
func (k LinkKey) Compare(o LinkKey) int {
	return cmp.Or(cmp.Compare(k.Aspect, o.Aspect), cmp.Compare(k.Name, o.Name))
}

// String is the key for people.
func (k LinkKey) String() string {
	return [...]string{"link ", "master of ", "addresses of "}[k.Aspect] + k.Name
}

// Link is an interface of ours, the VRF that an interface is in, or its addresses.
type Link struct {
	VRF       int    // the table, of a VRF
	Peer      string // of a veth
	Master    string
	Addresses string // with spaces between
}

// Equal compares everything.
func (l Link) Equal(o Link) bool { return l == o }

// String is the link as ip writes it.
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

// RuleKey is what a policy routing rule looks at.
type RuleKey struct {
	Pref int
	V6   bool
	From netip.Prefix // invalid: any
	To   netip.Prefix // invalid: any
	Mark uint32       // under our mask; 0: any
}

// Compare orders by preference.
func (k RuleKey) Compare(o RuleKey) int {
	return cmp.Or(cmp.Compare(k.Pref, o.Pref), compareBools(k.V6, o.V6), k.From.Compare(o.From), k.To.Compare(o.To),
		cmp.Compare(k.Mark, o.Mark))
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}

// String is the rule as ip writes it.
func (k RuleKey) String() string {
	words := []string{fmt.Sprintf("rule %d", k.Pref)}
	if k.From.IsValid() {
		words = append(words, "from "+k.From.String())
	}
	if k.To.IsValid() {
		words = append(words, "to "+k.To.String())
	}
	if k.Mark != 0 {
		words = append(words, fmt.Sprintf("fwmark %#x/%#x", k.Mark, ownership.NodeMarkMask))
	}
	if k.V6 {
		words[0] = "-6 " + words[0]
	}
	return strings.Join(words, " ")
}

// Rule is the table that a rule leads to.
type Rule struct{ Table int }

// Equal compares tables.
func (r Rule) Equal(o Rule) bool { return r == o }

// String is the table as ip writes it.
func (r Rule) String() string { return fmt.Sprintf("lookup %d", r.Table) }

// RouteKey is what the kernel has one route for.
type RouteKey struct {
	Table  int
	To     netip.Prefix
	Metric int
}

// Compare orders by table.
func (k RouteKey) Compare(o RouteKey) int {
	return cmp.Or(cmp.Compare(k.Table, o.Table), cmp.Compare(k.Metric, o.Metric), cmp.Compare(o.To.Bits(), k.To.Bits()),
		k.To.Compare(o.To))
}

// String is the key as ip writes it.
func (k RouteKey) String() string {
	text := fmt.Sprintf("route %s table %d", k.To, k.Table)
	if k.Metric != 0 {
		text += fmt.Sprintf(" metric %d", k.Metric)
	}
	return text
}

// Route is a route. The widest comes last: its gateway is found by a narrower one.
type Route struct {
	Table  int
	To     netip.Prefix
	Metric int
	Via    netip.Addr // invalid: on the link
	Dev    string     // empty: unreachable
}

// Key is where the route is.
func (r Route) Key() RouteKey {
	if r.To.Addr().Is6() && r.Metric == 0 {
		r.Metric = 1024 // what the kernel gives when none is asked for
	}
	return RouteKey{r.Table, r.To, r.Metric}
}

// Equal compares where it leads to.
func (r Route) Equal(o Route) bool { return r.Via == o.Via && r.Dev == o.Dev }

// String is the route as ip writes it.
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

// The kinds, in the order in which they are made.
const (
	NftChain NftKind = iota
	NftSet
	NftElement
	NftRule
)

// NftKey names an object in our table.
type NftKey struct {
	Kind   NftKind
	Parent string // the chain or set; empty: it is one
	Name   string
}

// Compare orders by the order of making.
func (k NftKey) Compare(o NftKey) int {
	return cmp.Or(cmp.Compare(k.Kind, o.Kind), strings.Compare(k.Parent, o.Parent), strings.Compare(k.Name, o.Name))
}

// String is the key for people.
func (k NftKey) String() string {
	return "nft " + strings.Join(slices.DeleteFunc([]string{
		[...]string{"chain", "set", "element", "rule"}[k.Kind],
		k.Parent, k.Name,
	},
		func(s string) bool { return s == "" }), " ")
}

// NftValue is what the object is, as nft writes it. The kernel gives rules back otherwise than they were written, so a
// rule carries a sum of its text, and that is compared. Of other objects the name says it all.
type NftValue struct{ Text, Checksum string }

// Equal compares sums.
func (v NftValue) Equal(o NftValue) bool { return v.Checksum == o.Checksum }

// String is the text.
func (v NftValue) String() string { return cmp.Or(v.Text, v.Checksum) }

// SysctlKey is the name of a setting as sysctl writes it.
type SysctlKey string

// Compare orders by name.
func (k SysctlKey) Compare(o SysctlKey) int { return strings.Compare(string(k), string(o)) }

// String is the name.
func (k SysctlKey) String() string { return "setting " + string(k) }

// Sysctl is a setting's value. Also are values that do as well, with spaces between: then nothing is changed.
type Sysctl struct{ Text, Acceptable string }

// Equal says whether one is as good as the other.
func (s Sysctl) Equal(o Sysctl) bool {
	return s.Text == o.Text || slices.Contains(strings.Fields(o.Acceptable), s.Text) ||
		slices.Contains(strings.Fields(s.Acceptable), o.Text)
}

// String is the value.
func (s Sysctl) String() string { return s.Text }
