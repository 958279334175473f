package controller

import (
	"errors"
	"slices"
	"testing"

	dto "github.com/prometheus/client_model/go"

	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/state"
)

// todo prepares a plan with so many rows to write.
func todo(t *testing.T, rows int) state.Prepared {
	t.Helper()
	want := intent.Rows{}
	for i := range rows {
		row := intent.RouterPolicy{Priority: 30000 + i, Match: "ip4"}
		want[row.Key("acme-web")] = state.Entry[intent.Row]{Value: row}
	}
	return state.Try(t.Context(), state.Blank[intent.RowKey, intent.Row]("rows"), want)
}

// Wherever a step stands, what it puts right is counted for the system that it writes to, and only rows are looked at again.
func TestStepsAreKnownByThemselves(t *testing.T) {
	remains, objects := inOVN(todo(t, 4)), inKubernetes(todo(t, 8))
	rows := func() attempt {
		left := 3 // of three rows one is left when they are looked at again
		return inOVNObserved(func() state.Prepared { defer func() { left = 1 }(); return todo(t, left) })
	}
	for name, c := range map[string]struct {
		order           []attempt
		ovn, kubernetes float64
		after           []int
	}{
		"of a project":     {[]attempt{remains, objects, rows()}, 7, 8, []int{4, 8, 1}},
		"in another order": {[]attempt{rows(), objects, remains}, 7, 8, []int{1, 8, 4}},
		"without rows":     {[]attempt{objects}, 0, 8, []int{8}},
	} {
		steps, err := inSteps(c.order...)
		if err != nil {
			t.Fatal(err)
		}
		work, repairs := &Work{steps: steps}, newRepairs()
		repairs.mends(work)
		for system, want := range map[string]float64{systemOVN: c.ovn, systemKubernetes: c.kubernetes} {
			var now dto.Metric
			if err := repairs.done.WithLabelValues(system).Write(&now); err != nil || now.GetCounter().GetValue() != want {
				t.Errorf("%s: %v repairs in %s, want %v (%v)", name, now.GetCounter().GetValue(), system, want, err)
			}
		}
		if err := work.look(); err != nil {
			t.Fatal(err)
		}
		var after []int
		for _, p := range work.Plans() {
			after = append(after, len(p.Changes()))
		}
		if !slices.Equal(after, c.after) {
			t.Errorf("%s: left to do are %v, want %v", name, after, c.after)
		}
	}
}

func TestStepThatFails(t *testing.T) {
	no := errors.New("no")
	if _, err := inSteps(inOVN(todo(t, 1)), inKubernetes(state.Prepared{Err: no})); !errors.Is(err, no) {
		t.Errorf("a step that could not be prepared: %v", err)
	}
	first := true
	steps, err := inSteps(inOVNObserved(func() state.Prepared {
		defer func() { first = false }()
		if first {
			return todo(t, 1)
		}
		return state.Prepared{Err: no}
	}))
	if err != nil {
		t.Fatal(err)
	}
	work := &Work{steps: steps}
	if err := work.look(); !errors.Is(err, no) || len(work.Plans()[0].Changes()) != 1 {
		t.Errorf("rows that can't be looked at again: %v, and the plan is %v", err, work.Plans()[0])
	}
}
