package runner

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/model/shard"
)

// Shards that ran long ago must not use memory for ever: tenants create and delete projects.
func TestOldRunsAreForgotten(t *testing.T) {
	r := New(func(context.Context, shard.Shard) (Result, error) {
		return Result{}, nil
	}, func(shard.Shard, time.Duration, error) {},
		slog.New(slog.DiscardHandler))
	now := time.Now()
	for i := range 10 * minForgetAt {
		r.acquireWorker(shard.Named(fmt.Sprint("shard-", i)), now.Add(time.Duration(i)*time.Second))
		r.setCooldown(shard.Named(fmt.Sprint("shard-", i)), 1)
	}
	if len(r.startedAt) > minForgetAt || len(r.cooldowns) > 0 {
		t.Errorf("%d start times and %d cooldowns are kept", len(r.startedAt), len(r.cooldowns))
	}
}
