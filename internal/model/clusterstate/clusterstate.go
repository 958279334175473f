// Package clusterstate is a whole cluster as a value: what was asked for, what the engine holds, what differs, and what nodes
// say of themselves.
//
// Everything that an operator looks at is worked out from one: traces, maps, explanations and findings. So all of them
// tell of the same moment.
package clusterstate

import (
	"net/netip"
	"time"

	"github.com/sallyport/sallyport/internal/model/logical"
	"github.com/sallyport/sallyport/internal/model/snapshot"
	"github.com/sallyport/sallyport/internal/model/state"
)

// State is a cluster at one moment.
type State struct {
	Taken   time.Time
	Cluster Cluster
	Logical logical.Network
	// Shards are those that were compiled and compared with what is there: all, or those that somebody asked about.
	Shards []Shard
	// Inspected is what nodes say of themselves, by name. A node that did not answer is there with a Problem.
	Inspected map[string]NodeInspection
	// Unread is what could not be read.
	Unread []ReadFailure
	// Certificates are those with which it was read.
	Certificates []Certificate
}

// Certificate is a certificate that somebody shows, and until when it is good.
type Certificate struct {
	For     string // what it is shown to
	Expires time.Time
}

// ReadFailure is a system that could not be read, and why.
type ReadFailure struct{ System, Problem string }

// The systems that are read.
const (
	Kubernetes = "Kubernetes"
	Northbound = "OVN northbound database"
	Southbound = "OVN southbound database"
)

// Cluster is the objects of Kubernetes, sorted by namespace and name.
type Cluster struct {
	Name     string // of the kubeconfig's context
	Version  string // of Kubernetes
	KubeOVN  string // the version of Kube-OVN's controller; empty: unknown
	Networks []Network
	Subnets  []Subnet
	Vpcs     []Vpc
	// Namespaces are all of them.
	Namespaces []Namespace
	Projects   []Project
	EIps       []EIp
	FIps       []FIp
	Services   []Service
	// Beside are the headless Services that tell the addresses of others.
	Beside []Service
	// EgressIPs, EgressServices, EgressRoutes and NodePaths are said in their own words.
	EgressIPs      []EgressIP
	EgressServices []EgressPolicy
	EgressRoutes   []EgressPolicy
	NodePaths      []NodePath
	Pods           []Pod
	Nodes          []Node
	OvnEips        []OvnEip
	Policies       []NetworkPolicy // NetworkPolicies
	// Routes are those of the Gateway API, and Backends where Envoy Gateway sends their requests to.
	Routes   []Route
	Backends []Backend
	Gateways []Gateway
	Classes  []GatewayClass
	// Inspections are questions to nodes that somebody has left there.
	Inspections []Object
	// Leases say who leads: the controller and Kube-OVN's.
	Leases []Lease
	// Absent are kinds that are needed and that Kubernetes does not know.
	Absent []string
	// Inside are the prefixes of cluster addresses of Services.
	Inside []netip.Prefix
	// Events are the last warnings, by object.
	Events []Event
}

// Object is what all have.
type Object struct {
	state.Ref
	Created    time.Time
	Deleting   bool
	Generation int64
	Labels     map[string]string
	Conditions []Condition
}

// Condition is a condition of an object.
type Condition struct {
	Type, Status, Reason, Message string
	Since                         time.Time
	Generation                    int64 // of the object, when it was said; 0: unknown
}

// Condition is the condition of a type; the zero value when there is none.
func (o Object) Condition(kind string) Condition {
	for _, c := range o.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return Condition{}
}

// Network is an external network: an ExternalNetwork, or a Subnet with its label.
type Network struct {
	Object
	Type    string
	Default bool
	Return  string
	Subnets []string
	// Interface, Method and Nodes are of nodes that are on it themselves.
	Interface, Method string
	Gateways          []netip.Addr
	Addresses         []netip.Prefix
	OnNodes           []string
}

// Subnet is a Subnet of Kube-OVN's.
type Subnet struct {
	Object
	Vpc        string
	Prefixes   []netip.Prefix
	Gateways   []netip.Addr
	Excluded   []string
	Namespaces []string
	Provider   string // of an external one the provider network, whose bridge on nodes is br- and its name
	Ready      bool
	Free, Used int
	MTU        int // of its pods; 0: as everywhere
	// NatOutgoing says that nodes translate what its pods send outside, to an address of their own. Of the default VPC
	// only.
	NatOutgoing bool
	// Of an external one: its VLAN, and the interface of each node that leads there.
	Vlan      string
	Tag       int
	Interface string
	// Interfaces are those of nodes on which it is another one.
	Interfaces map[string]string
	Network    string // the external network; empty: it is none
}

// Vpc is a Vpc of Kube-OVN's.
type Vpc struct {
	Object
	Namespaces []string
	External   []string // subnets
	Ready      bool
}

// Namespace is a namespace.
type Namespace struct {
	Object
	Shard  string // that decides about what is in it
	Subnet string // in which its pods get addresses
}

// Project is a tenant's VPC.
type Project struct {
	Object
	Shard    string // of its VPC and its namespace
	Prefixes []netip.Prefix
	Network  string
	Address  netip.Addr // with which its pods leave
}

// EIp is an external address.
type EIp struct {
	Object
	Shard     string
	Address   netip.Addr
	Requested string
	Network   string // and its Subnet
	Subnet    string
	Type      string      // of network
	UsedBy    []state.Ref // of which those of a Service may be in another namespace
	MadeFor   state.Ref   // the object that it was made for; nobody: somebody asked for it
}

// FIp is a floating IP.
type FIp struct {
	Object
	Shard            string
	EIp              string
	External, Target netip.Addr
	Pod, VM          string
}

// Service is a Service of type LoadBalancer, or one with external IPs.
type Service struct {
	Object
	Shard       string
	Type, Class string
	Ours        bool
	ClusterIP   netip.Addr
	Ingress     []netip.Addr
	ExternalIPs []netip.Addr
	Ports       []ServicePort
	Selector    map[string]string
	Annotations map[string]string // of networks; see KeepAnnotations
	Sources     []netip.Prefix    // loadBalancerSourceRanges
	Endpoints   []Endpoint
	Local       bool // externalTrafficPolicy
	Affinity    bool
}

// ServicePort is a port of a Service.
type ServicePort struct {
	Name, Protocol string
	Port           int
	Target         string // a number, or the name of a container's port
	NodePort       int    // 0: none
}

// Endpoint is where a port of a Service goes.
type Endpoint struct {
	Port                string // name
	Address             netip.AddrPort
	Ready, Serving, End bool   // End: it is terminating
	Pod                 string // name; empty: no pod
	Node                string
}

// EgressIP is addresses that pods leave with.
type EgressIP struct {
	Object
	Addresses []string
	Held      map[string]string  // address → node
	Selects   int                // pods
	Outside   snapshot.PodSample // of these, that are of no project: it does not serve them
}

// EgressPolicy is an EgressService or EgressRoute.
type EgressPolicy struct {
	Object
	Shard        string
	Network      string
	Destinations []netip.Prefix
	Sources      []netip.Addr
}

// NodePath is what a node has to do itself.
type NodePath struct {
	Object
	Networks []string
	Ways     []NodeNetwork // in the same order
	// Problems are why networks do not work there, by network.
	Problems map[string]string
}

// NodeNetwork is what a node does for a network: what came in there has a mark on its way back.
type NodeNetwork struct {
	Network, Interface string
	Mark               uint32
	Method             string
}

// Pod is a pod, or the pod of a virtual machine.
type Pod struct {
	Object
	Addresses   []netip.Addr
	Node        string
	Phase       string
	Ready       bool
	Ports       []int    // that its containers declare
	PortNames   []string // of those that have one
	Subnet      string
	HostNetwork bool
	Agent       bool   // the DaemonSet of sallyport-agent made it
	Waiting     string // why a container does not run
}

// Node is a node.
type Node struct {
	Object
	Chassis    string // as Kube-OVN noted it
	Addresses  []netip.Addr
	Ready      bool
	Gateway    bool // it may hold gateways
	Assignable bool // it may hold egress addresses
	Cordoned   bool
	Kernel     string
	Heartbeat  time.Time // of its lease
}

// OvnEip is an address as Kube-OVN has it.
type OvnEip struct {
	Object
	Subnet, Type string
	Address      netip.Addr
	Ready        bool
}

// NetworkPolicy is a NetworkPolicy.
type NetworkPolicy struct {
	Object
	Ingress, Egress bool
	Pods            []string // that it selects
}

// Route is an HTTPRoute, TLSRoute, TCPRoute, UDPRoute or GRPCRoute.
type Route struct {
	Object
	Hosts    []string
	Gateways []string // namespace/name
	Backends []state.Ref
}

// Backend is where Envoy Gateway sends requests.
type Backend struct {
	Object
	Endpoints []string
}

// GatewayClass says who carries out Gateways.
type GatewayClass struct {
	Object
	Controller string
}

// Gateway is a Gateway of the Gateway API.
type Gateway struct {
	Object
	Class     string
	Listeners []string // name protocol port, and of TLS the mode
	Addresses []string
}

// Lease says who leads.
type Lease struct {
	Object
	Holder  string
	Renewed time.Time
	Lasts   time.Duration
}

// Event is a warning about an object.
type Event struct {
	About           state.Ref
	Reason, Message string
	Last            time.Time
	Count           int
}

// NodeInspection is what a node says of itself. See the kind Inspection.
type NodeInspection struct {
	Problem    string   // why it did not answer
	Problems   []string // what it could not answer
	Asked      time.Time
	Clock      time.Time // the node's own, when it answered
	Answered   time.Time // ours, then
	Interfaces []Interface
	Settings   map[string]string
	Neighbours []Neighbour
	Routes     []RouteLookup
	Connection []Connection
	Usage      []AddressUsage
	Switch     OpenVSwitch
}

// Interface is an interface of a node.
type Interface struct {
	Name      string
	MAC       string
	Up        bool
	NoCarrier bool // it is set up, and there is nothing at the other end of its cable
	MTU       int
	Addresses []netip.Prefix
}

// Neighbour is who answered for an address on the wire. More than one: two hosts have it.
type Neighbour struct {
	Interface string
	Vlan      int
	Address   netip.Addr
	MACs      []string
}

// RouteLookup is the way that a node's kernel takes.
type RouteLookup struct {
	From, To netip.Addr
	Input    string // by which it came in
	Mark     uint32
	Output   string
	NextHop  netip.Addr
	Source   netip.Addr // that the node would send it from
	Problem  string
}

// Connection is a tracked connection of the node's Open vSwitch.
type Connection struct {
	Protocol                      string
	Source, Destination           netip.AddrPort // as it began
	ReplySource, ReplyDestination netip.AddrPort
	State                         string
	Zone                          int
	ZoneName                      string // of a logical port, or of a router or switch with _dnat or _snat behind it
}

// AddressUsage is how many connections of a node use an address, and to which destination the most ports of it.
type AddressUsage struct {
	Address     netip.Addr
	Connections int
	Protocol    string
	To          netip.AddrPort
	Ports       int // in use to it
	Of          int // that there are
}

// OpenVSwitch is how the switch of a node is doing.
type OpenVSwitch struct {
	Version    string
	Controller string // ovn-controller's connection: connected, or what it says instead
	Chassis    string // its name as the node knows it
	Bridges    []Bridge
	// Tracked is how many connections it tracks, of at most MaxTracked; 0: it does not say.
	Tracked, MaxTracked int
	Problem             string // why it does not answer
}

// Bridge is a bridge that leads to a provider network, by interfaces of the node.
type Bridge struct {
	Name, Network string
	Interfaces    []string
	Problem       string
}
