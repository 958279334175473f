package controller

import (
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/compile"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// newEgressWork returns the work of a run of one EgressIP that leaves nothing to do.
func newEgressWork(now time.Time) *Work {
	w := &snapshot.EgressInput{EgressIPs: []snapshot.EgressIP{{Meta: snapshot.Meta{Name: "a"}}}}
	_, verdicts, memo := compile.EgressWithMemo(w)
	return &Work{Verdicts: verdicts, egressMemo: storedEgressMemo{memo: memo, settledAt: now}}
}

// The memo of the egress addresses is kept by a run that leaves nothing to do, and by no other.
func TestEgressMemoIsKeptAtRest(t *testing.T) {
	now := time.Unix(1000, 0)
	for name, test := range map[string]struct {
		change func(*Work)
		kept   bool
	}{
		"at rest":             {func(*Work) {}, true},
		"an address moves":    {func(w *Work) { w.unsettled = true }, false},
		"objects are written": {func(w *Work) { w.wroteObjects = true }, false},
		"there is none":       {func(w *Work) { w.egressMemo = storedEgressMemo{} }, false},
		"something waits": {func(w *Work) {
			w.Verdicts[0].Waiting = intent.Finding{Reason: intent.Programming}
		}, true},
	} {
		s := &Reconciler{Clock: func() time.Time { return now }}
		work := newEgressWork(now)
		test.change(work)
		if ok := s.keepEgressMemo(work); !ok || s.egress.memo.isUsable(now) != test.kept {
			t.Errorf("%s: kept is %t", name, s.egress.memo.isUsable(now))
		}
		if s.egress.memo.isWaiting != work.isWaiting() {
			t.Errorf("%s: the next update would not be followed by a run of all", name)
		}
	}
}

// A memo is used for ten minutes at most, and not after the time at which all have to be compiled again.
func TestEgressMemoExpires(t *testing.T) {
	now := time.Unix(1000, 0)
	stored := newEgressWork(now).egressMemo
	due := stored
	due.dueAt = now.Add(time.Minute)
	for name, test := range map[string]struct {
		memo   storedEgressMemo
		after  time.Duration
		usable bool
	}{
		"new":     {stored, 0, true},
		"old":     {stored, maxMemoAge, false},
		"not due": {due, 59 * time.Second, true},
		"due":     {due, time.Minute, false},
		"none":    {storedEgressMemo{}, 0, false},
	} {
		if got := test.memo.isUsable(now.Add(test.after)); got != test.usable {
			t.Errorf("%s: usable is %t", name, got)
		}
	}
}

// A memo that turns out to be wrong is dropped, and the shard runs again.
func TestWrongEgressMemoIsDropped(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, wrong := range []bool{false, true} {
		s := &Reconciler{
			Clock: func() time.Time { return now }, Metrics: newControllerMetrics(), Logger: slog.New(slog.DiscardHandler),
		}
		w := &snapshot.EgressInput{EgressIPs: []snapshot.EgressIP{{Meta: snapshot.Meta{Name: "a"}}}}
		_, verdicts, memo := compile.EgressWithMemo(w)
		work := &Work{Verdicts: verdicts, egressMemo: storedEgressMemo{memo: memo, settledAt: now}}
		if !s.keepEgressMemo(work) {
			t.Fatal("there is no memo")
		}
		if wrong { // somebody has changed the snapshot
			w.Nodes = []snapshot.Node{{Name: "n", Addresses: []netip.Addr{netip.MustParseAddr("198.51.100.7")}}}
			w.EgressIPs[0].Addresses = []string{"198.51.100.7"}
		}
		work.isPartial = true
		s.egress.memo = storedEgressMemo{}
		if ok := s.keepEgressMemo(work); ok == wrong || s.egress.memo.isUsable(now) == wrong {
			t.Errorf("wrong is %t, kept is %t", wrong, ok)
		}
	}
}
