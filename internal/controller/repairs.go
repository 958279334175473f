package controller

import (
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sallyport/sallyport/internal/model/intent"
)

// outputKinds are what is written to and decides about nothing: an event of these does not say that something else is
// wanted.
var outputKinds = []string{
	sourceOVN, string(intent.Vpc), string(intent.NetworkAttachment), string(intent.OvnEip), string(intent.OvnFip),
	string(intent.OvnSnatRule),
	string(intent.NodePath),
}

// repairCounter counts what is put right. A change is a repair when nothing was left to do in its shard, and nothing
// else was wanted since. So what was wrong before the controller began is none, and what goes wrong while somebody
// changes their mind may be missed.
type repairCounter struct {
	total *prometheus.CounterVec

	mu           sync.Mutex
	inputChanged map[string]bool // shards of which something else may be wanted since they last began to run
	settled      map[string]bool // shards in which nothing was left to do
}

func newRepairCounter() *repairCounter {
	r := &repairCounter{
		total:        newCounterVec("sallyport_repairs_total"),
		inputChanged: map[string]bool{},
		settled:      map[string]bool{},
	}
	for _, system := range []string{systemKubernetes, systemOVN} {
		r.total.WithLabelValues(system)
	}
	return r
}

// noteTrigger notes why a shard is to be run.
func (r *repairCounter) noteTrigger(shard, by string) {
	if slices.Contains(outputKinds, by) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inputChanged[shard] = true
}

// beginRun says whether what a shard that begins to run now has to change is only put right.
func (r *repairCounter) beginRun(shard string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	mends := r.settled[shard] && !r.inputChanged[shard]
	delete(r.settled, shard)
	delete(r.inputChanged, shard)
	return mends
}

// countRepairs counts what is about to be put right.
func (r *repairCounter) countRepairs(w *Work) {
	for _, s := range w.steps {
		for _, line := range s.ChangeLines() {
			if !line.Held {
				r.total.WithLabelValues(s.system).Inc()
			}
		}
	}
}

// endRun notes whether anything is left to do in a shard.
func (r *repairCounter) endRun(shard string, w *Work) {
	for _, p := range w.steps {
		if len(p.ChangeLines()) > 0 {
			return
		}
	}
	if len(w.Verdicts) == 0 || w.isWaiting() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settled[shard] = true
}
