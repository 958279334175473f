// Package runner is the queue of shards: asked for by every event, run once for a burst of them.
package runner

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// How long a shard rests after it has begun to run: the first event of a burst makes it run at once, and all others once more. A very
// large shard rests longer, so that one tenant who changes something all the time does not take all of a processor, here and in the
// engine.
const (
	burst   = 20 * time.Millisecond
	large   = 2000
	perItem = 300 * time.Microsecond // of a large one
)

// Retries of a shard that failed: 100 ms, 200 ms, … up to half a minute.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 30 * time.Second
)

// longestRun is how long a run may take. What it has written by then stays, and the next run goes on from there.
const longestRun = 5 * time.Minute

// A shard whose last run took so long is slow. Slow ones have half of the workers together, so that a tenant with many of them does not
// hold up everybody else's; one that finds no worker is tried again soon.
const (
	slowRun   = 5 * time.Second
	slowRetry = 500 * time.Millisecond
)

// lastLook is the longest pause before a shard is looked at that waits for something.
const lastLook = 30 * time.Second

// Run does all that a shard needs.
type Run func(ctx context.Context, shard string) (Result, error)

// Result is what a run has to say of the next one.
type Result struct {
	// Again is when to look again, zero for not before the next event. When no event comes, the pauses grow: a thousand shards that
	// wait for something must not keep the others from being run.
	Again time.Duration
	// Size is how much there is in the shard.
	Size int
}

// Watch is told about each run that has ended.
type Watch func(shard string, took time.Duration, err error)

// Runner runs shards side by side, each of them never twice at once.
type Runner struct {
	queue  workqueue.TypedRateLimitingInterface[string]
	run    Run
	watch  Watch
	logger *slog.Logger

	mu    sync.Mutex
	looks map[string]int           // how often a shard was looked at since its last event
	begun map[string]time.Time     // when a shard has last begun to run
	rests map[string]time.Duration // how long a large one rests
	slow  map[string]bool          // shards whose last run took long
	held  int                      // workers that run slow ones
	lends int                      // workers that may
}

// New is a runner that runs nothing yet.
func New(run Run, watch Watch, logger *slog.Logger) *Runner {
	retries := workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, lastRetry)
	return &Runner{
		queue: workqueue.NewTypedRateLimitingQueue(retries), run: run, watch: watch, logger: logger,
		looks: map[string]int{}, begun: map[string]time.Time{}, rests: map[string]time.Duration{}, slow: map[string]bool{},
	}
}

// Ask wants a shard to be run. It never blocks.
func (r *Runner) Ask(shard string) {
	r.mu.Lock()
	delete(r.looks, shard)
	rest := max(burst, r.rests[shard]) - time.Since(r.begun[shard])
	r.mu.Unlock()
	r.queue.AddAfter(shard, max(rest, 0))
}

// Waiting is how many shards are asked for and not yet run.
func (r *Runner) Waiting() int { return r.queue.Len() }

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
	r.lends = max(workers/2, 1)
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for r.next(ctx, ending) {
			}
		})
	}
	group.Wait()
}

// next runs one shard. A shard that is taken from the queue after the end was asked for is left to the successor.
func (r *Runner) next(ctx, ending context.Context) bool {
	shard, shutdown := r.queue.Get()
	if shutdown {
		return false
	}
	defer r.queue.Done(shard)
	if ctx.Err() != nil {
		return true
	}
	begun := time.Now()
	slow, admitted := r.admit(shard, begun)
	if !admitted {
		r.queue.AddAfter(shard, slowRetry)
		return true
	}
	limited, cancel := context.WithTimeout(ending, longestRun)
	result, err := r.run(limited, shard)
	cancel()
	r.ended(shard, slow, time.Since(begun))
	r.watch(shard, time.Since(begun), err)
	if err != nil {
		r.logger.Warn("shard failed; it is tried again", "vpc", shard, "error", err)
		r.queue.AddRateLimited(shard)
		return true
	}
	r.queue.Forget(shard)
	r.mu.Lock()
	r.rests[shard] = time.Duration(result.Size-large) * perItem
	r.mu.Unlock()
	if result.Again > 0 {
		r.queue.AddAfter(shard, r.pause(shard, result.Again))
	}
	return true
}

// admit says whether a shard is slow, and whether it may run now.
func (r *Runner) admit(shard string, now time.Time) (slow, admitted bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if slow = r.slow[shard]; slow {
		if r.held >= r.lends {
			return slow, false
		}
		r.held++
	}
	r.begun[shard] = now
	return slow, true
}

// ended notes how long a run took.
func (r *Runner) ended(shard string, slow bool, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if slow {
		r.held--
	}
	if r.slow[shard] = took >= slowRun; !r.slow[shard] {
		delete(r.slow, shard)
	}
}

// pause is how long to wait before the next look: the first two as long as asked for, each further one twice as long.
func (r *Runner) pause(shard string, again time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.looks[shard]
	r.looks[shard] = n + 1
	return min(again<<min(max(n-1, 0), 10), max(again, lastLook))
}
