package state_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/internal/model/state"
	"github.com/sallyport/sallyport/internal/model/state/statetest"
)

// brokenTarget is a target that breaks the contract in one way.
type brokenTarget struct {
	statetest.MemoryTarget[testKey, testValue]
	observe func(testSet)
	apply   func([]state.Change[testKey, testValue]) map[testKey]error
}

func (b *brokenTarget) Observe(ctx context.Context) (testSet, error) {
	held, err := b.MemoryTarget.Observe(ctx)
	if b.observe != nil {
		b.observe(held)
	}
	return held, err
}

func (b *brokenTarget) Apply(ctx context.Context, changes []state.Change[testKey, testValue]) map[testKey]error {
	if b.apply != nil {
		if failed := b.apply(changes); failed != nil {
			return failed
		}
	}
	return b.MemoryTarget.Apply(ctx, changes)
}

func newCase(b *brokenTarget) statetest.Case[testKey, testValue] {
	b.Name = "memory"
	return statetest.Case[testKey, testValue]{
		Target:      b,
		First:       testSet{"a": newEntry("x", "1"), "b": newEntry("x", "2")},
		Second:      testSet{"b": newEntry("x", "3"), "c": newEntry("y", "4")},
		DumpForeign: func(context.Context) (string, error) { return "", nil },
	}
}

func TestMemoryPassesTheContract(t *testing.T) {
	statetest.CheckContract(t, newCase(&brokenTarget{}))
}

// Each of these targets has a defect that real targets have had. The contract must find it.
func TestContractFinds(t *testing.T) {
	foreign := "a row of somebody else"
	cases := map[string]struct {
		broken func() statetest.Case[testKey, testValue]
		finds  string
	}{
		"a value that comes back in another form": {
			func() statetest.Case[testKey, testValue] {
				return newCase(&brokenTarget{observe: func(held testSet) {
					for k, e := range held {
						held[k] = newEntry("x", strings.ToUpper(string(e.Value))+" ")
					}
				}})
			}, "still to be done: ~ a",
		},
		"a removal that is not carried out": {
			func() statetest.Case[testKey, testValue] {
				return newCase(&brokenTarget{apply: func(changes []state.Change[testKey, testValue]) map[testKey]error {
					if changes[0].IsRemoval() {
						return map[testKey]error{}
					}
					return nil
				}})
			}, "still to be done: - a",
		},
		"a write that fails when it is repeated": {
			func() statetest.Case[testKey, testValue] {
				seen := map[string]bool{}
				return newCase(&brokenTarget{apply: func(changes []state.Change[testKey, testValue]) map[testKey]error {
					if seen[changes[0].String()] {
						return map[testKey]error{changes[0].Key: errors.New("exists")}
					}
					seen[changes[0].String()] = true
					return nil
				}})
			}, "written again, a fails: exists",
		},
		"a write that touches what belongs to others": {
			func() statetest.Case[testKey, testValue] {
				c := newCase(&brokenTarget{apply: func([]state.Change[testKey, testValue]) map[testKey]error {
					foreign = ""
					return nil
				}})
				c.DumpForeign = func(context.Context) (string, error) { return foreign, nil }
				return c
			}, "belongs to others changed",
		},
		"sets that show nothing": {
			func() statetest.Case[testKey, testValue] {
				c := newCase(&brokenTarget{})
				c.Second = c.First
				return c
			}, "something must come",
		},
	}
	for title, k := range cases {
		t.Run(title, func(t *testing.T) {
			if found := strings.Join(k.broken().FindViolations(t.Context()), "\n"); !strings.Contains(found, k.finds) {
				t.Errorf("wanted %q in:\n%s", k.finds, found)
			}
		})
	}
}
