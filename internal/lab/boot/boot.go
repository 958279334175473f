// Package boot is a set of steps that wait for one another: run side by side as far as they can, timed, and reported.
package boot

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// Step is one thing to do, once the steps it names are done.
type Step struct {
	Name  string
	After []string
	Run   func(context.Context) error
}

// Timing is when a step began and ended, counted from the start of all.
type Timing struct {
	Name  string        `json:"name"`
	Begin time.Duration `json:"begin"`
	End   time.Duration `json:"end"`
}

// Run runs the steps and calls report as each one ends. The first failure stops the rest.
func Run(caller context.Context, steps []Step, report func(Timing)) error {
	done := make(map[string]chan struct{}, len(steps))
	for _, s := range steps {
		done[s.Name] = make(chan struct{})
	}
	for _, s := range steps {
		for _, name := range s.After {
			if done[name] == nil {
				return fmt.Errorf("step %s waits for %s, which is no step", s.Name, name)
			}
		}
	}
	var mu sync.Mutex
	start := time.Now()
	group, ctx := errgroup.WithContext(caller)
	for _, s := range steps {
		group.Go(func() error {
			if !waitAll(ctx, s.After, done) {
				return nil // what stopped the others is the error, not that this one never began
			}
			begin := time.Since(start)
			if err := s.Run(ctx); err != nil {
				return fmt.Errorf("%s: %w", s.Name, err)
			}
			mu.Lock()
			defer mu.Unlock()
			report(Timing{Name: s.Name, Begin: begin, End: time.Since(start)})
			close(done[s.Name])
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return context.Cause(caller)
}

// waitAll waits for steps to be done; it is false when there is nothing left to wait for.
func waitAll(ctx context.Context, names []string, done map[string]chan struct{}) bool {
	for _, name := range names {
		select {
		case <-done[name]:
		case <-ctx.Done():
			return false
		}
	}
	return true
}
