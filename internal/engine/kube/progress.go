package kube

import (
	"reflect"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// When an unprocessed object counts as stuck: Kube-OVN has finished one that was created this much later, or has
// finished none at all for this long.
const (
	overtakenAfter = 10 * time.Second
	stalledAfter   = time.Minute
)

// progress tracks how far Kube-OVN got with the objects that it reads only once, by kind. Kube-OVN processes them in
// order and can miss one: if an object is deleted and created again under the same name while Kube-OVN's watch is
// interrupted, Kube-OVN sees an update, and it acts only on new objects.
type progress struct {
	mu             sync.Mutex
	now            func() time.Time
	startedAt      time.Time
	newestFinished map[reflect.Type]time.Time // creation time of the newest object that it has finished
	lastFinished   map[reflect.Type]time.Time // when it last finished one
}

func newProgress(now func() time.Time) *progress {
	return &progress{
		now:            now,
		startedAt:      now(),
		newestFinished: map[reflect.Type]time.Time{},
		lastFinished:   map[reflect.Type]time.Time{},
	}
}

// recordFinished records an object that Kube-OVN has just finished.
func (p *progress) recordFinished(was, is client.Object) {
	if p == nil || was == nil || is == nil || pendingSince(was).IsZero() || !pendingSince(is).IsZero() ||
		is.GetDeletionTimestamp() != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	kind := reflect.TypeOf(is)
	p.lastFinished[kind] = p.now()
	if made := is.GetCreationTimestamp().Time; made.After(p.newestFinished[kind]) {
		p.newestFinished[kind] = made
	}
}

// isStuck reports whether Kube-OVN will never process an object.
func (p *progress) isStuck(o client.Object) bool {
	made := pendingSince(o)
	if p == nil || made.IsZero() || isInProgress(o) {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	kind, now := reflect.TypeOf(o), p.now()
	quiet := made
	for _, t := range []time.Time{p.startedAt, p.lastFinished[kind]} {
		if t.After(quiet) {
			quiet = t
		}
	}
	return p.newestFinished[kind].Sub(made) > overtakenAfter || now.Sub(quiet) > stalledAfter
}
