package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// The OvnEip that a FIp may need is named "eip-NAMESPACE-fip-NAME-12345". Names of objects are limited to 253
// characters, those of namespaces to 63. The rule applies to new objects only, so that a finalizer can always be
// removed from an older one.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=fips,singular=fip,scope=Namespaced,categories=sallyport
// +kubebuilder:printcolumn:name="External IP",type=string,JSONPath=`.status.externalIP`
// +kubebuilder:printcolumn:name="Network",type=string,JSONPath=`.status.externalNetwork`
// +kubebuilder:printcolumn:name="Target IP",type=string,JSONPath=`.status.resolvedTargetIP`
// +kubebuilder:printcolumn:name="Pod",type=string,JSONPath=`.spec.podTarget.podName`
// +kubebuilder:printcolumn:name="VM",type=string,JSONPath=`.status.targetVMInterface.vmName`
// +kubebuilder:printcolumn:name="Direction",type=string,JSONPath=`.status.direction`
// +kubebuilder:printcolumn:name="Ready",type=boolean,JSONPath=`.status.ready`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.status=="False")].reason`
// +kubebuilder:printcolumn:name="EIp",type=string,priority=1,JSONPath=`.status.eip`
// +kubebuilder:printcolumn:name="Interface",type=string,priority=1,JSONPath=`.status.targetVMInterface.interfaceName`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:optionalOldSelf=true,fieldPath=".metadata",rule="oldSelf.hasValue() || size(self.metadata.name) <= 175",message="the name becomes part of the name of an OvnEip: choose one of at most 175 characters"

// FIp is a floating IP: it translates an external address to one pod or virtual machine. Replies leave with the
// external address. Connections that the target initiates leave with it if outbound is set, if the address is on the
// project's default network, or if it is on a network with returnPath Source. EgressIPs, and in projects EgressRoutes and
// EgressServices, take precedence. Create it in the namespace of your project, or in a namespace of Kube-OVN's default
// VPC.
type FIp struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Desired state.
	Spec FIpSpec `json:"spec"`

	// Observed state, written by the controller.
	// +optional
	Status FIpStatus `json:"status,omitzero"`
}

// externalNetworkType may be added or removed together with eip, because the FIp then uses another EIp. While the FIp
// has an EIp of its own, the type of that EIp is immutable, and so is this field.
//
// +kubebuilder:validation:XValidation:rule="[self.?ipAddress.orValue('') != '', has(self.vmTarget), has(self.podTarget)].filter(x, x).size() == 1",message="a FIp has exactly one target: write one of ipAddress, vmTarget and podTarget"
// +kubebuilder:validation:XValidation:rule="self.?eip.orValue('') == '' || self.?externalNetworkType.orValue('') == ''",message="eip and externalNetworkType exclude each other: write eip to use an EIp that you have, or externalNetworkType to get a new one"
// +kubebuilder:validation:XValidation:rule="self.?eip.orValue('') != '' || oldSelf.?eip.orValue('') != '' || (has(self.externalNetworkType) && self.externalNetworkType != '' ? has(oldSelf.externalNetworkType) && self.externalNetworkType == oldSelf.externalNetworkType : !has(oldSelf.externalNetworkType) || oldSelf.externalNetworkType == '')",message="externalNetworkType can't be changed: make an EIp on the network that you want and name it in eip, or make another FIp",fieldPath=".externalNetworkType",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="self.?eip.orValue('') == '' || !has(self.ipFamily)",message="eip and ipFamily exclude each other: the EIp has a family",fieldPath=".ipFamily"
// +kubebuilder:validation:XValidation:rule="self.?eip.orValue('') != '' || oldSelf.?eip.orValue('') != '' || (has(self.ipFamily) && self.ipFamily == 'IPv6' ? has(oldSelf.ipFamily) && oldSelf.ipFamily == 'IPv6' : !has(oldSelf.ipFamily) || oldSelf.ipFamily == 'IPv4')",message="ipFamily can't be changed: make another FIp of the family that you want",fieldPath=".ipFamily",reason=FieldValueForbidden

// FIpSpec is the desired state of a FIp. The target may be changed without changing the external address.
type FIpSpec struct {
	// The target as an address inside the project, such as "10.0.0.7". In Kube-OVN's default VPC it must be the address
	// of a pod or virtual machine in this namespace.
	// +optional
	// +kubebuilder:validation:MaxLength=45
	// +kubebuilder:validation:XValidation:rule="self == '' || isIP(self)",message="ipAddress must be one address such as 10.0.0.7, without a prefix length: write the address of a pod or virtual machine of this project"
	IPAddress string `json:"ipAddress,omitempty"`

	// The target as an interface of a virtual machine in this namespace. The FIp follows changes of its address.
	// +optional
	VMTarget *VMTarget `json:"vmTarget,omitempty"`

	// The target as a pod in this namespace. The FIp follows the pod when it is recreated with the same name.
	// +optional
	PodTarget *PodTarget `json:"podTarget,omitempty"`

	// The name of an EIp in this namespace that has no other user. It may be changed.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="eip is the name of an object, of small letters, digits, '-' and '.': correct it"
	EIp string `json:"eip,omitempty"`

	// The type of external network to allocate an EIp from, such as "public". The EIp is deleted together with the FIp.
	// If neither this field nor eip is set, the platform's default type is used.
	// +optional
	ExternalNetworkType NetworkType `json:"externalNetworkType,omitempty"`

	// The family of the external address if the FIp gets an EIp of its own, and of the target. IPv6 needs a network with
	// spec.ipv6 and a project with an IPv6 prefix. A FIp that names an EIp has the EIp's family.
	// +optional
	IPFamily IPFamily `json:"ipFamily,omitempty"`

	// Whether connections that the target initiates leave with the external address, through its network. Without it
	// they do so only on the project's default network. An EgressIP that selects the target takes precedence, and in
	// projects so do EgressServices and EgressRoutes.
	// +optional
	Outbound bool `json:"outbound,omitempty"`
}

// FIpDirection is which connections use the address of a FIp.
type FIpDirection string

// The directions of a FIp.
const (
	FIpInbound FIpDirection = "Inbound"
	FIpBoth    FIpDirection = "Both"
)

// VMTarget is an interface of a virtual machine.
type VMTarget struct {
	// The name of the VirtualMachine or VirtualMachineInstance.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="vmName is the name of an object, of small letters, digits, '-' and '.': correct it"
	VMName string `json:"vmName"`

	// The name of the interface. Defaults to the first interface.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[A-Za-z0-9]([-A-Za-z0-9_.:@]*[A-Za-z0-9])?$')",message="interfaceName is a word of letters, digits and '-_.:@', such as default or eth0: correct it"
	InterfaceName string `json:"interfaceName,omitempty"`
}

// PodTarget is a pod.
type PodTarget struct {
	// The name of the pod.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="podName is the name of an object, of small letters, digits, '-' and '.': correct it"
	PodName string `json:"podName"`
}

// FIpStatus is the observed state of a FIp.
type FIpStatus struct {
	// The name of the EIp that holds the external address.
	// +kubebuilder:default=""
	EIp string `json:"eip"`

	// The external address.
	// +kubebuilder:default=""
	ExternalIP string `json:"externalIP"`

	// The Kube-OVN Subnet that the external address belongs to.
	// +optional
	ExternalNetwork string `json:"externalNetwork,omitempty"`

	// The name of the Kube-OVN OvnFip that translates between the two addresses. Empty in Kube-OVN's default VPC.
	// +kubebuilder:default=""
	OvnFip string `json:"ovnFip"`

	// Whether the translation was observed in OVN.
	// +kubebuilder:default=false
	Ready bool `json:"ready"`

	// The connections that use the external address: Inbound, those to it; Both, also those that the target initiates.
	// +optional
	Direction FIpDirection `json:"direction,omitempty"`

	// The current address of the target inside the project.
	// +optional
	ResolvedTargetIP string `json:"resolvedTargetIP,omitempty"`

	// The interface of the virtual machine that vmTarget resolved to.
	// +optional
	TargetVMInterface *VMInterface `json:"targetVMInterface,omitempty"`

	// The generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions: Accepted, ResolvedRefs and Programmed. A false condition states the cause and the next step.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// VMInterface is the interface that a VMTarget resolved to.
type VMInterface struct {
	// The name of the virtual machine.
	VMName string `json:"vmName"`

	// The name of the interface.
	InterfaceName string `json:"interfaceName"`

	// The address of the interface.
	IPAddress string `json:"ipAddress"`

	// The MAC address of the interface.
	// +optional
	MAC string `json:"mac,omitempty"`
}

// FIpList is a list of FIps.
//
// +kubebuilder:object:root=true
type FIpList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []FIp `json:"items"`
}
