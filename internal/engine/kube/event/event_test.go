package event

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
)

// newTestRecorder returns a recorder with a settable clock, and a function that counts the Event objects it created.
func newTestRecorder(t *testing.T, now *time.Time) (r *Recorder, list func() []eventsv1.Event) {
	t.Helper()
	api := fake.NewClientset()
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: api.EventsV1()})
	t.Cleanup(broadcaster.Shutdown)
	if err := broadcaster.StartRecordingToSinkWithContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	r = New(broadcaster.NewRecorder(scheme.Scheme, "test"), scheme.Scheme, func() time.Time { return *now })
	return r, func() []eventsv1.Event {
		t.Helper()
		var last int
		for { // Events are written in the background: wait until there are no more
			<-time.After(200 * time.Millisecond)
			got, err := api.EventsV1().Events("").List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Items) == last && last > 0 {
				return got.Items
			}
			last = len(got.Items)
		}
	}
}

func newService(name, version string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Namespace:       "evil",
		Name:            name,
		UID:             types.UID(name),
		ResourceVersion: version,
	}}
}

// A tenant who changes an object back and forth (L9: 150 patches created 147 Events) gets one Event for each reason,
// with a count.
func TestPatchesToAndFroAreOneEventEach(t *testing.T) {
	now := time.Now()
	r, list := newTestRecorder(t, &now)
	for i := range 150 {
		now = now.Add(10 * time.Minute) // so that the rate limit is not the reason
		r.Record(newService("web", fmt.Sprint(i)), "Warning", []string{"PortTaken", "Ready"}[i%2], "Reconcile",
			"a message")
	}
	if got := list(); len(got) != 2 {
		t.Errorf("%d Events", len(got))
	}
}

// Reasons that differ each time, and objects that are created anew each time, exceed the limit. Other namespaces are
// not affected, and the limit refills over time.
func TestBudgets(t *testing.T) {
	now := time.Now()
	r, list := newTestRecorder(t, &now)
	for i := range 150 {
		r.Record(newService("web", ""), "Warning", fmt.Sprintf("Reason%d", i), "Reconcile", "a message")
	}
	if got := list(); len(got) != objectBurst {
		t.Errorf("one object has %d Events", len(got))
	}
	for i := range 3 * namespaceBurst {
		if r.allowEvent("evil", fmt.Sprint(i)) != (i < namespaceBurst-objectBurst) {
			t.Fatalf("object %d of the namespace", i)
		}
	}
	for range 2 * objectBurst { // refused because of the others, at no cost for the object itself
		if r.allowEvent("evil", "patient") {
			t.Fatal("the namespace has more")
		}
	}
	if now = now.Add(objectBurst * namespaceRefillEvery); !r.allowEvent("evil", "patient") {
		t.Error("an object that was refused all the time has none left when its namespace has")
	}
	if !r.allowEvent("victim", "web") {
		t.Error("another namespace has none")
	}
	if now = now.Add(2 * namespaceRefillEvery); !r.allowEvent("evil", "new") {
		t.Error("time gives no more")
	}
}

// The number of buckets is bounded, and a namespace that exceeded its limit cannot reset it by creating objects.
func TestBudgetsAreForgotten(t *testing.T) {
	now := time.Now()
	r, _ := newTestRecorder(t, &now)
	for i := range 3 * maxBuckets {
		r.allowEvent(fmt.Sprint("evil", i%4), fmt.Sprint(i))
	}
	if len(r.buckets) > maxBuckets+1 || r.allowEvent("evil0", "new") {
		t.Errorf("%d budgets are remembered, or one was given back", len(r.buckets))
	}
	now = now.Add(time.Hour)
	r.mu.Lock()
	r.dropFullBuckets()
	r.mu.Unlock()
	if len(r.buckets) != 0 {
		t.Errorf("an hour later %d budgets are remembered", len(r.buckets))
	}
}
