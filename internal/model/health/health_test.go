package health

import (
	"testing"
	"time"
)

var startTime = time.Unix(1_700_000_000, 0)

// testConfig is for a sample every 100 ms.
var testConfig = Config{Timeout: 500 * time.Millisecond, RecoveryDelay: 5 * time.Second, MaxRecoveryDelay: time.Minute}

const period = 100 * time.Millisecond

// sampledNode is a node with one sample for each period.
type sampledNode struct {
	Node
	now     time.Time
	changes int
}

func (l *sampledNode) feedSamples(c Config, signs ...SampleResult) {
	for _, s := range signs {
		l.now = l.now.Add(period)
		was := l.Healthy
		if l.Node = l.RecordSample(Sample{SentAt: l.now, Result: s}, c); l.Healthy != was {
			l.changes++
		}
	}
}

func repeatResult(s SampleResult, long time.Duration) (out []SampleResult) {
	for range int(long / period) {
		out = append(out, s)
	}
	return out
}

func newSampledNode() *sampledNode { return &sampledNode{now: startTime} }

func TestNode(t *testing.T) {
	for _, c := range []struct {
		what    string
		signs   [][]SampleResult
		well    bool
		changes int
	}{
		{"nothing is known of it", nil, false, 0},
		{"the first sign is believed", [][]SampleResult{{Alive}}, true, 1},
		{"one lost sample", [][]SampleResult{{Alive, Silent, Alive}}, true, 1},
		{"silent for less than the timeout", [][]SampleResult{{Alive, Silent, Silent, Silent, Silent}}, true, 1},
		{"silent for the timeout", [][]SampleResult{{Alive, Silent, Silent, Silent, Silent, Silent}}, false, 2},
		{
			"a session that bounces",
			[][]SampleResult{{Alive}, repeatResult(Inconclusive, 2*time.Second), {Alive}},
			true,
			1,
		},
		{
			"a session that bounces, and nobody is there",
			[][]SampleResult{{Alive, Inconclusive}, repeatResult(Silent, time.Second)},
			false, 2,
		},
		{"back for a moment", [][]SampleResult{
			{Alive},
			repeatResult(Silent, time.Second),
			repeatResult(Alive, time.Second),
		}, false, 2},
		{"back for good", [][]SampleResult{
			{Alive},
			repeatResult(Silent, time.Second),
			repeatResult(Alive, 6*time.Second),
		}, true, 3},
		{"back for good, with a lost sample on the way", [][]SampleResult{
			{Alive},
			repeatResult(Silent, time.Second),
			repeatResult(Alive, 3*time.Second),
			{Silent},
			repeatResult(Alive, 3*time.Second),
		}, false, 2},
		{"it dies again: longer", [][]SampleResult{{Alive}, repeatResult(Silent, time.Second), repeatResult(Alive,
			6*time.Second), repeatResult(Silent, time.Second), repeatResult(Alive, 6*time.Second)}, false, 4},
		{"but not for ever", [][]SampleResult{
			{Alive},
			repeatResult(Silent, time.Second), repeatResult(Alive, 2*time.Minute),
			repeatResult(Silent, time.Second), repeatResult(Alive, 6*time.Second),
		}, true, 5},
	} {
		l := newSampledNode()
		for _, signs := range c.signs {
			l.feedSamples(testConfig, signs...)
		}
		if l.Healthy != c.well || l.changes != c.changes {
			t.Errorf("%s: well is %t after %d changes; wanted %t after %d", c.what, l.Healthy, l.changes, c.well,
				c.changes)
		}
	}
}

// A node that goes up and down every second for a minute is declared dead once.
func TestFlapping(t *testing.T) {
	l := newSampledNode()
	l.feedSamples(testConfig, Alive)
	for range 30 {
		l.feedSamples(testConfig, repeatResult(Silent, time.Second)...)
		l.feedSamples(testConfig, repeatResult(Alive, time.Second)...)
	}
	if l.changes != 2 {
		t.Errorf("%d changes; wanted that it became well, and died, and no more", l.changes)
	}
}

func TestWithoutTimeoutEveryNodeIsWell(t *testing.T) {
	l := newSampledNode()
	if l.feedSamples(Config{}, repeatResult(Silent, time.Minute)...); !l.Healthy {
		t.Error("a node was called dead that is not asked")
	}
}

// A node is declared dead without a further sample: if a probe hangs, none is sent.
func TestTimeAlone(t *testing.T) {
	l := newSampledNode()
	l.feedSamples(testConfig, Alive, Silent, Silent)
	if !l.AdvanceTo(startTime.Add(period+testConfig.Timeout-time.Millisecond), testConfig).Healthy {
		t.Error("dead before the timeout")
	}
	if l.AdvanceTo(startTime.Add(period+testConfig.Timeout), testConfig).Healthy {
		t.Error("well after the timeout")
	}
}
