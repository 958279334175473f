package controller

import (
	"context"
	"sync"

	"github.com/sallyport/sallyport/internal/engine/kube"
)

// triggerForwarder is where events go. The caches are built before the queue that they ask, so what comes in between
// waits here.
type triggerForwarder struct {
	mu      sync.Mutex
	forward func(shard string)
	pending []string
	metrics *controllerMetrics
}

// triggerShard passes on that a shard is asked for, because of an object of a kind.
func (a *triggerForwarder) triggerShard(shard, by string) {
	a.metrics.countTrigger(shard, by)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.forward == nil {
		a.pending = append(a.pending, shard)
		return
	}
	a.forward(shard)
}

// forwardTo passes everything on from now on.
func (a *triggerForwarder) forwardTo(forward func(shard string)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forward = forward
	for _, shard := range a.pending {
		forward(shard)
	}
	a.pending = nil
}

// What events of the OVN databases and of probes are called.
const (
	sourceOVN        = "OVN"
	sourceSouthbound = "OVN southbound"
	sourceProbe      = "Reach"
)

// sourceController is what the controller is called where it decides.
const sourceController = "controller"

// routerEventHandler passes on what happens to routers of ours: Kube-OVN's default router changes all the time. What
// the engine itself can do is said of the networks.
func (a *triggerForwarder) routerEventHandler(cluster *kube.Cluster) func(router string) {
	return func(router string) {
		if router == "" {
			a.triggerShard(kube.NetworksShard, sourceOVN)
			return
		}
		if cluster.ReconcilesVPC(context.Background(), router) {
			a.triggerShard(router, sourceOVN)
		}
	}
}
