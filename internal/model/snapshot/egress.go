package snapshot

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// EgressInput is everything that decides about which node holds which egress address.
type EgressInput struct {
	EgressIPs []EgressIP
	// Nodes are those that may hold egress addresses.
	Nodes           []Node
	ExternalSubnets []ExternalSubnet
	// Engine is what Kube-OVN made of our objects, and Holders says who has an address that is asked for: the name of
	// an OvnEip.
	Engine        Engine
	AddressOwners map[netip.Addr]AddressOwner

	// PortNetworks are the networks of the egress router's ports, Held the chassis that may hold them, the first first,
	// and Ends the other ends of its links, which VPCs make: all by name.
	PortNetworks  map[string]netip.Prefix
	ChassisGroups map[string]HAChassisGroup
	PeerPorts     map[string]bool
	// FailedOverTo are the chassis to which the engine itself has moved ports, because the one that was to hold them is
	// not there: by port.
	FailedOverTo map[string]string
	// FailedOverFrom are the chassis from which it has moved ports a short time ago: by port.
	FailedOverFrom map[string]string

	// AllowedMoves is how many addresses may go to nodes that hold fewer, without a request.
	AllowedMoves int

	// BFDInterval is how often nodes ask each other whether they are there; 0: as the engine does. Settings are the
	// names of those that the engine has, and whether they are ours.
	BFDInterval   time.Duration
	GlobalOptions map[string]bool
}

// HAChassisGroup is the chassis that may hold a port, the first first, and the EgressIP that asked for it.
type HAChassisGroup struct {
	Chassis  []string
	EgressIP string
}

// EgressIP is a request for addresses that selected pods leave with.
type EgressIP struct {
	Meta
	Addresses           []string  // as they were written
	Vpcs                []string  // that it selects pods of
	PodsOutsideProjects PodSample // that it selects and that are of no project
	// EligibleNodes are those that may hold the addresses; nil: any.
	EligibleNodes map[string]bool
	// RebalanceRequested is the last request that its addresses go to nodes with fewer, and Rebalanced the last that
	// was carried out.
	RebalanceRequested, Rebalanced string
	Malformed
}

// PodSample is how many pods there are, and the first few of them as namespace/name: there may be many thousand.
type PodSample struct {
	Number int
	First  []string
}

// MaxNamedPods is how many pods are named.
const MaxNamedPods = 3

// AddPod adds a pod by its namespace and name.
func (p *PodSample) AddPod(name string) {
	p.Number++
	if i, _ := slices.BinarySearch(p.First, name); i < MaxNamedPods {
		p.First = slices.Insert(p.First, i, name)
		p.First = p.First[:min(len(p.First), MaxNamedPods)]
	}
}

// String is their names, and how many more there are.
func (p PodSample) String() string {
	names := strings.Join(p.First, ", ")
	if more := p.Number - len(p.First); more > 0 {
		return fmt.Sprintf("%s and %d more", names, more)
	}
	return names
}

// Node is a node that may hold egress addresses.
type Node struct {
	Name, Chassis string
	Ready         bool
	Draining      bool // it is to hand over what it holds
	Addresses     []netip.Addr
}

// Selection is the pods of a shard that an EgressIP selects.
type Selection struct {
	EgressIP string
	Created  time.Time
	FailOpen bool // without an address, they leave as other pods do
	Pods     []netip.Addr
	// Addresses are the EgressIP's, and Links the ways to those that are there.
	Addresses []netip.Addr
	Links     []EgressLink
}

// EgressLink is the way from a VPC's router to an egress address.
type EgressLink struct {
	Address     netip.Addr
	PeerNetwork netip.Prefix // of the far end, with its address
}

// EgressService is a request that the pods behind the Service of its name leave with the Service's address, or by its
// network.
type EgressService struct {
	Meta
	ByNetwork bool   // with the project's own address there
	Network   string // by name or type; empty: that of the Service's address
}

// EgressRoute is a request that pods leave to some destinations by another network.
type EgressRoute struct {
	Meta
	Type, Network string // the network by type, or by name
	Destinations  []netip.Prefix
	Pods          []PodPlacement
	Malformed
}

// PodPlacement is an address of a pod, and the node that it runs on.
type PodPlacement struct {
	Address netip.Addr
	Node    string
}
