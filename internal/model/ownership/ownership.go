// Package ownership is every claim that Sallyport makes on systems it shares with others.
//
// What is not claimed here is somebody else's and is never changed.
package ownership

import (
	"hash/fnv"
	"strings"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
)

// Kubernetes: an object is ours when it has both labels; a field of it is ours when our field manager applied it.
const (
	FieldManager = "sallyport"
	// StatusManager applies the status of our own kinds, so that spec and status have different owners.
	StatusManager = "sallyport-status"

	ManagedByLabel = "app.kubernetes.io/managed-by"
	ManagedBy      = "sallyport"
	// ShardLabel names the VPC that an object belongs to: the unit in which we read and write.
	ShardLabel = "kube-dc.com/vpc"

	// Finalizer is on every Project, EIp and FIp that we have written something for.
	Finalizer = "kube-dc.com/sallyport"

	// OriginAnnotation on an object of ours names the API object that asked for it: kind/namespace/name.
	OriginAnnotation = "kube-dc.com/asked-by"

	// ReminderAnnotation on an object that was deleted and does not go is when Kube-OVN was last reminded of it.
	ReminderAnnotation = "kube-dc.com/reminded-at"
)

// The chart labels the pods of the agents so.
const (
	AgentLabel = "app.kubernetes.io/name"
	AgentName  = "sallyport-agent"
)

// ManagedLabels are what marks an object of a shard as ours.
func ManagedLabels(shard string) map[string]string {
	return map[string]string{ManagedByLabel: ManagedBy, ShardLabel: shard}
}

// IsManagedObject says whether an object's labels make it ours.
func IsManagedObject(labels map[string]string) bool {
	return labels[ManagedByLabel] == ManagedBy && labels[ShardLabel] != ""
}

// OVN northbound database: a row is ours when its external_ids have these keys.
const (
	RowOwnerKey = "sallyport-owner" // the API object that asked: kind/namespace/name
	RowShardKey = "sallyport-vpc"
	// RowParentKey names the switch or port group that a row is in. In the database only they say so, in their sets.
	RowParentKey = "sallyport-in"

	// RowVendorKey tells rows of tables in which we read only our own. Kube-OVN uses the key as well, with a value of
	// its own.
	RowVendorKey = "vendor"
	RowVendor    = "sallyport"
)

// NBGlobalOptionPrefix and the name of a setting of the whole engine is the key in the external_ids of its one row that
// marks it as ours.
const NBGlobalOptionPrefix = "sallyport-setting-"

// OnLinkLoopbackPort is the name of the port by which a router is linked with itself. A row that can't carry
// external_ids is ours when it belongs to this port.
func OnLinkLoopbackPort(router string) string { return router + "-onlink" }

// MACPrefix is how the MAC addresses of our ports begin: locally administered, of one host. A MAC binding has no
// external_ids; it is ours when its port is, or when the port is gone and it has such an address.
const MACPrefix = "0a:5a:"

// ReturnTablePrefix is how the names of the routing tables begin that we give to ports of Kube-OVN's.
const ReturnTablePrefix = "return-"

// PriorityBand is a range of router policy priorities, both ends included.
type PriorityBand struct {
	First, Last int
	Purpose     string
	// OnManagementVPC: it is ours on Kube-OVN's own VPC, too, where operators may use all others.
	OnManagementVPC bool
}

// Priorities of router policies. OVN's maximum is 32767; Kube-OVN's own numbers are 29000–29500, 30050, 30060, 30100
// and 31000 on a VPC of ours (30000 only on its default VPC).
const (
	DefaultEgress          = 1000 // pods → default network's gateway
	DefaultEgressOnLink    = 1010 // pods → neighbours on the default network's own prefix
	EgressFailClosed       = 1800 // pods that nobody has looked at yet → nowhere, where an EgressIP fails closed
	EgressUnselected       = 1900 // pods that no EgressIP selects → default network's gateway
	EgressUnselectedOnLink = 1910 // and → neighbours on the default network's own prefix
	EgressIPSelected       = 2000 // pods that an EgressIP selects → its addresses
	EgressServiceBackends  = 2100 // pods behind an EgressService → its network's gateway
	EgressServiceOnLink    = 2110 // and → neighbours on that network's own prefix
	EgressRouteFirst       = 3000 // pods that an EgressRoute selects → its network's gateway: see EgressRoutePriority
	EgressRouteLast        = EgressRouteFirst + 33*prioritiesPerPrefixLength - 1
	Reach                  = 29900 // pods of the management VPC → hosts on its network's own prefix
	ReachOnLink            = 29901 // the same, once they are on their way there
	ReturnFIP              = 30000 // a floating IP's pod → its network's gateway
	ReturnFIPOnLink        = 30001 // a floating IP's pod → neighbours on its network's own prefix
	ReturnReply            = 30010 // replies of a connection → the leg of its network
	ReturnLeave            = 30011 // what comes by a leg → its network's gateway
	ReturnForged           = 31100 // what pods send to a leg themselves → nowhere
)

// PriorityBands are the priorities in which every element of a project's Vpc is ours.
var PriorityBands = []PriorityBand{
	{DefaultEgress, DefaultEgressOnLink, "default way out", false},
	{EgressFailClosed, EgressServiceOnLink, "the ways out by egress addresses, and beside them", false},
	{EgressRouteFirst, EgressRouteLast, "the ways out by destination", false},
	{ReturnFIP, ReturnFIPOnLink, "replies of floating IPs on secondary networks, by the pod's address", false},
	{ReturnReply, ReturnLeave, "replies on secondary networks, by the connection", true},
	{Reach, ReachOnLink, "pods of the management VPC to hosts on its network", true},
	{ReturnForged, ReturnForged, "packets that pods may not send", true},
}

// Marks of packets inside a project's router and switch, and labels of connections there: numbers that others are
// unlikely to use. They never leave the node.
const (
	ForgedMark          = 0x53600000 // packets that a pod may not send
	NetworkMarkBase     = 0x53500000 // a network's number is added
	NetworkMarkBits     = 20
	DefaultNetworkLabel = 0x53600001 // connections that came in by the default network, or from inside
)

// The ACLs that write labels: the first passes whatever came in, the last allows what no ACL in between has decided
// about.
const (
	LabelTier     = 1
	LabelPriority = 100
	LabelLastTier = 3
)

// The ACLs that drop what the ports of pods send and get that are where they do not belong: before all others.
// Kube-OVN's are in tiers 1 to 3, and 32767 is OVN's highest priority.
const (
	IsolationTier     = 0
	IsolationPriority = 32767
)

// The ACLs that drop what somebody may not send, in the first tier: by isolation of an ExternalNetwork, by
// loadBalancerSourceRanges of a Service, and by allow-lists of a Project. The priority above each of the last two is
// for what they let pass.
const (
	NetworkIsolationPriority = 110
	SourceRangePriority      = 100
	AllowListPriority        = 90
)

// NetworkMark is what stands for a network in marks and labels, unless two networks of one project have the same.
func NetworkMark(network string) int {
	return NetworkMarkBase + int(HashName(network)&(1<<NetworkMarkBits-1))
}

// HashName is a number that follows from a text.
func HashName(text string) uint32 {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(text)) // never fails
	return hash.Sum32()
}

// ReturnRouterPort is the router's end of a leg: the second way between a project's switch and its router, one for each
// secondary network. Kube-OVN names ports router-switch and switch-router.
func ReturnRouterPort(router, subnet, network string) string {
	return router + "-" + subnet + "-return-" + network
}

// ReturnSwitchPort is the other end of a leg.
func ReturnSwitchPort(router, subnet, network string) string {
	return subnet + "-" + router + "-return-" + network
}

// ReturnPortGroup is the port group of a leg. OVN allows no hyphen in its name, Kubernetes no underscore in the others.
func ReturnPortGroup(subnet, network string) string {
	return strings.ReplaceAll("sallyport."+subnet+"."+network, "-", "_")
}

// ReturnTargetSet is the address set of the targets of floating IPs behind a leg.
func ReturnTargetSet(subnet, network string) string {
	return ReturnPortGroup(subnet, network) + ".targets"
}

// SourceRangePortGroup is the port group of a port on a switch that carries the rules on who may reach a load balancer.
func SourceRangePortGroup(port string) string {
	return strings.ReplaceAll("sallyport."+port+".ranges", "-", "_")
}

// IsolationPortGroup is the port group of the ports that a project's isolation is about. The names of the other groups
// begin with "sallyport." and so can't be the same.
func IsolationPortGroup(subnet string) string {
	return strings.ReplaceAll("sallyport-isolation."+subnet, "-", "_")
}

// HairpinRouterPort is the router's end of the turn: by it replies go once more through a project's switch, into the
// leg of their network.
func HairpinRouterPort(router, subnet string) string { return router + "-" + subnet + "-return" }

// HairpinSwitchPort is the other end of the turn.
func HairpinSwitchPort(router, subnet string) string { return subnet + "-" + router + "-return" }

// VPCSubnetName is the subnet of a VPC whose pods have external addresses: in a project's VPC our own.
func VPCSubnetName(vpc string) string {
	if vpc == kubeovn.ManagementVpc {
		return kubeovn.ManagementSubnet
	}
	return vpc + SubnetSuffix
}

// SubnetSuffix is how the name of a project's subnet ends; before it is that of its VPC.
const SubnetSuffix = "-default"

// IsOwnRouterPort says whether a router port has a name of ours: a port of a switch whose name begins so would have it
// too, and could not be made beside ours.
func IsOwnRouterPort(router, name string) bool {
	return name == OnLinkLoopbackPort(router) ||
		strings.HasPrefix(name, HairpinRouterPort(router, VPCSubnetName(router)))
}

// ReturnRouteTable is the routing table for what comes in by a secondary network, and by its legs.
func ReturnRouteTable(network string) string { return ReturnTablePrefix + network }

// IsOwnPriority says whether router policies of a priority are ours on the router of a VPC.
func IsOwnPriority(vpc string, p int) bool {
	for _, b := range PriorityBands {
		if b.First <= p && p <= b.Last {
			return b.OnManagementVPC || vpc != kubeovn.ManagementVpc
		}
	}
	return false
}
