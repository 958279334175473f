// Package kubeovn is the few fields of Kube-OVN's objects that we read or write.
//
// What we want is written from the same types as what is there is read into, so both have one form as JSON. That is
// also why every field is left out when it is empty: Kube-OVN fills such fields in, and then they are its own.
package kubeovn

import (
	"cmp"
	"net/netip"

	"github.com/sallyport/sallyport/internal/model/ipfamily"
)

// ConditionReady is the condition of a Subnet that Kube-OVN has finished.
const ConditionReady = "Ready"

// LogicalSwitchAnnotation is the annotation by which Kube-OVN notes on a namespace in which Subnets its pods get
// addresses, with commas.
const LogicalSwitchAnnotation = "ovn.kubernetes.io/logical_switch"

// Namespace is where Kube-OVN runs, and what it runs for VPCs, such as their DNS and NAT gateways.
const Namespace = "kube-system"

// ManagementVpc and ManagementSubnet are what Kube-OVN makes for itself, for the pods of all namespaces that have no
// Subnet of their own.
const (
	ManagementVpc    = "ovn-cluster"
	ManagementSubnet = "ovn-default"
)

// Provider is the provider of Subnets for the first interface of pods; so is an empty one.
const Provider = "ovn"

// ExternalVpcLabel is the label of Vpcs that Kube-OVN created for routers that it does not know.
const ExternalVpcLabel = "ovn.kubernetes.io/vpc_external"

// JoinSubnet is the Subnet between nodes and pods of that VPC.
const JoinSubnet = "join"

// Of nodes: the label of those that may hold gateways, and the annotation with the name of their chassis.
const (
	GatewayLabel      = "ovn.kubernetes.io/external-gw"
	ChassisAnnotation = "ovn.kubernetes.io/chassis"
)

// GatewayConfigMap is the ConfigMap, in Kube-OVN's namespace, that lists the nodes that hold gateways.
const GatewayConfigMap = "ovn-external-gw-config"

// EgressGatewayPolicyKey is the key in the external_ids of a router policy with which Kube-OVN marks those of its own
// egress gateways. It leaves such policies alone when it compares a router with its Vpc's list.
const EgressGatewayPolicyKey = "vpc-egress-gateway"

// IPAddressAnnotation is the annotation by which Kube-OVN notes on a pod which addresses it gives it, with commas,
// before the pod starts.
const IPAddressAnnotation = "ovn.kubernetes.io/ip_address"

// VpcSpec is a router with its shared lists.
type VpcSpec struct {
	Namespaces           []string      `json:"namespaces,omitempty"`
	EnableExternal       bool          `json:"enableExternal,omitempty"`
	ExtraExternalSubnets []string      `json:"extraExternalSubnets,omitempty"`
	StaticRoutes         []StaticRoute `json:"staticRoutes,omitempty"`
	PolicyRoutes         []PolicyRoute `json:"policyRoutes,omitempty"`
}

// StaticRoute is an element of a Vpc's staticRoutes.
type StaticRoute struct {
	Policy     string `json:"policy,omitempty"`
	CIDR       string `json:"cidr,omitempty"`
	NextHopIP  string `json:"nextHopIP,omitempty"`
	ECMPMode   string `json:"ecmpMode,omitempty"`
	BfdID      string `json:"bfdId,omitempty"`
	RouteTable string `json:"routeTable,omitempty"`
}

// PolicyRoute is an element of a Vpc's policyRoutes.
type PolicyRoute struct {
	Priority  int    `json:"priority,omitempty"`
	Match     string `json:"match,omitempty"`
	Action    string `json:"action,omitempty"`
	NextHopIP string `json:"nextHopIP,omitempty"`
}

// VpcStatus is what Kube-OVN made of a Vpc. Standby means, against its name, that the router exists.
type VpcStatus struct {
	Standby              bool     `json:"standby,omitempty"`
	Router               string   `json:"router,omitempty"`
	EnableExternal       bool     `json:"enableExternal,omitempty"`
	ExtraExternalSubnets []string `json:"extraExternalSubnets,omitempty"`
	Subnets              []string `json:"subnets,omitempty"`
}

// SubnetSpec is a logical switch with its addresses. In a Subnet for two families, CIDRBlock and Gateway are lists with
// commas.
type SubnetSpec struct {
	Vpc        string   `json:"vpc,omitempty"`
	Protocol   string   `json:"protocol,omitempty"`
	CIDRBlock  string   `json:"cidrBlock,omitempty"`
	Gateway    string   `json:"gateway,omitempty"`
	ExcludeIps []string `json:"excludeIps,omitempty"`
	Namespaces []string `json:"namespaces,omitempty"`
	Provider   string   `json:"provider,omitempty"`
	Vlan       string   `json:"vlan,omitempty"`
	MTU        int      `json:"mtu,omitempty"`
	// NatOutgoing lets nodes translate what pods of the default VPC send outside.
	NatOutgoing bool `json:"natOutgoing,omitempty"`
}

// SubnetStatus is how many addresses are left. They are numbers of any size, and of more than 64 bits for IPv6.
type SubnetStatus struct {
	Conditions     []Condition `json:"conditions,omitempty"`
	V4AvailableIPs float64     `json:"v4availableIPs,omitempty"`
	V4UsingIPs     float64     `json:"v4usingIPs,omitempty"`
	V4UsingIPRange string      `json:"v4usingIPrange,omitempty"`
	V6AvailableIPs float64     `json:"v6availableIPs,omitempty"`
	V6UsingIPs     float64     `json:"v6usingIPs,omitempty"`
}

// IsReady says whether Kube-OVN has made the logical switch.
func (s SubnetStatus) IsReady() bool {
	for _, c := range s.Conditions {
		if c.Type == ConditionReady {
			return c.Status == "True"
		}
	}
	return false
}

// Condition is one condition of a Subnet.
type Condition struct {
	Type    string `json:"type,omitempty"`
	Status  string `json:"status,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// ExternalFamily is the family of the addresses that Kube-OVN gives on external networks and translates: see the quirk
// IPv4ExternalAddressesOnly.
const ExternalFamily = ipfamily.V4

// Addresses are an address of each family, as OvnEips and OvnFips have them.
type Addresses struct {
	V4Ip string `json:"v4Ip,omitempty"`
	V6Ip string `json:"v6Ip,omitempty"`
}

// NewAddresses returns one address in the field of its family; none: an invalid one.
func NewAddresses(a netip.Addr) Addresses {
	switch {
	case !a.IsValid():
		return Addresses{}
	case ipfamily.Of(a) == ipfamily.V4:
		return Addresses{V4Ip: a.String()}
	default:
		return Addresses{V6Ip: a.String()}
	}
}

// External returns the text of the address of ExternalFamily; empty: none.
func (a Addresses) External() string {
	if ExternalFamily == ipfamily.V4 {
		return a.V4Ip
	}
	return a.V6Ip
}

// First returns the text of the first address; empty: none.
func (a Addresses) First() string { return cmp.Or(a.V4Ip, a.V6Ip) }

// SubnetProtocol returns the protocol of a Subnet by its prefixes.
func SubnetProtocol(prefixes []netip.Prefix) string {
	if len(prefixes) != 1 {
		return "Dual"
	}
	return ipfamily.Of(prefixes[0].Addr()).String()
}

// OvnEipSpec is an external address. Type is nat or lrp: the address of a router port.
type OvnEipSpec struct {
	ExternalSubnet string `json:"externalSubnet,omitempty"`
	Addresses      `json:",inline"`
	MacAddress     string `json:"macAddress,omitempty"`
	Type           string `json:"type,omitempty"`
}

// OvnEipStatus is the address that was given. Nat lists what uses it, with commas: fip, snat, dnat.
type OvnEipStatus struct {
	Ready      bool `json:"ready,omitempty"`
	Addresses  `json:",inline"`
	MacAddress string `json:"macAddress,omitempty"`
	Type       string `json:"type,omitempty"`
	Nat        string `json:"nat,omitempty"`
}

// OvnFipSpec is a 1:1 translation. With vpc and an address it does not matter to Kube-OVN whose address that is.
type OvnFipSpec struct {
	OvnEip    string `json:"ovnEip,omitempty"`
	Vpc       string `json:"vpc,omitempty"`
	Addresses `json:",inline"`
	// Type of others' objects: centralized or distributed. Ours have none, which is centralized.
	Type string `json:"type,omitempty"`
}

// OvnDnatRuleSpec is the translation of one port. We write none.
type OvnDnatRuleSpec struct {
	OvnEip string `json:"ovnEip,omitempty"`
	Vpc    string `json:"vpc,omitempty"`
}

// OvnDnatRuleStatus is that translation as Kube-OVN wrote it.
type OvnDnatRuleStatus struct {
	Vpc string `json:"vpc,omitempty"`
}

// OvnFipStatus is the translation as Kube-OVN wrote it to OVN, once.
type OvnFipStatus struct {
	Ready bool   `json:"ready,omitempty"`
	Vpc   string `json:"vpc,omitempty"`
	V4Eip string `json:"v4Eip,omitempty"`
	V6Eip string `json:"v6Eip,omitempty"`

	Addresses `json:",inline"`
}

// OvnSnatRuleSpec is the translation of what leaves a subnet.
type OvnSnatRuleSpec struct {
	OvnEip    string `json:"ovnEip,omitempty"`
	VpcSubnet string `json:"vpcSubnet,omitempty"`
}

// OvnSnatRuleStatus is the translation as Kube-OVN wrote it to OVN, once.
type OvnSnatRuleStatus struct {
	Ready    bool   `json:"ready,omitempty"`
	Vpc      string `json:"vpc,omitempty"`
	V4Eip    string `json:"v4Eip,omitempty"`
	V6Eip    string `json:"v6Eip,omitempty"`
	V4IpCidr string `json:"v4IpCidr,omitempty"`
	V6IpCidr string `json:"v6IpCidr,omitempty"`
}

// VlanSpec is a VLAN of a provider network.
type VlanSpec struct {
	ID       int    `json:"id,omitempty"`
	Provider string `json:"provider,omitempty"`
}

// ProviderNetworkSpec is the interface of nodes that leads to a network outside, and that of nodes on which it is
// another one.
type ProviderNetworkSpec struct {
	DefaultInterface string            `json:"defaultInterface,omitempty"`
	CustomInterfaces []CustomInterface `json:"customInterfaces,omitempty"`
	ExcludeNodes     []string          `json:"excludeNodes,omitempty"`
}

// ProviderNetworkStatus is on which nodes Kube-OVN has connected a provider network.
type ProviderNetworkStatus struct {
	Ready         bool     `json:"ready,omitempty"`
	ReadyNodes    []string `json:"readyNodes,omitempty"`
	NotReadyNodes []string `json:"notReadyNodes,omitempty"`
}

// CustomInterface is an interface of some nodes.
type CustomInterface struct {
	Interface string   `json:"interface,omitempty"`
	Nodes     []string `json:"nodes,omitempty"`
}

// AttachmentSpec is a NetworkAttachmentDefinition: a CNI configuration as JSON text.
type AttachmentSpec struct {
	Config string `json:"config,omitempty"`
}
