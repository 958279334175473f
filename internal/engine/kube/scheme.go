package kube

import (
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
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
	"github.com/sallyport/sallyport/internal/model/intent"
)

var (
	kubeOVNGV  = schema.GroupVersion{Group: "kubeovn.io", Version: "v1"}
	multusGV   = schema.GroupVersion{Group: "k8s.cni.cncf.io", Version: "v1"}
	kubeVirtGV = schema.GroupVersion{Group: "kubevirt.io", Version: "v1"}
	envoyGV    = schema.GroupVersion{Group: "gateway.envoyproxy.io", Version: "v1alpha1"}
	coreGV     = corev1.SchemeGroupVersion
)

// gvkByKind maps our kind names to API groups and versions.
var gvkByKind = map[intent.Kind]schema.GroupVersionKind{
	intent.Project:           kubedcv1.GroupVersion.WithKind("Project"),
	intent.EIp:               kubedcv1.GroupVersion.WithKind("EIp"),
	intent.FIp:               kubedcv1.GroupVersion.WithKind("FIp"),
	intent.Namespace:         coreGV.WithKind("Namespace"),
	intent.Vpc:               kubeOVNGV.WithKind("Vpc"),
	intent.Subnet:            kubeOVNGV.WithKind("Subnet"),
	intent.OvnEip:            kubeOVNGV.WithKind("OvnEip"),
	intent.OvnFip:            kubeOVNGV.WithKind("OvnFip"),
	intent.OvnSnatRule:       kubeOVNGV.WithKind("OvnSnatRule"),
	intent.NetworkAttachment: multusGV.WithKind("NetworkAttachmentDefinition"),
	Pod:                      coreGV.WithKind("Pod"),
	VMI:                      kubeVirtGV.WithKind("VirtualMachineInstance"),
	intent.Service:           coreGV.WithKind("Service"),
	intent.EndpointSlice:     discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"),
	intent.Backend:           envoyGV.WithKind("Backend"),
	intent.ExternalNetwork:   kubedcv1alpha1.GroupVersion.WithKind("ExternalNetwork"),
	intent.EgressIP:          ovnv1.GroupVersion.WithKind("EgressIP"),
	intent.EgressService:     ovnv1.GroupVersion.WithKind("EgressService"),
	intent.EgressRoute:       kubedcv1alpha1.GroupVersion.WithKind("EgressRoute"),
	intent.NodePath:          kubedcv1alpha1.GroupVersion.WithKind("NodePath"),
}

// appliedKinds are the kinds of which we write whole objects.
var appliedKinds = []intent.Kind{
	intent.Namespace, intent.Vpc, intent.Subnet, intent.NetworkAttachment, intent.OvnEip, intent.EIp,
	intent.OvnSnatRule, intent.OvnFip,
	intent.Service, intent.EndpointSlice, intent.Backend, intent.NodePath, intent.ExternalNetwork,
}

// optionalKinds are the kinds that the API server may not serve.
var optionalKinds = []intent.Kind{VMI, intent.Backend}

// writtenKinds are the kinds that we write to, even if only a finalizer or a status.
var writtenKinds = append([]intent.Kind{
	intent.Project, intent.FIp, intent.EgressIP,
	intent.EgressService, intent.EgressRoute,
}, appliedKinds...)

// immutableKinds are the kinds whose spec Kube-OVN reads only once. To change the spec, the object must be deleted and
// created again.
var immutableKinds = map[intent.Kind]bool{intent.OvnEip: true, intent.OvnFip: true, intent.OvnSnatRule: true}

var scheme = newScheme()

func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(corev1.AddToScheme(s))
	utilruntime.Must(discoveryv1.AddToScheme(s))
	utilruntime.Must(appsv1.AddToScheme(s))
	utilruntime.Must(authorizationv1.AddToScheme(s))
	utilruntime.Must(coordinationv1.AddToScheme(s))
	utilruntime.Must(networkingv1.AddToScheme(s))
	utilruntime.Must(kubedcv1.AddToScheme(s))
	utilruntime.Must(kubedcv1alpha1.AddToScheme(s))
	utilruntime.Must(ovnv1.AddToScheme(s))
	registerKind(s, kubeOVNGV, "Vpc", &Vpc{}, &VpcList{})
	registerKind(s, kubeOVNGV, "Subnet", &Subnet{}, &SubnetList{})
	registerKind(s, kubeOVNGV, "OvnEip", &OvnEip{}, &OvnEipList{})
	registerKind(s, kubeOVNGV, "OvnFip", &OvnFip{}, &OvnFipList{})
	registerKind(s, kubeOVNGV, "OvnSnatRule", &OvnSnatRule{}, &OvnSnatRuleList{})
	registerKind(s, kubeOVNGV, "OvnDnatRule", &OvnDnatRule{}, &OvnDnatRuleList{})
	registerKind(s, kubeOVNGV, "Vlan", &Vlan{}, &VlanList{})
	registerKind(s, kubeOVNGV, "ProviderNetwork", &ProviderNetwork{}, &ProviderNetworkList{})
	registerKind(s, multusGV, "NetworkAttachmentDefinition", &NetworkAttachmentDefinition{},
		&NetworkAttachmentDefinitionList{})
	registerKind(s, kubeVirtGV, "VirtualMachineInstance", &VirtualMachineInstance{}, &VirtualMachineInstanceList{})
	registerKind(s, envoyGV, "Backend", &Backend{}, &BackendList{})
	for _, gv := range []schema.GroupVersion{kubeOVNGV, multusGV, kubeVirtGV, envoyGV} {
		metav1.AddToGroupVersion(s, gv)
	}
	return s
}

// registerKind registers a kind by name: foreign kinds share one generic Go type, whose own name says nothing.
func registerKind[S, T any](s *runtime.Scheme, gv schema.GroupVersion, kind string, object *Object[S, T],
	list *ObjectList[S, T],
) {
	s.AddKnownTypeWithName(gv.WithKind(kind), object)
	s.AddKnownTypeWithName(gv.WithKind(kind+"List"), list)
}
