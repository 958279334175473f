package kube

import (
	"reflect"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// When an object that Kube-OVN has not taken up counts as overlooked: it has finished one that was made so much later, or none at
// all for so long.
const (
	overtaken = 10 * time.Second
	standing  = time.Minute
)

// progress is how far Kube-OVN has come with the objects that it reads once, by kind. It takes them one after the other, and can
// overlook one: an object that goes and comes again under its name while Kube-OVN's watch is interrupted looks to it like one that
// was changed, and it makes something of new ones only.
type progress struct {
	mu     sync.Mutex
	now    func() time.Time
	begun  time.Time
	newest map[reflect.Type]time.Time // when the youngest of those was made that it has finished
	last   map[reflect.Type]time.Time // when it finished one
}

func newProgress(now func() time.Time) *progress {
	return &progress{now: now, begun: now(), newest: map[reflect.Type]time.Time{}, last: map[reflect.Type]time.Time{}}
}

// saw takes note of an object that has changed.
func (p *progress) saw(was, is client.Object) {
	if p == nil || was == nil || is == nil || untaken(was).IsZero() || !untaken(is).IsZero() || is.GetDeletionTimestamp() != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	kind := reflect.TypeOf(is)
	p.last[kind] = p.now()
	if made := is.GetCreationTimestamp().Time; made.After(p.newest[kind]) {
		p.newest[kind] = made
	}
}

// overlooked says whether Kube-OVN will never take up an object.
func (p *progress) overlooked(o client.Object) bool {
	made := untaken(o)
	if p == nil || made.IsZero() || begun(o) {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	kind, now := reflect.TypeOf(o), p.now()
	quiet := made
	for _, t := range []time.Time{p.begun, p.last[kind]} {
		if t.After(quiet) {
			quiet = t
		}
	}
	return p.newest[kind].Sub(made) > overtaken || now.Sub(quiet) > standing
}
