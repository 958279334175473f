package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=egressips,singular=egressip,scope=Cluster
// +kubebuilder:printcolumn:name="EgressIPs",type=string,JSONPath=`.spec.egressIPs[*]`
// +kubebuilder:printcolumn:name="Assigned Node",type=string,JSONPath=`.status.items[*].node`
// +kubebuilder:printcolumn:name="Assigned EgressIPs",type=string,JSONPath=`.status.items[*].egressIP`
// +kubebuilder:validation:XValidation:optionalOldSelf=true,fieldPath=".metadata",rule="oldSelf.hasValue() || size(self.metadata.name) <= 63",message="the name becomes part of names in OVN: choose one of at most 63 characters"

// EgressIP is the addresses with which selected pods reach what is outside. Each address is held by one node that has the label
// k8s.ovn.org/egress-assignable, and moves to another one when that node fails.
type EgressIP struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What you want.
	Spec EgressIPSpec `json:"spec"`

	// What there is. The controller writes it.
	// +optional
	Status EgressIPStatus `json:"status,omitzero"`
}

// EgressIPSpec is what an EgressIP should be.
type EgressIPSpec struct {
	// The addresses, each of an external network. With several, each connection leaves with one of them. No node holds two of them.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=45
	// +listType=atomic
	EgressIPs []string `json:"egressIPs"`

	// The namespaces whose pods are selected, by their labels.
	NamespaceSelector metav1.LabelSelector `json:"namespaceSelector"`

	// Which pods of these namespaces are selected, by their labels. Left out: all.
	// +optional
	PodSelector metav1.LabelSelector `json:"podSelector,omitzero"`

	// The nodes that may hold the addresses, by their labels. Left out: all that have the label k8s.ovn.org/egress-assignable. They need
	// that label in any case.
	// +optional
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`

	// What selected pods do while no node can hold an address. Closed: they do not reach what is outside, so that they are never seen
	// with another address, not even before the first packet was let through. Open: they leave as pods do that are not selected.
	// +optional
	// +kubebuilder:default=Closed
	FailurePolicy FailurePolicy `json:"failurePolicy,omitempty"`
}

// FailurePolicy is what happens to traffic for which there is no address.
//
// +kubebuilder:validation:Enum=Closed;Open
type FailurePolicy string

// The policies.
const (
	FailClosed FailurePolicy = "Closed"
	FailOpen   FailurePolicy = "Open"
)

// EgressIPStatus is what there is of an EgressIP.
type EgressIPStatus struct {
	// The addresses that a node holds, and the nodes.
	// +optional
	// +listType=atomic
	Items []EgressIPStatusItem `json:"items,omitempty"`

	// The value of the annotation kube-dc.com/egress-rebalance that was carried out last.
	// +optional
	Rebalanced string `json:"rebalanced,omitempty"`

	// The generation of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Accepted, ResolvedRefs and Programmed. What is false says why and what to do next.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// EgressIPStatusItem is where an address is.
type EgressIPStatusItem struct {
	// The node that holds the address.
	Node string `json:"node"`

	// The address.
	EgressIP string `json:"egressIP"`
}

// EgressIPList is a list of EgressIPs.
//
// +kubebuilder:object:root=true
type EgressIPList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []EgressIP `json:"items"`
}
