package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// A namespace's name is a DNS label, and Kube-OVN writes a subnet's name as the value of a label on every address in it:
// both end at 63 characters. "ORG-NAME-default" leaves at most 53 for NAME; only the controller sees both names and checks
// the sum. The rule is for new objects, so that an older one can always lose its finalizer.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=projects,singular=project,scope=Namespaced
// +kubebuilder:printcolumn:name="Namespace",type=string,JSONPath=`.status.namespace`
// +kubebuilder:printcolumn:name="CIDR",type=string,JSONPath=`.spec.cidrBlock`
// +kubebuilder:printcolumn:name="Network",type=string,JSONPath=`.spec.egressNetworkType`
// +kubebuilder:printcolumn:name="External IP",type=string,JSONPath=`.status.externalIP`
// +kubebuilder:printcolumn:name="Ready",type=boolean,JSONPath=`.status.ready`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:optionalOldSelf=true,fieldPath=".metadata",rule="oldSelf.hasValue() || (size(self.metadata.name) <= 53 && !self.metadata.name.contains('.'))",message="the name becomes part of the names of a namespace and of a subnet: choose one of at most 53 letters, digits and '-'"

// Project is a tenant's own network: a namespace, a router, a subnet for pods and virtual machines, and a way out with an
// external address. Write it in the namespace of its organization: the Project "web" in the namespace "acme" gets the
// namespace "acme-web".
type Project struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What you want.
	Spec ProjectSpec `json:"spec"`

	// What there is. The controller writes it.
	// +optional
	Status ProjectStatus `json:"status,omitzero"`
}

// An empty gwLanIp counts as none, here and in rules about other fields: some tools write empty strings.
//
// +kubebuilder:validation:XValidation:rule="has(self.gwLanIp) && self.gwLanIp != '' ? has(oldSelf.gwLanIp) && self.gwLanIp == oldSelf.gwLanIp : !has(oldSelf.gwLanIp) || oldSelf.gwLanIp == ''",message="gwLanIp can't be changed: make a new Project with the gateway address that you want",fieldPath=".gwLanIp",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="self.?gwLanIp.orValue('') == '' || self.gwLanIp.split(',').all(g, isIP(g) && self.cidrBlock.split(',').exists(c, isCIDR(c) && cidr(c).containsIP(g)))",message="gwLanIp must be an address inside cidrBlock, such as 10.0.0.1 for 10.0.0.0/24; for two families write one of each with a comma between, or leave it out",fieldPath=".gwLanIp"

// ProjectSpec is what a Project should be.
type ProjectSpec struct {
	// The addresses of the project's pods and virtual machines: one CIDR such as "10.0.0.0/24", or an IPv4 and an IPv6 CIDR
	// with a comma between, such as "10.0.0.0/24,fd00:10::/64". Other Projects may use the same ones. Choose a range that is
	// no part of a network that the workloads have to reach. It can't be changed.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cidrBlock can't be changed: make a new Project with the addresses that you want",reason=FieldValueForbidden
	// +kubebuilder:validation:XValidation:rule="self.split(',').all(c, isCIDR(c))",message="cidrBlock must be a CIDR such as 10.0.0.0/24, or an IPv4 and an IPv6 CIDR with a comma and no space between, such as 10.0.0.0/24,fd00:10::/64"
	// +kubebuilder:validation:XValidation:rule="!self.split(',').all(c, isCIDR(c)) || size(self.split(',')) == 1 || (size(self.split(',')) == 2 && cidr(self.split(',')[0]).ip().family() != cidr(self.split(',')[1]).ip().family())",message="cidrBlock may have one CIDR of each family: write one IPv4 CIDR, one IPv6 CIDR, or one of each"
	// +kubebuilder:validation:XValidation:rule="self.split(',').all(c, !isCIDR(c) || (cidr(c).ip().isGlobalUnicast() && cidr(c).prefixLength() <= (cidr(c).ip().family() == 4 ? 30 : 126)))",message="cidrBlock must be unicast addresses with room for a gateway and a pod: choose a private range with a prefix of at most 30 bits (IPv4) or 126 bits (IPv6)"
	// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule="oldSelf.hasValue() || self.split(',').all(c, !isCIDR(c) || cidr(c).prefixLength() >= (cidr(c).ip().family() == 4 ? 8 : 48))",message="cidrBlock is too wide: choose a private range with a prefix of at least 8 bits (IPv4) or 48 bits (IPv6)"
	CIDRBlock string `json:"cidrBlock"`

	// The type of external network by which the project goes out, such as "cloud" or "public". Its default gateway address
	// is taken from there. `kubectl get externalnetworks` and the platform's documentation tell the types. It can't be
	// changed.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="egressNetworkType can't be changed: make a new Project on the network that you want",reason=FieldValueForbidden
	EgressNetworkType NetworkType `json:"egressNetworkType"`

	// The address inside cidrBlock that the project's router has, and that is the gateway of its pods. By default the first
	// one. For two families write one of each with a comma between. It can't be changed.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	GwLanIP string `json:"gwLanIp,omitempty"`

	// How many EIps the project may have, those that FIps and Services make included. Left out: as the annotation
	// kube-dc.com/eip-quota of its namespace says, or else the platform's default. It does not raise what the organization may have.
	// Only operators may write it.
	// +optional
	// +kubebuilder:validation:Minimum=0
	EIpQuota *int32 `json:"eipQuota,omitempty"`
}

// NetworkType is a type of external network. It is free to choose and has to fit into the value of a label.
//
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:XValidation:rule="self.matches('^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$')",message="a type of network is a word of letters, digits, '-', '_' and '.': write one that an ExternalNetwork has, such as cloud or public"
type NetworkType string

// ProjectStatus is what there is of a Project.
type ProjectStatus struct {
	// The namespace that was made for the project. Workloads, EIps and FIps go there.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// Whether everything that the project needs was seen in OVN.
	// +kubebuilder:default=false
	// +optional
	Ready bool `json:"ready"`

	// The name of the project's Kube-OVN Vpc and of its OVN router.
	// +optional
	VPC string `json:"vpc,omitempty"`

	// The name of the project's Kube-OVN Subnet.
	// +optional
	Subnet string `json:"subnet,omitempty"`

	// The address from which the project's connections come when nothing else was chosen. It is that of the EIp "default-gw".
	// +optional
	ExternalIP string `json:"externalIP,omitempty"`

	// How many EIps the project has.
	// +optional
	EIpsUsed int32 `json:"eipsUsed,omitempty"`

	// The generation of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Accepted, ResolvedRefs and Programmed; and Isolated, false, while a pod is on a network where it does not belong. What is
	// false says why and what to do next.
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
