package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
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

// GatherNodePaths reads everything that decides about NodePaths, and the EgressServices and EgressRoutes of the
// management VPC.
func (c *Cluster) GatherNodePaths(ctx context.Context) (*Inputs, error) {
	in := NewInputs(shard.NodePaths)
	if err := errors.Join(c.gatherManagementSubnets(ctx, in), c.listInto(ctx, in, &kubedcv1alpha1.ExternalNetworkList{}, nil),
		c.addNodePaths(ctx, in)); err != nil {
		return nil, err
	}
	leaving, err := c.addEgressNamespaces(ctx, in)
	if err != nil {
		return nil, err
	}
	if in.hasUplink(needsServices) {
		if err := c.listInto(ctx, in, &corev1.ServiceList{}, nil); err != nil {
			return nil, err
		}
	}
	for _, namespace := range slices.Sorted(maps.Keys(leaving)) {
		if err := c.gatherEgressObjects(ctx, in, namespace); err != nil {
			return nil, err
		}
	}
	return in, c.gatherAddressOwners(ctx, in)
}

// gatherAddressOwners adds the other Services that have the load balancer addresses used for egress, and the EIps that
// hold these addresses.
func (c *Cluster) gatherAddressOwners(ctx context.Context, in *Inputs) error {
	looked := map[netip.Addr]bool{}
	for _, s := range slices.Clone(in.services) {
		for _, a := range readIngressAddresses(s) {
			if looked[a] {
				continue
			}
			looked[a] = true
			var showing corev1.ServiceList
			var eips kubedcv1.EIpList
			for _, l := range []struct {
				list  client.ObjectList
				index string
			}{{&showing, ingressIndex}, {&eips, addressIndex}} {
				if err := c.reader.List(ctx, l.list,
					append(c.matchIndex(l.index, a.String()), client.UnsafeDisableDeepCopy)...); err != nil {
					return fmt.Errorf("list %T: %w", l.list, err)
				}
			}
			for i := range showing.Items {
				in.ingressServices = append(in.ingressServices, &showing.Items[i])
			}
			for i := range eips.Items {
				in.holdingEIps = append(in.holdingEIps, &eips.Items[i])
			}
		}
	}
	return nil
}

func (c *Cluster) addNodePaths(ctx context.Context, in *Inputs) error {
	return errors.Join(c.listInto(ctx, in, &corev1.NodeList{}, nil),
		c.listInto(ctx, in, &kubedcv1alpha1.NodePathList{}, c.matchShard(in.Shard.Name)))
}

// readNodePaths returns what the agents report, by node.
func (in *Inputs) readNodePaths() map[string]snapshot.NodePathStatus {
	out := map[string]snapshot.NodePathStatus{}
	for _, p := range in.nodePaths {
		out[p.Name] = readNodePath(p)
	}
	return out
}

// addEgressNamespaces adds the namespaces of the management VPC whose pods have egress through nodes, and returns them.
// If no node is on an external network, it skips Services.
func (c *Cluster) addEgressNamespaces(ctx context.Context, in *Inputs) (map[string]bool, error) {
	out := map[string]bool{}
	ask := func(list client.ObjectList, by ...client.ListOption) error {
		if err := c.reader.List(ctx, list, append(by, client.UnsafeDisableDeepCopy)...); err != nil {
			return fmt.Errorf("list %T: %w", list, err)
		}
		return meta.EachListItem(list, func(o runtime.Object) error {
			s, isService := o.(*corev1.Service)
			if name := o.(client.Object).GetNamespace(); !isService || hasEgressAnnotation(s) {
				out[name] = out[name] || c.shardOfEgressPolicies(ctx, name) == in.Shard.Name
			}
			return nil
		})
	}
	err := errors.Join(ask(&ovnv1.EgressServiceList{}), ask(&kubedcv1alpha1.EgressRouteList{}))
	if in.hasUplink(anyMethod) {
		err = errors.Join(err, ask(&corev1.ServiceList{}, c.matchIndex(egressServiceIndex, "true")...))
	}
	for name := range out {
		if !out[name] {
			delete(out, name)
			continue
		}
		ns, wrong := c.readObject(ctx, intent.ObjectKey{Kind: intent.Namespace, Name: name})
		if err = errors.Join(err, wrong); wrong == nil {
			in.Add(ns)
		}
	}
	return out, err
}

// gatherEgressObjects adds the objects of a namespace whose pods have egress through nodes. Without a network on nodes,
// the pods themselves are not needed.
func (c *Cluster) gatherEgressObjects(ctx context.Context, in *Inputs, namespace string) error {
	lists := []client.ObjectList{
		&ovnv1.EgressServiceList{}, &kubedcv1alpha1.EgressRouteList{},
		&discoveryv1.EndpointSliceList{}, &corev1.PodList{},
	}
	if !in.hasUplink(anyMethod) {
		lists = lists[:2]
	}
	if !in.hasUplink(needsServices) { // otherwise they are already read
		lists = append(lists, &corev1.ServiceList{})
	}
	for _, list := range lists {
		if err := c.listInto(ctx, in, list, []client.ListOption{client.InNamespace(namespace)}); err != nil {
			return err
		}
	}
	return c.gatherOutboundFIps(ctx, in, namespace)
}

// gatherOutboundFIps adds the FIps of a namespace with which their targets leave. Their own shard decides about them and
// writes their status; here they only explain why an egress policy has no effect on a pod.
func (c *Cluster) gatherOutboundFIps(ctx context.Context, in *Inputs, namespace string) error {
	var fips kubedcv1.FIpList
	if err := c.reader.List(ctx, &fips, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list FIps of %s: %w", namespace, err)
	}
	for i := range fips.Items {
		if target, is := outboundTarget(&fips.Items[i]); is {
			in.outboundFIps[target] = fips.Items[i].Name
		}
	}
	return nil
}

// outboundTarget returns the target of a FIp if it leaves with the FIp's address.
func outboundTarget(o client.Object) (netip.Addr, bool) {
	f, ok := o.(*kubedcv1.FIp)
	if !ok || f == nil || f.Status.Direction != kubedcv1.FIpBoth || f.DeletionTimestamp != nil {
		return netip.Addr{}, false
	}
	target := parseAddr(f.Status.ResolvedTargetIP)
	return target, target.IsValid()
}

// handleOutboundFIP enqueues the egress policies of a FIp's namespace when the FIp begins or ceases to decide about the
// connections of a pod.
func (w *eventMapper) handleOutboundFIP(ctx context.Context, was, is client.Object) {
	before, hadTarget := outboundTarget(was)
	now, hasTarget := outboundTarget(is)
	if hadTarget == hasTarget && before == now {
		return
	}
	for _, o := range []client.Object{was, is} {
		if o != nil && w.cluster.shardOfEgressPolicies(ctx, o.GetNamespace()) == ownership.NodesShard {
			w.enqueueEgressPolicies(ctx, o.GetNamespace())
		}
	}
}

// addForNodesShard adds what only the shard of NodePaths reads.
func (in *Inputs) addForNodesShard(object client.Object) {
	if in.Shard.Kind != shard.OfNodePaths {
		return
	}
	switch o := object.(type) {
	case *kubedcv1alpha1.NodePath:
		in.nodePaths = append(in.nodePaths, o)
	case *corev1.Service:
		in.externalServices = append(in.externalServices, o)
		in.ingressServices = append(in.ingressServices, o)
	case *kubedcv1.EIp:
		in.holdingEIps = append(in.holdingEIps, o)
	}
}

// BuildNodeSnapshot parses the inputs of the shard of NodePaths.
func (in *Inputs) BuildNodeSnapshot(config snapshot.Config) *snapshot.NodePathInput {
	out := &snapshot.NodePathInput{
		ClusterPrefixes: config.ClusterPrefixes, NodePaths: in.readNodePaths(),
		EgressServices: in.readEgressServices(), EgressRoutes: in.readEgressRoutes(),
		LoadBalancers: in.readLoadBalancers(), OutboundFIps: in.outboundFIps,
		AddressNamespaces: in.readAddressOwners(),
	}
	for _, n := range in.networks {
		if n.Spec.Nodes != nil {
			uplink := readUplink(n, in.nodes)
			uplink.Admitted = in.readAdmitted(n)
			out.Uplinks = append(out.Uplinks, uplink)
		}
	}
	for _, s := range in.externalServices {
		if r := readServiceAddresses(s); len(r.ExternalIPs) > 0 {
			out.ExposedServices = append(out.ExposedServices, r)
		}
	}
	for _, n := range in.nodes {
		for _, a := range n.Status.Addresses {
			out.NodeAddresses = append(out.NodeAddresses, ParseAddresses([]string{a.Address})...)
		}
	}
	return out
}

// readAddressOwners returns which namespace owns each address: the namespace of the EIp that holds it, or else that of
// the oldest Service that has it.
func (in *Inputs) readAddressOwners() map[netip.Addr]string {
	out := map[netip.Addr]string{}
	for _, s := range slices.SortedFunc(slices.Values(in.ingressServices), func(a, b *corev1.Service) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace),
			cmp.Compare(a.Name, b.Name))
	}) {
		for _, a := range readIngressAddresses(s) {
			if _, taken := out[a]; !taken && s.Spec.Type == corev1.ServiceTypeLoadBalancer &&
				s.DeletionTimestamp == nil {
				out[a] = s.Namespace
			}
		}
	}
	for _, e := range in.holdingEIps {
		if a := parseAddr(e.Status.IPAddress); a.IsValid() {
			out[a] = e.Namespace
		}
	}
	return out
}

// readLoadBalancers returns the Services of type LoadBalancer with their pods.
func (in *Inputs) readLoadBalancers() (out []snapshot.LoadBalancerService) {
	for _, o := range in.services {
		if o.Spec.Type != corev1.ServiceTypeLoadBalancer || o.DeletionTimestamp != nil {
			continue
		}
		b := snapshot.LoadBalancerService{
			Meta:         readMeta(o.ObjectMeta),
			EgressByLBIP: hasEgressAnnotation(o),
			ExternalIPs:  readIngressAddresses(o),
		}
		nodes := in.nodesByPodAddress(o.Namespace)
		for _, slice := range in.endpointSlices[o.Namespace+"/"+o.Name] {
			b.Pods = append(b.Pods, readEndpointNodes(slice, nodes)...)
		}
		b.Pods = dedupByAddress(b.Pods)
		out = append(out, b)
	}
	return out
}

// nodesByPodAddress returns the node of each pod address of a namespace, as the node reported it.
func (in *Inputs) nodesByPodAddress(namespace string) map[netip.Addr]string {
	out := map[netip.Addr]string{}
	for _, pod := range in.pods {
		if pod.Namespace != namespace {
			continue
		}
		for _, a := range reportedAddresses(pod) {
			out[a] = pod.Spec.NodeName
		}
	}
	return out
}

// readEndpointNodes returns the addresses of an EndpointSlice that are ready or still serving, as far as pods of its
// namespace have them. Otherwise anyone who can write EndpointSlices could redirect the egress of other pods.
func readEndpointNodes(o *discoveryv1.EndpointSlice, nodes map[netip.Addr]string) (out []snapshot.PodPlacement) {
	for _, e := range o.Endpoints {
		if !boolOrDefault(e.Conditions.Ready, true) && !boolOrDefault(e.Conditions.Serving, false) {
			continue
		}
		for _, a := range ParseAddresses(e.Addresses) {
			if node := nodes[a]; node != "" {
				out = append(out, snapshot.PodPlacement{Address: a, Node: node})
			}
		}
	}
	return out
}

// readNodePath reads what the agent of a node reports. A problem that is not tied to a network counts for each network.
func readNodePath(o *kubedcv1alpha1.NodePath) snapshot.NodePathStatus {
	out := snapshot.NodePathStatus{
		IsCurrent:       o.Status.ObservedGeneration == o.Generation,
		NetworkProblems: map[string]string{},
		Repairs:         o.Status.Repairs,
	}
	for _, n := range o.Status.Networks {
		out.NetworkProblems[n.Name] = n.Problem
	}
	programmed := meta.FindStatusCondition(o.Status.Conditions, kubedcv1.ConditionProgrammed)
	switch named := slices.ContainsFunc(o.Status.Networks, func(n kubedcv1alpha1.NodeNetworkStatus) bool {
		return n.Problem != ""
	}); {
	case programmed == nil:
		out.IsCurrent = false
	case programmed.Status != metav1.ConditionTrue && !named:
		for name := range out.NetworkProblems {
			out.NetworkProblems[name] = cmp.Or(programmed.Message, programmed.Reason)
		}
	}
	return out
}

// hasUplink reports whether nodes are on an external network with a matching method.
func (in *Inputs) hasUplink(by func(kubedcv1alpha1.NodeMethod) bool) bool {
	return slices.ContainsFunc(in.networks, func(n *kubedcv1alpha1.ExternalNetwork) bool {
		return n.Spec.Nodes != nil && by(n.Spec.Nodes.Method)
	})
}

func anyMethod(kubedcv1alpha1.NodeMethod) bool { return true }

// needsServices reports whether a method depends on Services.
func needsServices(m kubedcv1alpha1.NodeMethod) bool {
	return slices.Contains([]kubedcv1alpha1.NodeMethod{
		kubedcv1alpha1.NodeSourceRule, kubedcv1alpha1.NodeMark,
		kubedcv1alpha1.NodeVRF,
	}, m)
}

func readUplink(n *kubedcv1alpha1.ExternalNetwork, nodes []*corev1.Node) snapshot.Uplink {
	spec := n.Spec.Nodes
	out := snapshot.Uplink{
		Meta: readMeta(n.ObjectMeta), Type: string(n.Spec.Type), Interface: spec.Interface, MAC: spec.MAC,
		Method: string(spec.Method), UseVethPair: spec.Legs, Steering: string(spec.Steering),
		Gateways: ParseAddresses(spec.Gateways),
	}
	var p parser
	for _, text := range spec.Addresses {
		out.ServicePrefixes = append(out.ServicePrefixes, p.readPrefix("nodes.addresses", text))
	}
	for _, text := range spec.Clients {
		out.ClientPrefixes = append(out.ClientPrefixes, p.readPrefix("nodes.clients", text))
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
	for _, n := range nodes {
		if chosen.Matches(labels.Set(n.Labels)) {
			out.Nodes = append(out.Nodes, n.Name)
		}
	}
	return out
}

// readServiceAddresses returns the external addresses of a Service: its load balancer addresses and spec.externalIPs.
func readServiceAddresses(s *corev1.Service) (out snapshot.ExposedService) {
	if s.DeletionTimestamp != nil {
		return out
	}
	out.ExternalIPs, out.ClusterIPs = append(readIngressAddresses(s), ParseAddresses(s.Spec.ExternalIPs)...),
		ParseAddresses(s.Spec.ClusterIPs)
	return out
}

// readIngressAddresses returns the load balancer addresses of a Service. Egress never uses spec.externalIPs, because
// anyone who can write a Service can put any address there.
func readIngressAddresses(s *corev1.Service) (out []netip.Addr) {
	for _, i := range s.Status.LoadBalancer.Ingress {
		out = append(out, ParseAddresses([]string{i.IP})...)
	}
	return out
}

// hasUplink reports whether nodes are on an external network with a matching method.
func (c *Cluster) hasUplink(ctx context.Context, by func(kubedcv1alpha1.NodeMethod) bool) bool {
	var networks kubedcv1alpha1.ExternalNetworkList
	if err := c.reader.List(ctx, &networks, client.UnsafeDisableDeepCopy); err != nil {
		return false // the cache is not synced yet; every object will be an event
	}
	return slices.ContainsFunc(networks.Items, func(n kubedcv1alpha1.ExternalNetwork) bool {
		return n.Spec.Nodes != nil && by(n.Spec.Nodes.Method)
	})
}

// shardOfEgressPolicies returns the shard that decides about EgressServices and EgressRoutes of a namespace.
func (c *Cluster) shardOfEgressPolicies(ctx context.Context, namespace string) string {
	if shard := c.shardOfNamespace(ctx, namespace); shard != kubeovn.ManagementVpc {
		return shard
	}
	return ownership.NodesShard
}

// handleServiceAddresses enqueues the NodePaths when the external addresses of a Service change.
func (w *eventMapper) handleServiceAddresses(ctx context.Context, was, is client.Object) {
	read := func(o client.Object) []netip.Addr {
		s, isService := o.(*corev1.Service)
		if !isService || s == nil {
			return nil
		}
		r := readServiceAddresses(s)
		if len(r.ExternalIPs) == 0 {
			return nil
		}
		return append(r.ExternalIPs, r.ClusterIPs...)
	}
	if !slices.Equal(read(was), read(is)) && w.cluster.hasUplink(ctx, needsServices) {
		w.enqueue(shard.NodePaths)
	}
}

// handleServiceEgress enqueues the NodePaths when the egress address of a Service's pods may have changed.
func (w *eventMapper) handleServiceEgress(ctx context.Context, was, is client.Object) {
	matters := func(o client.Object) any {
		s, isService := o.(*corev1.Service)
		if !isService || s == nil {
			return nil
		}
		return []any{s.Spec.Type, readIngressAddresses(s), hasEgressAnnotation(s), s.DeletionTimestamp == nil}
	}
	if reflect.DeepEqual(matters(was), matters(is)) {
		return
	}
	for _, o := range []client.Object{was, is} {
		if s, isService := o.(*corev1.Service); isService && s != nil {
			w.enqueueServiceEgress(ctx, s)
			w.enqueueAddressSharers(ctx, s)
		}
	}
}

// enqueueAddressSharers enqueues the NodePaths when the pods of another Service use an address of this one for egress,
// or ask to: the oldest Service gets it.
func (w *eventMapper) enqueueAddressSharers(ctx context.Context, s *corev1.Service) {
	if !w.cluster.hasUplink(ctx, anyMethod) {
		return
	}
	for _, a := range readIngressAddresses(s) {
		var list corev1.ServiceList
		if err := w.cluster.reader.List(ctx, &list,
			append(w.cluster.matchIndex(ingressIndex, a.String()), client.UnsafeDisableDeepCopy)...); err != nil {
			return // the cache is not synced yet; every object will be an event
		}
		for i := range list.Items {
			if slices.Contains(readIngressAddresses(&list.Items[i]), a) {
				w.enqueueServiceEgress(ctx, &list.Items[i])
			}
		}
	}
}

// enqueueServiceEgress enqueues the NodePaths if the pods of a Service have egress through nodes, or should have.
func (w *eventMapper) enqueueServiceEgress(ctx context.Context, s *corev1.Service) {
	if !hasEgressAnnotation(s) {
		if _, err := w.cluster.readObject(ctx,
			intent.ObjectKey{Kind: intent.EgressService, Namespace: s.Namespace, Name: s.Name}); err != nil {
			return
		}
	}
	if w.cluster.shardOfEgressPolicies(ctx, s.Namespace) == ownership.NodesShard &&
		w.cluster.hasUplink(ctx, anyMethod) {
		w.enqueue(shard.NodePaths)
	}
}

// enqueueEgressPolicies enqueues the shard that applies egress policies to the pods of a namespace. It skips the shard
// of NodePaths if no node is on an external network.
func (w *eventMapper) enqueueEgressPolicies(ctx context.Context, namespace string) {
	if shard := w.cluster.shardOfEgressPolicies(ctx, namespace); shard != ownership.NodesShard ||
		w.cluster.hasUplink(ctx, anyMethod) {
		w.enqueueNamed(shard)
	}
}

// enqueueHandover enqueues the NodePaths when a namespace joins or leaves the management VPC and its pods may have
// egress through nodes.
func (w *eventMapper) enqueueHandover(ctx context.Context, namespace string) {
	var services ovnv1.EgressServiceList
	err := w.cluster.reader.List(ctx, &services, client.InNamespace(namespace), client.UnsafeDisableDeepCopy)
	if err == nil && len(services.Items) > 0 || w.cluster.hasEgressRoutes(ctx, namespace) ||
		w.cluster.hasUplink(ctx, anyMethod) {
		w.enqueue(shard.NodePaths)
	}
}

// handleUplinkNode enqueues the NodePaths when the labels or addresses of a node change.
func (w *eventMapper) handleUplinkNode(was, is client.Object) {
	matters := func(o client.Object) any {
		n, isNode := o.(*corev1.Node)
		if !isNode || n == nil {
			return nil
		}
		return []any{n.Labels, n.Status.Addresses}
	}
	if !reflect.DeepEqual(matters(was), matters(is)) {
		w.enqueue(shard.NodePaths)
	}
}
