package kube

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
)

// Object is an object of somebody else's kind, with the fields that we know.
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
	// OvnFip is Kube-OVN's 1:1 translation.
	OvnFip = Object[kubeovn.OvnFipSpec, kubeovn.OvnFipStatus]
	// OvnSnatRule is Kube-OVN's translation of what leaves.
	OvnSnatRule = Object[kubeovn.OvnSnatRuleSpec, kubeovn.OvnSnatRuleStatus]
	// Vlan is a VLAN of a provider network.
	Vlan = Object[kubeovn.VlanSpec, Nothing]
	// ProviderNetwork is which interfaces of nodes lead to a network outside.
	ProviderNetwork = Object[kubeovn.ProviderNetworkSpec, Nothing]
	// NetworkAttachmentDefinition is a network that pods can ask for.
	NetworkAttachmentDefinition = Object[kubeovn.AttachmentSpec, Nothing]
	// Backend is where Envoy Gateway can send requests to.
	Backend = Object[BackendSpec, Nothing]
	// VirtualMachineInstance is KubeVirt's running virtual machine.
	VirtualMachineInstance = Object[Nothing, VirtualMachineInstanceStatus]

	// VpcList is a list.
	VpcList = ObjectList[kubeovn.VpcSpec, kubeovn.VpcStatus]
	// SubnetList is a list.
	SubnetList = ObjectList[kubeovn.SubnetSpec, kubeovn.SubnetStatus]
	// OvnEipList is a list.
	OvnEipList = ObjectList[kubeovn.OvnEipSpec, kubeovn.OvnEipStatus]
	// OvnFipList is a list.
	OvnFipList = ObjectList[kubeovn.OvnFipSpec, kubeovn.OvnFipStatus]
	// OvnSnatRuleList is a list.
	OvnSnatRuleList = ObjectList[kubeovn.OvnSnatRuleSpec, kubeovn.OvnSnatRuleStatus]
	// VlanList is a list.
	VlanList = ObjectList[kubeovn.VlanSpec, Nothing]
	// ProviderNetworkList is a list.
	ProviderNetworkList = ObjectList[kubeovn.ProviderNetworkSpec, Nothing]
	// NetworkAttachmentDefinitionList is a list.
	NetworkAttachmentDefinitionList = ObjectList[kubeovn.AttachmentSpec, Nothing]
	// BackendList is a list.
	BackendList = ObjectList[BackendSpec, Nothing]
	// VirtualMachineInstanceList is a list.
	VirtualMachineInstanceList = ObjectList[Nothing, VirtualMachineInstanceStatus]
)

// Nothing is a spec or a status of which we know no field.
type Nothing struct{}

// BackendSpec is addresses and ports.
type BackendSpec struct {
	Endpoints []BackendEndpoint `json:"endpoints,omitempty"`
}

// BackendEndpoint is one of them.
type BackendEndpoint struct {
	IP struct {
		Address string `json:"address"`
		Port    int32  `json:"port"`
	} `json:"ip"`
}

// VirtualMachineInstanceStatus is where KubeVirt says which addresses a virtual machine has.
type VirtualMachineInstanceStatus struct {
	Interfaces []VirtualMachineInterface `json:"interfaces,omitempty"`
}

// VirtualMachineInterface is an interface as the virtual machine's spec (Name) and its guest (InterfaceName) call it.
type VirtualMachineInterface struct {
	Name          string   `json:"name,omitempty"`
	InterfaceName string   `json:"interfaceName,omitempty"`
	MAC           string   `json:"mac,omitempty"`
	IP            string   `json:"ipAddress,omitempty"`
	IPs           []string `json:"ipAddresses,omitempty"`
}

// DeepCopyObject copies by way of JSON. The cache is read without copies, so this is hardly ever called.
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
