package kube

import (
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/sallyport/sallyport/internal/model/intent"
)

// maxParallelWrites is how many objects of a target are written at the same time. More would use the API server at the
// expense of other shards: each of the runner's workers may have this many requests under way.
const maxParallelWrites = 4

// writeResults collects what became of writes that run in parallel.
type writeResults struct {
	mu     sync.Mutex
	failed map[intent.ObjectKey]error
	marks  []pendingWrite
}

func newWriteResults() *writeResults { return &writeResults{failed: map[intent.ObjectKey]error{}} }

// record adds the result of a write: an error, a write that the cache has to show, both, or neither.
func (r *writeResults) record(key intent.ObjectKey, mark pendingWrite, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.failed[key] = err
	}
	if mark != (pendingWrite{}) {
		r.marks = append(r.marks, mark)
	}
}

// forEachParallel calls do for every item, at most maxParallelWrites at a time, and returns when all calls have
// returned. A call that fails does not stop the others.
func forEachParallel[T any](items []T, do func(T)) {
	if len(items) == 1 {
		do(items[0])
		return
	}
	var group errgroup.Group
	group.SetLimit(maxParallelWrites)
	for _, item := range items {
		group.Go(func() error {
			do(item)
			return nil
		})
	}
	_ = group.Wait() // no call returns an error
}
