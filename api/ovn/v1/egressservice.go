package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=egressservices,singular=egressservice,scope=Namespaced
// +kubebuilder:printcolumn:name="Source",type=string,JSONPath=`.spec.sourceIPBy`
// +kubebuilder:printcolumn:name="Network",type=string,JSONPath=`.status.externalNetwork`
// +kubebuilder:printcolumn:name="External IP",type=string,JSONPath=`.status.externalIP`
// +kubebuilder:printcolumn:name="Assigned Host",type=string,JSONPath=`.status.host`

// EgressService lets the pods behind a Service of type LoadBalancer leave with the Service's address, or by its network. It has the name of
// the Service, and is in the same namespace. In a namespace of Kube-OVN's own VPC the address may be anybody's, such as MetalLB's, and the pods
// leave by an interface of the node that each runs on: of the ExternalNetwork whose nodes.addresses have the address.
type EgressService struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What you want.
	// +optional
	Spec EgressServiceSpec `json:"spec,omitzero"`

	// What there is. The controller writes it.
	// +optional
	Status EgressServiceStatus `json:"status,omitzero"`
}

// EgressServiceSpec is what an EgressService should be.
type EgressServiceSpec struct {
	// The address with which the pods leave. LoadBalancerIP: that of the Service. Network: the project's own on the network, or
	// that of the node's interface.
	// +optional
	// +kubebuilder:default=LoadBalancerIP
	SourceIPBy SourceIPBy `json:"sourceIPBy,omitempty"`

	// The external network by which the pods leave, by type or by name. Left out: that of the Service's address. An address can't leave by
	// another network than its own.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="network is the name of an object, of small letters, digits, '-' and '.': correct it"
	Network string `json:"network,omitempty"`

	// Which nodes the traffic may leave by. OVN-Kubernetes has it; here the nodes are those that hold the external network's gateway, for
	// all Services, and this has no effect.
	// +optional
	NodeSelector metav1.LabelSelector `json:"nodeSelector,omitzero"`
}

// SourceIPBy is which address pods behind a Service leave with.
//
// +kubebuilder:validation:Enum=LoadBalancerIP;Network
type SourceIPBy string

// The addresses.
const (
	SourceLoadBalancer SourceIPBy = "LoadBalancerIP"
	SourceNetwork      SourceIPBy = "Network"
)

// EgressServiceStatus is what there is of an EgressService.
type EgressServiceStatus struct {
	// Which node the traffic leaves by. ALL: any that holds the gateway of the external network, as all traffic of the project there does;
	// of Kube-OVN's own VPC each pod's own.
	// Empty: nothing leaves with the address.
	// +optional
	Host string `json:"host"`

	// The Kube-OVN Subnet by which the pods leave; for pods of Kube-OVN's own VPC the ExternalNetwork.
	// +optional
	ExternalNetwork string `json:"externalNetwork,omitempty"`

	// The address that they are seen with.
	// +optional
	ExternalIP string `json:"externalIP,omitempty"`

	// The generation of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Accepted, ResolvedRefs and Programmed. What is false says why and what to do next.
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
