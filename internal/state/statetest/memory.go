package statetest

import (
	"context"
	"maps"
	"sync"

	"github.com/sallyport/sallyport/internal/state"
)

// Memory is a target in memory, for fast tests of what writes to targets.
type Memory[K state.Key[K], V state.Value[V]] struct {
	Name string
	Fail func(K) error // fails changes by key; may be nil

	mu     sync.Mutex
	held   state.Set[K, V]
	writes int
}

// Scope is the target's name.
func (m *Memory[K, V]) Scope() string { return m.Name }

// Observe returns what is held.
func (m *Memory[K, V]) Observe(context.Context) (state.Set[K, V], error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := state.Set[K, V]{}
	maps.Copy(out, m.held)
	return out, nil
}

// Apply carries out changes.
func (m *Memory[K, V]) Apply(_ context.Context, changes []state.Change[K, V]) map[K]error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.held == nil {
		m.held = state.Set[K, V]{}
	}
	failed := map[K]error{}
	for _, c := range changes {
		if err := m.fail(c.Key); err != nil {
			failed[c.Key] = err
			continue
		}
		m.writes++
		if c.Removes() {
			delete(m.held, c.Key)
			continue
		}
		m.held[c.Key] = state.Entry[V]{Value: *c.After, Origin: c.Origin}
	}
	return failed
}

func (m *Memory[K, V]) fail(key K) error {
	if m.Fail == nil {
		return nil
	}
	return m.Fail(key)
}

// Writes counts the changes that were carried out: a steady state has none.
func (m *Memory[K, V]) Writes() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.writes
}
