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
	"github.com/sallyport/sallyport/internal/model/snapshot"
	"github.com/sallyport/sallyport/internal/model/state"
)

// egressMemory is what the shard of egress addresses remembers from one run to the next: no two of its runs are at the
// same time.
type egressMemory struct {
	lastRebalance time.Time                // when the last address went to a node that holds fewer, or we began
	placements    map[netip.Addr]string    // the nodes of addresses
	assigned      map[string]portPlacement // where we say that addresses are, by port
	strayPorts    map[string]portPlacement // those that are elsewhere
	failedOver    map[string]portPlacement // where those were that the engine has moved a short time ago, and when
}

// prepareEgress gathers, compiles and compares what holds egress addresses.
func (s *Reconciler) prepareEgress(ctx context.Context) (*Work, error) {
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
		again = standbyAvoidTime // then they may stand by
	}
	want, verdicts := compile.Egress(world)
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
	}
	rows := func() state.Prepared {
		return state.TryPreparePlan(ctx, s.NB.RowTarget(ownership.EgressVpc), want.Rows, intent.KeepForeignRows,
			s.guardChassisGroups)
	}
	work.steps, err = collectSteps(
		ovnStep(state.TryPreparePlan(ctx, s.NB.LeakedRowTarget(ownership.EgressVpc, nil), nil,
			guardEgressLeftovers(world, want))),
		kubernetesStep(state.TryPreparePlan(ctx, kube.NewObjects(s.Cluster, ownership.EgressVpc), want.Objects,
			intent.DeleteAfterUsers, intent.DeleteOnceProcessed(s.Clock()))),
		reobservedOVNStep(rows),
	)
	return work, err
}

// probeNodes lets the nodes that matter be asked, and takes those that do not answer for lost.
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
		w.Nodes[i].Ready = w.Nodes[i].Ready && !dead[w.Nodes[i].Name]
	}
}

// allowRebalance allows one address to go to a node that holds fewer when the last one was long enough ago, and says
// when the next may.
func (s *Reconciler) allowRebalance(w *snapshot.EgressInput) (again time.Duration) {
	every := s.Config.RebalanceInterval
	if every == 0 || len(w.EgressIPs) == 0 {
		return 0
	}
	if s.egress.lastRebalance.IsZero() {
		s.egress.lastRebalance = s.Clock() // another controller may just have moved one
	}
	if since := s.Clock().Sub(s.egress.lastRebalance); since < every {
		return every - since
	}
	w.AllowedMoves = 1
	return every
}

// recordPlacements remembers where addresses are, and when one went to a node that holds fewer.
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

// moveSettleTime is how long a port has to be elsewhere than we said before we believe that the engine has moved it: it
// takes a moment to bring it there. Where we have said so only a short time ago, it takes longer: nodes that have not
// heard of each other yet, or a node that was cut off and comes back with what it knew before, claim the port until
// they have heard of the others.
//
// A node from which the engine has moved a port does not stand by for it until it has not claimed it for some time: it
// may come and go.
const (
	moveSettleTime     = 250 * time.Millisecond
	reassignSettleTime = 3 * time.Second
	standbyAvoidTime   = 10 * time.Second
)

// portPlacement is where we said that a port is, where it is instead, and since when that is so.
type portPlacement struct {
	assigned, actual string
	since            time.Time
}

// applySouthbound adds what the southbound database says: nodes that the engine does not see are not ready, and ports
// that it has moved stay where it brought them. It says whether some may still be on their way.
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

// detectMoves says which ports the engine has moved, given who may hold each, and who does. Some may still be on their
// way.
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
			continue // it is in its place, or nobody who may hold it has it
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

// refreshIfClaimed is the same with another time, if a port is still claimed by who has lost it.
func (s portPlacement) refreshIfClaimed(claims string, now time.Time) portPlacement {
	if claims != "" && claims == s.assigned {
		s.since = now
	}
	return s
}

// keepSince is the same as before with its time, unless it is another now.
func (s portPlacement) keepSince(now portPlacement) portPlacement {
	if s.assigned == now.assigned && s.actual == now.actual {
		return s
	}
	return now
}

// guardChassisGroups is a guard that keeps the holders of an address until no project has an end of a link to it.
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

// guardEgressLeftovers is a guard that lets what Kube-OVN leaves behind of the egress router go when its Vpc is gone.
func guardEgressLeftovers(w *snapshot.EgressInput, want *intent.Intent) state.Guard[intent.RowKey, intent.Row] {
	_, comes := want.Objects[intent.ObjectKey{Kind: intent.Vpc, Name: ownership.EgressVpc}]
	return func(changes []state.Change[intent.RowKey, intent.Row], _ intent.Rows) []state.Change[intent.RowKey,
		intent.Row] {
		if comes || w.Engine.Vpc.Exists {
			return nil
		}
		return changes
	}
}

// observeEgressLinks adds the ways to egress addresses that are there.
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
