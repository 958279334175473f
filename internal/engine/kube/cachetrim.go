package kube

import (
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/ownership"
)

// CacheOptions returns the options of a cache whose objects are trimmed to what is read.
func CacheOptions() cache.Options { return cache.Options{DefaultTransform: TrimObject} }

// TrimObject transforms objects for caches: it keeps only what is read. Of an object that we applied, every field may
// be read. Of other Pods, Nodes, Namespaces, Services and EndpointSlices, of which a cluster has many, only the fields
// below are read. Objects of other kinds keep everything but the managed fields of others.
//
// It changes the object itself. A cache calls it twice for each object when it starts, and copies would be in memory
// beside the originals.
func TrimObject(o any) (any, error) {
	object, isObject := o.(client.Object)
	if !isObject {
		return o, nil // the tombstone of a missed deletion
	}
	trimManagedFields(object)
	if isAppliedByUs(object) {
		return object, nil
	}
	switch o := object.(type) {
	case *corev1.Pod:
		trimPod(o)
	case *corev1.Node:
		trimNode(o)
	case *corev1.Namespace:
		trimNamespace(o)
	case *corev1.Service:
		trimService(o)
	case *discoveryv1.EndpointSlice:
		trimEndpointSlice(o)
	}
	return object, nil
}

// trimManagedFields drops managed fields of other managers. Two facts about others are needed: when Kube-OVN last wrote
// the status of a Vpc, and whether anybody has written the spec of an ExternalNetwork.
func trimManagedFields(object client.Object) {
	_, isVpc := object.(*Vpc)
	_, isNetwork := object.(*kubedcv1alpha1.ExternalNetwork)
	var kept []metav1.ManagedFieldsEntry
	for _, entry := range object.GetManagedFields() {
		switch {
		case entry.Manager == ownership.FieldManager || entry.Manager == ownership.StatusManager:
			entry.FieldsV1 = sharedFieldSets.share(entry.FieldsV1)
			kept = append(kept, entry)
		case isNetwork: // they tell whether an operator has edited a generated one
			kept = append(kept, entry)
		case isVpc && entry.Subresource == "status":
			entry.FieldsV1 = nil
			kept = append(kept, entry)
		}
	}
	object.SetManagedFields(kept)
}

// isAppliedByUs reports whether an object has fields that we applied, apart from its status.
func isAppliedByUs(o client.Object) bool {
	return slices.ContainsFunc(o.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		return isAppliedBy(e, ownership.FieldManager)
	})
}

// fieldSetTable holds one copy of each set of managed fields. We apply the same fields to all objects of a kind, so
// there are few different sets.
type fieldSetTable struct {
	mu     sync.Mutex
	byText map[string]*metav1.FieldsV1
}

// maxSharedFieldSets bounds the table: users can apply fields in our name, and different ones each time.
const maxSharedFieldSets = 1024

var sharedFieldSets = fieldSetTable{byText: map[string]*metav1.FieldsV1{}}

// share returns the copy in the table that equals a set. Nobody may modify it.
func (t *fieldSetTable) share(fields *metav1.FieldsV1) *metav1.FieldsV1 {
	if fields == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	text := fields.GetRawString()
	if shared, known := t.byText[text]; known {
		return shared
	}
	if len(t.byText) < maxSharedFieldSets {
		t.byText[text] = fields
	}
	return fields
}

// trimPod keeps names, labels, addresses, node, phase, whether the pod has the node's network, and if so the ports that it
// declares.
func trimPod(o *corev1.Pod) {
	kept := corev1.Pod{
		ObjectMeta: trimMeta(o.ObjectMeta, kubeovn.IPAddressAnnotation),
		Spec:       corev1.PodSpec{NodeName: o.Spec.NodeName, HostNetwork: o.Spec.HostNetwork},
		Status:     corev1.PodStatus{Phase: o.Status.Phase, PodIPs: o.Status.PodIPs},
	}
	if ports := declaredPorts(o); o.Spec.HostNetwork && len(ports) > 0 {
		kept.Spec.Containers = []corev1.Container{{Ports: ports}}
	}
	*o = kept
}

// trimNode keeps what decides whether a node may hold gateways and egress addresses.
func trimNode(o *corev1.Node) {
	node := corev1.Node{
		ObjectMeta: trimMeta(o.ObjectMeta, kubeovn.ChassisAnnotation),
		Spec:       corev1.NodeSpec{Unschedulable: o.Spec.Unschedulable},
		Status:     corev1.NodeStatus{Addresses: o.Status.Addresses},
	}
	for _, c := range o.Status.Conditions {
		if c.Type == corev1.NodeReady {
			node.Status.Conditions = []corev1.NodeCondition{{Type: c.Type, Status: c.Status}}
		}
	}
	*o = node
}

// trimNamespace keeps labels, quotas, the Subnet, and what blocks a deletion.
func trimNamespace(o *corev1.Namespace) {
	*o = corev1.Namespace{ObjectMeta: trimMeta(o.ObjectMeta, kubeovn.LogicalSwitchAnnotation), Status: o.Status}
}

// trimMeta keeps what is read of every object, the annotations that are ours and one of Kube-OVN's.
func trimMeta(m metav1.ObjectMeta, annotation string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion, Generation: m.Generation,
		CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp,
		Labels: m.Labels, Finalizers: m.Finalizers, ManagedFields: m.ManagedFields,
		Annotations: selectKeys(m.Annotations, func(key string) bool { return key == annotation || isOwnAnnotation(key) }),
	}
}

// selectKeys returns the entries of a map with the keys that are wanted: the same map if it has no others.
func selectKeys(all map[string]string, isWanted func(string) bool) map[string]string {
	wanted := 0
	for key := range all {
		if isWanted(key) {
			wanted++
		}
	}
	switch wanted {
	case len(all):
		return all
	case 0:
		return nil
	}
	out := make(map[string]string, wanted)
	for key, value := range all {
		if isWanted(key) {
			out[key] = value
		}
	}
	return out
}

// annotationDomains are the domains of our annotations. Those of EgressServices are OVN-Kubernetes' own.
var annotationDomains = []string{"kube-dc.com", "k8s.ovn.org"}

// isOwnAnnotation reports whether an annotation is in one of our domains, or below.
func isOwnAnnotation(key string) bool {
	domain, _, _ := strings.Cut(key, "/")
	return slices.ContainsFunc(annotationDomains, func(ours string) bool {
		return domain == ours || strings.HasSuffix(domain, "."+ours)
	})
}

// trimService keeps what decides about load balancers and about addresses that nodes serve.
func trimService(o *corev1.Service) {
	o.ObjectMeta, o.Labels = trimMeta(o.ObjectMeta, ""), nil
	o.Spec = corev1.ServiceSpec{
		Type: o.Spec.Type, Ports: o.Spec.Ports, ClusterIPs: o.Spec.ClusterIPs, ExternalIPs: o.Spec.ExternalIPs,
		SessionAffinity: o.Spec.SessionAffinity, SessionAffinityConfig: o.Spec.SessionAffinityConfig,
		LoadBalancerClass: o.Spec.LoadBalancerClass, LoadBalancerIP: o.Spec.LoadBalancerIP,
		LoadBalancerSourceRanges: o.Spec.LoadBalancerSourceRanges,
		IPFamilies:               o.Spec.IPFamilies, IPFamilyPolicy: o.Spec.IPFamilyPolicy,
	}
}

// trimEndpointSlice keeps the ports, and the addresses with their pods and conditions.
func trimEndpointSlice(o *discoveryv1.EndpointSlice) {
	o.ObjectMeta = trimMeta(o.ObjectMeta, "")
	o.Labels = selectKeys(o.Labels, func(key string) bool { return key == discoveryv1.LabelServiceName })
	if cap(o.Endpoints) > len(o.Endpoints) {
		o.Endpoints = slices.Clone(o.Endpoints)
	}
	for i := range o.Endpoints {
		e := &o.Endpoints[i]
		target := e.TargetRef
		*e = discoveryv1.Endpoint{Addresses: e.Addresses, Conditions: discoveryv1.EndpointConditions{
			Ready: shareBool(e.Conditions.Ready), Serving: shareBool(e.Conditions.Serving),
		}}
		if target != nil && target.Kind == podTarget {
			*target = corev1.ObjectReference{Kind: podTarget, Name: target.Name}
			e.TargetRef = target
		}
	}
}

var isTrue, isFalse = true, false

// shareBool returns a pointer to the same value that many objects share.
func shareBool(b *bool) *bool {
	switch {
	case b == nil:
		return nil
	case *b:
		return &isTrue
	default:
		return &isFalse
	}
}
