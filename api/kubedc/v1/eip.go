package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// The OvnEip of an EIp is called "eip-NAMESPACE-NAME", and an object's name ends at 253 characters; a namespace's at 63. The
// rule is for new objects, so that an older one can always lose its finalizer.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=eips,singular=eip,scope=Namespaced
// +kubebuilder:printcolumn:name="External IP",type=string,JSONPath=`.status.ipAddress`
// +kubebuilder:printcolumn:name="Ready",type=boolean,JSONPath=`.status.ready`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Ownership",type=string,JSONPath=`.status.ownershipType`
// +kubebuilder:printcolumn:name="Network",type=string,JSONPath=`.status.externalNetwork`
// +kubebuilder:validation:XValidation:optionalOldSelf=true,fieldPath=".metadata",rule="oldSelf.hasValue() || size(self.metadata.name) <= 185",message="the name becomes part of the name of an OvnEip: choose one of at most 185 characters"

// EIp is one external address. It is yours from the moment when it is ready until you delete it, with or without a user.
// Write it in the namespace of your project; a FIp or a Service of type LoadBalancer then names it.
type EIp struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What you want. Left out: any address of the platform's default network.
	// +optional
	// +kubebuilder:default={}
	Spec EIpSpec `json:"spec,omitzero"`

	// What there is. The controller writes it.
	// +optional
	Status EIpStatus `json:"status,omitzero"`
}

// The rules compare whole specs, not fields, because a rule on a field does not see that it came or went.
//
// +kubebuilder:validation:XValidation:rule="[self.?externalNetworkType.orValue(''), self.?externalNetwork.orValue(''), self.?childRef.orValue('')].filter(x, x != '').size() <= 1",message="externalNetworkType, externalNetwork and childRef exclude each other: keep the one that says where the address comes from"
// +kubebuilder:validation:XValidation:rule="self.?childRef.orValue('') == '' || self.?ipAddress.orValue('') == ''",message="childRef and ipAddress exclude each other: an OvnEip that exists has an address already"
// +kubebuilder:validation:XValidation:rule="has(self.externalNetworkType) && self.externalNetworkType != '' ? has(oldSelf.externalNetworkType) && self.externalNetworkType == oldSelf.externalNetworkType : !has(oldSelf.externalNetworkType) || oldSelf.externalNetworkType == ''",message="externalNetworkType can't be changed: make another EIp on the network that you want, name that one in the FIp or Service, and delete this one",fieldPath=".externalNetworkType",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="has(self.externalNetwork) && self.externalNetwork != '' ? has(oldSelf.externalNetwork) && self.externalNetwork == oldSelf.externalNetwork : !has(oldSelf.externalNetwork) || oldSelf.externalNetwork == ''",message="externalNetwork can't be changed: make another EIp on the network that you want, name that one in the FIp or Service, and delete this one",fieldPath=".externalNetwork",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="has(self.childRef) && self.childRef != '' ? has(oldSelf.childRef) && self.childRef == oldSelf.childRef : !has(oldSelf.childRef) || oldSelf.childRef == ''",message="childRef can't be changed: make another EIp for the other OvnEip",fieldPath=".childRef",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="has(self.ipAddress) && self.ipAddress != '' ? has(oldSelf.ipAddress) && self.ipAddress == oldSelf.ipAddress : !has(oldSelf.ipAddress) || oldSelf.ipAddress == ''",message="ipAddress can't be changed: make another EIp with the address that you want, name that one in the FIp or Service, and delete this one",fieldPath=".ipAddress",reason=FieldValueForbidden

// EIpSpec is what an EIp should be. Only sharedWith can be changed.
type EIpSpec struct {
	// The type of external network that the address should come from, such as "cloud" or "public". When neither this nor
	// externalNetwork is given, the platform's default type is used.
	// +optional
	ExternalNetworkType NetworkType `json:"externalNetworkType,omitempty"`

	// The external network that the address should come from, by name: that of an ExternalNetwork or of a Kube-OVN Subnet.
	// Use it instead of externalNetworkType when the type has several networks and it matters which.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="externalNetwork is the name of an object, of small letters, digits, '-' and '.': correct it"
	ExternalNetwork string `json:"externalNetwork,omitempty"`

	// The name of an OvnEip of this project that exists already and whose address this EIp stands for. The controller uses it
	// for the EIp "default-gw"; you will hardly need it.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="childRef is the name of an object, of small letters, digits, '-' and '.': correct it"
	ChildRef string `json:"childRef,omitempty"`

	// The address that you want, such as "198.51.100.7". Left out: any free one.
	// +optional
	// +kubebuilder:validation:MaxLength=45
	// +kubebuilder:validation:XValidation:rule="self == '' || isIP(self)",message="ipAddress must be one address such as 198.51.100.7, without a prefix length: correct it, or leave it out to get any free one"
	IPAddress string `json:"ipAddress,omitempty"`

	// The namespaces of the management VPC whose Services may bind to this EIp, on ports that no other Service has. Left out:
	// only Services in the namespace of the EIp may. When a namespace is taken off the list, its Services lose the address.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	SharedWith []NamespaceName `json:"sharedWith,omitempty"`
}

// NamespaceName is the name of a namespace.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
type NamespaceName string

// OwnershipType says whether and how an EIp is used.
//
// +kubebuilder:validation:Enum=Released;Exclusive;Shared
type OwnershipType string

// The ways in which an EIp is used.
const (
	// OwnershipReleased: nobody uses the address; it stays reserved.
	OwnershipReleased OwnershipType = "Released"

	// OwnershipExclusive: one owner has all of the address, such as a FIp.
	OwnershipExclusive OwnershipType = "Exclusive"

	// OwnershipShared: the owners share the address, such as Services with different ports.
	OwnershipShared OwnershipType = "Shared"
)

// EIpStatus is what there is of an EIp.
type EIpStatus struct {
	// The address.
	// +optional
	IPAddress string `json:"ipAddress,omitempty"`

	// The name of the Kube-OVN OvnEip that holds the address.
	// +kubebuilder:default=""
	OvnEIpRef string `json:"ovnEIpRef"`

	// Released: nobody uses the address, it stays reserved. Exclusive: one owner has all of it. Shared: its owners share it.
	// +kubebuilder:default=Released
	OwnershipType OwnershipType `json:"ownershipType"`

	// Who uses the address. The EIp can't be deleted before those in its own namespace are gone or use another one.
	// +optional
	// +listType=atomic
	Owners []EIpOwner `json:"owners,omitempty"`

	// Whether the address can be used.
	// +kubebuilder:default=false
	Ready bool `json:"ready"`

	// Whether the EIp goes with its last owner. It does when a FIp or a Service made it for itself.
	// +optional
	DeleteReleased bool `json:"deleteReleased,omitempty"`

	// The Kube-OVN Subnet that the address is from.
	// +optional
	ExternalNetwork string `json:"externalNetwork,omitempty"`

	// The generation of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Accepted, ResolvedRefs and Programmed. What is false says why and what to do next.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// EIpOwner is one user of an EIp.
type EIpOwner struct {
	// The owner's name. It is in the namespace of the EIp, or in one that the EIp is shared with.
	// +optional
	OwnerRef string `json:"ownerRef,omitempty"`

	// The owner's kind, such as FIp or Service.
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
