package kube

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	ovnv1 "github.com/sallyport/sallyport/api/ovn/v1"
	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/shard"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// Cache indexes, in addition to ShardIndex.
const (
	projectIndex       = "project-shard" // Projects by the shard that follows from their names
	externalIndex      = "external"      // Subnets with the label of an external network
	addressIndex       = "address"       // OvnEips by the address they have, EIps and EgressIPs also by those they request
	labelIndex         = "label"         // Namespaces by their labels, with and without the value
	subnetIndex        = "subnet"        // Namespaces by the Subnet in which their pods get addresses
	quotaIndex         = "quota"         // EIps that a quota refuses
	egressServiceIndex = "leaves"        // Services whose pods use the address of the Service for egress
	vpcIndex           = "vpc"           // Subnets of Kube-OVN's default VPC
	ingressIndex       = "ingress"       // Services by the addresses of their load balancers
	serviceIndex       = "service"       // EndpointSlices by the name of their Service
	familyIndex        = "family"        // EIps that ask for IPv6
)

// Kinds that are read but not written.
const (
	Pod intent.Kind = "Pod"
	VMI intent.Kind = "VirtualMachineInstance"
)

// cacheIndex is an index of the cache: the values by which objects of a kind are found.
type cacheIndex struct {
	object client.Object
	name   string
	values client.IndexerFunc
}

// addIndexes adds the indexes that keep the cost of a shard independent of the number of shards.
func addIndexes(ctx context.Context, c client.FieldIndexer) error {
	for _, index := range cacheIndexes() {
		if err := c.IndexField(ctx, index.object, index.name, index.values); err != nil {
			return fmt.Errorf("index %T by %s: %w", index.object, index.name, err)
		}
	}
	return nil
}

// cacheIndexes returns the indexes, besides ShardIndex.
func cacheIndexes() []cacheIndex {
	return []cacheIndex{
		{&kubedcv1.Project{}, projectIndex, func(o client.Object) []string {
			return []string{snapshot.ProjectShard(o.GetNamespace(), o.GetName())}
		}},
		{&Subnet{}, externalIndex, func(o client.Object) []string {
			if o.GetLabels()[kubedcv1.ExternalNetworkTypeLabel] == "" {
				return nil
			}
			return []string{"true"}
		}},
		{&Subnet{}, vpcIndex, indexByVPC},
		{&corev1.Namespace{}, subnetIndex, func(o client.Object) []string {
			return []string{podSubnet(o.(*corev1.Namespace))}
		}},
		{&corev1.Namespace{}, labelIndex, indexByLabels},
		{&corev1.Service{}, egressServiceIndex, func(o client.Object) []string {
			if !hasEgressAnnotation(o) {
				return nil
			}
			return []string{"true"}
		}},
		{&corev1.Service{}, ingressIndex, func(o client.Object) (out []string) {
			for _, a := range readIngressAddresses(o.(*corev1.Service)) {
				out = append(out, a.String())
			}
			return out
		}},
		{&discoveryv1.EndpointSlice{}, serviceIndex, func(o client.Object) []string {
			return []string{serviceNameOf(o.(*discoveryv1.EndpointSlice))}
		}},
		{&OvnEip{}, addressIndex, func(o client.Object) []string {
			eip := o.(*OvnEip)
			return []string{eip.Spec.External(), eip.Status.External()}
		}},
		{&kubedcv1.EIp{}, addressIndex, func(o client.Object) []string {
			eip := o.(*kubedcv1.EIp)
			return []string{eip.Spec.IPAddress, eip.Status.IPAddress}
		}},
		{&ovnv1.EgressIP{}, addressIndex, indexByEgressAddress},
		{&kubedcv1.EIp{}, familyIndex, func(o client.Object) []string {
			return []string{string(o.(*kubedcv1.EIp).Spec.IPFamily)}
		}},
		{&kubedcv1.EIp{}, quotaIndex, func(o client.Object) []string {
			if !isRefusedByQuota(o) {
				return nil
			}
			return []string{"true"}
		}},
	}
}

// GatherVPC reads the inputs of a VPC's shard. misplaced are the pod ports that OVN reports in the wrong switch. With a
// cache, the cost depends on the size of the shard and not on the size of the cluster.
func (c *Cluster) GatherVPC(ctx context.Context, vpc string, quotas snapshot.Quotas,
	misplaced []snapshot.PodPort,
) (*Inputs, error) {
	in := NewInputs(shard.Named(vpc))
	in.AddMisplacedPorts(misplaced)
	in.isStuck, in.lacksBackendKind = c.progress.isStuck, c.missingKinds[intent.Backend]
	if err := c.gatherNamespaceObjects(ctx, in); err != nil {
		return nil, err
	}
	lists := []struct {
		list client.ObjectList
		by   []client.ListOption
	}{
		{&kubedcv1.ProjectList{}, c.matchIndex(projectIndex, vpc)},
		{&kubedcv1alpha1.ExternalNetworkList{}, nil},
		{&SubnetList{}, c.matchIndex(externalIndex, "true")},
	}
	for _, l := range lists {
		if err := c.listInto(ctx, in, l.list, l.by); err != nil {
			return nil, err
		}
	}
	if err := c.gatherOrganizations(ctx, in, quotas); err != nil {
		return nil, err
	}
	for _, kind := range c.availableKinds(appliedKinds) {
		list, err := newList(kind)
		if err != nil {
			return nil, err
		}
		if kind == intent.EIp || kind == intent.Service || kind == intent.EndpointSlice {
			continue // already read by gatherNamespaceObjects
		}
		if err := c.listInto(ctx, in, list, c.matchShard(vpc)); err != nil {
			return nil, err
		}
	}
	if err := c.gatherEgressIPs(ctx, in); err != nil {
		return nil, err
	}
	if err := c.lookUpReferences(ctx, in); err != nil {
		return nil, err
	}
	if err := c.gatherIPv6EIps(ctx, in); err != nil {
		return nil, err
	}
	return in, c.gatherClusterPrefixes(ctx, in)
}

// gatherIPv6EIps adds the EIps of all shards that ask for IPv6, if the shard has any.
func (c *Cluster) gatherIPv6EIps(ctx context.Context, in *Inputs) error {
	if !slices.ContainsFunc(in.eips, isIPv6EIp) {
		return nil
	}
	var list kubedcv1.EIpList
	by := append(c.matchIndex(familyIndex, string(kubedcv1.IPv6)), client.UnsafeDisableDeepCopy)
	if err := c.reader.List(ctx, &list, by...); err != nil {
		return fmt.Errorf("list EIps: %w", err)
	}
	in.ipv6EIps = nil
	for i := range list.Items {
		if e := &list.Items[i]; isIPv6EIp(e) { // without a cache there is no index
			in.ipv6EIps = append(in.ipv6EIps, e)
		}
	}
	return nil
}

// gatherNamespaceObjects adds the objects in the namespaces of a shard and, for the management VPC, the nodes.
func (c *Cluster) gatherNamespaceObjects(ctx context.Context, in *Inputs) error {
	in.isOrganization = c.isOrganization(ctx, in.Shard.Name)
	if err := c.gatherManagementSubnets(ctx, in); err != nil {
		return err
	}
	namespaces, err := c.listShardNamespaces(ctx, in.Shard.Name)
	if err != nil {
		return fmt.Errorf("list namespaces: %w", err)
	}
	for _, ns := range namespaces {
		if ns.GetUID() != "" {
			in.Add(ns)
		}
		for _, list := range []client.ObjectList{
			&kubedcv1.EIpList{}, &kubedcv1.FIpList{}, &corev1.ServiceList{}, &discoveryv1.EndpointSliceList{},
			&ovnv1.EgressServiceList{}, &kubedcv1alpha1.EgressRouteList{},
		} {
			if err := c.listInto(ctx, in, list, []client.ListOption{client.InNamespace(ns.GetName())}); err != nil {
				return err
			}
		}
		if err := c.gatherEndpointPods(ctx, in, ns.GetName()); err != nil {
			return err
		}
	}
	if in.Shard.Name == kubeovn.ManagementVpc {
		return c.listInto(ctx, in, &corev1.NodeList{}, nil)
	}
	return nil
}

// gatherEndpointPods adds the pods of a namespace where they decide about endpoints: in namespaces with health checks,
// and in namespaces of the management VPC with load balancers.
func (c *Cluster) gatherEndpointPods(ctx context.Context, in *Inputs, namespace string) error {
	balances := slices.ContainsFunc(in.services, func(s *corev1.Service) bool { return s.Namespace == namespace })
	if !in.hasHealthChecks(namespace) && (in.Shard.Name != kubeovn.ManagementVpc || !balances) {
		return nil
	}
	return c.listInto(ctx, in, &corev1.PodList{}, []client.ListOption{client.InNamespace(namespace)})
}

// lookUpReferences adds the objects that the inputs so far refer to.
func (c *Cluster) lookUpReferences(ctx context.Context, in *Inputs) error {
	return c.lookUpObjects(ctx, in, in.referencedKeys(), in.requestedAddresses())
}

// lookUpObjects adds objects by name if they exist and are not yet added, and the OvnEips that have the addresses.
func (c *Cluster) lookUpObjects(ctx context.Context, in *Inputs, keys []intent.ObjectKey, addresses []string) error {
	for _, key := range keys {
		if in.hasObject(key) || c.missingKinds[key.Kind] {
			continue
		}
		object, err := c.readObject(ctx, key)
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return fmt.Errorf("read %s: %w", key, err)
		default:
			in.Add(object)
		}
	}
	for _, address := range addresses {
		if err := c.listInto(ctx, in, &OvnEipList{}, c.matchIndex(addressIndex, address)); err != nil {
			return err
		}
	}
	return nil
}

// matchIndex selects by an index. Without a cache there is no index: everything is listed, and Inputs skip the rest.
func (c *Cluster) matchIndex(index, value string) []client.ListOption {
	if !c.indexed {
		return nil
	}
	return []client.ListOption{client.MatchingFields{index: value}}
}

func (c *Cluster) listInto(ctx context.Context, in *Inputs, list client.ObjectList, by []client.ListOption) error {
	if err := c.reader.List(ctx, list, append(by, client.UnsafeDisableDeepCopy)...); err != nil {
		return fmt.Errorf("list %T: %w", list, err)
	}
	return meta.EachListItem(list, func(o runtime.Object) error {
		in.Add(o.(client.Object))
		return nil
	})
}

// hasObject reports whether an object with this key was added.
func (in *Inputs) hasObject(key intent.ObjectKey) bool {
	switch key.Kind {
	case intent.Subnet:
		return in.subnets[key.Name] != nil
	case intent.OvnEip:
		return in.ovnEips[key.Name] != nil
	case intent.OvnFip:
		return in.ovnFips[key.Name] != nil
	case intent.Vpc:
		return in.vpc != nil
	case intent.Namespace:
		return in.namespaces[key.Name] != nil
	case intent.OvnSnatRule:
		return in.snatRule != nil
	default:
		return false
	}
}

// requestedAddresses returns the addresses that EIps request or have, and those that Kube-OVN was about to assign.
// Their current holders are inputs too.
func (in *Inputs) requestedAddresses() []string {
	var out []string
	for _, o := range in.ovnEips {
		if isAddressPending(o) {
			out = append(out, o.Spec.External())
		}
	}
	for _, e := range in.eips {
		for _, address := range []string{e.Spec.IPAddress, e.Status.IPAddress} {
			if address != "" {
				out = append(out, address)
			}
		}
	}
	return out
}

// hasProject reports whether a Project exists whose names give this shard.
func (c *Cluster) hasProject(ctx context.Context, shard string) bool {
	var projects kubedcv1.ProjectList
	err := c.reader.List(ctx, &projects, append(c.matchIndex(projectIndex, shard), client.UnsafeDisableDeepCopy)...)
	return err == nil && len(projects.Items) > 0
}

// ReconcilesVPC reports whether the controller manages a VPC, or should.
func (c *Cluster) ReconcilesVPC(ctx context.Context, vpc string) bool {
	if vpc == kubeovn.ManagementVpc {
		return c.isManagementInUse(ctx)
	}
	if vpc == ownership.EgressVpc || c.hasProject(ctx, vpc) {
		return true
	}
	object, err := c.readObject(ctx, intent.ObjectKey{Kind: intent.Vpc, Name: vpc})
	return err == nil && ownerShard(object) != ""
}

// ListShards returns every shard that has a Project, an EIp, a FIp, a managed object or pods that EgressIPs select,
// sorted.
func (c *Cluster) ListShards(ctx context.Context) ([]string, error) {
	var objects []client.Object
	for _, kind := range append([]intent.Kind{intent.Project, intent.FIp, intent.EgressService, intent.EgressRoute},
		c.availableKinds(appliedKinds)...) {
		list, err := newList(kind)
		if err != nil {
			return nil, err
		}
		if err := c.reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list %s: %w", kind, err)
		}
		err = meta.EachListItem(list, func(o runtime.Object) error {
			objects = append(objects, o.(client.Object))
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	out := c.resolveShards(ctx, objects)
	egressIPs, err := c.listEgressIPs(ctx)
	if err != nil {
		return nil, err
	}
	scopes, err := c.listEgressScopes(ctx, egressIPs)
	for _, scope := range scopes {
		out = append(out, scope.vpcs...)
	}
	slices.Sort(out)
	return slices.Compact(out), err
}

// resolveShards returns the shards that own the objects; objects in namespaces of the management VPC belong to it.
func (c *Cluster) resolveShards(ctx context.Context, objects []client.Object) []string {
	out := map[string]bool{}
	for _, shard := range ShardsOf(objects) {
		out[c.shardOfNamespace(ctx, shard)] = true
	}
	return slices.Sorted(maps.Keys(out))
}
