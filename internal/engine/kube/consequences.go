package kube

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	ovnv1 "github.com/sallyport/sallyport/api/ovn/v1"
	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/humanize"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/shard"
)

// addConsequences adds what Kubernetes and Kube-OVN do with the objects before the controller sees them: the Subnet of a
// new namespace, and the endpoints of a new Service. It warns about selectors that match nothing.
func (c *Cluster) addConsequences(ctx context.Context, out *ManifestPreview) error {
	with := c.WithObjects(out.Objects)
	for _, object := range slices.Clone(out.Objects) {
		var unselected string
		var err error
		switch o := object.(type) {
		case *corev1.Namespace:
			if podSubnet(o) == "" && !with.hasProject(ctx, o.Name) {
				metav1.SetMetaDataAnnotation(&o.ObjectMeta, kubeovn.LogicalSwitchAnnotation, kubeovn.ManagementSubnet)
			}
		case *corev1.Service:
			unselected, err = with.addEndpoints(ctx, o, out)
		case *ovnv1.EgressIP:
			unselected, err = with.describeUnselected(ctx, o)
		case *kubedcv1alpha1.EgressRoute:
			var pods int
			if pods, err = with.countPods(ctx, o.Namespace, &o.Spec.PodSelector); err == nil && pods == 0 {
				unselected = "podSelector matches no pod of the namespace"
			}
		}
		if err != nil {
			return err
		}
		if unselected != "" {
			kind, _ := kindOf(object)
			name := client.ObjectKeyFromObject(object).String()
			out.Warnings = append(out.Warnings, fmt.Sprintf("%s %s: %s", kind.Kind, name, unselected))
		}
	}
	return nil
}

// describeUnselected returns why an EgressIP has no effect, if it selects no namespace that can use it.
func (c *Cluster) describeUnselected(ctx context.Context, e *ovnv1.EgressIP) (string, error) {
	scopes, err := c.listEgressScopes(ctx, []*ovnv1.EgressIP{e})
	if err != nil || len(scopes[e.Name].vpcs) > 0 {
		return "", err
	}
	return "namespaceSelector matches no namespace of a Project or of the default VPC", nil
}

// countPods returns how many pods of a namespace a selector matches. A selector that is not valid is an error of the
// object, which its verdict reports.
func (c *Cluster) countPods(ctx context.Context, namespace string, by *metav1.LabelSelector) (int, error) {
	selector, err := metav1.LabelSelectorAsSelector(by)
	if err != nil {
		return 1, nil //nolint:nilerr // its verdict reports it
	}
	var pods corev1.PodList
	err = c.reader.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: selector})
	return len(pods.Items), err
}

// addEndpoints adds the EndpointSlice that Kubernetes makes of the pods that a load balancer selects, unless the cluster
// has it already. It returns why the Service is without effect.
func (c *Cluster) addEndpoints(ctx context.Context, s *corev1.Service, out *ManifestPreview) (string, error) {
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return "", nil
	}
	if class := s.Spec.LoadBalancerClass; class != nil && *class != kubedcv1.LoadBalancerClass {
		return fmt.Sprintf("loadBalancerClass %s is not Sallyport's; use %s, or none", humanize.QuoteName(*class),
			kubedcv1.LoadBalancerClass), nil
	}
	if len(s.Spec.Selector) == 0 {
		return "", nil
	}
	var pods corev1.PodList // the cache has not the ports of containers
	if err := c.api.List(ctx, &pods, client.InNamespace(s.Namespace), client.MatchingLabels(s.Spec.Selector)); err != nil {
		return "", err
	}
	for _, o := range out.Objects {
		if pod, isPod := o.(*corev1.Pod); isPod && pod.Namespace == s.Namespace &&
			labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(pod.Labels)) {
			pods.Items = append(pods.Items, *pod)
		}
	}
	existing, err := c.listEndpointSlices(ctx, s)
	if err != nil {
		return "", err
	}
	if made := makeEndpointSlice(s, pods.Items); len(existing) == 0 {
		out.Objects = append(out.Objects, made)
	} else if !haveSameEndpoints(made, existing) {
		for _, slice := range existing {
			empty := slice.DeepCopy()
			empty.Endpoints = nil
			out.Objects = append(out.Objects, empty)
		}
		out.Objects = append(out.Objects, made)
	}
	if len(pods.Items) == 0 {
		return "selector matches no pod, so connections are refused", nil
	}
	return "", nil
}

// haveSameEndpoints reports whether existing slices have the ports and addresses of a new one.
func haveSameEndpoints(made *discoveryv1.EndpointSlice, existing []*discoveryv1.EndpointSlice) bool {
	describe := func(slices ...*discoveryv1.EndpointSlice) map[string]bool {
		out := map[string]bool{}
		for _, s := range slices {
			for _, e := range s.Endpoints {
				for _, p := range s.Ports {
					if p.Port != nil && p.Name != nil && len(e.Addresses) > 0 {
						out[fmt.Sprint(e.Addresses[0], *p.Name, *p.Port)] = e.Conditions.Ready == nil || *e.Conditions.Ready
					}
				}
			}
		}
		return out
	}
	return reflect.DeepEqual(describe(made), describe(existing...))
}

// makeEndpointSlice returns the EndpointSlice of a Service as Kubernetes makes it.
func makeEndpointSlice(s *corev1.Service, pods []corev1.Pod) *discoveryv1.EndpointSlice {
	out := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Namespace, Name: s.Name + "-plan",
			Labels: map[string]string{
				discoveryv1.LabelServiceName: s.Name,
				discoveryv1.LabelManagedBy:   "endpointslice-controller.k8s.io",
			},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
	}
	ports := map[string]discoveryv1.EndpointPort{}
	for i := range pods {
		pod := &pods[i]
		addresses := reportedAddresses(pod)
		if len(addresses) == 0 || pod.Spec.HostNetwork {
			continue
		}
		ready := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		}) || s.Spec.PublishNotReadyAddresses
		terminating := pod.DeletionTimestamp != nil
		ready = ready && !terminating
		node := pod.Spec.NodeName
		out.Endpoints = append(out.Endpoints, discoveryv1.Endpoint{
			Addresses:  []string{addresses[0].String()},
			Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &ready, Terminating: &terminating},
			NodeName:   &node,
			TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		})
		for _, p := range s.Spec.Ports {
			if number := targetPort(p, pod); number != 0 {
				protocol, name := p.Protocol, p.Name
				ports[p.Name] = discoveryv1.EndpointPort{Name: &name, Port: &number, Protocol: &protocol}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(ports)) {
		out.Ports = append(out.Ports, ports[name])
	}
	return out
}

// targetPort returns the port of a pod that a port of its Service leads to; 0: the pod has none of this name.
func targetPort(p corev1.ServicePort, pod *corev1.Pod) int32 {
	if p.TargetPort.Type == intstr.Int {
		if p.TargetPort.IntVal == 0 {
			return p.Port
		}
		return p.TargetPort.IntVal
	}
	for _, container := range pod.Spec.Containers {
		for _, port := range container.Ports {
			if port.Name == p.TargetPort.StrVal && port.Protocol == p.Protocol {
				return port.ContainerPort
			}
		}
	}
	return 0
}

// ShardsOfObjects returns the shards that decide about objects, in the order of their names.
func (c *Cluster) ShardsOfObjects(ctx context.Context, objects []client.Object) ([]shard.Shard, error) {
	names := map[string]bool{}
	for _, object := range objects {
		concerned, err := c.shardsOfObject(ctx, object)
		if err != nil {
			return nil, err
		}
		for _, name := range concerned {
			names[name] = true
		}
	}
	delete(names, "")
	var out []shard.Shard
	for _, name := range slices.Sorted(maps.Keys(names)) {
		out = append(out, shard.Named(name))
	}
	return out, nil
}

// shardsOfObject returns the names of the shards that decide about an object. Networks, Subnets and Nodes concern all.
func (c *Cluster) shardsOfObject(ctx context.Context, object client.Object) ([]string, error) {
	switch o := object.(type) {
	case *kubedcv1.Project:
		return c.resolveShards(ctx, []client.Object{o}), nil
	case *kubedcv1.EIp, *kubedcv1.FIp, *corev1.Service, *corev1.Pod, *VirtualMachineInstance:
		return []string{c.shardOfNamespace(ctx, o.GetNamespace())}, nil
	case *ovnv1.EgressService, *kubedcv1alpha1.EgressRoute:
		return []string{c.shardOfEgressPolicies(ctx, o.GetNamespace())}, nil
	case *ovnv1.EgressIP:
		scopes, err := c.listEgressScopes(ctx, []*ovnv1.EgressIP{o})
		return append([]string{ownership.EgressVpc}, scopes[o.Name].vpcs...), err
	case *kubedcv1alpha1.ExternalNetwork, *Subnet, *corev1.Node:
		all, err := c.ListShards(ctx)
		return append(all, sharedNetworkShards()...), err
	default:
		return nil, nil
	}
}
