package snapshot

import "net/netip"

// Nodes is everything that decides about NodePaths.
type Nodes struct {
	Uplinks []Uplink
	// Reached are the Services that have external addresses.
	Reached []Reached
	// Inside are the prefixes of pods and Services, as the operator told.
	Inside []netip.Prefix
}

// Uplink is an ExternalNetwork that nodes are on themselves.
type Uplink struct {
	Meta
	Interface, MAC string
	Gateways       []netip.Addr
	Method         string
	Addresses      []netip.Prefix // of Services that are reached there
	Clients        []netip.Prefix
	Legs           bool
	Nodes          []string
	Malformed      Malformed
}

// Reached is a Service with external addresses, whoever gave them.
type Reached struct {
	External []netip.Addr
	Cluster  []netip.Addr
}
