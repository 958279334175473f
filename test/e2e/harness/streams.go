package harness

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/lab/program"
)

// Stream is a live connection on which a server sends a line every 100 ms.
type Stream struct {
	name string

	mu      sync.Mutex
	last    time.Time // when the last line came
	longest time.Duration
	lines   int
	ended   error
}

// StartStream opens a connection and watches it until the test ends.
func (c *Cluster) StartStream(t *testing.T, where, address string) *Stream {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	s := &Stream{name: where + " → " + address, last: time.Now()}
	lines, err := program.Stream(ctx, c.NS(where), "http://"+address+"/stream?interval=100ms")
	if err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}
	go s.follow(lines)
	return s
}

func (s *Stream) follow(lines *program.Lines) {
	for line := range lines.C {
		s.mu.Lock()
		s.longest = max(s.longest, line.At.Sub(s.last))
		s.last = line.At
		s.lines++
		s.mu.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = fmt.Errorf("the stream ended: %w", lines.Err())
}

// count is how many lines have come so far.
func (s *Stream) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lines
}

// Silence is the longest that nothing came, the time since the last line included.
func (s *Stream) Silence() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(s.longest, time.Since(s.last))
}

// ForgetSilence begins to measure silences anew.
func ForgetSilence(streams ...*Stream) {
	for _, s := range streams {
		s.forgetSilence()
	}
}

func (s *Stream) forgetSilence() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.longest = 0
}

// ExpectSurvival fails the test unless ten more lines come on all streams, and returns the longest silence.
func ExpectSurvival(t *testing.T, what string, limit time.Duration, streams ...*Stream) (longest time.Duration) {
	t.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	wanted := map[*Stream]int{}
	for _, s := range streams {
		wanted[s] = s.count() + 10
	}
	for len(wanted) > 0 {
		select {
		case <-tick.C:
			maps.DeleteFunc(wanted, func(s *Stream, n int) bool { return s.count() >= n })
		case <-deadline.C:
			for s := range wanted {
				t.Errorf("%s: %s does not go on: %d lines, silent for %v (%v)", what, s.name, s.count(), s.Silence(), s.ended)
			}
			clear(wanted)
		}
	}
	for _, s := range streams {
		longest = max(longest, s.Silence())
	}
	return longest
}
