package snapshot

import "net/netip"

// NodePathInput is everything that decides about NodePaths.
type NodePathInput struct {
	Uplinks []Uplink
	// ExposedServices are the Services that have external addresses.
	ExposedServices []ExposedService
	// ClusterPrefixes are the prefixes of pods and Services, as the operator told, and Hosts the addresses of nodes.
	ClusterPrefixes []netip.Prefix
	NodeAddresses   []netip.Addr

	// EgressServices and EgressRoutes are those of Kube-OVN's own VPC, whose pods leave by the nodes, and Balancers the
	// Services there of type LoadBalancer, whoever serves them.
	EgressServices []EgressService
	EgressRoutes   []EgressRoute
	LoadBalancers  []LoadBalancerService

	// AddressNamespaces are the namespaces that have the addresses of Balancers.
	AddressNamespaces map[netip.Addr]string

	// NodePaths are the NodePaths that there are, by node.
	NodePaths map[string]NodePathStatus
}

// Uplink is an ExternalNetwork that nodes are on themselves.
type Uplink struct {
	Meta
	Type            string
	Interface, MAC  string
	Gateways        []netip.Addr
	Method          string
	ServicePrefixes []netip.Prefix // of Services that are reached there
	ClientPrefixes  []netip.Prefix
	UseVethPair     bool
	Nodes           []string
	Admitted        Admitted // namespaces that may leave by it; nil: all may
	Malformed       Malformed
}

// ExposedService is a Service with external addresses, whoever gave them.
type ExposedService struct {
	ExternalIPs []netip.Addr
	ClusterIPs  []netip.Addr
}

// LoadBalancerService is a Service of type LoadBalancer with the pods behind it.
type LoadBalancerService struct {
	Meta
	EgressByLBIP bool           // its pods are to leave with its address, as the annotation says
	ExternalIPs  []netip.Addr   // in its status
	Pods         []PodPlacement // of its namespace
}

// NodePathStatus is what the agent of a node says of its NodePath.
type NodePathStatus struct {
	IsCurrent       bool              // it has seen the NodePath as it is now
	NetworkProblems map[string]string // what became of each network: why it does not work, or nothing
	Repairs         int64             // how often something was put back since the agent began
}
