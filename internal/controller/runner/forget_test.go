package runner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/model/shard"
)

// Operators search logs for the name of a project.
func TestFailureIsLoggedWithTheName(t *testing.T) {
	var log bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	r := New(func(context.Context, shard.Shard) (Result, error) { return Result{}, errors.New("no") },
		func(shard.Shard, time.Duration, error) { cancel() }, slog.New(slog.NewJSONHandler(&log, nil)))
	r.Enqueue(shard.Named("acme-web"))
	r.Start(ctx, 1, time.Minute)
	if !strings.Contains(log.String(), `"shard":"acme-web"`) {
		t.Errorf("the log is %s", &log)
	}
}

// Shards that ran long ago must not use memory for ever: tenants create and delete projects.
func TestOldRunsAreForgotten(t *testing.T) {
	r := New(func(context.Context, shard.Shard) (Result, error) {
		return Result{}, nil
	}, func(shard.Shard, time.Duration, error) {},
		slog.New(slog.DiscardHandler))
	now := time.Now()
	for i := range 10 * minForgetAt {
		r.acquireWorker(shard.Named(fmt.Sprint("shard-", i)), now.Add(time.Duration(i)*time.Second))
		r.setCooldown(shard.Named(fmt.Sprint("shard-", i)), Result{Size: 1})
	}
	if len(r.startedAt) > minForgetAt || len(r.cooldowns) > 0 || len(r.lightShards) > 0 {
		t.Errorf("%d start times, %d cooldowns and %d light shards are kept", len(r.startedAt), len(r.cooldowns),
			len(r.lightShards))
	}
}
