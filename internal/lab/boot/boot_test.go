package boot

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
)

func run(t *testing.T, steps []Step) ([]string, error) {
	t.Helper()
	var order []string
	err := Run(t.Context(), steps, func(s Timing) { order = append(order, s.Name) })
	return order, err
}

func nothing(context.Context) error { return nil }

func TestStepRunsAfterWhatItNames(t *testing.T) {
	order, err := run(t, []Step{
		{Name: "last", After: []string{"middle"}, Run: nothing},
		{Name: "middle", After: []string{"first"}, Run: nothing},
		{Name: "first", Run: nothing},
	})
	if want := []string{"first", "middle", "last"}; err != nil || !slices.Equal(order, want) {
		t.Errorf("got %v, %v; want %v", order, err, want)
	}
}

func TestStepsThatNameNothingRunSideBySide(t *testing.T) {
	met := make(chan struct{})
	meet := func(ctx context.Context) error {
		select {
		case met <- struct{}{}:
		case <-met:
		case <-ctx.Done():
			return ctx.Err()
		}
		return nil
	}
	if _, err := run(t, []Step{{Name: "a", Run: meet}, {Name: "b", Run: meet}}); err != nil {
		t.Error(err)
	}
}

func TestFailureNamesItsStepAndStopsTheRest(t *testing.T) {
	broken := errors.New("broken")
	ran := false
	order, err := run(t, []Step{
		{Name: "breaks", Run: func(context.Context) error { return broken }},
		{Name: "never", After: []string{"breaks"}, Run: func(context.Context) error { ran = true; return nil }},
	})
	if !errors.Is(err, broken) || !strings.HasPrefix(err.Error(), "breaks: ") || ran || len(order) != 0 {
		t.Errorf("got %v, order %v, ran the next step: %t", err, order, ran)
	}
}

func TestUnknownStepIsSaid(t *testing.T) {
	_, err := run(t, []Step{{Name: "a", After: []string{"b"}, Run: nothing}})
	if err == nil || !strings.Contains(err.Error(), "which is no step") {
		t.Errorf("got %v", err)
	}
}

func TestEndOfTimeIsAnErrorEvenWhenNothingFailed(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	err := Run(ctx, []Step{
		{Name: "ends", Run: func(context.Context) error { cancel(); return nil }},
		{Name: "waits", After: []string{"ends"}, Run: nothing},
	}, func(Timing) {})
	if err == nil {
		t.Error("a start that was cut short passes for complete")
	}
}
