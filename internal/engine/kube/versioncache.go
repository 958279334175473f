package kube

import (
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sallyport/sallyport/internal/model/intent"
)

// versionCache caches values read from objects by resourceVersion: extracting the fields that we applied costs much
// more than seeing that nothing changed. Entries of deleted objects are evicted.
type versionCache[T any] struct {
	mu      sync.Mutex
	entries map[intent.ObjectKey]versionedValue[T]
}

type versionedValue[T any] struct {
	uid, version string
	value        T
}

// getOrRead returns the cached value for the version of an object, or calls read. Objects without a version are not
// cached.
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
