// Package state is the common form of everything that Sallyport writes: desired entries, observed entries, and the
// difference between them.
package state

import (
	"context"
	"slices"
)

// Key identifies an entry of a target. The same input gives the same key, also after a restart.
type Key[K any] interface {
	comparable
	Compare(K) int
	String() string
}

// Value is the content of an entry in normal form: an applied value is observed as equal.
type Value[V any] interface {
	Equal(V) bool
	String() string
}

// Ref identifies the API object that an entry exists for.
type Ref struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// String returns the object as shown to users.
func (r Ref) String() string {
	if r.Namespace == "" {
		return r.Kind + " " + r.Name
	}
	return r.Kind + " " + r.Namespace + "/" + r.Name
}

// Entry is a value and its origin. The origin is reported, never compared: some targets can't store it.
type Entry[V any] struct {
	Value  V
	Origin Ref
}

// Set is everything that a target should hold, or holds.
type Set[K Key[K], V Value[V]] map[K]Entry[V]

// Target is a system that entries are written to, or our part of it.
type Target[K Key[K], V Value[V]] interface {
	// Scope describes what is ours. Nothing else is ever changed.
	Scope() string
	// Observe returns everything in scope, in normal form.
	Observe(context.Context) (Set[K, V], error)
	// Apply makes changes and returns the failures by key. A change may already have been made.
	Apply(context.Context, []Change[K, V]) map[K]error
}

// Change is one difference between desired and observed.
type Change[K Key[K], V Value[V]] struct {
	Key    K
	Before *V // nil: it does not exist
	After  *V // nil: it should not exist
	Origin Ref
}

// IsRemoval reports whether the change removes the entry.
func (c Change[K, V]) IsRemoval() bool { return c.After == nil }

// String returns the change as a line of a plan: + for additions, - for removals, ~ for updates.
func (c Change[K, V]) String() string {
	switch {
	case c.Before == nil:
		return "+ " + c.Key.String() + " " + (*c.After).String()
	case c.After == nil:
		return "- " + c.Key.String() + " " + (*c.Before).String()
	default:
		return "~ " + c.Key.String() + " " + (*c.Before).String() + " → " + (*c.After).String()
	}
}

// Diff returns the changes that make observed equal to desired, in the order of the keys.
func Diff[K Key[K], V Value[V]](desired, observed Set[K, V]) []Change[K, V] {
	var changes []Change[K, V]
	for key, want := range desired {
		have, there := observed[key]
		switch {
		case !there:
			changes = append(changes, Change[K, V]{Key: key, After: &want.Value, Origin: want.Origin})
		case !have.Value.Equal(want.Value):
			changes = append(changes, Change[K, V]{
				Key:    key,
				Before: &have.Value,
				After:  &want.Value,
				Origin: want.Origin,
			})
		}
	}
	for key, have := range observed {
		if _, wanted := desired[key]; !wanted {
			changes = append(changes, Change[K, V]{Key: key, Before: &have.Value, Origin: have.Origin})
		}
	}
	slices.SortFunc(changes, func(a, b Change[K, V]) int { return a.Key.Compare(b.Key) })
	return changes
}
