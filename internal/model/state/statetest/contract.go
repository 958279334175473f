// Package statetest is the contract for all targets, in memory and real.
package statetest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/internal/model/state"
)

// Case is a target with two different sets to write to it. The change from First to Second must include additions,
// removals and updates.
type Case[K state.Key[K], V state.Value[V]] struct {
	Target state.Target[K, V]
	First  state.Set[K, V]
	Second state.Set[K, V]
	// DumpForeign prints the part of the system that is not the target's. It must never change.
	DumpForeign func(context.Context) (string, error)
}

// CheckContract fails the test for each violation of the contract.
func CheckContract[K state.Key[K], V state.Value[V]](t *testing.T, c Case[K, V]) {
	t.Helper()
	for _, breach := range c.FindViolations(t.Context()) {
		t.Error(breach)
	}
}

// FindViolations returns how a target violates the contract: it holds what was applied and nothing else, applying the
// same again changes nothing, and what belongs to others does not change.
func (c Case[K, V]) FindViolations(ctx context.Context) (breaches []string) {
	if strings.TrimSpace(c.Target.Scope()) == "" {
		breaches = append(breaches, "the target does not say what is its own")
	}
	if kinds := c.changeKinds(); len(kinds) != 3 {
		breaches = append(breaches, fmt.Sprintf(
			"from First to Second something must come (+), go (-) and become another (~); there is only %v", kinds))
	}
	before, err := c.DumpForeign(ctx)
	if err != nil {
		return append(breaches, err.Error())
	}
	for _, step := range []struct {
		name string
		want state.Set[K, V]
	}{{"first", c.First}, {"second", c.Second}, {"first again", c.First}, {"nothing", state.Set[K, V]{}}} {
		for _, breach := range c.convergeTwice(ctx, step.want) {
			breaches = append(breaches, step.name+": "+breach)
		}
		after, err := c.DumpForeign(ctx)
		if err != nil {
			return append(breaches, err.Error())
		}
		if after != before {
			breaches = append(breaches, fmt.Sprintf("%s: what belongs to others changed:\nbefore:\n%s\nafter:\n%s",
				step.name, before, after))
		}
	}
	return breaches
}

func (c Case[K, V]) changeKinds() []string {
	kinds := map[string]bool{}
	for _, change := range state.Diff(c.Second, c.First) {
		kinds[change.String()[:1]] = true
	}
	return slices.Sorted(maps.Keys(kinds))
}

// convergeTwice applies want twice, and checks the target after each.
func (c Case[K, V]) convergeTwice(ctx context.Context, want state.Set[K, V]) (breaches []string) {
	observed, err := c.Target.Observe(ctx)
	if err != nil {
		return []string{err.Error()}
	}
	changes := state.Diff(want, observed)
	plan, err := state.PreparePlan(ctx, c.Target, want)
	if err != nil {
		return []string{err.Error()}
	}
	for _, failure := range state.Run(ctx, plan) {
		breaches = append(breaches, failure.Error())
	}
	breaches = append(breaches, c.pendingChanges(ctx, "after it was written", want)...)
	for key, err := range c.Target.Apply(ctx, changes) {
		breaches = append(breaches, fmt.Sprintf("written again, %s fails: %v", key, err))
	}
	return append(breaches, c.pendingChanges(ctx, "after it was written twice", want)...)
}

// pendingChanges returns the remaining changes. There are none if Observe returns what Apply wrote.
func (c Case[K, V]) pendingChanges(ctx context.Context, when string, want state.Set[K, V]) (breaches []string) {
	observed, err := c.Target.Observe(ctx)
	if err != nil {
		return []string{err.Error()}
	}
	for _, change := range state.Diff(want, observed) {
		breaches = append(breaches, when+", this is still to be done: "+change.String())
	}
	return breaches
}
