package harness

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/lab/program"
)

// Stream is an open connection on which a server sends a line every 100 ms.
type Stream struct {
	name string

	mu         sync.Mutex
	lastLine   time.Time // time of the last line
	longestGap time.Duration
	lines      int
	err        error
}

// StartStream opens a connection and monitors it until the test ends.
func (c *Cluster) StartStream(t *testing.T, where, address string) *Stream {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	s := &Stream{name: where + " → " + address, lastLine: time.Now()}
	lines, err := program.Stream(ctx, c.NS(where), "http://"+address+"/stream?interval=100ms")
	if err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}
	go s.recordLines(lines)
	return s
}

func (s *Stream) recordLines(lines *program.Lines) {
	for line := range lines.C {
		s.mu.Lock()
		s.longestGap = max(s.longestGap, line.At.Sub(s.lastLine))
		s.lastLine = line.At
		s.lines++
		s.mu.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = fmt.Errorf("the stream ended: %w", lines.Err())
}

// countLines returns the number of lines received so far.
func (s *Stream) countLines() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lines
}

// LongestGap returns the longest time without a line, including the time since the last line.
func (s *Stream) LongestGap() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(s.longestGap, time.Since(s.lastLine))
}

// ResetGaps restarts the measurement of gaps.
func ResetGaps(streams ...*Stream) {
	for _, s := range streams {
		s.resetGap()
	}
}

func (s *Stream) resetGap() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.longestGap = 0
}

// ExpectStreamsContinue fails the test unless ten more lines arrive on every stream, and returns the longest gap.
func ExpectStreamsContinue(t *testing.T, what string, streams ...*Stream) (longest time.Duration) {
	t.Helper()
	for _, s := range WaitStreams(Patience, streams...) {
		t.Errorf("%s: %s does not go on: %d lines, silent for %v (%v)", what, s.name, s.countLines(), s.LongestGap(), s.err)
	}
	for _, s := range streams {
		longest = max(longest, s.LongestGap())
	}
	return longest
}

// WaitStreams waits until ten more lines have arrived on every stream, and returns those on which they have not.
func WaitStreams(limit time.Duration, streams ...*Stream) []*Stream {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	wanted := map[*Stream]int{}
	for _, s := range streams {
		wanted[s] = s.countLines() + 10
	}
	for len(wanted) > 0 {
		select {
		case <-tick.C:
			maps.DeleteFunc(wanted, func(s *Stream, n int) bool { return s.countLines() >= n })
		case <-deadline.C:
			return slices.Collect(maps.Keys(wanted))
		}
	}
	return nil
}
