// Package runner is the queue of shards: asked for by every event, run once for a burst of them.
package runner

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// How long a shard rests after it has begun to run: the first event of a burst makes it run at once, and all others
// once more. A very large shard rests longer, so that one tenant who changes something all the time does not take all
// of a processor, here and in the engine.
const (
	minInterval     = 20 * time.Millisecond
	largeShardSize  = 2000
	cooldownPerItem = 300 * time.Microsecond // of a large one
)

// Retries of a shard that failed: 100 ms, 200 ms, … up to half a minute.
const (
	minRetryDelay = 100 * time.Millisecond
	maxRetryDelay = 30 * time.Second
)

// runTimeout is how long a run may take. What it has written by then stays, and the next run goes on from there.
const runTimeout = 5 * time.Minute

// A shard whose last run took so long is slow. Slow ones have half of the workers together, so that a tenant with many
// of them does not hold up everybody else's; one that finds no worker is tried again soon.
const (
	slowRunThreshold = 5 * time.Second
	slowRetryDelay   = 500 * time.Millisecond
)

// maxRequeueDelay is the longest pause before a shard is looked at that waits for something.
const maxRequeueDelay = 30 * time.Second

// RunFunc does all that a shard needs.
type RunFunc func(ctx context.Context, shard string) (Result, error)

// Result is what a run has to say of the next one.
type Result struct {
	// RequeueAfter is when to look again, zero for not before the next event. When no event comes, the pauses grow: a
	// thousand shards that wait for something must not keep the others from being run.
	RequeueAfter time.Duration
	// Size is how much there is in the shard.
	Size int
}

// DoneFunc is told about each run that has ended.
type DoneFunc func(shard string, took time.Duration, err error)

// Runner runs shards side by side, each of them never twice at once.
type Runner struct {
	queue  workqueue.TypedRateLimitingInterface[string]
	run    RunFunc
	onDone DoneFunc
	logger *slog.Logger

	mu             sync.Mutex
	requeues       map[string]int           // how often a shard was looked at since its last event
	startedAt      map[string]time.Time     // when a shard has last begun to run
	cooldowns      map[string]time.Duration // how long a large one rests
	slowShards     map[string]bool          // shards whose last run took long
	slowWorkers    int                      // workers that run slow ones
	maxSlowWorkers int                      // workers that may
}

// New is a runner that runs nothing yet.
func New(run RunFunc, watch DoneFunc, logger *slog.Logger) *Runner {
	retries := workqueue.NewTypedItemExponentialFailureRateLimiter[string](minRetryDelay, maxRetryDelay)
	return &Runner{
		queue: workqueue.NewTypedRateLimitingQueue(retries), run: run, onDone: watch, logger: logger,
		requeues: map[string]int{}, startedAt: map[string]time.Time{}, cooldowns: map[string]time.Duration{},
		slowShards: map[string]bool{},
	}
}

// Enqueue wants a shard to be run. It never blocks.
func (r *Runner) Enqueue(shard string) {
	r.mu.Lock()
	delete(r.requeues, shard)
	rest := max(minInterval, r.cooldowns[shard]) - time.Since(r.startedAt[shard])
	r.mu.Unlock()
	r.queue.AddAfter(shard, max(rest, 0))
}

// QueueLength is how many shards are asked for and not yet run.
func (r *Runner) QueueLength() int { return r.queue.Len() }

// Start runs shards until the context ends, and returns when those that are running then have finished. They are not
// interrupted: a run that is cut off between two writes leaves work for its successor.
func (r *Runner) Start(ctx context.Context, workers int, grace time.Duration) {
	ending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		time.AfterFunc(grace, cancel)
		r.queue.ShutDown()
	})
	defer stop()
	r.maxSlowWorkers = max(workers/2, 1)
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for r.processNextShard(ctx, ending) {
			}
		})
	}
	group.Wait()
}

// processNextShard runs one shard. A shard that is taken from the queue after the end was asked for is left to the
// successor.
func (r *Runner) processNextShard(ctx, ending context.Context) bool {
	shard, shutdown := r.queue.Get()
	if shutdown {
		return false
	}
	defer r.queue.Done(shard)
	if ctx.Err() != nil {
		return true
	}
	begun := time.Now()
	slow, admitted := r.acquireWorker(shard, begun)
	if !admitted {
		r.queue.AddAfter(shard, slowRetryDelay)
		return true
	}
	limited, cancel := context.WithTimeout(ending, runTimeout)
	result, err := r.run(limited, shard)
	cancel()
	r.recordRunEnd(shard, slow, time.Since(begun))
	r.onDone(shard, time.Since(begun), err)
	if err != nil {
		r.logger.Warn("shard failed; it is tried again", "vpc", shard, "error", err)
		r.queue.AddRateLimited(shard)
		return true
	}
	r.queue.Forget(shard)
	r.mu.Lock()
	r.cooldowns[shard] = time.Duration(result.Size-largeShardSize) * cooldownPerItem
	r.mu.Unlock()
	if result.RequeueAfter > 0 {
		r.queue.AddAfter(shard, r.requeueDelay(shard, result.RequeueAfter))
	}
	return true
}

// acquireWorker says whether a shard is slow, and whether it may run now.
func (r *Runner) acquireWorker(shard string, now time.Time) (slow, admitted bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if slow = r.slowShards[shard]; slow {
		if r.slowWorkers >= r.maxSlowWorkers {
			return slow, false
		}
		r.slowWorkers++
	}
	r.startedAt[shard] = now
	return slow, true
}

// recordRunEnd notes how long a run took.
func (r *Runner) recordRunEnd(shard string, slow bool, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if slow {
		r.slowWorkers--
	}
	if r.slowShards[shard] = took >= slowRunThreshold; !r.slowShards[shard] {
		delete(r.slowShards, shard)
	}
}

// requeueDelay is how long to wait before the next look: the first two as long as asked for, each further one twice as
// long.
func (r *Runner) requeueDelay(shard string, again time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.requeues[shard]
	r.requeues[shard] = n + 1
	return min(again<<min(max(n-1, 0), 10), max(again, maxRequeueDelay))
}
