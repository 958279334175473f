package controller

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/sallyport/sallyport/internal/compile"
	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/kube"
	"github.com/sallyport/sallyport/internal/ownership"
	"github.com/sallyport/sallyport/internal/reach"
	"github.com/sallyport/sallyport/internal/snapshot"
	"github.com/sallyport/sallyport/internal/state"
)

// memory is what the shard of egress addresses remembers from one run to the next: no two of its runs are at the same time.
type memory struct {
	leveled time.Time             // when the last address went to a node that holds fewer, or we began
	places  map[netip.Addr]string // the nodes of addresses
	said    map[string]strayed    // where we say that addresses are, by port
	strays  map[string]strayed    // those that are elsewhere
	losers  map[string]strayed    // where those were that the engine has moved a short time ago, and when
}

// prepareEgress gathers, compiles and compares what holds egress addresses.
func (s *Shards) prepareEgress(ctx context.Context) (*Work, error) {
	inputs, world, err := s.Cluster.GatherEgress(ctx)
	if err != nil {
		return nil, fmt.Errorf("gather: %w", err)
	}
	world.Liveness, world.Settings = s.Config.Liveness, s.NB.Settings()
	world.Links, world.Held, world.Ends = s.NB.Links(ownership.EgressVpc), s.NB.Held(ownership.EgressVpc), map[string]bool{}
	for _, r := range world.Requests {
		for _, a := range kube.Addresses(r.Addresses) {
			for _, vpc := range r.Vpcs {
				end := ownership.EgressEnd(vpc, a)
				world.Ends[end] = s.NB.Network(end).IsValid()
			}
		}
	}
	s.probe(world)
	moving := s.follow(world)
	again := s.rebalance(world)
	if len(world.Lost) > 0 && (again == 0 || again > avoids) {
		again = avoids // then they may stand by
	}
	want, verdicts := compile.Egress(world)
	s.note(world, verdicts)
	if err := want.Err(); err != nil {
		return nil, fmt.Errorf("compile: %w", err)
	}
	work := &Work{Verdicts: verdicts, judged: inputs.Requests(), size: len(want.Rows), unsettled: moving, again: again}
	rows := func() state.Prepared {
		return state.Try(ctx, s.NB.Rows(ownership.EgressVpc), want.Rows, intent.OnlyOurs, s.afterEnds)
	}
	work.steps, err = inSteps(
		inOVN(state.Try(ctx, s.NB.Remains(ownership.EgressVpc, nil), nil, afterEgress(world, want))),
		inKubernetes(state.Try(ctx, kube.NewObjects(s.Cluster, ownership.EgressVpc), want.Objects, intent.AfterUsers, intent.OnceTaken(s.Clock()))),
		inOVNObserved(rows),
	)
	return work, err
}

// probe lets the nodes that matter be asked, and takes those that do not answer for lost.
func (s *Shards) probe(w *snapshot.Egress) {
	if s.Probe == nil {
		return
	}
	var nodes []reach.Node
	for _, n := range w.Nodes {
		if len(w.Requests) > 0 {
			nodes = append(nodes, reach.Node{Name: n.Name, Addresses: n.Addresses})
		}
	}
	s.Probe.Watch(nodes)
	dead := s.Probe.Dead()
	for i := range w.Nodes {
		w.Nodes[i].Ready = w.Nodes[i].Ready && !dead[w.Nodes[i].Name]
	}
}

// rebalance allows one address to go to a node that holds fewer when the last one was long enough ago, and says when the next may.
func (s *Shards) rebalance(w *snapshot.Egress) (again time.Duration) {
	every := s.Config.Rebalance
	if every == 0 || len(w.Requests) == 0 {
		return 0
	}
	if s.egress.leveled.IsZero() {
		s.egress.leveled = s.Clock() // another controller may just have moved one
	}
	if since := s.Clock().Sub(s.egress.leveled); since < every {
		return every - since
	}
	w.Moves = 1
	return every
}

// note remembers where addresses are, and when one went to a node that holds fewer.
func (s *Shards) note(w *snapshot.Egress, verdicts []intent.Verdict) {
	places := map[netip.Addr]string{}
	for _, v := range verdicts {
		f := v.Facts.(intent.EgressFacts)
		if f.Leveled {
			s.egress.leveled = s.Clock()
		}
		for _, i := range f.Items {
			places[i.Address] = i.Node
		}
	}
	s.Counts.addresses(w.Nodes, places, s.egress.places, func(a netip.Addr) bool { return w.Moved[ownership.EgressPort(a)] != "" })
	s.egress.places = places
}

// settles is how long a port has to be elsewhere than we said before we believe that the engine has moved it: it takes a moment to bring it
// there. Where we have said so only a short time ago, it takes longer: nodes that have not heard of each other yet, or a node that was cut
// off and comes back with what it knew before, claim the port until they have heard of the others.
//
// A node from which the engine has moved a port does not stand by for it until it has not claimed it for some time: it may come and go.
const (
	settles = 250 * time.Millisecond
	learns  = 3 * time.Second
	avoids  = 10 * time.Second
)

// strayed is where we said that a port is, where it is instead, and since when that is so.
type strayed struct {
	said, at string
	since    time.Time
}

// follow adds what the southbound database says: nodes that the engine does not see are not ready, and ports that it has moved stay where
// it brought them. It says whether some may still be on their way.
func (s *Shards) follow(w *snapshot.Egress) (moving bool) {
	if chassis := s.SB.Chassis(); chassis != nil {
		for i := range w.Nodes {
			w.Nodes[i].Ready = w.Nodes[i].Ready && chassis[w.Nodes[i].Chassis]
		}
	}
	w.Moved, moving = s.egress.believe(w.Held, s.SB.Holders(ownership.EgressVpc), s.Clock())
	w.Lost = map[string]string{}
	for port, lost := range s.egress.losers {
		w.Lost[port] = lost.said
	}
	return moving
}

// believe says which ports the engine has moved, given who may hold each, and who does. Some may still be on their way.
func (m *memory) believe(held map[string]snapshot.Held, holders map[string]string, now time.Time) (moved map[string]string, moving bool) {
	moved = map[string]string{}
	said, strays, losers := map[string]strayed{}, map[string]strayed{}, map[string]strayed{}
	for port, h := range held {
		if len(h.Chassis) == 0 {
			continue
		}
		first, at := h.Chassis[0], holders[port]
		said[port] = m.said[port].still(strayed{said: first, since: now})
		if lost := m.losers[port].unless(at, now); lost.said != first && now.Sub(lost.since) < avoids {
			losers[port] = lost
		}
		if at == first || !slices.Contains(h.Chassis, at) {
			continue // it is in its place, or nobody who may hold it has it
		}
		strays[port] = m.strays[port].still(strayed{first, at, now})
		doubt := settles
		if strays[port].since.Sub(said[port].since) < learns {
			doubt = learns
		}
		if now.Sub(strays[port].since) < doubt {
			moving = true
		} else {
			moved[port], losers[port] = at, strayed{said: first, since: now}
		}
	}
	m.said, m.strays, m.losers = said, strays, losers
	return moved, moving
}

// unless is the same with another time, if a port is still claimed by who has lost it.
func (s strayed) unless(claims string, now time.Time) strayed {
	if claims != "" && claims == s.said {
		s.since = now
	}
	return s
}

// still is the same as before with its time, unless it is another now.
func (s strayed) still(now strayed) strayed {
	if s.said == now.said && s.at == now.at {
		return s
	}
	return now
}

// afterEnds is a guard that keeps the holders of an address until no project has an end of a link to it.
func (s *Shards) afterEnds(changes []state.Change[intent.RowKey, intent.Row], observed intent.Rows) []state.Change[intent.RowKey, intent.Row] {
	return slices.DeleteFunc(slices.Clone(changes), func(c state.Change[intent.RowKey, intent.Row]) bool {
		if !c.Removes() {
			return false
		}
		h, holds := observed[c.Key].Value.(intent.Holders)
		return holds && s.NB.HoldsOthers(ownership.EgressVpc, h.Name)
	})
}

// afterEgress is a guard that lets what Kube-OVN leaves behind of the egress router go when its Vpc is gone.
func afterEgress(w *snapshot.Egress, want *intent.Intent) state.Guard[intent.RowKey, intent.Row] {
	_, comes := want.Objects[intent.ObjectKey{Kind: intent.Vpc, Name: ownership.EgressVpc}]
	return func(changes []state.Change[intent.RowKey, intent.Row], _ intent.Rows) []state.Change[intent.RowKey, intent.Row] {
		if comes || w.Engine.Vpc.Exists {
			return nil
		}
		return changes
	}
}

// lookAtLinks adds the ways to egress addresses that are there.
func (s *Shards) lookAtLinks(w *snapshot.World) {
	if len(w.Selections) == 0 {
		return
	}
	for i := range w.Selections {
		selection := &w.Selections[i]
		for _, a := range selection.Addresses {
			if network := s.NB.Network(ownership.EgressLink(a, w.Shard)); network.IsValid() {
				selection.Links = append(selection.Links, snapshot.Link{Address: a, Network: network})
			}
		}
	}
}
