package snapshot

import "net/netip"

// NodePathInput is the input of compile.Nodes: everything that determines the NodePaths.
type NodePathInput struct {
	Uplinks []Uplink
	// ExposedServices are the Services that have external addresses.
	ExposedServices []ExposedService
	// ClusterPrefixes are the prefixes of pods and Services, as configured, and NodeAddresses the addresses of nodes.
	ClusterPrefixes []netip.Prefix
	NodeAddresses   []netip.Addr

	// EgressServices and EgressRoutes are those of the management VPC, whose pods leave through the nodes, and
	// LoadBalancers the Services of type LoadBalancer there, whichever controller serves them.
	EgressServices []EgressService
	EgressRoutes   []EgressRoute
	LoadBalancers  []LoadBalancerService

	// OutboundFIps are the names of FIps by the address of their target, which leaves with the FIp's address.
	OutboundFIps map[netip.Addr]string
	// AddressNamespaces are the namespaces that own the addresses of LoadBalancers.
	AddressNamespaces map[netip.Addr]string

	// NodePaths are the existing NodePaths, by node.
	NodePaths map[string]NodePathStatus
}

// Uplink is an ExternalNetwork that nodes are attached to.
type Uplink struct {
	Meta
	Type            string
	Interface, MAC  string
	Gateways        []netip.Addr
	Method          string
	ServicePrefixes []netip.Prefix // external addresses of Services that are reachable there
	ClientPrefixes  []netip.Prefix
	UseVethPair     bool
	Steering        string
	Nodes           []string
	Admitted        Admitted // namespaces that may use it for egress; nil: all
	Malformed       Malformed
}

// ExposedService is a Service with external addresses, whichever controller assigned them.
type ExposedService struct {
	ExternalIPs []netip.Addr
	ClusterIPs  []netip.Addr
}

// LoadBalancerService is a Service of type LoadBalancer with the pods behind it.
type LoadBalancerService struct {
	Meta
	EgressByLBIP bool           // the annotation requests its address as source address of its pods
	ExternalIPs  []netip.Addr   // from its status
	Pods         []PodPlacement // of its namespace
}

// NodePathStatus is the agent's report on a NodePath.
type NodePathStatus struct {
	IsCurrent       bool              // the report is for the current generation
	NetworkProblems map[string]string // by network; empty: it works
	Repairs         int64             // number of restored entries since the agent started
}
