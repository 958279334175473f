package controller

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sallyport/sallyport/internal/compile"
	"github.com/sallyport/sallyport/internal/engine/kube"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/shard"
	"github.com/sallyport/sallyport/internal/model/state"
)

// Preview computes what the controller would do if objects were added or replaced.
type Preview struct {
	s    *Reconciler
	with *kube.Cluster
}

// NewPreview returns a preview for objects as they would be.
func (s *Reconciler) NewPreview(objects []client.Object) *Preview {
	return &Preview{s: s, with: s.Cluster.WithObjects(objects)}
}

// ListShards returns the shards that decide about objects.
func (p *Preview) ListShards(ctx context.Context, objects []client.Object) ([]shard.Shard, error) {
	return p.with.ShardsOfObjects(ctx, objects)
}

// PrepareShard compiles a shard and compares it with the cluster as it is. Of a VPC it computes the final state, after
// Kube-OVN has done its part; of other shards the next step.
func (p *Preview) PrepareShard(ctx context.Context, of shard.Shard) (*Work, error) {
	if err := checkConnected(p.s.NB); err != nil {
		return nil, err
	}
	if of.Kind != shard.OfVPC {
		there := &Reconciler{Cluster: p.with, NB: p.s.NB, SB: p.s.SB, Config: p.s.Config, Clock: p.s.Clock}
		return prepareByKind[of.Kind](there, ctx, of)
	}
	return p.prepareVPC(ctx, of.Name)
}

// prepareVPC simulates Kube-OVN until nothing changes, and compares the result with the cluster.
func (p *Preview) prepareVPC(ctx context.Context, vpc string) (*Work, error) {
	inputs, world, err := p.s.gatherVPC(ctx, vpc, p.with)
	if err != nil {
		return nil, err
	}
	want, verdicts := compile.Simulate(*world)
	if err := want.Err(); err != nil {
		return nil, fmt.Errorf("compile: %w", err)
	}
	work := &Work{Verdicts: verdicts, statusObjects: inputs.StatusObjects()}
	work.steps, err = collectSteps(
		kubernetesStep(state.TryPreparePlan(ctx, kube.NewObjects(p.s.Cluster, vpc), want.Objects)),
		ovnStep(state.TryPreparePlan(ctx, p.s.NB.RowTarget(vpc), want.Rows, intent.KeepForeignRows)),
		kubernetesStep(state.TryPreparePlan(ctx, kube.NewVpcEntries(p.s.Cluster, vpc, inputs.AttachedSubnets()),
			want.VpcEntries, guardVpcEntries(world, want))),
	)
	return work, err
}
