package kube

import (
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	ovnv1 "github.com/sallyport/sallyport/api/ovn/v1"
	"github.com/sallyport/sallyport/internal/intent"
)

var (
	kubeOVN    = schema.GroupVersion{Group: "kubeovn.io", Version: "v1"}
	multus     = schema.GroupVersion{Group: "k8s.cni.cncf.io", Version: "v1"}
	kubeVirt   = schema.GroupVersion{Group: "kubevirt.io", Version: "v1"}
	envoy      = schema.GroupVersion{Group: "gateway.envoyproxy.io", Version: "v1alpha1"}
	kubernetes = corev1.SchemeGroupVersion
)

// kinds is where the kinds live.
var kinds = map[intent.Kind]schema.GroupVersionKind{
	intent.Project:         kubedcv1.GroupVersion.WithKind("Project"),
	intent.EIp:             kubedcv1.GroupVersion.WithKind("EIp"),
	intent.FIp:             kubedcv1.GroupVersion.WithKind("FIp"),
	intent.Namespace:       kubernetes.WithKind("Namespace"),
	intent.Vpc:             kubeOVN.WithKind("Vpc"),
	intent.Subnet:          kubeOVN.WithKind("Subnet"),
	intent.OvnEip:          kubeOVN.WithKind("OvnEip"),
	intent.OvnFip:          kubeOVN.WithKind("OvnFip"),
	intent.OvnSnatRule:     kubeOVN.WithKind("OvnSnatRule"),
	intent.Attachment:      multus.WithKind("NetworkAttachmentDefinition"),
	Pod:                    kubernetes.WithKind("Pod"),
	VMI:                    kubeVirt.WithKind("VirtualMachineInstance"),
	intent.Service:         kubernetes.WithKind("Service"),
	intent.EndpointSlice:   discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"),
	intent.Backend:         envoy.WithKind("Backend"),
	intent.ExternalNetwork: kubedcv1alpha1.GroupVersion.WithKind("ExternalNetwork"),
	intent.EgressIP:        ovnv1.GroupVersion.WithKind("EgressIP"),
	intent.EgressService:   ovnv1.GroupVersion.WithKind("EgressService"),
	intent.EgressRoute:     kubedcv1alpha1.GroupVersion.WithKind("EgressRoute"),
	intent.NodePath:        kubedcv1alpha1.GroupVersion.WithKind("NodePath"),
}

// written are the kinds of which we write whole objects.
var written = []intent.Kind{
	intent.Namespace, intent.Vpc, intent.Subnet, intent.Attachment, intent.OvnEip, intent.EIp, intent.OvnSnatRule, intent.OvnFip,
	intent.Service, intent.EndpointSlice, intent.Backend, intent.NodePath,
}

// optional are the kinds that the API server may not have.
var optional = []intent.Kind{VMI, intent.Backend}

// marked are the kinds to which we write something, if only a finalizer or a status.
var marked = append([]intent.Kind{intent.Project, intent.FIp, intent.ExternalNetwork, intent.EgressIP, intent.EgressService, intent.EgressRoute}, written...)

// replaced are the kinds whose spec Kube-OVN reads once. Another spec is another object: the old one has to go first.
var replaced = map[intent.Kind]bool{intent.OvnEip: true, intent.OvnFip: true, intent.OvnSnatRule: true}

var scheme = newScheme()

func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(corev1.AddToScheme(s))
	utilruntime.Must(discoveryv1.AddToScheme(s))
	utilruntime.Must(appsv1.AddToScheme(s))
	utilruntime.Must(coordinationv1.AddToScheme(s))
	utilruntime.Must(networkingv1.AddToScheme(s))
	utilruntime.Must(kubedcv1.AddToScheme(s))
	utilruntime.Must(kubedcv1alpha1.AddToScheme(s))
	utilruntime.Must(ovnv1.AddToScheme(s))
	register(s, kubeOVN, "Vpc", &Vpc{}, &VpcList{})
	register(s, kubeOVN, "Subnet", &Subnet{}, &SubnetList{})
	register(s, kubeOVN, "OvnEip", &OvnEip{}, &OvnEipList{})
	register(s, kubeOVN, "OvnFip", &OvnFip{}, &OvnFipList{})
	register(s, kubeOVN, "OvnSnatRule", &OvnSnatRule{}, &OvnSnatRuleList{})
	register(s, kubeOVN, "Vlan", &Vlan{}, &VlanList{})
	register(s, kubeOVN, "ProviderNetwork", &ProviderNetwork{}, &ProviderNetworkList{})
	register(s, multus, "NetworkAttachmentDefinition", &NetworkAttachmentDefinition{}, &NetworkAttachmentDefinitionList{})
	register(s, kubeVirt, "VirtualMachineInstance", &VirtualMachineInstance{}, &VirtualMachineInstanceList{})
	register(s, envoy, "Backend", &Backend{}, &BackendList{})
	for _, gv := range []schema.GroupVersion{kubeOVN, multus, kubeVirt, envoy} {
		metav1.AddToGroupVersion(s, gv)
	}
	return s
}

// register gives a type its name: the types of others share one Go type, whose own name says nothing.
func register[S, T any](s *runtime.Scheme, gv schema.GroupVersion, kind string, object *Object[S, T], list *ObjectList[S, T]) {
	s.AddKnownTypeWithName(gv.WithKind(kind), object)
	s.AddKnownTypeWithName(gv.WithKind(kind+"List"), list)
}
