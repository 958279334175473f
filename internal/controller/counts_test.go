package controller

import (
	"errors"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/snapshot"
)

// worked is the work of a shard whose plan for rows has so many rows to write.
func worked(t *testing.T, rows int) *Work {
	t.Helper()
	steps, err := inSteps(inOVN(todo(t, rows)))
	if err != nil {
		t.Fatal(err)
	}
	return &Work{steps: steps, Verdicts: []intent.Verdict{{}}}
}

// A change counts as a repair only after a run with nothing left to do, and when nobody wanted anything else since.
func TestRepairs(t *testing.T) {
	const shard = "acme-web"
	r := newRepairs()
	run := func(by []string, before, after int) {
		for _, b := range by {
			r.asked(shard, b)
		}
		if mends := r.begins(shard); mends {
			r.mends(worked(t, before))
		}
		r.ended(shard, worked(t, after))
	}
	for _, step := range []struct {
		what          string
		by            []string
		before, after int
		repaired      float64
	}{
		{"the controller begins, and much is to be written", []string{"Project"}, 7, 7, 0},
		{"what was written is seen", []string{engine}, 0, 0, 0},
		{"somebody takes three rows away", []string{engine}, 3, 0, 3},
		{"and again", []string{engine}, 2, 0, 5},
		{"a pod has another address", []string{"Pod"}, 1, 0, 5},
		{"both at once: nobody knows", []string{engine, "Pod"}, 1, 0, 5},
		{"a row that can't be put right", []string{engine}, 1, 1, 6},
		{"is tried again, and counted once", nil, 1, 0, 6},
		{"an object of Kube-OVN's is changed", []string{engine, "OvnEip"}, 1, 0, 7},
	} {
		run(step.by, step.before, step.after)
		var now dto.Metric
		if err := r.done.WithLabelValues("OVN").Write(&now); err != nil || now.GetCounter().GetValue() != step.repaired {
			t.Errorf("%s: %v repairs, want %v (%v)", step.what, now.GetCounter().GetValue(), step.repaired, err)
		}
	}
}

func TestFailingShards(t *testing.T) {
	c := newCounts()
	for _, run := range []struct {
		shard string
		err   error
		want  float64
	}{{"a", errors.New("no"), 1}, {"b", nil, 1}, {"b", errors.New("no"), 2}, {"b", errors.New("no"), 2}, {"a", nil, 1}, {"b", nil, 0}} {
		if c.ran(run.shard, time.Millisecond, run.err); c.failed() != run.want {
			t.Errorf("after %s, %v: %v fail, want %v", run.shard, run.err, c.failed(), run.want)
		}
	}
}

// What a shard says takes the place of what it said before; what nobody says any more is not there any more.
func TestSums(t *testing.T) {
	var s sums
	eip, fip := series{"EIp"}, series{"FIp"}
	s.are("a", map[series]float64{eip: 2, fip: 1})
	s.are("b", map[series]float64{eip: 3})
	if got := s.total(); got[eip] != 5 || got[fip] != 1 {
		t.Errorf("%v", got)
	}
	s.are("a", map[series]float64{eip: 1})
	if _, there := s.total()[fip]; there || s.total()[eip] != 4 {
		t.Errorf("%v", s.total())
	}
	s.are("b", nil)
	s.are("a", nil)
	if len(s.total()) > 0 || len(s.parts) > 0 {
		t.Errorf("%v is left of shards that have nothing", s.parts)
	}
}

// Misplaced pods are counted while there are some; the figure stays when there are none, so that an alert can tell none from nobody looks.
func TestMisplacedPodsAreCounted(t *testing.T) {
	c := newCounts()
	enforced, reported := series{"Enforce"}, series{"Report"}
	verdicts := []intent.Verdict{{Facts: intent.ProjectFacts{Misplaced: 2}}, {Facts: intent.EIpFacts{}}}
	c.misplaced("acme-web", verdicts, "")
	c.misplaced("acme-pay", verdicts, snapshot.Report)
	if got := c.pods.total(); got[enforced] != 2 || got[reported] != 2 {
		t.Errorf("%v", got)
	}
	c.misplaced("acme-web", []intent.Verdict{{Facts: intent.ProjectFacts{}}}, snapshot.Enforce)
	if got, there := c.pods.total()[enforced]; got != 0 || !there {
		t.Errorf("%v", c.pods.total())
	}
}
