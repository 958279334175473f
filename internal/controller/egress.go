package controller

import (
	"context"
	"fmt"
	"time"

	"github.com/sallyport/sallyport/internal/compile"
	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/kube"
	"github.com/sallyport/sallyport/internal/ownership"
	"github.com/sallyport/sallyport/internal/reach"
	"github.com/sallyport/sallyport/internal/snapshot"
	"github.com/sallyport/sallyport/internal/state"
)

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
	want, verdicts := compile.Egress(world)
	if err := want.Err(); err != nil {
		return nil, fmt.Errorf("compile: %w", err)
	}
	work := &Work{Verdicts: verdicts, judged: inputs.Requests(), size: len(want.Rows), rowsAt: 2, unsettled: moving}
	work.rows = func() prepared { return plan(ctx, s.NB.Rows(ownership.EgressVpc), want.Rows, intent.OnlyOurs) }
	work.Plans, err = prepare(
		plan(ctx, s.NB.Remains(ownership.EgressVpc, nil), nil, afterEgress(world, want)),
		plan(ctx, kube.NewObjects(s.Cluster, ownership.EgressVpc), want.Objects, intent.AfterUsers, intent.OnceTaken(s.Clock())),
		work.rows(),
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

// settles is how long a port has to be elsewhere than we said before we believe that the engine has moved it: it takes a moment to bring it
// there, and a node that comes back from a partition may claim it for a moment.
const settles = 250 * time.Millisecond

// strayed is a port that is elsewhere than we said, and since when.
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
	now, strays := s.Clock(), map[string]strayed{}
	w.Moved = map[string]string{}
	holders := s.SB.Holders(ownership.EgressVpc)
	for port, held := range w.Held {
		at := holders[port]
		if len(held.Chassis) == 0 || at == "" || at == held.Chassis[0] {
			continue
		}
		stray := strayed{held.Chassis[0], at, now}
		if known := s.strays[port]; known.said == stray.said && known.at == stray.at {
			stray.since = known.since
		}
		strays[port] = stray
		if now.Sub(stray.since) < settles {
			moving = true
		} else {
			w.Moved[port] = at
		}
	}
	s.strays = strays
	return moving
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
