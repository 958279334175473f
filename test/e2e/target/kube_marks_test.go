package target

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	"github.com/sallyport/sallyport/internal/engine/kube"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/state"
	"github.com/sallyport/sallyport/internal/model/state/statetest"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// rereadTarget is a target whose objects are read again each time, as in every run.
type rereadTarget[K state.Key[K], V state.Value[V]] func(context.Context) (state.Target[K, V], error)

func (r rereadTarget[K, V]) Scope() string { return "what is read anew" }

func (r rereadTarget[K, V]) Observe(ctx context.Context) (state.Set[K, V], error) {
	target, err := r(ctx)
	if err != nil {
		return nil, err
	}
	return target.Observe(ctx)
}

func (r rereadTarget[K, V]) Apply(ctx context.Context, changes []state.Change[K, V]) map[K]error {
	target, err := r(ctx)
	if err != nil {
		return map[K]error{changes[0].Key: err}
	}
	return target.Apply(ctx, changes)
}

// createThreeEIPs creates three EIps in a namespace and returns a function that reads them.
func createThreeEIPs(t *testing.T, c *harness.Cluster, api client.Client,
	ns string,
) func(context.Context) ([]client.Object, error) {
	t.Helper()
	c.CreateNamespace(t, ns, "")
	for _, name := range []string{"a", "b", "c"} {
		c.Apply(t, fmt.Sprintf(`
apiVersion: kube-dc.com/v1
kind: EIp
metadata: {name: %s, namespace: %s, finalizers: [example.org/theirs]}
spec: {}`, name, ns))
	}
	t.Cleanup(func() { // before the EIps are deleted: nothing else removes this finalizer
		for _, name := range []string{"a", "b", "c"} {
			if err := api.Patch(context.Background(), objectHandle("kube-dc.com/v1", "EIp", ns, name),
				client.RawPatch("application/merge-patch+json",
					[]byte(`{"metadata":{"finalizers":null}}`))); err != nil {
				t.Error(err)
			}
		}
	})
	return func(ctx context.Context) ([]client.Object, error) {
		var list kubedcv1.EIpList
		if err := api.List(ctx, &list, client.InNamespace(ns)); err != nil {
			return nil, err
		}
		var out []client.Object
		for i := range list.Items {
			out = append(out, &list.Items[i])
		}
		return out, nil
	}
}

func eipKey(ns, name string) intent.ObjectKey {
	return intent.ObjectKey{Kind: intent.EIp, Namespace: ns, Name: name}
}

func finalizersKeepTheContract(t *testing.T, c *harness.Cluster) {
	ns := "finalizers"
	api := c.NewDirectClient(t, nil)
	read := createThreeEIPs(t, c, api, ns)
	cluster := newCachedCluster(t, c, api)
	on := func(names ...string) intent.Finalizers {
		in := intent.New()
		for _, name := range names {
			in.AddFinalizer(eipKey(ns, name))
		}
		return in.Finalizers
	}
	k := statetest.Case[intent.ObjectKey, intent.Finalizer]{
		Target: rereadTarget[intent.ObjectKey,
			intent.Finalizer](func(ctx context.Context) (state.Target[intent.ObjectKey, intent.Finalizer], error) {
			objects, err := read(ctx)
			if err != nil {
				return nil, err
			}
			return kube.NewFinalizers(cluster, objects)
		}),
		First: on("a", "b"), Second: on("b", "c"),
		DumpForeign: func(ctx context.Context) (string, error) {
			objects, err := read(ctx)
			var out []string
			for _, o := range objects {
				theirs := slices.DeleteFunc(slices.Clone(o.GetFinalizers()), func(f string) bool {
					return f == ownership.Finalizer
				})
				out = append(out, o.GetName()+strings.Join(theirs, ","))
			}
			return strings.Join(out, " "), err
		},
	}
	for _, breach := range k.FindViolations(t.Context()) {
		if !strings.Contains(breach, "become another") { // a finalizer exists or not; it has no other value
			t.Error(breach)
		}
	}

	// Another client writes between our read and our write.
	objects, err := read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	target, err := kube.NewFinalizers(cluster, objects)
	if err != nil {
		t.Fatal(err)
	}
	touchFinalizers(t, api, ns, "a")
	if failed := target.Apply(t.Context(), state.Diff(on("a"), intent.Finalizers{})); len(failed) != 0 {
		t.Errorf("after somebody else's write: %v", failed)
	}
	var after kubedcv1.EIp
	if err := api.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "a"}, &after); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(after.Finalizers, []string{"example.org/theirs", "example.org/touched", ownership.Finalizer}) {
		t.Errorf("got finalizers %v; want theirs, the one that came in between, and ours", after.Finalizers)
	}
}

// touchFinalizers changes what our write is about to replace.
func touchFinalizers(t *testing.T, api client.Client, ns, name string) {
	t.Helper()
	if err := api.Patch(t.Context(), objectHandle("kube-dc.com/v1", "EIp", ns, name),
		client.RawPatch("application/merge-patch+json",
			[]byte(`{"metadata":{"finalizers":["example.org/theirs","example.org/touched"]}}`))); err != nil {
		t.Fatal(err)
	}
}

func statusesKeepTheContract(t *testing.T, c *harness.Cluster) {
	ns := "statuses"
	api := c.NewDirectClient(t, nil)
	read := createThreeEIPs(t, c, api, ns)
	cluster := newCachedCluster(t, c, api)
	theirs := `{"status":{"externalNetwork":"theirs","conditions":[
		{"type":"Theirs","status":"True","reason":"X","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`
	if err := api.Status().Patch(t.Context(), objectHandle("kube-dc.com/v1", "EIp", ns, "a"),
		client.RawPatch("application/merge-patch+json", []byte(theirs)), client.FieldOwner("somebody")); err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	var events []string
	status := func(address string, programmed metav1.ConditionStatus, reason string) state.Entry[intent.Status] {
		return state.Entry[intent.Status]{Value: intent.NewStatus(map[string]any{
			"ipAddress": address, "ready": programmed == metav1.ConditionTrue, "conditions": []metav1.Condition{
				{Type: "Programmed", Status: programmed, Reason: reason, Message: "words"},
				{Type: "Accepted", Status: "True", Reason: "Accepted", Message: "words"},
			},
		})}
	}
	first := intent.Statuses{
		eipKey(ns, "a"): status("198.51.100.7", "False", "Waiting"),
		eipKey(ns, "b"): status("198.51.100.8", "True", "Programmed"),
	}
	second := intent.Statuses{
		eipKey(ns, "a"): status("198.51.100.7", "True", "Programmed"),
		eipKey(ns, "c"): status("198.51.100.9", "True", "Programmed"),
	}
	target := rereadTarget[intent.ObjectKey,
		intent.Status](func(ctx context.Context) (state.Target[intent.ObjectKey, intent.Status], error) {
		objects, err := read(ctx)
		if err != nil {
			return nil, err
		}
		return kube.NewStatuses(cluster, objects, func() time.Time {
			return now
		}, func(o client.Object, warning bool, reason, message string) {
			events = append(events, fmt.Sprintf("%s %t %s %s", o.GetName(), warning, reason, message))
		})
	})
	statetest.CheckContract(t, statetest.Case[intent.ObjectKey, intent.Status]{
		Target: target, First: first, Second: second,
		DumpForeign: func(ctx context.Context) (string, error) {
			var o kubedcv1.EIp
			err := api.Get(ctx, client.ObjectKey{Namespace: ns, Name: "a"}, &o)
			out := o.Status.ExternalNetwork
			for _, condition := range o.Status.Conditions {
				if condition.Type == "Theirs" {
					out += condition.LastTransitionTime.String()
				}
			}
			return out, err
		},
	})
	if !slices.Contains(events, "a true Waiting words") || !slices.Contains(events, "a false Programmed words") {
		t.Errorf("got events %q; want a warning that a waits, and that it is programmed", events)
	}

	// A condition keeps its time while its status does not change.
	later := func(want intent.Statuses, hours int) kubedcv1.EIp {
		now = now.Add(time.Duration(hours) * time.Hour)
		for _, failure := range state.Run(t.Context(), preparePlan(t, target, want)) {
			t.Error(failure)
		}
		var o kubedcv1.EIp
		if err := api.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "a"}, &o); err != nil {
			t.Fatal(err)
		}
		return o
	}
	before, after := later(first, 0), later(second, 1)
	for _, kind := range []string{"Accepted", "Programmed"} {
		moved := transitionTime(after, kind).Sub(transitionTime(before, kind))
		if want := map[string]time.Duration{"Accepted": 0, "Programmed": time.Hour}[kind]; moved != want {
			t.Errorf("%s moved by %s, want %s", kind, moved, want)
		}
	}
}

func transitionTime(o kubedcv1.EIp, kind string) time.Time {
	for _, condition := range o.Status.Conditions {
		if condition.Type == kind {
			return condition.LastTransitionTime.Time
		}
	}
	return time.Time{}
}
