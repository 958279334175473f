package kube

import (
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sallyport/sallyport/internal/model/intent"
)

// versionCache remembers what was read out of objects, by their version: to find the fields that we applied costs much
// more than to see that nothing has changed. An object that is gone is forgotten.
type versionCache[T any] struct {
	mu      sync.Mutex
	entries map[intent.ObjectKey]versionedValue[T]
}

type versionedValue[T any] struct {
	uid, version string
	value        T
}

// getOrRead is what read returns for an object, which is called once for each version. An object without a version is
// not remembered.
func (m *versionCache[T]) getOrRead(key intent.ObjectKey, o client.Object, read func() (T, error)) (T, error) {
	uid, version := string(o.GetUID()), o.GetResourceVersion()
	m.mu.Lock()
	known, there := m.entries[key]
	m.mu.Unlock()
	if there && known.uid == uid && known.version == version {
		return known.value, nil
	}
	value, err := read()
	if err == nil && version != "" {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.entries == nil {
			m.entries = map[intent.ObjectKey]versionedValue[T]{}
		}
		m.entries[key] = versionedValue[T]{uid, version, value}
	}
	return value, err
}

func (m *versionCache[T]) evict(key intent.ObjectKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.entries, key)
}
