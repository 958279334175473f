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

// Inspection is a query to one node. The agent on the node answers once, in the status, within seconds. When an agent
// starts, it ignores Inspections that are older than two minutes. The client that created the Inspection deletes it;
// `sallyport doctor`, `trace` and `top` do.
type Inspection struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The query. Immutable: create another Inspection to ask again.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a question can't be changed; create another Inspection"
	Spec InspectionSpec `json:"spec"`

	// The answer, written by the agent on the node.
	// +optional
	Status InspectionStatus `json:"status,omitzero"`
}

// InspectionSpec is a query. The answer always includes interfaces and sysctls.
type InspectionSpec struct {
	// The node to query.
	// +kubebuilder:validation:MinLength=1
	Node string `json:"node"`

	// Addresses to resolve on the wire. Answers of the node itself, from its kernel or its Open vSwitch, are not
	// included.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Neighbours []NeighbourQuestion `json:"neighbours,omitempty"`

	// Packets for which to look up the route in the kernel.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Routes []RouteQuestion `json:"routes,omitempty"`

	// Connections to look up in Open vSwitch's connection tracking. At most 64 are returned for each question.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Connections []ConnectionQuestion `json:"connections,omitempty"`

	// Addresses for which to count the connections that Open vSwitch tracks.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	Usage []string `json:"usage,omitempty"`

	// Ports of pods on this node to send a first packet to.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Ports []PortQuestion `json:"ports,omitempty"`

	// The marked packet to count where it enters and leaves Open vSwitch on this node.
	// +optional
	Count *CountQuestion `json:"count,omitempty"`

	// The marked packet to send into OVN, as if it arrived on an external network.
	// +optional
	Send *SendQuestion `json:"send,omitempty"`
}

// CountQuestion asks to count a packet that an agent sends, and the reply to it. They are recognized by a mark: the
// sequence number of a TCP SYN, the initiate tag of an SCTP INIT, or a part of the payload. Other packets are not counted.
type CountQuestion struct {
	// The mark.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4294967295
	Mark int64 `json:"mark"`

	// For how long to count, in seconds, from when status.counting is set.
	// +optional
	// +kubebuilder:default=4
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	Seconds int32 `json:"seconds,omitempty"`
}

// SendQuestion asks to send the first packet of a connection into OVN, as if it arrived on an external network: a TCP
// SYN, an SCTP INIT, an ICMP echo request, or a UDP datagram. The agent builds it, sends it once, and ends a TCP
// connection with a RST. It does not go to the wire of the network.
type SendQuestion struct {
	// The logical switch port of type localnet at which the packet enters. The node must have it.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	LogicalPort string `json:"logicalPort"`

	// The VLAN of that port. 0: untagged.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4094
	Vlan int32 `json:"vlan,omitempty"`

	// The MAC address that answers for the destination on the network.
	// +kubebuilder:validation:MaxLength=17
	MAC string `json:"mac"`

	// The source address of the packet.
	// +kubebuilder:validation:MaxLength=45
	From string `json:"from"`

	// The source port. 0 for icmp.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	FromPort int32 `json:"fromPort,omitempty"`

	// The destination address of the packet.
	// +kubebuilder:validation:MaxLength=45
	To string `json:"to"`

	// The destination port. 0 for icmp.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`

	// The protocol.
	// +kubebuilder:validation:Enum=tcp;udp;sctp;icmp
	Protocol string `json:"protocol"`

	// The mark of the packet.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4294967295
	Mark int64 `json:"mark"`
}

// PortQuestion asks whether a pod answers on a port. The agent sends the first packet of a connection on the node's end
// of the pod's veth pair: a TCP SYN, an empty UDP datagram, an SCTP INIT or an ICMP echo request. It does not pass OVN.
type PortQuestion struct {
	// The logical switch port of the pod, such as web-0.acme-prod. It must be plugged into the node's Open vSwitch.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	LogicalPort string `json:"logicalPort"`

	// The MAC address of the pod.
	// +kubebuilder:validation:MaxLength=17
	MAC string `json:"mac"`

	// The address of the pod.
	// +kubebuilder:validation:MaxLength=45
	Address string `json:"address"`

	// The source of the packet: the pod's gateway, so that the pod's reply ends at its router.
	// +kubebuilder:validation:MaxLength=45
	From string `json:"from"`

	// The protocol.
	// +kubebuilder:validation:Enum=tcp;udp;sctp;icmp
	Protocol string `json:"protocol"`

	// The port. 0 for icmp.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
}

// NeighbourQuestion asks which host has an address.
type NeighbourQuestion struct {
	// The interface that is connected to the wire.
	Interface string `json:"interface"`

	// The VLAN on that interface. 0: untagged.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4094
	Vlan int32 `json:"vlan,omitempty"`

	// The address, IPv4 or IPv6.
	Address string `json:"address"`
}

// RouteQuestion asks for the route of a packet.
type RouteQuestion struct {
	// The source address. Empty: the node chooses.
	// +optional
	From string `json:"from,omitempty"`

	// The destination address.
	To string `json:"to"`

	// The ingress interface. Empty: the node itself sends the packet.
	// +optional
	Interface string `json:"interface,omitempty"`

	// The mark of the packet.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4294967295
	Mark int64 `json:"mark,omitempty"`
}

// ConnectionQuestion asks for connections between two addresses, in either direction and before or after translation.
type ConnectionQuestion struct {
	// The first address.
	Client string `json:"client"`

	// The second address. Empty: any.
	// +optional
	Server string `json:"server,omitempty"`

	// The port of the second address. 0: any.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
}

// InspectionStatus is the answer to a query.
type InspectionStatus struct {
	// When the node answered, according to its own clock.
	// +optional
	Time *metav1.MicroTime `json:"time,omitempty"`

	// The interfaces of the node. Host ends of pods' veth pairs are omitted unless they have addresses.
	// +optional
	// +listType=atomic
	Interfaces []InterfaceAnswer `json:"interfaces,omitempty"`

	// Sysctls of interfaces that have an address, such as net.ipv4.conf.eth1.rp_filter.
	// +optional
	Settings map[string]string `json:"settings,omitempty"`

	// The hosts that answered for the addresses, in the order of the questions.
	// +optional
	// +listType=atomic
	Neighbours []NeighbourAnswer `json:"neighbours,omitempty"`

	// The routes, in the order of the questions.
	// +optional
	// +listType=atomic
	Routes []RouteAnswer `json:"routes,omitempty"`

	// The connections.
	// +optional
	// +listType=atomic
	Connections []ConnectionAnswer `json:"connections,omitempty"`

	// The number of connections that use each address.
	// +optional
	// +listType=atomic
	Usage []UsageAnswer `json:"usage,omitempty"`

	// The answers of pods, in the order of the questions.
	// +optional
	// +listType=atomic
	Ports []PortAnswer `json:"ports,omitempty"`

	// Set when the node begins to count, before the answer.
	// +optional
	Counting bool `json:"counting,omitempty"`

	// Where the marked packet and its reply were seen, in the order in which they were.
	// +optional
	// +listType=atomic
	Packets []PacketAnswer `json:"packets,omitempty"`

	// Whether the marked packet was sent.
	// +optional
	Sent *SendAnswer `json:"sent,omitempty"`

	// The state of Open vSwitch and ovn-controller.
	// +optional
	Switch SwitchAnswer `json:"switch,omitzero"`

	// The questions that could not be answered, and why.
	// +optional
	// +listType=atomic
	Problems []string `json:"problems,omitempty"`
}

// InterfaceAnswer is an interface of the node.
type InterfaceAnswer struct {
	// The name of the interface.
	Name string `json:"name"`
	// The MAC address of the interface.
	// +optional
	MAC string `json:"mac,omitempty"`
	// Whether the interface is up and has a carrier.
	Up bool `json:"up"`
	// Whether the interface is up without a carrier.
	// +optional
	NoCarrier bool `json:"noCarrier,omitempty"`
	// The MTU in bytes.
	MTU int32 `json:"mtu"`
	// The addresses of the interface, with prefix lengths.
	// +optional
	// +listType=set
	Addresses []string `json:"addresses,omitempty"`
}

// NeighbourAnswer lists the hosts that have an address. Several MAC addresses mean that the address is in use more than
// once.
type NeighbourAnswer struct {
	// The interface on which the question was sent.
	Interface string `json:"interface"`
	// The VLAN on that interface.
	// +optional
	Vlan int32 `json:"vlan,omitempty"`
	// The address in question.
	Address string `json:"address"`
	// The MAC addresses that answered.
	// +optional
	// +listType=set
	MACs []string `json:"macs,omitempty"`
}

// RouteAnswer is the route of a packet.
type RouteAnswer struct {
	// The egress interface.
	// +optional
	Interface string `json:"interface,omitempty"`
	// The next hop. Empty: the destination is on-link.
	// +optional
	NextHop string `json:"nextHop,omitempty"`
	// The source address that the node would use.
	// +optional
	Source string `json:"source,omitempty"`
	// Why there is no route.
	// +optional
	Problem string `json:"problem,omitempty"`
}

// ConnectionAnswer is a tracked connection: the tuple of its packets and the tuple expected of replies. For ICMP, the
// port is the identifier of the echo request.
type ConnectionAnswer struct {
	// tcp, udp, sctp, icmp or icmpv6.
	Protocol string `json:"protocol"`
	// The source of packets.
	Source string `json:"source"`
	// The destination of packets.
	Destination string `json:"destination"`
	// The source of replies.
	ReplySource string `json:"replySource"`
	// The destination of replies.
	ReplyDestination string `json:"replyDestination"`
	// The state of a TCP or SCTP connection.
	// +optional
	State string `json:"state,omitempty"`
	// The conntrack zone.
	// +optional
	Zone int32 `json:"zone,omitempty"`
	// The owner of the zone: a logical port, or a logical router or switch with the suffix _dnat or _snat.
	// +optional
	ZoneName string `json:"zoneName,omitempty"`
}

// UsageAnswer is the number of connections that use an address.
type UsageAnswer struct {
	// The address.
	Address string `json:"address"`
	// The number of connections to or from the address.
	Connections int32 `json:"connections"`
	// The protocol of the destination with the most ports of the address in use.
	// +optional
	Protocol string `json:"protocol,omitempty"`
	// The address and port of that destination.
	// +optional
	To string `json:"to,omitempty"`
	// The number of ports in use towards that destination.
	// +optional
	Ports int32 `json:"ports,omitempty"`
}

// PortAnswer is the answer of a pod to a first packet.
type PortAnswer struct {
	// The result: Open if the pod answered, Closed if it refused because nothing listens, Rejected if it refused with an
	// ICMP error that firewalls send, Silent if it did not answer. Empty if it was not asked.
	// +optional
	Result string `json:"result,omitempty"`
	// Why the pod was not asked.
	// +optional
	Problem string `json:"problem,omitempty"`
}

// Places of a PacketAnswer.
const (
	PacketAtPod    = "Pod"
	PacketOnWire   = "Wire"
	PacketInTunnel = "Tunnel"
)

// PacketAnswer is a place where a marked packet or its reply was seen.
type PacketAnswer struct {
	// The place: Pod (the interface of a pod), Wire (an interface of a provider network), or Tunnel (between nodes).
	Place string `json:"place"`
	// The logical switch port of the pod.
	// +optional
	LogicalPort string `json:"logicalPort,omitempty"`
	// The provider network.
	// +optional
	Network string `json:"network,omitempty"`
	// Whether Open vSwitch sent it there. Otherwise it came from there.
	// +optional
	Outgoing bool `json:"outgoing,omitempty"`
	// What it is: Request, Reply, or Refusal, such as a TCP RST or an ICMP error.
	Kind string `json:"kind"`
	// The source address and port.
	Source string `json:"source"`
	// The destination address and port.
	Destination string `json:"destination"`
	// How often it was seen.
	Count int32 `json:"count"`
}

// SendAnswer tells whether a packet was sent.
type SendAnswer struct {
	// Why it was not sent. Empty: it was.
	// +optional
	Problem string `json:"problem,omitempty"`
}

// SwitchAnswer is the state of Open vSwitch and ovn-controller on the node.
type SwitchAnswer struct {
	// The version of Open vSwitch.
	// +optional
	Version string `json:"version,omitempty"`
	// The connection state of ovn-controller: connected, or the state that it reports instead.
	// +optional
	Controller string `json:"controller,omitempty"`
	// The chassis name that is configured on the node.
	// +optional
	Chassis string `json:"chassis,omitempty"`
	// The bridges of provider networks.
	// +optional
	// +listType=atomic
	Bridges []BridgeAnswer `json:"bridges,omitempty"`
	// The number of tracked connections.
	// +optional
	Tracked int32 `json:"tracked,omitempty"`
	// The maximum number of tracked connections. 0: not reported; the limit of the kernel applies.
	// +optional
	MaxTracked int32 `json:"maxTracked,omitempty"`
	// Why Open vSwitch does not answer.
	// +optional
	Problem string `json:"problem,omitempty"`
}

// BridgeAnswer is a bridge of a provider network.
type BridgeAnswer struct {
	// The name of the bridge.
	Name string `json:"name"`
	// The provider network, as configured for ovn-controller.
	Network string `json:"network"`
	// The interfaces of the node that are ports of the bridge. If empty, the bridge has no connection to the wire.
	// +optional
	// +listType=set
	Interfaces []string `json:"interfaces,omitempty"`
	// The problem with the bridge.
	// +optional
	Problem string `json:"problem,omitempty"`
}

// +kubebuilder:object:root=true

// InspectionList is a list of Inspections.
type InspectionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Inspection `json:"items"`
}
