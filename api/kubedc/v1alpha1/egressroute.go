package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/sallyport/sallyport/api/kubedc/v1"
)

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=egressroutes,singular=egressroute,scope=Namespaced
// +kubebuilder:printcolumn:name="Destinations",type=string,JSONPath=`.spec.destinations`
// +kubebuilder:printcolumn:name="Network",type=string,JSONPath=`.status.externalNetwork`
// +kubebuilder:printcolumn:name="External IP",type=string,JSONPath=`.status.externalIP`
// +kubebuilder:printcolumn:name="Programmed",type=string,JSONPath=`.status.conditions[?(@.type=="Programmed")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:optionalOldSelf=true,fieldPath=".metadata",rule="oldSelf.hasValue() || size(self.metadata.name) <= 63",message="the name becomes part of names in OVN: choose one of at most 63 characters"

// EgressRoute leads what selected pods send to some destinations out by another external network than the project's default, with the
// project's address there. Everything else leaves as before. Write it in the namespace of your project. In a namespace of Kube-OVN's own
// VPC it leads pods out by an interface of the node that each runs on, with the interface's address: the network is an ExternalNetwork with
// nodes then.
type EgressRoute struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What you want.
	Spec EgressRouteSpec `json:"spec"`

	// What there is. The controller writes it.
	// +optional
	Status EgressRouteStatus `json:"status,omitzero"`
}

// EgressRouteSpec is what an EgressRoute should be.
//
// +kubebuilder:validation:XValidation:rule="has(self.externalNetworkType) != has(self.externalNetwork)",message="name the network once: by externalNetworkType, or by externalNetwork"
type EgressRouteSpec struct {
	// Which pods of the project, or of the namespace in Kube-OVN's own VPC, by their labels. Left out: all.
	// +optional
	PodSelector metav1.LabelSelector `json:"podSelector,omitzero"`

	// Where to: prefixes such as 198.51.100.0/24. Where several EgressRoutes have prefixes for a destination the longest one applies, and
	// of the same prefix the oldest EgressRoute's.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=43
	// +kubebuilder:validation:items:XValidation:rule="isCIDR(self)",message="a destination must be a prefix such as 198.51.100.0/24: correct it; one address is a prefix of length 32"
	// +listType=set
	Destinations []string `json:"destinations"`

	// The type of the external network to leave by, such as "public".
	// +optional
	ExternalNetworkType v1.NetworkType `json:"externalNetworkType,omitempty"`

	// The name of the external network to leave by: of an ExternalNetwork, or of a Kube-OVN Subnet.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="externalNetwork is the name of an object, of small letters, digits, '-' and '.': correct it"
	ExternalNetwork string `json:"externalNetwork,omitempty"`
}

// EgressRouteStatus is what there is of an EgressRoute.
type EgressRouteStatus struct {
	// The Kube-OVN Subnet by which the pods leave; for pods of Kube-OVN's own VPC the ExternalNetwork.
	// +optional
	ExternalNetwork string `json:"externalNetwork,omitempty"`

	// The address that they are seen with. Empty for pods of Kube-OVN's own VPC: each node has another.
	// +optional
	ExternalIP string `json:"externalIP,omitempty"`

	// How many pods are selected.
	// +optional
	Pods int32 `json:"pods,omitempty"`

	// The generation of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Accepted, ResolvedRefs and Programmed. What is false says why and what to do next.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// EgressRouteList is a list of EgressRoutes.
//
// +kubebuilder:object:root=true
type EgressRouteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []EgressRoute `json:"items"`
}
