package controller

import (
	"slices"
	"time"

	"github.com/sallyport/sallyport/internal/engine/kube"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/snapshot"
	"github.com/sallyport/sallyport/internal/model/state"
	"github.com/sallyport/sallyport/internal/model/status"
)

// newServiceHold is the age up to which a Service gets no status that only says that it is in progress. The time of
// creation has whole seconds, so the hold ends 1 to 2 s after it.
const newServiceHold = 2 * time.Second

type statusChange = state.Change[intent.ObjectKey, intent.Status]

// statusHold holds back statuses of Services that the next status would replace within moments. A Service in progress
// would otherwise get three: it waits for its EIp, it is being programmed, it works.
type statusHold struct {
	work    *Work
	outcome status.Outcome
	vips    func() map[string]snapshot.VIP // that OVN has now
	now     time.Time
	due     time.Duration // when the shard has to run again for the first held status; 0: none is held
}

// guard is a guard of the plan for statuses.
func (h *statusHold) guard(changes []statusChange, _ intent.Statuses) []statusChange {
	if len(h.outcome.Failed) > 0 {
		return changes // the next run may be long after this one
	}
	ages := h.serviceAges(changes)
	if len(ages) == 0 {
		return changes
	}
	delays, balanced := map[intent.ObjectKey]time.Duration{}, h.balancedServices()
	for _, v := range h.work.Verdicts {
		if age, changes := ages[v.Object]; changes {
			delays[v.Object] = h.delayOf(v, age, balanced[intent.ServiceKey(v.Object.Ref())])
		}
	}
	return slices.DeleteFunc(slices.Clone(changes), func(c statusChange) bool {
		delay := delays[c.Key]
		if delay > 0 && (h.due == 0 || delay < h.due) {
			h.due = delay
		}
		return delay > 0
	})
}

// serviceAges returns the age of each Service whose status changes. One that has a status counts as old.
func (h *statusHold) serviceAges(changes []statusChange) map[intent.ObjectKey]time.Duration {
	out := map[intent.ObjectKey]time.Duration{}
	for _, c := range changes {
		if c.Key.Kind == intent.Service && !c.IsRemoval() {
			out[c.Key] = newServiceHold
		}
	}
	if len(out) == 0 {
		return nil
	}
	hasStatus := map[intent.ObjectKey]bool{}
	for _, c := range changes {
		hasStatus[c.Key] = c.Before != nil
	}
	for _, o := range h.work.statusObjects {
		key, err := kube.KeyOf(o)
		if _, changes := out[key]; err == nil && changes && !hasStatus[key] {
			out[key] = h.now.Sub(o.GetCreationTimestamp().Time)
		}
	}
	return out
}

// balancedServices returns the Services for which OVN has a VIP now, as namespace/name.
func (h *statusHold) balancedServices() map[string]bool {
	out := map[string]bool{}
	for _, v := range h.vips() {
		out[v.Service] = true
	}
	return out
}

// delayOf returns how long the status of a Service is held; 0: it is written.
func (h *statusHold) delayOf(v intent.Verdict, age time.Duration, balanced bool) time.Duration {
	reason := status.ProgrammedReason(v, h.outcome)
	switch {
	case !v.Accepted.OK() || !v.Resolved.OK():
		return 0
	case h.work.wroteRows && balanced && reason == intent.Programming && v.Waiting.Reason == intent.Programming &&
		len(h.outcome.Missing[v.Object.Ref()]) == 0:
		return minRequeueDelay // this run has written its VIP: the next one finds it
	case !slices.Contains([]string{intent.Programming, intent.WaitingForEIp, intent.WaitingForEngine}, reason):
		return 0
	case age < 0: // the clocks differ
		return 0
	default:
		return max(newServiceHold-age, 0)
	}
}
