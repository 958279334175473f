package runner

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"
)

// Shards that ran long ago must not use memory for ever: tenants create and delete projects.
func TestOldRunsAreForgotten(t *testing.T) {
	r := New(func(context.Context, string) (Result, error) {
		return Result{}, nil
	}, func(string, time.Duration, error) {},
		slog.New(slog.DiscardHandler))
	now := time.Now()
	for i := range 10 * minForgetAt {
		r.acquireWorker(fmt.Sprint("shard-", i), now.Add(time.Duration(i)*time.Second))
		r.setCooldown(fmt.Sprint("shard-", i), 1)
	}
	if len(r.startedAt) > minForgetAt || len(r.cooldowns) > 0 {
		t.Errorf("%d start times and %d cooldowns are kept", len(r.startedAt), len(r.cooldowns))
	}
}
