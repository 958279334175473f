package collector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/sallyport/sallyport/internal/controller"
	"github.com/sallyport/sallyport/internal/engine/ovn"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/shard"
)

// openShardsTimeout limits the time to fill the caches that shards need. settleDelay is the time after which a
// difference that the controller is fixing should be gone.
const (
	openShardsTimeout = 20 * time.Second
	settleDelay       = time.Second
)

func (s Scope) compilesShards() bool { return s.AllShards || len(s.Shards) > 0 }

// CollectShards compiles shards and compares them with the cluster.
func (o *Collector) CollectShards(ctx context.Context, scope Scope) ([]clusterstate.Shard, error) {
	look, err := o.openShards(ctx)
	if err != nil {
		return nil, err
	}
	names := scope.Shards
	if scope.AllShards {
		if names, err = look.Cluster.ListShards(ctx); err != nil {
			return nil, err
		}
	}
	var out []clusterstate.Shard
	for _, name := range names {
		out = append(out, compareShard(ctx, look, name))
	}
	recheckShards(ctx, look, out)
	return clusterstate.EscapeControlChars(out), nil
}

// compareShard compiles a shard and compares it with the cluster.
func compareShard(ctx context.Context, look *controller.Reconciler, name string) clusterstate.Shard {
	work, err := look.PrepareShard(ctx, shard.Named(name))
	if err != nil {
		return clusterstate.Shard{Name: name, Problem: joinLines(err)}
	}
	return clusterstate.NewShard(name, work.Plans(), work.Verdicts)
}

// recheckShards compares shards with differences a second time. While the controller is working, there are always
// differences for some milliseconds. Only those that persist are reported.
func recheckShards(ctx context.Context, look *controller.Reconciler, shards []clusterstate.Shard) {
	if !slices.ContainsFunc(shards, clusterstate.Shard.HasPendingChanges) {
		return
	}
	select {
	case <-ctx.Done():
		return
	case <-time.After(settleDelay):
	}
	for i, s := range shards {
		if s.HasPendingChanges() {
			shards[i] = compareShard(ctx, look, s.Name).KeepPersistent(s)
		}
	}
}

// openShards starts the caches that shards need, unless they are running.
func (o *Collector) openShards(ctx context.Context) (*controller.Reconciler, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.shards != nil {
		return o.shards, nil
	}
	// Without this check, an unreachable database would be retried until the timeout.
	if err := ovn.CheckReachable(ctx, o.config.Controller.Northbound); err != nil {
		return nil, fmt.Errorf("connect to the OVN northbound database: %w", err)
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx)) // the caches outlive the first request
	late := time.AfterFunc(openShardsTimeout, end)
	given := context.AfterFunc(ctx, end)
	look, err := controller.OpenReadOnly(life, o.config.Controller, slog.New(slog.DiscardHandler))
	if err == nil && (!late.Stop() || !given()) {
		look.NB.Close()
		look.SB.Close()
		err = errors.New("timeout while reading the cluster")
	}
	if err != nil {
		end()
		return nil, err
	}
	o.shards, o.cancel = look, end
	return look, nil
}

// findReadError returns the error of a system that could not be read, or nil.
func findReadError(unread []clusterstate.ReadFailure, system string) error {
	for _, u := range unread {
		if u.System == system {
			return fmt.Errorf("the %s cannot be read: %s", system, u.Problem)
		}
	}
	return nil
}

// unknownShards returns the shards of a scope with an error instead of a comparison.
func unknownShards(scope Scope, c *clusterstate.Cluster, why error) []clusterstate.Shard {
	names := slices.Clone(scope.Shards)
	if scope.AllShards {
		for _, p := range c.Projects {
			names = append(names, p.Shard)
		}
	}
	slices.Sort(names)
	var out []clusterstate.Shard
	for _, name := range slices.Compact(names) {
		out = append(out, clusterstate.Shard{Name: name, Problem: joinLines(why)})
	}
	return out
}
