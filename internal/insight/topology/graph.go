// Package topology is a cluster's ways to the outside as a graph, and that graph as text, a picture, a document and
// JSON.
package topology

import (
	"net/netip"
	"time"

	"github.com/sallyport/sallyport/internal/model/state"
)

// Graph is what there is and how it hangs together. As JSON its names are stable: fields are added, none is renamed.
type Graph struct {
	Cluster   string     `json:"cluster"`
	Focus     string     `json:"focus,omitempty"` // the one VPC that it is about; empty: all
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
	// Problems are those of the cluster as a whole: of no object that is drawn.
	Problems []Problem `json:"problems,omitempty"`
}

// Problem is something wrong with the object that it is at: a condition that is false, or a finding.
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
	Uplink     *Uplink   `json:"uplink,omitempty"` // nodes are on it themselves
	Problems   []Problem `json:"problems,omitempty"`
	// Colour is its place among all networks: a picture gives each one its own.
	Colour int `json:"colour"`
}

// Uplink is what nodes have of a network that they are on themselves.
type Uplink struct {
	Interface string         `json:"interface"`
	Method    string         `json:"method"`
	Gateways  []netip.Addr   `json:"gateways"`
	Addresses []netip.Prefix `json:"addresses"`
	Nodes     []string       `json:"nodes"`
}

// Subnet is a range of addresses: of an external network, of pods, or the one that joins nodes to OVN.
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
	// Of an external one: how nodes are connected.
	ProviderNetwork string `json:"provider,omitempty"` // the provider network; its bridge is br- and this name
	VLAN            string `json:"vlan,omitempty"`
	VLANTag         int    `json:"tag,omitempty"`
	Interface       string `json:"interface,omitempty"`
}

// What subnets are for.
const (
	SubnetExternal = "external"
	SubnetPods     = "pods"
	SubnetJoin     = "nodes"
)

// Vpc is a router with what is behind it: a project, or the cluster's own.
type Vpc struct {
	Ref        state.Ref  `json:"ref"`
	Name       string     `json:"name"`
	Project    *state.Ref `json:"project,omitempty"` // none: it is no project's
	Management bool       `json:"management"`
	Namespaces []string   `json:"namespaces"`
	// EgressNetwork is the one by which its pods leave, and Address the one that they leave with.
	EgressNetwork string     `json:"network,omitempty"`
	SNATAddress   netip.Addr `json:"address,omitzero"`
	Gateway       netip.Addr `json:"gateway,omitzero"`
	Networks      []string   `json:"networks"` // all that it is on, the default first
	Router        Router     `json:"router"`
	Subnets       []Subnet   `json:"subnets"`
	EIps          []EIp      `json:"eips"`
	FIps          []FIp      `json:"fips"`
	Services      []Service  `json:"services"`
	// EgressRoutes and Behind are what leaves by another network than the rest: EgressRoutes and EgressServices.
	EgressRoutes   []EgressPolicy `json:"egressRoutes"`
	EgressServices []EgressPolicy `json:"egressServices"`
	// EgressIPs are the EgressIPs that its pods may leave with.
	EgressIPs []string  `json:"egressIPs"`
	Pods      int       `json:"pods"`
	Paths     []Path    `json:"paths"`
	Problems  []Problem `json:"problems,omitempty"`
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
	// Node holds the port, and Standby may.
	Node    string   `json:"node,omitempty"`
	Standby []string `json:"standby,omitempty"`
}

// What ports of routers lead to.
const (
	PortExternal     = "external"
	PortPods         = "pods"
	PortJoin         = "nodes"
	PortReturn       = "leg"      // a second way to the pods, for replies of one network
	PortEgressRouter = "egress"   // the router of egress addresses
	PortInternal     = "internal" // a link of the router with itself
)

// NAT is an address translation of a router.
type NAT struct {
	Type       string       `json:"type"` // snat or dnat_and_snat
	ExternalIP netip.Addr   `json:"external"`
	LogicalIP  netip.Prefix `json:"internal"`
	Match      string       `json:"match,omitempty"`
	Owner      state.Ref    `json:"owner,omitzero"`
}

// EIp is an external address.
type EIp struct {
	Ref     state.Ref  `json:"ref"`
	Address netip.Addr `json:"address,omitzero"`
	Network string     `json:"network,omitempty"`
	Type    string     `json:"type,omitempty"`
	OvnEip  string     `json:"ovnEip,omitempty"`
	// CreatedFor is the object that it goes with; nobody: somebody asked for it.
	CreatedFor state.Ref   `json:"madeFor,omitzero"`
	UsedBy     []state.Ref `json:"users"` // a Project, FIps, Services
	// Node is where its packets come in.
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

// Target is a pod, virtual machine or address that connections end at.
type Target struct {
	Address netip.Addr `json:"address,omitzero"`
	Port    uint16     `json:"port,omitempty"`
	Name    string     `json:"name,omitempty"` // of the pod or virtual machine
	VM      bool       `json:"vm,omitempty"`
	Node    string     `json:"node,omitempty"`
	Ready   bool       `json:"ready"`
}

// Service is a Service that is reached from outside.
type Service struct {
	Ref         state.Ref    `json:"ref"`
	Type        string       `json:"type"`
	Managed     bool         `json:"ours"`
	ClusterIP   netip.Addr   `json:"clusterIP,omitzero"`
	EIp         string       `json:"eip,omitempty"`
	Address     netip.Addr   `json:"address,omitzero"`
	Network     string       `json:"network,omitempty"`
	ExternalIPs []netip.Addr `json:"externalIPs,omitempty"` // those that nodes answer for
	// Selector and Annotations are what was asked for; of annotations only those that mean something here.
	Selector           map[string]string `json:"selector,omitempty"`
	Annotations        map[string]string `json:"annotations,omitempty"`
	LocalTrafficPolicy bool              `json:"local,omitempty"` // nodes keep the client's address
	Ports              []ServicePort     `json:"ports"`
	LoadBalancers      []LoadBalancer    `json:"balancers"`
	// Companions is what exists because of it, such as its EIp, and External the headless Service that tells its
	// address.
	Companions      []state.Ref      `json:"made"`
	HeadlessService *HeadlessService `json:"external,omitempty"`
	Problems        []Problem        `json:"problems,omitempty"`
}

// ServicePort is a port of a Service, and where its connections go.
type ServicePort struct {
	Name       string   `json:"name,omitempty"`
	Protocol   string   `json:"protocol"`
	Port       int      `json:"port"`
	TargetPort string   `json:"target"`
	NodePort   int      `json:"nodePort,omitempty"`
	Targets    []Target `json:"targets"`
}

// LoadBalancer is a load balancer of OVN.
type LoadBalancer struct {
	Name     string `json:"name"`
	Protocol string `json:"protocol"`
	VIPs     []VIP  `json:"vips"`
}

// VIP is an address of a load balancer, and where OVN sends its connections.
type VIP struct {
	Address  netip.AddrPort   `json:"address"`
	Backends []netip.AddrPort `json:"backends"`
}

// HeadlessService is the headless Service beside a load balancer.
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

// EgressIP is addresses that pods of any project leave with.
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
	JoinAddress      netip.Addr    `json:"join,omitzero"` // of its interface ovn0
	Ready            bool          `json:"ready"`
	Gateway          bool          `json:"gateway"`
	EgressAssignable bool          `json:"egress"` // it may hold egress addresses
	Cordoned         bool          `json:"cordoned,omitempty"`
	Interfaces       []Interface   `json:"interfaces,omitempty"` // where it was inspected
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

// NodeRoute is the way that a node's kernel takes to an address.
type NodeRoute struct {
	To      netip.Addr `json:"to"`
	Output  string     `json:"output"`
	NextHop netip.Addr `json:"nextHop,omitzero"`
}

// GatewayPort is an address of a router that a node holds: outside, the router is where the node is.
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
	Services   []state.Ref `json:"services"` // by which its proxies are reached
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

// Backend is where Envoy Gateway sends requests.
type Backend struct {
	Ref       state.Ref `json:"ref"`
	Endpoints []string  `json:"endpoints"`
	Service   state.Ref `json:"service,omitzero"` // whose address that is
	Problems  []Problem `json:"problems,omitempty"`
}

// Path is one way of packets: there, and their replies back.
type Path struct {
	About state.Ref `json:"about"` // the FIp, Service, … by which it goes
	Title string    `json:"title"`
	// From outside, or else from a pod.
	Inbound bool   `json:"inbound"`
	Network string `json:"network"`
	Forward []Step `json:"there"`
	Reply   []Step `json:"back"`
}

// Step is a place on the way, and what happens to a packet there.
type Step struct {
	Kind    string    `json:"kind"` // one of the constants below
	Ref     state.Ref `json:"ref,omitzero"`
	Label   string    `json:"label"`
	Action  string    `json:"action,omitempty"` // such as "DNAT to 10.0.0.7:8080"
	Problem bool      `json:"problem,omitempty"`
}

// What steps are.
const (
	StepClient     = "client"
	StepNetwork    = "network"
	StepNode       = "node"
	StepRouter     = "router"
	StepAddress    = "address"
	StepReturnPort = "leg"
	StepPod        = "pod"
	StepProxy      = "proxy"
)

// Count is how many there are of a kind.
type Count struct {
	Kind    string `json:"kind"`
	Count   int    `json:"count"`
	Purpose string `json:"purpose"`
}
