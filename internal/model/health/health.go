// Package health is whether a node is well, told from samples: the clock is passed in, and a lost sample is not yet a
// dead node.
package health

import "time"

// Config is how samples are judged.
type Config struct {
	// Timeout is how long a node may give no sign of life before it is called dead; 0: it is never called dead.
	Timeout time.Duration
	// RecoveryDelay is how long a node that was dead has to be well before it is called so. It doubles with each time
	// that the node dies again, up to Longest, and is forgotten after the node was well for that long.
	RecoveryDelay, MaxRecoveryDelay time.Duration
}

// Sample is one sign of life, or the lack of one.
type Sample struct {
	SentAt time.Time // when it was asked for
	Result SampleResult
}

// SampleResult is what came of a sample.
type SampleResult int

// The signs.
const (
	Silent       SampleResult = iota // nothing came in time, or nobody could be reached
	Inconclusive                     // the connection ended for a normal reason, and the next sample will tell
	Alive
)

// Node is what is known of a node. The zero value is one that nothing is known of yet: it is not well.
type Node struct {
	Healthy bool
	// ChangedAt is when it became so.
	ChangedAt time.Time

	lastAlive     time.Time // when the last sign of life was asked for
	aliveSince    time.Time // when the signs of life began that have not been interrupted
	missedSamples int       // samples without one, in a row
	failures      int       // that are not forgotten yet
}

// RecordSample takes a sample. Samples come in the order in which they were sent.
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

// AdvanceTo is the node at a time, when no further sample has come.
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

// recoveryDelay is how long the node has to be well. One that was never called dead is believed at once.
func (n Node) recoveryDelay(c Config) time.Duration {
	if n.failures == 0 {
		return 0
	}
	return min(c.RecoveryDelay<<min(n.failures-1, 16), c.MaxRecoveryDelay)
}
