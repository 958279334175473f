package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/sallyport/sallyport/api/kubedc/v1"
)

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=egressroutes,singular=egressroute,scope=Namespaced,shortName=egrt,categories=sallyport
// +kubebuilder:printcolumn:name="Destinations",type=string,JSONPath=`.spec.destinations`
// +kubebuilder:printcolumn:name="Network",type=string,JSONPath=`.status.externalNetwork`
// +kubebuilder:printcolumn:name="External IP",type=string,JSONPath=`.status.externalIP`
// +kubebuilder:printcolumn:name="Pods",type=integer,JSONPath=`.status.pods`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Programmed")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.status=="False")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:optionalOldSelf=true,fieldPath=".metadata",rule="oldSelf.hasValue() || size(self.metadata.name) <= 63",message="the name becomes part of names in OVN: choose one of at most 63 characters"

// EgressRoute routes traffic of selected pods to some destinations through an external network other than the project's
// default network. The source address is the project's address on that network. All other traffic is unaffected. Create
// it in the namespace of your project. In a namespace of the management VPC, pods leave through an interface of their
// own node and with the address of that interface; the network must then be an ExternalNetwork with nodes.
type EgressRoute struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Desired state.
	Spec EgressRouteSpec `json:"spec"`

	// Observed state, written by the controller.
	// +optional
	Status EgressRouteStatus `json:"status,omitzero"`
}

// EgressRouteSpec is the desired state of an EgressRoute.
//
// +kubebuilder:validation:XValidation:rule="has(self.externalNetworkType) != has(self.externalNetwork)",message="name the network once: by externalNetworkType, or by externalNetwork"
type EgressRouteSpec struct {
	// Selects pods of the project, or of the namespace in the management VPC, by labels. If omitted, all pods.
	// +optional
	PodSelector metav1.LabelSelector `json:"podSelector,omitzero"`

	// The destination prefixes, such as 198.51.100.0/24. If several EgressRoutes have a prefix for a destination, the
	// longest prefix wins; for equal prefixes, the oldest EgressRoute wins.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=43
	// +kubebuilder:validation:items:XValidation:rule="isCIDR(self)",message="a destination must be a prefix such as 198.51.100.0/24: correct it; one address is a prefix of length 32"
	// +listType=set
	Destinations []string `json:"destinations"`

	// The type of the external network to use, such as "public".
	// +optional
	ExternalNetworkType v1.NetworkType `json:"externalNetworkType,omitempty"`

	// The name of the external network to use: of an ExternalNetwork or of a Kube-OVN Subnet.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="externalNetwork is the name of an object, of small letters, digits, '-' and '.': correct it"
	ExternalNetwork string `json:"externalNetwork,omitempty"`
}

// EgressRouteStatus is the observed state of an EgressRoute.
type EgressRouteStatus struct {
	// The Kube-OVN Subnet through which the traffic leaves. In the management VPC, the ExternalNetwork.
	// +optional
	ExternalNetwork string `json:"externalNetwork,omitempty"`

	// The source address of the traffic. Empty in the management VPC, where each node has its own.
	// +optional
	ExternalIP string `json:"externalIP,omitempty"`

	// The number of selected pods.
	// +optional
	Pods int32 `json:"pods,omitempty"`

	// The generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions: Accepted, ResolvedRefs and Programmed. A false condition states the cause and the next step.
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
