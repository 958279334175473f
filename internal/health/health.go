// Package health is whether a node is well, told from samples: the clock is passed in, and a lost sample is not yet a dead node.
package health

import "time"

// Config is how samples are judged.
type Config struct {
	// Timeout is how long a node may give no sign of life before it is called dead; 0: it is never called dead.
	Timeout time.Duration
	// Steady is how long a node that was dead has to be well before it is called so. It doubles with each time that the node dies again,
	// up to Longest, and is forgotten after the node was well for that long.
	Steady, Longest time.Duration
}

// Sample is one sign of life, or the lack of one.
type Sample struct {
	Sent time.Time // when it was asked for
	Got  Sign
}

// Sign is what came of a sample.
type Sign int

// The signs.
const (
	Silent  Sign = iota // nothing came in time, or nobody could be reached
	Bounced             // the connection ended for a normal reason, and the next sample will tell
	Alive
)

// Node is what is known of a node. The zero value is one that nothing is known of yet: it is not well.
type Node struct {
	Well bool
	// Changed is when it became so.
	Changed time.Time

	heard  time.Time // when the last sign of life was asked for
	begun  time.Time // when the signs of life began that have not been interrupted
	silent int       // samples without one, in a row
	deaths int       // that are not forgotten yet
}

// Heard takes a sample. Samples come in the order in which they were sent.
func (n Node) Heard(s Sample, c Config) Node {
	switch s.Got {
	case Alive:
		if n.begun.IsZero() {
			n.begun = s.Sent
		}
		n.heard, n.silent = s.Sent, 0
	case Bounced:
	case Silent:
		n.silent++
		n.begun = time.Time{}
	}
	return n.At(s.Sent, c)
}

// At is the node at a time, when no further sample has come.
func (n Node) At(now time.Time, c Config) Node {
	switch {
	case c.Timeout == 0:
		return n.become(true, now)
	case n.Well && n.silent > 1 && now.Sub(n.heard) >= c.Timeout:
		n.deaths++
		return n.become(false, now)
	case n.Well && !n.begun.IsZero() && now.Sub(n.Changed) >= c.Longest:
		n.deaths = 0
		return n
	case !n.Well && !n.begun.IsZero() && now.Sub(n.begun) >= n.steady(c):
		return n.become(true, now)
	default:
		return n
	}
}

func (n Node) become(well bool, now time.Time) Node {
	if n.Well != well {
		n.Well, n.Changed = well, now
	}
	return n
}

// steady is how long the node has to be well. One that was never called dead is believed at once.
func (n Node) steady(c Config) time.Duration {
	if n.deaths == 0 {
		return 0
	}
	return min(c.Steady<<min(n.deaths-1, 16), c.Longest)
}
