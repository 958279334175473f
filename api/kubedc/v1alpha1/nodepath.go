package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=nodepaths,singular=nodepath,scope=Cluster,shortName=npath,categories=sallyport
// +kubebuilder:printcolumn:name="Networks",type=string,JSONPath=`.spec.networks[*].name`
// +kubebuilder:printcolumn:name="Interfaces",type=string,JSONPath=`.status.networks[*].interface`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Programmed")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.status=="False")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

// NodePath describes what the agent sets up in the kernel of one node so that replies leave through the external
// network that the request arrived on. It has the name of the node. The controller writes it from ExternalNetworks; the
// agent on the node applies it and reports the result.
type NodePath struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Desired state of the node, written by the controller.
	Spec NodePathSpec `json:"spec"`

	// Observed state, written by the agent on the node.
	// +optional
	Status NodePathStatus `json:"status,omitzero"`
}

// NodePathSpec is the desired state of a node.
type NodePathSpec struct {
	// The external networks that the node is connected to.
	// +optional
	// +listType=map
	// +listMapKey=name
	Networks []NodeNetwork `json:"networks,omitempty"`
}

// NodeNetwork is the configuration of one external network on a node.
type NodeNetwork struct {
	// The name of the ExternalNetwork.
	Name string `json:"name"`

	// The number of the network on the node, used in marks and in the numbers of routing tables and rules.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=255
	Number int32 `json:"number"`

	// The name of the interface. It may contain wildcards.
	// +optional
	Interface string `json:"interface,omitempty"`

	// The MAC address of the interface.
	// +optional
	MAC string `json:"mac,omitempty"`

	// The gateways on this network.
	// +listType=set
	Gateways []string `json:"gateways"`

	// How replies are routed back.
	Method NodeMethod `json:"method"`

	// The prefixes of clients that connect through this network (method Static).
	// +optional
	// +listType=set
	Clients []string `json:"clients,omitempty"`

	// The cluster addresses of the Services that are reached through this network (methods SourceRule, Mark and VRF).
	// +optional
	// +listType=set
	Services []string `json:"services,omitempty"`

	// The prefixes inside the cluster, of Services and pods. Used by method VRF, and excluded from egress rules without
	// destinations.
	// +optional
	// +listType=set
	Inside []string `json:"inside,omitempty"`

	// The addresses of the cluster's nodes. They are excluded from egress rules without destinations.
	// +optional
	// +listType=set
	Hosts []string `json:"hosts,omitempty"`

	// Whether a veth pair connects the VRF with the rest of the node.
	// +optional
	Legs bool `json:"legs,omitempty"`

	// How replies are routed into the VRF (method VRF). If empty, SourceRule.
	// +optional
	Steering NodeSteering `json:"steering,omitempty"`

	// The connections of pods that leave through this network.
	// +optional
	// +listType=atomic
	Egress []NodeEgress `json:"egress,omitempty"`
}

// NodeEgress selects connections of pods that leave through a network. No two entries match the same packet, so their
// order does not matter.
type NodeEgress struct {
	// The object that requested it, such as "EgressRoute web/partner".
	// +optional
	By string `json:"by,omitempty"`

	// The addresses of the pods.
	// +listType=set
	Pods []string `json:"pods"`

	// The destination prefixes. If empty, all destinations.
	// +optional
	// +listType=set
	Destinations []string `json:"destinations,omitempty"`

	// Prefixes within these destinations that are excluded because another object covers them.
	// +optional
	// +listType=set
	Except []string `json:"except,omitempty"`

	// The source address of the connections. If empty, the address of the interface.
	// +optional
	Address string `json:"address,omitempty"`
}

// NodePathStatus is the observed state of a node.
type NodePathStatus struct {
	// The observed state of each network.
	// +optional
	// +listType=map
	// +listMapKey=name
	Networks []NodeNetworkStatus `json:"networks,omitempty"`

	// How often the agent restored something that another program had removed, since the agent started.
	// +optional
	Repairs int64 `json:"repairs,omitempty"`

	// The generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions: ResolvedRefs, Programmed and Undisturbed. A false condition states the cause and the next step.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// NodeNetworkStatus is the observed state of a network on a node.
type NodeNetworkStatus struct {
	// The name of the ExternalNetwork.
	Name string `json:"name"`

	// The name of the interface that was found.
	// +optional
	Interface string `json:"interface,omitempty"`

	// The number of rules, routes, nftables objects, links and sysctls that exist for the network.
	// +optional
	Entries int64 `json:"entries,omitempty"`

	// Why the network does not work and what to do next. Empty if it works.
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
