package controller

import (
	"sync"
	"time"

	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// orphanGracePeriod is how long Kube-OVN may take to remove the router of a Vpc that is gone.
const orphanGracePeriod = 20 * time.Second

// orphanedRouters remembers since when routers exist without a Vpc. Nothing in the cluster tells it: after a restart of
// the controller, Kube-OVN gets the whole time again.
type orphanedRouters struct {
	mu    sync.Mutex
	since map[string]time.Time // by name
}

// note records whether a router is without its Vpc now, and returns since when it has been. Zero: it is not.
func (o *orphanedRouters) note(router string, orphaned bool, now time.Time) time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !orphaned {
		delete(o.since, router)
		return time.Time{}
	}
	if o.since == nil {
		o.since = map[string]time.Time{}
	}
	if o.since[router].IsZero() {
		o.since[router] = now
	}
	return o.since[router]
}

// isRouterForgotten reports whether Kube-OVN has forgotten the router of a Vpc that is gone.
func isRouterForgotten(w *snapshot.VpcInput) bool {
	since := w.Engine.OrphanedSince
	return w.Management == nil && !since.IsZero() && w.Now.Sub(since) >= orphanGracePeriod
}
