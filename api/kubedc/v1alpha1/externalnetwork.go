package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/sallyport/sallyport/api/kubedc/v1"
)

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=externalnetworks,singular=externalnetwork,scope=Cluster,shortName=extnet,categories=sallyport
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`
// +kubebuilder:printcolumn:name="Default",type=boolean,JSONPath=`.spec.default`
// +kubebuilder:printcolumn:name="Subnets",type=string,JSONPath=`.spec.subnets`
// +kubebuilder:printcolumn:name="Used",type=integer,JSONPath=`.status.used`
// +kubebuilder:printcolumn:name="Available",type=integer,JSONPath=`.status.available`
// +kubebuilder:printcolumn:name="Return",type=string,JSONPath=`.status.returnPath`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.status=="False")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

// ExternalNetwork is a network outside the cluster from which projects get addresses. A Kube-OVN Subnet with the label
// network.kube-dc.com/external-network-type is an external network too: if no ExternalNetwork lists it, the controller
// creates one with the name of the Subnet, which shows it and follows the labels. Create another one to configure the
// network, or to group several subnets under one name; or edit the spec of the one that was created, which is yours from
// then on.
type ExternalNetwork struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Desired state.
	Spec ExternalNetworkSpec `json:"spec"`

	// Observed state, written by the controller.
	// +optional
	Status ExternalNetworkStatus `json:"status,omitzero"`
}

// ExternalNetworkSpec is the desired state of an ExternalNetwork.
//
// +kubebuilder:validation:XValidation:rule="has(self.nodes) || has(self.subnets) && size(self.subnets) > 0",message="an ExternalNetwork needs subnets, nodes or both: name the Kube-OVN Subnets that addresses are from, or say by which interface nodes reach the network"
type ExternalNetworkSpec struct {
	// The type by which tenants request the network, such as "cloud" or "public". Several networks may have the same
	// type; an address is then allocated from the one with the most free addresses.
	// +kubebuilder:validation:XValidation:rule="self != ''",message="type must not be empty: write the word under which tenants ask for the network, such as cloud or public"
	Type v1.NetworkType `json:"type"`

	// Whether this network is used if no network is requested. At most one network may be the default.
	// +optional
	Default bool `json:"default,omitempty"`

	// The Kube-OVN Subnets that addresses are allocated from. A Subnet may belong to only one ExternalNetwork. Empty
	// for a network that only nodes are connected to.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +listType=set
	Subnets []string `json:"subnets,omitempty"`

	// The Projects that may use the network: as their default network, for addresses, and for egress. The selector
	// matches the labels of the organization's namespace, where kubernetes.io/metadata.name is its name, and the label
	// kube-dc.com/project, which is the name of the Project. It may use only these two labels and labels with the
	// prefix network.kube-dc.com/, which tenants can't write. {} selects all Projects. If this field or
	// allowedNamespaces is set, only Projects and namespaces that one of them selects may use the network; if both are
	// omitted, all may. Addresses that are already allocated are kept when the selectors change.
	// +optional
	AllowedProjects *metav1.LabelSelector `json:"allowedProjects,omitempty"`

	// Additional namespaces that may use the network, of Projects and of the management VPC. The selector matches the
	// labels of the namespace and may use the same labels as allowedProjects.
	// +optional
	AllowedNamespaces *metav1.LabelSelector `json:"allowedNamespaces,omitempty"`

	// Whether projects may reach each other's addresses on this network. None: they may, like any outside host.
	// Tenants: packets to a project's addresses on this network are dropped if their source is an address of another
	// project, on this or any other external network. Every address of the Subnets counts as an address of a project
	// unless it is in excludeIps of the Subnet. List physical hosts there.
	// +optional
	// +kubebuilder:default=None
	Isolation NetworkIsolation `json:"isolation,omitempty"`

	// Addresses that all projects may reach despite isolation Tenants, such as an ingress or a DNS server. Each must be
	// in excludeIps of its Subnet, so that it is never allocated to anyone by chance. Only the namespace given here may
	// request the address in an EIp. A pod whose source is a shared address can also reach all projects.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=address
	SharedAddresses []SharedAddress `json:"sharedAddresses,omitempty"`

	// The IPv6 addresses on the wire of the network's Subnet, which has IPv4 only. Routers of projects then have an
	// address of each family, and EIps, FIps and Services may ask for IPv6. Needs exactly one Subnet. If it is removed,
	// IPv6 addresses stop working; if cidr changes, they change.
	// +optional
	IPv6 *NetworkIPv6 `json:"ipv6,omitempty"`

	// How nodes are connected to this network, and how replies are routed back through it. If omitted, the nodes are
	// not connected to the network, or need no return path on it.
	// +optional
	Nodes *NodeUplink `json:"nodes,omitempty"`

	// How replies are routed back to this network in projects for which it is not the default network. Connection: by
	// connection state, so that a pod can serve several networks while connections it initiates use the project's
	// default network. Source: by the address of the pod, for OVN before 24.09; all traffic of the target of a floating
	// IP then leaves through this network. If empty, the controller's setting applies, which is Connection by default.
	// +optional
	ReturnPath ReturnPath `json:"returnPath,omitempty"`
}

// NetworkIPv6 is the IPv6 prefix of an external network. Sallyport itself assigns its addresses; Kube-OVN does not know
// them. A router whose IPv4 address is the n-th of the Subnet has the n-th address of the prefix; no EIp gets an address
// of this part.
type NetworkIPv6 struct {
	// The prefix on the wire, such as "2001:db8:18::/64".
	// +kubebuilder:validation:MaxLength=43
	// +kubebuilder:validation:XValidation:rule="isCIDR(self) && cidr(self).ip().family() == 6",message="cidr must be an IPv6 prefix such as 2001:db8:18::/64: correct it"
	CIDR string `json:"cidr"`

	// The address of the router on the wire, such as "2001:db8:18::1".
	// +kubebuilder:validation:MaxLength=39
	// +kubebuilder:validation:XValidation:rule="isIP(self) && ip(self).family() == 6",message="gateway must be an IPv6 address such as 2001:db8:18::1: correct it"
	Gateway string `json:"gateway"`

	// The part of the prefix from which EIps get addresses, such as "2001:db8:18:0:1::/80". List nothing else there. If
	// omitted, the whole prefix except the addresses of routers.
	// +optional
	// +kubebuilder:validation:MaxLength=43
	// +kubebuilder:validation:XValidation:rule="self == '' || (isCIDR(self) && cidr(self).ip().family() == 6)",message="range must be an IPv6 prefix inside cidr: correct it, or leave it out"
	Range string `json:"range,omitempty"`
}

// NetworkIsolation states whether projects may reach each other's addresses on a network.
//
// +kubebuilder:validation:Enum=None;Tenants
type NetworkIsolation string

// Isolation modes.
const (
	IsolateNone    NetworkIsolation = "None"
	IsolateTenants NetworkIsolation = "Tenants"
)

// SharedAddress is an address that all projects may reach.
type SharedAddress struct {
	// The IPv4 address.
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:XValidation:rule="isIP(self) && ip(self).family() == 4",message="address must be an IPv4 address: correct it"
	Address string `json:"address"`

	// The namespace whose EIps may hold the address.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespace string `json:"namespace"`
}

// NodeUplink is the interface through which nodes are connected to an external network and receive connections to
// Services: to addresses that MetalLB or a router announces, to external IPs, or to node ports. Replies leave through
// the same interface.
//
// +kubebuilder:validation:XValidation:rule="has(self.interface) != has(self.mac)",message="name the interface once: by interface, or by mac"
// +kubebuilder:validation:XValidation:rule="self.method != 'Static' || has(self.clients) && size(self.clients) > 0",message="method Static needs clients: the prefixes from which connections come in here"
// +kubebuilder:validation:XValidation:rule="!(self.method in ['SourceRule', 'Mark', 'VRF']) || self.method == 'VRF' && has(self.steering) && self.steering == 'Connection' || has(self.addresses) && size(self.addresses) > 0",message="methods SourceRule, Mark and VRF need addresses: the prefixes of the Service addresses that are reached here"
// +kubebuilder:validation:XValidation:rule="!has(self.legs) || !self.legs || self.method == 'VRF'",message="legs are of method VRF: leave them out"
// +kubebuilder:validation:XValidation:rule="!has(self.steering) || self.method == 'VRF'",message="steering is of method VRF: leave it out"
type NodeUplink struct {
	// The name of the interface on the nodes, such as eth1. Wildcards such as ens*f1 are allowed; exactly one interface
	// of a node must match. The interface may appear later, and may disappear and reappear.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Interface string `json:"interface,omitempty"`

	// The MAC address of the interface, as an alternative to its name. It does not change when the interface is
	// renamed.
	// +optional
	// +kubebuilder:validation:Pattern=`^([0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}$`
	MAC string `json:"mac,omitempty"`

	// The gateways on this network, one for each IP family in use.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:items:MaxLength=45
	// +kubebuilder:validation:items:XValidation:rule="isIP(self)",message="a gateway must be an IP address: correct it"
	// +listType=set
	Gateways []string `json:"gateways"`

	// How replies are routed back. Connection: by connection marks, for any destination; recommended. Static: by routes
	// to the clients. SourceRule: by ip rules for the cluster addresses of Services. Mark: by packet marks for these
	// addresses. VRF: the interface is in a VRF, and steering states how replies are routed into it.
	// +optional
	// +kubebuilder:default=Connection
	Method NodeMethod `json:"method,omitempty"`

	// The prefixes of the Service addresses that are reached through this network, such as a MetalLB pool. Methods
	// SourceRule, Mark and VRF apply to Services with an external address in one of these prefixes, and EgressServices
	// let pods leave with such an address.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=43
	// +kubebuilder:validation:items:XValidation:rule="isCIDR(self)",message="an entry of addresses must be a prefix such as 192.168.10.0/24: correct it"
	// +listType=set
	Addresses []string `json:"addresses,omitempty"`

	// The prefixes of clients that connect through this network, for method Static.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=43
	// +kubebuilder:validation:items:XValidation:rule="isCIDR(self)",message="an entry of clients must be a prefix such as 198.51.100.0/24: correct it"
	// +listType=set
	Clients []string `json:"clients,omitempty"`

	// Whether a veth pair connects the VRF with the rest of the node. By default ip rules do, which is simpler.
	// +optional
	Legs bool `json:"legs,omitempty"`

	// How replies are routed into the VRF, for method VRF. SourceRule: by ip rules for the cluster addresses of Services.
	// Mark: by packet marks for these addresses. Connection: by connection marks, for any destination; addresses are not
	// needed. If omitted, SourceRule.
	// +optional
	Steering NodeSteering `json:"steering,omitempty"`

	// The nodes that have this interface. If omitted, all nodes.
	// +optional
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`
}

// NodeMethod states how replies are routed back to the interface that a connection arrived on.
//
// +kubebuilder:validation:Enum=Connection;Static;SourceRule;Mark;VRF
type NodeMethod string

// Methods of the return path on nodes.
const (
	NodeConnection NodeMethod = "Connection"
	NodeStatic     NodeMethod = "Static"
	NodeSourceRule NodeMethod = "SourceRule"
	NodeMark       NodeMethod = "Mark"
	NodeVRF        NodeMethod = "VRF"
)

// NodeSteering states how replies are routed into the VRF of a network.
//
// +kubebuilder:validation:Enum=SourceRule;Mark;Connection
type NodeSteering string

// Ways into a VRF.
const (
	SteerBySource     NodeSteering = "SourceRule"
	SteerByMark       NodeSteering = "Mark"
	SteerByConnection NodeSteering = "Connection"
)

// ReturnPath states how replies are routed back to the network that a connection arrived on.
//
// +kubebuilder:validation:Enum=Connection;Source
type ReturnPath string

// Return path modes.
const (
	ReturnByConnection ReturnPath = "Connection"
	ReturnBySource     ReturnPath = "Source"
)

// ExternalNetworkStatus is the observed state of an ExternalNetwork.
type ExternalNetworkStatus struct {
	// The subnets, as reported by Kube-OVN.
	// +optional
	// +listType=map
	// +listMapKey=name
	Subnets []ExternalSubnet `json:"subnets,omitempty"`

	// The number of free addresses in all subnets.
	// +optional
	Available int64 `json:"available"`

	// The number of used addresses in all subnets.
	// +optional
	Used int64 `json:"used"`

	// How replies are routed back to this network in projects for which it is not the default network.
	// +optional
	ReturnPath ReturnPath `json:"returnPath,omitempty"`

	// The generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions: Accepted, ResolvedRefs, Programmed and ReturnPath. A false condition states the cause and the next
	// step.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ExternalSubnet is the observed state of one subnet.
type ExternalSubnet struct {
	// The name of the Kube-OVN Subnet.
	Name string `json:"name"`

	// The gateway of the subnet. For dual stack, one of each family separated by a comma.
	// +optional
	Gateway string `json:"gateway,omitempty"`

	// The prefix of the subnet. For dual stack, one CIDR of each family separated by a comma.
	// +optional
	CIDR string `json:"cidr,omitempty"`

	// The number of free addresses.
	Available int64 `json:"available"`

	// The number of used addresses.
	Used int64 `json:"used"`
}

// ExternalNetworkList is a list of ExternalNetworks.
//
// +kubebuilder:object:root=true
type ExternalNetworkList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ExternalNetwork `json:"items"`
}
