package state_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/internal/state"
	"github.com/sallyport/sallyport/internal/state/statetest"
)

// target is a target that breaks the contract in one way.
type target struct {
	statetest.Memory[name, text]
	observe func(set)
	apply   func([]state.Change[name, text]) map[name]error
}

func (b *target) Observe(ctx context.Context) (set, error) {
	held, err := b.Memory.Observe(ctx)
	if b.observe != nil {
		b.observe(held)
	}
	return held, err
}

func (b *target) Apply(ctx context.Context, changes []state.Change[name, text]) map[name]error {
	if b.apply != nil {
		if failed := b.apply(changes); failed != nil {
			return failed
		}
	}
	return b.Memory.Apply(ctx, changes)
}

func contract(b *target) statetest.Case[name, text] {
	b.Name = "memory"
	return statetest.Case[name, text]{
		Target: b,
		First:  set{"a": asked("x", "1"), "b": asked("x", "2")},
		Second: set{"b": asked("x", "3"), "c": asked("y", "4")},
		Others: func(context.Context) (string, error) { return "", nil },
	}
}

func TestMemoryPassesTheContract(t *testing.T) {
	statetest.Contract(t, contract(&target{}))
}

// Each of these targets is wrong in a way that real ones have been; the contract must find it.
func TestContractFinds(t *testing.T) {
	foreign := "a row of somebody else"
	cases := map[string]struct {
		broken func() statetest.Case[name, text]
		finds  string
	}{
		"a value that comes back in another form": {
			func() statetest.Case[name, text] {
				return contract(&target{observe: func(held set) {
					for k, e := range held {
						held[k] = asked("x", strings.ToUpper(string(e.Value))+" ")
					}
				}})
			}, "still to be done: ~ a",
		},
		"a removal that is not carried out": {
			func() statetest.Case[name, text] {
				return contract(&target{apply: func(changes []state.Change[name, text]) map[name]error {
					if changes[0].Removes() {
						return map[name]error{}
					}
					return nil
				}})
			}, "still to be done: - a",
		},
		"a write that fails when it is repeated": {
			func() statetest.Case[name, text] {
				seen := map[string]bool{}
				return contract(&target{apply: func(changes []state.Change[name, text]) map[name]error {
					if seen[changes[0].String()] {
						return map[name]error{changes[0].Key: errors.New("exists")}
					}
					seen[changes[0].String()] = true
					return nil
				}})
			}, "written again, a fails: exists",
		},
		"a write that touches what belongs to others": {
			func() statetest.Case[name, text] {
				c := contract(&target{apply: func([]state.Change[name, text]) map[name]error {
					foreign = ""
					return nil
				}})
				c.Others = func(context.Context) (string, error) { return foreign, nil }
				return c
			}, "belongs to others changed",
		},
		"sets that show nothing": {
			func() statetest.Case[name, text] {
				c := contract(&target{})
				c.Second = c.First
				return c
			}, "something must come",
		},
	}
	for title, k := range cases {
		t.Run(title, func(t *testing.T) {
			if found := strings.Join(k.broken().Breaches(t.Context()), "\n"); !strings.Contains(found, k.finds) {
				t.Errorf("wanted %q in:\n%s", k.finds, found)
			}
		})
	}
}
