package real

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/lab/program"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// upgradeLoad is open streams, and new connections, through every address of a tenant and out of it.
type upgradeLoad struct {
	streams map[string][]*harness.Stream // by kind
	stop    context.CancelFunc
	running sync.WaitGroup

	mu           sync.Mutex
	opened, lost map[string]int
	errors       []error
}

// upgradeLoss is what a load has lost.
type upgradeLoss struct {
	streams, ended, opened, lost int
	silence                      map[string]time.Duration // of streams that went on, by kind
	openedBy, lostBy             map[string]int
}

func (l upgradeLoss) longest() (out time.Duration) {
	for _, s := range l.silence {
		out = max(out, s)
	}
	return out
}

func (l upgradeLoss) has(kind string) bool { return l.openedBy[kind] > 0 }

func (l upgradeLoss) lossRate(kind string) float64 {
	return float64(l.lostBy[kind]) / float64(max(1, l.openedBy[kind]))
}

func (l upgradeLoss) String() string {
	var kinds []string
	for _, kind := range slices.Sorted(maps.Keys(l.openedBy)) {
		kinds = append(kinds, fmt.Sprintf("%s %d ms, %d of %d lost", kind, l.silence[kind].Milliseconds(), l.lostBy[kind], l.openedBy[kind]))
	}
	return fmt.Sprintf("%d of %d streams ended, %d of %d new connections lost, longest silence %d ms (%s)", l.ended, l.streams,
		l.lost, l.opened, l.longest().Milliseconds(), strings.Join(kinds, "; "))
}

// measure runs a step under load.
func (f *upgradeFixture) measure(t *testing.T, s upgradeStep) upgradeLoss {
	t.Helper()
	f.ResetDrops(t)
	load := f.startLoad(t)
	s.run(f, t)
	got := load.finish(t, s.compared)
	t.Logf("%s: %s", s.what, got)
	return got
}

func (f *upgradeFixture) startLoad(t *testing.T) *upgradeLoad {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l := &upgradeLoad{stop: cancel, streams: map[string][]*harness.Stream{}, opened: map[string]int{}, lost: map[string]int{}}
	for _, p := range f.paths {
		if p.kind != drainedLB { // a stream to the backend that is drained ends with it
			l.streams[p.kind] = append(l.streams[p.kind], f.StartStream(t, p.where, p.address))
		}
		l.running.Go(func() { l.openConnections(ctx, p.kind, f.NS(p.where), "http://"+p.address) })
	}
	harness.ExpectStreamsContinue(t, "before", l.all()...)
	harness.ResetGaps(l.all()...)
	return l
}

func (l *upgradeLoad) all() []*harness.Stream {
	return slices.Concat(slices.Collect(maps.Values(l.streams))...)
}

// openConnections opens a new connection ten times a second.
func (l *upgradeLoad) openConnections(ctx context.Context, kind string, from program.Net, target string) {
	pace := time.NewTicker(100 * time.Millisecond)
	defer pace.Stop()
	for ctx.Err() == nil {
		limited, cancel := context.WithTimeout(ctx, harness.AnswerTimeout)
		_, err := program.Ask(limited, from, target)
		cancel()
		if ctx.Err() != nil {
			return
		}
		l.mu.Lock()
		if l.opened[kind]++; err != nil {
			l.lost[kind]++
			l.errors = append(l.errors, fmt.Errorf("%s %s, %s: %w", time.Now().Format(time.TimeOnly), kind, target, err))
		}
		l.mu.Unlock()
		<-pace.C
	}
}

// finish stops the load. A stream that does not go on has ended; if streams may not end, the test fails.
func (l *upgradeLoad) finish(t *testing.T, mayEnd bool) upgradeLoss {
	t.Helper()
	out := upgradeLoss{silence: map[string]time.Duration{}}
	if !mayEnd {
		harness.ExpectStreamsContinue(t, "after", l.all()...)
	}
	silent := harness.WaitStreams(streamLimit, l.all()...)
	out.streams, out.ended = len(l.all()), len(silent)
	for kind, streams := range l.streams {
		for _, s := range streams {
			if !slices.Contains(silent, s) {
				out.silence[kind] = max(out.silence[kind], s.LongestGap())
			}
		}
	}
	l.stop()
	l.running.Wait()
	out.openedBy, out.lostBy = l.opened, l.lost
	for kind := range l.opened {
		out.opened, out.lost = out.opened+l.opened[kind], out.lost+l.lost[kind]
	}
	if err := errors.Join(l.errors[:min(len(l.errors), 20)]...); err != nil {
		t.Log(err)
	}
	return out
}

// streamLimit is how long a stream may take to go on. TCP's retransmissions are up to half a minute apart by then.
const streamLimit = 90 * time.Second
