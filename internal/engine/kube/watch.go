package kube

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	ovnv1 "github.com/sallyport/sallyport/api/ovn/v1"
	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// eventMapper maps what happens to objects to the shards that it matters to.
type eventMapper struct {
	cluster *Cluster
	enqueue func(shard string)
}

// Watch asks for the shards that an event touches, and says of what kind of object it is. Until the cache is synced,
// every object is an event.
func (c *Cluster) Watch(ctx context.Context, objects cache.Cache, ask func(shard, by string)) error {
	watched := []client.Object{
		&kubedcv1.Project{}, &kubedcv1.EIp{}, &kubedcv1.FIp{}, &kubedcv1alpha1.ExternalNetwork{}, &ovnv1.EgressIP{},
		&ovnv1.EgressService{}, &kubedcv1alpha1.EgressRoute{}, &kubedcv1alpha1.NodePath{},
		&corev1.Namespace{}, &corev1.Node{}, &corev1.Pod{}, &corev1.Service{}, &discoveryv1.EndpointSlice{},
		&Vpc{}, &Subnet{}, &NetworkAttachmentDefinition{}, &OvnEip{}, &OvnFip{}, &OvnSnatRule{},
	}
	for _, kind := range c.availableKinds(optionalKinds) {
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
		w := &eventMapper{cluster: c, enqueue: func(shard string) { ask(shard, string(key.Kind)) }}
		if _, err := informer.AddEventHandler(w.eventHandler(ctx)); err != nil {
			return fmt.Errorf("watch %T: %w", object, err)
		}
	}
	return nil
}

func (w *eventMapper) eventHandler(ctx context.Context) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { w.handleChange(ctx, nil, o.(client.Object)) },
		UpdateFunc: func(was, is any) { w.handleChange(ctx, was.(client.Object), is.(client.Object)) },
		DeleteFunc: func(o any) {
			if last, unknown := o.(toolscache.DeletedFinalStateUnknown); unknown {
				o = last.Obj
			}
			w.handleChange(ctx, o.(client.Object), nil)
		},
	}
}

// handleChange asks for the shards that an object had a say in, or has now.
func (w *eventMapper) handleChange(ctx context.Context, was, is client.Object) {
	if was != nil && is != nil && was.GetResourceVersion() == is.GetResourceVersion() {
		return // the cache's own look through everything
	}
	w.cluster.progress.recordFinished(was, is)
	if is == nil {
		w.cluster.forgetObject(was)
	}
	var object client.Object
	for _, o := range []client.Object{was, is} {
		if o == nil {
			continue
		}
		object = o
		if shard := ownerShard(o); shard != "" {
			w.enqueue(shard)
		}
	}
	switch o := object.(type) {
	case *kubedcv1.Project:
		w.handleProject(ctx, o, was == nil || is == nil)
	case *ovnv1.EgressIP:
		w.handleEgressIP(ctx, was, is)
	case *kubedcv1.EIp, *kubedcv1.FIp:
		w.enqueueNamespace(ctx, o.GetNamespace())
		w.handleFreedQuota(ctx, was, is)
	case *ovnv1.EgressService, *kubedcv1alpha1.EgressRoute:
		w.enqueue(w.cluster.shardOfEgressPolicies(ctx, o.GetNamespace()))
	case *kubedcv1alpha1.ExternalNetwork:
		w.handleNetwork(ctx, was, is)
	case *kubedcv1alpha1.NodePath:
		w.enqueue(NetworksShard)
	case *corev1.Namespace, *corev1.Node, *corev1.Pod, *VirtualMachineInstance, *corev1.Service, *discoveryv1.EndpointSlice:
		w.handleWorkload(ctx, was, is)
	case *Subnet:
		w.handleSubnet(ctx, was, is)
	case *OvnEip:
		w.handleReleasedAddress(ctx, was, is)
		w.handleRouterPortEIp(ctx, o)
	}
}

// handleProject asks for the shard of a Project and, when it comes or goes, for that of the namespace that it is in:
// with its first Project that becomes a tenant's.
func (w *eventMapper) handleProject(ctx context.Context, o *kubedcv1.Project, comesOrGoes bool) {
	w.enqueue(snapshot.ProjectShard(o.Namespace, o.Name))
	w.enqueueRefusedByQuota(ctx) // its own quota is a part of its organization's
	if comesOrGoes || o.DeletionTimestamp != nil {
		w.enqueueEgress(ctx)
	}
	if comesOrGoes {
		w.enqueueOrganization(ctx, o.Namespace, false)
		w.enqueue(o.Namespace)
		w.enqueue(kubeovn.ManagementVpc)
		w.enqueueHandover(ctx, o.Namespace)
	}
}

// handleNetwork asks for the networks and, when one comes, goes or is another, for everybody.
func (w *eventMapper) handleNetwork(ctx context.Context, was, is client.Object) {
	w.enqueue(NetworksShard)
	w.enqueue(ownership.NodesShard)
	if was == nil || is == nil || was.GetGeneration() != is.GetGeneration() {
		w.enqueueAllShards(ctx)
	}
}

// handleRouterPortEIp asks for the shard of a router whose port an address is for: Kube-OVN makes such addresses too,
// without our labels.
func (w *eventMapper) handleRouterPortEIp(ctx context.Context, o *OvnEip) {
	if router, isPorts := kubeovn.VpcOfRouterPort(o.Name, o.Spec.ExternalSubnet); isPorts {
		w.enqueueIfProject(ctx, router)
	}
}

// enqueueAllShards asks for every project's shard, and for the management VPC.
func (w *eventMapper) enqueueAllShards(ctx context.Context) {
	w.enqueue(kubeovn.ManagementVpc)
	w.enqueueEgress(ctx)
	var projects kubedcv1.ProjectList
	if err := w.cluster.reader.List(ctx, &projects, client.UnsafeDisableDeepCopy); err != nil {
		return // the cache is not there yet; everything is an event then
	}
	for i := range projects.Items {
		w.enqueue(snapshot.ProjectShard(projects.Items[i].Namespace, projects.Items[i].Name))
	}
}

// enqueueIfProject asks for a shard that a Project wants: its namespace may have been somebody else's.
func (w *eventMapper) enqueueIfProject(ctx context.Context, name string) {
	if w.cluster.hasProject(ctx, name) {
		w.enqueue(name)
	}
}

// handleFIpTarget asks for the shard of a pod or VM that a FIp names, or of a pod that a health check may ask, when its
// addresses or its end have changed.
func (w *eventMapper) handleFIpTarget(ctx context.Context, was, is client.Object) {
	object := is
	if object == nil {
		object = was
	}
	if was != nil && is != nil && reflect.DeepEqual(readTargetState(was), readTargetState(is)) {
		return
	}
	if _, isPod := object.(*corev1.Pod); isPod {
		w.enqueueEndpointShards(ctx, object.GetNamespace())
	}
	var fips kubedcv1.FIpList
	if err := w.cluster.reader.List(ctx, &fips, client.InNamespace(object.GetNamespace()),
		client.UnsafeDisableDeepCopy); err != nil {
		return
	}
	for i := range fips.Items {
		spec := fips.Items[i].Spec
		if (spec.PodTarget != nil && spec.PodTarget.PodName == object.GetName()) ||
			(spec.VMTarget != nil && spec.VMTarget.VMName == object.GetName()) {
			w.enqueue(object.GetNamespace())
			return
		}
	}
}

// enqueueEndpointShards asks for the shards in which endpoints count by the addresses of pods: where backends are
// checked and, in the management VPC, load balancers and what leaves by nodes.
func (w *eventMapper) enqueueEndpointShards(ctx context.Context, namespace string) {
	var services corev1.ServiceList
	if err := w.cluster.reader.List(ctx, &services, client.InNamespace(namespace),
		client.UnsafeDisableDeepCopy); err != nil {
		return
	}
	management := w.cluster.shardOfNamespace(ctx, namespace) == kubeovn.ManagementVpc
	for i := range services.Items {
		s := &services.Items[i]
		if wantsHealthCheck(s) || management && isLoadBalancer(s) {
			w.enqueueNamespace(ctx, namespace)
		}
		if management && isLoadBalancer(s) {
			w.enqueueServiceEgress(ctx, s)
		}
	}
}

// handleWorkload asks for the shard of what addresses lead to, and of where that runs.
func (w *eventMapper) handleWorkload(ctx context.Context, was, is client.Object) {
	for _, object := range []client.Object{was, is} {
		switch o := object.(type) {
		case *corev1.Namespace:
			w.handleNamespace(ctx, was, is)
			w.handleNamespaceLabels(ctx, was, is)
			w.handleQuotaChange(ctx, was, is)
			return
		case *corev1.Node:
			w.handleGatewayNode(was, is)
			w.handleEgressNode(ctx, was, is)
			w.handleUplinkNode(was, is)
			return
		case *corev1.Service:
			w.handleServiceAddresses(ctx, was, is)
			w.handleServiceEgress(ctx, was, is)
			if isLoadBalancer(o) && !isSameService(was, is) { // or did
				w.enqueueNamespace(ctx, o.Namespace)
			}
		case *discoveryv1.EndpointSlice:
			w.handleEndpoints(ctx, o)
		case *corev1.Pod:
			w.handleFIpTarget(ctx, was, is)
			w.handleSelectedPod(ctx, was, is)
			return
		case *VirtualMachineInstance:
			w.handleFIpTarget(ctx, was, is)
			return
		}
	}
}

// handleEndpoints asks for the shard of endpoints behind a load balancer.
func (w *eventMapper) handleEndpoints(ctx context.Context, o *discoveryv1.EndpointSlice) {
	s, err := w.cluster.readObject(ctx, intent.ObjectKey{
		Kind:      intent.Service,
		Namespace: o.Namespace,
		Name:      serviceNameOf(o),
	})
	if err == nil && isLoadBalancer(s.(*corev1.Service)) {
		w.enqueueNamespace(ctx, o.Namespace)
		w.enqueueServiceEgress(ctx, s.(*corev1.Service))
	}
}

// enqueueNamespace asks for the shard that decides about what is in a namespace.
func (w *eventMapper) enqueueNamespace(ctx context.Context, namespace string) {
	w.enqueue(w.cluster.shardOfNamespace(ctx, namespace))
}

// readTargetState is what a FIp depends on in a pod or VM.
func readTargetState(o client.Object) any {
	switch o := o.(type) {
	case *corev1.Pod:
		return []any{o.Status.PodIPs, o.Status.Phase}
	case *VirtualMachineInstance:
		return o.Status.Interfaces
	default:
		return nil
	}
}

// handleSubnet asks for everybody when an external subnet comes, goes, changes or has addresses again after it had
// none. How many it has does not matter otherwise, and changes with every address that is given.
func (w *eventMapper) handleSubnet(ctx context.Context, was, is client.Object) {
	matters := func(o client.Object) any {
		s, ok := o.(*Subnet)
		if !ok || o == nil || s == nil || s.Labels[kubedcv1.ExternalNetworkTypeLabel] == "" && s.Spec.Vlan == "" {
			return nil
		}
		return []any{
			s.Labels, s.Spec.CIDRBlock, s.Spec.Gateway, s.Spec.ExcludeIps, s.Status.IsReady(),
			s.Status.V4AvailableIPs > 0,
		}
	}
	if matters(was) != nil || matters(is) != nil {
		w.enqueue(NetworksShard)
	}
	if is != nil && is.GetName() == kubeovn.ManagementSubnet && w.cluster.isShardInUse(ctx, kubeovn.ManagementVpc) {
		w.enqueue(kubeovn.ManagementVpc) // a pod may have got the address of a leg
	}
	if !reflect.DeepEqual(matters(was), matters(is)) || !slices.Equal(allowedNamespaces(was), allowedNamespaces(is)) {
		w.enqueueAllShards(ctx)
	}
}

// allowedNamespaces are the namespaces that an operator lets be on a Subnet. Those of our own do not change.
func allowedNamespaces(o client.Object) []string {
	if s, ok := o.(*Subnet); ok && s != nil && ownerShard(s) == "" {
		return s.Spec.Namespaces
	}
	return nil
}

// handleReleasedAddress asks for the shards that want an address which nobody has any more.
func (w *eventMapper) handleReleasedAddress(ctx context.Context, was, is client.Object) {
	if was == nil || is != nil {
		return
	}
	gone := was.(*OvnEip)
	address := cmp.Or(gone.Status.V4Ip, gone.Spec.V4Ip)
	if address == "" {
		return // every EIp that asks for no address would be found
	}
	w.enqueueEgress(ctx)
	var eips kubedcv1.EIpList
	if err := w.cluster.reader.List(ctx, &eips,
		append(w.cluster.matchIndex(addressIndex, address), client.UnsafeDisableDeepCopy)...); err != nil {
		return
	}
	for i := range eips.Items {
		if slices.Contains([]string{eips.Items[i].Spec.IPAddress, eips.Items[i].Status.IPAddress}, address) {
			w.enqueueNamespace(ctx, eips.Items[i].Namespace)
		}
	}
}
