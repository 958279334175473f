package kube

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
)

// Object is an object of a kind that Sallyport does not define, with the fields that we use.
type Object[S, T any] struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec   S `json:"spec,omitzero"`
	Status T `json:"status,omitzero"`
}

// ObjectList is a list of such objects.
type ObjectList[S, T any] struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []Object[S, T] `json:"items"`
}

type (
	// Vpc is Kube-OVN's router.
	Vpc = Object[kubeovn.VpcSpec, kubeovn.VpcStatus]
	// Subnet is Kube-OVN's logical switch.
	Subnet = Object[kubeovn.SubnetSpec, kubeovn.SubnetStatus]
	// OvnEip is Kube-OVN's external address.
	OvnEip = Object[kubeovn.OvnEipSpec, kubeovn.OvnEipStatus]
	// OvnFip is Kube-OVN's 1:1 NAT.
	OvnFip = Object[kubeovn.OvnFipSpec, kubeovn.OvnFipStatus]
	// OvnSnatRule is Kube-OVN's SNAT rule.
	OvnSnatRule = Object[kubeovn.OvnSnatRuleSpec, kubeovn.OvnSnatRuleStatus]
	// OvnDnatRule is Kube-OVN's translation of one port.
	OvnDnatRule = Object[kubeovn.OvnDnatRuleSpec, kubeovn.OvnDnatRuleStatus]
	// Vlan is a VLAN of a provider network.
	Vlan = Object[kubeovn.VlanSpec, Nothing]
	// ProviderNetwork maps a physical network to interfaces of nodes.
	ProviderNetwork = Object[kubeovn.ProviderNetworkSpec, kubeovn.ProviderNetworkStatus]
	// NetworkAttachmentDefinition is a network that pods can request.
	NetworkAttachmentDefinition = Object[kubeovn.AttachmentSpec, Nothing]
	// Backend is a destination for Envoy Gateway.
	Backend = Object[BackendSpec, Nothing]
	// VirtualMachineInstance is KubeVirt's running virtual machine.
	VirtualMachineInstance = Object[Nothing, VirtualMachineInstanceStatus]

	// VpcList is a list of Vpcs.
	VpcList = ObjectList[kubeovn.VpcSpec, kubeovn.VpcStatus]
	// SubnetList is a list of Subnets.
	SubnetList = ObjectList[kubeovn.SubnetSpec, kubeovn.SubnetStatus]
	// OvnEipList is a list of OvnEips.
	OvnEipList = ObjectList[kubeovn.OvnEipSpec, kubeovn.OvnEipStatus]
	// OvnFipList is a list of OvnFips.
	OvnFipList = ObjectList[kubeovn.OvnFipSpec, kubeovn.OvnFipStatus]
	// OvnSnatRuleList is a list of OvnSnatRules.
	OvnSnatRuleList = ObjectList[kubeovn.OvnSnatRuleSpec, kubeovn.OvnSnatRuleStatus]
	// OvnDnatRuleList is a list of OvnDnatRules.
	OvnDnatRuleList = ObjectList[kubeovn.OvnDnatRuleSpec, kubeovn.OvnDnatRuleStatus]
	// VlanList is a list of Vlans.
	VlanList = ObjectList[kubeovn.VlanSpec, Nothing]
	// ProviderNetworkList is a list of ProviderNetworks.
	ProviderNetworkList = ObjectList[kubeovn.ProviderNetworkSpec, kubeovn.ProviderNetworkStatus]
	// NetworkAttachmentDefinitionList is a list of NetworkAttachmentDefinitions.
	NetworkAttachmentDefinitionList = ObjectList[kubeovn.AttachmentSpec, Nothing]
	// BackendList is a list of Backends.
	BackendList = ObjectList[BackendSpec, Nothing]
	// VirtualMachineInstanceList is a list of VirtualMachineInstances.
	VirtualMachineInstanceList = ObjectList[Nothing, VirtualMachineInstanceStatus]
)

// Nothing is a spec or status without fields that we use.
type Nothing struct{}

// BackendSpec lists the endpoints of a Backend.
type BackendSpec struct {
	Endpoints []BackendEndpoint `json:"endpoints,omitempty"`
}

// BackendEndpoint is an address with a port.
type BackendEndpoint struct {
	IP struct {
		Address string `json:"address"`
		Port    int32  `json:"port"`
	} `json:"ip"`
}

// VirtualMachineInstanceStatus contains the interfaces that KubeVirt reports.
type VirtualMachineInstanceStatus struct {
	Interfaces []VirtualMachineInterface `json:"interfaces,omitempty"`
}

// VirtualMachineInterface has two names: Name in the spec of the virtual machine, InterfaceName in the guest.
type VirtualMachineInterface struct {
	Name          string   `json:"name,omitempty"`
	InterfaceName string   `json:"interfaceName,omitempty"`
	MAC           string   `json:"mac,omitempty"`
	IP            string   `json:"ipAddress,omitempty"`
	IPs           []string `json:"ipAddresses,omitempty"`
}

// DeepCopyObject copies through JSON. The cache is read without copies, so this is rarely called.
func (o *Object[S, T]) DeepCopyObject() runtime.Object {
	out := &Object[S, T]{TypeMeta: o.TypeMeta}
	o.DeepCopyInto(&out.ObjectMeta)
	copyJSON(o.Spec, &out.Spec)
	copyJSON(o.Status, &out.Status)
	return out
}

// DeepCopyObject copies every item.
func (l *ObjectList[S, T]) DeepCopyObject() runtime.Object {
	out := &ObjectList[S, T]{TypeMeta: l.TypeMeta}
	l.DeepCopyInto(&out.ListMeta)
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].DeepCopyObject().(*Object[S, T]))
	}
	return out
}

func copyJSON[V any](from V, to *V) {
	raw, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(raw, to)
	}
	if err != nil {
		panic(fmt.Sprintf("copy of a plain value: %v", err)) // strings, numbers and lists of them only
	}
}
