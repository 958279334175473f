package controller

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sallyport/sallyport/internal/compile"
	"github.com/sallyport/sallyport/internal/controller/nodehealth"
	"github.com/sallyport/sallyport/internal/controller/runner"
	"github.com/sallyport/sallyport/internal/engine/kube"
	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/engine/ovn"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/shard"
	"github.com/sallyport/sallyport/internal/model/snapshot"
	"github.com/sallyport/sallyport/internal/model/state"
	"github.com/sallyport/sallyport/internal/model/status"
)

// policyGracePeriod is how long Kube-OVN may take to write a router policy from the Vpc's list before we write the row
// ourselves. Within this time both might write it.
const policyGracePeriod = 2 * time.Second

// recheckInterval is when a waiting shard runs again, for conditions that no event reports.
const recheckInterval = 2 * time.Second

// Reconciler runs shards. It holds everything that a run needs.
type Reconciler struct {
	Cluster *kube.Cluster
	NB      *ovn.Client
	Config  snapshot.Config
	Clock   func() time.Time
	Record  kube.RecordFunc
	// SB reads the southbound database.
	SB *ovn.Southbound
	// Prober checks the health of nodes; nil: no checks.
	Prober *nodehealth.Prober
	// Metrics collects the metrics of runs; nil for read-only use.
	Metrics *controllerMetrics
	Logger  *slog.Logger

	changes       *changeLog
	memos         memoStore
	egress        egressMemory
	recordedNotes noteDedup
	orphans       orphanedRouters
}

// Work is what one shard needs, computed by reading only.
type Work struct {
	Verdicts      []intent.Verdict
	steps         []step
	statusObjects []client.Object
	notes         []intent.Note
	noteSubjects  []client.Object // the objects that notes may be about
	size          int             // estimated size of the shard
	// unsettled: OVN may still be moving a port.
	unsettled    bool
	wroteObjects bool                  // in a step that was observed again
	wroteRows    bool                  // in a step that was observed again
	requeueAfter time.Duration         // run again after this time in any case; 0: wait for an event
	statusDue    time.Duration         // run again after this time to write a status that is held back; 0: none is
	memo         *compile.Memo         // of the VPC; nil: there is none
	pods         *kube.EgressPodReader // of a whole run of the management VPC; nil: EgressIPs select no pods
	// isPartial: only some objects of the shard were compiled, with a memo. before are the verdicts on them of the last
	// run.
	isPartial  bool
	before     []intent.Verdict
	stored     storedMemo
	egressMemo storedEgressMemo // of the egress addresses; zero: there is none
}

// prepareByKind has the function that gathers, compiles and computes the plans of a shard, for each kind.
var prepareByKind = map[shard.Kind]func(*Reconciler, context.Context, shard.Shard) (*Work, error){
	shard.OfVPC:       (*Reconciler).prepareVPC,
	shard.OfEgress:    (*Reconciler).prepareEgress,
	shard.OfNodePaths: (*Reconciler).prepareNodes,
	shard.OfNetworks:  (*Reconciler).prepareNetworks,
}

// PrepareShard gathers, compiles and computes the plans of a shard.
func (s *Reconciler) PrepareShard(ctx context.Context, of shard.Shard) (*Work, error) {
	if err := checkConnected(s.NB); err != nil {
		return nil, err // the state and the capabilities of OVN are unknown
	}
	return prepareByKind[of.Kind](s, ctx, of)
}

// prepareVPC gathers, compiles and computes the plans of a VPC.
func (s *Reconciler) prepareVPC(ctx context.Context, of shard.Shard) (*Work, error) {
	vpc := of.Name
	inputs, world, err := s.gatherVPC(ctx, vpc, s.Cluster)
	if err != nil {
		return nil, err
	}
	want, verdicts, memo := compile.ShardWithMemo(world)
	if err := want.Err(); err != nil {
		return nil, fmt.Errorf("compile: %w", err)
	}
	work := &Work{
		Verdicts:      verdicts,
		memo:          memo,
		pods:          inputs.EgressPodReader(s.Cluster),
		statusObjects: inputs.StatusObjects(),
		notes:         want.Notes,
		noteSubjects:  inputs.EgressIPObjects(),
		size:          estimateShardSize(world, want),
	}
	rows := func() state.Prepared {
		return state.TryPreparePlan(ctx, s.NB.RowTarget(vpc), want.Rows, intent.KeepForeignRows,
			guardRouterPolicies(world))
	}
	objects := func() state.Prepared {
		return state.TryPreparePlan(ctx, kube.NewObjects(s.Cluster, vpc), want.Objects, intent.DeleteAfterUsers,
			intent.DeleteOnceProcessed(world.Now), guardVpcRemoval(world))
	}
	finalizers, err := kube.NewFinalizers(s.Cluster, work.statusObjects)
	if err != nil {
		return nil, err
	}
	// Deletions run in reverse order: an object is deleted after its finalizer is removed, a policy before its next
	// hop.
	work.steps, err = collectSteps(
		kubernetesStep(state.TryPreparePlan(ctx, finalizers, want.Finalizers)),
		ovnStep(state.TryPreparePlan(ctx, s.NB.LeakedRowTarget(vpc, externalSubnetNames(world), isRouterForgotten(world)), nil,
			guardVpcLeftovers(world, want))),
		reobservedKubernetesStep(objects),
		reobservedOVNStep(rows),
		kubernetesStep(state.TryPreparePlan(ctx, kube.NewVpcEntries(s.Cluster, vpc, inputs.AttachedSubnets()),
			want.VpcEntries, guardVpcEntries(world, want))),
		kubernetesStep(state.TryPreparePlan(ctx, kube.NewIdleServices(s.Cluster, work.statusObjects),
			want.KeptServices)),
	)
	return work, err
}

// gatherVPC reads everything that decides about a VPC.
func (s *Reconciler) gatherVPC(ctx context.Context, vpc string, from *kube.Cluster) (*kube.Inputs, *snapshot.VpcInput, error) {
	inputs, err := from.GatherVPC(ctx, vpc, s.Config.Quotas, s.NB.MisplacedPodPorts(vpc))
	if err != nil {
		return nil, nil, fmt.Errorf("gather: %w", err)
	}
	world := inputs.BuildSnapshot(s.Config, s.NB.RouterPortNames(vpc), s.Clock())
	world.Engine.Leftovers, world.Engine.ReturnPorts, world.Engine.MissingCapabilities = s.NB.LeftoverRows(vpc),
		s.NB.ReturnPortAddresses(vpc), s.NB.MissingCapabilities()
	world.Engine.VIPs, world.Engine.PortNetworks = s.NB.VIPs(vpc), s.NB.ForeignPortNetworks(vpc)
	world.Engine.OrphanedSince = s.orphans.note(vpc, world.Engine.RouterPorts != nil && !world.Engine.Vpc.Exists, world.Now)
	s.observeManagementVpc(world)
	s.observeEgressLinks(world)
	return inputs, world, nil
}

// observeManagementVpc adds facts about the management VPC from the northbound database.
func (s *Reconciler) observeManagementVpc(w *snapshot.VpcInput) {
	m := w.Management
	if m == nil {
		return
	}
	m.CurrentChassis = s.NB.GatewayChassisNames(w.Shard)
	m.HasForeignSNAT = slices.ContainsFunc(m.Prefixes, func(p netip.Prefix) bool {
		return s.NB.HasForeignSNAT(w.Shard, p)
	})
	m.ConnectedByKubeOVN = map[string]bool{}
	for _, x := range w.ExternalSubnets {
		m.ConnectedByKubeOVN[x.Subnet] = s.NB.HasForeignPort(w.Shard, kubeovn.RouterPort(w.Shard, x.Subnet))
	}
}

// guardRouterPolicies returns a guard that leaves router policies to Kube-OVN while it may still be writing them.
func guardRouterPolicies(w *snapshot.VpcInput) state.Guard[intent.RowKey, intent.Row] {
	done := w.Now.Sub(w.Engine.Vpc.LastEditedAt) > policyGracePeriod
	return func(changes []state.Change[intent.RowKey, intent.Row], _ intent.Rows) []state.Change[intent.RowKey,
		intent.Row] {
		var out []state.Change[intent.RowKey, intent.Row]
		for _, c := range changes {
			policy, isPolicy := intent.LogicalRouterPolicy{}, false
			if !c.IsRemoval() {
				policy, isPolicy = (*c.After).(intent.LogicalRouterPolicy)
			}
			if done || !isPolicy || ownership.IsRowOnlyPriority(policy.Priority) {
				out = append(out, c)
			}
		}
		return out
	}
}

// guardVpcEntries returns a guard that keeps the entries of a Vpc that is about to be deleted. They are deleted with
// it, and until then SNAT and addresses depend on them.
func guardVpcEntries(w *snapshot.VpcInput, want *intent.Intent) state.Guard[intent.VpcEntryKey, intent.VpcEntry] {
	return func(changes []state.Change[intent.VpcEntryKey, intent.VpcEntry],
		observed intent.VpcEntries,
	) []state.Change[intent.VpcEntryKey, intent.VpcEntry] {
		for key := range observed {
			if _, isWanted := want.Objects[intent.ObjectKey{Kind: intent.Vpc, Name: key.Vpc}]; !isWanted &&
				w.Management == nil {
				return state.SkipRemovals(changes, observed)
			}
		}
		return changes
	}
}

// estimateShardSize estimates the cost of a shard: its rows and their endpoints.
func estimateShardSize(w *snapshot.VpcInput, want *intent.Intent) int {
	n := len(want.Rows)
	for _, s := range w.Services {
		n += len(s.Endpoints)
	}
	return n
}

// ReconcileShard runs a shard and writes the status of its objects.
func (s *Reconciler) ReconcileShard(ctx context.Context, of shard.Shard) (runner.Result, error) {
	ctx = kube.WithTenant(ctx, of.Name)
	isRepair := s.Metrics.repairs.beginRun(of)
	work, err := s.prepareChanges(ctx, of)
	if err != nil {
		return runner.Result{}, err
	}
	if isRepair {
		s.Metrics.repairs.countRepairs(work)
		ctx = ovn.WithRepair(ctx)
	}
	failures := state.Run(ctx, work.Plans()...)
	if err := work.reobserve(); err != nil {
		return runner.Result{}, err
	}
	reported, err := s.writeStatuses(ctx, of, work, status.NewOutcome(work.Plans(), failures))
	if err != nil {
		return runner.Result{}, err
	}
	if failures = append(failures, reported...); len(failures) > 0 {
		return runner.Result{}, state.JoinFailures(failures)
	}
	if !work.isPartial {
		s.recordNotes(of, work)
	}
	s.Metrics.repairs.endRun(of, work)
	result := runner.Result{Size: work.size, Light: work.isPartial}
	switch {
	case work.unsettled:
		result.RequeueAfter = moveSettleTime
	case work.isWaiting():
		result.RequeueAfter = recheckInterval
	default:
		result.RequeueAfter = work.requeueAfter
	}
	if work.statusDue > 0 && (result.RequeueAfter == 0 || work.statusDue < result.RequeueAfter) {
		result.RequeueAfter = work.statusDue
	}
	if !s.keepMemos(of, work, result.RequeueAfter) {
		result.RequeueAfter = minRequeueDelay
	}
	return result, nil
}

// noteDedup remembers the recorded notes of each shard, so that a note is recorded once while it remains true.
type noteDedup struct {
	mu    sync.Mutex
	notes map[shard.Shard]map[intent.Note]bool
}

// recordNotes records notes that are new.
func (s *Reconciler) recordNotes(of shard.Shard, w *Work) {
	s.recordedNotes.mu.Lock()
	defer s.recordedNotes.mu.Unlock()
	before, now := s.recordedNotes.notes[of], map[intent.Note]bool{}
	for _, n := range w.notes {
		now[n] = true
		for _, o := range w.noteSubjects {
			if key, err := kube.KeyOf(o); err == nil && key == n.Object && !before[n] && s.Record != nil {
				s.Record(o, true, n.Finding.Reason, n.Finding.Message)
			}
		}
	}
	if s.recordedNotes.notes == nil {
		s.recordedNotes.notes = map[shard.Shard]map[intent.Note]bool{}
	}
	if s.recordedNotes.notes[of] = now; len(now) == 0 {
		delete(s.recordedNotes.notes, of)
	}
}

// prepareNodes gathers, compiles and computes the plan of the NodePaths.
func (s *Reconciler) prepareNodes(ctx context.Context, of shard.Shard) (*Work, error) {
	inputs, err := s.Cluster.GatherNodePaths(ctx)
	if err != nil {
		return nil, fmt.Errorf("gather: %w", err)
	}
	world := inputs.BuildNodeSnapshot(s.Config)
	s.Metrics.recordNodeNetworks(world)
	want, verdicts := compile.Nodes(world)
	if err := want.Err(); err != nil {
		return nil, fmt.Errorf("compile: %w", err)
	}
	work := &Work{
		Verdicts: verdicts, statusObjects: inputs.StatusObjects(), notes: want.Notes,
		noteSubjects: inputs.StatusObjects(), size: len(want.Objects),
	}
	work.steps, err = collectSteps(kubernetesStep(state.TryPreparePlan(ctx,
		kube.NewObjects(s.Cluster, of.Name), want.Objects)))
	return work, err
}

// prepareNetworks gathers and compiles the status of external networks, and those that are created from labelled Subnets.
func (s *Reconciler) prepareNetworks(ctx context.Context, of shard.Shard) (*Work, error) {
	networks, objects, err := s.Cluster.GatherNetworks(ctx)
	if err != nil {
		return nil, fmt.Errorf("gather: %w", err)
	}
	networks.DefaultReturnPath, networks.MissingCapabilities, networks.ClusterPrefixes = s.Config.DefaultReturnPath,
		s.NB.MissingCapabilities(), s.Config.ClusterPrefixes
	want := compile.GeneratedNetworks(networks)
	if err := want.Err(); err != nil {
		return nil, fmt.Errorf("compile: %w", err)
	}
	work := &Work{Verdicts: compile.Networks(networks), statusObjects: objects, size: len(want.Objects)}
	work.steps, err = collectSteps(kubernetesStep(state.TryPreparePlan(ctx, kube.NewObjects(s.Cluster, of.Name),
		want.Objects)))
	return work, err
}

func (s *Reconciler) writeStatuses(ctx context.Context, of shard.Shard, work *Work, outcome status.Outcome,
) ([]state.Failure, error) {
	judged, verdicts := work.statusObjects, work.Verdicts
	if work.isPartial {
		s.Metrics.updateConditions(of, status.CountConditions(work.before, status.Outcome{}),
			status.CountConditions(verdicts, outcome))
	} else {
		s.Metrics.recordConditions(of, status.CountConditions(verdicts, outcome))
		s.Metrics.recordMisplacedPods(of, verdicts, s.Config.Isolation)
	}
	statuses, err := kube.NewStatuses(s.Cluster, judged, s.Clock, s.Record)
	if err != nil {
		return nil, err
	}
	hold := &statusHold{
		work: work, outcome: outcome, now: s.Clock(),
		vips: func() map[string]snapshot.VIP { return s.NB.VIPs(of.Name) },
	}
	plan, err := state.PreparePlan(ctx, statuses, status.RenderStatuses(verdicts, outcome), state.SkipRemovals,
		hold.guard)
	if err != nil {
		return nil, err
	}
	work.statusDue = hold.due
	return state.Run(ctx, plan), nil
}

// isWaiting reports whether something is not in its final state and no event may report the change.
func (w *Work) isWaiting() bool {
	for _, v := range w.Verdicts {
		f, isService := v.Facts.(intent.ServiceFacts)
		if !v.Waiting.OK() || !v.Held.OK() || isService && f.Lonely && f.Expires {
			return true
		}
	}
	for _, p := range w.steps {
		for _, l := range p.ChangeKeys() {
			if l.Held {
				return true
			}
		}
	}
	return false
}
