package collector

import (
	"context"

	"github.com/sallyport/sallyport/internal/engine/kube"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
)

// PreviewManifests computes what applying manifests, or deleting their objects, would change: in the API, and of what
// the controller writes. The shards that these objects concern are compared with the cluster as it is.
func (o *Collector) PreviewManifests(ctx context.Context, m *kube.Manifests, deleting bool,
) (*kube.ManifestPreview, []clusterstate.Shard, error) {
	look, err := o.openShards(ctx)
	if err != nil {
		return nil, nil, err
	}
	objects, err := look.Cluster.PreviewManifests(ctx, m, deleting)
	if err != nil {
		return nil, nil, err
	}
	preview := look.NewPreview(objects.Objects)
	concerned, err := preview.ListShards(ctx, objects.Objects)
	if err != nil {
		return nil, nil, err
	}
	var out []clusterstate.Shard
	for _, of := range concerned {
		work, err := preview.PrepareShard(ctx, of)
		if err != nil {
			out = append(out, clusterstate.Shard{Name: of.Name, Problem: joinLines(err)})
			continue
		}
		out = append(out, clusterstate.NewShard(of.Name, work.Plans(), work.Verdicts))
	}
	shown := clusterstate.EscapeControlChars(*objects)
	shown.Objects = nil
	return &shown, clusterstate.EscapeControlChars(out), nil
}
