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

	Mu      sync.Mutex
	last    time.Time // when the last line came
	Longest time.Duration
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
		s.Mu.Lock()
		s.Longest = max(s.Longest, line.At.Sub(s.last))
		s.last = line.At
		s.lines++
		s.Mu.Unlock()
	}
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.ended = fmt.Errorf("the stream ended: %w", lines.Err())
}

// count is how many lines have come so far.
func (s *Stream) count() int {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return s.lines
}

// Silence is the longest that nothing came, the time since the last line included.
func (s *Stream) Silence() time.Duration {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return max(s.Longest, time.Since(s.last))
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
