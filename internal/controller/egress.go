package controller

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/sallyport/sallyport/internal/compile"
	"github.com/sallyport/sallyport/internal/controller/nodehealth"
	"github.com/sallyport/sallyport/internal/engine/kube"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/shard"
	"github.com/sallyport/sallyport/internal/model/snapshot"
	"github.com/sallyport/sallyport/internal/model/state"
)

// egressMemory is what the shard of egress addresses keeps between runs. Its runs never overlap.
type egressMemory struct {
	lastRebalance time.Time                // last move to a node with fewer addresses, or the start
	placements    map[netip.Addr]string    // the node of each address
	assigned      map[string]portPlacement // where we assigned addresses, by port
	strayPorts    map[string]portPlacement // ports that are elsewhere
	failedOver    map[string]portPlacement // previous place of ports that OVN moved a short time ago, and when
	memo          storedEgressMemo         // of the last run, if it left nothing to do
}

// prepareEgress gathers, compiles and computes the plans of the egress addresses.
func (s *Reconciler) prepareEgress(ctx context.Context, _ shard.Shard) (*Work, error) {
	inputs, world, err := s.Cluster.GatherEgress(ctx)
	if err != nil {
		return nil, fmt.Errorf("gather: %w", err)
	}
	world.BFDInterval, world.GlobalOptions = s.Config.BFDInterval, s.NB.NBGlobalOptions()
	world.PortNetworks, world.ChassisGroups, world.PeerPorts = s.NB.OwnPortNetworks(ownership.EgressVpc),
		s.NB.HAChassisGroups(ownership.EgressVpc), map[string]bool{}
	for _, r := range world.EgressIPs {
		for _, a := range kube.ParseAddresses(r.Addresses) {
			for _, vpc := range r.Vpcs {
				end := ownership.VPCEgressLinkPort(vpc, a)
				world.PeerPorts[end] = s.NB.PortNetwork(end).IsValid()
			}
		}
	}
	s.probeNodes(world)
	moving := s.applySouthbound(world)
	again := s.allowRebalance(world)
	if len(world.FailedOverFrom) > 0 && (again == 0 || again > standbyAvoidTime) {
		again = standbyAvoidTime // after that, these nodes may be standby again
	}
	want, verdicts, memo := compile.EgressWithMemo(world)
	s.recordPlacements(world, verdicts)
	if err := want.Err(); err != nil {
		return nil, fmt.Errorf("compile: %w", err)
	}
	work := &Work{
		Verdicts:      verdicts,
		statusObjects: inputs.EgressIPObjects(),
		size:          len(want.Rows),
		unsettled:     moving,
		requeueAfter:  again,
		egressMemo:    storedEgressMemo{memo: memo, settledAt: s.Clock()},
	}
	if again > 0 {
		work.egressMemo.dueAt = s.Clock().Add(again)
	}
	rows := func() state.Prepared {
		return state.TryPreparePlan(ctx, s.NB.RowTarget(ownership.EgressVpc), want.Rows, intent.KeepForeignRows,
			s.guardChassisGroups)
	}
	work.steps, err = collectSteps(
		ovnStep(state.TryPreparePlan(ctx, s.NB.LeakedRowTarget(ownership.EgressVpc, nil, false), nil,
			guardEgressLeftovers(world, want))),
		kubernetesStep(state.TryPreparePlan(ctx, kube.NewObjects(s.Cluster, ownership.EgressVpc), want.Objects,
			intent.DeleteAfterUsers, intent.DeleteOnceProcessed(s.Clock()))),
		reobservedOVNStep(rows),
	)
	return work, err
}

// probeNodes sets which nodes are probed, and marks nodes that do not answer as not ready.
func (s *Reconciler) probeNodes(w *snapshot.EgressInput) {
	if s.Prober == nil {
		return
	}
	var nodes []nodehealth.Node
	for _, n := range w.Nodes {
		if len(w.EgressIPs) > 0 {
			nodes = append(nodes, nodehealth.Node{Name: n.Name, Addresses: n.Addresses})
		}
	}
	s.Prober.SetNodes(nodes)
	dead := s.Prober.DeadNodes()
	for i := range w.Nodes {
		w.Nodes[i].Dead = dead[w.Nodes[i].Name]
		w.Nodes[i].Ready = w.Nodes[i].Ready && !w.Nodes[i].Dead
	}
}

// allowRebalance allows one address to move to a node with fewer addresses if the last move was long enough ago. It
// returns when the next move is allowed.
func (s *Reconciler) allowRebalance(w *snapshot.EgressInput) (again time.Duration) {
	every := s.Config.RebalanceInterval
	if every == 0 || len(w.EgressIPs) == 0 {
		return 0
	}
	if s.egress.lastRebalance.IsZero() {
		s.egress.lastRebalance = s.Clock() // another controller may have just moved one
	}
	if since := s.Clock().Sub(s.egress.lastRebalance); since < every {
		return every - since
	}
	w.AllowedMoves = 1
	return every
}

// recordPlacements remembers the nodes of addresses, and when one moved to a node with fewer addresses.
func (s *Reconciler) recordPlacements(w *snapshot.EgressInput, verdicts []intent.Verdict) {
	places := map[netip.Addr]string{}
	for _, v := range verdicts {
		f := v.Facts.(intent.EgressIPFacts)
		if f.Leveled {
			s.egress.lastRebalance = s.Clock()
		}
		for _, i := range f.Items {
			places[i.Address] = i.Node
		}
	}
	s.Metrics.recordEgressAddresses(w.Nodes, places, s.egress.placements, func(a netip.Addr) bool {
		return w.FailedOverTo[ownership.EgressRouterPort(a)] != ""
	})
	s.egress.placements = places
}

// moveSettleTime is how long a port has to be on another chassis than assigned before we accept that OVN moved it: OVN
// needs a moment to bind the port where we assigned it. After a recent assignment we wait reassignSettleTime: nodes
// that do not know each other yet, or a node that was cut off and returns with old state, claim the port until they
// hear from the others.
//
// standbyAvoidTime: a node that lost a port to failover is not standby for it until it has not claimed the port for
// this time, because it may be flapping.
const (
	moveSettleTime     = 250 * time.Millisecond
	reassignSettleTime = 3 * time.Second
	standbyAvoidTime   = 10 * time.Second
)

// portPlacement is where we assigned a port, where it is instead, and since when.
type portPlacement struct {
	assigned, actual string
	since            time.Time
}

// applySouthbound adds facts from the southbound database: nodes without a chassis are not ready, and ports that OVN
// moved remain where they are. It reports whether some may still be moving.
func (s *Reconciler) applySouthbound(w *snapshot.EgressInput) (moving bool) {
	if chassis := s.SB.ChassisNames(); chassis != nil {
		for i := range w.Nodes {
			w.Nodes[i].Ready = w.Nodes[i].Ready && chassis[w.Nodes[i].Chassis]
		}
	}
	w.FailedOverTo, moving = s.egress.detectMoves(w.ChassisGroups, s.SB.ChassisByPort(ownership.EgressVpc), s.Clock())
	w.FailedOverFrom = map[string]string{}
	for port, lost := range s.egress.failedOver {
		w.FailedOverFrom[port] = lost.assigned
	}
	return moving
}

// detectMoves returns which ports OVN moved, given the chassis group and the current chassis of each port, and whether
// some may still be moving.
func (m *egressMemory) detectMoves(held map[string]snapshot.HAChassisGroup, holders map[string]string,
	now time.Time,
) (moved map[string]string, moving bool) {
	moved = map[string]string{}
	said, strays, losers := map[string]portPlacement{}, map[string]portPlacement{}, map[string]portPlacement{}
	for port, h := range held {
		if len(h.Chassis) == 0 {
			continue
		}
		first, at := h.Chassis[0], holders[port]
		said[port] = m.assigned[port].keepSince(portPlacement{assigned: first, since: now})
		if lost := m.failedOver[port].refreshIfClaimed(at, now); lost.assigned != first &&
			now.Sub(lost.since) < standbyAvoidTime {
			losers[port] = lost
		}
		if at == first || !slices.Contains(h.Chassis, at) {
			continue // in place, or not on any chassis of its group
		}
		strays[port] = m.strayPorts[port].keepSince(portPlacement{first, at, now})
		doubt := moveSettleTime
		if strays[port].since.Sub(said[port].since) < reassignSettleTime {
			doubt = reassignSettleTime
		}
		if now.Sub(strays[port].since) < doubt {
			moving = true
		} else {
			moved[port], losers[port] = at, portPlacement{assigned: first, since: now}
		}
	}
	m.assigned, m.strayPorts, m.failedOver = said, strays, losers
	return moved, moving
}

// refreshIfClaimed updates the time if the chassis that lost the port still claims it.
func (s portPlacement) refreshIfClaimed(claims string, now time.Time) portPlacement {
	if claims != "" && claims == s.assigned {
		s.since = now
	}
	return s
}

// keepSince returns the previous placement, with its time, unless the placement changed.
func (s portPlacement) keepSince(now portPlacement) portPlacement {
	if s.assigned == now.assigned && s.actual == now.actual {
		return s
	}
	return now
}

// guardChassisGroups keeps the HA_Chassis_Group of an address until no project has a link to it.
func (s *Reconciler) guardChassisGroups(changes []state.Change[intent.RowKey, intent.Row],
	observed intent.Rows,
) []state.Change[intent.RowKey, intent.Row] {
	return slices.DeleteFunc(slices.Clone(changes), func(c state.Change[intent.RowKey, intent.Row]) bool {
		if !c.IsRemoval() {
			return false
		}
		h, holds := observed[c.Key].Value.(intent.HAChassisGroup)
		return holds && s.NB.IsGroupShared(ownership.EgressVpc, h.Name)
	})
}

// guardEgressLeftovers returns a guard that deletes Kube-OVN's leftovers of the egress router only when its Vpc is
// gone.
func guardEgressLeftovers(w *snapshot.EgressInput, want *intent.Intent) state.Guard[intent.RowKey, intent.Row] {
	_, wanted := want.Objects[intent.ObjectKey{Kind: intent.Vpc, Name: ownership.EgressVpc}]
	return func(changes []state.Change[intent.RowKey, intent.Row], _ intent.Rows) []state.Change[intent.RowKey,
		intent.Row] {
		if wanted || w.Engine.Vpc.Exists {
			return nil
		}
		return changes
	}
}

// observeEgressLinks adds the existing links to egress addresses.
func (s *Reconciler) observeEgressLinks(w *snapshot.VpcInput) {
	if len(w.Selections) == 0 {
		return
	}
	for i := range w.Selections {
		selection := &w.Selections[i]
		for _, a := range selection.Addresses {
			if network := s.NB.PortNetwork(ownership.EgressLinkPort(a, w.Shard)); network.IsValid() {
				selection.Links = append(selection.Links, snapshot.EgressLink{Address: a, PeerNetwork: network})
			}
		}
	}
}
