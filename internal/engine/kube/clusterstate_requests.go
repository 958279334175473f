package kube

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	ovnv1 "github.com/sallyport/sallyport/api/ovn/v1"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/snapshot"
	"github.com/sallyport/sallyport/internal/model/state"
)

func (e *clusterDump) readProjects() []clusterstate.Project {
	return readSorted(e.projects.Items, func(o *kubedcv1.Project) clusterstate.Project {
		return clusterstate.Project{
			Object:   readObjectMeta(string(intent.Project), o, o.Status.Conditions),
			Shard:    snapshot.ProjectShard(o.Namespace, o.Name),
			Prefixes: readProject(o).Prefixes, Network: string(o.Spec.EgressNetworkType),
			Address: parseAddr(o.Status.ExternalIP),
		}
	})
}

func (e *clusterDump) readEIps() []clusterstate.EIp {
	return readSorted(e.eips.Items, func(o *kubedcv1.EIp) clusterstate.EIp {
		x := e.externals[o.Status.ExternalNetwork]
		out := clusterstate.EIp{
			Object: readObjectMeta(string(intent.EIp), o, o.Status.Conditions), Shard: e.shards[o.Namespace],
			Address:   parseAddr(o.Status.IPAddress),
			Requested: o.Spec.IPAddress, Subnet: o.Status.ExternalNetwork,
			Network: cmp.Or(x.Network, o.Spec.ExternalNetwork),
			Type:    cmp.Or(x.Type, string(o.Spec.ExternalNetworkType)),
			MadeFor: parseOrigin(o.Annotations[ownership.OriginAnnotation]),
		}
		for _, owner := range o.Status.Owners {
			out.UsedBy = append(out.UsedBy, e.resolveEIpUser(o, owner))
		}
		return out
	})
}

// resolveEIpUser returns the user of an EIp. A Service can use an EIp of another namespace through an annotation.
func (e *clusterDump) resolveEIpUser(o *kubedcv1.EIp, owner kubedcv1.EIpOwner) state.Ref {
	out := state.Ref{Kind: owner.Type, Namespace: o.Namespace, Name: owner.OwnerRef}
	if owner.Type != string(intent.Service) {
		return out
	}
	for i := range e.services.Items {
		s := &e.services.Items[i]
		if s.Name == owner.OwnerRef && s.Annotations[kubedcv1.BindAnnotation] == o.Namespace+"/"+o.Name {
			out.Namespace = s.Namespace
		}
	}
	return out
}

func (e *clusterDump) readFIps() []clusterstate.FIp {
	return readSorted(e.fips.Items, func(o *kubedcv1.FIp) clusterstate.FIp {
		f := readFIp(o)
		return clusterstate.FIp{
			Object: readObjectMeta(string(intent.FIp), o, o.Status.Conditions), Shard: e.shards[o.Namespace],
			EIp:      cmp.Or(o.Status.EIp, f.EIp),
			External: parseAddr(o.Status.ExternalIP),
			Target:   parseAddr(cmp.Or(o.Status.ResolvedTargetIP, o.Spec.IPAddress)), Pod: f.Pod, VM: f.VM,
			Outbound: f.Outbound, Direction: string(o.Status.Direction),
		}
	})
}

func (e *clusterDump) readEgressIPs() []clusterstate.EgressIP {
	served, subnets := projectShards(e.projects.Items), map[string]*Subnet{}
	for i := range e.subnets.Items {
		subnets[e.subnets.Items[i].Name] = &e.subnets.Items[i]
	}
	for i := range e.namespaces.Items {
		ns := &e.namespaces.Items[i]
		served[ns.Name] = served[ns.Name] || isManagementNamespace(ns, subnets[podSubnet(ns)])
	}
	return readSorted(e.egressIPs.Items, func(o *ovnv1.EgressIP) clusterstate.EgressIP {
		out := clusterstate.EgressIP{
			Object: readObjectMeta(string(intent.EgressIP), o, o.Status.Conditions), Addresses: o.Spec.EgressIPs,
			Held: map[string]string{},
		}
		out.Selects, out.Outside = e.countSelectedPods(o, served)
		for _, item := range o.Status.Items {
			out.Held[item.EgressIP] = item.Node
		}
		return out
	})
}

// countSelectedPods returns how many pods an EgressIP selects, and which of them are not in a served namespace.
func (e *clusterDump) countSelectedPods(o *ovnv1.EgressIP, served map[string]bool) (n int,
	outside snapshot.PodSample,
) {
	choice, err := readEgressSelectors(o)
	if err != nil {
		return 0, outside
	}
	chosen := map[string]bool{}
	for i := range e.namespaces.Items {
		ns := &e.namespaces.Items[i]
		chosen[ns.Name] = choice.namespaces.Matches(labels.Set(ns.Labels))
	}
	for i := range e.pods.Items {
		pod := &e.pods.Items[i]
		if !chosen[pod.Namespace] || !choice.matchesPod(pod) {
			continue
		}
		if n++; !served[pod.Namespace] {
			outside.AddPod(pod.Namespace + "/" + pod.Name)
		}
	}
	return n, outside
}

func (e *clusterDump) readEgressServices() []clusterstate.EgressPolicy {
	return readSorted(e.egressServices.Items, func(o *ovnv1.EgressService) clusterstate.EgressPolicy {
		return clusterstate.EgressPolicy{
			Object:  readObjectMeta(string(intent.EgressService), o, o.Status.Conditions),
			Shard:   e.shardOfEgressPolicies(o.Namespace),
			Network: cmp.Or(e.externals[o.Status.ExternalNetwork].Network, o.Status.ExternalNetwork, o.Spec.Network),
			Sources: ParseAddresses([]string{o.Status.ExternalIP}),
		}
	})
}

func (e *clusterDump) readEgressRoutes() []clusterstate.EgressPolicy {
	return readSorted(e.egressRoutes.Items, func(o *kubedcv1alpha1.EgressRoute) clusterstate.EgressPolicy {
		out := clusterstate.EgressPolicy{
			Object: readObjectMeta(string(intent.EgressRoute), o, o.Status.Conditions),
			Shard:  e.shardOfEgressPolicies(o.Namespace),
			Network: cmp.Or(e.externals[o.Status.ExternalNetwork].Network, o.Status.ExternalNetwork,
				o.Spec.ExternalNetwork),
			Sources: ParseAddresses([]string{o.Status.ExternalIP}),
		}
		for _, text := range o.Spec.Destinations {
			if prefix, err := netip.ParsePrefix(strings.TrimSpace(text)); err == nil {
				out.Destinations = append(out.Destinations, prefix)
			}
		}
		return out
	})
}

func (e *clusterDump) readNodePaths() []clusterstate.NodePath {
	return readSorted(e.nodePaths.Items, func(o *kubedcv1alpha1.NodePath) clusterstate.NodePath {
		out := clusterstate.NodePath{Object: readObjectMeta(string(intent.NodePath), o, o.Status.Conditions)}
		networks := slices.SortedFunc(slices.Values(o.Spec.Networks), func(a, b kubedcv1alpha1.NodeNetwork) int {
			return strings.Compare(a.Name, b.Name)
		})
		found := map[string]string{}
		for _, n := range o.Status.Networks {
			found[n.Name] = n.Interface
		}
		for _, n := range networks {
			out.Networks = append(out.Networks, n.Name)
			out.Ways = append(out.Ways, clusterstate.NodeNetwork{
				Network: n.Name, Interface: cmp.Or(found[n.Name], n.Interface, n.MAC),
				Mark: ownership.NodeNetworkMark(int(n.Number)), Method: string(n.Method),
			})
		}
		for _, n := range o.Status.Networks {
			if n.Problem == "" {
				continue
			}
			if out.Problems == nil {
				out.Problems = map[string]string{}
			}
			out.Problems[n.Name] = n.Problem
		}
		return out
	})
}
