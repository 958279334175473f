package controller

import (
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/shard"
)

// outputKinds are only written and decide nothing: their events do not mean that something else is wanted.
var outputKinds = []string{
	sourceOVN, string(intent.Vpc), string(intent.NetworkAttachment), string(intent.OvnEip), string(intent.OvnFip),
	string(intent.OvnSnatRule),
	string(intent.NodePath),
}

// repairCounter counts repairs. A change is a repair if its shard was settled and its inputs have not changed since. So
// what was wrong before the controller started is not counted, and what breaks while inputs change may be missed.
type repairCounter struct {
	total *prometheus.CounterVec

	mu           sync.Mutex
	inputChanged map[shard.Shard]bool // shards whose inputs may have changed since their last run started
	settled      map[shard.Shard]bool // shards with nothing left to do
}

func newRepairCounter() *repairCounter {
	r := &repairCounter{
		total:        newCounterVec("sallyport_repairs_total"),
		inputChanged: map[shard.Shard]bool{},
		settled:      map[shard.Shard]bool{},
	}
	for _, system := range []string{systemKubernetes, systemOVN} {
		r.total.WithLabelValues(system)
	}
	return r
}

// noteTrigger records why a shard will run.
func (r *repairCounter) noteTrigger(of shard.Shard, by string) {
	if slices.Contains(outputKinds, by) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inputChanged[of] = true
}

// beginRun reports whether the changes of the run that starts now are repairs.
func (r *repairCounter) beginRun(of shard.Shard) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	isRepair := r.settled[of] && !r.inputChanged[of]
	delete(r.settled, of)
	delete(r.inputChanged, of)
	return isRepair
}

// countRepairs counts the changes that are about to be applied.
func (r *repairCounter) countRepairs(w *Work) {
	for _, s := range w.steps {
		for _, line := range s.ChangeKeys() {
			if !line.Held {
				r.total.WithLabelValues(s.system).Inc()
			}
		}
	}
}

// endRun records whether a shard is settled.
func (r *repairCounter) endRun(of shard.Shard, w *Work) {
	if w.wroteObjects { // Kube-OVN still has to process them
		return
	}
	for _, p := range w.steps {
		if len(p.ChangeKeys()) > 0 {
			return
		}
	}
	if len(w.Verdicts) == 0 && !w.isPartial || w.isWaiting() || w.stored.isWaiting {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settled[of] = true
}
