package controller

import (
	"context"
	"time"

	"github.com/sallyport/sallyport/internal/compile"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/shard"
)

// storedEgressMemo is the memo of the egress addresses.
type storedEgressMemo struct {
	memo      *compile.EgressMemo // nil: there is none
	settledAt time.Time           // when all egress addresses were compiled
	dueAt     time.Time           // when they have to be compiled again; zero: no time is known
	isWaiting bool                // an EgressIP waits for something that may not be an event
}

// waitingShardInterval is when a whole shard is compiled again after an update of some objects, if one of the others
// waits. It is as long as the longest delay of a shard that waits: one EgressIP that waits for ever, for example for a
// node, must not make changes of the others expensive.
const waitingShardInterval = 30 * time.Second

// isUsable reports whether updates may use the memo.
func (m storedEgressMemo) isUsable(now time.Time) bool {
	return m.memo != nil && now.Sub(m.settledAt) < maxMemoAge && (m.dueAt.IsZero() || now.Before(m.dueAt))
}

// prepareEgressChanges prepares the egress addresses: only the EgressIPs that have changed, if nothing else has and if
// the memo knows the rest.
func (s *Reconciler) prepareEgressChanges(ctx context.Context, changed []intent.ObjectKey, only bool) (*Work, error) {
	stored := s.egress.memo
	s.egress.memo = storedEgressMemo{} // kept again if the run succeeds
	if only {
		if work := s.prepareEgressIPs(ctx, stored, changed); work != nil {
			s.Metrics.egressRuns.WithLabelValues(compiledEgressIPs).Inc()
			return work, nil
		}
		s.Metrics.egressRuns.WithLabelValues(compiledAll).Inc()
	}
	return s.PrepareShard(ctx, shard.Egress)
}

// prepareEgressIPs prepares changed EgressIPs, of which only the status changes. It returns nil if all egress addresses
// have to be compiled.
func (s *Reconciler) prepareEgressIPs(ctx context.Context, stored storedEgressMemo, changed []intent.ObjectKey) *Work {
	now := s.Clock()
	if !stored.isUsable(now) || checkConnected(s.NB) != nil {
		return nil
	}
	objects, requests, ok := s.Cluster.GatherEgressIPs(ctx, changed)
	if !ok {
		return nil
	}
	update, ok := stored.memo.Update(requests)
	if !ok {
		return nil
	}
	work := &Work{
		Verdicts: update.Verdicts, before: update.Before, isPartial: true, statusObjects: objects, egressMemo: stored,
		size: len(requests),
	}
	if stored.isWaiting {
		work.requeueAfter = waitingShardInterval
	}
	if left := stored.dueAt.Sub(now); !stored.dueAt.IsZero() && (work.requeueAfter == 0 || left < work.requeueAfter) {
		work.requeueAfter = left
	}
	return work
}

// keepMemos keeps the memo of a shard at rest for its next run, which the runner has to start after again; 0: only
// after an event. In the management VPC, where one of very many objects may wait for ever, it is kept although something
// waits. It returns false if the memo is wrong: then the whole shard has to run again.
func (s *Reconciler) keepMemos(of shard.Shard, work *Work, again time.Duration) bool {
	if of == shard.Egress {
		return s.keepEgressMemo(work)
	}
	waits := again > 0 && (work.statusDue > 0 || work.pods == nil && work.stored.pods == nil)
	return waits || s.keepMemo(of, work)
}

// keepEgressMemo does the same for the egress addresses. If the next run has a time, the memo is used until then.
func (s *Reconciler) keepEgressMemo(work *Work) bool {
	stored := work.egressMemo
	switch {
	case stored.memo == nil || work.unsettled || !work.isAtRest():
		return true
	case work.isPartial:
		if !s.checkMemo(shard.Egress, s.Clock(), stored.memo.Check) {
			return false
		}
	case !stored.memo.Settle():
		return true
	default:
		stored.isWaiting = work.isWaiting()
	}
	s.egress.memo = stored
	return true
}
