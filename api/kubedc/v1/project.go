package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// The name of a namespace is a DNS label, and Kube-OVN writes the name of a subnet as a label value on every address in
// it. Both are limited to 63 characters. "ORG-NAME-default" leaves at most 53 for NAME. Only the controller sees both
// names and checks the sum. The rule applies to new objects only, so that a finalizer can always be removed from an
// older one.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=projects,singular=project,scope=Namespaced,shortName=proj,categories=sallyport
// +kubebuilder:printcolumn:name="Project Namespace",type=string,JSONPath=`.status.namespace`
// +kubebuilder:printcolumn:name="CIDR",type=string,JSONPath=`.spec.cidrBlock`
// +kubebuilder:printcolumn:name="Network",type=string,JSONPath=`.spec.egressNetworkType`
// +kubebuilder:printcolumn:name="External IP",type=string,JSONPath=`.status.externalIP`
// +kubebuilder:printcolumn:name="EIps",type=string,JSONPath=`.status.eips`
// +kubebuilder:printcolumn:name="Ready",type=boolean,JSONPath=`.status.ready`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.status=="False")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:optionalOldSelf=true,fieldPath=".metadata",rule="oldSelf.hasValue() || (size(self.metadata.name) <= 53 && !self.metadata.name.contains('.'))",message="the name becomes part of the names of a namespace and of a subnet: choose one of at most 53 letters, digits and '-'"

// Project is a network for one tenant: a namespace, a router, a subnet for pods and virtual machines, and SNAT to an
// external address for outgoing connections. Create it in the namespace of its organization: the Project "web" in the
// namespace "acme" gets the namespace "acme-web".
type Project struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Desired state.
	Spec ProjectSpec `json:"spec"`

	// Observed state, written by the controller.
	// +optional
	Status ProjectStatus `json:"status,omitzero"`
}

// An empty gwLanIp is treated as absent, here and in rules about other fields, because some tools write empty strings.
//
// +kubebuilder:validation:XValidation:rule="has(self.gwLanIp) && self.gwLanIp != '' ? has(oldSelf.gwLanIp) && self.gwLanIp == oldSelf.gwLanIp : !has(oldSelf.gwLanIp) || oldSelf.gwLanIp == ''",message="gwLanIp can't be changed: make a new Project with the gateway address that you want",fieldPath=".gwLanIp",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="self.?gwLanIp.orValue('') == '' || self.gwLanIp.split(',').all(g, isIP(g) && self.cidrBlock.split(',').exists(c, isCIDR(c) && cidr(c).containsIP(g)))",message="gwLanIp must be an address inside cidrBlock, such as 10.0.0.1 for 10.0.0.0/24; for two families write one of each with a comma between, or leave it out",fieldPath=".gwLanIp"

// ProjectSpec is the desired state of a Project.
type ProjectSpec struct {
	// The addresses of the project's pods and virtual machines: one CIDR such as "10.0.0.0/24", or an IPv4 and an IPv6
	// CIDR separated by a comma, such as "10.0.0.0/24,fd00:10::/64". Other Projects may use the same addresses. Choose
	// a range that does not overlap with networks that the workloads have to reach. Immutable.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cidrBlock can't be changed: make a new Project with the addresses that you want",reason=FieldValueForbidden
	// +kubebuilder:validation:XValidation:rule="self.split(',').all(c, isCIDR(c))",message="cidrBlock must be a CIDR such as 10.0.0.0/24, or an IPv4 and an IPv6 CIDR with a comma and no space between, such as 10.0.0.0/24,fd00:10::/64"
	// +kubebuilder:validation:XValidation:rule="!self.split(',').all(c, isCIDR(c)) || size(self.split(',')) == 1 || (size(self.split(',')) == 2 && cidr(self.split(',')[0]).ip().family() != cidr(self.split(',')[1]).ip().family())",message="cidrBlock may have one CIDR of each family: write one IPv4 CIDR, one IPv6 CIDR, or one of each"
	// +kubebuilder:validation:XValidation:rule="self.split(',').all(c, !isCIDR(c) || (cidr(c).ip().isGlobalUnicast() && cidr(c).prefixLength() <= (cidr(c).ip().family() == 4 ? 30 : 126)))",message="cidrBlock must be unicast addresses with room for a gateway and a pod: choose a private range with a prefix of at most 30 bits (IPv4) or 126 bits (IPv6)"
	// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule="oldSelf.hasValue() || self.split(',').all(c, !isCIDR(c) || cidr(c).prefixLength() >= (cidr(c).ip().family() == 4 ? 8 : 48))",message="cidrBlock is too wide: choose a private range with a prefix of at least 8 bits (IPv4) or 48 bits (IPv6)"
	CIDRBlock string `json:"cidrBlock"`

	// The type of the project's default external network, such as "cloud" or "public". The project's default SNAT
	// address is allocated there. `kubectl get externalnetworks` and the documentation of the platform list the types.
	// Immutable.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="egressNetworkType can't be changed: make a new Project on the network that you want",reason=FieldValueForbidden
	EgressNetworkType NetworkType `json:"egressNetworkType"`

	// The address of the project's router inside cidrBlock, which is the default gateway of its pods. Defaults to the
	// first address. For dual stack, write one address of each family separated by a comma. Immutable.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	GwLanIP string `json:"gwLanIp,omitempty"`

	// The maximum number of EIps of the project, including those that FIps and Services create. Defaults to the
	// annotation kube-dc.com/eip-quota of the project's namespace, then to the default of the platform. It does not
	// raise the quota of the organization. Only operators may set it.
	// +optional
	// +kubebuilder:validation:Minimum=0
	EIpQuota *int32 `json:"eipQuota,omitempty"`
}

// NetworkType is a type of external network. Any value that is valid as a label value is allowed.
//
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:XValidation:rule="self.matches('^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$')",message="a type of network is a word of letters, digits, '-', '_' and '.': write one that an ExternalNetwork has, such as cloud or public"
type NetworkType string

// ProjectStatus is the observed state of a Project.
type ProjectStatus struct {
	// The namespace that was created for the project. Create workloads, EIps and FIps there.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// Whether everything that the project needs was observed in OVN.
	// +kubebuilder:default=false
	// +optional
	Ready bool `json:"ready"`

	// The name of the project's Kube-OVN Vpc and of its OVN router.
	// +optional
	VPC string `json:"vpc,omitempty"`

	// The name of the project's Kube-OVN Subnet.
	// +optional
	Subnet string `json:"subnet,omitempty"`

	// The source address of the project's outgoing connections, unless a more specific egress rule applies. It is the
	// address of the EIp "default-gw".
	// +optional
	ExternalIP string `json:"externalIP,omitempty"`

	// The number of EIps of the project, without the EIp "default-gw".
	// +optional
	EIpsUsed int32 `json:"eipsUsed,omitempty"`

	// The number of EIps that count for the quota of the project, and the quota, such as "3/8".
	// +optional
	EIps string `json:"eips,omitempty"`

	// The generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions: Accepted, ResolvedRefs and Programmed; Isolated, with status false, only while a pod is on a network
	// where it does not belong. A false condition states the cause and the next step.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ProjectList is a list of Projects.
//
// +kubebuilder:object:root=true
type ProjectList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Project `json:"items"`
}
