package controller

import (
	"errors"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/shard"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// workWithRows returns the work of a shard whose plan has this many rows to write.
func workWithRows(t *testing.T, rows int) *Work {
	t.Helper()
	steps, err := collectSteps(ovnStep(planWithRows(t, rows)))
	if err != nil {
		t.Fatal(err)
	}
	return &Work{steps: steps, Verdicts: []intent.Verdict{{}}}
}

// A change counts as a repair only after a run with nothing left to do, and if no input changed since.
func TestRepairs(t *testing.T) {
	acme := shard.Named("acme-web")
	r := newRepairCounter()
	run := func(by []string, before, after int) {
		for _, b := range by {
			r.noteTrigger(acme, b)
		}
		if mends := r.beginRun(acme); mends {
			r.countRepairs(workWithRows(t, before))
		}
		r.endRun(acme, workWithRows(t, after))
	}
	for _, step := range []struct {
		what          string
		by            []string
		before, after int
		repaired      float64
	}{
		{"the controller begins, and much is to be written", []string{"Project"}, 7, 7, 0},
		{"what was written is seen", []string{sourceOVN}, 0, 0, 0},
		{"somebody takes three rows away", []string{sourceOVN}, 3, 0, 3},
		{"and again", []string{sourceOVN}, 2, 0, 5},
		{"a pod has another address", []string{"Pod"}, 1, 0, 5},
		{"both at once: nobody knows", []string{sourceOVN, "Pod"}, 1, 0, 5},
		{"a row that can't be put right", []string{sourceOVN}, 1, 1, 6},
		{"is tried again, and counted once", nil, 1, 0, 6},
		{"an object of Kube-OVN's is changed", []string{sourceOVN, "OvnEip"}, 1, 0, 7},
	} {
		run(step.by, step.before, step.after)
		var now dto.Metric
		if err := r.total.WithLabelValues("OVN").Write(&now); err != nil ||
			now.GetCounter().GetValue() != step.repaired {
			t.Errorf("%s: %v repairs, want %v (%v)", step.what, now.GetCounter().GetValue(), step.repaired, err)
		}
	}
}

func TestFailingShards(t *testing.T) {
	c := newControllerMetrics()
	for _, run := range []struct {
		shard string
		err   error
		want  float64
	}{
		{"a", errors.New("no"), 1},
		{"b", nil, 1},
		{"b", errors.New("no"), 2},
		{"b", errors.New("no"), 2},
		{"a", nil, 1},
		{"b", nil, 0},
	} {
		if c.countRun(shard.Named(run.shard), time.Millisecond, run.err); c.countFailingShards() != run.want {
			t.Errorf("after %s, %v: %v fail, want %v", run.shard, run.err, c.countFailingShards(), run.want)
		}
	}
}

// The values of a shard replace its previous values; values that no shard reports disappear.
func TestSums(t *testing.T) {
	var s partitionedSeries
	eip, fip := labelValues{"EIp"}, labelValues{"FIp"}
	s.replacePart("a", map[labelValues]float64{eip: 2, fip: 1})
	s.replacePart("b", map[labelValues]float64{eip: 3})
	if got := s.sumParts(); got[eip] != 5 || got[fip] != 1 {
		t.Errorf("%v", got)
	}
	s.replacePart("a", map[labelValues]float64{eip: 1})
	if _, there := s.sumParts()[fip]; there || s.sumParts()[eip] != 4 {
		t.Errorf("%v", s.sumParts())
	}
	s.replacePart("b", nil)
	s.replacePart("a", nil)
	if len(s.sumParts()) > 0 || len(s.parts) > 0 {
		t.Errorf("%v is left of shards that have nothing", s.parts)
	}
}

// Misplaced pods are counted. The series remains at zero without any, so that an alert can tell "none" from "no data".
func TestMisplacedPodsAreCounted(t *testing.T) {
	c := newControllerMetrics()
	enforced, reported := labelValues{"Enforce"}, labelValues{"Report"}
	verdicts := []intent.Verdict{{Facts: intent.ProjectFacts{Misplaced: 2}}, {Facts: intent.EIpFacts{}}}
	c.recordMisplacedPods(shard.Named("acme-web"), verdicts, "")
	c.recordMisplacedPods(shard.Named("acme-pay"), verdicts, snapshot.IsolationReport)
	if got := c.misplacedPods.sumParts(); got[enforced] != 2 || got[reported] != 2 {
		t.Errorf("%v", got)
	}
	c.recordMisplacedPods(shard.Named("acme-web"), []intent.Verdict{{Facts: intent.ProjectFacts{}}}, snapshot.IsolationEnforce)
	if got, there := c.misplacedPods.sumParts()[enforced]; got != 0 || !there {
		t.Errorf("%v", c.misplacedPods.sumParts())
	}
}
