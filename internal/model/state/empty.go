package state

import (
	"context"
	"errors"
)

// EmptyTarget is a target that holds nothing and takes nothing: what a plan for it prints is everything that is wanted.
type EmptyTarget[K Key[K], V Value[V]] string

// Scope is the name it was given.
func (b EmptyTarget[K, V]) Scope() string { return string(b) }

// Observe returns nothing.
func (EmptyTarget[K, V]) Observe(context.Context) (Set[K, V], error) { return nil, nil }

// Apply refuses.
func (EmptyTarget[K, V]) Apply(_ context.Context, changes []Change[K, V]) map[K]error {
	failed := map[K]error{}
	for _, c := range changes {
		failed[c.Key] = errors.New("there is no system to write to")
	}
	return failed
}
