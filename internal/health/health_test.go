package health

import (
	"testing"
	"time"
)

var begin = time.Unix(1_700_000_000, 0)

// usual is what the tests judge by: a sample every 100 ms.
var usual = Config{Timeout: 500 * time.Millisecond, Steady: 5 * time.Second, Longest: time.Minute}

const period = 100 * time.Millisecond

// life is a node that samples come from, one a period.
type life struct {
	Node
	now     time.Time
	changes int
}

func (l *life) live(c Config, signs ...Sign) {
	for _, s := range signs {
		l.now = l.now.Add(period)
		was := l.Well
		if l.Node = l.Heard(Sample{Sent: l.now, Got: s}, c); l.Well != was {
			l.changes++
		}
	}
}

func many(s Sign, long time.Duration) (out []Sign) {
	for range int(long / period) {
		out = append(out, s)
	}
	return out
}

func newLife() *life { return &life{now: begin} }

func TestNode(t *testing.T) {
	for _, c := range []struct {
		what    string
		signs   [][]Sign
		well    bool
		changes int
	}{
		{"nothing is known of it", nil, false, 0},
		{"the first sign is believed", [][]Sign{{Alive}}, true, 1},
		{"one lost sample", [][]Sign{{Alive, Silent, Alive}}, true, 1},
		{"silent for less than the timeout", [][]Sign{{Alive, Silent, Silent, Silent, Silent}}, true, 1},
		{"silent for the timeout", [][]Sign{{Alive, Silent, Silent, Silent, Silent, Silent}}, false, 2},
		{"a session that bounces", [][]Sign{{Alive}, many(Bounced, 2*time.Second), {Alive}}, true, 1},
		{"a session that bounces, and nobody is there", [][]Sign{{Alive, Bounced}, many(Silent, time.Second)}, false, 2},
		{"back for a moment", [][]Sign{{Alive}, many(Silent, time.Second), many(Alive, time.Second)}, false, 2},
		{"back for good", [][]Sign{{Alive}, many(Silent, time.Second), many(Alive, 6*time.Second)}, true, 3},
		{"back for good, with a lost sample on the way", [][]Sign{{Alive}, many(Silent, time.Second), many(Alive, 3*time.Second), {Silent}, many(Alive, 3*time.Second)}, false, 2},
		{"it dies again: longer", [][]Sign{{Alive}, many(Silent, time.Second), many(Alive, 6*time.Second), many(Silent, time.Second), many(Alive, 6*time.Second)}, false, 4},
		{"but not for ever", [][]Sign{
			{Alive}, many(Silent, time.Second), many(Alive, 2*time.Minute), many(Silent, time.Second), many(Alive, 6*time.Second),
		}, true, 5},
	} {
		l := newLife()
		for _, signs := range c.signs {
			l.live(usual, signs...)
		}
		if l.Well != c.well || l.changes != c.changes {
			t.Errorf("%s: well is %t after %d changes; wanted %t after %d", c.what, l.Well, l.changes, c.well, c.changes)
		}
	}
}

// A node that is up and down every second for a minute dies once.
func TestFlapping(t *testing.T) {
	l := newLife()
	l.live(usual, Alive)
	for range 30 {
		l.live(usual, many(Silent, time.Second)...)
		l.live(usual, many(Alive, time.Second)...)
	}
	if l.changes != 2 {
		t.Errorf("%d changes; wanted that it became well, and died, and no more", l.changes)
	}
}

func TestWithoutTimeoutEveryNodeIsWell(t *testing.T) {
	l := newLife()
	if l.live(Config{}, many(Silent, time.Minute)...); !l.Well {
		t.Error("a node was called dead that is not asked")
	}
}

// The time of death can be known without a further sample: when a probe hangs, nobody sends one.
func TestTimeAlone(t *testing.T) {
	l := newLife()
	l.live(usual, Alive, Silent, Silent)
	if !l.At(begin.Add(period+usual.Timeout-time.Millisecond), usual).Well {
		t.Error("dead before the timeout")
	}
	if l.At(begin.Add(period+usual.Timeout), usual).Well {
		t.Error("well after the timeout")
	}
}
