// Package clusterstate is the state of a whole cluster as a value: what was requested, what the engine holds, how they
// differ, and what nodes report.
//
// Everything that operators see is computed from one such value: traces, maps, explanations and findings. So all of
// them describe the same moment.
package clusterstate

import (
	"net/netip"
	"slices"
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
	// Shards are the shards that were compiled and compared with the cluster: all, or those that were requested.
	Shards []Shard
	// Inspected is what nodes report, by name. A node that did not answer has a Problem.
	Inspected map[string]NodeInspection
	// Unread is what could not be read.
	Unread []ReadFailure
	// Certificates are those used for reading.
	Certificates []Certificate
}

// Certificate is a certificate and its expiry.
type Certificate struct {
	For     string // the peer it is presented to
	Expires time.Time
}

// ReadFailure is a system that could not be read, and the reason.
type ReadFailure struct{ System, Problem string }

// The systems that are read.
const (
	Kubernetes = "Kubernetes"
	Northbound = "OVN northbound database"
	Southbound = "OVN southbound database"
)

// DescribeAbsence returns what it means that an object of one of these systems is not in the state: that it does not exist,
// or that nobody knows.
func (s *State) DescribeAbsence(systems ...string) string {
	for _, u := range s.Unread {
		if slices.Contains(systems, u.System) {
			return "could not be read: " + u.System + ": " + u.Problem
		}
	}
	return "does not exist"
}

// Cluster has the Kubernetes objects, sorted by namespace and name.
type Cluster struct {
	Name       string // context of the kubeconfig
	Version    string // of Kubernetes
	KubeOVN    string // the version of Kube-OVN's controller; empty: unknown
	Networks   []Network
	Subnets    []Subnet
	Vpcs       []Vpc
	Namespaces []Namespace
	Projects   []Project
	EIps       []EIp
	FIps       []FIp
	Services   []Service
	// Beside are the headless companion Services that publish the addresses of load balancers.
	Beside         []Service
	EgressIPs      []EgressIP
	EgressServices []EgressPolicy
	EgressRoutes   []EgressPolicy
	NodePaths      []NodePath
	Pods           []Pod
	Nodes          []Node
	OvnEips        []OvnEip
	Policies       []NetworkPolicy
	// Routes are those of the Gateway API. Backends are where Envoy Gateway sends their requests.
	Routes   []Route
	Backends []Backend
	Gateways []Gateway
	Classes  []GatewayClass
	// Inspections are the existing Inspection objects.
	Inspections []Object
	// Leases are those of the controller and of Kube-OVN's controller.
	Leases []Lease
	// Absent are required kinds whose CRDs are not installed.
	Absent []string
	// Inside are the prefixes of cluster IPs of Services.
	Inside []netip.Prefix
	// Events are the last warnings, by object.
	Events []Event
}

// Object has the fields common to all objects.
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
	Generation                    int64 // generation of the object that it refers to; 0: unknown
}

// Condition returns the condition of a type, or the zero value.
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
	// Interface, Method and Nodes are for networks that nodes are on themselves.
	Interface, Method string
	Gateways          []netip.Addr
	Addresses         []netip.Prefix
	OnNodes           []string
}

// Subnet is a Subnet of Kube-OVN.
type Subnet struct {
	Object
	Vpc        string
	Prefixes   []netip.Prefix
	Gateways   []netip.Addr
	Excluded   []string
	Namespaces []string
	Provider   string // for an external Subnet the provider network; its bridge on nodes is br- plus the name
	Ready      bool
	Free, Used int
	MTU        int // of its pods; 0: the default
	// NatOutgoing: nodes translate packets of its pods to the outside to their own address. Only in the default VPC.
	NatOutgoing bool
	// For an external Subnet: its VLAN, and the interface of nodes that leads there.
	Vlan      string
	Tag       int
	Interface string
	// Interfaces has the nodes with another interface.
	Interfaces map[string]string
	Network    string // the external network; empty: none
}

// Vpc is a Vpc of Kube-OVN.
type Vpc struct {
	Object
	Namespaces []string
	External   []string // external subnets
	Ready      bool
}

// Namespace is a namespace.
type Namespace struct {
	Object
	Shard  string // the shard that is responsible for it
	Subnet string // where its pods get addresses
}

// Project is a tenant's VPC.
type Project struct {
	Object
	Shard    string // its VPC and namespace
	Prefixes []netip.Prefix
	Network  string
	Address  netip.Addr // source address of its pods
}

// EIp is an external address.
type EIp struct {
	Object
	Shard     string
	Address   netip.Addr
	Requested string
	Network   string // the network and its Subnet
	Subnet    string
	Type      string      // type of the network
	UsedBy    []state.Ref // those of a Service may be in another namespace
	MadeFor   state.Ref   // the object it was created for; zero: a user requested it
}

// FIp is a floating IP.
type FIp struct {
	Object
	Shard            string
	EIp              string
	External, Target netip.Addr
	Pod, VM          string
	// Outbound: connections of the target should use the address. Direction is what its status says.
	Outbound  bool
	Direction string
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
	Annotations map[string]string // about networks; see KeepAnnotations
	Sources     []netip.Prefix    // loadBalancerSourceRanges
	Endpoints   []Endpoint
	Local       bool // externalTrafficPolicy
	Affinity    bool
}

// ServicePort is a port of a Service.
type ServicePort struct {
	Name, Protocol string
	Port           int
	Target         string // number, or name of a container's port
	NodePort       int    // 0: none
}

// Endpoint is an endpoint of a port of a Service.
type Endpoint struct {
	Port                string // name
	Address             netip.AddrPort
	Ready, Serving, End bool   // End: terminating
	Pod                 string // name; empty: not a pod
	Node                string
}

// EgressIP has the source addresses for selected pods.
type EgressIP struct {
	Object
	Addresses []string
	Held      map[string]string  // address → node
	Selects   int                // number of pods
	Outside   snapshot.PodSample // selected pods that are not served
}

// EgressPolicy is an EgressService or EgressRoute.
type EgressPolicy struct {
	Object
	Shard        string
	Network      string
	Destinations []netip.Prefix
	Sources      []netip.Addr
}

// NodePath is the configuration of a node.
type NodePath struct {
	Object
	Networks []string
	Ways     []NodeNetwork // in the same order
	// Problems has the reasons why networks do not work on the node, by network.
	Problems map[string]string
}

// NodeNetwork is the configuration of a node for a network. Replies to connections from there have the mark.
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
	Ports       []int    // declared by its containers
	PortNames   []string // names of those that have one
	Subnet      string
	HostNetwork bool
	Agent       bool   // created by the DaemonSet of sallyport-agent
	Waiting     string // why a container is not running
}

// Node is a node.
type Node struct {
	Object
	Chassis    string // from Kube-OVN's annotation
	Addresses  []netip.Addr
	Ready      bool
	Gateway    bool // it may be a gateway
	Assignable bool // it may hold egress addresses
	Cordoned   bool
	Kernel     string
	Heartbeat  time.Time // of its lease
}

// OvnEip is an external address in Kube-OVN.
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
	Pods            []string // the pods it selects
}

// Route is an HTTPRoute, TLSRoute, TCPRoute, UDPRoute or GRPCRoute.
type Route struct {
	Object
	Hosts    []string
	Gateways []string // namespace/name
	Backends []state.Ref
}

// Backend is a destination of Envoy Gateway.
type Backend struct {
	Object
	Endpoints []string
}

// GatewayClass has the controller of Gateways.
type GatewayClass struct {
	Object
	Controller string
}

// Gateway is a Gateway of the Gateway API.
type Gateway struct {
	Object
	Class     string
	Listeners []string // name, protocol and port; for TLS also the mode
	Addresses []string
}

// Lease has the current leader.
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

// NodeInspection is the result of an Inspection of a node.
type NodeInspection struct {
	Problem    string   // why it did not answer
	Problems   []string // the queries that failed
	Asked      time.Time
	Clock      time.Time // the node's clock when it answered
	Answered   time.Time // our clock at that time
	Interfaces []Interface
	Settings   map[string]string
	Neighbours []Neighbour
	Routes     []RouteLookup
	Connection []Connection
	Usage      []AddressUsage
	Ports      []PortAnswer `json:",omitempty"`
	Switch     OpenVSwitch
}

// PacketSighting is a place where a marked packet, or the reply to it, was seen.
type PacketSighting struct {
	Node                string
	Place               string // of PacketAnswer: Pod, Wire or Tunnel
	LogicalPort         string // of the pod
	Network             string // the provider network
	Outgoing            bool   // Open vSwitch sent it there
	Kind                string // Request, Reply or Refusal
	Source, Destination netip.AddrPort
	Count               int
}

// Interface is an interface of a node.
type Interface struct {
	Name      string
	MAC       string
	Up        bool
	NoCarrier bool // it is up, but has no link partner
	MTU       int
	Addresses []netip.Prefix
}

// Neighbour has the hosts that answered for an address on a link. More than one: a duplicate address.
type Neighbour struct {
	Interface string
	Vlan      int
	Address   netip.Addr
	MACs      []string
}

// RouteLookup is the route that a node's kernel selects.
type RouteLookup struct {
	From, To netip.Addr
	Input    string // input interface
	Mark     uint32
	Output   string
	NextHop  netip.Addr
	Source   netip.Addr // source address that the node would use
	Problem  string
}

// Connection is a tracked connection of the node's Open vSwitch.
type Connection struct {
	Protocol                      string
	Source, Destination           netip.AddrPort // original direction
	ReplySource, ReplyDestination netip.AddrPort
	State                         string
	Zone                          int
	ZoneName                      string // a logical port, or a router or switch with the suffix _dnat or _snat
}

// PortAnswer is what a pod answered to a first packet from its gateway.
type PortAnswer struct {
	LogicalPort string
	Address     netip.AddrPort
	Protocol    string
	Result      string // one of the constants below; empty: it was not asked
	Problem     string // why it was not asked
}

// Results of PortAnswer.
const (
	PortOpen     = "Open"
	PortClosed   = "Closed"
	PortRejected = "Rejected"
	PortSilent   = "Silent"
)

// AddressUsage is how many connections of a node use an address, and the destination with the most ports in use.
type AddressUsage struct {
	Address     netip.Addr
	Connections int
	Protocol    string
	To          netip.AddrPort
	Ports       int // ports in use for it
	Of          int // available ports
}

// OpenVSwitch is the state of a node's switch.
type OpenVSwitch struct {
	Version    string
	Controller string // connection of ovn-controller: connected, or what it reports instead
	Chassis    string // name of the chassis on the node
	Bridges    []Bridge
	// Tracked is the number of tracked connections, MaxTracked their limit; 0: not reported.
	Tracked, MaxTracked int
	Problem             string // why it does not answer
}

// Bridge is a bridge to a provider network through interfaces of the node.
type Bridge struct {
	Name, Network string
	Interfaces    []string
	Problem       string
}
