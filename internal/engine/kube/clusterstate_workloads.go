package kube

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	ovnv1 "github.com/sallyport/sallyport/api/ovn/v1"
	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/snapshot"
	"github.com/sallyport/sallyport/internal/model/state"
)

// readServices returns the Services that are reachable from outside, with their endpoints.
func (e *clusterDump) readServices(settings snapshot.Config) []clusterstate.Service {
	return e.readServicesWhere(settings, func(o *corev1.Service) bool {
		return isLoadBalancer(o) || len(o.Spec.ExternalIPs) > 0
	})
}

// readCompanionServices returns the headless Services that publish the addresses of other Services.
func (e *clusterDump) readCompanionServices(settings snapshot.Config) []clusterstate.Service {
	return e.readServicesWhere(settings, func(o *corev1.Service) bool {
		return o.Labels[kubedcv1.SourceServiceLabel] != ""
	})
}

func (e *clusterDump) readServicesWhere(settings snapshot.Config, wanted func(*corev1.Service) bool) []clusterstate.Service {
	projects := projectShards(e.projects.Items)
	of := map[string][]*discoveryv1.EndpointSlice{}
	for i := range e.endpointSlices.Items {
		slice := &e.endpointSlices.Items[i]
		of[slice.Namespace+"/"+serviceNameOf(slice)] = append(of[slice.Namespace+"/"+serviceNameOf(slice)], slice)
	}
	chosen := slices.DeleteFunc(slices.Clone(e.services.Items), func(o corev1.Service) bool { return !wanted(&o) })
	return readSorted(chosen, func(o *corev1.Service) clusterstate.Service {
		s := readServiceState(o)
		s.Shard = e.shards[o.Namespace]
		management := s.Shard == kubeovn.ManagementVpc
		s.Ours = o.Spec.Type == corev1.ServiceTypeLoadBalancer &&
			settings.ClasslessServices.OwnsService(s.Class, projects[s.Shard] || management, management)
		s.Endpoints = readEndpointStates(o, of[o.Namespace+"/"+o.Name])
		slices.SortFunc(s.Endpoints, func(a, b clusterstate.Endpoint) int {
			return cmp.Or(cmp.Compare(a.Port, b.Port), a.Address.Compare(b.Address))
		})
		return s
	})
}

func readServiceState(o *corev1.Service) clusterstate.Service {
	read := readService(o)
	out := clusterstate.Service{
		Object: readObjectMeta(string(intent.Service), o, o.Status.Conditions), Type: string(o.Spec.Type),
		Class:     read.Class,
		ClusterIP: parseAddr(o.Spec.ClusterIP), ExternalIPs: ParseAddresses(o.Spec.ExternalIPs),
		Selector:    o.Spec.Selector,
		Annotations: clusterstate.KeepAnnotations(o.Annotations),
		Sources:     read.SourceRanges, Local: o.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal,
		Affinity: read.AffinitySeconds > 0,
	}
	for _, i := range o.Status.LoadBalancer.Ingress {
		out.Ingress = append(out.Ingress, ParseAddresses([]string{i.IP})...)
	}
	for _, p := range o.Spec.Ports {
		out.Ports = append(out.Ports, clusterstate.ServicePort{
			Name: p.Name, Protocol: string(toProtocol(p.Protocol)), Port: int(p.Port), Target: p.TargetPort.String(),
			NodePort: int(p.NodePort),
		})
	}
	return out
}

func readEndpointStates(o *corev1.Service, from []*discoveryv1.EndpointSlice) (out []clusterstate.Endpoint) {
	visitEndpoints(o, from, func(e *discoveryv1.Endpoint, a netip.Addr, port discoveryv1.EndpointPort) {
		read := readEndpoint(e, a, port)
		end := clusterstate.Endpoint{
			//nolint:gosec // the API server allows at most 65535
			Port: read.PortName, Address: netip.AddrPortFrom(a, uint16(read.Number)), Ready: read.Ready,
			Serving: read.Serving,
			End:     boolOrDefault(e.Conditions.Terminating, false), Pod: read.TargetPod,
		}
		if e.NodeName != nil {
			end.Node = *e.NodeName
		}
		out = append(out, end)
	})
	return out
}

func (e *clusterDump) readPods() []clusterstate.Pod {
	return readSorted(e.pods.Items, func(o *corev1.Pod) clusterstate.Pod {
		out := clusterstate.Pod{
			Object: readObjectMeta(string(Pod), o, nil), Addresses: podAddresses(o), Node: o.Spec.NodeName,
			Phase:  string(o.Status.Phase),
			Subnet: o.Annotations[kubeovn.LogicalSwitchAnnotation], HostNetwork: o.Spec.HostNetwork,
			Agent: o.Namespace == e.platform.agents() && isAgentPod(o),
		}
		for _, c := range o.Status.Conditions {
			out.Ready = out.Ready || c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		}
		for _, c := range o.Spec.Containers {
			for _, p := range c.Ports {
				out.Ports = append(out.Ports, int(p.ContainerPort))
				if p.Name != "" {
					out.PortNames = append(out.PortNames, p.Name)
				}
			}
		}
		slices.Sort(out.Ports)
		slices.Sort(out.PortNames)
		out.Waiting = waitingReason(o)
		return out
	})
}

// isAgentPod reports whether the agent's DaemonSet created a pod. A label is not enough: whoever creates a pod chooses
// its labels.
func isAgentPod(o *corev1.Pod) bool {
	owner := metav1.GetControllerOf(o)
	return owner != nil && owner.APIVersion == appsv1.SchemeGroupVersion.String() && owner.Kind == "DaemonSet" &&
		owner.Name == ownership.AgentName
}

// waitingReason returns why a container of a pod does not run, or an empty string if all run.
func waitingReason(o *corev1.Pod) string {
	for _, c := range slices.Concat(o.Status.InitContainerStatuses, o.Status.ContainerStatuses) {
		switch s := c.State; {
		case s.Waiting != nil:
			return fmt.Sprintf("%s: %s", c.Name, strings.TrimSuffix(s.Waiting.Reason+": "+s.Waiting.Message, ": "))
		case s.Terminated != nil && s.Terminated.ExitCode != 0:
			return fmt.Sprintf("%s: exited with code %d: %s", c.Name, s.Terminated.ExitCode, s.Terminated.Reason)
		}
	}
	return ""
}

// nodeLeaseNamespace is the namespace of the Leases that kubelets renew.
const nodeLeaseNamespace = corev1.NamespaceNodeLease

func (e *clusterDump) readNodes() []clusterstate.Node {
	heartbeats := map[string]metav1.Time{}
	for i := range e.leases.Items {
		if l := &e.leases.Items[i]; l.Namespace == nodeLeaseNamespace && l.Spec.RenewTime != nil {
			heartbeats[l.Name] = metav1.Time{Time: l.Spec.RenewTime.Time}
		}
	}
	return readSorted(e.nodes.Items, func(o *corev1.Node) clusterstate.Node {
		var conditions []metav1.Condition
		for _, c := range o.Status.Conditions {
			conditions = append(conditions, metav1.Condition{
				Type: string(c.Type), Status: metav1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message,
				LastTransitionTime: c.LastTransitionTime,
			})
		}
		_, assignable := o.Labels[ovnv1.AssignableLabel]
		out := clusterstate.Node{
			Object: readObjectMeta("Node", o, conditions), Chassis: o.Annotations[kubeovn.ChassisAnnotation],
			Gateway:    gatewayChassis(o) != "",
			Assignable: assignable, Cordoned: o.Spec.Unschedulable, Kernel: o.Status.NodeInfo.KernelVersion,
			Heartbeat: toUTC(heartbeats[o.Name]),
		}
		out.Ready = out.Condition(string(corev1.NodeReady)).Status == string(corev1.ConditionTrue)
		for _, a := range o.Status.Addresses {
			out.Addresses = append(out.Addresses, ParseAddresses([]string{a.Address})...)
		}
		return out
	})
}

func (e *clusterDump) readNetworkPolicies() []clusterstate.NetworkPolicy {
	return readSorted(e.policies.Items, func(o *networkingv1.NetworkPolicy) clusterstate.NetworkPolicy {
		out := clusterstate.NetworkPolicy{
			Object:  readObjectMeta("NetworkPolicy", o, nil),
			Ingress: slices.Contains(o.Spec.PolicyTypes, networkingv1.PolicyTypeIngress),
			Egress:  slices.Contains(o.Spec.PolicyTypes, networkingv1.PolicyTypeEgress),
		}
		chosen, err := metav1.LabelSelectorAsSelector(&o.Spec.PodSelector)
		if err != nil {
			return out
		}
		for i := range e.pods.Items {
			if pod := &e.pods.Items[i]; pod.Namespace == o.Namespace && chosen.Matches(labels.Set(pod.Labels)) {
				out.Pods = append(out.Pods, pod.Name)
			}
		}
		slices.Sort(out.Pods)
		return out
	})
}

// readLeases returns the Leases of Sallyport and of Kube-OVN, each from its namespace: a tenant's Lease with such a
// name says nothing about them.
func (e *clusterDump) readLeases() []clusterstate.Lease {
	leaders := slices.DeleteFunc(slices.Clone(e.leases.Items), func(o coordinationv1.Lease) bool {
		sallyport := o.Namespace == e.platform.Controller && strings.HasPrefix(o.Name, "sallyport-")
		engine := o.Namespace == e.platform.KubeOVN && strings.HasPrefix(o.Name, "kube-ovn-")
		return !sallyport && !engine
	})
	return readSorted(leaders, func(o *coordinationv1.Lease) clusterstate.Lease {
		out := clusterstate.Lease{Object: readObjectMeta("Lease", o, nil)}
		if o.Spec.HolderIdentity != nil {
			out.Holder = *o.Spec.HolderIdentity
		}
		if o.Spec.RenewTime != nil {
			out.Renewed = toUTC(metav1.Time{Time: o.Spec.RenewTime.Time})
		}
		if o.Spec.LeaseDurationSeconds != nil {
			out.Lasts = time.Duration(*o.Spec.LeaseDurationSeconds) * time.Second
		}
		return out
	})
}

// isMisplacedEvent reports whether an Event is in the wrong namespace. Events belong in the namespace of their object,
// or for cluster-scoped objects in one of Kubernetes' own. The author of an Event elsewhere may have no permission for
// the object.
func isMisplacedEvent(o *corev1.Event) bool {
	if about := o.InvolvedObject.Namespace; about != "" {
		return o.Namespace != about
	}
	return o.Namespace != metav1.NamespaceDefault && o.Namespace != metav1.NamespaceSystem
}

// readEvents returns the warnings about each object, latest first.
func (e *clusterDump) readEvents() []clusterstate.Event {
	var out []clusterstate.Event
	for i := range e.events.Items {
		o := &e.events.Items[i]
		if isMisplacedEvent(o) {
			continue
		}
		event := clusterstate.Event{
			About: state.Ref{
				Kind:      o.InvolvedObject.Kind,
				Namespace: o.InvolvedObject.Namespace,
				Name:      o.InvolvedObject.Name,
			},
			Reason: o.Reason, Message: o.Message, Count: int(max(o.Count, 1)), Last: toUTC(o.LastTimestamp),
		}
		if o.Series != nil {
			event.Count, event.Last = int(o.Series.Count), toUTC(metav1.Time{Time: o.Series.LastObservedTime.Time})
		}
		if event.Last.IsZero() {
			event.Last = toUTC(metav1.Time{Time: o.EventTime.Time})
		}
		out = append(out, event)
	}
	slices.SortStableFunc(out, func(a, b clusterstate.Event) int {
		return cmp.Or(
			cmp.Compare(a.About.Namespace, b.About.Namespace), cmp.Compare(a.About.Kind, b.About.Kind),
			cmp.Compare(a.About.Name, b.About.Name),
			b.Last.Compare(a.Last), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Message, b.Message))
	})
	return out
}
