package snapshot

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// EgressInput is the input of compile.Egress: everything that determines which node holds which egress address.
type EgressInput struct {
	EgressIPs []EgressIP
	// Nodes are the nodes that may hold egress addresses.
	Nodes           []Node
	ExternalSubnets []ExternalSubnet
	// Engine is the state of the shard's Kube-OVN objects, and AddressOwners the OvnEip that has each requested
	// address.
	Engine        Engine
	AddressOwners map[netip.Addr]AddressOwner

	// PortNetworks are the networks of the egress router's ports, ChassisGroups the chassis that may hold them, and
	// PeerPorts the peer ports of its links, which the shards of the VPCs create: all by port name.
	PortNetworks  map[string]netip.Prefix
	ChassisGroups map[string]HAChassisGroup
	PeerPorts     map[string]bool
	// FailedOverTo are the chassis to which OVN has moved ports because their first chassis is down, by port.
	FailedOverTo map[string]string
	// FailedOverFrom are the chassis from which OVN has moved ports a short time ago, by port.
	FailedOverFrom map[string]string

	// AllowedMoves is the number of addresses that may move to nodes that hold fewer, without a request.
	AllowedMoves int

	// BFDInterval is the interval of BFD packets between nodes; 0: OVN's default. GlobalOptions are the options in
	// NB_Global, with whether the controller set them.
	BFDInterval   time.Duration
	GlobalOptions map[string]bool
}

// HAChassisGroup is the chassis that may hold a port, highest priority first, and the EgressIP that requested it.
type HAChassisGroup struct {
	Chassis  []string
	EgressIP string
}

// EgressIP is a request for source addresses of selected pods.
type EgressIP struct {
	Meta
	Addresses []string // as in the spec
	Vpcs      []string // VPCs with selected pods
	// ManagementNamespaces are the selected namespaces of the management VPC. A project has one, of the same name.
	ManagementNamespaces []string
	UnservedPods         PodSample // selected pods of other VPCs, and on other subnets of the management VPC
	// EligibleNodes are the nodes that may hold the addresses; nil: any.
	EligibleNodes map[string]bool
	// RebalanceRequested is the last request to move its addresses to nodes with fewer, and Rebalanced the last one
	// that was completed.
	RebalanceRequested, Rebalanced string
	Malformed
}

// PodSample is a number of pods, and the first few of them as namespace/name, because there may be many thousands.
type PodSample struct {
	Number int
	First  []string
}

// MaxNamedPods is the number of pods that PodSample names.
const MaxNamedPods = 3

// AddPod adds a pod by its namespace/name.
func (p *PodSample) AddPod(name string) {
	p.Number++
	if i, _ := slices.BinarySearch(p.First, name); i < MaxNamedPods {
		p.First = slices.Insert(p.First, i, name)
		p.First = p.First[:min(len(p.First), MaxNamedPods)]
	}
}

// String returns the names and the number of further pods.
func (p PodSample) String() string {
	names := strings.Join(p.First, ", ")
	if more := p.Number - len(p.First); more > 0 {
		return fmt.Sprintf("%s and %d more", names, more)
	}
	return names
}

// Node is a node that may hold egress addresses.
type Node struct {
	// Dead is set if the controller's health checks get no answer.
	Dead          bool
	Name, Chassis string
	Ready         bool
	Draining      bool // it has to hand over its addresses
	Addresses     []netip.Addr
}

// Selection is the pods of a shard that an EgressIP selects.
type Selection struct {
	EgressIP string
	Created  time.Time
	FailOpen bool // if no address is available, the pods use the default egress
	Pods     []netip.Addr
	// Subnets are those of the selected namespaces in the management VPC, besides the first.
	Subnets []string
	// Addresses are the EgressIP's, and Links the links to those that are available.
	Addresses []netip.Addr
	Links     []EgressLink
}

// EgressLink is the link from a VPC's router to an egress address.
type EgressLink struct {
	Address     netip.Addr
	PeerNetwork netip.Prefix // network of the egress router's end, with its address
}

// EgressService requests that the pods behind the Service of the same name leave with the Service's address, or through
// its network.
type EgressService struct {
	Meta
	ByNetwork bool   // source address: the router's address on the network
	Network   string // name or type; empty: the network of the Service's address
}

// EgressRoute requests that pods reach some destinations through another network.
type EgressRoute struct {
	Meta
	Type, Network string // the network's type, or its name
	Destinations  []netip.Prefix
	Pods          []PodPlacement
	Malformed
}

// PodPlacement is an address of a pod, and the node that it runs on.
type PodPlacement struct {
	Address netip.Addr
	Node    string
}
