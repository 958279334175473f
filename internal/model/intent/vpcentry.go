package intent

import (
	"cmp"
	"fmt"
	"net/netip"
	"strconv"

	"github.com/sallyport/sallyport/internal/model/ipfamily"
	"github.com/sallyport/sallyport/internal/model/match"
)

// VpcList is a list in the spec of a Vpc that several writers share.
type VpcList string

// The lists in which we own entries.
const (
	ExternalSubnets VpcList = "extraExternalSubnets"
	StaticRoutes    VpcList = "staticRoutes"
	PolicyRoutes    VpcList = "policyRoutes"
)

// VpcEntryKey identifies an entry of a list.
type VpcEntryKey struct {
	Vpc  string
	List VpcList
	// ID makes the entry unique: the name of a subnet; a prefix; priority and match.
	ID string
}

// Compare orders keys by VPC, list and id.
func (k VpcEntryKey) Compare(o VpcEntryKey) int {
	return cmp.Or(cmp.Compare(k.Vpc, o.Vpc), cmp.Compare(k.List, o.List), cmp.Compare(k.ID, o.ID))
}

// String returns the location of the entry.
func (k VpcEntryKey) String() string { return fmt.Sprintf("Vpc %s %s [%s]", k.Vpc, k.List, k.ID) }

// VpcEntry is an entry of a list as JSON with sorted keys.
type VpcEntry struct{ Content string }

// Equal compares the content.
func (e VpcEntry) Equal(o VpcEntry) bool { return e.Content == o.Content }

// String returns the content.
func (e VpcEntry) String() string { return e.Content }

// ExternalSubnetEntry returns the entry that connects a VPC to an external subnet.
func ExternalSubnetEntry(vpc, subnet string) (VpcEntryKey, VpcEntry) {
	return VpcEntryKey{vpc, ExternalSubnets, subnet}, VpcEntry{CanonicalJSON(subnet)}
}

// PolicyRoute is a router policy as an entry of a Vpc.
type PolicyRoute struct {
	Priority int        `json:"priority"`
	Match    string     `json:"match"`
	Action   string     `json:"action"`
	NextHop  netip.Addr `json:"nextHopIP,omitzero"`
}

// DropPolicy returns a policy that drops matching packets.
func DropPolicy(priority int, packets match.Expr) PolicyRoute {
	return PolicyRoute{Priority: priority, Match: packets.String(), Action: "drop"}
}

// AllowPolicy returns a policy that leaves matching packets to the routing table.
func AllowPolicy(priority int, packets match.Expr) PolicyRoute {
	return PolicyRoute{Priority: priority, Match: packets.String(), Action: "allow"}
}

// ReroutePolicy returns a policy that sends matching packets to a next hop.
func ReroutePolicy(priority int, packets match.Expr, to netip.Addr) PolicyRoute {
	return PolicyRoute{Priority: priority, Match: packets.String(), Action: "reroute", NextHop: to}
}

// ToVpcEntry returns the policy as an entry of a Vpc's list.
func (p PolicyRoute) ToVpcEntry(vpc string) (VpcEntryKey, VpcEntry) {
	return VpcEntryKey{vpc, PolicyRoutes, strconv.Itoa(p.Priority) + " " + p.Match}, VpcEntry{CanonicalJSON(p)}
}

// ToRouterPolicy returns the policy as a row.
func (p PolicyRoute) ToRouterPolicy() LogicalRouterPolicy {
	row := LogicalRouterPolicy{Priority: p.Priority, Match: p.Match, Action: p.Action}
	if p.NextHop.IsValid() {
		row.NextHops = p.NextHop.String()
	}
	return row
}

// StaticRoute is a route of the router's main table, as an entry of a Vpc.
type StaticRoute struct {
	CIDR    netip.Prefix `json:"cidr"`
	NextHop netip.Addr   `json:"nextHopIP"`
	Policy  string       `json:"policy"`
}

// DefaultRoute returns a default route to a gateway.
func DefaultRoute(gateway netip.Addr) StaticRoute {
	return StaticRoute{CIDR: ipfamily.Of(gateway).Everything(), NextHop: gateway, Policy: "policyDst"}
}

// ToVpcEntry returns the route as an entry of a Vpc's list.
func (r StaticRoute) ToVpcEntry(vpc string) (VpcEntryKey, VpcEntry) {
	return VpcEntryKey{vpc, StaticRoutes, r.CIDR.String()}, VpcEntry{CanonicalJSON(r)}
}

// EnableExternal is a pseudo list with one entry: whether the VPC is connected to external subnets at all. It is
// written together with the first external subnet; otherwise Kube-OVN would connect a subnet of its own choice.
const EnableExternal VpcList = "enableExternal"

// EnableExternalEntry returns that entry.
func EnableExternalEntry(vpc string) (VpcEntryKey, VpcEntry) {
	return VpcEntryKey{vpc, EnableExternal, ""}, VpcEntry{CanonicalJSON(true)}
}
