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
	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/kubeovn"
	"github.com/sallyport/sallyport/internal/ownership"
	"github.com/sallyport/sallyport/internal/snapshot"
)

// GatherNodes reads everything that decides about NodePaths, and the EgressServices and EgressRoutes of the management VPC.
func (c *Cluster) GatherNodes(ctx context.Context) (*Inputs, error) {
	in := NewInputs(ownership.NodesShard)
	if err := errors.Join(c.add(ctx, in, &kubedcv1alpha1.ExternalNetworkList{}, nil), c.addPaths(ctx, in)); err != nil {
		return nil, err
	}
	leaving, err := c.leaving(ctx, in)
	if err != nil {
		return nil, err
	}
	if in.uplinked(byService) {
		if err := c.add(ctx, in, &corev1.ServiceList{}, nil); err != nil {
			return nil, err
		}
	}
	for _, namespace := range slices.Sorted(maps.Keys(leaving)) {
		if err := c.gatherLeaving(ctx, in, namespace); err != nil {
			return nil, err
		}
	}
	return in, c.gatherOwners(ctx, in)
}

// gatherOwners adds who else shows the addresses of Services whose pods leave with them, and the EIps that hold these.
func (c *Cluster) gatherOwners(ctx context.Context, in *Inputs) error {
	looked := map[netip.Addr]bool{}
	for _, s := range slices.Clone(in.services) {
		for _, a := range readIngress(s) {
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
				if err := c.reader.List(ctx, l.list, append(c.by(l.index, a.String()), client.UnsafeDisableDeepCopy)...); err != nil {
					return fmt.Errorf("list %T: %w", l.list, err)
				}
			}
			for i := range showing.Items {
				in.showing = append(in.showing, &showing.Items[i])
			}
			for i := range eips.Items {
				in.holding = append(in.holding, &eips.Items[i])
			}
		}
	}
	return nil
}

// addPaths adds the nodes and their NodePaths.
func (c *Cluster) addPaths(ctx context.Context, in *Inputs) error {
	return errors.Join(c.add(ctx, in, &corev1.NodeList{}, nil), c.add(ctx, in, &kubedcv1alpha1.NodePathList{}, c.inShard(in.Shard)))
}

// readPaths reads what the agents say, by node.
func (in *Inputs) readPaths() map[string]snapshot.Path {
	out := map[string]snapshot.Path{}
	for _, p := range in.paths {
		out[p.Name] = readPath(p)
	}
	return out
}

// leaving adds the namespaces of the management VPC of which pods are to leave by nodes, and says which these are. Where no node is on an
// external network, Services are not looked at.
func (c *Cluster) leaving(ctx context.Context, in *Inputs) (map[string]bool, error) {
	out := map[string]bool{}
	ask := func(list client.ObjectList, by ...client.ListOption) error {
		if err := c.reader.List(ctx, list, append(by, client.UnsafeDisableDeepCopy)...); err != nil {
			return fmt.Errorf("list %T: %w", list, err)
		}
		return meta.EachListItem(list, func(o runtime.Object) error {
			s, isService := o.(*corev1.Service)
			if name := o.(client.Object).GetNamespace(); !isService || leaves(s) {
				out[name] = out[name] || c.shardOfDiversions(ctx, name) == in.Shard
			}
			return nil
		})
	}
	err := errors.Join(ask(&ovnv1.EgressServiceList{}), ask(&kubedcv1alpha1.EgressRouteList{}))
	if in.uplinked(byAny) {
		err = errors.Join(err, ask(&corev1.ServiceList{}, c.by(leavesIndex, "true")...))
	}
	for name := range out {
		if !out[name] {
			delete(out, name)
			continue
		}
		ns, wrong := c.read(ctx, intent.ObjectKey{Kind: intent.Namespace, Name: name})
		if err = errors.Join(err, wrong); wrong == nil {
			in.Add(ns)
		}
	}
	return out, err
}

// gatherLeaving adds what is in a namespace of which pods are to leave by nodes. Without a network there is no need to know who they are.
func (c *Cluster) gatherLeaving(ctx context.Context, in *Inputs, namespace string) error {
	lists := []client.ObjectList{&ovnv1.EgressServiceList{}, &kubedcv1alpha1.EgressRouteList{}, &discoveryv1.EndpointSliceList{}, &corev1.PodList{}}
	if !in.uplinked(byAny) {
		lists = lists[:2]
	}
	if !in.uplinked(byService) { // otherwise they are there already
		lists = append(lists, &corev1.ServiceList{})
	}
	for _, list := range lists {
		if err := c.add(ctx, in, list, []client.ListOption{client.InNamespace(namespace)}); err != nil {
			return err
		}
	}
	return nil
}

// addNodes takes in what only the shard of NodePaths reads.
func (in *Inputs) addNodes(object client.Object) {
	if in.Shard != ownership.NodesShard {
		return
	}
	switch o := object.(type) {
	case *kubedcv1alpha1.NodePath:
		in.paths = append(in.paths, o)
	case *corev1.Service:
		in.reaching = append(in.reaching, o)
		in.showing = append(in.showing, o)
	case *kubedcv1.EIp:
		in.holding = append(in.holding, o)
	}
}

// Nodes is the inputs of the shard of NodePaths, parsed.
func (in *Inputs) Nodes(config snapshot.Config) *snapshot.Nodes {
	out := &snapshot.Nodes{
		Inside: config.Inside, Paths: in.readPaths(),
		EgressServices: in.readEgressServices(), EgressRoutes: in.readEgressRoutes(), Balancers: in.readBalancers(),
		Owners: in.readOwners(),
	}
	for _, n := range in.networks {
		if n.Spec.Nodes != nil {
			uplink := readUplink(n, in.nodes)
			uplink.Admitted = in.readAdmitted(n)
			out.Uplinks = append(out.Uplinks, uplink)
		}
	}
	for _, s := range in.reaching {
		if r := readReached(s); len(r.External) > 0 {
			out.Reached = append(out.Reached, r)
		}
	}
	for _, n := range in.nodes {
		for _, a := range n.Status.Addresses {
			out.Hosts = append(out.Hosts, Addresses([]string{a.Address})...)
		}
	}
	return out
}

// readOwners reads which namespace has each address: that of the EIp that holds it, or else that of the oldest Service that shows it.
func (in *Inputs) readOwners() map[netip.Addr]string {
	out := map[netip.Addr]string{}
	for _, s := range slices.SortedFunc(slices.Values(in.showing), func(a, b *corev1.Service) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	}) {
		for _, a := range readIngress(s) {
			if _, taken := out[a]; !taken && s.Spec.Type == corev1.ServiceTypeLoadBalancer && s.DeletionTimestamp == nil {
				out[a] = s.Namespace
			}
		}
	}
	for _, e := range in.holding {
		if a := parsed(e.Status.IPAddress); a.IsValid() {
			out[a] = e.Namespace
		}
	}
	return out
}

// readBalancers reads the Services of type LoadBalancer, with the pods behind them.
func (in *Inputs) readBalancers() (out []snapshot.Balancer) {
	for _, o := range in.services {
		if o.Spec.Type != corev1.ServiceTypeLoadBalancer || o.DeletionTimestamp != nil {
			continue
		}
		b := snapshot.Balancer{Meta: readMeta(o.ObjectMeta), Leaves: leaves(o), External: readIngress(o)}
		nodes := in.placesOf(o.Namespace)
		for _, slice := range in.slices[o.Namespace+"/"+o.Name] {
			b.Pods = append(b.Pods, readPlaces(slice, nodes)...)
		}
		b.Pods = inPlaces(b.Pods)
		out = append(out, b)
	}
	return out
}

// placesOf is the node of each pod address of a namespace, as reported by its node.
func (in *Inputs) placesOf(namespace string) map[netip.Addr]string {
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

// readPlaces reads the addresses of a slice that get connections, or finish some, as far as pods of its namespace have them: whoever may
// write slices could lead pods of others out.
func readPlaces(o *discoveryv1.EndpointSlice, nodes map[netip.Addr]string) (out []snapshot.Placed) {
	for _, e := range o.Endpoints {
		if !isTrue(e.Conditions.Ready, true) && !isTrue(e.Conditions.Serving, false) {
			continue
		}
		for _, a := range Addresses(e.Addresses) {
			if node := nodes[a]; node != "" {
				out = append(out, snapshot.Placed{Address: a, Node: node})
			}
		}
	}
	return out
}

// readPath reads what the agent of a node says. What it says of no network in particular, it says of each.
func readPath(o *kubedcv1alpha1.NodePath) snapshot.Path {
	out := snapshot.Path{Reported: o.Status.ObservedGeneration == o.Generation, Networks: map[string]string{}, Repairs: o.Status.Repairs}
	for _, n := range o.Status.Networks {
		out.Networks[n.Name] = n.Problem
	}
	programmed := meta.FindStatusCondition(o.Status.Conditions, kubedcv1.ConditionProgrammed)
	switch told := slices.ContainsFunc(o.Status.Networks, func(n kubedcv1alpha1.NodeNetworkStatus) bool { return n.Problem != "" }); {
	case programmed == nil:
		out.Reported = false
	case programmed.Status != metav1.ConditionTrue && !told:
		for name := range out.Networks {
			out.Networks[name] = cmp.Or(programmed.Message, programmed.Reason)
		}
	}
	return out
}

// uplinked says whether nodes are on an external network by a method.
func (in *Inputs) uplinked(by func(kubedcv1alpha1.NodeMethod) bool) bool {
	return slices.ContainsFunc(in.networks, func(n *kubedcv1alpha1.ExternalNetwork) bool { return n.Spec.Nodes != nil && by(n.Spec.Nodes.Method) })
}

func byAny(kubedcv1alpha1.NodeMethod) bool { return true }

// byService says whether a method has to know Services.
func byService(m kubedcv1alpha1.NodeMethod) bool {
	return slices.Contains([]kubedcv1alpha1.NodeMethod{kubedcv1alpha1.NodeSourceRule, kubedcv1alpha1.NodeMark, kubedcv1alpha1.NodeVRF}, m)
}

func readUplink(n *kubedcv1alpha1.ExternalNetwork, nodes []*corev1.Node) snapshot.Uplink {
	spec := n.Spec.Nodes
	out := snapshot.Uplink{
		Meta: readMeta(n.ObjectMeta), Type: string(n.Spec.Type), Interface: spec.Interface, MAC: spec.MAC, Method: string(spec.Method), Legs: spec.Legs,
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
	for _, n := range nodes {
		if chosen.Matches(labels.Set(n.Labels)) {
			out.Nodes = append(out.Nodes, n.Name)
		}
	}
	return out
}

// readReached reads by which external addresses a Service is reached: that of its load balancer, and those of spec.externalIPs.
func readReached(s *corev1.Service) (out snapshot.Reached) {
	if s.DeletionTimestamp != nil {
		return out
	}
	out.External, out.Cluster = append(readIngress(s), Addresses(s.Spec.ExternalIPs)...), Addresses(s.Spec.ClusterIPs)
	return out
}

// readIngress reads the addresses of a Service's load balancer. Nobody leaves with those of spec.externalIPs: whoever may write a Service
// writes any address there.
func readIngress(s *corev1.Service) (out []netip.Addr) {
	for _, i := range s.Status.LoadBalancer.Ingress {
		out = append(out, Addresses([]string{i.IP})...)
	}
	return out
}

// uplinks says whether nodes are on an external network by a method.
func (c *Cluster) uplinks(ctx context.Context, by func(kubedcv1alpha1.NodeMethod) bool) bool {
	var networks kubedcv1alpha1.ExternalNetworkList
	if err := c.reader.List(ctx, &networks, client.UnsafeDisableDeepCopy); err != nil {
		return false // the cache is not there yet; everything is an event then
	}
	return slices.ContainsFunc(networks.Items, func(n kubedcv1alpha1.ExternalNetwork) bool { return n.Spec.Nodes != nil && by(n.Spec.Nodes.Method) })
}

// shardOfDiversions is the shard that decides about EgressServices and EgressRoutes of a namespace.
func (c *Cluster) shardOfDiversions(ctx context.Context, namespace string) string {
	if shard := c.shardOfNamespace(ctx, namespace); shard != kubeovn.ManagementVpc {
		return shard
	}
	return ownership.NodesShard
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
	if !slices.Equal(read(was), read(is)) && w.cluster.uplinks(ctx, byService) {
		w.ask(ownership.NodesShard)
	}
}

// balanced asks for the NodePaths when pods behind a Service may have to leave with another address than before.
func (w *watch) balanced(ctx context.Context, was, is client.Object) {
	matters := func(o client.Object) any {
		s, isService := o.(*corev1.Service)
		if !isService || s == nil {
			return nil
		}
		return []any{s.Spec.Type, readIngress(s), leaves(s), s.DeletionTimestamp == nil}
	}
	if reflect.DeepEqual(matters(was), matters(is)) {
		return
	}
	for _, o := range []client.Object{was, is} {
		if s, isService := o.(*corev1.Service); isService && s != nil {
			w.leaving(ctx, s)
			w.sharing(ctx, s)
		}
	}
}

// sharing asks for the NodePaths when pods behind another Service leave with an address of this one, or would: the oldest has it.
func (w *watch) sharing(ctx context.Context, s *corev1.Service) {
	if !w.cluster.uplinks(ctx, byAny) {
		return
	}
	for _, a := range readIngress(s) {
		var list corev1.ServiceList
		if err := w.cluster.reader.List(ctx, &list, append(w.cluster.by(ingressIndex, a.String()), client.UnsafeDisableDeepCopy)...); err != nil {
			return // the cache is not there yet; everything is an event then
		}
		for i := range list.Items {
			if slices.Contains(readIngress(&list.Items[i]), a) {
				w.leaving(ctx, &list.Items[i])
			}
		}
	}
}

// leaving asks for the NodePaths when pods behind a Service leave by nodes, or should.
func (w *watch) leaving(ctx context.Context, s *corev1.Service) {
	if !leaves(s) {
		if _, err := w.cluster.read(ctx, intent.ObjectKey{Kind: intent.EgressService, Namespace: s.Namespace, Name: s.Name}); err != nil {
			return
		}
	}
	if w.cluster.shardOfDiversions(ctx, s.Namespace) == ownership.NodesShard && w.cluster.uplinks(ctx, byAny) {
		w.ask(ownership.NodesShard)
	}
}

// diverted asks for the shard that leads pods of a namespace elsewhere. Where no node is on an external network that is none of nodes.
func (w *watch) diverted(ctx context.Context, namespace string) {
	if shard := w.cluster.shardOfDiversions(ctx, namespace); shard != ownership.NodesShard || w.cluster.uplinks(ctx, byAny) {
		w.ask(shard)
	}
}

// handedOver asks for the NodePaths when a namespace comes to the management VPC or leaves it, if pods there may leave by nodes.
func (w *watch) handedOver(ctx context.Context, namespace string) {
	var services ovnv1.EgressServiceList
	err := w.cluster.reader.List(ctx, &services, client.InNamespace(namespace), client.UnsafeDisableDeepCopy)
	if err == nil && len(services.Items) > 0 || w.cluster.routed(ctx, namespace) || w.cluster.uplinks(ctx, byAny) {
		w.ask(ownership.NodesShard)
	}
}

// uplinked asks for the NodePaths when another node may be on a network, or has other addresses.
func (w *watch) uplinked(was, is client.Object) {
	matters := func(o client.Object) any {
		n, isNode := o.(*corev1.Node)
		if !isNode || n == nil {
			return nil
		}
		return []any{n.Labels, n.Status.Addresses}
	}
	if !reflect.DeepEqual(matters(was), matters(is)) {
		w.ask(ownership.NodesShard)
	}
}
