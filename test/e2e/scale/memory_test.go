package scale

import (
	"context"
	"fmt"
	"net/http"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// maxServiceHeap is the most live heap, in KiB, that the controller may use for a Service with ten endpoints: its
// objects, the companion objects, the row and what is remembered about them.
const maxServiceHeap = 20

// maxResidentMemory is the most memory, in MiB, of a restarted controller with 10,000 Services: half of the 854 MiB that
// it used before caches were trimmed.
const maxResidentMemory = 427

// memoryFixture has Services with endpoints that do not exist. Kube-OVN's controller, northd and the data plane are
// paused: only Kubernetes, the northbound database and the controller work.
type memoryFixture struct {
	*harness.ScaleFixture
	profiles string // address of the controller's profiles
}

// TestScale7Memory measures the memory of a restarted controller, without Services and with many.
func TestScale7Memory(t *testing.T) {
	item := scaleItems.Item(t, 7)
	address := harness.FreeAddress(t)
	f := memoryFixture{harness.NewScaleFixture(t, "--pprof-address", address), address}
	f.GrowTo(t, show.ChooseSize(100, 4))
	for i := range f.Size {
		if err := f.CreateObject(harness.Within(t, harness.Patience), "EIp", f.NamespaceOf(i), sharedEIP,
			"externalNetworkType: cloud"); err != nil {
			t.Fatal(err)
		}
	}
	for i := range f.Size {
		f.WaitForObject(t, "EIp", f.NamespaceOf(i), sharedEIP, manifest.True("Programmed"))
	}
	for _, process := range []string{"kube-ovn-controller", "ovn-northd", "node1-ovn-controller"} {
		f.ControlLab(t, "pause", process)
	}
	empty := f.measureMemory(t)
	services := show.ChooseSize(10000, 150)
	f.createServices(t, services)
	grown := f.measureMemory(t)
	each := (grown.heap - empty.heap) / float64(services) / 1024
	item.AddFigure("a restarted controller with %d projects: %s", f.Size, empty)
	item.AddFigure("the same with %d Services of ten endpoints: %s; %.1f KiB of live heap for each", services, grown, each)
	if each > maxServiceHeap || each < 1 {
		t.Errorf("a Service uses %.1f KiB of live heap, wanted at most %d", each, maxServiceHeap)
	}
	if show.IsFullSize() && grown.resident > maxResidentMemory {
		t.Errorf("%s, wanted at most %d MiB", grown, maxResidentMemory)
	}
}

// memoryUse is how much memory a process uses.
type memoryUse struct {
	resident, peak int     // MiB
	heap           float64 // bytes of live objects, and what main reserves
}

func (m memoryUse) String() string {
	return fmt.Sprintf("%d MiB, at most %d MiB", m.resident, m.peak)
}

// measureMemory restarts the controller and waits until it is idle.
func (f memoryFixture) measureMemory(t *testing.T) (out memoryUse) {
	t.Helper()
	f.WaitIdle(t)
	f.Controller.Stop(syscall.SIGTERM)
	f.Controller.Start(t)
	f.WaitIdle(t)
	return f.readMemory(t)
}

// reservedHeap is what main reserves of the heap for the pace of garbage collection. It needs no memory.
const reservedHeap = 64 << 20

// readMemory returns the memory that the controller uses after a garbage collection.
func (f memoryFixture) readMemory(t *testing.T) (out memoryUse) {
	t.Helper()
	out.resident, out.peak = f.Controller.MemoryUsage(t)
	// the profile of a heap begins with a garbage collection if one is asked for
	answer, err := http.Get("http://" + f.profiles + "/debug/pprof/heap?gc=1")
	if err != nil {
		t.Fatal(err)
	}
	if err := answer.Body.Close(); err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("the controller's heap profile: %s, %v", answer.Status, err)
	}
	out.heap = f.Controller.ReadMetrics(t)["go_memstats_heap_alloc_bytes"]
	return out
}

// sharedEIP is the EIp that the Services of a project share.
const sharedEIP = "front"

// createServices creates Services, distributed over the projects, and waits until all are Programmed.
func (f memoryFixture) createServices(t *testing.T, count int) {
	t.Helper()
	ctx := harness.Within(t, show.ChooseSize(30*time.Minute, 2*time.Minute))
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(12)
	for i := range count {
		group.Go(func() error { return f.createService(inner, i) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	f.WaitIdle(t)
	for i := range f.Size {
		name := fmt.Sprintf("s%05d", count-f.Size+i)
		f.WaitForObject(t, "Service", f.NamespaceOf((count-f.Size+i)%f.Size), name, manifest.True("Programmed"))
	}
}

// createService creates a Service and its endpoints.
func (f memoryFixture) createService(ctx context.Context, i int) error {
	return f.createServiceAt(ctx, i, "")
}

// createServiceAt creates a Service with a cluster IP, and its endpoints.
func (f memoryFixture) createServiceAt(ctx context.Context, i int, clusterIP string) error {
	namespace, name, no := f.NamespaceOf(i%f.Size), fmt.Sprintf("s%05d", i), false
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Name: name, Annotations: map[string]string{kubedcv1.BindAnnotation: sharedEIP},
	}}
	service.Spec = corev1.ServiceSpec{
		Type: corev1.ServiceTypeLoadBalancer, AllocateLoadBalancerNodePorts: &no, ClusterIP: clusterIP,
		Ports: []corev1.ServicePort{{Port: int32(1000 + i/f.Size)}},
	}
	if _, err := f.Client.CoreV1().Services(namespace).Create(ctx, service, metav1.CreateOptions{}); err != nil {
		return err
	}
	_, err := f.Client.DiscoveryV1().EndpointSlices(namespace).Create(ctx, newEndpointSlice(name, 10),
		metav1.CreateOptions{})
	return err
}

// newEndpointSlice returns endpoints as Kubernetes' controller writes them for pods.
func newEndpointSlice(service string, count int) *discoveryv1.EndpointSlice {
	port, protocol, portName, node, yes := int32(8080), corev1.ProtocolTCP, "", "node1", true
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Name: service, Labels: map[string]string{discoveryv1.LabelServiceName: service},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: &portName, Port: &port, Protocol: &protocol}},
	}
	for n := range count {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses:  []string{fmt.Sprintf("10.0.0.%d", 100+n)},
			NodeName:   &node,
			Conditions: discoveryv1.EndpointConditions{Ready: &yes, Serving: &yes},
			TargetRef:  &corev1.ObjectReference{Kind: "Pod", Name: fmt.Sprintf("%s-6d5f8b7c9-%05d", service, n)},
		})
	}
	return slice
}
