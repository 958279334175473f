package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/state"
)

// meetingAPI is an API server without objects. A write waits until maxParallelWrites are under way, or until no other
// can come, and fails for one name.
type meetingAPI struct {
	client.Client
	mu      sync.Mutex
	meeting *sync.Cond
	alone   bool // writes do not wait for others
	underWay,
	most int
	began, ended []string // names of objects
	fails        string   // the name whose writes fail
}

func newMeetingAPI(fails string) *meetingAPI {
	a := &meetingAPI{fails: fails}
	a.meeting = sync.NewCond(&a.mu)
	return a
}

func (a *meetingAPI) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

// write waits for the others.
func (a *meetingAPI) write(name string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.began = append(a.began, name)
	a.underWay++
	a.most = max(a.most, a.underWay)
	if a.underWay >= maxParallelWrites {
		a.alone = true
		a.meeting.Broadcast()
	}
	for !a.alone {
		a.meeting.Wait()
	}
	a.underWay--
	a.ended = append(a.ended, name)
	if name == a.fails {
		return errors.New("refused")
	}
	return nil
}

func (a *meetingAPI) Apply(_ context.Context, o runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
	return a.write(o.(client.Object).GetName())
}

func (a *meetingAPI) Patch(_ context.Context, o client.Object, _ client.Patch, _ ...client.PatchOption) error {
	return a.write(o.GetName())
}

func (a *meetingAPI) Status() client.SubResourceWriter { return meetingStatus{api: a} }

type meetingStatus struct {
	client.SubResourceWriter
	api *meetingAPI
}

func (s meetingStatus) Apply(_ context.Context, o runtime.ApplyConfiguration, _ ...client.SubResourceApplyOption) error {
	return s.api.write(o.(client.Object).GetName())
}

// giveUpLater ends the meeting if writes do not overlap, so that the test fails instead of waiting forever.
func (a *meetingAPI) giveUpLater(t *testing.T) {
	t.Helper()
	timer := time.AfterFunc(20*time.Second, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.alone = true
		a.meeting.Broadcast()
	})
	t.Cleanup(func() { timer.Stop() })
}

// check checks that writes overlapped, not more than allowed, and that the one that failed did not keep others from
// being written.
func (a *meetingAPI) check(t *testing.T, writes int, failed map[intent.ObjectKey]error) {
	t.Helper()
	if a.most != maxParallelWrites {
		t.Errorf("%d writes at the same time, want %d", a.most, maxParallelWrites)
	}
	if len(a.ended) != writes {
		t.Errorf("%d of %d objects were written: %v", len(a.ended), writes, a.ended)
	}
	if len(failed) != 1 {
		t.Errorf("failed: %v", failed)
	}
	for key := range failed {
		if key.Name != a.fails {
			t.Errorf("%s is said to have failed instead of %s", key, a.fails)
		}
	}
}

const parallelObjects = 3 * maxParallelWrites

// testEIps returns EIps and their keys.
func testEIps() (keys []intent.ObjectKey, objects []client.Object) {
	for i := range parallelObjects {
		key := intent.ObjectKey{Kind: intent.EIp, Namespace: "acme-web", Name: fmt.Sprintf("e%02d", i)}
		o := &kubedcv1.EIp{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
		o.SetGroupVersionKind(gvkByKind[intent.EIp])
		keys, objects = append(keys, key), append(objects, o)
	}
	return keys, objects
}

func TestStatusesAreWrittenInParallel(t *testing.T) {
	api := newMeetingAPI("e03")
	api.giveUpLater(t)
	keys, objects := testEIps()
	target, err := NewStatuses(&Cluster{api: api}, objects, time.Now, nil)
	if err != nil {
		t.Fatal(err)
	}
	var changes []state.Change[intent.ObjectKey, intent.Status]
	after := intent.NewStatus(map[string]any{"ready": true})
	for _, key := range keys {
		changes = append(changes, state.Change[intent.ObjectKey, intent.Status]{Key: key, After: &after})
	}
	api.check(t, parallelObjects, target.Apply(t.Context(), changes))
}

func TestFinalizersAreWrittenInParallel(t *testing.T) {
	api := newMeetingAPI("e11")
	api.giveUpLater(t)
	keys, objects := testEIps()
	target, err := NewFinalizers(&Cluster{api: api}, objects)
	if err != nil {
		t.Fatal(err)
	}
	var changes []state.Change[intent.ObjectKey, intent.Finalizer]
	for _, key := range keys {
		changes = append(changes, state.Change[intent.ObjectKey, intent.Finalizer]{Key: key, After: &intent.Finalizer{}})
	}
	api.check(t, parallelObjects, target.Apply(t.Context(), changes))
}

// Objects of one kind are written in parallel; those of the next kind only after all of them.
func TestObjectsAreWrittenInParallelByKind(t *testing.T) {
	api := newMeetingAPI("s05")
	api.giveUpLater(t)
	after := intent.NewObject(intent.Meta{}, map[string]any{"type": "ClusterIP"})
	var changes []objectChange
	first, second := map[string]bool{}, map[string]bool{}
	for i := range parallelObjects {
		service, slice := fmt.Sprintf("s%02d", i), fmt.Sprintf("x%02d", i)
		first[service], second[slice] = true, true
		changes = append(changes,
			objectChange{Key: intent.ObjectKey{Kind: intent.Service, Namespace: "acme-web", Name: service}, After: &after},
			objectChange{Key: intent.ObjectKey{Kind: intent.EndpointSlice, Namespace: "acme-web", Name: slice}, After: &after})
	}
	slices.SortFunc(changes, func(a, b objectChange) int { return a.Key.Compare(b.Key) })
	failed := NewObjects(&Cluster{api: api}, "acme-web").Apply(t.Context(), changes)
	api.check(t, 2*parallelObjects, failed)
	for i, name := range api.began {
		if wantFirst := i < parallelObjects; first[name] != wantFirst || second[name] == wantFirst {
			t.Fatalf("written in the order %v", api.began)
		}
	}
	for i, name := range api.ended[:parallelObjects] {
		if !first[name] {
			t.Fatalf("%s was written as number %d, before all Services were", name, i)
		}
	}
}

func TestRemovalsAreGroupedInReverse(t *testing.T) {
	object := intent.Object{}
	add := func(kind intent.Kind, name string) objectChange {
		return objectChange{Key: intent.ObjectKey{Kind: kind, Name: name}, After: &object}
	}
	remove := func(kind intent.Kind, name string) objectChange {
		return objectChange{Key: intent.ObjectKey{Kind: kind, Name: name}, Before: &object}
	}
	additions, removals := groupByKind([]objectChange{
		add(intent.Vpc, "a"), remove(intent.Vpc, "b"), remove(intent.Subnet, "c"), add(intent.Subnet, "d"),
		add(intent.Subnet, "e"), remove(intent.OvnEip, "f"), remove(intent.OvnEip, "g"),
	})
	names := func(groups [][]objectChange) (out []string) {
		for _, g := range groups {
			text := ""
			for _, c := range g {
				text += c.Key.Name
			}
			out = append(out, text)
		}
		return out
	}
	if got := names(additions); !slices.Equal(got, []string{"a", "de"}) {
		t.Errorf("additions %v", got)
	}
	if got := names(removals); !slices.Equal(got, []string{"b", "c", "fg"}) {
		t.Errorf("removals %v", got)
	}
}
