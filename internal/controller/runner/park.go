package runner

import (
	"context"
	"time"
)

// slotKey is the key of the workerSlot in the context of a run.
type slotKey struct{}

// workerSlot is the worker of a run.
type workerSlot struct {
	runner   *Runner
	replaced bool // another worker has taken its place
	parked   time.Duration
}

// Park tells that a run waits without working, until resume is called. Another worker runs other shards from then on,
// and the one of this run ends with it. The context is the one of the run; with another context nothing happens.
func Park(ctx context.Context) (resume func()) {
	w, inRun := ctx.Value(slotKey{}).(*workerSlot)
	if !inRun {
		return func() {}
	}
	if !w.replaced {
		w.replaced = true
		w.runner.startWorker()
	}
	begun := time.Now()
	return func() { w.parked += time.Since(begun) }
}
