package ovn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ovn-kubernetes/libovsdb/client"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// batchLog records the batches that a limiter sends, and when.
type batchLog struct {
	mu      sync.Mutex
	begun   time.Time
	batches [][]string // comments of the operations, by batch
	at      []time.Duration
}

func (b *batchLog) commit(_ context.Context, writes []*pendingWrite) []error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var names []string
	for _, w := range writes {
		names = append(names, *w.ops[0].Comment)
	}
	b.batches, b.at = append(b.batches, names), append(b.at, time.Since(b.begun))
	return make([]error, len(writes))
}

func newTestLimiter() (*recomputeLimiter, *batchLog) {
	b := &batchLog{begun: time.Now()}
	return &recomputeLimiter{interval: time.Second, commit: b.commit}, b
}

// newTestWrite returns a write whose operation has a comment.
func newTestWrite(s *session, name string) *pendingWrite {
	return &pendingWrite{session: s, ops: []ovsdb.Operation{{Op: ovsdb.OperationComment, Comment: &name}}}
}

// submitNamed submits a write and waits for it.
func (l *recomputeLimiter) submitNamed(ctx context.Context, name string) error {
	return l.submit(ctx, nil, func(context.Context) (*pendingWrite, error) { return newTestWrite(nil, name), nil })
}

func TestRecomputesAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, log := newTestLimiter()
		for i := range 10 {
			if err := l.submitNamed(t.Context(), fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
		}
		want := []time.Duration{0, 0, 0, 0, 0, 1e9, 2e9, 3e9, 4e9, 5e9}
		if !slices.Equal(log.at, want) {
			t.Errorf("sent at %v, wanted %v", log.at, want)
		}
		<-time.After(recomputeBurst * time.Second) // the burst is available again
		begun := time.Now()
		for i := range recomputeBurst {
			_ = l.submitNamed(t.Context(), fmt.Sprint(i))
		}
		if took := time.Since(begun); took != 0 {
			t.Errorf("after a quiet time, %d transactions take %s", recomputeBurst, took)
		}
	})
}

func TestWaitingShardsAreSentTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, log := newTestLimiter()
		for range recomputeBurst {
			_ = l.submitNamed(t.Context(), "first")
		}
		var group sync.WaitGroup
		var parked atomic.Int32
		for i := range 20 {
			group.Go(func() {
				<-time.After(time.Duration(i) * time.Millisecond)
				_ = l.submit(t.Context(), func() func() { parked.Add(1); return func() { parked.Add(-1) } },
					func(context.Context) (*pendingWrite, error) { return newTestWrite(nil, fmt.Sprint(i)), nil })
			})
		}
		<-time.After(500 * time.Millisecond)
		synctest.Wait()
		if n := parked.Load(); n != 20 {
			t.Errorf("%d of 20 requests were told to wait", n)
		}
		group.Wait()
		if got := len(log.batches); got != recomputeBurst+1 || len(log.batches[got-1]) != 20 || parked.Load() != 0 {
			t.Errorf("%d batches, the last with %v; %d wait", got, log.batches[got-1], parked.Load())
		}
	})
}

// A shard that always has changes gets one place in each batch, however many shards there are.
func TestConstantChangesDelayNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := newTestLimiter()
		ctx, stop := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() {
			for ctx.Err() == nil {
				_ = l.submitNamed(ctx, "churn")
			}
		})
		<-time.After(10 * time.Second)
		begun := time.Now()
		var waits []time.Duration
		var others sync.WaitGroup
		var mu sync.Mutex
		for i := range 2 * maxBatchSize {
			others.Go(func() {
				_ = l.submitNamed(t.Context(), fmt.Sprint(i))
				mu.Lock()
				defer mu.Unlock()
				waits = append(waits, time.Since(begun))
			})
		}
		others.Wait()
		stop()
		group.Wait()
		if longest := slices.Max(waits); longest > 3*time.Second || longest <= time.Second {
			t.Errorf("the last of %d others waits %s; wanted three batches", len(waits), longest)
		}
	})
}

func TestUrgentTransactionsDoNotBlockOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, log := newTestLimiter()
		for range 1000 {
			l.recordUnlimited()
		}
		_ = l.submitNamed(t.Context(), "other")
		if log.at[0] != time.Second {
			t.Errorf("sent after %s; wanted a second: the burst is used up, and nothing more", log.at[0])
		}
	})
}

func TestACanceledRequestIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, log := newTestLimiter()
		for range recomputeBurst {
			_ = l.submitNamed(t.Context(), "first")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := l.submitNamed(ctx, "canceled"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		_ = l.submitNamed(t.Context(), "next")
		if last := log.batches[len(log.batches)-1]; !slices.Equal(last, []string{"next"}) {
			t.Errorf("sent %v", last)
		}
	})
}

func TestAFailedPreparationFailsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, log := newTestLimiter()
		broken := errors.New("broken")
		err := l.submit(t.Context(), nil, func(context.Context) (*pendingWrite, error) { return nil, broken })
		if !errors.Is(err, broken) {
			t.Errorf("got %v", err)
		}
		err = l.submit(t.Context(), nil, func(context.Context) (*pendingWrite, error) { return nil, nil })
		if err != nil || len(log.batches) != 0 {
			t.Errorf("nothing to send: %v, sent %v", err, log.batches)
		}
	})
}

// fakeNorthbound answers transactions. An operation whose comment is "fails" fails, and "breaks" violates a constraint
// of the whole transaction.
type fakeNorthbound struct {
	client.Client
	committed [][]string
}

func (f *fakeNorthbound) Transact(_ context.Context, ops ...ovsdb.Operation) ([]ovsdb.OperationResult, error) {
	var names []string
	results := make([]ovsdb.OperationResult, len(ops))
	for i, op := range ops {
		if *op.Comment == "fails" {
			results[i].Error = "timed out"
			return results[:i+1], nil
		}
		names = append(names, *op.Comment)
	}
	if slices.Contains(names, "breaks") {
		return append(results, ovsdb.OperationResult{Error: "constraint violation"}), nil
	}
	f.committed = append(f.committed, names)
	return results, nil
}

func TestAFailingShardDoesNotFailOthers(t *testing.T) {
	cases := map[string]struct {
		writes    []string
		fail      []int
		committed [][]string
	}{
		"all succeed":               {[]string{"a", "b"}, nil, [][]string{{"a", "b"}}},
		"an operation fails":        {[]string{"a", "fails", "b", "fails"}, []int{1, 3}, [][]string{{"a", "b"}}},
		"the whole is not accepted": {[]string{"a", "breaks", "b"}, []int{1}, [][]string{{"a"}, {"b"}}},
	}
	for title, k := range cases {
		t.Run(title, func(t *testing.T) {
			server := &fakeNorthbound{}
			s, c := &session{nbClient: server}, &Client{}
			var writes []*pendingWrite
			for _, name := range k.writes {
				writes = append(writes, newTestWrite(s, name))
			}
			var failed []int
			for i, err := range c.commitTogether(t.Context(), writes) {
				if err != nil {
					failed = append(failed, i)
				}
			}
			if !slices.Equal(failed, k.fail) || !slices.EqualFunc(server.committed, k.committed, slices.Equal) {
				t.Errorf("failed %v, wanted %v; committed %v, wanted %v", failed, k.fail, server.committed, k.committed)
			}
			if int(c.WriteCount()) != len(k.committed) {
				t.Errorf("%d transactions counted", c.WriteCount())
			}
		})
	}
}

// The error of a failed operation is the one of its own write.
func TestAFailedOperationIsExplained(t *testing.T) {
	s := &session{nbClient: &fakeNorthbound{}}
	first, second := newTestWrite(s, "a"), newTestWrite(s, "fails")
	first.explain = func(int) error { return errors.New("not this one") }
	second.explain = func(op int) error {
		if op != 0 {
			t.Errorf("operation %d of the write is said to fail", op)
		}
		return errRouterChanged
	}
	results := (&Client{}).commitTogether(t.Context(), []*pendingWrite{first, second})
	if results[0] != nil || !errors.Is(results[1], errRouterChanged) {
		t.Errorf("got %v", results)
	}
}
