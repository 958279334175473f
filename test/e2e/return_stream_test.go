package e2e

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/lab/program"
)

// stream is a live connection on which a server sends a line every 100 ms.
type stream struct {
	name string

	mu      sync.Mutex
	last    time.Time // when the last line came
	longest time.Duration
	lines   int
	ended   error
}

// stream opens a connection and watches it until the test ends.
func (c *cluster) stream(t *testing.T, where, address string) *stream {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	s := &stream{name: where + " → " + address, last: time.Now()}
	lines, err := program.Stream(ctx, c.NS(where), "http://"+address+"/stream?interval=100ms")
	if err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}
	go s.follow(lines)
	return s
}

func (s *stream) follow(lines *program.Lines) {
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
func (s *stream) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lines
}

// silence is the longest that nothing came, the time since the last line included.
func (s *stream) silence() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(s.longest, time.Since(s.last))
}

// forgive begins to measure silences anew.
func (s *stream) forgive() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.longest = 0
}

// survive fails the test unless ten more lines come on all streams, and returns the longest silence.
func survive(t *testing.T, what string, limit time.Duration, streams ...*stream) (longest time.Duration) {
	t.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	wanted := map[*stream]int{}
	for _, s := range streams {
		wanted[s] = s.count() + 10
	}
	for len(wanted) > 0 {
		select {
		case <-tick.C:
			maps.DeleteFunc(wanted, func(s *stream, n int) bool { return s.count() >= n })
		case <-deadline.C:
			for s := range wanted {
				t.Errorf("%s: %s does not go on: %d lines, silent for %v (%v)", what, s.name, s.count(), s.silence(), s.ended)
			}
			clear(wanted)
		}
	}
	for _, s := range streams {
		longest = max(longest, s.silence())
	}
	return longest
}

func forgive(streams ...*stream) {
	for _, s := range streams {
		s.forgive()
	}
}
