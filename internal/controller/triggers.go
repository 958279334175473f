package controller

import (
	"context"
	"sync"

	"github.com/sallyport/sallyport/internal/engine/kube"
	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/shard"
)

// triggerForwarder passes events to the queue. The caches are built before the queue, so triggers that arrive in
// between are kept here.
type triggerForwarder struct {
	mu      sync.Mutex
	forward func(of shard.Shard)
	pending []shard.Shard
	metrics *controllerMetrics
	changes changeLog
}

// triggerShard requests a run of a shard because of an event of this kind or source.
func (a *triggerForwarder) triggerShard(of shard.Shard, by string) {
	a.handleEvent(kube.Event{Shard: of, Kind: by})
}

// handleEvent requests a run of the shard that an event affects.
func (a *triggerForwarder) handleEvent(e kube.Event) {
	a.metrics.countTrigger(e.Shard, e.Kind)
	a.changes.note(e)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.forward == nil {
		a.pending = append(a.pending, e.Shard)
		return
	}
	a.forward(e.Shard)
}

// forwardTo forwards the kept triggers and all later ones.
func (a *triggerForwarder) forwardTo(forward func(of shard.Shard)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forward = forward
	for _, of := range a.pending {
		forward(of)
	}
	a.pending = nil
}

// Values of the label "by" of sallyport_shard_asks_total for events that are not of Kubernetes objects.
const (
	sourceOVN        = "OVN"
	sourceSouthbound = "OVN southbound"
	sourceProbe      = "Reach"
)

// sourceController is the value of the label "by" of sallyport_egress_moves_total for moves by the controller.
const sourceController = "controller"

// routerEventHandler forwards events of managed routers only: Kube-OVN's default router changes all the time. An empty
// name means that the capabilities of OVN may have changed, which the networks report.
func (a *triggerForwarder) routerEventHandler(cluster *kube.Cluster) func(router string) {
	return func(router string) {
		if router == "" {
			a.triggerShard(shard.Networks, sourceOVN)
			return
		}
		if cluster.ReconcilesVPC(context.Background(), router) {
			a.triggerShard(shard.Named(router), sourceOVN)
		}
	}
}

// podPortEventHandler forwards events of ports on the switches of the management VPC, as events of their pods.
func (a *triggerForwarder) podPortEventHandler(cluster *kube.Cluster) func(namespace, name string) {
	return func(namespace, name string) {
		if cluster.ReconcilesVPC(context.Background(), kubeovn.ManagementVpc) {
			a.handleEvent(kube.Event{
				Shard: shard.Named(kubeovn.ManagementVpc), Kind: string(kube.Pod),
				Object: intent.ObjectKey{Kind: kube.Pod, Namespace: namespace, Name: name},
			})
		}
	}
}
