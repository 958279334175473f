// Package topology is a graph of a cluster's external connectivity, rendered as text, SVG, Markdown and JSON.
package topology

import (
	"net/netip"
	"time"

	"github.com/sallyport/sallyport/internal/insight/trace"
	"github.com/sallyport/sallyport/internal/model/state"
)

// Graph is the external connectivity of a cluster. Its JSON is stable: fields may be added, but not renamed.
type Graph struct {
	Cluster   string     `json:"cluster"`
	Focus     string     `json:"focus,omitempty"` // the only VPC of the graph; empty for all VPCs
	Version   string     `json:"version"`         // of Kubernetes
	Taken     time.Time  `json:"taken"`
	Networks  []Network  `json:"networks"`
	Vpcs      []Vpc      `json:"vpcs"` // the management VPC first, then projects by name
	Nodes     []Node     `json:"nodes"`
	EgressIPs []EgressIP `json:"egressIPs"`
	Gateways  []Gateway  `json:"gateways"`
	Routes    []Route    `json:"routes"`
	Backends  []Backend  `json:"backends"`
	Counts    []Count    `json:"counts"`
	// Problems are the problems of the cluster as a whole.
	Problems []Problem `json:"problems,omitempty"`

	builder *builder // traces connections
}

// Problem is a problem of an object: a failing condition or a finding.
type Problem struct {
	Code        string `json:"code"`
	Severity    string `json:"severity"` // info, warning or error
	Message     string `json:"message"`
	Remediation string `json:"cure,omitempty"`
}

// Network is an external network.
type Network struct {
	Ref        state.Ref `json:"ref"`
	Name       string    `json:"name"`
	Type       string    `json:"type"`
	Default    bool      `json:"default"`
	Public     bool      `json:"public"` // its addresses are routable on the internet
	ReturnPath string    `json:"returnPath,omitempty"`
	Subnets    []Subnet  `json:"subnets"`
	Uplink     *Uplink   `json:"uplink,omitempty"` // set if nodes are attached to the network
	Problems   []Problem `json:"problems,omitempty"`
	// Colour is the position of the network among all networks, which selects its colour in pictures.
	Colour int `json:"colour"`
}

// Uplink describes how nodes are attached to a network.
type Uplink struct {
	Interface string         `json:"interface"`
	Method    string         `json:"method"`
	Gateways  []netip.Addr   `json:"gateways"`
	Addresses []netip.Prefix `json:"addresses"`
	Nodes     []string       `json:"nodes"`
}

// Subnet is a Subnet of an external network or of pods, or the join Subnet between nodes and OVN.
type Subnet struct {
	Ref      state.Ref      `json:"ref"`
	Name     string         `json:"name"`
	Vpc      string         `json:"vpc,omitempty"`
	Prefixes []netip.Prefix `json:"prefixes"`
	Gateways []netip.Addr   `json:"gateways"`
	Excluded []string       `json:"excluded,omitempty"`
	// Free and Used are counted by Kube-OVN.
	Free     int       `json:"free"`
	Used     int       `json:"used"`
	Purpose  string    `json:"purpose"` // one of the constants below
	Problems []Problem `json:"problems,omitempty"`
	// How nodes are connected to an external Subnet.
	ProviderNetwork string `json:"provider,omitempty"` // its bridge is called br-NAME
	VLAN            string `json:"vlan,omitempty"`
	VLANTag         int    `json:"tag,omitempty"`
	Interface       string `json:"interface,omitempty"`
}

// Purposes of Subnets.
const (
	SubnetExternal = "external"
	SubnetPods     = "pods"
	SubnetJoin     = "nodes"
)

// Vpc is a VPC: that of a project, Kube-OVN's default VPC, or another one.
type Vpc struct {
	Ref        state.Ref  `json:"ref"`
	Name       string     `json:"name"`
	Project    *state.Ref `json:"project,omitempty"` // nil if the VPC has no project
	Management bool       `json:"management"`
	Namespaces []string   `json:"namespaces"`
	// EgressNetwork is the network of the default egress of its pods, and SNATAddress their source address there.
	EgressNetwork string     `json:"network,omitempty"`
	SNATAddress   netip.Addr `json:"address,omitzero"`
	Gateway       netip.Addr `json:"gateway,omitzero"`
	Networks      []string   `json:"networks"` // all networks of its router, the egress network first
	Router        Router     `json:"router"`
	Subnets       []Subnet   `json:"subnets"`
	EIps          []EIp      `json:"eips"`
	FIps          []FIp      `json:"fips"`
	Services      []Service  `json:"services"`
	// EgressRoutes and EgressServices are the egress policies of the VPC.
	EgressRoutes   []EgressPolicy `json:"egressRoutes"`
	EgressServices []EgressPolicy `json:"egressServices"`
	// EgressIPs are the names of the EgressIPs that select pods of the VPC.
	EgressIPs   []string     `json:"egressIPs"`
	Pods        int          `json:"pods"`
	Connections []Connection `json:"paths"` // see TraceConnections
	Problems    []Problem    `json:"problems,omitempty"`
}

// Router is a logical router of OVN.
type Router struct {
	Name  string       `json:"name"`
	Ports []RouterPort `json:"ports"`
	NATs  []NAT        `json:"nats"`
}

// RouterPort is a port of a router.
type RouterPort struct {
	Name      string         `json:"name"`
	Kind      string         `json:"kind"` // one of the constants below
	Subnet    string         `json:"subnet,omitempty"`
	Network   string         `json:"network,omitempty"`
	Addresses []netip.Prefix `json:"addresses"`
	// Node holds the port. Standby are the other nodes that may hold it.
	Node    string   `json:"node,omitempty"`
	Standby []string `json:"standby,omitempty"`
}

// Kinds of router ports, by what they connect to.
const (
	PortExternal     = "external"
	PortPods         = "pods"
	PortJoin         = "nodes"
	PortReturn       = "returnPort" // a second port to the pods, for replies of one network
	PortEgressRouter = "egress"     // the router of egress addresses
	PortInternal     = "internal"   // a port linked to the router itself
)

// NAT is a NAT row of a router.
type NAT struct {
	Type       string       `json:"type"` // snat, dnat or dnat_and_snat
	ExternalIP netip.Addr   `json:"external"`
	LogicalIP  netip.Prefix `json:"internal"`
	Match      string       `json:"match,omitempty"`
	Owner      state.Ref    `json:"owner,omitzero"`
}

// EIp is an external address of a project.
type EIp struct {
	Ref     state.Ref  `json:"ref"`
	Address netip.Addr `json:"address,omitzero"`
	Network string     `json:"network,omitempty"`
	Type    string     `json:"type,omitempty"`
	OvnEip  string     `json:"ovnEip,omitempty"`
	// CreatedFor is the object that the EIp was created for and is deleted with. It is empty if a user created the EIp.
	CreatedFor state.Ref   `json:"madeFor,omitzero"`
	UsedBy     []state.Ref `json:"users"` // a Project, FIps, Services
	// Node holds the router port that receives its packets.
	Node     string    `json:"node,omitempty"`
	Problems []Problem `json:"problems,omitempty"`
}

// FIp is a floating IP.
type FIp struct {
	Ref      state.Ref  `json:"ref"`
	EIp      string     `json:"eip"`
	Address  netip.Addr `json:"address,omitzero"`
	Network  string     `json:"network,omitempty"`
	Target   Target     `json:"target"`
	Problems []Problem  `json:"problems,omitempty"`
}

// Target is the pod, virtual machine or address that receives connections.
type Target struct {
	Address netip.Addr `json:"address,omitzero"`
	Port    uint16     `json:"port,omitempty"`
	Name    string     `json:"name,omitempty"` // of the pod or virtual machine
	VM      bool       `json:"vm,omitempty"`
	Node    string     `json:"node,omitempty"`
	Ready   bool       `json:"ready"`
}

// Service is a Service with an external address.
type Service struct {
	Ref         state.Ref    `json:"ref"`
	Type        string       `json:"type"`
	Managed     bool         `json:"ours"`
	ClusterIP   netip.Addr   `json:"clusterIP,omitzero"`
	EIp         string       `json:"eip,omitempty"`
	Address     netip.Addr   `json:"address,omitzero"`
	Network     string       `json:"network,omitempty"`
	ExternalIPs []netip.Addr `json:"externalIPs,omitempty"` // served by nodes
	// Selector and Annotations are from the Service; of annotations only those of the platform.
	Selector           map[string]string `json:"selector,omitempty"`
	Annotations        map[string]string `json:"annotations,omitempty"`
	LocalTrafficPolicy bool              `json:"local,omitempty"` // nodes keep the client's address
	Ports              []ServicePort     `json:"ports"`
	LoadBalancers      []LoadBalancer    `json:"balancers"`
	// Companions are the objects that exist because of the Service, such as its EIp. HeadlessService is the headless
	// Service with its external address.
	Companions      []state.Ref      `json:"made"`
	HeadlessService *HeadlessService `json:"external,omitempty"`
	Problems        []Problem        `json:"problems,omitempty"`
}

// ServicePort is a port of a Service with its endpoints.
type ServicePort struct {
	Name       string   `json:"name,omitempty"`
	Protocol   string   `json:"protocol"`
	Port       int      `json:"port"`
	TargetPort string   `json:"target"`
	NodePort   int      `json:"nodePort,omitempty"`
	Targets    []Target `json:"targets"`
}

// LoadBalancer is an OVN load balancer.
type LoadBalancer struct {
	Name     string `json:"name"`
	Protocol string `json:"protocol"`
	VIPs     []VIP  `json:"vips"`
}

// VIP is a VIP of an OVN load balancer with its backends.
type VIP struct {
	Address  netip.AddrPort   `json:"address"`
	Backends []netip.AddrPort `json:"backends"`
}

// HeadlessService is the headless Service of a load balancer, whose endpoints are its external address.
type HeadlessService struct {
	Ref       state.Ref         `json:"ref"`
	Labels    map[string]string `json:"labels,omitempty"`
	Endpoints []string          `json:"endpoints"`
}

// EgressPolicy is an EgressRoute or EgressService.
type EgressPolicy struct {
	Ref          state.Ref      `json:"ref"`
	Network      string         `json:"network,omitempty"`
	Address      netip.Addr     `json:"address,omitzero"`
	Destinations []netip.Prefix `json:"destinations,omitempty"`
	Sources      []netip.Addr   `json:"sources,omitempty"`
	Problems     []Problem      `json:"problems,omitempty"`
}

// EgressIP is an EgressIP: source addresses for selected pods of any project.
type EgressIP struct {
	Ref       state.Ref       `json:"ref"`
	Addresses []EgressAddress `json:"addresses"`
	Pods      int             `json:"pods"`
	Problems  []Problem       `json:"problems,omitempty"`
}

// EgressAddress is an address of an EgressIP, and the node that holds it.
type EgressAddress struct {
	Address netip.Addr `json:"address"`
	Network string     `json:"network,omitempty"`
	Node    string     `json:"node,omitempty"`
}

// Node is a node.
type Node struct {
	Ref              state.Ref     `json:"ref"`
	Name             string        `json:"name"`
	Addresses        []netip.Addr  `json:"addresses"`
	JoinAddress      netip.Addr    `json:"join,omitzero"` // address of its interface ovn0
	Ready            bool          `json:"ready"`
	Gateway          bool          `json:"gateway"`
	EgressAssignable bool          `json:"egress"` // may hold egress addresses
	Cordoned         bool          `json:"cordoned,omitempty"`
	Interfaces       []Interface   `json:"interfaces,omitempty"` // if the node was inspected
	GatewayPorts     []GatewayPort `json:"holds"`
	Problems         []Problem     `json:"problems,omitempty"`
	Routes           []NodeRoute   `json:"routes,omitempty"`
}

// Interface is an interface of a node.
type Interface struct {
	Name      string         `json:"name"`
	Up        bool           `json:"up"`
	MTU       int            `json:"mtu"`
	Addresses []netip.Prefix `json:"addresses"`
}

// NodeRoute is the route of a node's kernel to an address.
type NodeRoute struct {
	To      netip.Addr `json:"to"`
	Output  string     `json:"output"`
	NextHop netip.Addr `json:"nextHop,omitzero"`
}

// GatewayPort is a router port that a node holds.
type GatewayPort struct {
	Router  string     `json:"router"`
	Port    string     `json:"port"`
	Network string     `json:"network,omitempty"`
	Address netip.Addr `json:"address"`
}

// Gateway is a Gateway of the Gateway API.
type Gateway struct {
	Ref        state.Ref   `json:"ref"`
	Class      string      `json:"class"`
	Controller string      `json:"controller,omitempty"`
	Listeners  []string    `json:"listeners"`
	Addresses  []string    `json:"addresses"`
	Services   []state.Ref `json:"services"` // of its proxies
	Pods       []Target    `json:"pods"`     // the proxies
	Problems   []Problem   `json:"problems,omitempty"`
}

// Route is a route of the Gateway API.
type Route struct {
	Ref      state.Ref   `json:"ref"`
	Hosts    []string    `json:"hosts"`
	Gateways []state.Ref `json:"gateways"`
	Backends []state.Ref `json:"backends"`
	Problems []Problem   `json:"problems,omitempty"`
}

// Backend is a Backend of Envoy Gateway.
type Backend struct {
	Ref       state.Ref `json:"ref"`
	Endpoints []string  `json:"endpoints"`
	Service   state.Ref `json:"service,omitzero"` // the Service with the address of an endpoint
	Problems  []Problem `json:"problems,omitempty"`
}

// Connection is an example of the connections that an object is for, with its path.
type Connection struct {
	About state.Ref `json:"about"` // the FIp, Service, …
	Title string    `json:"title"`
	// Inbound is set for connections from outside, and not set for connections of a pod.
	Inbound bool   `json:"inbound"`
	Network string `json:"network"`
	// Query is what was traced. Verdict and Reason are its result.
	Query   trace.Query   `json:"query"`
	Verdict string        `json:"verdict"`
	Reason  string        `json:"reason,omitempty"`
	Request []trace.Place `json:"there"`
	Reply   []trace.Place `json:"back"`
}

// Count is the number of objects of a kind.
type Count struct {
	Kind    string `json:"kind"`
	Count   int    `json:"count"`
	Purpose string `json:"purpose"`
}
