package kube

import (
	"context"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/shard"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// The management VPC is one shard with many namespaces. Every other shard has one namespace, of the same name.

// podSubnet returns the Subnet from which Kube-OVN assigns addresses to the pods of a namespace, or an empty string if
// it has not chosen one yet.
func podSubnet(ns *corev1.Namespace) string {
	subnet, _, _ := strings.Cut(ns.Annotations[kubeovn.LogicalSwitchAnnotation], ",")
	return subnet
}

// isOnManagementSubnet reports whether the pods of a namespace are on the first Subnet of the management VPC permanently.
// The namespace of a project is there only until Kube-OVN has processed the project's Subnet.
func isOnManagementSubnet(ns *corev1.Namespace) bool {
	return podSubnet(ns) == kubeovn.ManagementSubnet && !belongsToShard(ns, ns.Name)
}

// isManagementNamespace reports whether the pods of a namespace are in the management VPC permanently. subnet is the
// Subnet of the namespace, or nil.
func isManagementNamespace(ns *corev1.Namespace, subnet *Subnet) bool {
	return isOnManagementSubnet(ns) ||
		subnet != nil && subnet.Name == podSubnet(ns) && isPodSubnet(subnet) && !belongsToShard(ns, ns.Name)
}

// isPodSubnet reports whether a Subnet is one of the management VPC's for pods: not the one that joins the nodes, not an
// external one, and not one of additional interfaces.
func isPodSubnet(s *Subnet) bool {
	return isClusterSubnet(s) && s.Name != kubeovn.JoinSubnet && s.Labels[kubedcv1.ExternalNetworkTypeLabel] == "" &&
		(s.Spec.Provider == "" || s.Spec.Provider == kubeovn.Provider)
}

// isPodSubnetObject reports whether an object is such a Subnet.
func isPodSubnetObject(o client.Object) bool {
	s, ok := o.(*Subnet)
	return ok && s != nil && isPodSubnet(s)
}

// isManagementNamespace reports whether the pods of a namespace are in the management VPC permanently.
func (c *Cluster) isManagementNamespace(ctx context.Context, ns *corev1.Namespace) bool {
	name := podSubnet(ns)
	if name == "" || name == kubeovn.ManagementSubnet || belongsToShard(ns, ns.Name) {
		return isOnManagementSubnet(ns)
	}
	object, err := c.readObject(ctx, intent.ObjectKey{Kind: intent.Subnet, Name: name})
	if err != nil {
		return false // it does not exist, or is not in the cache yet; its event follows
	}
	return isManagementNamespace(ns, object.(*Subnet))
}

// isManagementNamespace reports the same with the Subnets of the inputs.
func (in *Inputs) isManagementNamespace(ns *corev1.Namespace) bool {
	return isManagementNamespace(ns, in.subnets[podSubnet(ns)])
}

// isPodSwitch reports whether a switch is that of a Subnet of the management VPC for pods.
func (in *Inputs) isPodSwitch(name string) bool {
	return name == kubeovn.ManagementSubnet || in.subnets[name] != nil && isPodSubnet(in.subnets[name])
}

// gatherManagementSubnets adds the Subnets of the management VPC. They decide which namespaces are in it.
func (c *Cluster) gatherManagementSubnets(ctx context.Context, in *Inputs) error {
	return c.listInto(ctx, in, &SubnetList{}, c.matchIndex(vpcIndex, kubeovn.ManagementVpc))
}

// shardOfNamespace returns the shard that decides about the objects in a namespace.
func (c *Cluster) shardOfNamespace(ctx context.Context, name string) string {
	ns, err := c.readObject(ctx, intent.ObjectKey{Kind: intent.Namespace, Name: name})
	if err == nil && c.isManagementNamespace(ctx, ns.(*corev1.Namespace)) && !c.isOrganization(ctx, name) {
		return kubeovn.ManagementVpc
	}
	return name
}

// isOrganization reports whether a namespace contains Projects. It then belongs to a tenant: its addresses are those of
// the projects, with their quotas, although its pods, if any, would be in the management VPC.
func (c *Cluster) isOrganization(ctx context.Context, namespace string) bool {
	var projects kubedcv1.ProjectList
	err := c.reader.List(ctx, &projects, client.InNamespace(namespace), client.Limit(1), client.UnsafeDisableDeepCopy)
	return err == nil && len(projects.Items) > 0
}

// listShardNamespaces returns the namespaces that a shard decides about.
func (c *Cluster) listShardNamespaces(ctx context.Context, shard string) ([]client.Object, error) {
	if shard != kubeovn.ManagementVpc {
		ns, err := c.readObject(ctx, intent.ObjectKey{Kind: intent.Namespace, Name: shard})
		if client.IgnoreNotFound(err) != nil {
			return nil, err
		}
		if err != nil { // the namespace is deleted, but the cache may still have objects in it
			ns.SetName(shard)
		}
		return []client.Object{ns}, nil
	}
	var subnets SubnetList
	if err := c.reader.List(ctx, &subnets, append(c.matchIndex(vpcIndex, kubeovn.ManagementVpc),
		client.UnsafeDisableDeepCopy)...); err != nil {
		return nil, err
	}
	names := map[string]bool{kubeovn.ManagementSubnet: true}
	for i := range subnets.Items {
		if isPodSubnet(&subnets.Items[i]) {
			names[subnets.Items[i].Name] = true
		}
	}
	var out []client.Object
	for name := range names {
		var list corev1.NamespaceList
		if err := c.reader.List(ctx, &list, append(c.matchIndex(subnetIndex, name),
			client.UnsafeDisableDeepCopy)...); err != nil {
			return nil, err
		}
		for i := range list.Items {
			if podSubnet(&list.Items[i]) == name && !c.isOrganization(ctx, list.Items[i].Name) {
				out = append(out, &list.Items[i])
			}
		}
	}
	return out, nil
}

// isManagementInUse reports whether the management VPC has managed objects, or pods that EgressIPs select. Most events
// there do not concern us.
func (c *Cluster) isManagementInUse(ctx context.Context) bool {
	if c.managementSelected.Load() {
		return true
	}
	var eips OvnEipList
	err := c.reader.List(ctx, &eips, append(c.matchShard(kubeovn.ManagementVpc), client.Limit(1))...)
	return err == nil && len(eips.Items) > 0
}

// isManagementShard reports whether the shard decides about namespaces of the management VPC. The shard of NodePaths
// decides about their egress through nodes, the management VPC's own shard about everything else.
func (in *Inputs) isManagementShard() bool {
	return in.Shard.Name == kubeovn.ManagementVpc || in.Shard.Kind == shard.OfNodePaths
}

// ownsEgressPolicies reports whether the shard decides about EgressServices and EgressRoutes.
func (in *Inputs) ownsEgressPolicies() bool { return in.Shard.Name != kubeovn.ManagementVpc }

// ownsNamespace reports whether the shard decides about the objects in a namespace.
func (in *Inputs) ownsNamespace(namespace string) bool {
	ns := in.namespaces[namespace]
	if in.isManagementShard() {
		return ns != nil
	}
	return namespace == in.Shard.Name && (ns == nil || in.isOrganization || !in.isManagementNamespace(ns))
}

// addNamespace adds a namespace, but not its contents.
func (in *Inputs) addNamespace(ns *corev1.Namespace) {
	in.knownNamespaces[ns.Name] = ns
	if ns.Name == in.Shard.Name || in.isManagementShard() && in.isManagementNamespace(ns) {
		in.namespaces[ns.Name] = ns
	}
}

// readManagementVPC reads the inputs that only the management VPC has. It returns nil for other shards.
func (in *Inputs) readManagementVPC() *snapshot.Management {
	subnet := in.subnets[kubeovn.ManagementSubnet]
	if in.Shard.Name != kubeovn.ManagementVpc || subnet == nil {
		return nil
	}
	out := &snapshot.Management{TerminatingNamespaces: map[string]bool{}, NamespaceQuotas: map[string]snapshot.Limit{}}
	for name, ns := range in.namespaces {
		out.TerminatingNamespaces[name] = ns.DeletionTimestamp != nil
		out.NamespaceQuotas[name] = readQuota(ns, kubedcv1.EIpQuotaAnnotation)
	}
	first := readPodSubnet(subnet)
	out.Prefixes, out.Gateways = first.Prefixes, first.Gateways
	for name, s := range in.subnets {
		switch {
		case name == kubeovn.ManagementSubnet:
		case name == kubeovn.JoinSubnet:
			out.JoinPrefixes = readPodSubnet(s).Prefixes
		case isPodSubnet(s) && (s.DeletionTimestamp == nil || s.Status.V4UsingIPs > 0): // Kube-OVN waits for the last pod
			out.Subnets = append(out.Subnets, readPodSubnet(s))
		}
	}
	out.PortAddresses = in.readPortAddresses()
	if len(in.egressIPs) > 0 || in.hasOutboundFIps() {
		for _, claim := range in.claimedPrefixes() {
			out.InsidePrefixes = append(out.InsidePrefixes, claim.Prefix)
		}
	}
	out.NodeAddresses = in.readNodeAddresses()
	out.HostPods = in.readHostPods(out.NodeAddresses)
	slices.SortFunc(in.nodes, func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	for _, n := range in.nodes {
		if chassis := gatewayChassis(n); chassis != "" {
			out.GatewayChassis = append(out.GatewayChassis, chassis)
		}
	}
	return out
}

// readNodeAddresses returns the names of nodes by their addresses.
func (in *Inputs) readNodeAddresses() map[netip.Addr]string {
	out := map[netip.Addr]string{}
	for _, n := range in.nodes {
		for _, a := range n.Status.Addresses {
			if address := parseAddr(a.Address); address.IsValid() {
				out[address] = n.Name
			}
		}
	}
	return out
}

// readHostPods returns the addresses and declared ports of pods on the network of their node, by namespace. An address
// counts if it is one of the pod's own node: users of a namespace may be able to write the status of its pods. Who may
// create such pods is decided by Pod Security.
func (in *Inputs) readHostPods(nodes map[netip.Addr]string) map[string]map[netip.AddrPort]bool {
	out := map[string]map[netip.AddrPort]bool{}
	for _, pod := range in.pods {
		if !pod.Spec.HostNetwork || isPodFinished(pod) {
			continue
		}
		for _, a := range reportedAddresses(pod) {
			if nodes[a] == "" || nodes[a] != pod.Spec.NodeName {
				continue
			}
			if out[pod.Namespace] == nil {
				out[pod.Namespace] = map[netip.AddrPort]bool{}
			}
			for _, p := range declaredPorts(pod) {
				out[pod.Namespace][netip.AddrPortFrom(a, uint16(p.ContainerPort))] = true //nolint:gosec // at most 65535
			}
		}
	}
	return out
}

// declaredPorts returns the ports that the containers of a pod declare.
func declaredPorts(pod *corev1.Pod) (out []corev1.ContainerPort) {
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		out = append(out, c.Ports...)
	}
	return out
}

// readPodSubnet reads a Subnet of the management VPC.
func readPodSubnet(s *Subnet) snapshot.PodSubnet {
	out := snapshot.PodSubnet{
		Name: s.Name, UsedIPRanges: parseAddressRanges(strings.Split(s.Status.V4UsingIPRange, ","), "-"),
	}
	for part := range strings.SplitSeq(s.Spec.CIDRBlock, ",") {
		if prefix, err := netip.ParsePrefix(part); err == nil {
			out.Prefixes = append(out.Prefixes, prefix.Masked())
		}
	}
	for part := range strings.SplitSeq(s.Spec.Gateway, ",") {
		if gateway := parseAddr(part); gateway.IsValid() {
			out.Gateways = append(out.Gateways, gateway)
		}
	}
	return out
}

// gatewayChassis returns the chassis of a node that may host gateways, or an empty string if it may not.
func gatewayChassis(n *corev1.Node) string {
	if n.Labels[kubeovn.GatewayLabel] != "true" {
		return ""
	}
	return n.Annotations[kubeovn.ChassisAnnotation]
}

// handleGatewayNode enqueues the management VPC when the gateway chassis or the addresses of nodes change.
func (w *eventMapper) handleGatewayNode(was, is client.Object) {
	matters := func(o client.Object) any {
		n, ok := o.(*corev1.Node)
		if !ok || n == nil {
			return nil
		}
		return []any{gatewayChassis(n), n.Status.Addresses}
	}
	if !reflect.DeepEqual(matters(was), matters(is)) {
		w.enqueueNamed(kubeovn.ManagementVpc)
	}
}

// handleNamespace enqueues the shards that decide, or decided, about the objects in a namespace.
func (w *eventMapper) handleNamespace(ctx context.Context, was, is client.Object) {
	before, now, name := "", "", ""
	for _, side := range []struct {
		object client.Object
		shard  *string
	}{{was, &before}, {is, &now}} {
		if ns, ok := side.object.(*corev1.Namespace); ok && ns != nil {
			*side.shard, name = ns.Name, ns.Name
			if w.cluster.isManagementNamespace(ctx, ns) {
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
			w.enqueueNamed(shard)
		}
	}
}
