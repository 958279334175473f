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
type ExternalNetworkSpec struct {
	// The type under which tenants ask for the network, such as "cloud" or "public". Several networks may have the same type;
	// an address is then taken from the one with the most free addresses.
	// +kubebuilder:validation:XValidation:rule="self != ''",message="type must not be empty: write the word under which tenants ask for the network, such as cloud or public"
	Type v1.NetworkType `json:"type"`

	// Whether this network is used where nothing else is asked for. At most one is.
	// +optional
	Default bool `json:"default,omitempty"`

	// The names of the Kube-OVN Subnets that the addresses are from. Each belongs to one ExternalNetwork.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +listType=set
	Subnets []string `json:"subnets"`

	// How replies find back to this network where it is not the project's default. Connection: by the connection, so that a pod
	// answers on several networks and its own traffic keeps the project's default. Source: by the pod's address, for engines too
	// old for that (OVN before 24.09); everything that the target of a floating IP sends then leaves by this network. Empty: as
	// the controller was told, Connection unless it was told otherwise.
	// +optional
	ReturnPath ReturnPath `json:"returnPath,omitempty"`
}

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
