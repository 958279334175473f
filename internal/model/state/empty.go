package state

import (
	"context"
	"errors"
)

// EmptyTarget is a target that holds nothing and can't be written. A plan for it lists everything that is desired.
type EmptyTarget[K Key[K], V Value[V]] string

// Scope returns the given name.
func (b EmptyTarget[K, V]) Scope() string { return string(b) }

// Observe returns nothing.
func (EmptyTarget[K, V]) Observe(context.Context) (Set[K, V], error) { return nil, nil }

// Apply fails all changes.
func (EmptyTarget[K, V]) Apply(_ context.Context, changes []Change[K, V]) map[K]error {
	failed := map[K]error{}
	for _, c := range changes {
		failed[c.Key] = errors.New("this target can't be written")
	}
	return failed
}
