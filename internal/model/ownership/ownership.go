// Package ownership is every claim that Sallyport makes on systems it shares with others.
//
// Everything else belongs to others and is never changed.
package ownership

import (
	"hash/fnv"
	"strings"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
)

// Kubernetes: an object is ours if it has both labels. A field of it is ours if our field manager applied it.
const (
	FieldManager = "sallyport"
	// StatusManager applies the status of our own kinds, so that spec and status have different owners.
	StatusManager = "sallyport-status"

	ManagedByLabel = "app.kubernetes.io/managed-by"
	ManagedBy      = "sallyport"
	// ShardLabel has the VPC that an object belongs to: the unit of reading and writing.
	ShardLabel = "kube-dc.com/vpc"

	// AdoptLabel is on an object that others created and that we may take over. Its value is the VPC whose Project takes
	// it. Operators set it with `sallyport adopt`; tenants may not write it on anything outside their namespaces.
	AdoptLabel = "network.kube-dc.com/adopt"
	// AdoptCountLabel is on a namespace with AdoptLabel. Its value is how many objects are taken over with it, with the
	// EIps and FIps there. Objects of different kinds become visible at different times, and taking over some of them would
	// interrupt the others.
	AdoptCountLabel = "network.kube-dc.com/adopt-objects"

	// Finalizer is on every Project, EIp and FIp that we have written something for.
	Finalizer = "kube-dc.com/sallyport"

	// OriginAnnotation on one of our objects has the API object that requested it: kind/namespace/name.
	OriginAnnotation = "kube-dc.com/asked-by"

	// ReminderAnnotation on an object that is stuck in deletion has the time when Kube-OVN was last triggered to
	// process it.
	ReminderAnnotation = "kube-dc.com/reminded-at"
)

// Objects of `sallyport check --run`. A run has an organization of its own: a namespace with this prefix and the id of the
// run. The label has the id, too. The annotation has the time at which the run has ended for certain.
const (
	CheckPrefix          = "sallyport-check-"
	CheckRunLabel        = "kube-dc.com/check-run"
	CheckUntilAnnotation = "kube-dc.com/check-until"
)

// Labels of the agent's pods, set by the chart.
const (
	AgentLabel = "app.kubernetes.io/name"
	AgentName  = "sallyport-agent"
)

// ManagedLabels returns the labels that mark an object of a shard as ours.
func ManagedLabels(shard string) map[string]string {
	return map[string]string{ManagedByLabel: ManagedBy, ShardLabel: shard}
}

// IsManagedObject reports whether an object is ours by its labels.
func IsManagedObject(labels map[string]string) bool {
	return labels[ManagedByLabel] == ManagedBy && labels[ShardLabel] != ""
}

// OVN northbound database: a row is ours if its external_ids have these keys.
const (
	RowOwnerKey = "sallyport-owner" // the API object: kind/namespace/name
	RowShardKey = "sallyport-vpc"
	// RowParentKey has the switch or port group that a row belongs to. In the database only their sets have this
	// relation.
	RowParentKey = "sallyport-in"
	// RowVIPOwnerPrefix and a VIP are the key under which a load balancer has the Service of the VIP, as namespace/name.
	RowVIPOwnerPrefix = "sallyport-vip-"

	// RecomputeKey is in the external_ids of a router. Its value changes when ovn-northd has to compute everything again.
	RecomputeKey = "sallyport-recompute"

	// RowVendorKey identifies our rows in tables of which we read only our own. Kube-OVN uses the same key with its own
	// value.
	RowVendorKey = "vendor"
	RowVendor    = "sallyport"
)

// NBGlobalOptionPrefix and the name of an option are the key in the external_ids of NB_Global that marks the option as
// ours.
const NBGlobalOptionPrefix = "sallyport-setting-"

// OnLinkLoopbackPort returns the name of the port that links a router to itself. Rows of tables without external_ids
// are ours if they belong to this port.
func OnLinkLoopbackPort(router string) string { return router + "-onlink" }

// MACPrefix is the prefix of the MAC addresses of our ports: locally administered, unicast. A MAC binding has no
// external_ids. It is ours if its port is, or if its port is gone and it has this prefix.
const MACPrefix = "0a:5a:"

// ReturnTablePrefix is the prefix of the routing tables that we set on ports of Kube-OVN.
const ReturnTablePrefix = "return-"

// PriorityBand is a range of router policy priorities, both ends included.
type PriorityBand struct {
	First, Last int
	Purpose     string
	// OnManagementVPC: the band is ours on Kube-OVN's default VPC too, where all others belong to operators.
	OnManagementVPC bool
}

// Priorities of router policies. OVN's maximum is 32767; Kube-OVN's own numbers are 29000–29500, 30050, 30060, 30100
// and 31000 on our VPCs (30000 only on its default VPC).
const (
	DefaultEgress          = 1000 // pods → the default network's gateway
	DefaultEgressOnLink    = 1010 // pods → neighbours on the default network's prefix
	EgressFailClosed       = 1800 // pods not classified yet → drop, if an EgressIP fails closed
	EgressLinkSource       = 1850 // on the egress router: packets from a link that are not translated → drop
	EgressUnselected       = 1900 // pods that no EgressIP selects → the default network's gateway
	EgressUnselectedOnLink = 1910 // the same pods → neighbours on the default network's prefix
	FIPOutbound            = 1950 // target of a floating IP with outbound → its network's gateway
	FIPOutboundOnLink      = 1960 // the same target → neighbours on that network's prefix
	EgressIPSelected       = 2000 // pods that an EgressIP selects → its addresses
	EgressServiceBackends  = 2100 // backends of an EgressService → its network's gateway
	EgressServiceOnLink    = 2110 // the same pods → neighbours on that network's prefix
	EgressRouteFirst       = 3000 // pods that an EgressRoute selects → its network's gateway: see EgressRoutePriority
	EgressRouteLast        = EgressRouteFirst + 129*prioritiesPerPrefixLength - 1
	Reach                  = 29900 // pods of the management VPC → hosts on its network's prefix
	ReachOnLink            = 29901 // the same packets, after the on-link loopback port
	ManagementFIP          = 29905 // target of a floating IP with outbound in the management VPC → its network's gateway
	ManagementFIPOnLink    = 29906 // the same target → neighbours on that network's prefix
	ManagementFailClosed   = 29910 // pods of the management VPC that an EgressIP selects → drop, if it fails closed
	ManagementEgressIP     = 29920 // the same pods → the EgressIP's addresses
	ReturnFIP              = 30000 // pod of a floating IP → its network's gateway
	ReturnFIPOnLink        = 30001 // pod of a floating IP → neighbours on its network's prefix
	ReturnReply            = 30010 // replies → the return port of the connection's network
	ReturnLeave            = 30011 // packets from a return port → its network's gateway
	NodeBackend            = 30020 // packets to backends on nodes of the management VPC → translation of their source
	FIPSubnets             = 31010 // target of a floating IP in the management VPC → other Subnets, despite its source route
	NodeBackendReply       = 31020 // their replies → translation back
	ReturnForged           = 31100 // packets that pods send to a return port themselves → drop
)

// PriorityBands are the bands in which every policy of a project's Vpc is ours.
var PriorityBands = []PriorityBand{
	{DefaultEgress, DefaultEgressOnLink, "default egress", false},
	{EgressFailClosed, EgressServiceOnLink, "egress addresses, and pods without one", false},
	{EgressRouteFirst, EgressRouteLast, "egress by destination", false},
	{ReturnFIP, ReturnFIPOnLink, "replies of floating IPs on secondary networks, by source address", false},
	{ReturnReply, ReturnLeave, "replies on secondary networks, by connection", true},
	{Reach, ReachOnLink, "pods of the management VPC to hosts on its network", true},
	{ManagementFIP, ManagementFIPOnLink, "outbound traffic of floating IPs in the management VPC", true},
	{ManagementFailClosed, ManagementEgressIP, "egress addresses of pods of the management VPC", true},
	{NodeBackend, NodeBackend, "packets to backends on nodes of the management VPC", true},
	{FIPSubnets, FIPSubnets, "targets of floating IPs in the management VPC to its other Subnets", true},
	{NodeBackendReply, NodeBackendReply, "replies of these backends", true},
	{ReturnForged, ReturnForged, "forged packets", true},
}

// Marks of packets and labels of connections inside a project's router and switch: numbers that others are unlikely to
// use. They never leave the node.
const (
	ForgedMark          = 0x53600000 // forged packets of a pod
	NetworkMarkBase     = 0x53500000 // plus a hash of the network's name
	NetworkMarkBits     = 20
	DefaultNetworkLabel = 0x53600001 // connections from the default network, or from inside
	NodeReturnMark      = 0x53600002 // replies to connections that came in through a node
	OwnConnectionLabel  = 0x53600003 // connections that a pod opened before it moved to this node
)

// ACLs that set labels: the first passes all packets, the last allows what no ACL in between has decided.
const (
	LabelTier     = 1
	LabelPriority = 100
	LabelLastTier = 3
)

// ACLs that drop all packets from and to misplaced pods. They take precedence over all others: Kube-OVN's are in tiers
// 1 to 3, and 32767 is OVN's highest priority.
const (
	IsolationTier     = 0
	IsolationPriority = 32767
)

// ACLs of the first tier that drop packets: those with the address of a link to an egress address, isolation of an
// ExternalNetwork, loadBalancerSourceRanges of a Service, allow-lists of a Project, and pods of the management VPC that
// are not classified yet. The priority above each of the last three is for the packets they allow.
const (
	LinkSourcePriority       = 120
	NetworkIsolationPriority = 110
	SourceRangePriority      = 100
	AllowListPriority        = 90
	UnclassifiedPodPriority  = 80
)

// NetworkMark returns the mark and label of a network, unless two networks of one project collide.
func NetworkMark(network string) int {
	return NetworkMarkBase + int(HashName(network)&(1<<NetworkMarkBits-1))
}

// HashName returns a hash of a text.
func HashName(text string) uint32 {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(text)) // never fails
	return hash.Sum32()
}

// ReturnRouterPort returns the router's end of a return port: a second connection between a project's switch and its
// router, one for each secondary network. Kube-OVN names its ports router-switch and switch-router.
func ReturnRouterPort(router, subnet, network string) string {
	return router + "-" + subnet + "-return-" + network
}

// ReturnSwitchPort returns the switch's end of a return port.
func ReturnSwitchPort(router, subnet, network string) string {
	return subnet + "-" + router + "-return-" + network
}

// ReturnPortGroup returns the port group of a return port. OVN allows no hyphen in such names, and Kubernetes no
// underscore in the names they are made of.
func ReturnPortGroup(subnet, network string) string {
	return strings.ReplaceAll("sallyport."+subnet+"."+network, "-", "_")
}

// ReturnTargetSet returns the address set of the targets of floating IPs behind a return port.
func ReturnTargetSet(subnet, network string) string {
	return ReturnPortGroup(subnet, network) + ".targets"
}

// SourceRangePortGroup returns the port group for the ACLs that limit the clients of load balancers behind a switch
// port.
func SourceRangePortGroup(port string) string {
	return strings.ReplaceAll("sallyport."+port+".ranges", "-", "_")
}

// IsolationPortGroup returns the port group of the misplaced ports of a project. The names of the other groups begin
// with "sallyport." and can't collide.
func IsolationPortGroup(subnet string) string {
	return strings.ReplaceAll("sallyport-isolation."+subnet, "-", "_")
}

// HairpinRouterPort returns the router's end of the hairpin port. The router sends replies through it back into the
// project's switch, where they enter the return port of their network.
func HairpinRouterPort(router, subnet string) string { return router + "-" + subnet + "-return" }

// HairpinSwitchPort returns the switch's end of the hairpin port.
func HairpinSwitchPort(router, subnet string) string { return subnet + "-" + router + "-return" }

// NodeReturnRouterPort returns the router's end of the port through which replies to connections that came in through a
// node enter the router again. No network can have this name: theirs follow a hyphen.
func NodeReturnRouterPort(router, subnet string) string {
	return HairpinRouterPort(router, subnet) + ".nodes"
}

// NodeReturnSwitchPort returns the switch's end of that port.
func NodeReturnSwitchPort(router, subnet string) string {
	return HairpinSwitchPort(router, subnet) + ".nodes"
}

// NodeBackendPort returns the router's port, linked to itself, through which packets from a network reach backends on
// nodes.
func NodeBackendPort(router, network string) string { return router + "-" + network + ".nodes" }

// NodeBackendSet returns the address set of these backends.
func NodeBackendSet(network string) string {
	return strings.ReplaceAll("sallyport."+network+".node.backends", "-", "_")
}

// VPCSubnetName returns the subnet of a VPC whose pods can have external addresses. In the VPC of a project it is ours.
func VPCSubnetName(vpc string) string {
	if vpc == kubeovn.ManagementVpc {
		return kubeovn.ManagementSubnet
	}
	return vpc + SubnetSuffix
}

// SubnetSuffix is the suffix of the name of a project's subnet, after the name of the VPC.
const SubnetSuffix = "-default"

// IsOwnRouterPort reports whether a router port has one of our names. A port of a switch whose name begins like ours
// would match too, and could not be created next to ours.
func IsOwnRouterPort(router, name string) bool {
	return name == OnLinkLoopbackPort(router) ||
		strings.HasPrefix(name, HairpinRouterPort(router, VPCSubnetName(router)))
}

// ReturnRouteTable returns the routing table for packets that enter through a secondary network or its return ports.
func ReturnRouteTable(network string) string { return ReturnTablePrefix + network }

// IsOwnPriority reports whether router policies with a priority are ours on the router of a VPC.
func IsOwnPriority(vpc string, p int) bool {
	for _, b := range PriorityBands {
		if b.First <= p && p <= b.Last {
			return b.OnManagementVPC || vpc != kubeovn.ManagementVpc
		}
	}
	return false
}
