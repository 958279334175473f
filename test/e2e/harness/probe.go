package harness

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Probe sends a request to a host outside every 5 ms, and records when answers arrive.
type Probe struct {
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu          sync.Mutex
	lastAnswer  time.Time
	longestGap  time.Duration
	count       int
	answerTimes []time.Time
	seenSources map[string]int // addresses that the host saw
}

const probePeriod = 5 * time.Millisecond

// StartProbe starts a probe from a pod.
func (c *Cluster) StartProbe(t *testing.T, pod string) *Probe {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	conn, err := c.NS(pod).Dial(ctx, "udp", InternetAddress+":80")
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	p := &Probe{cancel: func() { cancel(); _ = conn.Close() }, seenSources: map[string]int{}, lastAnswer: time.Now()}
	t.Cleanup(p.cancel)
	p.done.Go(func() {
		ticks := time.NewTicker(probePeriod)
		defer ticks.Stop()
		for ctx.Err() == nil {
			_, _ = conn.Write([]byte("hello\n")) // losses are what is measured
			<-ticks.C
		}
	})
	p.done.Go(func() {
		answer := make([]byte, 200)
		for ctx.Err() == nil {
			n, err := conn.Read(answer)
			if err == nil {
				p.recordAnswer(string(answer[:n]))
			}
		}
	})
	return p
}

func (p *Probe) recordAnswer(answer string) {
	_, client, _ := strings.Cut(strings.TrimSpace(answer), " saw ")
	address, _, _ := strings.Cut(client, ":")
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.longestGap = max(p.longestGap, now.Sub(p.lastAnswer))
	p.lastAnswer = now
	p.count++
	p.answerTimes = append(p.answerTimes, now)
	p.seenSources[address]++
}

// WaitSteady waits until answers arrive, and starts the measurement.
func (p *Probe) WaitSteady(t *testing.T) {
	t.Helper()
	for begun := p.answerCount(); p.answerCount() < begun+50; {
		if !p.WaitAnswer(Patience) {
			t.Fatal("no answer comes from outside")
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.longestGap = 0
}

// WaitAnswer waits for the next answer and reports whether it arrives in time.
func (p *Probe) WaitAnswer(limit time.Duration) bool {
	begun, deadline := p.answerCount(), time.Now().Add(limit)
	tick := time.NewTicker(probePeriod)
	defer tick.Stop()
	for range tick.C {
		if p.answerCount() > begun {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
	}
	return false
}

func (p *Probe) answerCount() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count
}

// MeasureLongestGap returns the longest gap within the given time, extended until an answer arrives.
func (p *Probe) MeasureLongestGap(t *testing.T, length time.Duration) time.Duration {
	t.Helper()
	for begun := time.Now(); time.Since(begun) < length; {
		if !p.WaitAnswer(Patience) {
			t.Fatal("nothing comes back any more")
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.longestGap
}

// Stop ends the probe.
func (p *Probe) Stop() {
	p.cancel()
	p.done.Wait()
}

// SourceAddresses returns the addresses that the host saw.
func (p *Probe) SourceAddresses() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.seenSources)
}

// AnswerTimes returns when answers arrived.
func (p *Probe) AnswerTimes() []time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.answerTimes)
}
