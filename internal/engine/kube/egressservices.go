package kube

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	ovnv1 "github.com/sallyport/sallyport/api/ovn/v1"
	"github.com/sallyport/sallyport/internal/model/shard"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// hasEgressRoutes reports whether a namespace contains EgressRoutes, which may select its pods.
func (c *Cluster) hasEgressRoutes(ctx context.Context, namespace string) bool {
	var list kubedcv1alpha1.EgressRouteList
	err := c.reader.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy)
	return err == nil && len(list.Items) > 0
}

func (in *Inputs) readEgressServices() (out []snapshot.EgressService) {
	for _, s := range in.egressServices {
		out = append(out, snapshot.EgressService{
			Meta: readMeta(s.ObjectMeta), ByNetwork: s.Spec.SourceIPBy == ovnv1.SourceNetwork, Network: s.Spec.Network,
		})
	}
	return out
}

func (in *Inputs) readEgressRoutes() (out []snapshot.EgressRoute) {
	for _, r := range in.egressRoutes {
		out = append(out, in.readEgressRoute(r))
	}
	return out
}

func (in *Inputs) readEgressRoute(r *kubedcv1alpha1.EgressRoute) snapshot.EgressRoute {
	var p parser
	out := snapshot.EgressRoute{
		Meta: readMeta(r.ObjectMeta), Type: p.readNetworkType("spec.externalNetworkType",
			string(r.Spec.ExternalNetworkType)),
		Network: p.readName("spec.externalNetwork", r.Spec.ExternalNetwork),
	}
	for _, text := range r.Spec.Destinations {
		out.Destinations = append(out.Destinations, p.readPrefix("destination", text))
	}
	pods, err := metav1.LabelSelectorAsSelector(&r.Spec.PodSelector)
	if err != nil {
		p.malformed = snapshot.Malformed(fmt.Sprintf("podSelector: %v", err))
	}
	if out.Malformed = p.malformed; out.Malformed != "" {
		return out
	}
	for _, pod := range in.pods {
		if pod.Namespace == r.Namespace && pods.Matches(labels.Set(pod.Labels)) {
			for _, a := range in.egressAddresses(pod) {
				out.Pods = append(out.Pods, snapshot.PodPlacement{Address: a, Node: pod.Spec.NodeName})
			}
		}
	}
	out.Pods = dedupByAddress(out.Pods)
	slices.SortFunc(out.Destinations, netip.Prefix.Compare)
	out.Destinations = slices.Compact(out.Destinations)
	return out
}

// egressAddresses returns the pod addresses that egress policies apply to.
func (in *Inputs) egressAddresses(pod *corev1.Pod) []netip.Addr {
	if in.Shard.Kind == shard.OfNodePaths {
		return reportedAddresses(pod)
	}
	return podAddresses(pod)
}

// dedupByAddress sorts placements by address and keeps one per address.
func dedupByAddress(pods []snapshot.PodPlacement) []snapshot.PodPlacement {
	slices.SortFunc(pods, func(a, b snapshot.PodPlacement) int {
		return cmp.Or(a.Address.Compare(b.Address), strings.Compare(a.Node, b.Node))
	})
	return slices.CompactFunc(pods, func(a, b snapshot.PodPlacement) bool { return a.Address == b.Address })
}
