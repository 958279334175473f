package controller

import (
	"context"
	"sync"

	"github.com/sallyport/sallyport/internal/kube"
)

// asks is where events go. The caches are built before the queue that they ask, so what comes in between waits here.
type asks struct {
	mu      sync.Mutex
	forward func(shard string)
	early   []string
	counts  *counts
}

// ask passes on that a shard is asked for, because of an object of a kind.
func (a *asks) ask(shard, by string) {
	a.counts.asked(shard, by)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.forward == nil {
		a.early = append(a.early, shard)
		return
	}
	a.forward(shard)
}

// to passes everything on from now on.
func (a *asks) to(forward func(shard string)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forward = forward
	for _, shard := range a.early {
		forward(shard)
	}
	a.early = nil
}

// What events of the OVN databases and of probes are called.
const (
	engine     = "OVN"
	southbound = "OVN southbound"
	probed     = "Reach"
)

// ourselves is what the controller is called where it decides.
const ourselves = "controller"

// askKnown passes on what happens to routers of ours: Kube-OVN's default router changes all the time. What the engine itself can
// do is said of the networks.
func (a *asks) askKnown(cluster *kube.Cluster) func(router string) {
	return func(router string) {
		if router == "" {
			a.ask(kube.NetworksShard, engine)
			return
		}
		if cluster.Knows(context.Background(), router) {
			a.ask(router, engine)
		}
	}
}
