package intent

import (
	"cmp"
	"fmt"
	"net/netip"
	"strconv"
)

// List is a list in a Vpc's spec that several writers share.
type List string

// The lists of which we own elements.
const (
	ExternalSubnets List = "extraExternalSubnets"
	StaticRoutes    List = "staticRoutes"
	PolicyRoutes    List = "policyRoutes"
)

// ElementKey names an element of a list.
type ElementKey struct {
	Vpc  string
	List List
	// ID is what makes an element unique: a subnet's name; a prefix; priority and match.
	ID string
}

// Compare orders keys by VPC, list and id.
func (k ElementKey) Compare(o ElementKey) int {
	return cmp.Or(cmp.Compare(k.Vpc, o.Vpc), cmp.Compare(k.List, o.List), cmp.Compare(k.ID, o.ID))
}

// String is where the element is.
func (k ElementKey) String() string { return fmt.Sprintf("Vpc %s %s [%s]", k.Vpc, k.List, k.ID) }

// Element is an element of a list as JSON with sorted keys.
type Element struct{ Content string }

// Equal compares content.
func (e Element) Equal(o Element) bool { return e.Content == o.Content }

// String is the content.
func (e Element) String() string { return e.Content }

// Attached is the element that connects a VPC to an external subnet.
func Attached(vpc, subnet string) (ElementKey, Element) {
	return ElementKey{vpc, ExternalSubnets, subnet}, Element{Canonical(subnet)}
}

// PolicyRoute is a router policy, as an element of a Vpc.
type PolicyRoute struct {
	Priority int        `json:"priority"`
	Match    string     `json:"match"`
	Action   string     `json:"action"`
	NextHop  netip.Addr `json:"nextHopIP,omitzero"`
}

// Drop is a policy that drops what matches.
func Drop(priority int, match string) PolicyRoute {
	return PolicyRoute{Priority: priority, Match: match, Action: "drop"}
}

// Allow is a policy that leaves what matches to the routing table.
func Allow(priority int, match string) PolicyRoute {
	return PolicyRoute{Priority: priority, Match: match, Action: "allow"}
}

// Reroute is a policy that sends what matches to a next hop.
func Reroute(priority int, match string, to netip.Addr) PolicyRoute {
	return PolicyRoute{Priority: priority, Match: match, Action: "reroute", NextHop: to}
}

// In is the policy as an element of a VPC's list.
func (p PolicyRoute) In(vpc string) (ElementKey, Element) {
	return ElementKey{vpc, PolicyRoutes, strconv.Itoa(p.Priority) + " " + p.Match}, Element{Canonical(p)}
}

// Row is the policy as a row.
func (p PolicyRoute) Row() RouterPolicy {
	row := RouterPolicy{Priority: p.Priority, Match: p.Match, Action: p.Action}
	if p.NextHop.IsValid() {
		row.NextHops = p.NextHop.String()
	}
	return row
}

// StaticRoute is a route of a router's main table, as an element of a Vpc.
type StaticRoute struct {
	CIDR    netip.Prefix `json:"cidr"`
	NextHop netip.Addr   `json:"nextHopIP"`
	Policy  string       `json:"policy"`
}

// DefaultRoute sends what no other route takes to a gateway.
func DefaultRoute(gateway netip.Addr) StaticRoute {
	everything := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	if gateway.Is6() {
		everything = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	return StaticRoute{CIDR: everything, NextHop: gateway, Policy: "policyDst"}
}

// In is the route as an element of a VPC's list.
func (r StaticRoute) In(vpc string) (ElementKey, Element) {
	return ElementKey{vpc, StaticRoutes, r.CIDR.String()}, Element{Canonical(r)}
}

// External is the pseudo list of one element that says whether a VPC is connected to external subnets at all. It is written
// together with the first of them: without one, Kube-OVN would connect a subnet of its own choice.
const External List = "enableExternal"

// Connected is that element.
func Connected(vpc string) (ElementKey, Element) {
	return ElementKey{vpc, External, ""}, Element{Canonical(true)}
}
