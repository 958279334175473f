package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// The OvnEip of an EIp is named "eip-NAMESPACE-NAME". Names of objects are limited to 253 characters, those of
// namespaces to 63. The rule applies to new objects only, so that a finalizer can always be removed from an older one.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=eips,singular=eip,scope=Namespaced,categories=sallyport
// +kubebuilder:printcolumn:name="External IP",type=string,JSONPath=`.status.ipAddress`
// +kubebuilder:printcolumn:name="Network",type=string,JSONPath=`.status.externalNetwork`
// +kubebuilder:printcolumn:name="Used By",type=string,JSONPath=`.status.usedBy`
// +kubebuilder:printcolumn:name="Ready",type=boolean,JSONPath=`.status.ready`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.status=="False")].reason`
// +kubebuilder:printcolumn:name="Ownership",type=string,priority=1,JSONPath=`.status.ownershipType`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:optionalOldSelf=true,fieldPath=".metadata",rule="oldSelf.hasValue() || size(self.metadata.name) <= 185",message="the name becomes part of the name of an OvnEip: choose one of at most 185 characters"

// EIp is one external address. It is reserved for you from the moment it is ready until you delete it, whether it is
// used or not. Create it in the namespace of your project and refer to it by name in a FIp or in a Service of type
// LoadBalancer.
type EIp struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Desired state. If empty, any address of the platform's default network.
	// +optional
	// +kubebuilder:default={}
	Spec EIpSpec `json:"spec,omitzero"`

	// Observed state, written by the controller.
	// +optional
	Status EIpStatus `json:"status,omitzero"`
}

// The rules compare whole specs, not fields, because a rule on a field is not evaluated when the field is added or
// removed.
//
// +kubebuilder:validation:XValidation:rule="[self.?externalNetworkType.orValue(''), self.?externalNetwork.orValue(''), self.?childRef.orValue('')].filter(x, x != '').size() <= 1",message="externalNetworkType, externalNetwork and childRef exclude each other: keep the one that says where the address comes from"
// +kubebuilder:validation:XValidation:rule="self.?childRef.orValue('') == '' || self.?ipAddress.orValue('') == ''",message="childRef and ipAddress exclude each other: an OvnEip that exists has an address already"
// +kubebuilder:validation:XValidation:rule="has(self.externalNetworkType) && self.externalNetworkType != '' ? has(oldSelf.externalNetworkType) && self.externalNetworkType == oldSelf.externalNetworkType : !has(oldSelf.externalNetworkType) || oldSelf.externalNetworkType == ''",message="externalNetworkType can't be changed: make another EIp on the network that you want, name that one in the FIp or Service, and delete this one",fieldPath=".externalNetworkType",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="has(self.externalNetwork) && self.externalNetwork != '' ? has(oldSelf.externalNetwork) && self.externalNetwork == oldSelf.externalNetwork : !has(oldSelf.externalNetwork) || oldSelf.externalNetwork == ''",message="externalNetwork can't be changed: make another EIp on the network that you want, name that one in the FIp or Service, and delete this one",fieldPath=".externalNetwork",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="has(self.childRef) && self.childRef != '' ? has(oldSelf.childRef) && self.childRef == oldSelf.childRef : !has(oldSelf.childRef) || oldSelf.childRef == ''",message="childRef can't be changed: make another EIp for the other OvnEip",fieldPath=".childRef",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="has(self.ipAddress) && self.ipAddress != '' ? has(oldSelf.ipAddress) && self.ipAddress == oldSelf.ipAddress : !has(oldSelf.ipAddress) || oldSelf.ipAddress == ''",message="ipAddress can't be changed: make another EIp with the address that you want, name that one in the FIp or Service, and delete this one",fieldPath=".ipAddress",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="self.?childRef.orValue('') == '' || self.?ipFamily.orValue('IPv4') == 'IPv4'",message="childRef and ipFamily IPv6 exclude each other: OvnEips have IPv4 addresses"
// +kubebuilder:validation:XValidation:rule="has(self.ipFamily) && self.ipFamily == 'IPv6' ? has(oldSelf.ipFamily) && oldSelf.ipFamily == 'IPv6' : !has(oldSelf.ipFamily) || oldSelf.ipFamily == 'IPv4'",message="ipFamily can't be changed: make another EIp of the family that you want, name that one in the FIp or Service, and delete this one",fieldPath=".ipFamily",reason=FieldValueForbidden

// EIpSpec is the desired state of an EIp. All fields except sharedWith are immutable.
type EIpSpec struct {
	// The type of external network to allocate the address from, such as "cloud" or "public". If neither this field nor
	// externalNetwork is set, the platform's default type is used.
	// +optional
	ExternalNetworkType NetworkType `json:"externalNetworkType,omitempty"`

	// The external network to allocate the address from: the name of an ExternalNetwork or of a Kube-OVN Subnet. Use it
	// instead of externalNetworkType if the type has several networks and you need a specific one.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="externalNetwork is the name of an object, of small letters, digits, '-' and '.': correct it"
	ExternalNetwork string `json:"externalNetwork,omitempty"`

	// The name of an existing OvnEip of this project whose address this EIp represents. The controller uses it for the
	// EIp "default-gw"; users rarely need it.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="childRef is the name of an object, of small letters, digits, '-' and '.': correct it"
	ChildRef string `json:"childRef,omitempty"`

	// The requested address, such as "198.51.100.7". If omitted, any free address is allocated.
	// +optional
	// +kubebuilder:validation:MaxLength=45
	// +kubebuilder:validation:XValidation:rule="self == '' || isIP(self)",message="ipAddress must be one address such as 198.51.100.7, without a prefix length: correct it, or leave it out to get any free one"
	IPAddress string `json:"ipAddress,omitempty"`

	// The family of the address. IPv6 needs a network with spec.ipv6 and a project with an IPv6 prefix.
	// +optional
	IPFamily IPFamily `json:"ipFamily,omitempty"`

	// The namespaces of the management VPC whose Services may bind to this EIp, on ports that no other Service uses. If
	// omitted, only Services in the namespace of the EIp may bind to it. Services of a namespace that is removed from
	// the list lose the address.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	SharedWith []NamespaceName `json:"sharedWith,omitempty"`
}

// IPFamily is the family of an address; empty means IPv4.
//
// +kubebuilder:validation:Enum=IPv4;IPv6
// +kubebuilder:validation:MaxLength=4
type IPFamily string

// The families.
const (
	IPv4 IPFamily = "IPv4"
	IPv6 IPFamily = "IPv6"
)

// NamespaceName is the name of a namespace.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
type NamespaceName string

// OwnershipType states whether an EIp is used and whether the use is exclusive.
//
// +kubebuilder:validation:Enum=Released;Exclusive;Shared
type OwnershipType string

// Ownership types of EIps.
const (
	// OwnershipReleased: the address is not used; it remains reserved.
	OwnershipReleased OwnershipType = "Released"

	// OwnershipExclusive: one owner, such as a FIp, uses the whole address.
	OwnershipExclusive OwnershipType = "Exclusive"

	// OwnershipShared: several owners share the address, such as Services with different ports.
	OwnershipShared OwnershipType = "Shared"
)

// EIpStatus is the observed state of an EIp.
type EIpStatus struct {
	// The allocated address.
	// +optional
	IPAddress string `json:"ipAddress,omitempty"`

	// The name of the Kube-OVN OvnEip that holds the address.
	// +kubebuilder:default=""
	OvnEIpRef string `json:"ovnEIpRef"`

	// Released: the address is not used but remains reserved. Exclusive: one owner uses the whole address. Shared: the
	// owners share the address.
	// +kubebuilder:default=Released
	OwnershipType OwnershipType `json:"ownershipType"`

	// The objects that use the address. Deletion of the EIp is blocked until the owners in its own namespace are
	// deleted or use another EIp.
	// +optional
	// +listType=atomic
	Owners []EIpOwner `json:"owners,omitempty"`

	// The owners as text, such as "FIp web".
	// +optional
	UsedBy string `json:"usedBy,omitempty"`

	// Whether the address can be used.
	// +kubebuilder:default=false
	Ready bool `json:"ready"`

	// Whether the EIp is deleted together with its last owner. True if a FIp or a Service created it for itself.
	// +optional
	DeleteReleased bool `json:"deleteReleased,omitempty"`

	// The Kube-OVN Subnet that the address belongs to.
	// +optional
	ExternalNetwork string `json:"externalNetwork,omitempty"`

	// The generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions: Accepted, ResolvedRefs and Programmed. A false condition states the cause and the next step.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// EIpOwner is an object that uses an EIp.
type EIpOwner struct {
	// The name of the owner, in the namespace of the EIp or in a namespace that the EIp is shared with.
	// +optional
	OwnerRef string `json:"ownerRef,omitempty"`

	// The kind of the owner, such as FIp or Service.
	// +optional
	Type string `json:"type,omitempty"`
}

// EIpList is a list of EIps.
//
// +kubebuilder:object:root=true
type EIpList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []EIp `json:"items"`
}
