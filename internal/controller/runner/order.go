package runner

import (
	"container/list"
	"sync/atomic"

	"github.com/sallyport/sallyport/internal/model/shard"
)

// backlogEvery is how often a shard of the backlog runs while others have events: one in this many.
const backlogEvery = 4

// shardOrder is the order in which queued shards run. Shards with an event since the runner started run first, in the
// order of their events. The backlog was queued before: while caches are filled, every object is an event, and a
// replica that does not lead runs nothing. Of the backlog, the shard with the latest event runs first: it is the one
// that changed last. The work queue calls the methods one at a time.
type shardOrder struct {
	started  atomic.Bool
	fresh    list.List
	backlog  list.List
	elements map[shard.Shard]*list.Element // of the backlog
	pops     int
}

func newShardOrder() *shardOrder { return &shardOrder{elements: map[shard.Shard]*list.Element{}} }

// Push adds a shard that is not queued.
func (o *shardOrder) Push(of shard.Shard) {
	if o.started.Load() {
		o.fresh.PushBack(of)
		return
	}
	o.elements[of] = o.backlog.PushFront(of)
}

// Touch handles an event of a shard that is queued.
func (o *shardOrder) Touch(of shard.Shard) {
	element, isBacklog := o.elements[of]
	switch {
	case !isBacklog:
	case o.started.Load():
		o.removeBacklog(element)
		o.fresh.PushBack(of)
	default:
		o.backlog.MoveToFront(element)
	}
}

// Len returns the number of queued shards.
func (o *shardOrder) Len() int { return o.fresh.Len() + o.backlog.Len() }

// Pop removes the next shard. There is at least one.
func (o *shardOrder) Pop() shard.Shard {
	o.pops++
	if o.fresh.Len() == 0 || o.backlog.Len() > 0 && o.pops%backlogEvery == 0 {
		return o.removeBacklog(o.backlog.Front())
	}
	return o.fresh.Remove(o.fresh.Front()).(shard.Shard)
}

func (o *shardOrder) removeBacklog(element *list.Element) shard.Shard {
	of := o.backlog.Remove(element).(shard.Shard)
	delete(o.elements, of)
	return of
}
