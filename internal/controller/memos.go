package controller

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sallyport/sallyport/internal/compile"
	"github.com/sallyport/sallyport/internal/engine/kube"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/shard"
	"github.com/sallyport/sallyport/internal/model/snapshot"
	"github.com/sallyport/sallyport/internal/model/state"
)

// Limits of memos. A memo that is older than maxMemoAge is replaced by a run of the whole shard, for changes that no
// event reports. maxMemoItems limits the memory of all: an item is a row or an endpoint of a Service, and needs some
// hundred bytes.
const (
	maxMemoAge        = 10 * time.Minute
	maxMemoItems      = 300_000
	memoSweepInterval = time.Minute // old memos are dropped
	memoCheckInterval = time.Minute // the next memo that is used is compared with a fresh compilation
)

// maxChangedObjects is how many changed objects, such as Services with changed endpoints, are compiled one by one. If
// there are more, the whole shard is compiled. A pod costs less than a Service.
const (
	maxChangedObjects = 64
	maxChangedPods    = 1000
)

// minRequeueDelay is when a shard runs again at once: its memo was found to be wrong, or the next run completes this one.
const minRequeueDelay = time.Millisecond

// Values of the labels of sallyport_endpoint_runs_total, sallyport_pod_runs_total, sallyport_egress_runs_total and
// sallyport_memo_checks_total.
const (
	compiledServices  = "services"
	compiledPods      = "pods"
	compiledVPC       = "vpc"
	compiledEgressIPs = "egressips"
	compiledAll       = "all"
	memoSame          = "same"
	memoDifferent     = "different"
)

// changeLog is what has changed in each shard since its last run began.
type changeLog struct {
	mu      sync.Mutex
	changes map[shard.Shard]*shardChange
}

// shardChange is a set of changed objects (see kube.Event), or anything.
type shardChange struct {
	objects  map[intent.ObjectKey]bool
	anything bool
}

// note adds an event.
func (l *changeLog) note(e kube.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changes == nil {
		l.changes = map[shard.Shard]*shardChange{}
	}
	c := l.changes[e.Shard]
	if c == nil {
		c = &shardChange{}
		l.changes[e.Shard] = c
	}
	limit := maxChangedObjects
	if e.Object.Kind == kube.Pod {
		limit = maxChangedPods
	}
	if e.Object == (intent.ObjectKey{}) || len(c.objects) >= limit && !c.objects[e.Object] || c.anything {
		c.anything, c.objects = true, nil
		return
	}
	if c.objects == nil {
		c.objects = map[intent.ObjectKey]bool{}
	}
	c.objects[e.Object] = true
}

// take returns the objects that changed, if nothing else did, and forgets the changes. A shard that runs without an
// event, because it waits or failed, may have to do anything.
func (l *changeLog) take(of shard.Shard) (objects []intent.ObjectKey, only bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.changes[of]
	delete(l.changes, of)
	if c == nil || c.anything {
		return nil, false
	}
	for key := range c.objects {
		objects = append(objects, key)
	}
	slices.SortFunc(objects, intent.ObjectKey.Compare)
	return objects, true
}

// memoStore holds the memos of shards whose endpoints changed recently.
type memoStore struct {
	mu        sync.Mutex
	memos     map[shard.Shard]storedMemo
	items     int // of all memos
	checkedAt time.Time
	sweptAt   time.Time
}

type storedMemo struct {
	memo      *compile.Memo
	pods      *kube.EgressPodReader // nil: changed pods are not followed
	isWaiting bool                  // an object waits for something that may not be an event
	size      int
	settledAt time.Time // when the whole shard ran
	usedAt    time.Time
}

// take removes the memo of a shard and returns it if it is not too old. The run puts it back if it succeeds.
func (m *memoStore) take(of shard.Shard, now time.Time) (storedMemo, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out, there := m.memos[of]
	m.remove(of)
	return out, there && now.Sub(out.settledAt) < maxMemoAge
}

// put stores a memo that was used now. It drops those that are too old and, while there is too much, those that were
// used least recently.
func (m *memoStore) put(of shard.Shard, memo storedMemo) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.memos == nil {
		m.memos = map[shard.Shard]storedMemo{}
	}
	m.remove(of)
	m.memos[of], m.items = memo, m.items+memo.size
	if memo.usedAt.Sub(m.sweptAt) >= memoSweepInterval {
		m.sweptAt = memo.usedAt
		for other, old := range m.memos {
			if memo.usedAt.Sub(old.settledAt) >= maxMemoAge {
				m.remove(other)
			}
		}
	}
	for m.items > maxMemoItems && len(m.memos) > 1 {
		m.removeLeastRecent()
	}
}

func (m *memoStore) remove(of shard.Shard) {
	m.items -= m.memos[of].size
	delete(m.memos, of)
}

func (m *memoStore) removeLeastRecent() {
	var oldest shard.Shard
	first := true
	for of, memo := range m.memos {
		if first || memo.usedAt.Before(m.memos[oldest].usedAt) {
			oldest, first = of, false
		}
	}
	m.remove(oldest)
}

// isCheckDue reports whether a memo should be checked now.
func (m *memoStore) isCheckDue(now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now.Sub(m.checkedAt) < memoCheckInterval {
		return false
	}
	m.checkedAt = now
	return true
}

// prepareChanges prepares a shard: only the objects that have changed, if nothing else has and if a memo knows the rest.
func (s *Reconciler) prepareChanges(ctx context.Context, of shard.Shard) (*Work, error) {
	objects, only := s.changes.take(of)
	if of == shard.Egress {
		return s.prepareEgressChanges(ctx, objects, only)
	}
	return s.prepareVPCChanges(ctx, of, objects, only)
}

// prepareVPCChanges prepares a VPC: only the Services whose endpoints have changed and the changed pods, if nothing else
// has.
func (s *Reconciler) prepareVPCChanges(ctx context.Context, of shard.Shard, changed []intent.ObjectKey, only bool,
) (*Work, error) {
	stored, known := s.memos.take(of, s.Clock())
	isPod := func(key intent.ObjectKey) bool { return key.Kind == kube.Pod }
	pods := slices.DeleteFunc(slices.Clone(changed), func(key intent.ObjectKey) bool { return !isPod(key) })
	services := slices.DeleteFunc(changed, isPod)
	if only && known {
		if work := s.prepareObjects(ctx, of, stored, services, pods); work != nil {
			s.Metrics.countMemoRuns(services, pods, true)
			return work, nil
		}
	}
	if only {
		s.Metrics.countMemoRuns(services, pods, false)
	}
	work, err := s.PrepareShard(ctx, of)
	if work != nil && !only && work.pods == nil {
		work.memo = nil // most shards never need it
	}
	return work, err
}

// countMemoRuns counts a run because of changed Services and pods.
func (c *controllerMetrics) countMemoRuns(services, pods []intent.ObjectKey, oneByOne bool) {
	for _, of := range []struct {
		changed []intent.ObjectKey
		runs    *prometheus.CounterVec
		label   string
	}{{services, c.endpointRuns, compiledServices}, {pods, c.podRuns, compiledPods}} {
		switch {
		case len(of.changed) == 0:
		case oneByOne:
			of.runs.WithLabelValues(of.label).Inc()
		default:
			of.runs.WithLabelValues(compiledVPC).Inc()
		}
	}
}

// prepareObjects computes the plans for Services whose endpoints have changed, and for changed pods. It returns nil if the
// whole shard has to be compiled.
func (s *Reconciler) prepareObjects(ctx context.Context, of shard.Shard, stored storedMemo, services,
	pods []intent.ObjectKey,
) *Work {
	if checkConnected(s.NB) != nil {
		return nil
	}
	work := &Work{memo: stored.memo, isPartial: true, stored: stored}
	if len(services) > 0 && !s.prepareServices(ctx, of, work, services) ||
		len(pods) > 0 && !s.preparePods(ctx, of, work, pods) {
		return nil
	}
	if stored.isWaiting {
		work.requeueAfter = waitingShardInterval
	}
	return work
}

// prepareServices adds the plans for Services whose endpoints have changed. It returns false if the whole shard has to be
// compiled.
func (s *Reconciler) prepareServices(ctx context.Context, of shard.Shard, work *Work, services []intent.ObjectKey) bool {
	objects, changed, ok := s.Cluster.GatherEndpoints(ctx, of, services)
	if !ok {
		return false
	}
	update, ok := work.memo.Update(changed)
	if !ok {
		return false
	}
	work.Verdicts, work.before, work.statusObjects = update.Verdicts, update.Before, objects
	work.size += estimateUpdateSize(update, changed)
	return work.addRowStep(func() state.Prepared {
		return state.TryPreparePlan(ctx, s.NB.VIPTarget(of.Name, update.RowKeys, update.LoadBalancers), update.Rows,
			intent.KeepForeignRows)
	})
}

// preparePods does the same for pods of the management VPC. They change entries of address sets.
func (s *Reconciler) preparePods(ctx context.Context, of shard.Shard, work *Work, pods []intent.ObjectKey) bool {
	if work.stored.pods == nil {
		return false
	}
	changed, ok := work.stored.pods.Read(ctx, pods, s.NB.ManagementPodPorts)
	if !ok {
		return false
	}
	update, ok := work.memo.UpdatePods(changed)
	if !ok {
		return false
	}
	work.size += len(update.Rows)
	return work.addRowStep(func() state.Prepared {
		return state.TryPreparePlan(ctx, s.NB.AddressSetTarget(of.Name, update.Rows), update.Rows)
	})
}

// addRowStep adds a step that writes rows. It returns false if there is none.
func (w *Work) addRowStep(prepare func() state.Prepared) bool {
	steps, err := collectSteps(reobservedOVNStep(prepare))
	w.steps = append(w.steps, steps...)
	return err == nil
}

// estimateUpdateSize estimates the cost of changed Services: their rows and all of their endpoints, which are written
// even if only one has changed. The runner pauses after a large one.
func estimateUpdateSize(update *compile.ServiceUpdate, changed []snapshot.Service) int {
	n := len(update.RowKeys)
	for i := range changed {
		n += len(changed[i].Endpoints)
	}
	return n
}

// keepMemo keeps the memo of a shard at rest for its next run. It returns false if the memo is wrong: then the whole
// shard has to run again.
func (s *Reconciler) keepMemo(of shard.Shard, work *Work) bool {
	if work.memo == nil || !work.isAtRest() {
		return true
	}
	now := s.Clock()
	stored := work.stored
	if !work.isPartial {
		if !work.memo.Settle(s.NB.VIPs(of.Name)) {
			return true
		}
		stored = storedMemo{memo: work.memo, size: work.size, settledAt: now, isWaiting: work.isWaiting()}
		if work.pods != nil && work.memo.FollowPods() {
			stored.pods = work.pods
			stored.size += work.memo.PodCount()
		}
	} else if !s.checkMemo(of, now, work.memo.Check) {
		return false
	}
	stored.usedAt = now
	s.memos.put(of, stored)
	return true
}

// isAtRest reports whether the work of a run has left nothing to do.
func (w *Work) isAtRest() bool { return !w.wroteObjects && len(w.changes()) == 0 }

// checkMemo compares a memo that was just used with a fresh compilation, if it is time to. It returns false if the memo
// is wrong.
func (s *Reconciler) checkMemo(of shard.Shard, now time.Time, check func() error) bool {
	if !s.memos.isCheckDue(now) {
		return true
	}
	if err := check(); err != nil {
		s.Metrics.memoChecks.WithLabelValues(memoDifferent).Inc()
		s.Logger.Error("changed objects were compiled incorrectly; the whole shard runs again", "shard", of.Name,
			"error", err)
		return false
	}
	s.Metrics.memoChecks.WithLabelValues(memoSame).Inc()
	return true
}
