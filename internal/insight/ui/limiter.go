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

// How many requests that take work are worked on at a time, and how many may wait.
const (
	maxConcurrent = 2
	maxWaiting    = 16
)

// errBusy is the answer when too many wait.
var errBusy = errors.New("too many requests at a time; ask again in a second")

// requestLimiter lets few requests through at a time. However many somebody sends, the server uses the processors of
// few and the memory of few.
type requestLimiter struct {
	working chan struct{}
	waiting atomic.Int32
}

func newRequestLimiter() *requestLimiter {
	return &requestLimiter{working: make(chan struct{}, maxConcurrent)}
}

// acquire waits for its turn. The returned function ends it.
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

// How long what was read of the cluster for one request is good for the next, and how many answers are kept.
const (
	comparisonTTL        = time.Second
	maxCachedComparisons = 32
)

// shardComparer compares shards with the cluster, one request at a time. Requests about the same shards within a second
// share one reading.
type shardComparer struct {
	readShards func(ctx context.Context, names []string) ([]clusterstate.Shard, error)
	now        func() time.Time
	sem        chan struct{}
	cache      []comparison // the newest first
}

type comparison struct {
	key    string
	readAt time.Time
	shards []clusterstate.Shard
}

func newShardComparer(read func(context.Context, []string) ([]clusterstate.Shard, error)) *shardComparer {
	return &shardComparer{readShards: read, now: time.Now, sem: make(chan struct{}, 1)}
}

// compareShards reads shards, or takes what was just read.
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
