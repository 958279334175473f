package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/shard"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// GatherNetworks reads the external networks and their subnets.
func (c *Cluster) GatherNetworks(ctx context.Context) (*snapshot.NetworkInput, []client.Object, error) {
	var list kubedcv1alpha1.ExternalNetworkList
	if err := c.reader.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, fmt.Errorf("list ExternalNetworks: %w", err)
	}
	out := &snapshot.NetworkInput{ExternalSubnets: map[string]snapshot.ExternalSubnet{}}
	nodes, err := c.gatherUplinkNodes(ctx, list.Items, out)
	if err != nil {
		return nil, nil, err
	}
	if out.LabelledSubnets, err = c.listLabelledSubnets(ctx); err != nil {
		return nil, nil, err
	}
	var judged []client.Object
	for i := range list.Items {
		n := &list.Items[i]
		judged = append(judged, n)
		network := snapshot.ExternalNetwork{
			Meta:       readMeta(n.ObjectMeta),
			Generated:  isGeneratedNetwork(n),
			Subnets:    n.Spec.Subnets,
			ReturnPath: snapshot.ReturnPath(n.Spec.ReturnPath),
		}
		network.SharedAddresses = readSharedAddresses(n)
		_, network.Malformed = readAccessSelectors(n)
		if second, asked := readSecondPrefix(n); asked {
			network.Second = &second
		}
		if n.Spec.Nodes != nil {
			network.Uplink = new(readUplink(n, nodes))
		}
		out.ExternalNetworks = append(out.ExternalNetworks, network)
		for _, name := range n.Spec.Subnets {
			object, err := c.readObject(ctx, intent.ObjectKey{Kind: intent.Subnet, Name: name})
			if apierrors.IsNotFound(err) {
				continue
			}
			if err != nil {
				return nil, nil, fmt.Errorf("read Subnet %s: %w", name, err)
			}
			if x := readExternalSubnet(object.(*Subnet)); x.Prefix.IsValid() && x.Gateway.IsValid() {
				out.ExternalSubnets[name] = x
			}
		}
	}
	return out, judged, nil
}

// listLabelledSubnets returns the Subnets whose label makes them an external network.
func (c *Cluster) listLabelledSubnets(ctx context.Context) (out []snapshot.LabelledSubnet, err error) {
	var list SubnetList
	if err := c.reader.List(ctx, &list, c.matchIndex(externalIndex, "true")...); err != nil {
		return nil, fmt.Errorf("list Subnets: %w", err)
	}
	for i := range list.Items {
		s := &list.Items[i]
		if s.DeletionTimestamp == nil {
			out = append(out, snapshot.LabelledSubnet{
				Name: s.Name, Type: s.Labels[kubedcv1.ExternalNetworkTypeLabel],
				Default: s.Labels[kubedcv1.DefaultExternalLabel] == "true",
			})
		}
	}
	return out, nil
}

// isGeneratedNetwork reports whether an ExternalNetwork is one that we created from a labelled Subnet. It is no more as
// soon as anybody else has written to its spec: then it is the operator's, like every other ExternalNetwork. Generated
// ones decide nothing: the labels of the Subnets do.
func isGeneratedNetwork(n *kubedcv1alpha1.ExternalNetwork) bool {
	return ownerShard(n) == ownership.NetworksShard && !hasForeignSpec(n)
}

// hasForeignSpec reports whether anybody else has written to the spec of an object.
func hasForeignSpec(o client.Object) bool {
	return slices.ContainsFunc(o.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		return !isAppliedBy(e, ownership.FieldManager) && e.Subresource == "" && e.FieldsV1 != nil &&
			bytes.Contains(e.FieldsV1.GetRawBytes(), []byte(`"f:spec"`))
	})
}

// ListExternalSubnets returns the subnets of external networks with Kube-OVN's address counts.
func (c *Cluster) ListExternalSubnets(ctx context.Context) ([]snapshot.ExternalSubnet, error) {
	in := NewInputs(shard.Networks)
	err := errors.Join(c.listInto(ctx, in, &kubedcv1alpha1.ExternalNetworkList{}, nil),
		c.listInto(ctx, in, &SubnetList{}, c.matchIndex(externalIndex, "true")))
	for _, n := range in.networks {
		for _, name := range n.Spec.Subnets {
			err = errors.Join(err, c.lookUpObjects(ctx, in, []intent.ObjectKey{{Kind: intent.Subnet, Name: name}}, nil))
		}
	}
	return in.readExternalSubnets(), err
}

// gatherUplinkNodes adds the NodePath statuses and returns the nodes, if any network is on nodes.
func (c *Cluster) gatherUplinkNodes(ctx context.Context, networks []kubedcv1alpha1.ExternalNetwork,
	into *snapshot.NetworkInput,
) ([]*corev1.Node, error) {
	if !slices.ContainsFunc(networks, func(n kubedcv1alpha1.ExternalNetwork) bool { return n.Spec.Nodes != nil }) {
		return nil, nil
	}
	in := NewInputs(shard.NodePaths)
	if err := c.addNodePaths(ctx, in); err != nil {
		return nil, err
	}
	into.NodePaths = in.readNodePaths()
	return in.nodes, nil
}

// sharedNetworkShards returns the names of the shards that read all networks, besides those of VPCs.
func sharedNetworkShards() []string { return []string{shard.NodePaths.Name, shard.Networks.Name} }
