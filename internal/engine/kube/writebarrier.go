package kube

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sallyport/sallyport/internal/model/intent"
)

// cacheSyncTimeout is how long a target waits for the cache to show its writes. If the cache takes longer, the only
// cost is an unnecessary write.
const cacheSyncTimeout = time.Second

// writeBarrier detects when the cache shows a write, so that the next run does not miss it and write again.
type writeBarrier struct {
	mu      sync.Mutex
	waiters map[intent.ObjectKey]chan struct{} // closed at the next event of the object
}

// pendingWrite is what the cache has to show: a version of an object or, without a version, that the object with this
// UID is deleted or terminating.
type pendingWrite struct {
	key     intent.ObjectKey
	version string
	uid     types.UID
}

func newWriteBarrier(ctx context.Context, c cache.Cache, kinds []intent.Kind) (*writeBarrier, error) {
	e := &writeBarrier{waiters: map[intent.ObjectKey]chan struct{}{}}
	for _, kind := range kinds {
		object, err := newObject(kind)
		if err != nil {
			return nil, err
		}
		informer, err := c.GetInformer(ctx, object, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, fmt.Errorf("watch %s: %w", kind, err)
		}
		heard := func(o any) { e.notifyWaiters(kind, o) }
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: heard, UpdateFunc: func(_, o any) { heard(o) }, DeleteFunc: heard,
		}); err != nil {
			return nil, fmt.Errorf("watch %s: %w", kind, err)
		}
	}
	return e, nil
}

func (e *writeBarrier) notifyWaiters(kind intent.Kind, o any) {
	if last, unseen := o.(toolscache.DeletedFinalStateUnknown); unseen {
		o = last.Obj
	}
	object, isObject := o.(client.Object)
	if !isObject {
		return
	}
	key := intent.ObjectKey{Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName()}
	e.mu.Lock()
	defer e.mu.Unlock()
	if next, awaited := e.waiters[key]; awaited {
		close(next)
		delete(e.waiters, key)
	}
}

func (e *writeBarrier) nextEvent(key intent.ObjectKey) <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.waiters[key] == nil {
		e.waiters[key] = make(chan struct{})
	}
	return e.waiters[key]
}

// waitForCache waits until the cache shows the writes, at most cacheSyncTimeout.
func (c *Cluster) waitForCache(ctx context.Context, marks []pendingWrite) {
	if c.barrier == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, cacheSyncTimeout)
	defer cancel()
	for _, m := range marks {
		for !c.cacheShows(ctx, m) && ctx.Err() == nil {
			c.awaitNextEvent(ctx, m)
		}
	}
}

func (c *Cluster) awaitNextEvent(ctx context.Context, m pendingWrite) {
	next := c.barrier.nextEvent(m.key)
	if c.cacheShows(ctx, m) { // the event arrived before nextEvent was called
		return
	}
	select {
	case <-next:
	case <-ctx.Done():
	}
}

func (c *Cluster) cacheShows(ctx context.Context, m pendingWrite) bool {
	object, err := c.readObject(ctx, m.key)
	if m.version == "" {
		return apierrors.IsNotFound(err) ||
			(err == nil && (object.GetDeletionTimestamp() != nil || object.GetUID() != m.uid))
	}
	if err != nil {
		return !apierrors.IsNotFound(err) // not readable: waiting does not help
	}
	order, err := resourceversion.CompareResourceVersion(object.GetResourceVersion(), m.version)
	return err != nil || order >= 0
}
