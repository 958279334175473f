package controller

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/snapshot"
	"github.com/sallyport/sallyport/internal/model/state"
	"github.com/sallyport/sallyport/internal/model/status"
)

// A status that the next one replaces within moments is not written; every other one is.
func TestStatusesOfServicesInProgress(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	waits := intent.Finding{Reason: intent.WaitingForEIp, Message: "EIp front is not ready"}
	programming := intent.Finding{Reason: intent.Programming, Message: "the load balancer is being programmed"}
	waiting, inProgress := intent.Verdict{Waiting: waits}, intent.Verdict{Waiting: programming}
	failed := status.Outcome{Failed: map[state.Ref][]string{{Kind: "EIp"}: {"no"}}}
	missing := status.Outcome{Missing: map[state.Ref][]string{
		{Kind: "Service", Namespace: "acme-web", Name: "www"}: {"VIP"},
	}}
	wrong := intent.Finding{Reason: intent.PortTaken, Message: "the port is taken"}
	written := intent.NewStatus(map[string]any{"conditions": []any{}})
	for name, c := range map[string]struct {
		verdict  intent.Verdict
		age      time.Duration
		before   *intent.Status
		balanced bool
		wrote    bool
		outcome  status.Outcome
		due      time.Duration // 0: the status is written
	}{
		"new, waits for its EIp":               {verdict: waiting, age: 500 * time.Millisecond, due: 1500 * time.Millisecond},
		"older, waits for its EIp":             {verdict: waiting, age: newServiceHold},
		"created in the future":                {verdict: waiting, age: -time.Second},
		"new, with a status":                   {verdict: waiting, before: &written},
		"new and refused":                      {verdict: intent.Verdict{Accepted: wrong, Waiting: waits}},
		"new, with an unresolved reference":    {verdict: intent.Verdict{Resolved: wrong, Waiting: waits}},
		"new, waits for what does not pass":    {verdict: intent.Verdict{Waiting: intent.Finding{Reason: intent.NoWayBack}}},
		"new and programmed":                   {},
		"its VIP was just written":             {verdict: inProgress, age: time.Hour, before: &written, balanced: true, wrote: true, due: minRequeueDelay},
		"another VIP of it was there before":   {verdict: inProgress, age: time.Hour, before: &written, balanced: true},
		"one of its VIPs could not be written": {verdict: inProgress, age: time.Hour, before: &written, balanced: true, wrote: true, outcome: missing},
		"its VIP is not there":                 {verdict: inProgress, age: time.Hour, before: &written, wrote: true},
		"its VIP is not there, new":            {verdict: inProgress, age: time.Second, wrote: true, due: time.Second},
		"something of the shard was not saved": {verdict: waiting, outcome: failed},
	} {
		key := intent.ObjectKey{Kind: intent.Service, Namespace: "acme-web", Name: "www"}
		other := intent.ObjectKey{Kind: intent.EIp, Namespace: "acme-web", Name: "front"}
		c.verdict.Object = key
		o := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name, CreationTimestamp: metav1.NewTime(now.Add(-c.age)),
		}}
		hold := &statusHold{
			work: &Work{Verdicts: []intent.Verdict{c.verdict, {Object: other, Waiting: waits}}, statusObjects: []client.Object{o}, wroteRows: c.wrote},
			now:  now, outcome: c.outcome,
			vips: func() map[string]snapshot.VIP {
				if c.balanced {
					return map[string]snapshot.VIP{"tcp 192.0.2.1:80": {Service: "acme-web/www"}}
				}
				return map[string]snapshot.VIP{"tcp 192.0.2.1:80": {Service: "acme-web/another"}}
			},
		}
		changes := []statusChange{{Key: other, After: &written}, {Key: key, Before: c.before, After: &written}}
		left := hold.guard(changes, nil)
		if got := len(left) == 1; got != (c.due > 0) || hold.due != c.due {
			t.Errorf("%s: held %t, due after %s; want %s", name, got, hold.due, c.due)
		}
		if !slices.ContainsFunc(left, func(s statusChange) bool { return s.Key == other }) {
			t.Errorf("%s: the status of an EIp is held back", name)
		}
	}
}
