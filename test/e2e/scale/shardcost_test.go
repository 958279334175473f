package scale

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	"github.com/sallyport/sallyport/internal/compile"
	"github.com/sallyport/sallyport/internal/engine/kube"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/shard"
	"github.com/sallyport/sallyport/internal/model/snapshot"
	"github.com/sallyport/sallyport/internal/model/state"
	"github.com/sallyport/sallyport/internal/model/status"
)

// memoryCluster is a cluster without an API server: the controller's cache, with objects that are put into it.
type memoryCluster struct {
	*kube.Cluster
	mu        sync.Mutex
	informers map[string]toolscache.SharedIndexInformer // by kind
	events    map[string]*watch.FakeWatcher             // by kind
	versions  int
	enqueued  map[shard.Shard][]intent.ObjectKey // of the events that have enqueued each shard: what to read anew
	changed   *sync.Cond                         // enqueued has changed
}

// emptySource is an API server without objects, and with the events that a test sends.
type emptySource struct {
	list   func() runtime.Object
	events *watch.FakeWatcher
}

func (s emptySource) List(metav1.ListOptions) (runtime.Object, error) { return s.list(), nil }

func (s emptySource) Watch(metav1.ListOptions) (watch.Interface, error) { return s.events, nil }

// IsWatchListSemanticsUnSupported makes a cache list objects before it watches them.
func (emptySource) IsWatchListSemanticsUnSupported() bool { return true }

// newMemoryCluster starts an empty cluster that lives as long as the test.
func newMemoryCluster(t testing.TB) *memoryCluster {
	t.Helper()
	out, options := &memoryCluster{
		informers: map[string]toolscache.SharedIndexInformer{}, events: map[string]*watch.FakeWatcher{},
		enqueued: map[shard.Shard][]intent.ObjectKey{},
	}, kube.CacheOptions()
	out.changed = sync.NewCond(&out.mu)
	mapper := meta.NewDefaultRESTMapper(nil)
	for gvk := range kube.Scheme().AllKnownTypes() {
		mapper.Add(gvk, meta.RESTScopeNamespace)
	}
	options.Scheme, options.Mapper = kube.Scheme(), mapper
	options.NewInformer = func(_ toolscache.ListerWatcher, o runtime.Object, resync time.Duration,
		indexers toolscache.Indexers,
	) toolscache.SharedIndexInformer {
		kinds, _, _ := kube.Scheme().ObjectKinds(o)
		events := watch.NewFakeWithOptions(watch.FakeOptions{ChannelSize: 1 << 10})
		informer := toolscache.NewSharedIndexInformer(emptySource{func() runtime.Object {
			list, _ := kube.Scheme().New(kinds[0].GroupVersion().WithKind(kinds[0].Kind + "List"))
			return list
		}, events}, o, resync, indexers)
		out.mu.Lock()
		defer out.mu.Unlock()
		out.informers[kinds[0].Kind], out.events[kinds[0].Kind] = informer, events
		return informer
	}
	store, err := cache.New(&rest.Config{Host: "memory.invalid"}, options)
	if err != nil {
		t.Fatal(err)
	}
	api := fake.NewClientBuilder().WithScheme(kube.Scheme()).WithRESTMapper(mapper).Build()
	if out.Cluster, err = kube.NewCluster(t.Context(), api, store); err != nil {
		t.Fatal(err)
	}
	if err := out.Watch(t.Context(), store, out.enqueue); err != nil {
		t.Fatal(err)
	}
	go func() { _ = store.Start(t.Context()) }() // if it fails, WaitForCacheSync fails too
	if !store.WaitForCacheSync(t.Context()) {
		t.Fatal("the cache is not filled")
	}
	return out
}

// put adds an object to the cache, or replaces it.
func (c *memoryCluster) put(t testing.TB, o client.Object) {
	t.Helper()
	c.versions++
	o.SetResourceVersion(fmt.Sprint(c.versions))
	trimmed, err := kube.TrimObject(o)
	if err == nil {
		key, _ := kube.KeyOf(o)
		err = c.informers[string(key.Kind)].GetIndexer().Add(trimmed)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// costShard is a project whose Services share an address, in a cluster in which everything is written.
type costShard struct {
	*memoryCluster
	services int
	rows     intent.Rows // as observed
	memo     *compile.Memo
	changes  int
}

// The project of the golden cases that has been applied by Kube-OVN, its own address, and the ports of its router.
const (
	costVPC     = "acme-prod"
	costAddress = "100.65.0.2"
)

var (
	costFiles = []string{"cloud", "project", "running"}
	costPorts = []string{"acme-prod-ext-cloud", "acme-prod-acme-prod-default"}
)

// newCostShard returns a shard with Services of ten endpoints each, in steady state.
func newCostShard(t testing.TB, services int) *costShard {
	t.Helper()
	s := &costShard{memoryCluster: newMemoryCluster(t), services: services}
	decoder := serializer.NewCodecFactory(kube.Scheme()).UniversalDeserializer()
	for _, file := range costFiles {
		raw, err := os.ReadFile(filepath.Join("../../../internal/compile/testdata", file+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		for part := range strings.SplitSeq(string(raw), "---\n") {
			o, _, err := decoder.Decode([]byte(part), nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			kube.AdoptByLabels(o.(client.Object))
			s.put(t, o.(client.Object))
		}
	}
	for i := range services {
		s.put(t, newBoundService(i, map[string]any{}))
		s.putEndpoints(t, i, 10)
	}
	for range 3 { // until statuses show what is observed
		want, statuses := s.compile(t)
		s.settle(t, want, statuses)
	}
	want, statuses := s.compile(t)
	service := statuses[intent.ObjectKey{Kind: intent.Service, Namespace: costVPC, Name: "s00000"}].Value.Content
	if len(state.Diff(want.Rows, s.rows)) > 0 || len(want.Objects) < 2*services ||
		strings.Contains(service, `"status":"False"`) || !strings.Contains(service, costAddress) {
		t.Fatalf("the shard is not in steady state: %d objects, status %s", len(want.Objects), service)
	}
	s.settleMemo(t)
	return s
}

// newBoundService returns a Service on the project's own address, with a status that we applied.
func newBoundService(i int, fields map[string]any) *corev1.Service {
	out := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Namespace: costVPC, Name: fmt.Sprintf("s%05d", i), UID: types.UID(fmt.Sprintf("uid-%05d", i)),
		CreationTimestamp: metav1.Unix(int64(i), 0), Annotations: map[string]string{kubedcv1.BindDefaultAnnotation: "true"},
		ManagedFields: []metav1.ManagedFieldsEntry{newManagedFields(ownership.StatusManager, "status", fields)},
	}}
	out.Spec = corev1.ServiceSpec{
		Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: int32(1000 + i)}},
	}
	out.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: costAddress}}
	return out
}

// putEndpoints writes the endpoints of a Service.
func (s *costShard) putEndpoints(t testing.TB, i, count int) {
	t.Helper()
	slice := newEndpointSlice(fmt.Sprintf("s%05d", i), count)
	slice.Namespace = costVPC
	s.put(t, slice)
}

// newManagedFields returns the managed fields of an object of which we applied these fields.
func newManagedFields(manager, subresource string, applied map[string]any) metav1.ManagedFieldsEntry {
	text, _ := utiljson.Marshal(buildFieldSet(applied))
	return metav1.ManagedFieldsEntry{
		Manager: manager, Operation: metav1.ManagedFieldsOperationApply, Subresource: subresource,
		FieldsV1: metav1.NewFieldsV1(string(text)),
	}
}

// buildFieldSet returns the set of the fields of a value. The items of a list are identified by their plain members.
func buildFieldSet(value any) map[string]any {
	out := map[string]any{}
	switch value := value.(type) {
	case map[string]any:
		for name, member := range value {
			out["f:"+name] = buildFieldSet(member)
		}
	case []any:
		for _, item := range value {
			members, isObject := item.(map[string]any)
			plain := maps.Clone(members)
			maps.DeleteFunc(plain, func(_ string, v any) bool { return len(buildFieldSet(v)) > 0 })
			if !isObject || len(plain) == 0 {
				return map[string]any{} // the list as a whole
			}
			key, _ := utiljson.Marshal(plain)
			out["k:"+string(key)] = buildFieldSet(item)
		}
	}
	return out
}

// buildSnapshot reads the shard.
func (s *costShard) buildSnapshot(t testing.TB) (*snapshot.VpcInput, *kube.Inputs) {
	t.Helper()
	inputs, err := s.GatherVPC(context.Background(), costVPC, snapshot.Quotas{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return inputs.BuildSnapshot(snapshot.Config{}, costPorts, time.Unix(1<<20, 0)), inputs
}

// compile does what one run of the shard does in Kubernetes and in compile, without the northbound database.
func (s *costShard) compile(t testing.TB) (*intent.Intent, intent.Statuses) {
	t.Helper()
	ctx := context.Background()
	world, inputs := s.buildSnapshot(t)
	want, verdicts := compile.Shard(world)
	objects, err := state.PreparePlan(ctx, kube.NewObjects(s.Cluster, costVPC), want.Objects)
	if err != nil {
		t.Fatal(err)
	}
	statuses := status.RenderStatuses(verdicts, status.NewOutcome([]state.Plan{objects}, nil))
	target, err := kube.NewStatuses(s.Cluster, inputs.StatusObjects(), time.Now, nil)
	if err == nil {
		_, err = state.PreparePlan(ctx, target, statuses)
	}
	if err != nil {
		t.Fatal(err)
	}
	return want, statuses
}

// settle writes what is wanted: rows, companion objects of Services, and statuses of Services.
func (s *costShard) settle(t testing.TB, want *intent.Intent, statuses intent.Statuses) {
	t.Helper()
	s.rows = want.Rows
	for key, entry := range want.Objects {
		if key.Kind != intent.Service && key.Kind != intent.EndpointSlice {
			continue
		}
		fields := map[string]any{}
		o := client.Object(&corev1.Service{})
		if key.Kind == intent.EndpointSlice {
			o = &discoveryv1.EndpointSlice{}
		}
		if err := utiljson.Unmarshal([]byte(entry.Value.Content), &fields); err != nil {
			t.Fatal(err)
		}
		if err := utiljson.Unmarshal([]byte(entry.Value.Content), o); err != nil {
			t.Fatal(err)
		}
		o.SetNamespace(key.Namespace)
		o.SetName(key.Name)
		o.SetManagedFields([]metav1.ManagedFieldsEntry{newManagedFields(ownership.FieldManager, "", fields)})
		s.put(t, o)
	}
	for i := range s.services {
		fields := map[string]any{}
		key := intent.ObjectKey{Kind: intent.Service, Namespace: costVPC, Name: fmt.Sprintf("s%05d", i)}
		if err := utiljson.Unmarshal([]byte(statuses[key].Value.Content), &fields); err != nil {
			t.Fatal(err)
		}
		o := newBoundService(i, map[string]any{"status": fields})
		if err := utiljson.Unmarshal([]byte(statuses[key].Value.Content), &o.Status); err != nil {
			t.Fatal(err)
		}
		s.put(t, o)
	}
}

// changeEndpoint changes an endpoint of a Service, and returns how many rows have to be written.
func (s *costShard) changeEndpoint(t testing.TB) int {
	t.Helper()
	i := s.changes % s.services
	s.putEndpoints(t, i, 9+s.changes/s.services%2) // of each Service in turn, it goes or comes back
	s.changes++
	ctx := context.Background()
	key := intent.ObjectKey{Kind: intent.Service, Namespace: costVPC, Name: fmt.Sprintf("s%05d", i)}
	objects, services, ok := s.GatherEndpoints(ctx, shard.Named(costVPC), []intent.ObjectKey{key})
	if !ok {
		t.Fatalf("%s is not an input", key)
	}
	update, ok := s.memo.Update(services)
	if !ok {
		t.Fatalf("the memo did not follow a change of %s", key)
	}
	target, err := kube.NewStatuses(s.Cluster, objects, time.Now, nil)
	if err == nil {
		_, err = state.PreparePlan(ctx, target, status.RenderStatuses(update.Verdicts, status.Outcome{}))
	}
	if err != nil {
		t.Fatal(err)
	}
	changed := 0
	for row, entry := range update.Rows {
		if !s.rows[row].Value.Equal(entry.Value) {
			s.rows[row] = entry
			changed++
		}
	}
	return changed
}

// settleMemo compiles the shard, whose rows are all written, and keeps what changes of endpoints need.
func (s *costShard) settleMemo(t testing.TB) {
	t.Helper()
	vips := map[string]snapshot.VIP{}
	for _, row := range s.rows {
		if v, is := row.Value.(intent.VIP); is {
			vips[intent.FormatVIP(v.Protocol, v.Address)] = snapshot.VIP{Service: v.Service, LoadBalancer: v.LoadBalancer}
		}
	}
	var world *snapshot.VpcInput
	world, _ = s.buildSnapshot(t)
	world.Engine.VIPs = maps.Clone(vips)
	_, _, s.memo = compile.ShardWithMemo(world)
	if !s.memo.Settle(vips) {
		t.Fatal("the shard has no memo")
	}
}
