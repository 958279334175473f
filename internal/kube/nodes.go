package kube

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/ownership"
	"github.com/sallyport/sallyport/internal/snapshot"
)

// GatherNodes reads everything that decides about NodePaths.
func (c *Cluster) GatherNodes(ctx context.Context) (*snapshot.Nodes, error) {
	var networks kubedcv1alpha1.ExternalNetworkList
	if err := c.reader.List(ctx, &networks, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list ExternalNetworks: %w", err)
	}
	var nodes corev1.NodeList
	if err := c.reader.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Nodes: %w", err)
	}
	out, services := &snapshot.Nodes{}, false
	for i := range networks.Items {
		if n := &networks.Items[i]; n.Spec.Nodes != nil {
			out.Uplinks = append(out.Uplinks, readUplink(n, nodes.Items))
			services = services || byService(n.Spec.Nodes.Method)
		}
	}
	if !services {
		return out, nil
	}
	var list corev1.ServiceList
	if err := c.reader.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Services: %w", err)
	}
	for i := range list.Items {
		if r := readReached(&list.Items[i]); len(r.External) > 0 {
			out.Reached = append(out.Reached, r)
		}
	}
	return out, nil
}

// byService says whether a method has to know Services.
func byService(m kubedcv1alpha1.NodeMethod) bool {
	return slices.Contains([]kubedcv1alpha1.NodeMethod{kubedcv1alpha1.NodeSourceRule, kubedcv1alpha1.NodeMark, kubedcv1alpha1.NodeVRF}, m)
}

func readUplink(n *kubedcv1alpha1.ExternalNetwork, nodes []corev1.Node) snapshot.Uplink {
	spec := n.Spec.Nodes
	out := snapshot.Uplink{
		Meta: readMeta(n.ObjectMeta), Interface: spec.Interface, MAC: spec.MAC, Method: string(spec.Method), Legs: spec.Legs,
		Gateways: Addresses(spec.Gateways),
	}
	var p parser
	for _, text := range spec.Addresses {
		out.Addresses = append(out.Addresses, p.prefix("nodes.addresses", text))
	}
	for _, text := range spec.Clients {
		out.Clients = append(out.Clients, p.prefix("nodes.clients", text))
	}
	chosen := labels.Everything()
	if spec.NodeSelector != nil {
		var err error
		if chosen, err = metav1.LabelSelectorAsSelector(spec.NodeSelector); err != nil {
			p.malformed = snapshot.Malformed(fmt.Sprintf("nodes.nodeSelector: %v", err))
		}
	}
	if out.Malformed = p.malformed; out.Malformed != "" {
		return out
	}
	for i := range nodes {
		if chosen.Matches(labels.Set(nodes[i].Labels)) {
			out.Nodes = append(out.Nodes, nodes[i].Name)
		}
	}
	return out
}

// readReached reads by which external addresses a Service is reached.
func readReached(s *corev1.Service) (out snapshot.Reached) {
	if s.DeletionTimestamp != nil {
		return out
	}
	out.External = Addresses(s.Spec.ExternalIPs)
	for _, i := range s.Status.LoadBalancer.Ingress {
		out.External = append(out.External, Addresses([]string{i.IP})...)
	}
	out.Cluster = Addresses(s.Spec.ClusterIPs)
	return out
}

// reached asks for the NodePaths when a Service may be reached by another address than before.
func (w *watch) reached(ctx context.Context, was, is client.Object) {
	read := func(o client.Object) []netip.Addr {
		s, isService := o.(*corev1.Service)
		if !isService || s == nil {
			return nil
		}
		r := readReached(s)
		if len(r.External) == 0 {
			return nil
		}
		return append(r.External, r.Cluster...)
	}
	if slices.Equal(read(was), read(is)) {
		return
	}
	var networks kubedcv1alpha1.ExternalNetworkList
	if err := w.cluster.reader.List(ctx, &networks, client.UnsafeDisableDeepCopy); err != nil {
		return
	}
	if slices.ContainsFunc(networks.Items, func(n kubedcv1alpha1.ExternalNetwork) bool {
		return n.Spec.Nodes != nil && byService(n.Spec.Nodes.Method)
	}) {
		w.ask(ownership.NodesShard)
	}
}
