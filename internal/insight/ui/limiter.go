package ui

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sallyport/sallyport/internal/model/clusterstate"
)

// Limits of expensive requests: how many run at a time, and how many may wait.
const (
	maxConcurrent = 2
	maxWaiting    = 16
)

// errBusy is returned when too many requests are waiting.
var errBusy = errors.New("too many concurrent requests; try again in a second")

// requestLimiter limits the requests that run at a time, so that a flood of requests uses little CPU and memory.
type requestLimiter struct {
	working chan struct{}
	waiting atomic.Int32
}

func newRequestLimiter() *requestLimiter {
	return &requestLimiter{working: make(chan struct{}, maxConcurrent)}
}

// acquire waits until the request may run. The returned function releases its slot.
func (t *requestLimiter) acquire(ctx context.Context) (leave func(), err error) {
	if t.waiting.Add(1) > maxWaiting+maxConcurrent {
		t.waiting.Add(-1)
		return nil, errBusy
	}
	select {
	case t.working <- struct{}{}:
		return func() { <-t.working; t.waiting.Add(-1) }, nil
	case <-ctx.Done():
		t.waiting.Add(-1)
		return nil, ctx.Err()
	}
}

// Limits of the cache of shardComparer.
const (
	comparisonTTL        = time.Second
	maxCachedComparisons = 32
)

// shardComparer compares shards with the cluster, one request at a time. Requests for the same shards within
// comparisonTTL share one result.
type shardComparer struct {
	readShards func(ctx context.Context, names []string) ([]clusterstate.Shard, error)
	now        func() time.Time
	sem        chan struct{}
	cache      []comparison // newest first
}

type comparison struct {
	key    string
	readAt time.Time
	shards []clusterstate.Shard
}

func newShardComparer(read func(context.Context, []string) ([]clusterstate.Shard, error)) *shardComparer {
	return &shardComparer{readShards: read, now: time.Now, sem: make(chan struct{}, 1)}
}

// compareShards returns the comparison of shards from the cache or from the cluster.
func (c *shardComparer) compareShards(ctx context.Context, names []string) ([]clusterstate.Shard, error) {
	select {
	case c.sem <- struct{}{}:
		defer func() { <-c.sem }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	key := strings.Join(names, "\n")
	c.cache = slices.DeleteFunc(c.cache, func(old comparison) bool { return c.now().Sub(old.readAt) > comparisonTTL })
	if i := slices.IndexFunc(c.cache, func(old comparison) bool { return old.key == key }); i >= 0 {
		return c.cache[i].shards, nil
	}
	shards, err := c.readShards(ctx, names)
	if err != nil {
		return nil, err
	}
	c.cache = slices.Insert(c.cache, 0, comparison{key, c.now(), shards})
	c.cache = c.cache[:min(len(c.cache), maxCachedComparisons)]
	return shards, nil
}
