package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/sallyport/sallyport/api/kubedc/v1"
)

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=externalnetworks,singular=externalnetwork,scope=Cluster,shortName=extnet
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`
// +kubebuilder:printcolumn:name="Default",type=boolean,JSONPath=`.spec.default`
// +kubebuilder:printcolumn:name="Subnets",type=string,JSONPath=`.spec.subnets`
// +kubebuilder:printcolumn:name="Available",type=integer,JSONPath=`.status.available`
// +kubebuilder:printcolumn:name="Return",type=string,JSONPath=`.status.returnPath`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

// ExternalNetwork is a network outside, from which projects take addresses. A Kube-OVN Subnet with the label
// network.kube-dc.com/external-network-type is one too and needs no ExternalNetwork; write one to put several subnets together
// under one name.
type ExternalNetwork struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What you want.
	Spec ExternalNetworkSpec `json:"spec"`

	// What there is. The controller writes it.
	// +optional
	Status ExternalNetworkStatus `json:"status,omitzero"`
}

// ExternalNetworkSpec is what an ExternalNetwork should be.
//
// +kubebuilder:validation:XValidation:rule="has(self.nodes) || has(self.subnets) && size(self.subnets) > 0",message="an ExternalNetwork needs subnets, nodes or both: name the Kube-OVN Subnets that addresses are from, or say by which interface nodes reach the network"
type ExternalNetworkSpec struct {
	// The type under which tenants ask for the network, such as "cloud" or "public". Several networks may have the same type;
	// an address is then taken from the one with the most free addresses.
	// +kubebuilder:validation:XValidation:rule="self != ''",message="type must not be empty: write the word under which tenants ask for the network, such as cloud or public"
	Type v1.NetworkType `json:"type"`

	// Whether this network is used where nothing else is asked for. At most one is.
	// +optional
	Default bool `json:"default,omitempty"`

	// The names of the Kube-OVN Subnets that the addresses are from. Each belongs to one ExternalNetwork. A network that only nodes
	// are on has none.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +listType=set
	Subnets []string `json:"subnets,omitempty"`

	// Which Projects may use the network: as their default network, for addresses, and to leave by. A selector looks at the labels of
	// the organization's namespace, of which kubernetes.io/metadata.name is its name, and at kube-dc.com/project, which is the Project's
	// name. It may name only these two and labels that begin with network.kube-dc.com/, which tenants can't write. {} selects all
	// Projects. Who is selected neither by this nor by allowedNamespaces may not use the network; when both are left out, everybody may.
	// Addresses that somebody has already stay when the selectors change.
	// +optional
	AllowedProjects *metav1.LabelSelector `json:"allowedProjects,omitempty"`

	// Which namespaces may use the network besides: those of Projects, and those of the management VPC. A selector looks at the labels
	// of the namespace, and may name the same ones.
	// +optional
	AllowedNamespaces *metav1.LabelSelector `json:"allowedNamespaces,omitempty"`

	// Whether projects reach each other's addresses on this network. None: they do, as everybody outside does. Tenants: packets to a
	// project's addresses here are dropped when they come from another project's address, on this or any other external network. Every
	// address of a network's Subnets counts as a project's unless it is in the Subnet's excludeIps: list physical hosts there.
	// +optional
	// +kubebuilder:default=None
	Isolation NetworkIsolation `json:"isolation,omitempty"`

	// Addresses that all projects reach in spite of isolation Tenants, such as those of an ingress or a DNS server. Each has to be in
	// excludeIps of its Subnet, so that nobody gets it by chance; the namespace that is named here may ask for it in an EIp. With such an
	// address as its source a pod reaches all projects, too.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=address
	SharedAddresses []SharedAddress `json:"sharedAddresses,omitempty"`

	// How nodes are on this network themselves, and how what came in there finds back. Left out: not at all, or nobody has to care.
	// +optional
	Nodes *NodeUplink `json:"nodes,omitempty"`

	// How replies find back to this network where it is not the project's default. Connection: by the connection, so that a pod
	// answers on several networks and its own traffic keeps the project's default. Source: by the pod's address, for engines too
	// old for that (OVN before 24.09); everything that the target of a floating IP sends then leaves by this network. Empty: as
	// the controller was told, Connection unless it was told otherwise.
	// +optional
	ReturnPath ReturnPath `json:"returnPath,omitempty"`
}

// NetworkIsolation is whether projects reach each other's addresses on a network.
//
// +kubebuilder:validation:Enum=None;Tenants
type NetworkIsolation string

// The choices.
const (
	IsolateNone    NetworkIsolation = "None"
	IsolateTenants NetworkIsolation = "Tenants"
)

// SharedAddress is an address that all projects reach.
type SharedAddress struct {
	// The IPv4 address.
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:XValidation:rule="isIP(self) && ip(self).family() == 4",message="address must be an IPv4 address: correct it"
	Address string `json:"address"`

	// The namespace whose EIps may have it.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespace string `json:"namespace"`
}

// NodeUplink is an interface of nodes that leads to an external network, by which connections to Services come in: to addresses that
// MetalLB or a router announces, to external IPs, or to node ports. Their replies leave by it, too.
//
// +kubebuilder:validation:XValidation:rule="has(self.interface) != has(self.mac)",message="name the interface once: by interface, or by mac"
// +kubebuilder:validation:XValidation:rule="self.method != 'Static' || has(self.clients) && size(self.clients) > 0",message="method Static needs clients: the prefixes from which connections come in here"
// +kubebuilder:validation:XValidation:rule="!(self.method in ['SourceRule', 'Mark', 'VRF']) || has(self.addresses) && size(self.addresses) > 0",message="methods SourceRule, Mark and VRF need addresses: the prefixes of the Service addresses that are reached here"
// +kubebuilder:validation:XValidation:rule="!has(self.legs) || !self.legs || self.method == 'VRF'",message="legs are of method VRF: leave them out"
type NodeUplink struct {
	// The name of the interface on the nodes, such as eth1. It may have wildcards, such as ens*f1; exactly one interface of a node has
	// to fit. It may come later, and go and come again.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Interface string `json:"interface,omitempty"`

	// Or its MAC address, which stays when the interface is renamed.
	// +optional
	// +kubebuilder:validation:Pattern=`^([0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}$`
	MAC string `json:"mac,omitempty"`

	// The routers there, one of each IP family that is used.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:items:MaxLength=45
	// +kubebuilder:validation:items:XValidation:rule="isIP(self)",message="a gateway must be an IP address: correct it"
	// +listType=set
	Gateways []string `json:"gateways"`

	// How replies find back. Connection: by the connection, whatever it is to; the right one unless you know better. Static: by routes to
	// clients. SourceRule: by rules for the cluster addresses of Services. Mark: by marks for those. VRF: the interface is in a VRF, and
	// rules for those lead there.
	// +optional
	// +kubebuilder:default=Connection
	Method NodeMethod `json:"method,omitempty"`

	// The prefixes of the Service addresses that are reached here, such as a pool of MetalLB's. Services of which an external address is
	// in one of them are meant by methods SourceRule, Mark and VRF, and EgressServices let pods leave with such an address.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=43
	// +kubebuilder:validation:items:XValidation:rule="isCIDR(self)",message="an entry of addresses must be a prefix such as 192.168.10.0/24: correct it"
	// +listType=set
	Addresses []string `json:"addresses,omitempty"`

	// The prefixes from which connections come in here, for method Static.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=43
	// +kubebuilder:validation:items:XValidation:rule="isCIDR(self)",message="an entry of clients must be a prefix such as 198.51.100.0/24: correct it"
	// +listType=set
	Clients []string `json:"clients,omitempty"`

	// Whether the VRF and the rest of the node are connected by a pair of veth interfaces. Without, which is simpler, rules do it.
	// +optional
	Legs bool `json:"legs,omitempty"`

	// Which nodes have such an interface. Left out: all.
	// +optional
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`
}

// NodeMethod is how replies find back to the interface that a connection came in by.
//
// +kubebuilder:validation:Enum=Connection;Static;SourceRule;Mark;VRF
type NodeMethod string

// The methods.
const (
	NodeConnection NodeMethod = "Connection"
	NodeStatic     NodeMethod = "Static"
	NodeSourceRule NodeMethod = "SourceRule"
	NodeMark       NodeMethod = "Mark"
	NodeVRF        NodeMethod = "VRF"
)

// ReturnPath is how replies find back to the network that a connection came in on.
//
// +kubebuilder:validation:Enum=Connection;Source
type ReturnPath string

// The ways back.
const (
	ReturnByConnection ReturnPath = "Connection"
	ReturnBySource     ReturnPath = "Source"
)

// ExternalNetworkStatus is what there is of an ExternalNetwork.
type ExternalNetworkStatus struct {
	// Its subnets, as Kube-OVN reports them.
	// +optional
	// +listType=map
	// +listMapKey=name
	Subnets []ExternalSubnet `json:"subnets,omitempty"`

	// How many addresses are free, in all subnets together.
	// +optional
	Available int64 `json:"available"`

	// How many addresses are used, in all subnets together.
	// +optional
	Used int64 `json:"used"`

	// How replies find back to this network where it is not the project's default.
	// +optional
	ReturnPath ReturnPath `json:"returnPath,omitempty"`

	// The generation of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Accepted, ResolvedRefs, Programmed and ReturnPath. What is false says why and what to do next.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ExternalSubnet is what there is of one subnet.
type ExternalSubnet struct {
	// The name of the Kube-OVN Subnet.
	Name string `json:"name"`

	// The gateway that leads outside; for two families one of each with a comma between.
	// +optional
	Gateway string `json:"gateway,omitempty"`

	// Its addresses; for two families one CIDR of each with a comma between.
	// +optional
	CIDR string `json:"cidr,omitempty"`

	// How many addresses are free.
	Available int64 `json:"available"`

	// How many addresses are used.
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
