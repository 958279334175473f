package kube

import (
	"cmp"
	"context"
	"fmt"
	"maps"
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
	"github.com/sallyport/sallyport/internal/model/shard"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// Event is an event of an object that affects a shard.
type Event struct {
	Shard shard.Shard
	Kind  string // of the object
	// Object is the only thing that the shard reads anew: for a VPC the Service whose endpoints changed, for the management
	// VPC also a pod with its ports, for the egress addresses an EgressIP, with what it selects. Zero: anything may have
	// changed.
	Object intent.ObjectKey
}

// eventMapper maps object events to the shards that they affect.
type eventMapper struct {
	cluster *Cluster
	enqueue func(shard.Shard)
	// enqueueObject enqueues a shard because of one object, as Event.Object; nil: like any other event.
	enqueueObject func(of shard.Shard, object intent.ObjectKey)
}

// enqueueOnly enqueues a shard of which only one object has to be read anew.
func (w *eventMapper) enqueueOnly(of shard.Shard, object intent.ObjectKey) {
	if w.enqueueObject == nil {
		w.enqueue(of)
		return
	}
	w.enqueueObject(of, object)
}

// enqueueNamed enqueues the shard with a name: that of a VPC, or what an object's label says.
func (w *eventMapper) enqueueNamed(name string) { w.enqueue(shard.Named(name)) }

// Watch calls handle with every event, once for each shard that it affects. Until the cache is synced, every object is
// an event.
func (c *Cluster) Watch(ctx context.Context, objects cache.Cache, handle func(Event)) error {
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
		kind := string(key.Kind)
		w := &eventMapper{
			cluster: c,
			enqueue: func(s shard.Shard) { handle(Event{Shard: s, Kind: kind}) },
			enqueueObject: func(s shard.Shard, object intent.ObjectKey) {
				handle(Event{Shard: s, Kind: kind, Object: object})
			},
		}
		registration, err := informer.AddEventHandler(w.eventHandler(ctx))
		if err != nil {
			return fmt.Errorf("watch %T: %w", object, err)
		}
		if key.Kind == intent.EgressIP {
			c.egressEvents.Store(&registration)
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

// handleChange enqueues the shards that the object affected before the event, or affects now.
func (w *eventMapper) handleChange(ctx context.Context, was, is client.Object) {
	if was != nil && is != nil && was.GetResourceVersion() == is.GetResourceVersion() {
		return // a resync of the informer
	}
	w.cluster.progress.recordFinished(was, is)
	if is == nil {
		w.cluster.forgetObject(was)
	}
	switch o := w.enqueueOwners(was, is).(type) {
	case *kubedcv1.Project:
		w.handleProject(ctx, o, was, is)
	case *ovnv1.EgressIP:
		w.handleEgressIP(ctx, o.Name, was, is)
	case *kubedcv1.EIp, *kubedcv1.FIp:
		w.enqueueNamespace(ctx, o.GetNamespace())
		w.handleFreedQuota(ctx, was, is)
		w.handleIPv6Address(ctx, was, is)
		w.handleOutboundFIP(ctx, was, is)
	case *ovnv1.EgressService, *kubedcv1alpha1.EgressRoute:
		w.enqueueNamed(w.cluster.shardOfEgressPolicies(ctx, o.GetNamespace()))
	case *kubedcv1alpha1.ExternalNetwork:
		w.handleNetwork(ctx, was, is)
	case *kubedcv1alpha1.NodePath:
		w.enqueue(shard.Networks)
	case *corev1.Namespace, *corev1.Node, *corev1.Pod, *VirtualMachineInstance, *corev1.Service, *discoveryv1.EndpointSlice:
		w.handleWorkload(ctx, o, was, is)
	case *Vpc:
		if ownerShard(o) == "" { // a Project of this name may wait until it is gone
			w.enqueueIfProject(ctx, o.Name)
		}
	case *Subnet:
		w.handleSubnet(ctx, was, is)
	case *OvnEip:
		w.handleReleasedAddress(ctx, was, is)
		w.handleRouterPortEIp(ctx, o)
	}
}

// enqueueOwners enqueues the shards that an object belongs to or is offered to, and belonged to before. It returns the
// object as it is, or as it was if it has been deleted.
func (w *eventMapper) enqueueOwners(was, is client.Object) (object client.Object) {
	for _, o := range []client.Object{was, is} {
		if o == nil {
			continue
		}
		object = o
		if name := cmp.Or(ownerShard(o), offeredShard(o)); name != "" {
			w.enqueueNamed(name)
		}
	}
	return object
}

// handleProject enqueues the shard of a Project. When a Project is created or deleted, it also enqueues the shard of
// the Project's namespace: the first Project turns that namespace into an organization.
func (w *eventMapper) handleProject(ctx context.Context, o *kubedcv1.Project, was, is client.Object) {
	createdOrDeleted := was == nil || is == nil
	w.enqueueNamed(snapshot.ProjectShard(o.Namespace, o.Name))
	w.enqueueRefusedByQuota(ctx) // the quota of a Project counts against its organization's quota
	if createdOrDeleted || o.DeletionTimestamp != nil ||
		isAcceptedProject(was.(*kubedcv1.Project)) != isAcceptedProject(is.(*kubedcv1.Project)) {
		w.enqueueProjectEgress(ctx, o)
	}
	if createdOrDeleted {
		w.enqueueOrganization(ctx, o.Namespace, false)
		w.enqueueNamed(o.Namespace)
		w.enqueueNamed(kubeovn.ManagementVpc)
		w.enqueueHandover(ctx, o.Namespace)
	}
}

// decidesNetwork reports whether an ExternalNetwork exists and is not one that only shows a labelled Subnet.
func decidesNetwork(o client.Object) bool {
	n, is := o.(*kubedcv1alpha1.ExternalNetwork)
	return is && n != nil && !isGeneratedNetwork(n)
}

// handleNetwork enqueues the networks shard. It enqueues all shards when a network is created, deleted or changed.
func (w *eventMapper) handleNetwork(ctx context.Context, was, is client.Object) {
	w.enqueue(shard.Networks)
	if !decidesNetwork(was) && !decidesNetwork(is) {
		return
	}
	w.enqueue(shard.NodePaths)
	if was == nil || is == nil || was.GetGeneration() != is.GetGeneration() {
		w.enqueueAllShards(ctx)
	}
}

// handleRouterPortEIp enqueues the shard of the router whose port an OvnEip is for. Kube-OVN creates such OvnEips too,
// without our labels.
func (w *eventMapper) handleRouterPortEIp(ctx context.Context, o *OvnEip) {
	if router, isPorts := kubeovn.VpcOfRouterPort(o.Name, o.Spec.ExternalSubnet); isPorts {
		w.enqueueIfProject(ctx, router)
	}
}

// enqueueAllShards enqueues the shards of all projects, the management VPC and the egress addresses.
func (w *eventMapper) enqueueAllShards(ctx context.Context) {
	w.enqueueNamed(kubeovn.ManagementVpc)
	w.enqueueEgress(ctx)
	var projects kubedcv1.ProjectList
	if err := w.cluster.reader.List(ctx, &projects, client.UnsafeDisableDeepCopy); err != nil {
		return // the cache is not synced yet; every object will be an event
	}
	for i := range projects.Items {
		w.enqueueNamed(snapshot.ProjectShard(projects.Items[i].Namespace, projects.Items[i].Name))
	}
}

// enqueueIfProject enqueues a shard if a Project exists for it. Its namespace may have belonged to someone else before.
func (w *eventMapper) enqueueIfProject(ctx context.Context, name string) {
	if w.cluster.hasProject(ctx, name) {
		w.enqueueNamed(name)
	}
}

// handleFIpTarget enqueues the shard of a pod or VM that a FIp refers to, or of a pod that a health check may probe,
// when its addresses or its phase changed.
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
			w.enqueueNamespace(ctx, object.GetNamespace())
			return
		}
	}
}

// enqueueEndpointShards enqueues the shards where pod addresses decide about endpoints: namespaces with health checks
// and, in the management VPC, namespaces with load balancers, including the egress of these Services through nodes.
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

// handleWorkload enqueues the shards that depend on a namespace, node, pod, VM, Service or its endpoints. was is nil
// if the object was created, and is if it was deleted.
func (w *eventMapper) handleWorkload(ctx context.Context, object, was, is client.Object) {
	switch object.(type) {
	case *corev1.Namespace:
		w.handleNamespace(ctx, was, is)
		w.handleNamespaceLabels(ctx, was, is)
		w.handleQuotaChange(ctx, was, is)
	case *corev1.Node:
		w.handleGatewayNode(was, is)
		w.handleEgressNode(ctx, was, is)
		w.handleUplinkNode(was, is)
	case *corev1.Service:
		w.handleServiceAddresses(ctx, was, is)
		w.handleServiceEgress(ctx, was, is)
		w.handleLoadBalancer(ctx, was, is)
	case *discoveryv1.EndpointSlice:
		w.handleEndpointSlice(ctx, was, is)
	case *corev1.Pod:
		w.handleFIpTarget(ctx, was, is)
		w.handleSelectedPod(ctx, was, is)
	case *VirtualMachineInstance:
		w.handleFIpTarget(ctx, was, is)
	}
}

// handleLoadBalancer enqueues the shard of a Service that is a load balancer, or was one.
func (w *eventMapper) handleLoadBalancer(ctx context.Context, was, is client.Object) {
	for _, object := range []client.Object{was, is} {
		if s, ok := object.(*corev1.Service); ok && isLoadBalancer(s) && !isSameService(was, is) {
			w.enqueueNamespace(ctx, s.Namespace)
			return
		}
	}
}

// handleEndpointSlice enqueues the shards of the Service that a slice belongs to, and belonged to.
func (w *eventMapper) handleEndpointSlice(ctx context.Context, was, is client.Object) {
	before, _ := was.(*discoveryv1.EndpointSlice)
	after, _ := is.(*discoveryv1.EndpointSlice)
	if isSameEndpointSlice(before, after) {
		return
	}
	if before != nil && (after == nil || serviceNameOf(before) != serviceNameOf(after)) {
		w.handleEndpoints(ctx, before)
	}
	if after != nil {
		w.handleEndpoints(ctx, after)
	}
}

// isSameEndpointSlice reports whether nothing that we read in a slice changed. Kubernetes updates slices also for the
// time of the last change, zones, and endpoints that terminate.
func isSameEndpointSlice(before, after *discoveryv1.EndpointSlice) bool {
	return before != nil && after != nil && serviceNameOf(before) == serviceNameOf(after) &&
		before.AddressType == after.AddressType &&
		reflect.DeepEqual(before.Ports, after.Ports) && reflect.DeepEqual(before.Endpoints, after.Endpoints)
}

// handleEndpoints enqueues the shard of the endpoints of a load balancer.
func (w *eventMapper) handleEndpoints(ctx context.Context, o *discoveryv1.EndpointSlice) {
	key := intent.ObjectKey{Kind: intent.Service, Namespace: o.Namespace, Name: serviceNameOf(o)}
	s, err := w.cluster.readObject(ctx, key)
	if err != nil || !isLoadBalancer(s.(*corev1.Service)) {
		return
	}
	w.enqueueOnly(shard.Named(w.cluster.shardOfNamespace(ctx, o.Namespace)), key)
	w.enqueueServiceEgress(ctx, s.(*corev1.Service))
}

// enqueueNamespace enqueues the shard that decides about the objects in a namespace.
func (w *eventMapper) enqueueNamespace(ctx context.Context, namespace string) {
	w.enqueueNamed(w.cluster.shardOfNamespace(ctx, namespace))
}

// readTargetState returns the fields of a pod or VM that a FIp depends on.
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

// handleSubnet enqueues all shards when an external subnet is created, deleted or changed, or has free addresses again
// after it had none. The exact number of free addresses does not matter; it changes with every assigned address.
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
		w.enqueue(shard.Networks)
	}
	if (isClusterSubnetObject(was) || isClusterSubnetObject(is)) && !isSameClusterSubnet(was, is) &&
		w.cluster.isManagementInUse(ctx) {
		w.enqueueNamed(kubeovn.ManagementVpc) // a pod may have been given the address of a return port
	}
	if isPodSubnetObject(was) != isPodSubnetObject(is) { // its namespaces may have been known before
		w.enqueueNamed(kubeovn.ManagementVpc)
		w.enqueueEgress(ctx)
	}
	if !reflect.DeepEqual(matters(was), matters(is)) || !slices.Equal(allowedNamespaces(was), allowedNamespaces(is)) {
		w.enqueueAllShards(ctx)
	}
}

// allowedNamespaces returns the namespaces that an operator allows on a Subnet. Those of our own Subnets do not change.
func allowedNamespaces(o client.Object) []string {
	if s, ok := o.(*Subnet); ok && s != nil && ownerShard(s) == "" {
		return s.Spec.Namespaces
	}
	return nil
}

// handleIPv6Address enqueues the shards of the EIps that want an IPv6 address which another EIp got or released, or that
// have none.
func (w *eventMapper) handleIPv6Address(ctx context.Context, was, is client.Object) {
	changed := map[string]bool{}
	for _, o := range []client.Object{was, is} {
		if e, isEIp := o.(*kubedcv1.EIp); isEIp && e != nil && isIPv6EIp(e) {
			changed[e.Status.IPAddress] = !changed[e.Status.IPAddress]
		}
	}
	delete(changed, "")
	if !slices.Contains(slices.Collect(maps.Values(changed)), true) {
		return
	}
	var eips kubedcv1.EIpList
	if err := w.cluster.reader.List(ctx, &eips,
		append(w.cluster.matchIndex(familyIndex, string(kubedcv1.IPv6)), client.UnsafeDisableDeepCopy)...); err != nil {
		return
	}
	for i := range eips.Items {
		if e := &eips.Items[i]; e.Status.IPAddress == "" || changed[e.Status.IPAddress] {
			w.enqueueNamespace(ctx, e.Namespace)
		}
	}
}

// handleReleasedAddress enqueues the shards that want an address that was just released.
func (w *eventMapper) handleReleasedAddress(ctx context.Context, was, is client.Object) {
	if was == nil || is != nil {
		return
	}
	gone := was.(*OvnEip)
	address := cmp.Or(gone.Status.External(), gone.Spec.External())
	if address == "" {
		return // the empty address would match every EIp that requests none
	}
	if w.cluster.isEgressAddress(ctx, address) {
		w.enqueue(shard.Egress)
	}
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
