package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=egressservices,singular=egressservice,scope=Namespaced,shortName=egsvc,categories=sallyport
// +kubebuilder:printcolumn:name="Source",type=string,JSONPath=`.spec.sourceIPBy`
// +kubebuilder:printcolumn:name="Network",type=string,JSONPath=`.status.externalNetwork`
// +kubebuilder:printcolumn:name="External IP",type=string,JSONPath=`.status.externalIP`
// +kubebuilder:printcolumn:name="Assigned Host",type=string,JSONPath=`.status.host`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Programmed")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.status=="False")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

// EgressService lets the pods behind a Service of type LoadBalancer leave with the address of the Service, or through
// its network. It has the same name and namespace as the Service. In a namespace of the management VPC, any controller
// may have assigned the address, such as MetalLB, and pods leave through an interface of their own node: that of the
// ExternalNetwork whose nodes.addresses contain the address.
type EgressService struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Desired state.
	// +optional
	Spec EgressServiceSpec `json:"spec,omitzero"`

	// Observed state, written by the controller.
	// +optional
	Status EgressServiceStatus `json:"status,omitzero"`
}

// EgressServiceSpec is the desired state of an EgressService.
type EgressServiceSpec struct {
	// The source address of the pods' traffic. LoadBalancerIP: the address of the Service. Network: the project's
	// address on the network, or the address of the node's interface.
	// +optional
	// +kubebuilder:default=LoadBalancerIP
	SourceIPBy SourceIPBy `json:"sourceIPBy,omitempty"`

	// The external network through which the traffic leaves, by type or by name. If omitted, the network of the
	// Service's address. An address can leave only through its own network.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="network is the name of an object, of small letters, digits, '-' and '.': correct it"
	Network string `json:"network,omitempty"`

	// Accepted for compatibility with OVN-Kubernetes, and has no effect: traffic leaves through the nodes that hold the
	// gateway of the external network, for all Services.
	// +optional
	NodeSelector metav1.LabelSelector `json:"nodeSelector,omitzero"`
}

// SourceIPBy selects the source address of pods behind a Service.
//
// +kubebuilder:validation:Enum=LoadBalancerIP;Network
type SourceIPBy string

// Source addresses.
const (
	SourceLoadBalancer SourceIPBy = "LoadBalancerIP"
	SourceNetwork      SourceIPBy = "Network"
)

// EgressServiceStatus is the observed state of an EgressService.
type EgressServiceStatus struct {
	// The node through which the traffic leaves. ALL: any node that holds the gateway of the external network, as for
	// all traffic of the project on that network; in the management VPC, the node of each pod. Empty: no traffic leaves
	// with the address.
	// +optional
	Host string `json:"host"`

	// The Kube-OVN Subnet through which the traffic leaves. In the management VPC, the ExternalNetwork.
	// +optional
	ExternalNetwork string `json:"externalNetwork,omitempty"`

	// The source address of the traffic.
	// +optional
	ExternalIP string `json:"externalIP,omitempty"`

	// The generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions: Accepted, ResolvedRefs and Programmed. A false condition states the cause and the next step.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// EgressServiceList is a list of EgressServices.
//
// +kubebuilder:object:root=true
type EgressServiceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []EgressService `json:"items"`
}
