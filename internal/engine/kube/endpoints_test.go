package kube

import (
	"maps"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/shard"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// endpointsFixture has two load balancers with endpoints, and a Service of another type, in the namespace of a project.
func endpointsFixture() []client.Object {
	out := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "acme"}}}
	for _, name := range []string{"a", "b", "internal"} {
		kind := corev1.ServiceTypeLoadBalancer
		if name == "internal" {
			kind = corev1.ServiceTypeClusterIP
		}
		out = append(out, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: name},
			Spec:       corev1.ServiceSpec{Type: kind, Ports: []corev1.ServicePort{{Name: "web", Port: 80}}},
		})
		for _, part := range []string{"-1", "-2"} {
			out = append(out, newTestSlice(name, part))
		}
	}
	return out
}

func newTestSlice(service, part string) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "acme", Name: service + part, Labels: map[string]string{discoveryv1.LabelServiceName: service},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new("web"), Port: new(int32(8080))}},
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.0.0." + part[1:]}}},
	}
}

func serviceKeyOf(name string) intent.ObjectKey {
	return intent.ObjectKey{Kind: intent.Service, Namespace: "acme", Name: name}
}

// What is read of single Services is what is read of them with their whole shard.
func TestGatherEndpoints(t *testing.T) {
	cluster, of := newFakeCluster(endpointsFixture()...), shard.Named("acme")
	in := NewInputs(of)
	if err := cluster.gatherNamespaceObjects(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	whole := map[string]snapshot.Service{}
	for _, s := range in.BuildSnapshot(snapshot.Config{}, nil, time.Time{}).Services {
		whole[s.Name] = s
	}
	objects, services, ok := cluster.GatherEndpoints(t.Context(), of,
		[]intent.ObjectKey{serviceKeyOf("b"), serviceKeyOf("a")})
	if !ok || len(objects) != 2 || len(services) != 2 || len(whole) != 2 {
		t.Fatalf("%d objects, %d Services, %d in the shard", len(objects), len(services), len(whole))
	}
	for i, s := range services {
		if len(s.Endpoints) != 2 || !reflect.DeepEqual(s, whole[s.Name]) || objects[i].GetName() != s.Name {
			t.Errorf("read %+v, with the shard %+v", s, whole[s.Name])
		}
	}
	for name, of := range map[string]shard.Shard{"internal": of, "deleted": of, "a": shard.Named("other")} {
		if _, _, ok := cluster.GatherEndpoints(t.Context(), of, []intent.ObjectKey{serviceKeyOf(name)}); ok {
			t.Errorf("%s is an input of %s", name, of)
		}
	}
}

// An event of endpoints names their Service. Every other event, also of an EndpointSlice that we wrote, may be about
// anything.
func TestEndpointEvents(t *testing.T) {
	cluster := newFakeCluster(endpointsFixture()...)
	other := newTestSlice("a", "-1")
	other.Endpoints[0].Addresses = []string{"10.0.0.9"}
	ours := newTestSlice("internal", "-1")
	maps.Copy(ours.Labels, ownership.ManagedLabels("acme"))
	AdoptByLabels(ours)
	service := endpointsFixture()[1].(*corev1.Service)
	for name, test := range map[string]struct {
		was, is client.Object
		want    []intent.ObjectKey // zero: anything
	}{
		"endpoint changed":  {newTestSlice("a", "-1"), other, []intent.ObjectKey{serviceKeyOf("a")}},
		"slice created":     {nil, newTestSlice("a", "-3"), []intent.ObjectKey{serviceKeyOf("a")}},
		"slice deleted":     {newTestSlice("b", "-1"), nil, []intent.ObjectKey{serviceKeyOf("b")}},
		"slice moved":       {newTestSlice("b", "-1"), newTestSlice("a", "-1"), []intent.ObjectKey{serviceKeyOf("b"), serviceKeyOf("a")}},
		"no load balancer":  {nil, newTestSlice("internal", "-1"), nil},
		"our own slice":     {nil, ours, []intent.ObjectKey{{}}},
		"Service changed":   {nil, service, []intent.ObjectKey{{}}},
		"namespace changed": {nil, endpointsFixture()[0], []intent.ObjectKey{{}}},
	} {
		var got []intent.ObjectKey
		w := &eventMapper{
			cluster: cluster,
			enqueue: func(of shard.Shard) {
				if of.Name == "acme" && !reflect.DeepEqual(got, []intent.ObjectKey{{}}) {
					got = append(got, intent.ObjectKey{})
				}
			},
			enqueueObject: func(_ shard.Shard, service intent.ObjectKey) { got = append(got, service) },
		}
		for i, o := range []client.Object{test.was, test.is} {
			if o != nil {
				o.SetResourceVersion([]string{"1", "2"}[i])
			}
		}
		if w.handleChange(t.Context(), test.was, test.is); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %v, wanted %v", name, got, test.want)
		}
	}
}
