package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=egressips,singular=egressip,scope=Cluster,shortName=egip,categories=sallyport
// +kubebuilder:printcolumn:name="EgressIPs",type=string,JSONPath=`.spec.egressIPs[*]`
// +kubebuilder:printcolumn:name="Assigned Node",type=string,JSONPath=`.status.items[*].node`
// +kubebuilder:printcolumn:name="Assigned EgressIPs",type=string,JSONPath=`.status.items[*].egressIP`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Programmed")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.status=="False")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:optionalOldSelf=true,fieldPath=".metadata",rule="oldSelf.hasValue() || size(self.metadata.name) <= 63",message="the name becomes part of names in OVN: choose one of at most 63 characters"

// EgressIP gives selected pods fixed source addresses for traffic to the outside. Each address is held by one node with
// the label k8s.ovn.org/egress-assignable and moves to another node if that node fails.
type EgressIP struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Desired state.
	Spec EgressIPSpec `json:"spec"`

	// Observed state, written by the controller.
	// +optional
	Status EgressIPStatus `json:"status,omitzero"`
}

// EgressIPSpec is the desired state of an EgressIP.
type EgressIPSpec struct {
	// The addresses, each of an external network. With several addresses, each connection uses one of them. No node
	// holds two of them.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=45
	// +listType=atomic
	EgressIPs []string `json:"egressIPs"`

	// Selects the namespaces of the pods by labels.
	NamespaceSelector metav1.LabelSelector `json:"namespaceSelector"`

	// Selects pods of these namespaces by labels. If omitted, all pods.
	// +optional
	PodSelector metav1.LabelSelector `json:"podSelector,omitzero"`

	// Selects the nodes that may hold the addresses by labels. If omitted, all nodes with the label
	// k8s.ovn.org/egress-assignable. Nodes need that label in any case.
	// +optional
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`

	// The behaviour of selected pods while no node can hold an address. Closed: their traffic to the outside is
	// dropped, so that it never has another source address, including before the first packet was let through. Open:
	// they use the same path as pods that are not selected.
	// +optional
	// +kubebuilder:default=Closed
	FailurePolicy FailurePolicy `json:"failurePolicy,omitempty"`
}

// FailurePolicy states what happens to traffic of selected pods while no address is available.
//
// +kubebuilder:validation:Enum=Closed;Open
type FailurePolicy string

// Failure policies.
const (
	FailClosed FailurePolicy = "Closed"
	FailOpen   FailurePolicy = "Open"
)

// EgressIPStatus is the observed state of an EgressIP.
type EgressIPStatus struct {
	// The assigned addresses and the nodes that hold them.
	// +optional
	// +listType=atomic
	Items []EgressIPStatusItem `json:"items,omitempty"`

	// The value of the annotation kube-dc.com/egress-rebalance that was last carried out.
	// +optional
	Rebalanced string `json:"rebalanced,omitempty"`

	// The generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions: Accepted, ResolvedRefs and Programmed. A false condition states the cause and the next step.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// EgressIPStatusItem is the assignment of an address to a node.
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
