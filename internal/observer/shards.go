package observer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/sallyport/sallyport/internal/controller"
	"github.com/sallyport/sallyport/internal/ovn"
	"github.com/sallyport/sallyport/internal/survey"
)

// lookLimit is how long it may take until what shards need is read, and settleTime how long a difference lasts that somebody is putting right.
const (
	lookLimit  = 20 * time.Second
	settleTime = time.Second
)

func (s Scope) compiles() bool { return s.All || len(s.Shards) > 0 }

// Shards compiles shards and compares them with what is there.
func (o *Observer) Shards(ctx context.Context, scope Scope) ([]survey.Shard, error) {
	look, err := o.open(ctx)
	if err != nil {
		return nil, err
	}
	names := scope.Shards
	if scope.All {
		if names, err = look.Cluster.Shards(ctx); err != nil {
			return nil, err
		}
	}
	var out []survey.Shard
	for _, name := range names {
		out = append(out, compare(ctx, look, name))
	}
	lookAgain(ctx, look, out)
	return survey.Visible(out), nil
}

// compare is what a shard needs now.
func compare(ctx context.Context, look *controller.Shards, name string) survey.Shard {
	work, err := look.Prepare(ctx, name)
	if err != nil {
		return survey.Shard{Name: name, Problem: oneLine(err)}
	}
	return survey.NewShard(name, work.Plans(), work.Verdicts)
}

// lookAgain looks a second time at shards that differ. Where the controller is at work, something always does for some milliseconds; only
// what still differs then is worth telling.
func lookAgain(ctx context.Context, look *controller.Shards, shards []survey.Shard) {
	if !slices.ContainsFunc(shards, survey.Shard.Differing) {
		return
	}
	select {
	case <-ctx.Done():
		return
	case <-time.After(settleTime):
	}
	for i, s := range shards {
		if s.Differing() {
			shards[i] = compare(ctx, look, s.Name).Since(s)
		}
	}
}

// open begins to follow what shards need, or goes on with it.
func (o *Observer) open(ctx context.Context) (*controller.Shards, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.look != nil {
		return o.look, nil
	}
	if err := ovn.Reach(ctx, o.config.Controller.Northbound); err != nil { // following would try again and again
		return nil, fmt.Errorf("connect to the OVN northbound database: %w", err)
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx)) // it outlives the one who asked first
	late := time.AfterFunc(lookLimit, end)
	given := context.AfterFunc(ctx, end)
	look, err := controller.Look(life, o.config.Controller, slog.New(slog.DiscardHandler))
	if err == nil && (!late.Stop() || !given()) {
		look.NB.Close()
		look.SB.Close()
		err = errors.New("the time is up")
	}
	if err != nil {
		end()
		return nil, err
	}
	o.look, o.end = look, end
	return look, nil
}

// because is why a system could not be read; nil: it could.
func because(unread []survey.Unread, system string) error {
	for _, u := range unread {
		if u.System == system {
			return fmt.Errorf("the %s can't be read: %s", system, u.Problem)
		}
	}
	return nil
}

// unknown are shards that nothing can be said about.
func unknown(scope Scope, c *survey.Cluster, why error) []survey.Shard {
	names := slices.Clone(scope.Shards)
	if scope.All {
		for _, p := range c.Projects {
			names = append(names, p.Shard)
		}
	}
	slices.Sort(names)
	var out []survey.Shard
	for _, name := range slices.Compact(names) {
		out = append(out, survey.Shard{Name: name, Problem: oneLine(why)})
	}
	return out
}
