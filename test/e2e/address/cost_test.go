package address

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// TestCore7ChangeCostsTheSameAtAnySize measures the cost of creating and keeping a thousand projects, and checks that a
// change in one of them costs as much as with ten projects.
func TestCore7ChangeCostsTheSameAtAnySize(t *testing.T) {
	harness.RunAlone(t)
	item := coreItems.Item(t, 7)
	f := harness.NewScaleFixture(t)
	few, many := show.ChooseSize(10, 5), show.ChooseSize(1000, 25)
	f.GrowTo(t, few)
	small := measureChange(t, f)
	reportGrowth(item, f, f.GrowTo(t, many))
	measureSteady(t, f, item)
	big := measureChange(t, f)
	compareChangeCost(t, item, small, big)
	f.MeasureRestart(t, item)
}

// reportGrowth reports the cost of creating projects.
func reportGrowth(item *show.Item, f *harness.ScaleFixture, g harness.Growth) {
	objects := float64(g.Projects * 5)
	var statuses, finalizers, transactions float64
	for name, n := range g.Counters {
		switch {
		case strings.Contains(name, "/status"):
			statuses += n
		case strings.Contains(name, `verb="patch"`) && !strings.Contains(name, `"Vpc"`):
			finalizers += n
		case strings.HasPrefix(name, "sallyport_northbound_transactions_total"):
			transactions += n
		}
	}
	all := harness.SumWrites(g.Counters)
	item.AddFigure("%d projects with 2 EIps and 2 FIps each in force after %.0f s (%d → %d: %.2f a second); the controller: %d MiB, at most %d MiB",
		f.Size, g.Took.Seconds(), f.Size-g.Projects, f.Size, float64(g.Projects)/g.Took.Seconds(), g.Memory,
		g.MemoryPeak)
	item.AddFigure("writes for each of %.0f objects: %.1f (%.1f statuses, %.1f finalizers, %.1f Kube-OVN objects and lists, %.1f OVN transactions); "+
		"for each project %.1f runs, %.0f ms of the controller's CPU", objects, all/objects, statuses/objects,
		finalizers/objects,
		(all-statuses-finalizers-transactions)/objects, transactions/objects,
		harness.SumShardRuns(g.Counters)/float64(g.Projects), harness.Milliseconds(g.CPU)/float64(g.Projects))
}

// measureSteady checks that nothing is written while nothing changes.
func measureSteady(t *testing.T, f *harness.ScaleFixture, item *show.Item) {
	t.Helper()
	f.WaitIdle(t)
	period := show.ChooseSize(time.Minute, 3*time.Second)
	before, cpu := f.Controller.ReadMetrics(t), f.Controller.CPUTime(t)
	<-harness.Within(t, period).Done()
	spent := harness.CounterIncreases(before, f.Controller.ReadMetrics(t))
	if n := harness.SumWrites(spent); n > 0 {
		t.Errorf("%.0f writes in %s in which nothing happened: %v", n, period, spent)
	}
	item.AddFigure("steady for %s: %.0f writes, %.0f runs, %.1f %% of a core", period, harness.SumWrites(spent),
		harness.SumShardRuns(spent), 100*(f.Controller.CPUTime(t)-cpu).Seconds()/period.Seconds())
}

// compareChangeCost compares the cost of a change in a small and in a large cluster.
func compareChangeCost(t *testing.T, item *show.Item, small, big changeCost) {
	t.Helper()
	ratio := func(a, b float64) float64 { return b / a }
	writes, cpu := ratio(small.writes, big.writes),
		ratio(harness.Milliseconds(small.cpu), harness.Milliseconds(big.cpu))
	item.AddFigure("a change at %d and at %d projects: writes %.2f and %.2f (ratio %.2f), runs %.2f and %.2f (%.2f), CPU of the controller %.1f and %.1f ms (%.2f)",
		small.projects, big.projects, small.writes, big.writes, writes, small.runs, big.runs,
		ratio(small.runs, big.runs), harness.Milliseconds(small.cpu), harness.Milliseconds(big.cpu), cpu)
	item.AddFigure("in force after (median): FIp with a new EIp %.0f and %.0f ms, by hand with Kube-OVN alone %.0f and %.0f ms; FIp to another address %.0f and %.0f ms",
		harness.Milliseconds(small.created), harness.Milliseconds(big.created),
		harness.Milliseconds(small.byHand), harness.Milliseconds(big.byHand),
		harness.Milliseconds(small.retargeted), harness.Milliseconds(big.retargeted))
	if writes > 1.2 {
		t.Errorf("a change costs %.2f writes at %d projects and %.2f at %d", small.writes, small.projects, big.writes,
			big.projects)
	}
	if cpu > 2 {
		t.Errorf("a change costs %.1f ms of CPU at %d projects and %.1f ms at %d", harness.Milliseconds(small.cpu),
			small.projects, harness.Milliseconds(big.cpu), big.projects)
	}
}

// changeCost is the cost of one change.
type changeCost struct {
	projects                    int
	writes, runs                float64
	cpu                         time.Duration
	created, retargeted, byHand time.Duration // median time until Programmed
}

// measureChange changes projects one after the other: it creates an EIp and a FIp, changes the target of the FIp, and
// deletes both.
func measureChange(t *testing.T, f *harness.ScaleFixture) changeCost {
	t.Helper()
	const changes = 5
	rounds := show.ChooseSize(30, 5)
	var made, repointed, byHand []time.Duration
	f.WaitIdle(t)
	before, cpu := f.Controller.ReadMetrics(t), f.Controller.CPUTime(t)
	for i := range rounds {
		made = append(made, f.CreateProbeFIP(t, i))
		repointed = append(repointed, retargetFIP(t, f, i))
		f.DeleteProbeFIP(t, i)
	}
	f.WaitIdle(t)
	spent, total := harness.CounterIncreases(before, f.Controller.ReadMetrics(t)), float64(rounds*changes)
	p := changeCost{
		projects: f.Size, writes: harness.SumWrites(spent) / total, runs: harness.SumShardRuns(spent) / total,
		cpu:     (f.Controller.CPUTime(t) - cpu) / time.Duration(rounds*changes),
		created: harness.MedianDuration(made), retargeted: harness.MedianDuration(repointed),
	}
	for i := range rounds {
		byHand = append(byHand, measureKubeOVNChange(t, f, i))
	}
	p.byHand = harness.MedianDuration(byHand)
	t.Logf("a change at %d projects: %s", f.Size, fmt.Sprintf("%+v", p))
	return p
}
