package controller

import (
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sallyport/sallyport/internal/intent"
)

// outputs are what is written to and decides about nothing: an event of these does not say that something else is wanted.
var outputs = []string{
	engine, string(intent.Vpc), string(intent.Attachment), string(intent.OvnEip), string(intent.OvnFip), string(intent.OvnSnatRule),
	string(intent.NodePath),
}

// repairs counts what is put right. A change is a repair when nothing was left to do in its shard, and nothing else was wanted since. So
// what was wrong before the controller began is none, and what goes wrong while somebody changes their mind may be missed.
type repairs struct {
	done *prometheus.CounterVec

	mu     sync.Mutex
	wished map[string]bool // shards of which something else may be wanted since they last began to run
	still  map[string]bool // shards in which nothing was left to do
}

func newRepairs() *repairs {
	r := &repairs{done: counter("sallyport_repairs_total"), wished: map[string]bool{}, still: map[string]bool{}}
	for _, system := range []string{systemKubernetes, systemOVN} {
		r.done.WithLabelValues(system)
	}
	return r
}

// asked notes why a shard is to be run.
func (r *repairs) asked(shard, by string) {
	if slices.Contains(outputs, by) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wished[shard] = true
}

// begins says whether what a shard that begins to run now has to change is only put right.
func (r *repairs) begins(shard string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	mends := r.still[shard] && !r.wished[shard]
	delete(r.still, shard)
	delete(r.wished, shard)
	return mends
}

// mends counts what is about to be put right.
func (r *repairs) mends(w *Work) {
	for _, s := range w.steps {
		for _, line := range s.Changes() {
			if !line.Held {
				r.done.WithLabelValues(s.system).Inc()
			}
		}
	}
}

// ended notes whether anything is left to do in a shard.
func (r *repairs) ended(shard string, w *Work) {
	for _, p := range w.steps {
		if len(p.Changes()) > 0 {
			return
		}
	}
	if len(w.Verdicts) == 0 || w.waits() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.still[shard] = true
}
