package statetest

import (
	"context"
	"maps"
	"sync"

	"github.com/sallyport/sallyport/internal/model/state"
)

// MemoryTarget is a target in memory, for fast tests.
type MemoryTarget[K state.Key[K], V state.Value[V]] struct {
	Name string
	Fail func(K) error // fails changes by key; may be nil

	mu      sync.Mutex
	entries state.Set[K, V]
	writes  int
}

// Scope returns the name of the target.
func (m *MemoryTarget[K, V]) Scope() string { return m.Name }

// Observe returns the entries.
func (m *MemoryTarget[K, V]) Observe(context.Context) (state.Set[K, V], error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := state.Set[K, V]{}
	maps.Copy(out, m.entries)
	return out, nil
}

// Apply makes changes.
func (m *MemoryTarget[K, V]) Apply(_ context.Context, changes []state.Change[K, V]) map[K]error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.entries == nil {
		m.entries = state.Set[K, V]{}
	}
	failed := map[K]error{}
	for _, c := range changes {
		if err := m.injectFailure(c.Key); err != nil {
			failed[c.Key] = err
			continue
		}
		m.writes++
		if c.IsRemoval() {
			delete(m.entries, c.Key)
			continue
		}
		m.entries[c.Key] = state.Entry[V]{Value: *c.After, Origin: c.Origin}
	}
	return failed
}

func (m *MemoryTarget[K, V]) injectFailure(key K) error {
	if m.Fail == nil {
		return nil
	}
	return m.Fail(key)
}

// WriteCount returns the number of changes made. It does not grow in a steady state.
func (m *MemoryTarget[K, V]) WriteCount() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.writes
}
