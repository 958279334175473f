// Package state is the one shape of everything that Sallyport writes: what should be there, what is there, and the
// difference carried out.
package state

import (
	"context"
	"slices"
)

// Key names an entry of a target: the same input gives the same key, after any restart.
type Key[K any] interface {
	comparable
	Compare(K) int
	String() string
}

// Value is what an entry holds, in normal form: a value that was applied is observed equal.
type Value[V any] interface {
	Equal(V) bool
	String() string
}

// Ref names the API object that an entry exists for.
type Ref struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// String is the object as people name it.
func (r Ref) String() string {
	if r.Namespace == "" {
		return r.Kind + " " + r.Name
	}
	return r.Kind + " " + r.Namespace + "/" + r.Name
}

// Entry is a value and who asked for it. The origin is reported, never compared: some targets can't carry it.
type Entry[V any] struct {
	Value  V
	Origin Ref
}

// Set is everything that a target should hold, or holds.
type Set[K Key[K], V Value[V]] map[K]Entry[V]

// Target is one system that entries are written to, or the part of it that is ours.
type Target[K Key[K], V Value[V]] interface {
	// Scope says in words what is ours here. Nothing else is ever touched.
	Scope() string
	// Observe returns everything in scope, in normal form.
	Observe(context.Context) (Set[K, V], error)
	// Apply carries out changes, each of which may have been carried out before, and returns the failures by key.
	Apply(context.Context, []Change[K, V]) map[K]error
}

// Change is one difference between what should be and what is.
type Change[K Key[K], V Value[V]] struct {
	Key    K
	Before *V // nil: it is not there
	After  *V // nil: it should not be there
	Origin Ref
}

// IsRemoval says whether the change takes something away altogether.
func (c Change[K, V]) IsRemoval() bool { return c.After == nil }

// String is the change as a line of a plan: + for what comes, - for what goes, ~ for what becomes another.
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

// Diff is what has to change for observed to become desired, in the order of the keys.
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
