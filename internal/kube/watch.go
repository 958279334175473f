package kube

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	ovnv1 "github.com/sallyport/sallyport/api/ovn/v1"
	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/kubeovn"
	"github.com/sallyport/sallyport/internal/ownership"
	"github.com/sallyport/sallyport/internal/snapshot"
)

// watch maps what happens to objects to the shards that it matters to.
type watch struct {
	cluster *Cluster
	ask     func(shard string)
}

// Watch asks for the shards that an event touches, and says of what kind of object it is. Until the cache is synced, every object is an event.
func (c *Cluster) Watch(ctx context.Context, objects cache.Cache, ask func(shard, by string)) error {
	watched := []client.Object{
		&kubedcv1.Project{}, &kubedcv1.EIp{}, &kubedcv1.FIp{}, &kubedcv1alpha1.ExternalNetwork{}, &ovnv1.EgressIP{},
		&ovnv1.EgressService{}, &kubedcv1alpha1.EgressRoute{}, &kubedcv1alpha1.NodePath{},
		&corev1.Namespace{}, &corev1.Node{}, &corev1.Pod{}, &corev1.Service{}, &discoveryv1.EndpointSlice{},
		&Vpc{}, &Subnet{}, &NetworkAttachmentDefinition{}, &OvnEip{}, &OvnFip{}, &OvnSnatRule{},
	}
	for _, kind := range c.have(optional) {
		object, err := newObject(kind)
		if err != nil {
			return err
		}
		watched = append(watched, object)
	}
	for _, object := range watched {
		informer, err := objects.GetInformer(ctx, object)
		if err != nil {
			return fmt.Errorf("watch %T: %w", object, err)
		}
		key, err := KeyOf(object)
		if err != nil {
			return err
		}
		w := &watch{cluster: c, ask: func(shard string) { ask(shard, string(key.Kind)) }}
		if _, err := informer.AddEventHandler(w.handler(ctx)); err != nil {
			return fmt.Errorf("watch %T: %w", object, err)
		}
	}
	return nil
}

func (w *watch) handler(ctx context.Context) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { w.changed(ctx, nil, o.(client.Object)) },
		UpdateFunc: func(was, is any) { w.changed(ctx, was.(client.Object), is.(client.Object)) },
		DeleteFunc: func(o any) {
			if last, unknown := o.(toolscache.DeletedFinalStateUnknown); unknown {
				o = last.Obj
			}
			w.changed(ctx, o.(client.Object), nil)
		},
	}
}

// changed asks for the shards that an object had a say in, or has now.
func (w *watch) changed(ctx context.Context, was, is client.Object) {
	if was != nil && is != nil && was.GetResourceVersion() == is.GetResourceVersion() {
		return // the cache's own look through everything
	}
	w.cluster.progress.saw(was, is)
	if is == nil {
		w.cluster.forget(was)
	}
	var object client.Object
	for _, o := range []client.Object{was, is} {
		if o == nil {
			continue
		}
		object = o
		if shard := belongs(o); shard != "" {
			w.ask(shard)
		}
	}
	switch o := object.(type) {
	case *kubedcv1.Project:
		w.project(ctx, o, was == nil || is == nil)
	case *ovnv1.EgressIP:
		w.egressIP(ctx, was, is)
	case *kubedcv1.EIp, *kubedcv1.FIp:
		w.inside(ctx, o.GetNamespace())
		w.freed(ctx, was, is)
	case *ovnv1.EgressService, *kubedcv1alpha1.EgressRoute:
		w.ask(w.cluster.shardOfDiversions(ctx, o.GetNamespace()))
	case *kubedcv1alpha1.ExternalNetwork:
		w.network(ctx, was, is)
	case *kubedcv1alpha1.NodePath:
		w.ask(NetworksShard)
	case *corev1.Namespace, *corev1.Node, *corev1.Pod, *VirtualMachineInstance, *corev1.Service, *discoveryv1.EndpointSlice:
		w.workload(ctx, was, is)
	case *Subnet:
		w.subnet(ctx, was, is)
	case *OvnEip:
		w.released(ctx, was, is)
		w.ported(ctx, o)
	}
}

// project asks for the shard of a Project and, when it comes or goes, for that of the namespace that it is in: with its first Project
// that becomes a tenant's.
func (w *watch) project(ctx context.Context, o *kubedcv1.Project, comesOrGoes bool) {
	w.ask(snapshot.ShardOf(o.Namespace, o.Name))
	w.refusedByQuota(ctx) // its own quota is a part of its organization's
	if comesOrGoes || o.DeletionTimestamp != nil {
		w.egress(ctx)
	}
	if comesOrGoes {
		w.organization(ctx, o.Namespace, false)
		w.ask(o.Namespace)
		w.ask(kubeovn.ManagementVpc)
		w.handedOver(ctx, o.Namespace)
	}
}

// network asks for the networks and, when one comes, goes or is another, for everybody.
func (w *watch) network(ctx context.Context, was, is client.Object) {
	w.ask(NetworksShard)
	w.ask(ownership.NodesShard)
	if was == nil || is == nil || was.GetGeneration() != is.GetGeneration() {
		w.everybody(ctx)
	}
}

// ported asks for the shard of a router whose port an address is for: Kube-OVN makes such addresses too, without our labels.
func (w *watch) ported(ctx context.Context, o *OvnEip) {
	if router, isPorts := strings.CutSuffix(o.Name, "-"+o.Spec.ExternalSubnet); isPorts {
		w.claimed(ctx, router)
	}
}

// everybody asks for every project's shard, and for the management VPC.
func (w *watch) everybody(ctx context.Context) {
	w.ask(kubeovn.ManagementVpc)
	w.egress(ctx)
	var projects kubedcv1.ProjectList
	if err := w.cluster.reader.List(ctx, &projects, client.UnsafeDisableDeepCopy); err != nil {
		return // the cache is not there yet; everything is an event then
	}
	for i := range projects.Items {
		w.ask(snapshot.ShardOf(projects.Items[i].Namespace, projects.Items[i].Name))
	}
}

// claimed asks for a shard that a Project wants: its namespace may have been somebody else's.
func (w *watch) claimed(ctx context.Context, name string) {
	if w.cluster.claimed(ctx, name) {
		w.ask(name)
	}
}

// target asks for the shard of a pod or VM that a FIp names, or of a pod that a health check may ask, when its addresses or its end have changed.
func (w *watch) target(ctx context.Context, was, is client.Object) {
	object := is
	if object == nil {
		object = was
	}
	if was != nil && is != nil && reflect.DeepEqual(addresses(was), addresses(is)) {
		return
	}
	if _, isPod := object.(*corev1.Pod); isPod {
		w.backed(ctx, object.GetNamespace())
	}
	var fips kubedcv1.FIpList
	if err := w.cluster.reader.List(ctx, &fips, client.InNamespace(object.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
		return
	}
	for i := range fips.Items {
		spec := fips.Items[i].Spec
		if (spec.PodTarget != nil && spec.PodTarget.PodName == object.GetName()) || (spec.VMTarget != nil && spec.VMTarget.VMName == object.GetName()) {
			w.ask(object.GetNamespace())
			return
		}
	}
}

// backed asks for the shards in which endpoints count by the addresses of pods: where backends are checked and, in the management VPC, load
// balancers and what leaves by nodes.
func (w *watch) backed(ctx context.Context, namespace string) {
	var services corev1.ServiceList
	if err := w.cluster.reader.List(ctx, &services, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return
	}
	management := w.cluster.shardOfNamespace(ctx, namespace) == kubeovn.ManagementVpc
	for i := range services.Items {
		s := &services.Items[i]
		if checks(s) || management && balances(s) {
			w.inside(ctx, namespace)
		}
		if management && balances(s) {
			w.leaving(ctx, s)
		}
	}
}

// workload asks for the shard of what addresses lead to, and of where that runs.
func (w *watch) workload(ctx context.Context, was, is client.Object) {
	for _, object := range []client.Object{was, is} {
		switch o := object.(type) {
		case *corev1.Namespace:
			w.namespace(ctx, was, is)
			w.labelled(ctx, was, is)
			w.limited(ctx, was, is)
			return
		case *corev1.Node:
			w.node(was, is)
			w.holder(ctx, was, is)
			w.uplinked(was, is)
			return
		case *corev1.Service:
			w.reached(ctx, was, is)
			w.balanced(ctx, was, is)
			if balances(o) && !sameService(was, is) { // or did
				w.inside(ctx, o.Namespace)
			}
		case *discoveryv1.EndpointSlice:
			w.endpoints(ctx, o)
		case *corev1.Pod:
			w.target(ctx, was, is)
			w.selected(ctx, was, is)
			return
		case *VirtualMachineInstance:
			w.target(ctx, was, is)
			return
		}
	}
}

// endpoints asks for the shard of endpoints behind a load balancer.
func (w *watch) endpoints(ctx context.Context, o *discoveryv1.EndpointSlice) {
	s, err := w.cluster.read(ctx, intent.ObjectKey{Kind: intent.Service, Namespace: o.Namespace, Name: serviceOf(o)})
	if err == nil && balances(s.(*corev1.Service)) {
		w.inside(ctx, o.Namespace)
		w.leaving(ctx, s.(*corev1.Service))
	}
}

// inside asks for the shard that decides about what is in a namespace.
func (w *watch) inside(ctx context.Context, namespace string) {
	w.ask(w.cluster.shardOfNamespace(ctx, namespace))
}

// addresses is what a FIp depends on in a pod or VM.
func addresses(o client.Object) any {
	switch o := o.(type) {
	case *corev1.Pod:
		return []any{o.Status.PodIPs, o.Status.Phase}
	case *VirtualMachineInstance:
		return o.Status.Interfaces
	default:
		return nil
	}
}

// subnet asks for everybody when an external subnet comes, goes, changes or has addresses again after it had none. How many
// it has does not matter otherwise, and changes with every address that is given.
func (w *watch) subnet(ctx context.Context, was, is client.Object) {
	matters := func(o client.Object) any {
		s, ok := o.(*Subnet)
		if !ok || o == nil || s == nil || s.Labels[kubedcv1.ExternalNetworkTypeLabel] == "" && s.Spec.Vlan == "" {
			return nil
		}
		return []any{s.Labels, s.Spec.CIDRBlock, s.Spec.Gateway, s.Spec.ExcludeIps, s.Status.IsReady(), s.Status.V4AvailableIPs > 0}
	}
	if matters(was) != nil || matters(is) != nil {
		w.ask(NetworksShard)
	}
	if is != nil && is.GetName() == kubeovn.ManagementSubnet && w.cluster.inUse(ctx, kubeovn.ManagementVpc) {
		w.ask(kubeovn.ManagementVpc) // a pod may have got the address of a leg
	}
	if !reflect.DeepEqual(matters(was), matters(is)) || !slices.Equal(admitted(was), admitted(is)) {
		w.everybody(ctx)
	}
}

// admitted are the namespaces that an operator lets be on a Subnet. Those of our own do not change.
func admitted(o client.Object) []string {
	if s, ok := o.(*Subnet); ok && s != nil && belongs(s) == "" {
		return s.Spec.Namespaces
	}
	return nil
}

// released asks for the shards that want an address which nobody has any more.
func (w *watch) released(ctx context.Context, was, is client.Object) {
	if was == nil || is != nil {
		return
	}
	gone := was.(*OvnEip)
	address := cmp.Or(gone.Status.V4Ip, gone.Spec.V4Ip)
	if address == "" {
		return // every EIp that asks for no address would be found
	}
	w.egress(ctx)
	var eips kubedcv1.EIpList
	if err := w.cluster.reader.List(ctx, &eips, append(w.cluster.by(addressIndex, address), client.UnsafeDisableDeepCopy)...); err != nil {
		return
	}
	for i := range eips.Items {
		if slices.Contains([]string{eips.Items[i].Spec.IPAddress, eips.Items[i].Status.IPAddress}, address) {
			w.inside(ctx, eips.Items[i].Namespace)
		}
	}
}
