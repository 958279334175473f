package scale

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/compile"
	"github.com/sallyport/sallyport/internal/engine/kube"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/snapshot"
	"github.com/sallyport/sallyport/internal/model/state"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// nodePathCluster is a cluster whose nodes are on an external network through which Services are reached.
type nodePathCluster struct {
	*memoryCluster
	nodes, services int
}

// newNodePathCluster returns a cluster in which all NodePaths are written.
func newNodePathCluster(t testing.TB, nodes, services int) *nodePathCluster {
	t.Helper()
	c := &nodePathCluster{newMemoryCluster(t), nodes, services}
	network := &kubedcv1alpha1.ExternalNetwork{ObjectMeta: metav1.ObjectMeta{Name: "uplink"}}
	network.Spec.Nodes = &kubedcv1alpha1.NodeUplink{
		Interface: "eth1", Gateways: []string{"192.168.0.1"}, Method: kubedcv1alpha1.NodeMark,
		Addresses: []string{"192.168.0.0/16"},
	}
	c.put(t, network)
	for i := range nodes {
		c.put(t, newGatewayNode(i))
	}
	for i := range services {
		c.putExposedService(t, i, "192.168.1.1")
	}
	c.writeNodePaths(t, c.compile(t))
	if changed := c.countChanges(t); changed != 0 {
		t.Fatalf("the NodePaths are not in steady state: %d change", changed)
	}
	return c
}

// putExposedService puts a Service with an external address.
func (c *nodePathCluster) putExposedService(t testing.TB, i int, external string) {
	t.Helper()
	name := fmt.Sprintf("s%05d", i)
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "gate", Name: name, UID: types.UID(name)}}
	s.Spec.Type, s.Spec.ClusterIPs = corev1.ServiceTypeLoadBalancer, []string{fmt.Sprintf("10.96.%d.%d", i>>8, i&255)}
	s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: external}}
	c.put(t, s)
}

// compile gathers and compiles the NodePaths.
func (c *nodePathCluster) compile(t testing.TB) *intent.Intent {
	t.Helper()
	inputs, err := c.GatherNodePaths(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	want, _ := compile.Nodes(inputs.BuildNodeSnapshot(snapshot.Config{}))
	if len(want.Objects) != c.nodes {
		t.Fatalf("%d nodes have %d NodePaths", c.nodes, len(want.Objects))
	}
	return want
}

// countChanges runs the shard without writing, and returns how many NodePaths it would write.
func (c *nodePathCluster) countChanges(t testing.TB) int {
	t.Helper()
	plan, err := state.PreparePlan(context.Background(), kube.NewObjects(c.Cluster, ownership.NodesShard),
		c.compile(t).Objects)
	if err != nil {
		t.Fatal(err)
	}
	return len(plan.ChangeKeys())
}

// writeNodePaths puts NodePaths as they are after the API server has stored what we applied.
func (c *nodePathCluster) writeNodePaths(t testing.TB, want *intent.Intent) {
	t.Helper()
	fields := ""
	for key, entry := range want.Objects {
		o := &kubedcv1alpha1.NodePath{}
		if err := utiljson.Unmarshal([]byte(entry.Value.Content), o); err != nil {
			t.Fatal(err)
		}
		o.Name = key.Name
		if fields == "" {
			fields = describeNodePathFields(o)
		}
		o.ManagedFields = []metav1.ManagedFieldsEntry{{
			Manager: ownership.FieldManager, Operation: metav1.ManagedFieldsOperationApply,
			FieldsV1: metav1.NewFieldsV1(fields),
		}}
		c.put(t, o)
	}
}

// describeNodePathFields returns the managed fields of a NodePath as the API server keeps them: one for each Service.
func describeNodePathFields(o *kubedcv1alpha1.NodePath) string {
	var services []string
	for _, address := range o.Spec.Networks[0].Services {
		services = append(services, fmt.Sprintf(`"v:\"%s\"":{}`, address))
	}
	return fmt.Sprintf(`{"f:metadata":{"f:labels":{"f:%s":{},"f:%s":{}}},"f:spec":{"f:networks":{"k:{\"name\":\"uplink\"}":`+
		`{".":{},"f:name":{},"f:number":{},"f:interface":{},"f:gateways":{"v:\"192.168.0.1\"":{}},"f:method":{},`+
		`"f:services":{%s}}}}}`, ownership.ManagedByLabel, ownership.ShardLabel, strings.Join(services, ","))
}

// TestScale5NodePaths measures what the controller does for one Service whose external address changed: for the run that
// finds what to write, and for the next one, which reads what was written.
func TestScale5NodePaths(t *testing.T) {
	item := scaleItems.Item(t, 5)
	nodes, services := show.ChooseSize(1000, 50), show.ChooseSize(10_000, 1000)
	c := newNodePathCluster(t, nodes, services)
	begin := processCPUTime(t)
	if changed := c.countChanges(t); changed != 0 {
		t.Errorf("%d NodePaths change without a change", changed)
	}
	rest := processCPUTime(t) - begin
	c.putExposedService(t, 0, "172.16.0.1") // not of this network
	begin = processCPUTime(t)
	changed := c.countChanges(t)
	compare := processCPUTime(t) - begin
	if changed != nodes {
		t.Errorf("%d NodePaths change, want %d", changed, nodes)
	}
	want := c.compile(t)
	bytes := 0
	for _, entry := range want.Objects {
		bytes += len(entry.Value.Content)
	}
	c.writeNodePaths(t, want)
	begin = processCPUTime(t)
	if changed := c.countChanges(t); changed != 0 {
		t.Errorf("%d NodePaths differ after they were written", changed)
	}
	read := processCPUTime(t) - begin
	var memory runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&memory)
	item.AddFigure("%d nodes, %d Services: a run without a change needs %.0f ms of CPU, a changed Service %.0f ms to find "+
		"and %.0f ms to read back %d NodePaths of together %.1f MB, all of which are written; live heap %d MiB",
		nodes, services, harness.Milliseconds(rest), harness.Milliseconds(compare), harness.Milliseconds(read), changed,
		float64(bytes)/(1<<20), memory.HeapAlloc>>20)
	if limit := time.Duration(nodes) * maxNodePathRead(services); read > limit {
		t.Errorf("reading the NodePaths needs %s of CPU, wanted at most %s", read, limit)
	}
}

// maxNodePathRead is the most processor time that reading a NodePath back may need: in proportion to its Services. It
// needed 250 ms for 1,000 Services when it was quadratic. The processor time is that of all goroutines of the tests.
func maxNodePathRead(services int) time.Duration {
	return 10*time.Millisecond + time.Duration(services)*10*time.Microsecond
}
