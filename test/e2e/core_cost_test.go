package e2e

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sallyport/sallyport/test/show"
)

// readyLimit is how long a controller that is started may take until it has run every shard.
const readyLimit = 30 * time.Second

// A thousand projects: what they cost to make and to keep, and that a change in one of them costs what it costs when there
// are ten.
func TestCore7ChangeCostsTheSameAtAnySize(t *testing.T) {
	item := core.Item(t, 7)
	f := newFleet(t)
	few, many := show.Size(10, 5), show.Size(1000, 25)
	f.grow(t, few)
	small := f.price(t)
	converged(item, f, f.grow(t, many))
	f.steady(t, item)
	big := f.price(t)
	compare(t, item, small, big)
	f.restart(t, item)
}

// converged shows what it cost to make projects.
func converged(item *show.Item, f *fleet, g growth) {
	objects := float64(g.projects * 5)
	var statuses, finalizers, transactions float64
	for name, n := range g.counters {
		switch {
		case strings.Contains(name, "/status"):
			statuses += n
		case strings.Contains(name, `verb="patch"`) && !strings.Contains(name, `"Vpc"`):
			finalizers += n
		case strings.HasPrefix(name, "sallyport_northbound_transactions_total"):
			transactions += n
		}
	}
	all := written(g.counters)
	item.Figure("%d projects with 2 EIps and 2 FIps each in force after %.0f s (%d → %d: %.2f a second); the controller: %d MiB, at most %d MiB",
		f.size, g.took.Seconds(), f.size-g.projects, f.size, float64(g.projects)/g.took.Seconds(), g.memory, g.memoryMost)
	item.Figure("writes for each of %.0f objects: %.1f (%.1f statuses, %.1f finalizers, %.1f Kube-OVN objects and lists, %.1f OVN transactions); "+
		"for each project %.1f runs, %.0f ms of the controller's CPU", objects, all/objects, statuses/objects, finalizers/objects,
		(all-statuses-finalizers-transactions)/objects, transactions/objects, runs(g.counters)/float64(g.projects), ms(g.cpu)/float64(g.projects))
}

// steady shows that nothing is written while nothing happens.
func (f *fleet) steady(t *testing.T, item *show.Item) {
	t.Helper()
	f.quiet(t)
	period := show.Size(time.Minute, 3*time.Second)
	before, cpu := f.ctl.counters(t), f.ctl.cpu(t)
	<-within(t, period).Done()
	spent := grown(before, f.ctl.counters(t))
	if n := written(spent); n > 0 {
		t.Errorf("%.0f writes in %s in which nothing happened: %v", n, period, spent)
	}
	item.Figure("steady for %s: %.0f writes, %.0f runs, %.1f %% of a core", period, written(spent), runs(spent), 100*(f.ctl.cpu(t)-cpu).Seconds()/period.Seconds())
}

// compare shows what a change costs in a small and in a big cluster.
func compare(t *testing.T, item *show.Item, small, big price) {
	t.Helper()
	ratio := func(a, b float64) float64 { return b / a }
	writes, cpu := ratio(small.writes, big.writes), ratio(ms(small.cpu), ms(big.cpu))
	item.Figure("a change at %d and at %d projects: writes %.2f and %.2f (ratio %.2f), runs %.2f and %.2f (%.2f), CPU of the controller %.1f and %.1f ms (%.2f)",
		small.projects, big.projects, small.writes, big.writes, writes, small.runs, big.runs, ratio(small.runs, big.runs), ms(small.cpu), ms(big.cpu), cpu)
	item.Figure("in force after (median): FIp with a new EIp %.0f and %.0f ms, by hand with Kube-OVN alone %.0f and %.0f ms; FIp to another address %.0f and %.0f ms",
		ms(small.made), ms(big.made), ms(small.byHand), ms(big.byHand), ms(small.repointed), ms(big.repointed))
	if writes > 1.2 {
		t.Errorf("a change costs %.2f writes at %d projects and %.2f at %d", small.writes, small.projects, big.writes, big.projects)
	}
	if cpu > 2 {
		t.Errorf("a change costs %.1f ms of CPU at %d projects and %.1f ms at %d", ms(small.cpu), small.projects, ms(big.cpu), big.projects)
	}
}

// restart shows that a controller which is started writes nothing when all is as it should be, and is ready soon.
func (f *fleet) restart(t *testing.T, item *show.Item) {
	t.Helper()
	f.quiet(t)
	f.ctl.stop(syscall.SIGTERM)
	begin := time.Now()
	f.calm = false
	f.ctl.start(t)
	f.await(t, 2*time.Minute, func(now map[string]float64) bool {
		return now["sallyport_shards_waiting"] == 0 && runs(now) >= float64(f.size)
	})
	ready, cpu := time.Since(begin), f.ctl.cpu(t)
	f.quiet(t)
	now, most := f.ctl.memory(t)
	if n := f.ctl.writes(t); n > 0 {
		t.Errorf("%.0f writes after a restart at which nothing had changed: %v", n, f.ctl.counters(t))
	}
	if ready > readyLimit {
		t.Errorf("a restarted controller is ready after %s; wanted %s", ready, readyLimit)
	}
	f.make(t, 0) // control: it does write when there is something to write
	if n := f.ctl.writes(t); n == 0 {
		t.Error("a new FIp is in force and the restarted controller has counted no write")
	}
	f.unmake(t, 0)
	item.Figure("restart at %d projects: every shard run after %.1f s (%.1f s of CPU), 0 writes; %d MiB, at most %d MiB",
		f.size, ready.Seconds(), cpu.Seconds(), now, most)
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

// runs is how many runs of shards are counted.
func runs(counters map[string]float64) (total float64) {
	for name, n := range counters {
		if strings.HasPrefix(name, "sallyport_shard_runs_total") {
			total += n
		}
	}
	return total
}

// grown is how much counters have grown.
func grown(before, after map[string]float64) map[string]float64 {
	out := map[string]float64{}
	for name, n := range after {
		if n != before[name] && strings.HasPrefix(name, "sallyport_") && strings.Contains(name, "_total") {
			out[name] = n - before[name]
		}
	}
	return out
}

// price is what one change costs.
type price struct {
	projects                int
	writes, runs            float64
	cpu                     time.Duration
	made, repointed, byHand time.Duration // until it is in force, median
}

// price changes projects one after the other: an EIp and a FIp come, the FIp goes to another address, both go again.
func (f *fleet) price(t *testing.T) price {
	t.Helper()
	const changes = 5
	rounds := show.Size(30, 5)
	var made, repointed, byHand []time.Duration
	f.quiet(t)
	before, cpu := f.ctl.counters(t), f.ctl.cpu(t)
	for i := range rounds {
		made = append(made, f.make(t, i))
		repointed = append(repointed, f.repoint(t, i))
		f.unmake(t, i)
	}
	f.quiet(t)
	spent, total := grown(before, f.ctl.counters(t)), float64(rounds*changes)
	p := price{
		projects: f.size, writes: written(spent) / total, runs: runs(spent) / total, cpu: (f.ctl.cpu(t) - cpu) / time.Duration(rounds*changes),
		made: median(made), repointed: median(repointed),
	}
	for i := range rounds {
		byHand = append(byHand, f.byHand(t, i))
	}
	p.byHand = median(byHand)
	t.Logf("a change at %d projects: %s", f.size, fmt.Sprintf("%+v", p))
	return p
}
