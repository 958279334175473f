package ui

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sallyport/sallyport/internal/survey"
)

// How many requests that take work are worked on at a time, and how many may wait.
const (
	mostWorking = 2
	mostWaiting = 16
)

// errBusy is the answer when too many wait.
var errBusy = errors.New("too many requests at a time; ask again in a second")

// turnstile lets few requests through at a time. However many somebody sends, the server uses the processors of few and the memory of few.
type turnstile struct {
	working chan struct{}
	waiting atomic.Int32
}

func newTurnstile() *turnstile { return &turnstile{working: make(chan struct{}, mostWorking)} }

// enter waits for its turn. The returned function ends it.
func (t *turnstile) enter(ctx context.Context) (leave func(), err error) {
	if t.waiting.Add(1) > mostWaiting+mostWorking {
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
	goodFor    = time.Second
	mostAnswer = 32
)

// comparer compares shards with the cluster, one request at a time. Requests about the same shards within a second share one reading.
type comparer struct {
	read func(ctx context.Context, names []string) ([]survey.Shard, error)
	now  func() time.Time
	turn chan struct{}
	last []comparison // the newest first
}

type comparison struct {
	key    string
	read   time.Time
	shards []survey.Shard
}

func newComparer(read func(context.Context, []string) ([]survey.Shard, error)) *comparer {
	return &comparer{read: read, now: time.Now, turn: make(chan struct{}, 1)}
}

// shards reads shards, or takes what was just read.
func (c *comparer) shards(ctx context.Context, names []string) ([]survey.Shard, error) {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	key := strings.Join(names, "\n")
	c.last = slices.DeleteFunc(c.last, func(old comparison) bool { return c.now().Sub(old.read) > goodFor })
	if i := slices.IndexFunc(c.last, func(old comparison) bool { return old.key == key }); i >= 0 {
		return c.last[i].shards, nil
	}
	shards, err := c.read(ctx, names)
	if err != nil {
		return nil, err
	}
	c.last = slices.Insert(c.last, 0, comparison{key, c.now(), shards})
	c.last = c.last[:min(len(c.last), mostAnswer)]
	return shards, nil
}
