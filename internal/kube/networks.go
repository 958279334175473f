package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/ownership"
	"github.com/sallyport/sallyport/internal/snapshot"
)

// NetworksShard is the shard of all ExternalNetworks. No VPC can have its name.
const NetworksShard = "/networks"

// GatherNetworks reads the external networks and their subnets.
func (c *Cluster) GatherNetworks(ctx context.Context) (*snapshot.Networks, []client.Object, error) {
	var list kubedcv1alpha1.ExternalNetworkList
	if err := c.reader.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, fmt.Errorf("list ExternalNetworks: %w", err)
	}
	out := &snapshot.Networks{Subnets: map[string]snapshot.External{}}
	nodes, err := c.onNodes(ctx, list.Items, out)
	if err != nil {
		return nil, nil, err
	}
	var judged []client.Object
	for i := range list.Items {
		n := &list.Items[i]
		judged = append(judged, n)
		network := snapshot.Network{Meta: readMeta(n.ObjectMeta), Subnets: n.Spec.Subnets, Return: snapshot.Return(n.Spec.ReturnPath)}
		network.Shared = readShared(n)
		_, network.Malformed = readGuestList(n)
		if n.Spec.Nodes != nil {
			network.Uplink = new(readUplink(n, nodes))
		}
		out.Networks = append(out.Networks, network)
		for _, name := range n.Spec.Subnets {
			object, err := c.read(ctx, intent.ObjectKey{Kind: intent.Subnet, Name: name})
			if apierrors.IsNotFound(err) {
				continue
			}
			if err != nil {
				return nil, nil, fmt.Errorf("read Subnet %s: %w", name, err)
			}
			if x := readExternal(object.(*Subnet)); x.Prefix.IsValid() && x.Gateway.IsValid() {
				out.Subnets[name] = x
			}
		}
	}
	return out, judged, nil
}

// Externals are the subnets of external networks, as Kube-OVN counts their addresses.
func (c *Cluster) Externals(ctx context.Context) ([]snapshot.External, error) {
	in := NewInputs(NetworksShard)
	err := errors.Join(c.add(ctx, in, &kubedcv1alpha1.ExternalNetworkList{}, nil), c.add(ctx, in, &SubnetList{}, c.by(externalIndex, "true")))
	for _, n := range in.networks {
		for _, name := range n.Spec.Subnets {
			err = errors.Join(err, c.lookUpNamed(ctx, in, []intent.ObjectKey{{Kind: intent.Subnet, Name: name}}, nil))
		}
	}
	return in.readExternals(), err
}

// onNodes reads what becomes of networks on nodes, where there are such, and returns the nodes.
func (c *Cluster) onNodes(ctx context.Context, networks []kubedcv1alpha1.ExternalNetwork, into *snapshot.Networks) ([]*corev1.Node, error) {
	if !slices.ContainsFunc(networks, func(n kubedcv1alpha1.ExternalNetwork) bool { return n.Spec.Nodes != nil }) {
		return nil, nil
	}
	in := NewInputs(ownership.NodesShard)
	if err := c.addPaths(ctx, in); err != nil {
		return nil, err
	}
	into.Paths = in.readPaths()
	return in.nodes, nil
}
