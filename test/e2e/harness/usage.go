package harness

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// processorTime is the time of the machine's processors since it started, in ticks, from the first line of /proc/stat.
// Themes that run at the same time see the same values.
type processorTime struct{ total, idle, iowait, steal float64 }

func (a processorTime) since(b processorTime) processorTime {
	return processorTime{total: a.total - b.total, idle: a.idle - b.idle, iowait: a.iowait - b.iowait, steal: a.steal - b.steal}
}

// String states shares as top does: a machine can be slow because tests use it, or because of its disk (iowait) or its
// host (steal).
func (a processorTime) String() string {
	total := max(a.total, 1)
	return fmt.Sprintf("idle %.0f %%, iowait %.0f %%, steal %.0f %%",
		100*a.idle/total, 100*a.iowait/total, 100*a.steal/total)
}

func readProcessorTime() processorTime {
	raw, err := os.ReadFile("/proc/stat")
	if err != nil {
		return processorTime{}
	}
	line, _, _ := strings.Cut(string(raw), "\n")
	var out processorTime
	for i, word := range strings.Fields(line)[1:] {
		ticks, err := strconv.ParseFloat(word, 64)
		if err != nil || i > 7 { // user nice system idle iowait irq softirq steal; then guests, which are part of user
			break
		}
		out.total += ticks
		switch i {
		case 3:
			out.idle = ticks
		case 4:
			out.iowait = ticks
		case 7:
			out.steal = ticks
		}
	}
	return out
}

// machineMinute is what the machine did for a minute.
type machineMinute struct {
	start time.Time
	took  processorTime
	late  time.Duration // by how much a timer of this process was late, at most
}

// machineLog remembers how busy the machine was while a theme ran. A test that waited in vain prints its part: on a
// machine that stood still the cause may be there.
type machineLog struct {
	started time.Time
	first   processorTime

	mu      sync.Mutex
	minutes []machineMinute
}

var machine = &machineLog{}

const machineTick = time.Second

// run records until the process ends.
func (m *machineLog) run() {
	m.started, m.first = time.Now(), readProcessorTime()
	go func() {
		began, minute := m.first, machineMinute{start: m.started}
		last := m.started
		for range time.Tick(machineTick) {
			now := time.Now()
			minute.late = max(minute.late, now.Sub(last)-machineTick)
			last = now
			if now.Sub(minute.start) < time.Minute {
				continue
			}
			next := readProcessorTime()
			minute.took = next.since(began)
			m.mu.Lock()
			m.minutes = append(m.minutes, minute)
			m.mu.Unlock()
			began, minute = next, machineMinute{start: now}
		}
	}()
}

// printSummary prints how long a theme took and what the machine did.
func (m *machineLog) printSummary(w io.Writer) {
	dir, _ := os.Getwd()
	fmt.Fprintf(w, "theme %s took %.0f s; the machine: %v\n", filepath.Base(dir), time.Since(m.started).Seconds(),
		readProcessorTime().since(m.first))
}

// describe returns a line for each minute since a point in time, for at most a quarter of an hour.
func (m *machineLog) describe(since time.Time) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out strings.Builder
	for _, minute := range m.minutes[max(0, len(m.minutes)-15):] {
		if minute.start.Add(time.Minute).After(since) {
			fmt.Fprintf(&out, "\n    %s  %v; a timer was late by %v", minute.start.UTC().Format(time.TimeOnly), minute.took,
				minute.late.Round(time.Millisecond))
		}
	}
	return out.String()
}

// describeMachineIfFailed prints what the machine did during a test that failed.
func describeMachineIfFailed(t *testing.T) {
	t.Helper()
	started := time.Now()
	t.Cleanup(func() {
		if text := machine.describe(started); t.Failed() && text != "" {
			t.Logf("the machine during this test (UTC):%s", text)
		}
	})
}
