package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=inspections,singular=inspection,scope=Cluster
// +kubebuilder:selectablefield:JSONPath=`.spec.node`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.spec.node`
// +kubebuilder:printcolumn:name="Answered",type=date,JSONPath=`.status.time`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

// Inspection is a question to one node about itself. The agent there answers once, in its status, within seconds; one that is older than some
// minutes it leaves alone. Whoever asked deletes it; `sallyport doctor`, `trace` and `top` do.
type Inspection struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What is asked. It can't be changed: ask again instead.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a question can't be changed; create another Inspection"
	Spec InspectionSpec `json:"spec"`

	// The answer. The agent on the node writes it.
	// +optional
	Status InspectionStatus `json:"status,omitzero"`
}

// InspectionSpec is a question. Interfaces and settings are answered in any case.
type InspectionSpec struct {
	// The node that is asked.
	// +kubebuilder:validation:MinLength=1
	Node string `json:"node"`

	// Who answers for these addresses on the wire. The node itself is not asked: neither its kernel, nor its Open vSwitch.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Neighbours []NeighbourQuestion `json:"neighbours,omitempty"`

	// Which way the kernel takes.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Routes []RouteQuestion `json:"routes,omitempty"`

	// Which connections Open vSwitch tracks between these addresses: at most 64 for each question.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Connections []ConnectionQuestion `json:"connections,omitempty"`

	// How many connections that Open vSwitch tracks use these addresses.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	Usage []string `json:"usage,omitempty"`
}

// NeighbourQuestion asks who has an address.
type NeighbourQuestion struct {
	// The interface that leads to the wire.
	Interface string `json:"interface"`

	// The VLAN there. 0: none.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4094
	Vlan int32 `json:"vlan,omitempty"`

	// The address, IPv4 or IPv6.
	Address string `json:"address"`
}

// RouteQuestion asks for the way of a packet.
type RouteQuestion struct {
	// Where it comes from. Empty: the node chooses.
	// +optional
	From string `json:"from,omitempty"`

	// Where it goes.
	To string `json:"to"`

	// The interface by which it came in. Empty: the node sends it itself.
	// +optional
	Interface string `json:"interface,omitempty"`

	// Its mark.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4294967295
	Mark int64 `json:"mark,omitempty"`
}

// ConnectionQuestion asks for connections between two addresses, in either direction and before or after translation.
type ConnectionQuestion struct {
	// One of them.
	Client string `json:"client"`

	// The other. Empty: any.
	// +optional
	Server string `json:"server,omitempty"`

	// Its port. 0: any.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
}

// InspectionStatus is an answer.
type InspectionStatus struct {
	// When the node answered, by its own clock.
	// +optional
	Time *metav1.MicroTime `json:"time,omitempty"`

	// Its interfaces. Ends of cables to pods are left out, unless they have addresses.
	// +optional
	// +listType=atomic
	Interfaces []InterfaceAnswer `json:"interfaces,omitempty"`

	// Settings of its kernel, such as net.ipv4.conf.eth1.rp_filter: of interfaces that have an address.
	// +optional
	Settings map[string]string `json:"settings,omitempty"`

	// Who answered for the addresses, in the order of the questions.
	// +optional
	// +listType=atomic
	Neighbours []NeighbourAnswer `json:"neighbours,omitempty"`

	// The ways, in the order of the questions.
	// +optional
	// +listType=atomic
	Routes []RouteAnswer `json:"routes,omitempty"`

	// The connections.
	// +optional
	// +listType=atomic
	Connections []ConnectionAnswer `json:"connections,omitempty"`

	// How many connections use the addresses.
	// +optional
	// +listType=atomic
	Usage []UsageAnswer `json:"usage,omitempty"`

	// How Open vSwitch and ovn-controller are doing.
	// +optional
	Switch SwitchAnswer `json:"switch,omitzero"`

	// What could not be answered, and why.
	// +optional
	// +listType=atomic
	Problems []string `json:"problems,omitempty"`
}

// InterfaceAnswer is an interface.
type InterfaceAnswer struct {
	// Its name.
	Name string `json:"name"`
	// Its MAC address.
	// +optional
	MAC string `json:"mac,omitempty"`
	// Whether it is up and has a carrier.
	Up bool `json:"up"`
	// It is set up, and there is nothing at the other end of its cable.
	// +optional
	NoCarrier bool `json:"noCarrier,omitempty"`
	// The largest packet in bytes.
	MTU int32 `json:"mtu"`
	// Its addresses, with the length of the prefix.
	// +optional
	// +listType=set
	Addresses []string `json:"addresses,omitempty"`
}

// NeighbourAnswer is who has an address. Two have it when there are two MAC addresses.
type NeighbourAnswer struct {
	// The interface that was asked on.
	Interface string `json:"interface"`
	// The VLAN there.
	// +optional
	Vlan int32 `json:"vlan,omitempty"`
	// The address that was asked for.
	Address string `json:"address"`
	// Who answered.
	// +optional
	// +listType=set
	MACs []string `json:"macs,omitempty"`
}

// RouteAnswer is the way that a packet takes.
type RouteAnswer struct {
	// The interface by which it leaves.
	// +optional
	Interface string `json:"interface,omitempty"`
	// The next router. Empty: the destination itself.
	// +optional
	NextHop string `json:"nextHop,omitempty"`
	// The address that the node would send it from.
	// +optional
	Source string `json:"source,omitempty"`
	// Why there is no way.
	// +optional
	Problem string `json:"problem,omitempty"`
}

// ConnectionAnswer is a tracked connection: its packets as they come, and the replies as they are expected. Ports of ICMP are the number
// that echoes have.
type ConnectionAnswer struct {
	// tcp, udp, sctp, icmp or icmpv6.
	Protocol string `json:"protocol"`
	// Where its packets come from.
	Source string `json:"source"`
	// Where they go to.
	Destination string `json:"destination"`
	// Where replies come from.
	ReplySource string `json:"replySource"`
	// Where they go to.
	ReplyDestination string `json:"replyDestination"`
	// Of TCP and SCTP: how far it is.
	// +optional
	State string `json:"state,omitempty"`
	// The zone that it is tracked in.
	// +optional
	Zone int32 `json:"zone,omitempty"`
	// What the zone is of: a logical port, or a logical router or switch with _dnat or _snat behind its name.
	// +optional
	ZoneName string `json:"zoneName,omitempty"`
}

// UsageAnswer is how many connections use an address.
type UsageAnswer struct {
	// The address.
	Address string `json:"address"`
	// How many connections come to it or leave with it.
	Connections int32 `json:"connections"`
	// The protocol of the destination to which the most ports of the address are in use.
	// +optional
	Protocol string `json:"protocol,omitempty"`
	// The address and port of that destination.
	// +optional
	To string `json:"to,omitempty"`
	// How many ports are in use to it.
	// +optional
	Ports int32 `json:"ports,omitempty"`
}

// SwitchAnswer is how Open vSwitch is doing on the node.
type SwitchAnswer struct {
	// The version of Open vSwitch.
	// +optional
	Version string `json:"version,omitempty"`
	// The connection of ovn-controller: connected, or what it says instead.
	// +optional
	Controller string `json:"controller,omitempty"`
	// The name of the chassis that the node says it is.
	// +optional
	Chassis string `json:"chassis,omitempty"`
	// Its bridges that lead to provider networks.
	// +optional
	// +listType=atomic
	Bridges []BridgeAnswer `json:"bridges,omitempty"`
	// How many connections it tracks.
	// +optional
	Tracked int32 `json:"tracked,omitempty"`
	// How many it can track. 0: it does not say, and the kernel's setting holds.
	// +optional
	MaxTracked int32 `json:"maxTracked,omitempty"`
	// Why it does not answer.
	// +optional
	Problem string `json:"problem,omitempty"`
}

// BridgeAnswer is a bridge that leads to a provider network.
type BridgeAnswer struct {
	// Its name.
	Name string `json:"name"`
	// The provider network, as ovn-controller was told.
	Network string `json:"network"`
	// The interfaces of the node that are ports of it. None: it leads nowhere.
	// +optional
	// +listType=set
	Interfaces []string `json:"interfaces,omitempty"`
	// What is wrong with it.
	// +optional
	Problem string `json:"problem,omitempty"`
}

// +kubebuilder:object:root=true

// InspectionList is Inspections.
type InspectionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Inspection `json:"items"`
}
