package controller

import (
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// A router without its Vpc is forgotten when Kube-OVN has had its time. One whose Vpc is there again is not.
func TestForgottenRouters(t *testing.T) {
	var orphans orphanedRouters
	start := time.Now()
	for _, test := range []struct {
		what                string
		after               time.Duration
		orphaned, forgotten bool
	}{
		{"the Vpc is gone", 0, true, false},
		{"it has been gone for a moment", orphanGracePeriod / 2, true, false},
		{"it has been gone for long", 2 * orphanGracePeriod, true, true},
		{"it is there again", 2 * orphanGracePeriod, false, false},
		{"it is gone again", 3 * orphanGracePeriod, true, false},
	} {
		w := &snapshot.VpcInput{Shard: "acme", Now: start.Add(test.after)}
		w.Engine.OrphanedSince = orphans.note("acme", test.orphaned, w.Now)
		if isRouterForgotten(w) != test.forgotten {
			t.Errorf("%s: forgotten is %t", test.what, !test.forgotten)
		}
	}
}
