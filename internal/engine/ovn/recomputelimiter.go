package ovn

import (
	"context"
	"slices"
	"sync"
	"time"
)

// recomputeBurst is how many transactions that recompute everything are sent without a delay after a quiet time: a new
// address on a secondary network needs a few of them, one after the other.
const recomputeBurst = 5

// maxBatchSize limits the shards of one transaction. ovsdb-server serves nobody else while it executes one.
const maxBatchSize = 256

// recomputeRequest is a shard that waits to write rows for which ovn-northd computes everything again.
type recomputeRequest struct {
	ctx context.Context
	// prepare builds the transaction when it is the shard's turn, from what the cache has then. It returns nil if there
	// is nothing to send.
	prepare func(context.Context) (*pendingWrite, error)
	done    chan error // receives the result; has room for it
}

// recomputeLimiter collects such requests, of all shards, and sends those that wait as one transaction: at most one in
// each interval, after a burst. A shard has at most one request at a time, and requests are served in order, so a
// shard with constant changes does not delay the others.
type recomputeLimiter struct {
	interval time.Duration // 0: requests do not wait
	commit   func(context.Context, []*pendingWrite) []error

	mu      sync.Mutex
	queue   []*recomputeRequest
	running bool      // a batch is scheduled or being sent
	full    time.Time // when the burst is available again
	batches int64
	waits   time.Duration // sum of the times that requests have waited
}

// submit waits for the shard's turn, sends its transaction together with others, and returns its result. It calls
// waiting only if the request has to wait, and the function that waiting returned after that.
func (l *recomputeLimiter) submit(ctx context.Context, waiting func() (resume func()),
	prepare func(context.Context) (*pendingWrite, error),
) error {
	r := &recomputeRequest{ctx: ctx, prepare: prepare, done: make(chan error, 1)}
	if delay := l.enqueue(r); delay > 0 && waiting != nil {
		defer waiting()()
	}
	begun := time.Now()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.waits += time.Since(begun)
	}()
	select {
	case err := <-r.done:
		return err
	case <-ctx.Done():
		if l.withdraw(r) {
			return ctx.Err()
		}
		return <-r.done // it is being sent
	}
}

// enqueue adds a request, and returns how long it waits at least.
func (l *recomputeLimiter) enqueue(r *recomputeRequest) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append(l.queue, r)
	if l.running {
		return max(l.nextDelay(time.Now()), time.Nanosecond)
	}
	return l.schedule()
}

// schedule starts the next batch when the limit allows it, and returns the delay.
func (l *recomputeLimiter) schedule() time.Duration {
	now := time.Now()
	delay := l.nextDelay(now)
	l.running = true
	l.full = latest(l.full, now.Add(delay)).Add(l.interval)
	time.AfterFunc(delay, l.sendBatch)
	return delay
}

// nextDelay returns when the next batch may be sent.
func (l *recomputeLimiter) nextDelay(now time.Time) time.Duration {
	return max(l.full.Add(-(recomputeBurst-1)*l.interval).Sub(now), 0)
}

// recordUnlimited counts a transaction that was sent without waiting. It delays the next batch if there is a burst
// left, and never more: urgent changes do not block the others.
func (l *recomputeLimiter) recordUnlimited() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.batches++
	if now := time.Now(); l.nextDelay(now) == 0 {
		l.full = latest(l.full, now).Add(l.interval)
	}
}

// sendBatch sends the requests that wait now as one transaction.
func (l *recomputeLimiter) sendBatch() {
	batch := l.takeBatch()
	var (
		group    sync.WaitGroup
		prepared = make([]*pendingWrite, len(batch))
	)
	for i, r := range batch {
		group.Go(func() {
			write, err := r.prepare(r.ctx)
			if prepared[i] = write; err != nil || write == nil {
				prepared[i] = nil
				r.done <- err
			}
		})
	}
	group.Wait()
	var send []*pendingWrite
	for _, write := range prepared {
		if write != nil {
			send = append(send, write)
		}
	}
	if len(send) > 0 {
		results := l.commit(context.WithoutCancel(batch[0].ctx), send)
		for i, r := range batch {
			if prepared[i] != nil {
				r.done <- results[slices.Index(send, prepared[i])]
			}
		}
	}
	l.endBatch(len(send) > 0)
}

func (l *recomputeLimiter) takeBatch() []*recomputeRequest {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := min(len(l.queue), maxBatchSize)
	batch := l.queue[:n:n]
	l.queue = slices.Clone(l.queue[n:])
	return batch
}

// endBatch schedules the next batch if requests wait.
func (l *recomputeLimiter) endBatch(sent bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running = false
	if sent {
		l.batches++
	}
	if len(l.queue) > 0 {
		l.schedule()
	}
}

// withdraw removes a request that is not being sent yet.
func (l *recomputeLimiter) withdraw(r *recomputeRequest) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.queue, r)
	if i < 0 {
		return false
	}
	l.queue = slices.Delete(l.queue, i, i+1)
	return true
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
