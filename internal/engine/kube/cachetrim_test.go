package kube

import (
	"fmt"
	"reflect"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/shard"
)

// trimForTest returns an object as a cache keeps it.
func trimForTest[T client.Object](t *testing.T, o T) T {
	t.Helper()
	out, err := TrimObject(o)
	if err != nil {
		t.Fatal(err)
	}
	return out.(T)
}

// statusFieldsOfService are the managed fields of a status as the API server writes them.
const statusFieldsOfService = `{"f:status":{"f:conditions":{"k:{\"type\":\"Accepted\"}":{".":{},` +
	`"f:lastTransitionTime":{},"f:message":{},"f:observedGeneration":{},"f:reason":{},"f:status":{},"f:type":{}},` +
	`"k:{\"type\":\"Programmed\"}":{".":{},"f:lastTransitionTime":{},"f:message":{},"f:observedGeneration":{},` +
	`"f:reason":{},"f:status":{},"f:type":{}}},"f:loadBalancer":{"f:ingress":{}}}}`

// newClusterService returns a Service as the API server returns it: with the fields and annotations of others.
func newClusterService(name string) *corev1.Service {
	class, local := kubedcv1.LoadBalancerClass, corev1.ServiceInternalTrafficPolicyLocal
	seconds, policy := int32(600), corev1.IPFamilyPolicySingleStack
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Namespace: "acme-web", Name: name, UID: types.UID("0e9f4a4f-94f4-4f2e-8f0b-" + name), ResourceVersion: "77",
		Generation: 3, CreationTimestamp: metav1.Unix(1_000, 0), Labels: map[string]string{"app": name},
		Annotations: map[string]string{
			kubedcv1.BindAnnotation: "front", kubedcv1.HealthAnnotation: "interval=7", "ovn.kubernetes.io/vpc": "acme-web",
			"kubectl.kubernetes.io/last-applied-configuration": fmt.Sprintf(
				`{"apiVersion":"v1","kind":"Service","metadata":{"name":%q},"spec":{"type":"LoadBalancer"}}`, name),
		},
		ManagedFields: []metav1.ManagedFieldsEntry{
			managedFieldsEntry("kubectl", applyOperation, "", `{"f:spec":{"f:ports":{},"f:selector":{},"f:type":{}}}`),
			managedFieldsEntry(ownership.StatusManager, applyOperation, "status", statusFieldsOfService),
		},
	}}
	s.Spec = corev1.ServiceSpec{
		Type: corev1.ServiceTypeLoadBalancer, Selector: map[string]string{"app": name}, ClusterIP: "10.96.0.9",
		ClusterIPs: []string{"10.96.0.9"}, ExternalIPs: []string{"192.0.2.7"}, LoadBalancerClass: &class,
		LoadBalancerIP: "192.0.2.8", LoadBalancerSourceRanges: []string{"198.51.100.0/24"},
		Ports:           []corev1.ServicePort{{Name: "web", Protocol: corev1.ProtocolTCP, Port: 80, NodePort: 30080}},
		SessionAffinity: corev1.ServiceAffinityClientIP, InternalTrafficPolicy: &local,
		SessionAffinityConfig: &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &seconds}},
		IPFamilies:            []corev1.IPFamily{corev1.IPv4Protocol}, IPFamilyPolicy: &policy,
	}
	s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.8"}}
	for _, kind := range []string{"Accepted", "Programmed", intent.HasEndpoints} {
		s.Status.Conditions = append(s.Status.Conditions, metav1.Condition{
			Type: kind, Status: metav1.ConditionFalse, Reason: kind, LastTransitionTime: metav1.Unix(2_000, 0),
		})
	}
	return s
}

// newClusterSlice returns the endpoints of a Service as the API server returns them.
func newClusterSlice(name string) *discoveryv1.EndpointSlice {
	port, protocol, portName := int32(8080), corev1.ProtocolTCP, "web"
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "acme-web", Name: name + "-x7", UID: types.UID("5b1c4a4f-94f4-4f2e-8f0b-" + name),
			ResourceVersion: "78", GenerateName: name + "-", Labels: map[string]string{
				discoveryv1.LabelServiceName: name, discoveryv1.LabelManagedBy: "endpointslice-controller.k8s.io", "app": name,
			},
			Annotations:     map[string]string{"endpoints.kubernetes.io/last-change-trigger-time": "2026-01-01T12:00:00Z"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: name, UID: "77"}},
			ManagedFields: []metav1.ManagedFieldsEntry{managedFieldsEntry("kube-controller-manager", applyOperation, "",
				`{"f:addressType":{},"f:endpoints":{},"f:ports":{}}`)},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: &portName, Port: &port, Protocol: &protocol}},
	}
	for i := range 10 {
		ready, serving, terminating, node := i > 0, true, i == 0, fmt.Sprint("node", i)
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{fmt.Sprint("10.0.0.", 10+i)}, NodeName: &node,
			Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &serving, Terminating: &terminating},
			TargetRef: &corev1.ObjectReference{
				Kind: "Pod", Namespace: "acme-web", Name: fmt.Sprint(name, "-6d5f8b7c9-", i),
				UID: types.UID(fmt.Sprint("1c4a4f5b-94f4-4f2e-8f0b-", i)),
			},
		})
	}
	return s
}

func TestTrimmedServiceReadsTheSame(t *testing.T) {
	whole, slice := newClusterService("web"), newClusterSlice("web")
	trimmed, trimmedSlice := trimForTest(t, whole.DeepCopy()), trimForTest(t, slice.DeepCopy())
	if a, b := readService(whole), readService(trimmed); !reflect.DeepEqual(a, b) || a.Malformed != "" {
		t.Errorf("the Service reads as\n%+v, trimmed as\n%+v", a, b)
	}
	if a, b := readServiceAddresses(whole), readServiceAddresses(trimmed); !reflect.DeepEqual(a, b) {
		t.Errorf("its addresses read as %v, trimmed as %v", a, b)
	}
	a, _ := readEndpoints(whole, []*discoveryv1.EndpointSlice{slice})
	b, _ := readEndpoints(trimmed, []*discoveryv1.EndpointSlice{trimmedSlice})
	if !reflect.DeepEqual(a, b) || len(a) != 10 || a[3].TargetPod == "" {
		t.Errorf("its endpoints read as\n%+v, trimmed as\n%+v", a, b)
	}
	before, err := appliedStatus(whole)
	if err != nil {
		t.Fatal(err)
	}
	if after, err := appliedStatus(trimmed); err != nil || before != after || before == (intent.Status{}) {
		t.Errorf("its status reads as %v, trimmed as %v (%v)", before, after, err)
	}
	if trimmed.Spec.Selector != nil || len(trimmed.Annotations) != 2 || trimmedSlice.Endpoints[0].NodeName != nil {
		t.Errorf("nothing was trimmed: %+v", trimmed)
	}
}

// A cache trims objects twice when it starts.
func TestTrimmingTwiceAllocatesLittle(t *testing.T) {
	s := trimForTest(t, newClusterSlice("web"))
	if n := testing.AllocsPerRun(10, func() { trimForTest(t, s) }); n > 1 {
		t.Errorf("%.0f allocations", n)
	}
}

// Of an object that we applied, each field is compared with what compile wants.
func TestAppliedServiceIsKept(t *testing.T) {
	s := newClusterService("web")
	s.ManagedFields = append(s.ManagedFields, managedFieldsEntry(ownership.FieldManager, applyOperation, "",
		`{"f:spec":{"f:selector":{}}}`))
	if trimmed := trimForTest(t, s.DeepCopy()); !reflect.DeepEqual(trimmed.Spec, s.Spec) ||
		!reflect.DeepEqual(trimmed.Annotations, s.Annotations) {
		t.Errorf("the cache keeps %+v", trimmed)
	}
}

// Kubernetes updates EndpointSlices for reasons that do not concern load balancers.
func TestOnlyChangedEndpointsTriggerRuns(t *testing.T) {
	service := newClusterService("web")
	service.ManagedFields = nil
	for what, c := range map[string]struct {
		change func(*discoveryv1.EndpointSlice)
		runs   bool
	}{
		"the time of the last change": {func(s *discoveryv1.EndpointSlice) { s.Annotations = nil }, false},
		"a zone":                      {func(s *discoveryv1.EndpointSlice) { s.Endpoints[2].Zone = new(string) }, false},
		"an endpoint terminates": {func(s *discoveryv1.EndpointSlice) {
			s.Endpoints[2].Conditions.Terminating = new(true)
		}, false},
		"an endpoint is not ready": {func(s *discoveryv1.EndpointSlice) { s.Endpoints[2].Conditions.Ready = new(false) }, true},
		"another address":          {func(s *discoveryv1.EndpointSlice) { s.Endpoints[2].Addresses[0] = "10.0.0.99" }, true},
		"another port":             {func(s *discoveryv1.EndpointSlice) { s.Ports[0].Port = new(int32(9090)) }, true},
		"one endpoint less":        {func(s *discoveryv1.EndpointSlice) { s.Endpoints = s.Endpoints[1:] }, true},
		"another Service": {func(s *discoveryv1.EndpointSlice) {
			s.Labels[discoveryv1.LabelServiceName] = "other"
		}, true},
	} {
		was, is, runs := newClusterSlice("web"), newClusterSlice("web"), false
		is.ResourceVersion = "79"
		c.change(is)
		w := &eventMapper{
			cluster: newFakeCluster(service), enqueue: func(shard.Shard) { runs = true },
		}
		w.handleChange(t.Context(), trimForTest(t, was), trimForTest(t, is))
		if runs != c.runs {
			t.Errorf("%s: runs %t, wanted %t", what, runs, c.runs)
		}
	}
}

// Users can apply fields in our name.
func TestSharedFieldSetsAreBounded(t *testing.T) {
	table := fieldSetTable{byText: map[string]*metav1.FieldsV1{}}
	first := table.share(metav1.NewFieldsV1("{}"))
	for i := range 2 * maxSharedFieldSets {
		table.share(metav1.NewFieldsV1(fmt.Sprintf(`{"f:%d":{}}`, i)))
	}
	if again := table.share(metav1.NewFieldsV1("{}")); again != first || len(table.byText) > maxSharedFieldSets {
		t.Errorf("%d sets are kept", len(table.byText))
	}
}

// maxTrimmedShare is how much of the memory of a Service and its endpoints a cache may keep.
const maxTrimmedShare = 0.65

func TestTrimmedServiceIsSmall(t *testing.T) {
	whole := measureHeap(t, func(o client.Object) client.Object { return o })
	trimmed := measureHeap(t, func(o client.Object) client.Object { return trimForTest(t, o) })
	t.Logf("a Service with ten endpoints: %d bytes, trimmed %d", whole, trimmed)
	if share := float64(trimmed) / float64(whole); share > maxTrimmedShare {
		t.Errorf("trimmed to %.2f of the memory, wanted %.2f", share, maxTrimmedShare)
	}
}

// measureHeap returns the heap that a Service with its endpoints uses after a change.
func measureHeap(t *testing.T, change func(client.Object) client.Object) uint64 {
	t.Helper()
	const count = 2000
	kept := make([]client.Object, 0, 2*count)
	before := liveHeap()
	for i := range count {
		name := fmt.Sprint("service-", i)
		kept = append(kept, change(newClusterService(name)), change(newClusterSlice(name)))
	}
	used := liveHeap() - before
	runtime.KeepAlive(kept)
	return used / count
}

// liveHeap returns the size of all objects that are in use.
func liveHeap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
