package runner_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sallyport/sallyport/internal/controller/runner"
	"github.com/sallyport/sallyport/internal/model/shard"
)

// A run that waits does not occupy its worker. Control: without Park, it does.
func TestAParkedRunOccupiesNoWorker(t *testing.T) {
	for title, park := range map[string]bool{"parked": true, "control: not parked": false} {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var waits time.Duration
				begun := time.Now()
				r := runner.New(func(ctx context.Context, of shard.Shard) (runner.Result, error) {
					if of.Name == "other" {
						waits = time.Since(begun)
						return runner.Result{}, nil
					}
					if park {
						defer runner.Park(ctx)()
					}
					<-time.After(time.Minute)
					return runner.Result{}, nil
				}, ignoreDone, discardLogger())
				ctx, stop := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() { r.Start(ctx, 2, time.Minute); close(done) }()
				r.Enqueue(shard.Named("a"))
				r.Enqueue(shard.Named("b"))
				<-time.After(time.Second)
				r.Enqueue(shard.Named("other"))
				<-time.After(2 * time.Minute)
				stop()
				<-done
				if at := waits < 2*time.Second; at != park {
					t.Errorf("another shard runs after %s", waits)
				}
			})
		})
	}
}

// After parked runs there are as many workers as before.
func TestParkKeepsTheNumberOfWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most atomic.Int32
		var parked sync.Map
		r := runner.New(func(ctx context.Context, of shard.Shard) (runner.Result, error) {
			if _, again := parked.LoadOrStore(of, true); !again {
				resume := runner.Park(ctx)
				<-time.After(time.Second)
				resume()
				return runner.Result{}, nil
			}
			most.Store(max(most.Load(), running.Add(1)))
			<-time.After(time.Second)
			running.Add(-1)
			return runner.Result{}, nil
		}, ignoreDone, discardLogger())
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { r.Start(ctx, 1, time.Minute); close(done) }()
		for range 2 {
			for _, name := range []string{"a", "b", "c"} {
				r.Enqueue(shard.Named(name))
			}
			<-time.After(10 * time.Second)
		}
		stop()
		<-done
		if n := most.Load(); n != 1 {
			t.Errorf("%d runs at once with one worker", n)
		}
	})
}
