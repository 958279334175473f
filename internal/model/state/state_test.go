package state_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/internal/model/state"
	"github.com/sallyport/sallyport/internal/model/state/statetest"
)

// testKey and testValue are a minimal key and value.
type (
	testKey   string
	testValue string
)

func (n testKey) Compare(o testKey) int    { return strings.Compare(string(n), string(o)) }
func (n testKey) String() string           { return string(n) }
func (v testValue) Equal(o testValue) bool { return v == o }
func (v testValue) String() string         { return string(v) }

type testSet = state.Set[testKey, testValue]

// newEntry returns an entry with the given origin.
func newEntry(by, value string) state.Entry[testValue] {
	return state.Entry[testValue]{Value: testValue(value), Origin: state.Ref{Kind: "FIp", Namespace: "acme", Name: by}}
}

func formatChanges(t *testing.T, changes []state.Change[testKey, testValue]) []string {
	t.Helper()
	var out []string
	for _, c := range changes {
		out = append(out, c.String())
	}
	return out
}

func TestDiffSaysWhatComesGoesAndBecomesAnother(t *testing.T) {
	got := formatChanges(t, state.Diff(
		testSet{"a": newEntry("x", "1"), "b": newEntry("x", "2"), "d": newEntry("x", "4")},
		testSet{"b": newEntry("x", "old"), "c": newEntry("y", "3"), "d": newEntry("somebody else", "4")}))
	want := []string{"+ a 1", "~ b old → 2", "- c 3"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestDiffOfEqualSetsIsEmptyWhoeverAsked(t *testing.T) {
	if got := state.Diff(testSet{"a": newEntry("x", "1")}, testSet{"a": newEntry("y", "1")}); len(got) != 0 {
		t.Errorf("got %v: an origin is reported, never compared", got)
	}
}

// recordingTarget records, in order, the changes to several targets.
type recordingTarget struct {
	statetest.MemoryTarget[testKey, testValue]
	log *[]string
}

func (j *recordingTarget) Apply(ctx context.Context, changes []state.Change[testKey, testValue]) map[testKey]error {
	for _, c := range changes {
		*j.log = append(*j.log, j.Name+" "+c.String())
	}
	return j.MemoryTarget.Apply(ctx, changes)
}

func mustPrepare(t *testing.T, target state.Target[testKey, testValue], desired testSet,
	guards ...state.Guard[testKey, testValue],
) state.Plan {
	t.Helper()
	p, err := state.PreparePlan(t.Context(), target, desired, guards...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestNewWayComesBeforeTheOldOneGoes(t *testing.T) {
	var log []string
	routers, routes := &recordingTarget{log: &log}, &recordingTarget{log: &log}
	routers.Name, routes.Name = "routers", "routes"
	state.Run(t.Context(), mustPrepare(t, routers, testSet{"old": newEntry("x", "1")}),
		mustPrepare(t, routes, testSet{"old": newEntry("x", "1")}))
	log = nil
	state.Run(t.Context(), mustPrepare(t, routers, testSet{"new": newEntry("x", "1")}),
		mustPrepare(t, routes, testSet{"new": newEntry("x", "1")}))
	want := []string{"routers + new 1", "routes + new 1", "routes - old 1", "routers - old 1"}
	if !slices.Equal(log, want) {
		t.Errorf("got %q, want %q", log, want)
	}
}

func TestNothingGoesWhileItsReplacementFails(t *testing.T) {
	m := &statetest.MemoryTarget[testKey, testValue]{Name: "memory"}
	state.Run(t.Context(), mustPrepare(t, m, testSet{"old": newEntry("x", "1"), "other": newEntry("y", "1")}))
	broken := errors.New("no room")
	m.Fail = func(n testKey) error {
		if n == "new" {
			return broken
		}
		return nil
	}
	failures := state.Run(t.Context(), mustPrepare(t, m, testSet{"new": newEntry("x", "2")}))
	if len(failures) != 1 || !errors.Is(failures[0], broken) || failures[0].Origin.Name != "x" {
		t.Fatalf("got %v; want one failure, of x", failures)
	}
	held, err := m.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, there := held["old"]; !there {
		t.Error("x lost its old entry although the new one could not be written")
	}
	if _, there := held["other"]; there { // control: the removal is applied
		t.Error("y kept its entry although nothing of y failed")
	}
}

func TestUntilAllIsReadNothingGoes(t *testing.T) {
	m := &statetest.MemoryTarget[testKey, testValue]{Name: "memory"}
	state.Run(t.Context(), mustPrepare(t, m, testSet{"old": newEntry("x", "1")}))
	state.Run(t.Context(), mustPrepare(t, m, testSet{"new": newEntry("y", "2")}, state.SkipRemovals))
	held, err := m.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(held) != 2 {
		t.Errorf("got %v; want the old entry beside the new one", held)
	}
}

func TestSteadyStateWritesNothing(t *testing.T) {
	m := &statetest.MemoryTarget[testKey, testValue]{Name: "memory"}
	want := testSet{"a": newEntry("x", "1"), "b": newEntry("x", "2")}
	state.Run(t.Context(), mustPrepare(t, m, want))
	before := m.WriteCount()
	state.Run(t.Context(), mustPrepare(t, m, want))
	if before == 0 || m.WriteCount() != before {
		t.Errorf("%d writes, then %d more; want some, then none", before, m.WriteCount()-before)
	}
}

func TestPlanPrintsWhatItWouldDoAndDoesNothing(t *testing.T) {
	m := &statetest.MemoryTarget[testKey, testValue]{Name: "rows of router acme"}
	got := state.FormatPlans(mustPrepare(t, m, testSet{"a": newEntry("web", "1")}))
	want := "rows of router acme\n  + a 1    # FIp acme/web\n"
	if got != want || m.WriteCount() != 0 {
		t.Errorf("got %q and %d writes, want %q and none", got, m.WriteCount(), want)
	}
}

func TestPlanTellsWhatIsWantedWhetherItIsThereOrNot(t *testing.T) {
	m := &statetest.MemoryTarget[testKey, testValue]{Name: "memory"}
	state.Run(t.Context(), mustPrepare(t, m, testSet{"b": newEntry("web", "2"), "old": newEntry("web", "3")}))
	want := []state.Line{
		{Text: "a 1", Key: "a", Origin: state.Ref{Kind: "FIp", Namespace: "acme", Name: "db"}},
		{Text: "b 2", Key: "b", Origin: state.Ref{Kind: "FIp", Namespace: "acme", Name: "web"}},
	}
	if got := mustPrepare(t, m, testSet{
		"a": newEntry("db", "1"),
		"b": newEntry("web", "2"),
	}).DesiredLines(); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
