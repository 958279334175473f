// Package runner is the queue of shards: every event enqueues a shard, and the events of a burst share a run.
package runner

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/sallyport/sallyport/internal/model/shard"
)

// Minimum interval between the starts of two runs of a shard: the first event of a burst starts a run at once, all
// others together one more. A very large shard has a longer interval, so that a tenant with constant changes does not
// use a whole CPU, here and in OVN. maxCooldown limits it: no change waits longer, however large the shard is.
const (
	minInterval     = 20 * time.Millisecond
	largeShardSize  = 2000
	cooldownPerItem = 300 * time.Microsecond // for each item above largeShardSize
	maxCooldown     = time.Second
)

// lightBurst is how many runs may start without waiting for minInterval if the runs before were light, such as those of
// single changed endpoints: they cost less than the wait. On average the interval is kept.
const lightBurst = 3

// Retries of a failed shard: 100 ms, 200 ms, … up to 30 seconds.
const (
	minRetryDelay = 100 * time.Millisecond
	maxRetryDelay = 30 * time.Second
)

// runTimeout limits a run. What it has written by then is kept, and the next run continues from there.
const runTimeout = 5 * time.Minute

// A shard whose last run took at least slowRunThreshold is slow. Slow shards share half of the workers, so that a
// tenant with many of them does not delay others. A slow shard without a free worker is retried after slowRetryDelay.
const (
	slowRunThreshold = 5 * time.Second
	slowRetryDelay   = 500 * time.Millisecond
)

// minForgetAt is the smallest number of start times at which old ones are dropped.
const minForgetAt = 1024

// maxRequeueDelay is the longest delay before a waiting shard runs again.
const maxRequeueDelay = 30 * time.Second

// RunFunc runs a shard.
type RunFunc func(ctx context.Context, of shard.Shard) (Result, error)

// Result is the outcome of a run.
type Result struct {
	// RequeueAfter is when to run again, zero for the next event. Without events the delays grow: a thousand waiting
	// shards must not delay the others.
	RequeueAfter time.Duration
	// Size is the estimated size of the shard.
	Size int
	// Light: the run was about a small part of the shard.
	Light bool
}

// DoneFunc is called after each run.
type DoneFunc func(of shard.Shard, took time.Duration, err error)

// Runner runs shards in parallel, but never the same shard twice at the same time.
type Runner struct {
	queue  workqueue.TypedRateLimitingInterface[shard.Shard]
	order  *shardOrder
	run    RunFunc
	onDone DoneFunc
	logger *slog.Logger
	// startWorker starts another worker; set by Start.
	startWorker func()

	mu             sync.Mutex
	requeues       map[shard.Shard]int           // runs of a shard since its last event
	startedAt      map[shard.Shard]time.Time     // when the last run of a shard started; see acquireWorker
	lightShards    map[shard.Shard]bool          // shards whose last run was light
	cooldowns      map[shard.Shard]time.Duration // minimum interval of large shards
	forgetAt       int                           // number of start times at which old ones are dropped
	slowShards     map[shard.Shard]bool          // shards whose last run was slow
	slowWorkers    int                           // workers that run slow shards
	maxSlowWorkers int                           // limit for slowWorkers
}

// New returns a runner that is not started.
func New(run RunFunc, watch DoneFunc, logger *slog.Logger) *Runner {
	order := newShardOrder()
	return &Runner{
		queue: newQueue(order), order: order, run: run, onDone: watch, logger: logger,
		requeues: map[shard.Shard]int{}, startedAt: map[shard.Shard]time.Time{}, cooldowns: map[shard.Shard]time.Duration{},
		slowShards: map[shard.Shard]bool{}, lightShards: map[shard.Shard]bool{},
	}
}

// newQueue returns a queue in which failed shards wait longer each time.
func newQueue(order workqueue.Queue[shard.Shard]) workqueue.TypedRateLimitingInterface[shard.Shard] {
	retries := workqueue.NewTypedItemExponentialFailureRateLimiter[shard.Shard](minRetryDelay, maxRetryDelay)
	ordered := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[shard.Shard]{Queue: order})
	return workqueue.NewTypedRateLimitingQueueWithConfig(retries, workqueue.TypedRateLimitingQueueConfig[shard.Shard]{
		DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(
			workqueue.TypedDelayingQueueConfig[shard.Shard]{Queue: ordered}),
	})
}

// Enqueue requests a run of a shard. It never blocks.
func (r *Runner) Enqueue(of shard.Shard) {
	r.mu.Lock()
	delete(r.requeues, of)
	rest := max(minInterval, r.cooldowns[of]) - time.Since(r.startedAt[of])
	if r.lightShards[of] {
		rest -= lightBurst * minInterval
	}
	r.mu.Unlock()
	r.queue.AddAfter(of, max(rest, 0))
}

// QueueLength returns how many shards are queued and not yet running.
func (r *Runner) QueueLength() int { return r.queue.Len() }

// Start runs shards until the context ends, and returns when running shards have finished, at most grace later. They
// are not interrupted before that: a run that is cut off between two writes leaves work for its successor.
func (r *Runner) Start(ctx context.Context, workers int, grace time.Duration) {
	ending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		time.AfterFunc(grace, cancel)
		r.queue.ShutDown()
	})
	defer stop()
	r.order.started.Store(true)
	r.maxSlowWorkers = max(workers/2, 1)
	var group sync.WaitGroup
	r.startWorker = func() {
		group.Go(func() {
			for r.processNextShard(ctx, ending) {
			}
		})
	}
	for range workers {
		r.startWorker()
	}
	group.Wait()
}

// processNextShard runs one shard. After the context has ended, queued shards are left to the next leader.
func (r *Runner) processNextShard(ctx, ending context.Context) bool {
	of, shutdown := r.queue.Get()
	if shutdown {
		return false
	}
	defer r.queue.Done(of)
	if ctx.Err() != nil {
		return true
	}
	begun := time.Now()
	slow, admitted := r.acquireWorker(of, begun)
	if !admitted {
		r.queue.AddAfter(of, slowRetryDelay)
		return true
	}
	worker := &workerSlot{runner: r}
	limited, cancel := context.WithTimeout(context.WithValue(ending, slotKey{}, worker), runTimeout)
	result, err := r.run(limited, of)
	cancel()
	r.recordRunEnd(of, slow, time.Since(begun)-worker.parked)
	r.onDone(of, time.Since(begun), err)
	r.scheduleNextRun(of, result, err)
	return !worker.replaced
}

// scheduleNextRun requests the next run of a shard if it needs one without an event.
func (r *Runner) scheduleNextRun(of shard.Shard, result Result, err error) {
	if err != nil {
		r.logger.Warn("shard failed; retrying", "shard", of.Name, "error", err)
		r.queue.AddRateLimited(of)
		return
	}
	r.queue.Forget(of)
	r.setCooldown(of, result)
	if result.RequeueAfter > 0 {
		r.queue.AddAfter(of, r.requeueDelay(of, result.RequeueAfter))
	}
}

// setCooldown sets the minimum interval of a shard, which depends on its last run.
func (r *Runner) setCooldown(of shard.Shard, result Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.cooldowns, of)
	if result.Size > largeShardSize {
		r.cooldowns[of] = min(time.Duration(result.Size-largeShardSize)*cooldownPerItem, maxCooldown)
	}
	if r.lightShards[of] = result.Light; !result.Light {
		delete(r.lightShards, of)
	}
}

// forgetOldRuns drops the start times that no longer delay a run, so that shards that were deleted long ago use no
// memory. It is called when there are twice as many as after the last call.
func (r *Runner) forgetOldRuns(now time.Time) {
	if len(r.startedAt) < r.forgetAt {
		return
	}
	for of, started := range r.startedAt {
		if now.Sub(started) > max(minInterval, r.cooldowns[of]) {
			delete(r.startedAt, of)
		}
	}
	r.forgetAt = max(minForgetAt, 2*len(r.startedAt))
}

// acquireWorker reports whether a shard is slow, and whether it may run now.
func (r *Runner) acquireWorker(of shard.Shard, now time.Time) (slow, admitted bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if slow = r.slowShards[of]; slow {
		if r.slowWorkers >= r.maxSlowWorkers {
			return slow, false
		}
		r.slowWorkers++
	}
	r.forgetOldRuns(now)
	// A run of a burst counts as started when it would have started without the burst.
	if due := r.startedAt[of].Add(minInterval); r.lightShards[of] && due.After(now) {
		now = due
	}
	r.startedAt[of] = now
	return slow, true
}

func (r *Runner) recordRunEnd(of shard.Shard, slow bool, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if slow {
		r.slowWorkers--
	}
	if r.slowShards[of] = took >= slowRunThreshold; !r.slowShards[of] {
		delete(r.slowShards, of)
	}
}

// requeueDelay returns the requested delay for the first two runs, and twice the previous delay for each further one.
func (r *Runner) requeueDelay(of shard.Shard, again time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.requeues[of]
	r.requeues[of] = n + 1
	return min(again<<min(max(n-1, 0), 10), max(again, maxRequeueDelay))
}
