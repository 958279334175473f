package kubelet

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// queue holds keys that have work to do. A key is worked on by one worker at a time, and a burst for one key collapses
// into one round; a failed round is repeated, later and later.
type queue[K comparable] struct {
	workqueue.TypedRateLimitingInterface[K]
	workers int
	work    func(context.Context, K) error
}

func newQueue[K comparable](workers int, work func(context.Context, K) error) *queue[K] {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[K](50*time.Millisecond, 10*time.Second)
	return &queue[K]{
		TypedRateLimitingInterface: workqueue.NewTypedRateLimitingQueue(limiter),
		workers:                    workers,
		work:                       work,
	}
}

func (q *queue[K]) add(key K)                    { q.Add(key) }
func (q *queue[K]) after(key K, d time.Duration) { q.AddAfter(key, d) }

// run works until ctx ends.
func (q *queue[K]) run(ctx context.Context, log *slog.Logger) {
	stop := context.AfterFunc(ctx, q.ShutDown)
	defer stop()
	var all sync.WaitGroup
	for range q.workers {
		all.Go(func() {
			for q.next(ctx, log) {
			}
		})
	}
	all.Wait()
}

func (q *queue[K]) next(ctx context.Context, log *slog.Logger) bool {
	key, closed := q.Get()
	if closed {
		return false
	}
	defer q.Done(key)
	if err := q.work(ctx, key); err != nil && ctx.Err() == nil {
		log.Warn("will be repeated", "of", key, "error", err)
		q.AddRateLimited(key)
		return true
	}
	q.Forget(key)
	return true
}
