package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=nodepaths,singular=nodepath,scope=Cluster
// +kubebuilder:printcolumn:name="Networks",type=string,JSONPath=`.spec.networks[*].name`
// +kubebuilder:printcolumn:name="Interfaces",type=string,JSONPath=`.status.networks[*].interface`
// +kubebuilder:printcolumn:name="Programmed",type=string,JSONPath=`.status.conditions[?(@.type=="Programmed")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Programmed")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

// NodePath is what the kernel of one node has to do so that what came in by an external network leaves by it. It has the node's name.
// The controller writes it, from ExternalNetworks; the agent on the node carries it out and reports.
type NodePath struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What the node has to do. The controller writes it.
	Spec NodePathSpec `json:"spec"`

	// What there is. The agent on the node writes it.
	// +optional
	Status NodePathStatus `json:"status,omitzero"`
}

// NodePathSpec is what a node has to do.
type NodePathSpec struct {
	// The external networks that the node is on.
	// +optional
	// +listType=map
	// +listMapKey=name
	Networks []NodeNetwork `json:"networks,omitempty"`
}

// NodeNetwork is an external network as one node has to serve it.
type NodeNetwork struct {
	// The name of the ExternalNetwork.
	Name string `json:"name"`

	// What stands for it on the node: in marks, and in the numbers of routing tables and rules.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=255
	Number int32 `json:"number"`

	// The interface, by name with wildcards.
	// +optional
	Interface string `json:"interface,omitempty"`

	// The interface, by MAC address.
	// +optional
	MAC string `json:"mac,omitempty"`

	// The routers there.
	// +listType=set
	Gateways []string `json:"gateways"`

	// How replies find back.
	Method NodeMethod `json:"method"`

	// The prefixes from which connections come in here (method Static).
	// +optional
	// +listType=set
	Clients []string `json:"clients,omitempty"`

	// The cluster addresses of the Services that are reached here (methods SourceRule, Mark and VRF).
	// +optional
	// +listType=set
	Services []string `json:"services,omitempty"`

	// The prefixes that are inside the cluster: of Services and pods (method VRF, and where pods leave by this network to everywhere).
	// +optional
	// +listType=set
	Inside []string `json:"inside,omitempty"`

	// The addresses of the cluster's nodes, which pods that leave by this network to everywhere reach as others do.
	// +optional
	// +listType=set
	Hosts []string `json:"hosts,omitempty"`

	// Whether the VRF has legs.
	// +optional
	Legs bool `json:"legs,omitempty"`

	// What leaves by this network though it begins here.
	// +optional
	// +listType=atomic
	Egress []NodeEgress `json:"egress,omitempty"`
}

// NodeEgress is pods that leave by a network. No two of them mean the same packet: their order does not matter.
type NodeEgress struct {
	// Who asked for it, such as "EgressRoute web/partner".
	// +optional
	By string `json:"by,omitempty"`

	// The addresses of the pods.
	// +listType=set
	Pods []string `json:"pods"`

	// Where to. None: everywhere.
	// +optional
	// +listType=set
	Destinations []string `json:"destinations,omitempty"`

	// Which of these destinations are not meant, because something else is asked for them.
	// +optional
	// +listType=set
	Except []string `json:"except,omitempty"`

	// The address that they are seen with. Empty: that of the interface.
	// +optional
	Address string `json:"address,omitempty"`
}

// NodePathStatus is what there is on a node.
type NodePathStatus struct {
	// What there is of each network.
	// +optional
	// +listType=map
	// +listMapKey=name
	Networks []NodeNetworkStatus `json:"networks,omitempty"`

	// How often something of ours was put back that somebody else had taken away, since the agent began.
	// +optional
	Repairs int64 `json:"repairs,omitempty"`

	// The generation of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// ResolvedRefs, Programmed and Undisturbed. What is false says why and what to do next.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// NodeNetworkStatus is what there is of a network on a node.
type NodeNetworkStatus struct {
	// The name of the ExternalNetwork.
	Name string `json:"name"`

	// The interface that was found.
	// +optional
	Interface string `json:"interface,omitempty"`

	// How many rules, routes, nftables objects, links and settings there are for it.
	// +optional
	Entries int64 `json:"entries,omitempty"`

	// Why it does not work, and what to do next. Empty: it does.
	// +optional
	Problem string `json:"problem,omitempty"`
}

// +kubebuilder:object:root=true

// NodePathList is a list of NodePaths.
type NodePathList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodePath `json:"items"`
}
