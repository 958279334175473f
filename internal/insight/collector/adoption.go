package collector

import (
	"context"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sallyport/sallyport/internal/insight/adoption"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/shard"
)

// Adoption is the plan of a VPC, and what the controller would write for it.
type Adoption struct {
	*adoption.Plan
	Shard clusterstate.Shard
}

// PlanAdoption decides what the named Projects can take over, or without names every Project that could be meant. It
// also returns the Vpcs of others that no Project can have.
func (o *Collector) PlanAdoption(ctx context.Context, named [][2]string) ([]Adoption, []adoption.Item, error) {
	look, err := o.openShards(ctx)
	if err != nil {
		return nil, nil, err
	}
	found, err := look.Cluster.ReadAdoption(ctx)
	if err != nil {
		return nil, nil, err
	}
	var unnamed []adoption.Item
	if len(named) == 0 {
		named, unnamed = found.Candidates(), found.Unnamed()
	}
	var out []Adoption
	for _, n := range named {
		plan := found.MakePlan(n[0], n[1])
		a := Adoption{Plan: plan}
		if len(plan.Problems) == 0 && !plan.IsEmpty() {
			objects, err := look.Cluster.PreviewAdoption(ctx, plan)
			if err != nil {
				return nil, nil, err
			}
			a.Shard = o.previewShard(ctx, plan.VPC, objects)
		}
		out = append(out, a)
	}
	return out, unnamed, nil
}

// previewShard compiles a VPC with objects added or replaced, and compares the result with the cluster.
func (o *Collector) previewShard(ctx context.Context, vpc string, objects []client.Object) clusterstate.Shard {
	work, err := o.shards.NewPreview(objects).PrepareShard(ctx, shard.Named(vpc))
	if err != nil {
		return clusterstate.Shard{Name: vpc, Problem: joinLines(err)}
	}
	return clusterstate.EscapeControlChars(clusterstate.NewShard(vpc, work.Plans(), work.Verdicts))
}

// ApplyAdoption carries out a plan.
func (o *Collector) ApplyAdoption(ctx context.Context, p *adoption.Plan) error {
	look, err := o.openShards(ctx)
	if err != nil {
		return err
	}
	return look.Cluster.ApplyAdoption(ctx, p)
}

// PendingAdoption returns what of an adopted VPC is not ready yet.
func (o *Collector) PendingAdoption(ctx context.Context, p *adoption.Plan) ([]string, error) {
	look, err := o.openShards(ctx)
	if err != nil {
		return nil, err
	}
	pending, err := look.Cluster.PendingAdoption(ctx, p)
	slices.Sort(pending)
	return clusterstate.EscapeControlChars(pending), err
}
