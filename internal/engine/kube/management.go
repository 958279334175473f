package kube

import (
	"context"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// The management VPC is one shard with many namespaces. All others have one, of the same name.

// podSubnet is the Subnet in which Kube-OVN gives the pods of a namespace their addresses; empty: it gives none yet.
func podSubnet(ns *corev1.Namespace) string {
	subnet, _, _ := strings.Cut(ns.Annotations[kubeovn.LogicalSwitchAnnotation], ",")
	return subnet
}

// isManagementNamespace says whether the pods of a namespace are in the management VPC for good: that of a project is
// there only until Kube-OVN has seen the project's Subnet.
func isManagementNamespace(ns *corev1.Namespace) bool {
	return podSubnet(ns) == kubeovn.ManagementSubnet && !belongsToShard(ns, ns.Name)
}

// shardOfNamespace is the shard that decides about what is in a namespace.
func (c *Cluster) shardOfNamespace(ctx context.Context, name string) string {
	ns, err := c.readObject(ctx, intent.ObjectKey{Kind: intent.Namespace, Name: name})
	if err == nil && isManagementNamespace(ns.(*corev1.Namespace)) && !c.isOrganization(ctx, name) {
		return kubeovn.ManagementVpc
	}
	return name
}

// isOrganization says whether a namespace has Projects. It is a tenant's then, whose addresses are those of the
// projects, with their quotas, though its pods, if it had any, would be in the management VPC.
func (c *Cluster) isOrganization(ctx context.Context, namespace string) bool {
	var projects kubedcv1.ProjectList
	err := c.reader.List(ctx, &projects, client.InNamespace(namespace), client.Limit(1), client.UnsafeDisableDeepCopy)
	return err == nil && len(projects.Items) > 0
}

// listShardNamespaces are those that a shard decides about.
func (c *Cluster) listShardNamespaces(ctx context.Context, shard string) ([]client.Object, error) {
	if shard != kubeovn.ManagementVpc {
		ns, err := c.readObject(ctx, intent.ObjectKey{Kind: intent.Namespace, Name: shard})
		if client.IgnoreNotFound(err) != nil {
			return nil, err
		}
		if err != nil { // what is left in the cache of a namespace that is gone
			ns.SetName(shard)
		}
		return []client.Object{ns}, nil
	}
	var list corev1.NamespaceList
	if err := c.reader.List(ctx, &list, append(c.matchIndex(subnetIndex, kubeovn.ManagementSubnet),
		client.UnsafeDisableDeepCopy)...); err != nil {
		return nil, err
	}
	var out []client.Object
	for i := range list.Items {
		if !c.isOrganization(ctx, list.Items[i].Name) {
			out = append(out, &list.Items[i])
		}
	}
	return out, nil
}

// isShardInUse says whether there is something of ours in a shard. In the management VPC much happens that has nothing
// to do with us.
func (c *Cluster) isShardInUse(ctx context.Context, shard string) bool {
	var eips OvnEipList
	err := c.reader.List(ctx, &eips, append(c.matchShard(shard), client.Limit(1))...)
	return err == nil && len(eips.Items) > 0
}

// isManagementShard says whether the shard decides about namespaces of the management VPC: its own about all but how
// pods leave, which is by nodes.
func (in *Inputs) isManagementShard() bool {
	return in.Shard == kubeovn.ManagementVpc || in.Shard == ownership.NodesShard
}

// ownsEgressPolicies says whether the shard decides about EgressServices and EgressRoutes.
func (in *Inputs) ownsEgressPolicies() bool { return in.Shard != kubeovn.ManagementVpc }

// ownsNamespace says whether the shard decides about what is in a namespace.
func (in *Inputs) ownsNamespace(namespace string) bool {
	ns := in.namespaces[namespace]
	if in.isManagementShard() {
		return ns != nil
	}
	return namespace == in.Shard && (ns == nil || in.isOrganization || !isManagementNamespace(ns))
}

// addNamespace takes a namespace in. What is in it comes later.
func (in *Inputs) addNamespace(ns *corev1.Namespace) {
	in.knownNamespaces[ns.Name] = ns
	if ns.Name == in.Shard || in.isManagementShard() && isManagementNamespace(ns) {
		in.namespaces[ns.Name] = ns
	}
}

// readManagementVPC reads what is special about the management VPC. Nil: the shard is another.
func (in *Inputs) readManagementVPC() *snapshot.Management {
	subnet := in.subnets[kubeovn.ManagementSubnet]
	if in.Shard != kubeovn.ManagementVpc || subnet == nil {
		return nil
	}
	out := &snapshot.Management{TerminatingNamespaces: map[string]bool{}, NamespaceQuotas: map[string]snapshot.Limit{}}
	for name, ns := range in.namespaces {
		out.TerminatingNamespaces[name] = ns.DeletionTimestamp != nil
		out.NamespaceQuotas[name] = readQuota(ns, kubedcv1.EIpQuotaAnnotation)
	}
	for part := range strings.SplitSeq(subnet.Spec.CIDRBlock, ",") {
		if prefix, err := netip.ParsePrefix(part); err == nil {
			out.Prefixes = append(out.Prefixes, prefix.Masked())
		}
	}
	for part := range strings.SplitSeq(subnet.Spec.Gateway, ",") {
		if gateway := parseAddr(part); gateway.IsValid() {
			out.Gateways = append(out.Gateways, gateway)
		}
	}
	slices.SortFunc(in.nodes, func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	for _, n := range in.nodes {
		if chassis := gatewayChassis(n); chassis != "" {
			out.GatewayChassis = append(out.GatewayChassis, chassis)
		}
	}
	return out
}

// gatewayChassis is the chassis of a node that may hold gateways; empty: it may not.
func gatewayChassis(n *corev1.Node) string {
	if n.Labels[kubeovn.GatewayLabel] != "true" {
		return ""
	}
	return n.Annotations[kubeovn.ChassisAnnotation]
}

// handleGatewayNode asks for the management VPC when another chassis may hold gateways.
func (w *eventMapper) handleGatewayNode(was, is client.Object) {
	chassis := func(o client.Object) string {
		if n, ok := o.(*corev1.Node); ok && n != nil {
			return gatewayChassis(n)
		}
		return ""
	}
	if chassis(was) != chassis(is) {
		w.enqueue(kubeovn.ManagementVpc)
	}
}

// handleNamespace asks for the shards that decide, or decided, about what is in a namespace.
func (w *eventMapper) handleNamespace(ctx context.Context, was, is client.Object) {
	before, now, name := "", "", ""
	for _, side := range []struct {
		object client.Object
		shard  *string
	}{{was, &before}, {is, &now}} {
		if ns, ok := side.object.(*corev1.Namespace); ok && ns != nil {
			*side.shard, name = ns.Name, ns.Name
			if isManagementNamespace(ns) {
				*side.shard = kubeovn.ManagementVpc
			}
		}
	}
	for _, o := range []client.Object{was, is} {
		if o != nil {
			w.enqueueIfProject(ctx, o.GetName())
		}
	}
	if before == now && now != kubeovn.ManagementVpc {
		return
	}
	if before != now {
		w.enqueueHandover(ctx, name)
	}
	for _, shard := range []string{before, now} {
		if shard != "" {
			w.enqueue(shard)
		}
	}
}
