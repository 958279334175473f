package snapshot

import "net/netip"

// Nodes is everything that decides about NodePaths.
type Nodes struct {
	Uplinks []Uplink
	// Reached are the Services that have external addresses.
	Reached []Reached
	// Inside are the prefixes of pods and Services, as the operator told, and Hosts the addresses of nodes.
	Inside []netip.Prefix
	Hosts  []netip.Addr

	// EgressServices and EgressRoutes are those of Kube-OVN's own VPC, whose pods leave by the nodes, and Balancers the Services there of
	// type LoadBalancer, whoever serves them.
	EgressServices []EgressService
	EgressRoutes   []EgressRoute
	Balancers      []Balancer

	// Owners are the namespaces that have the addresses of Balancers.
	Owners map[netip.Addr]string

	// Paths are the NodePaths that there are, by node.
	Paths map[string]Path
}

// Uplink is an ExternalNetwork that nodes are on themselves.
type Uplink struct {
	Meta
	Type           string
	Interface, MAC string
	Gateways       []netip.Addr
	Method         string
	Addresses      []netip.Prefix // of Services that are reached there
	Clients        []netip.Prefix
	Legs           bool
	Nodes          []string
	Admitted       Admitted // namespaces that may leave by it; nil: all may
	Malformed      Malformed
}

// Reached is a Service with external addresses, whoever gave them.
type Reached struct {
	External []netip.Addr
	Cluster  []netip.Addr
}

// Balancer is a Service of type LoadBalancer with the pods behind it.
type Balancer struct {
	Meta
	Leaves   bool         // its pods are to leave with its address, as the annotation says
	External []netip.Addr // in its status
	Pods     []Placed     // of its namespace
}

// Path is what the agent of a node says of its NodePath.
type Path struct {
	Reported bool              // it has seen the NodePath as it is now
	Networks map[string]string // what became of each network: why it does not work, or nothing
	Repairs  int64             // how often something was put back since the agent began
}
