package runner_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sallyport/sallyport/internal/controller/runner"
	"github.com/sallyport/sallyport/internal/model/shard"
)

func discardLogger() *slog.Logger { return slog.New(slog.DiscardHandler) }

func ignoreDone(shard.Shard, time.Duration, error) {}

// startRunner starts a runner that stops with the test.
func startRunner(t *testing.T, r *runner.Runner, workers int) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { r.Start(ctx, workers, time.Minute); close(done) }()
	t.Cleanup(func() { stop(); <-done })
}

func TestABurstOfEventsIsOneRun(t *testing.T) {
	var runs atomic.Int32
	ran := make(chan struct{}, 100)
	r := runner.New(func(context.Context, shard.Shard) (runner.Result, error) {
		runs.Add(1)
		ran <- struct{}{}
		return runner.Result{}, nil
	}, ignoreDone, discardLogger())
	for range 1000 {
		r.Enqueue(shard.Named("acme"))
	}
	startRunner(t, r, 4)
	<-ran
	r.Enqueue(shard.Named("acme")) // control: a later event leads to another run
	<-ran
	if n := runs.Load(); n != 2 {
		t.Errorf("%d runs; want one for the burst and one for what came later", n)
	}
}

func TestShardsRunSideBySideAndNeverTwiceAtOnce(t *testing.T) {
	var mu sync.Mutex
	inside := map[shard.Shard]int{}
	both := make(chan struct{})
	r := runner.New(func(_ context.Context, of shard.Shard) (runner.Result, error) {
		mu.Lock()
		inside[of]++
		if inside[of] > 1 {
			t.Errorf("%s runs twice at once", of)
		}
		if inside[shard.Named("a")] == 1 && inside[shard.Named("b")] == 1 {
			close(both)
		}
		mu.Unlock()
		<-both
		mu.Lock()
		inside[of]--
		mu.Unlock()
		return runner.Result{}, nil
	}, ignoreDone, discardLogger())
	r.Enqueue(shard.Named("a"))
	r.Enqueue(shard.Named("b"))
	startRunner(t, r, 4)
	<-both // would block if they ran one after the other
	r.Enqueue(shard.Named("a"))
}

func TestAFailedShardIsTriedAgainAndHoldsUpNobody(t *testing.T) {
	var failures atomic.Int32
	well, cured := make(chan struct{}, 10), make(chan struct{})
	r := runner.New(func(_ context.Context, of shard.Shard) (runner.Result, error) {
		if of.Name == "well" {
			well <- struct{}{}
			return runner.Result{}, nil
		}
		if failures.Add(1) < 3 {
			return runner.Result{}, errors.New("no")
		}
		close(cured)
		return runner.Result{}, nil
	}, ignoreDone, discardLogger())
	startRunner(t, r, 1)
	r.Enqueue(shard.Named("broken"))
	r.Enqueue(shard.Named("well"))
	<-well
	<-cured
}

func TestEndWaitsForWhatRuns(t *testing.T) {
	running, finish := make(chan struct{}), make(chan struct{})
	var cut atomic.Bool
	r := runner.New(func(ctx context.Context, _ shard.Shard) (runner.Result, error) {
		close(running)
		<-finish
		cut.Store(ctx.Err() != nil)
		return runner.Result{}, nil
	}, ignoreDone, discardLogger())
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { r.Start(ctx, 2, time.Minute); close(ended) }()
	r.Enqueue(shard.Named("acme"))
	<-running
	stop()
	select {
	case <-ended:
		t.Fatal("the runner ended while a shard was running")
	case <-time.After(50 * time.Millisecond):
	}
	close(finish)
	<-ended
	if cut.Load() {
		t.Error("the shard was cut off in the middle")
	}
}

func TestAShardThatWaitsIsLookedAtLessOftenUntilSomethingHappens(t *testing.T) {
	const again = 25 * time.Millisecond
	looks := make(chan time.Time, 100)
	r := runner.New(func(context.Context, shard.Shard) (runner.Result, error) {
		looks <- time.Now()
		return runner.Result{RequeueAfter: again}, nil
	}, ignoreDone, discardLogger())
	startRunner(t, r, 1)
	pauses := func(n int) (out []time.Duration) {
		last := <-looks
		for range n {
			next := <-looks
			out, last = append(out, next.Sub(last)), next
		}
		return out
	}
	r.Enqueue(shard.Named("acme"))
	if p := pauses(5); p[4] < 8*again {
		t.Errorf("the pauses are %s; want them to grow to %s", p, 8*again)
	}
	r.Enqueue(shard.Named("acme")) // an event resets the delay
	if p := pauses(2); p[0] > 8*again || p[1] > 8*again {
		t.Errorf("after an event the pauses are %s; want them to be short again", p)
	}
}

func TestALargeShardRestsLonger(t *testing.T) {
	for size, rests := range map[int]bool{0: false, 10000: true} {
		began := make(chan time.Time, 100)
		r := runner.New(func(context.Context, shard.Shard) (runner.Result, error) {
			began <- time.Now()
			return runner.Result{Size: size}, nil
		}, ignoreDone, discardLogger())
		startRunner(t, r, 1)
		r.Enqueue(shard.Named("acme"))
		first := <-began
		for len(began) == 0 { // the size is known after the first run
			r.Enqueue(shard.Named("acme"))
		}
		<-began
		r.Enqueue(shard.Named("acme"))
		third := <-began
		if took := third.Sub(first); (took > 150*time.Millisecond) != rests {
			t.Errorf("a shard of %d ran three times in %v", size, took)
		}
	}
}

// A replica that takes over has every shard in its queue. Shards that changed run first, those that change from then on
// run before the rest, and the rest is not forgotten.
func TestChangedShardsRunFirst(t *testing.T) {
	const shards = 100
	var mu sync.Mutex
	var order []string
	done := make(chan struct{})
	var r *runner.Runner
	r = runner.New(func(_ context.Context, of shard.Shard) (runner.Result, error) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, of.Name)
		switch len(order) {
		case 10:
			r.Enqueue(shard.Named("s7"))  // queued since the beginning
			r.Enqueue(shard.Named("new")) // created after the takeover
		case shards + 1:
			close(done)
		}
		return runner.Result{}, nil
	}, ignoreDone, discardLogger())
	for i := range shards {
		r.Enqueue(shard.Named(fmt.Sprint("s", i)))
	}
	r.Enqueue(shard.Named("s50")) // changed while another replica was leading
	startRunner(t, r, 1)
	<-done
	mu.Lock()
	defer mu.Unlock()
	if order[0] != "s50" || !slices.Contains(order[10:13], "s7") || !slices.Contains(order[10:13], "new") {
		t.Errorf("the shards ran in the order %v", order)
	}
	if slices.Sort(order); len(slices.Compact(order)) != shards+1 {
		t.Errorf("%d of %d shards ran", len(slices.Compact(order)), shards+1)
	}
}

// Constant changes of some shards do not keep those from running that did not change.
func TestTheBacklogRunsBesideChanges(t *testing.T) {
	backlog, done := 0, make(chan struct{})
	var r *runner.Runner
	r = runner.New(func(_ context.Context, of shard.Shard) (runner.Result, error) {
		if strings.HasPrefix(of.Name, "busy") {
			r.Enqueue(shard.Named(of.Name + "x")) // there is always one that is changed
		} else if backlog++; backlog == 20 {
			close(done)
		}
		return runner.Result{}, nil
	}, ignoreDone, discardLogger())
	for i := range 20 {
		r.Enqueue(shard.Named(fmt.Sprint("s", i)))
	}
	r.Enqueue(shard.Named("busy"))
	startRunner(t, r, 1)
	<-done // would block
}

// A change of the largest shard waits at most a second, and a change after a second of quiet does not wait.
func TestTheLargestShardRestsASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := make(chan time.Time, 10)
		r := runner.New(func(context.Context, shard.Shard) (runner.Result, error) {
			began <- time.Now()
			return runner.Result{Size: 1_000_000}, nil
		}, ignoreDone, discardLogger())
		startRunner(t, r, 1)
		r.Enqueue(shard.Named("acme"))
		first := <-began
		synctest.Wait() // the size is known after the first run
		r.Enqueue(shard.Named("acme"))
		second := <-began
		if rested := second.Sub(first); rested != time.Second {
			t.Errorf("the shard ran again after %v", rested)
		}
		<-time.After(time.Second)
		asked := time.Now()
		r.Enqueue(shard.Named("acme"))
		if waited := (<-began).Sub(asked); waited > 0 {
			t.Errorf("a change after a quiet second waited for %v", waited)
		}
	})
}

// Slow shards, of which one tenant may have many, leave workers for others, and a run that does not return is
// cancelled.
func TestSlowShardsLeaveWorkersForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const workers = 4
		var running, most, cut atomic.Int32
		quick := make(chan time.Time, 1)
		r := runner.New(func(ctx context.Context, of shard.Shard) (runner.Result, error) {
			if of.Name == "victim" {
				quick <- time.Now()
				return runner.Result{}, nil
			}
			n := running.Add(1)
			defer running.Add(-1)
			if most.Load() < n {
				most.Store(n)
			}
			<-ctx.Done() // never returns by itself
			cut.Add(1)
			return runner.Result{}, ctx.Err()
		}, ignoreDone, discardLogger())
		ctx, stop := context.WithCancel(t.Context())
		go r.Start(ctx, workers, 0)
		for i := range 10 {
			r.Enqueue(shard.Named(fmt.Sprint("evil", i)))
		}
		<-time.After(6 * time.Minute) // first runs: nothing is known to be slow yet
		if cut.Load() == 0 {
			t.Error("a run without an end was not ended")
		}
		<-time.After(15 * time.Minute) // now all are known to be slow
		synctest.Wait()
		if n := running.Load(); n != workers/2 {
			t.Errorf("%d slow shards run", n)
		}
		asked := time.Now()
		r.Enqueue(shard.Named("victim"))
		if waited := (<-quick).Sub(asked); waited > time.Second {
			t.Errorf("another shard waited for %v", waited)
		}
		stop()
		<-time.After(10 * time.Minute)
	})
}

// Light runs may follow each other without a pause, but not more often on average than others.
func TestLightRunsMayComeInBursts(t *testing.T) {
	for name, c := range map[string]struct {
		light        bool
		first, later int // runs in the first 20 ms, and in the second after the first 100 ms
	}{
		"whole": {false, 1, 50},
		"light": {true, 3, 50},
	} {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			var runs []time.Duration
			begin := time.Now()
			r := runner.New(func(context.Context, shard.Shard) (runner.Result, error) {
				mu.Lock()
				defer mu.Unlock()
				runs = append(runs, time.Since(begin))
				return runner.Result{Light: c.light}, nil
			}, ignoreDone, discardLogger())
			startRunner(t, r, 1)
			for time.Since(begin) < 1200*time.Millisecond {
				r.Enqueue(shard.Named("acme"))
				<-time.After(7 * time.Millisecond)
			}
			mu.Lock()
			defer mu.Unlock()
			first, later := 0, 0
			for _, at := range runs {
				switch {
				case at < 20*time.Millisecond:
					first++
				case at >= 100*time.Millisecond && at < 1100*time.Millisecond:
					later++
				}
			}
			if first != c.first || later < c.later-10 || later > c.later+10 {
				t.Errorf("%s runs: %d in the first 20 ms, want %d; then %d in a second, want about %d", name, first, c.first, later,
					c.later)
			}
		})
	}
}
