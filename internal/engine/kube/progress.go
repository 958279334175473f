package kube

import (
	"reflect"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// When an object that Kube-OVN has not taken up counts as overlooked: it has finished one that was made so much later,
// or none at all for so long.
const (
	overtakenAfter = 10 * time.Second
	stalledAfter   = time.Minute
)

// progress is how far Kube-OVN has come with the objects that it reads once, by kind. It takes them one after the
// other, and can overlook one: an object that goes and comes again under its name while Kube-OVN's watch is interrupted
// looks to it like one that was changed, and it makes something of new ones only.
type progress struct {
	mu             sync.Mutex
	now            func() time.Time
	startedAt      time.Time
	newestFinished map[reflect.Type]time.Time // when the youngest of those was made that it has finished
	lastFinished   map[reflect.Type]time.Time // when it finished one
}

func newProgress(now func() time.Time) *progress {
	return &progress{
		now:            now,
		startedAt:      now(),
		newestFinished: map[reflect.Type]time.Time{},
		lastFinished:   map[reflect.Type]time.Time{},
	}
}

// recordFinished takes note of an object that has changed.
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

// isStuck says whether Kube-OVN will never take up an object.
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
