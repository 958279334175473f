package manifest

import (
	"context"
	"errors"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

// scriptedObject is an API server that answers in a prepared order. Each round is a list and the watch after it.
type scriptedObject struct {
	dynamic.ResourceInterface
	rounds  []round
	watches []string // the version that each watch started from
}

type round struct {
	phase  string // of the listed object; empty: there is none
	err    error  // of the list
	events []watch.Event
}

func phased(phase string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"phase": phase}}}
}

func (s *scriptedObject) List(context.Context, metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	list := &unstructured.UnstructuredList{Object: map[string]any{"metadata": map[string]any{"resourceVersion": "7"}}}
	if phase := s.rounds[0].phase; phase != "" {
		list.Items = append(list.Items, *phased(phase))
	}
	err := s.rounds[0].err
	if err != nil {
		s.rounds = s.rounds[1:]
	}
	return list, err
}

func (s *scriptedObject) Watch(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
	s.watches = append(s.watches, o.ResourceVersion)
	events := s.rounds[0].events
	s.rounds = s.rounds[1:]
	w := watch.NewFakeWithChanSize(len(events), false)
	for _, e := range events {
		w.Action(e.Type, e.Object)
	}
	w.Stop()
	return w, nil
}

// A condition is found in what is listed, in each kind of event, and by the next list after a watch that ended or failed.
func TestFollowSeesEveryChange(t *testing.T) {
	up := Field("Up", "status", "phase")
	for _, c := range []struct {
		what    string
		holds   Condition
		rounds  []round
		held    []bool // of each round
		watches []string
	}{
		{"listed", up, []round{{phase: "Up"}}, []bool{true}, nil},
		{"absent", Gone, []round{{}}, []bool{true}, nil},
		{"created", up, []round{{events: []watch.Event{{Type: watch.Added, Object: phased("Up")}}}}, []bool{true}, []string{"7"}},
		{"changed", up, []round{{phase: "Down", events: []watch.Event{
			{Type: watch.Bookmark, Object: phased("")}, {Type: watch.Modified, Object: phased("Up")},
		}}}, []bool{true}, []string{"7"}},
		{"deleted", Gone, []round{{phase: "Up", events: []watch.Event{{Type: watch.Deleted, Object: phased("Up")}}}}, []bool{true}, []string{"7"}},
		{"gone between two watches", Gone, []round{{phase: "Up"}, {}}, []bool{false, true}, []string{"7"}},
		{"version too old", up, []round{{phase: "Down", events: []watch.Event{
			{Type: watch.Error, Object: &apierrors.NewResourceExpired("old").ErrStatus},
		}}, {phase: "Up"}}, []bool{false, true}, []string{"7"}},
		{"no answer at first", up, []round{{err: errors.New("refused")}, {phase: "Up"}}, []bool{false, true}, nil},
		{"never", up, []round{{phase: "Down"}, {phase: "Down"}}, []bool{false, false}, []string{"7", "7"}},
	} {
		server := &scriptedObject{rounds: c.rounds}
		w := &waiter{resource: server, name: "a", holds: c.holds}
		for i, want := range c.held {
			held, err := w.follow(t.Context())
			if held != want || held == (err != nil) {
				t.Errorf("%s: round %d: %t, %v; want %t", c.what, i, held, err, want)
			}
		}
		if !slices.Equal(server.watches, c.watches) {
			t.Errorf("%s: watched from %v, want %v", c.what, server.watches, c.watches)
		}
	}
}
