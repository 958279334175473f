package controller

import (
	"errors"
	"slices"
	"testing"

	dto "github.com/prometheus/client_model/go"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/state"
)

// planWithRows prepares a plan with this many rows to write.
func planWithRows(t *testing.T, rows int) state.Prepared {
	t.Helper()
	want := intent.Rows{}
	for i := range rows {
		row := intent.LogicalRouterPolicy{Priority: 30000 + i, Match: "ip4"}
		want[row.Key("acme-web")] = state.Entry[intent.Row]{Value: row}
	}
	return state.TryPreparePlan(t.Context(), state.EmptyTarget[intent.RowKey, intent.Row]("rows"), want)
}

// Whatever the position of a step, its repairs are counted for the system that it writes to, and steps that are to be
// observed again are.
func TestStepsAreKnownByThemselves(t *testing.T) {
	remains, objects := ovnStep(planWithRows(t, 4)), kubernetesStep(planWithRows(t, 8))
	rows := func() preparedStep {
		left := 3 // of three rows, one is left when they are observed again
		return reobservedOVNStep(func() state.Prepared { defer func() { left = 1 }(); return planWithRows(t, left) })
	}
	companions := func() preparedStep {
		left := 5 // all are there when they are observed again
		return reobservedKubernetesStep(func() state.Prepared { defer func() { left = 0 }(); return planWithRows(t, left) })
	}
	for name, c := range map[string]struct {
		order           []preparedStep
		ovn, kubernetes float64
		after           []int
	}{
		"of a project":     {[]preparedStep{remains, objects, rows()}, 7, 8, []int{4, 8, 1}},
		"in another order": {[]preparedStep{rows(), objects, remains}, 7, 8, []int{1, 8, 4}},
		"with objects":     {[]preparedStep{companions(), rows()}, 3, 5, []int{0, 1}},
		"without rows":     {[]preparedStep{objects}, 0, 8, []int{8}},
	} {
		steps, err := collectSteps(c.order...)
		if err != nil {
			t.Fatal(err)
		}
		work, repairs := &Work{steps: steps}, newRepairCounter()
		repairs.countRepairs(work)
		for system, want := range map[string]float64{systemOVN: c.ovn, systemKubernetes: c.kubernetes} {
			var now dto.Metric
			if err := repairs.total.WithLabelValues(system).Write(&now); err != nil ||
				now.GetCounter().GetValue() != want {
				t.Errorf("%s: %v repairs in %s, want %v (%v)", name, now.GetCounter().GetValue(), system, want, err)
			}
		}
		if err := work.reobserve(); err != nil {
			t.Fatal(err)
		}
		if work.wroteObjects != (name == "with objects") || work.wroteRows != (name != "without rows") {
			t.Errorf("%s: objects were written: %t, rows: %t", name, work.wroteObjects, work.wroteRows)
		}
		var after []int
		for _, p := range work.Plans() {
			after = append(after, len(p.ChangeLines()))
		}
		if !slices.Equal(after, c.after) {
			t.Errorf("%s: left to do are %v, want %v", name, after, c.after)
		}
	}
}

func TestStepThatFails(t *testing.T) {
	no := errors.New("no")
	if _, err := collectSteps(ovnStep(planWithRows(t, 1)), kubernetesStep(state.Prepared{Err: no})); !errors.Is(err,
		no) {
		t.Errorf("a step that could not be prepared: %v", err)
	}
	first := true
	steps, err := collectSteps(reobservedOVNStep(func() state.Prepared {
		defer func() { first = false }()
		if first {
			return planWithRows(t, 1)
		}
		return state.Prepared{Err: no}
	}))
	if err != nil {
		t.Fatal(err)
	}
	work := &Work{steps: steps}
	if err := work.reobserve(); !errors.Is(err, no) || len(work.Plans()[0].ChangeLines()) != 1 {
		t.Errorf("rows that can't be looked at again: %v, and the plan is %v", err, work.Plans()[0])
	}
}
