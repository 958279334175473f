// Package health is the health of a node, computed from samples: the clock is a parameter, and a lost sample does not
// yet mean a dead node.
package health

import "time"

// Config has the limits.
type Config struct {
	// Timeout is how long a node may be silent before it is considered dead. 0: never.
	Timeout time.Duration
	// RecoveryDelay is how long a node that was dead must answer before it is considered healthy. It doubles each time
	// the node dies again, up to MaxRecoveryDelay, and is reset after the node was healthy for that long.
	RecoveryDelay, MaxRecoveryDelay time.Duration
}

// Sample is an answer of a node, or the lack of one.
type Sample struct {
	SentAt time.Time // when the request was sent
	Result SampleResult
}

// SampleResult is the result of a sample.
type SampleResult int

// The results.
const (
	Silent       SampleResult = iota // no answer in time, or the node could not be reached
	Inconclusive                     // the connection ended for a normal reason; the next sample decides
	Alive
)

// Node is the health of a node. The zero value is a node without samples: it is not healthy.
type Node struct {
	Healthy bool
	// ChangedAt is when the health last changed.
	ChangedAt time.Time

	lastAlive     time.Time // when the last answered request was sent
	aliveSince    time.Time // start of the current series of answers
	missedSamples int       // consecutive samples without an answer
	failures      int       // not reset yet
}

// RecordSample adds a sample. Samples must be in the order in which they were sent.
func (n Node) RecordSample(s Sample, c Config) Node {
	switch s.Result {
	case Alive:
		if n.aliveSince.IsZero() {
			n.aliveSince = s.SentAt
		}
		n.lastAlive, n.missedSamples = s.SentAt, 0
	case Inconclusive:
	case Silent:
		n.missedSamples++
		n.aliveSince = time.Time{}
	}
	return n.AdvanceTo(s.SentAt, c)
}

// AdvanceTo returns the node at a later time without further samples.
func (n Node) AdvanceTo(now time.Time, c Config) Node {
	switch {
	case c.Timeout == 0:
		return n.setHealthy(true, now)
	case n.Healthy && n.missedSamples > 1 && now.Sub(n.lastAlive) >= c.Timeout:
		n.failures++
		return n.setHealthy(false, now)
	case n.Healthy && !n.aliveSince.IsZero() && now.Sub(n.ChangedAt) >= c.MaxRecoveryDelay:
		n.failures = 0
		return n
	case !n.Healthy && !n.aliveSince.IsZero() && now.Sub(n.aliveSince) >= n.recoveryDelay(c):
		return n.setHealthy(true, now)
	default:
		return n
	}
}

func (n Node) setHealthy(well bool, now time.Time) Node {
	if n.Healthy != well {
		n.Healthy, n.ChangedAt = well, now
	}
	return n
}

// recoveryDelay returns how long the node must answer. A node that was never dead is healthy at once.
func (n Node) recoveryDelay(c Config) time.Duration {
	if n.failures == 0 {
		return 0
	}
	return min(c.RecoveryDelay<<min(n.failures-1, 16), c.MaxRecoveryDelay)
}
