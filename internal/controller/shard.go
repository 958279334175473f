package controller

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sallyport/sallyport/internal/compile"
	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/kube"
	"github.com/sallyport/sallyport/internal/ovn"
	"github.com/sallyport/sallyport/internal/ownership"
	"github.com/sallyport/sallyport/internal/reach"
	"github.com/sallyport/sallyport/internal/runner"
	"github.com/sallyport/sallyport/internal/snapshot"
	"github.com/sallyport/sallyport/internal/state"
	"github.com/sallyport/sallyport/internal/status"
)

// grace is how long Kube-OVN may take to write a router policy that we asked for, before we write it ourselves: while it is
// at it, both would.
const grace = 2 * time.Second

// look is when a shard that waits for something is looked at again, for what no event tells.
const look = 2 * time.Second

// Shards is what one shard needs, and its doing.
type Shards struct {
	Cluster *kube.Cluster
	NB      *ovn.Client
	Config  snapshot.Config
	Clock   func() time.Time
	Record  kube.Recorder
	// SB is what the southbound database says.
	SB *ovn.Southbound
	// Probe asks nodes whether they are there; nil: nobody does.
	Probe *reach.Prober
	// Counts is what is counted while shards are run; nil where they are only looked at.
	Counts *counts

	egress memory
	told   told
}

// Work is what one shard needs, worked out by reading only.
type Work struct {
	Verdicts []intent.Verdict
	steps    []step
	judged   []client.Object
	notes    []intent.Note
	noted    []client.Object // what they may be about
	size     int             // how much there is in the shard
	// unsettled: the engine may still be carrying something out.
	unsettled bool
	again     time.Duration // after that it is to be looked at in any case; 0: not
}

// Prepare gathers, compiles and compares.
func (s *Shards) Prepare(ctx context.Context, shard string) (*Work, error) {
	if err := connected(s.NB); err != nil {
		return nil, err
	}
	switch shard {
	case ownership.EgressVpc:
		return s.prepareEgress(ctx)
	case ownership.NodesShard:
		return s.prepareNodes(ctx)
	}
	inputs, err := s.Cluster.Gather(ctx, shard, s.Config.Quotas, s.NB.Misplaced(shard))
	if err != nil {
		return nil, fmt.Errorf("gather: %w", err)
	}
	world := inputs.World(s.Config, s.NB.Ports(shard), s.Clock())
	world.Engine.Left, world.Engine.Legs, world.Engine.Lacks = s.NB.Left(shard), s.NB.Legs(shard), s.NB.Lacks()
	world.Engine.Balanced, world.Engine.Networks = s.NB.Balanced(shard), s.NB.Networks(shard)
	s.lookAtManagement(world)
	s.lookAtLinks(world)
	want, verdicts := compile.Shard(world)
	if err := want.Err(); err != nil {
		return nil, fmt.Errorf("compile: %w", err)
	}
	work := &Work{Verdicts: verdicts, judged: inputs.Judged(), notes: want.Notes, noted: inputs.Requests(), size: sizeOf(world, want)}
	rows := func() state.Prepared {
		return state.Try(ctx, s.NB.Rows(shard), want.Rows, intent.OnlyOurs, settled(world))
	}
	finalizers, err := kube.NewFinalizers(s.Cluster, work.judged)
	if err != nil {
		return nil, err
	}
	// What is made first goes last: an object can't go before its finalizer, and a policy goes before what it leads to.
	work.steps, err = inSteps(
		inKubernetes(state.Try(ctx, finalizers, want.Finalizers)),
		inOVN(state.Try(ctx, s.NB.Remains(shard, externals(world)), nil, afterVpc(world, want))),
		inKubernetes(state.Try(ctx, kube.NewObjects(s.Cluster, shard), want.Objects,
			intent.AfterUsers, intent.OnceTaken(world.Now), afterSwitch(world))),
		inOVNObserved(rows),
		inKubernetes(state.Try(ctx, kube.NewElements(s.Cluster, shard, inputs.Attached()), want.Elements, withVpc(world, want))),
		inKubernetes(state.Try(ctx, kube.NewStays(s.Cluster, work.judged), want.Stays)),
	)
	return work, err
}

// lookAtManagement adds what the OVN database says of the management VPC.
func (s *Shards) lookAtManagement(w *snapshot.World) {
	m := w.Management
	if m == nil {
		return
	}
	m.Holding = s.NB.Gateways(w.Shard)
	m.Translated = slices.ContainsFunc(m.Prefixes, func(p netip.Prefix) bool { return s.NB.Translated(w.Shard, p) })
	m.Connected = map[string]bool{}
	for _, x := range w.Externals {
		m.Connected[x.Subnet] = s.NB.Foreign(w.Shard, w.Shard+"-"+x.Subnet)
	}
}

// settled is a guard that leaves router policies to Kube-OVN while it may still be writing them.
func settled(w *snapshot.World) state.Guard[intent.RowKey, intent.Row] {
	done := w.Now.Sub(w.Engine.Vpc.Touched) > grace
	return func(changes []state.Change[intent.RowKey, intent.Row], _ intent.Rows) []state.Change[intent.RowKey, intent.Row] {
		var out []state.Change[intent.RowKey, intent.Row]
		for _, c := range changes {
			policy, isPolicy := intent.RouterPolicy{}, false
			if !c.Removes() {
				policy, isPolicy = (*c.After).(intent.RouterPolicy)
			}
			if done || !isPolicy || ownership.Unlisted(policy.Priority) {
				out = append(out, c)
			}
		}
		return out
	}
}

// withVpc is a guard that leaves the elements of a Vpc which is about to go: they go with it, and until then SNAT and
// addresses hang on them.
func withVpc(w *snapshot.World, want *intent.Intent) state.Guard[intent.ElementKey, intent.Element] {
	return func(changes []state.Change[intent.ElementKey, intent.Element], observed intent.Elements) []state.Change[intent.ElementKey, intent.Element] {
		for key := range observed {
			if _, stays := want.Objects[intent.ObjectKey{Kind: intent.Vpc, Name: key.Vpc}]; !stays && w.Management == nil {
				return state.OnlyGrow(changes, observed)
			}
		}
		return changes
	}
}

// sizeOf is how much there is to do for a shard: rows, and what is in them.
func sizeOf(w *snapshot.World, want *intent.Intent) int {
	n := len(want.Rows)
	for _, s := range w.Services {
		n += len(s.Endpoints)
	}
	return n
}

// Run does what a shard needs and reports it.
func (s *Shards) Run(ctx context.Context, shard string) (runner.Result, error) {
	if shard == kube.NetworksShard {
		return runner.Result{}, s.runNetworks(ctx)
	}
	mends := s.Counts.repairs.begins(shard)
	work, err := s.Prepare(ctx, shard)
	if err != nil {
		return runner.Result{}, err
	}
	if mends {
		s.Counts.repairs.mends(work)
	}
	failures := state.Run(ctx, work.Plans()...)
	if err := work.look(); err != nil {
		return runner.Result{}, err
	}
	reported, err := s.report(ctx, shard, work.judged, work.Verdicts, status.Observe(work.Plans(), failures))
	if err != nil {
		return runner.Result{}, err
	}
	if failures = append(failures, reported...); len(failures) > 0 {
		return runner.Result{}, state.Failed(failures)
	}
	s.tell(shard, work)
	s.Counts.repairs.ended(shard, work)
	result := runner.Result{Size: work.size}
	switch {
	case work.unsettled:
		result.Again = settles
	case work.waits():
		result.Again = look
	default:
		result.Again = work.again
	}
	return result, nil
}

// told is what was told of each shard, so that it is not told again as long as it holds.
type told struct {
	mu    sync.Mutex
	notes map[string]map[intent.Note]bool
}

// tell tells what is new.
func (s *Shards) tell(shard string, w *Work) {
	s.told.mu.Lock()
	defer s.told.mu.Unlock()
	before, now := s.told.notes[shard], map[intent.Note]bool{}
	for _, n := range w.notes {
		now[n] = true
		for _, o := range w.noted {
			if key, err := kube.KeyOf(o); err == nil && key == n.Object && !before[n] && s.Record != nil {
				s.Record(o, true, n.Finding.Reason, n.Finding.Message)
			}
		}
	}
	if s.told.notes == nil {
		s.told.notes = map[string]map[intent.Note]bool{}
	}
	if s.told.notes[shard] = now; len(now) == 0 {
		delete(s.told.notes, shard)
	}
}

// prepareNodes gathers, compiles and compares what nodes have to do themselves.
func (s *Shards) prepareNodes(ctx context.Context) (*Work, error) {
	inputs, err := s.Cluster.GatherNodes(ctx)
	if err != nil {
		return nil, fmt.Errorf("gather: %w", err)
	}
	world := inputs.Nodes(s.Config)
	s.Counts.nodes(world)
	want, verdicts := compile.Nodes(world)
	if err := want.Err(); err != nil {
		return nil, fmt.Errorf("compile: %w", err)
	}
	work := &Work{
		Verdicts: verdicts, judged: inputs.Judged(), notes: want.Notes, noted: inputs.Judged(), size: len(want.Objects),
	}
	work.steps, err = inSteps(inKubernetes(state.Try(ctx, kube.NewObjects(s.Cluster, ownership.NodesShard), want.Objects)))
	return work, err
}

// runNetworks reports how external networks are doing. Nothing else is written for them.
func (s *Shards) runNetworks(ctx context.Context) error {
	if err := connected(s.NB); err != nil {
		return err // what the engine can do is not known
	}
	networks, judged, err := s.Cluster.GatherNetworks(ctx)
	if err != nil {
		return fmt.Errorf("gather networks: %w", err)
	}
	networks.Return, networks.Lacks, networks.Inside = s.Config.Return, s.NB.Lacks(), s.Config.Inside
	failures, err := s.report(ctx, kube.NetworksShard, judged, compile.Networks(networks), status.Outcome{})
	if err != nil || len(failures) == 0 {
		return err
	}
	return state.Failed(failures)
}

// report writes the status of objects.
func (s *Shards) report(ctx context.Context, shard string, judged []client.Object, verdicts []intent.Verdict, outcome status.Outcome) ([]state.Failure, error) {
	s.Counts.told(shard, status.Count(verdicts, outcome))
	s.Counts.misplaced(shard, verdicts, s.Config.Isolation)
	statuses, err := kube.NewStatuses(s.Cluster, judged, s.Clock, s.Record)
	if err != nil {
		return nil, err
	}
	plan, err := state.Prepare(ctx, statuses, status.Render(verdicts, outcome), state.OnlyGrow)
	if err != nil {
		return nil, err
	}
	return state.Run(ctx, plan), nil
}

// waits says whether something is not as it should be that no event may tell of.
func (w *Work) waits() bool {
	for _, v := range w.Verdicts {
		f, isService := v.Facts.(intent.ServiceFacts)
		if !v.Waiting.OK() || !v.Held.OK() || isService && f.Lonely && f.Expires {
			return true
		}
	}
	for _, p := range w.steps {
		for _, l := range p.Changes() {
			if l.Held {
				return true
			}
		}
	}
	return false
}
