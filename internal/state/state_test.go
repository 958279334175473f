package state_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/internal/state"
	"github.com/sallyport/sallyport/internal/state/statetest"
)

// name and text are the smallest key and value.
type (
	name string
	text string
)

func (n name) Compare(o name) int { return strings.Compare(string(n), string(o)) }
func (n name) String() string     { return string(n) }
func (v text) Equal(o text) bool  { return v == o }
func (v text) String() string     { return string(v) }

type set = state.Set[name, text]

// asked is an entry that an API object asked for.
func asked(by, value string) state.Entry[text] {
	return state.Entry[text]{Value: text(value), Origin: state.Ref{Kind: "FIp", Namespace: "acme", Name: by}}
}

func lines(t *testing.T, changes []state.Change[name, text]) []string {
	t.Helper()
	var out []string
	for _, c := range changes {
		out = append(out, c.String())
	}
	return out
}

func TestDiffSaysWhatComesGoesAndBecomesAnother(t *testing.T) {
	got := lines(t, state.Diff(
		set{"a": asked("x", "1"), "b": asked("x", "2"), "d": asked("x", "4")},
		set{"b": asked("x", "old"), "c": asked("y", "3"), "d": asked("somebody else", "4")}))
	want := []string{"+ a 1", "~ b old → 2", "- c 3"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestDiffOfEqualSetsIsEmptyWhoeverAsked(t *testing.T) {
	if got := state.Diff(set{"a": asked("x", "1")}, set{"a": asked("y", "1")}); len(got) != 0 {
		t.Errorf("got %v: an origin is reported, never compared", got)
	}
}

// journal writes down, in order, what is done to several targets.
type journal struct {
	statetest.Memory[name, text]
	log *[]string
}

func (j *journal) Apply(ctx context.Context, changes []state.Change[name, text]) map[name]error {
	for _, c := range changes {
		*j.log = append(*j.log, j.Name+" "+c.String())
	}
	return j.Memory.Apply(ctx, changes)
}

func prepare(t *testing.T, target state.Target[name, text], desired set, guards ...state.Guard[name, text]) state.Plan {
	t.Helper()
	p, err := state.Prepare(t.Context(), target, desired, guards...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestNewWayComesBeforeTheOldOneGoes(t *testing.T) {
	var log []string
	routers, routes := &journal{log: &log}, &journal{log: &log}
	routers.Name, routes.Name = "routers", "routes"
	state.Run(t.Context(), prepare(t, routers, set{"old": asked("x", "1")}), prepare(t, routes, set{"old": asked("x", "1")}))
	log = nil
	state.Run(t.Context(), prepare(t, routers, set{"new": asked("x", "1")}), prepare(t, routes, set{"new": asked("x", "1")}))
	want := []string{"routers + new 1", "routes + new 1", "routes - old 1", "routers - old 1"}
	if !slices.Equal(log, want) {
		t.Errorf("got %q, want %q", log, want)
	}
}

func TestNothingGoesWhileItsReplacementFails(t *testing.T) {
	m := &statetest.Memory[name, text]{Name: "memory"}
	state.Run(t.Context(), prepare(t, m, set{"old": asked("x", "1"), "other": asked("y", "1")}))
	broken := errors.New("no room")
	m.Fail = func(n name) error {
		if n == "new" {
			return broken
		}
		return nil
	}
	failures := state.Run(t.Context(), prepare(t, m, set{"new": asked("x", "2")}))
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
	if _, there := held["other"]; there { // control: what goes does go
		t.Error("y kept its entry although nothing of y failed")
	}
}

func TestUntilAllIsReadNothingGoes(t *testing.T) {
	m := &statetest.Memory[name, text]{Name: "memory"}
	state.Run(t.Context(), prepare(t, m, set{"old": asked("x", "1")}))
	state.Run(t.Context(), prepare(t, m, set{"new": asked("y", "2")}, state.OnlyGrow))
	held, err := m.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(held) != 2 {
		t.Errorf("got %v; want the old entry beside the new one", held)
	}
}

func TestSteadyStateWritesNothing(t *testing.T) {
	m := &statetest.Memory[name, text]{Name: "memory"}
	want := set{"a": asked("x", "1"), "b": asked("x", "2")}
	state.Run(t.Context(), prepare(t, m, want))
	before := m.Writes()
	state.Run(t.Context(), prepare(t, m, want))
	if before == 0 || m.Writes() != before {
		t.Errorf("%d writes, then %d more; want some, then none", before, m.Writes()-before)
	}
}

func TestPlanPrintsWhatItWouldDoAndDoesNothing(t *testing.T) {
	m := &statetest.Memory[name, text]{Name: "rows of router acme"}
	got := state.Print(prepare(t, m, set{"a": asked("web", "1")}))
	want := "rows of router acme\n  + a 1    # FIp acme/web\n"
	if got != want || m.Writes() != 0 {
		t.Errorf("got %q and %d writes, want %q and none", got, m.Writes(), want)
	}
}

func TestPlanTellsWhatIsWantedWhetherItIsThereOrNot(t *testing.T) {
	m := &statetest.Memory[name, text]{Name: "memory"}
	state.Run(t.Context(), prepare(t, m, set{"b": asked("web", "2"), "old": asked("web", "3")}))
	want := []state.Line{
		{Text: "a 1", Key: "a", Origin: state.Ref{Kind: "FIp", Namespace: "acme", Name: "db"}},
		{Text: "b 2", Key: "b", Origin: state.Ref{Kind: "FIp", Namespace: "acme", Name: "web"}},
	}
	if got := prepare(t, m, set{"a": asked("db", "1"), "b": asked("web", "2")}).Wanted(); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
