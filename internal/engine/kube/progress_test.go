package kube

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Kube-OVN processes objects in order. An object that waits while Kube-OVN is working is not stuck, however long it
// waits. An object that was passed over is stuck, and so is one that waits while Kube-OVN does nothing.
func TestWhatKubeOVNHasOverlooked(t *testing.T) {
	start := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	eip := func(made int, ready bool) *OvnEip {
		o := &OvnEip{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.Time{Time: at(made)}}}
		o.Status.Ready = ready
		return o
	}
	now := start
	p := newProgress(func() time.Time { return now })
	finish := func(made int) { p.recordFinished(eip(made, false), eip(made, true)) }

	waits := eip(10, false)
	for _, step := range []struct {
		what string
		now  int
		do   func()
		want bool
	}{
		{"new", 11, func() {}, false},
		{"others that are older are finished", 100, func() { finish(5) }, false},
		{"a little younger one is finished", 150, func() { finish(15) }, false},
		{"nothing happens for a while", 200, func() {}, false},
		{"one is deleted and not finished", 205, func() { p.recordFinished(eip(100, false), nil) }, false},
		{"nothing happens for long", 215, func() {}, true},
		{"an older one is finished", 216, func() { finish(7) }, false},
		{"a much younger one is finished", 217, func() { finish(30) }, true},
	} {
		now = at(step.now)
		step.do()
		if got := p.isStuck(waits); got != step.want {
			t.Errorf("%s: overlooked is %t", step.what, got)
		}
	}
	if p.isStuck(eip(10, true)) {
		t.Error("one that is ready is overlooked")
	}
	if fip := (&OvnFip{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.Time{Time: at(210)}}}); p.isStuck(fip) {
		t.Error("one of another kind is overlooked")
	}
	if (*progress)(nil).isStuck(waits) {
		t.Error("nobody has watched, and something is overlooked")
	}
}
