package scale

import (
	"syscall"
	"testing"
	"time"

	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// How long a standby may take until it leads, and how much longer a change may take then than in steady state.
var (
	maxTakeover      = harness.TimeLimit(5 * time.Second)
	maxTakeoverDelay = harness.TimeLimit(time.Second)
)

// TestScale6Takeover kills the leader of two controllers of a simulated cluster and makes a change as soon as the other
// leads. Every shard is in its queue then.
func TestScale6Takeover(t *testing.T) {
	harness.RunQuietly(t)
	item := scaleItems.Item(t, 6)
	f := &simulation{projects: show.ChooseSize(1000, 10), services: show.ChooseSize(10, 4), pods: 4, nodes: 10}
	made := f.create(t, "--leader-elect=true")
	f.startController(t)
	f.WaitIdle(t)
	standby := f.NewController(t, t.TempDir(), "--leader-elect=true")
	standby.StartForTest(t)
	harness.Eventually(t, "the standby answers", func() bool {
		now, err := standby.ScrapeMetrics(harness.Within(t, time.Second))
		return err == nil && now["sallyport_leading"] == 0 && now["sallyport_shards_waiting"] >= float64(f.Size)
	})
	steady := f.CreateProbeFIP(t, 0)
	f.DeleteProbeFIP(t, 0)
	f.WaitIdle(t)

	f.Controller.Stop(syscall.SIGKILL)
	taken := harness.Eventually(t, "the standby leads", func() bool {
		now, err := standby.ScrapeMetrics(harness.Within(t, time.Second))
		return err == nil && now["sallyport_leading"] == 1
	})
	change := f.CreateProbeFIP(t, 1)
	item.AddFigure("%d projects with %d Services each (%s), the leader is killed: the standby leads after %.1f s; a new "+
		"address with its FIp is in force %.2f s later, in steady state after %.2f s", f.Size, f.services, made, taken.Seconds(), change.Seconds(), steady.Seconds())
	if taken > maxTakeover {
		t.Errorf("the standby leads after %s, wanted %s", taken, maxTakeover)
	}
	if change > steady+maxTakeoverDelay {
		t.Errorf("a change after the takeover takes %s, in steady state %s", change, steady)
	}
}
