package kube

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	ovnv1 "github.com/sallyport/sallyport/api/ovn/v1"
	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ipfamily"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/shard"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// isLoadBalancer reports whether a Service is an input: it is of type LoadBalancer, or was and still has our status.
func isLoadBalancer(o *corev1.Service) bool {
	return o != nil && (o.Spec.Type == corev1.ServiceTypeLoadBalancer || hasOurStatus(o))
}

func hasOurStatus(o *corev1.Service) bool {
	for _, entry := range o.GetManagedFields() {
		if isAppliedBy(entry, ownership.StatusManager) && entry.Subresource == "status" {
			return true
		}
	}
	return false
}

// isSameService reports whether nothing that we read or write in a Service changed. Kube-OVN annotates every Service
// that has an address of ours, and these updates must not trigger runs.
func isSameService(was, is client.Object) bool {
	before, one := was.(*corev1.Service)
	now, other := is.(*corev1.Service)
	return one && other && reflect.DeepEqual(before.Status, now.Status) &&
		reflect.DeepEqual(readService(before), readService(now))
}

// serviceNameOf returns the name of the Service that an EndpointSlice belongs to.
func serviceNameOf(o *discoveryv1.EndpointSlice) string {
	return o.Labels[discoveryv1.LabelServiceName]
}

// readServices reads Services, each with its endpoints.
func (in *Inputs) readServices() (out []snapshot.Service) {
	for _, o := range in.services {
		s := readService(o)
		s.Endpoints, s.OmittedEndpoints = readEndpoints(o, in.endpointSlices[o.Namespace+"/"+o.Name])
		out = append(out, s)
	}
	return out
}

// GatherEndpoints reads Services with their endpoints: a part of what GatherVPC reads. The cost does not depend on the
// size of the shard. It returns false if one of them is not an input of the shard any more.
func (c *Cluster) GatherEndpoints(ctx context.Context, of shard.Shard, services []intent.ObjectKey) ([]client.Object,
	[]snapshot.Service, bool,
) {
	var objects []client.Object
	var out []snapshot.Service
	for _, key := range services {
		object, err := c.readObject(ctx, key)
		if err != nil {
			return nil, nil, false
		}
		o := object.(*corev1.Service)
		if !isLoadBalancer(o) || c.shardOfNamespace(ctx, o.Namespace) != of.Name {
			return nil, nil, false
		}
		from, err := c.listEndpointSlices(ctx, o)
		if err != nil {
			return nil, nil, false
		}
		s := readService(o)
		s.Endpoints, s.OmittedEndpoints = readEndpoints(o, from)
		objects, out = append(objects, o), append(out, s)
	}
	return objects, out, true
}

// listEndpointSlices returns the EndpointSlices of a Service.
func (c *Cluster) listEndpointSlices(ctx context.Context, of *corev1.Service) (out []*discoveryv1.EndpointSlice,
	err error,
) {
	var list discoveryv1.EndpointSliceList
	err = c.reader.List(ctx, &list, append(c.matchIndex(serviceIndex, of.Name), client.InNamespace(of.Namespace),
		client.UnsafeDisableDeepCopy)...)
	for i := range list.Items {
		if serviceNameOf(&list.Items[i]) == of.Name { // without a cache there is no index
			out = append(out, &list.Items[i])
		}
	}
	return out, err
}

// hasEgressAnnotation reports whether the pods of a Service use its load balancer address for egress.
func hasEgressAnnotation(o client.Object) bool {
	_, asked := o.GetAnnotations()[ovnv1.EgressServiceAnnotation]
	return asked
}

func readService(o *corev1.Service) snapshot.Service {
	var p parser
	out := snapshot.Service{
		Meta: readMeta(o.ObjectMeta), IsLoadBalancer: o.Spec.Type == corev1.ServiceTypeLoadBalancer,
		HasManagedStatus: hasOurStatus(o),
		Type: p.readNetworkType("annotation "+kubedcv1.ExternalNetworkTypeLabel,
			o.Annotations[kubedcv1.ExternalNetworkTypeLabel]),
		Address:     p.readAddr("spec.loadBalancerIP", o.Spec.LoadBalancerIP),
		HealthCheck: p.readHealthCheck(o.Annotations[kubedcv1.HealthAnnotation]),
		WantsBackend: cmp.Or(o.Annotations[kubedcv1.BackendAnnotation],
			o.Annotations[kubedcv1.BackendAnnotationToo]) == "true",
		Autodelete:   o.Annotations[kubedcv1.AutodeleteAnnotation] == "true",
		EgressByLBIP: hasEgressAnnotation(o),
	}
	if o.Spec.LoadBalancerClass != nil {
		out.Class = *o.Spec.LoadBalancerClass
	}
	out.EIpNamespace, out.EIp = p.readBoundEIp(o.Annotations[kubedcv1.BindAnnotation])
	if out.EIp == "" && o.Annotations[kubedcv1.BindDefaultAnnotation] == "true" {
		out.EIp = kubedcv1.DefaultGatewayEIp
	}
	if o.Spec.SessionAffinity == corev1.ServiceAffinityClientIP {
		out.AffinitySeconds = int(corev1.DefaultClientIPServiceAffinitySeconds)
		if c := o.Spec.SessionAffinityConfig; c != nil && c.ClientIP != nil && c.ClientIP.TimeoutSeconds != nil {
			out.AffinitySeconds = int(*c.ClientIP.TimeoutSeconds)
		}
	}
	for _, text := range o.Spec.LoadBalancerSourceRanges {
		if prefix := p.readPrefix("spec.loadBalancerSourceRanges", text); prefix.IsValid() {
			out.SourceRanges = append(out.SourceRanges, prefix)
		}
	}
	for _, port := range o.Spec.Ports {
		out.Ports = append(out.Ports, snapshot.Port{
			Name:     port.Name,
			Protocol: toProtocol(port.Protocol),
			Number:   int(port.Port),
		})
	}
	for _, i := range o.Status.LoadBalancer.Ingress {
		if a, err := netip.ParseAddr(i.IP); err == nil {
			out.StatusAddresses = append(out.StatusAddresses, a)
		}
	}
	for _, c := range o.Status.Conditions {
		if c.Type == intent.HasEndpoints && c.Status == metav1.ConditionFalse {
			out.IdleSince = c.LastTransitionTime.Time
		}
	}
	out.Families, out.NeedsAll = p.readIPFamilies(o)
	out.Malformed = p.malformed
	return out
}

// readBoundEIp parses which EIp a Service refers to: NAME or NAMESPACE/NAME.
func (p *parser) readBoundEIp(text string) (namespace, name string) {
	namespace, name, elsewhere := strings.Cut(text, "/")
	if !elsewhere {
		namespace, name = "", text
	}
	if text == "" {
		return "", ""
	}
	if elsewhere && len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
		p.setMalformed("annotation "+kubedcv1.BindAnnotation, text, "NAME or NAMESPACE/NAME of an EIp")
		return "", ""
	}
	return namespace, name
}

// readIPFamilies reads which families a Service asks for, the preferred one first, and whether it needs all of them. The API
// server has filled them in, by the families of the cluster's own Services.
func (p *parser) readIPFamilies(o *corev1.Service) (out []ipfamily.Family, all bool) {
	for _, name := range o.Spec.IPFamilies {
		if f := ipfamily.Parse(string(name)); f != 0 && !slices.Contains(out, f) {
			out = append(out, f)
		}
	}
	policy := o.Spec.IPFamilyPolicy
	all = policy != nil && *policy == corev1.IPFamilyPolicyRequireDualStack
	if a := parseAddr(o.Spec.LoadBalancerIP); a.IsValid() && !all { // one address is asked for, so one family
		if f := ipfamily.Of(a); slices.Contains(out, f) {
			return []ipfamily.Family{f}, false
		}
		if len(out) == 0 { // the API server would have filled them in
			out = []ipfamily.Family{kubeovn.ExternalFamily}
		}
		p.checkFamily("spec.loadBalancerIP", a, out[0])
		return nil, false
	}
	return out, all
}

// checkFamily checks that a requested address is of the family that the object asks for; zero: the default.
func (p *parser) checkFamily(field string, a netip.Addr, want ipfamily.Family) {
	if want = cmp.Or(want, kubeovn.ExternalFamily); a.IsValid() && ipfamily.Of(a) != want {
		p.setMalformed(field, a.String(), fmt.Sprintf("an %s address, or set the family to %s", want, ipfamily.Of(a)))
	}
}

// wantsHealthCheck reports whether a load balancer has health checks. If so, the pods of its namespace are inputs too.
func wantsHealthCheck(o *corev1.Service) bool {
	return isLoadBalancer(o) && new(parser).readHealthCheck(o.Annotations[kubedcv1.HealthAnnotation]) != nil
}

// hasHealthChecks reports whether a load balancer in a namespace has health checks.
func (in *Inputs) hasHealthChecks(namespace string) bool {
	return slices.ContainsFunc(in.services, func(o *corev1.Service) bool {
		return o.Namespace == namespace && wantsHealthCheck(o)
	})
}

// defaultHealthCheck applies to every parameter that the annotation does not set.
var defaultHealthCheck = snapshot.HealthCheck{Interval: 5, Timeout: 2, Successes: 2, Failures: 3}

// readHealthCheck parses the health check annotation: "true", or the parameters that differ from the default.
func (p *parser) readHealthCheck(text string) *snapshot.HealthCheck {
	if text == "" || text == "false" {
		return nil
	}
	out := defaultHealthCheck
	if text == "true" {
		return &out
	}
	for word := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(word), "=")
		field := map[string]*int{
			"interval":  &out.Interval,
			"timeout":   &out.Timeout,
			"successes": &out.Successes,
			"failures":  &out.Failures,
		}[key]
		n, err := strconv.Atoi(value)
		if field == nil || err != nil || n < 1 || n > 3600 {
			p.setMalformed("annotation "+kubedcv1.HealthAnnotation, text,
				`"true", or interval, timeout, successes and failures with values from 1 to 3600, such as interval=5,failures=3`)
			return nil
		}
		*field = n
	}
	return &out
}

func toProtocol(p corev1.Protocol) intent.Protocol {
	return intent.Protocol(strings.ToLower(string(cmp.Or(p, corev1.ProtocolTCP))))
}

// readEndpoints returns the endpoints of a Service that external addresses can be translated to, one for each port, and
// how many were left out.
func readEndpoints(o *corev1.Service, from []*discoveryv1.EndpointSlice) (out []snapshot.Endpoint, left int) {
	supported := slices.DeleteFunc(slices.Clone(from), func(s *discoveryv1.EndpointSlice) bool {
		return ipfamily.Parse(string(s.AddressType)) == 0 // names, which nothing resolves
	})
	left = visitEndpoints(o, supported, func(e *discoveryv1.Endpoint, address netip.Addr, port discoveryv1.EndpointPort) {
		out = append(out, readEndpoint(e, address, port))
	})
	return out, left
}

// visitEndpoints visits the endpoints of a Service, one for each of its ports, up to the limit and always in the same
// order. It returns how many it left out. Anyone with write permission in a namespace can write EndpointSlices, so only
// ports of the Service and valid addresses count.
func visitEndpoints(o *corev1.Service, from []*discoveryv1.EndpointSlice,
	visit func(*discoveryv1.Endpoint, netip.Addr, discoveryv1.EndpointPort),
) (left int) {
	room := snapshot.MaxEndpoints
	byName := func(a, b *discoveryv1.EndpointSlice) int { return strings.Compare(a.Name, b.Name) }
	for _, slice := range slices.SortedFunc(slices.Values(from), byName) {
		ports := servedPorts(o, slice)
		for i := range slice.Endpoints {
			for _, text := range slice.Endpoints[i].Addresses {
				if room < len(ports) {
					left += len(ports)
					continue
				}
				address, err := netip.ParseAddr(text)
				if err != nil {
					continue // not reachable
				}
				for _, port := range ports {
					visit(&slice.Endpoints[i], address, port)
				}
				room -= len(ports)
			}
		}
	}
	return left
}

// servedPorts returns the ports of an EndpointSlice that its Service has, by name and protocol, each once.
func servedPorts(o *corev1.Service, slice *discoveryv1.EndpointSlice) (out []discoveryv1.EndpointPort) {
	type named struct {
		name     string
		protocol corev1.Protocol
	}
	wanted := map[named]bool{}
	for _, p := range o.Spec.Ports {
		wanted[named{p.Name, cmp.Or(p.Protocol, corev1.ProtocolTCP)}] = true
	}
	for _, p := range slice.Ports {
		key := named{protocol: corev1.ProtocolTCP}
		if p.Name != nil {
			key.name = *p.Name
		}
		if p.Protocol != nil {
			key.protocol = *p.Protocol
		}
		if wanted[key] && p.Port != nil && *p.Port > 0 && *p.Port < 1<<16 {
			out = append(out, p)
			wanted[key] = false
		}
	}
	return out
}

// podTarget is the kind that an endpoint refers to if it is a pod.
const podTarget = string(Pod)

func readEndpoint(e *discoveryv1.Endpoint, address netip.Addr, port discoveryv1.EndpointPort) snapshot.Endpoint {
	out := snapshot.Endpoint{Address: address, Number: int(*port.Port), Ready: boolOrDefault(e.Conditions.Ready, true)}
	out.Serving = boolOrDefault(e.Conditions.Serving, out.Ready)
	if port.Name != nil {
		out.PortName = *port.Name
	}
	if e.TargetRef != nil && e.TargetRef.Kind == podTarget {
		out.TargetPod = e.TargetRef.Name
	}
	return out
}

func boolOrDefault(b *bool, unknown bool) bool {
	if b == nil {
		return unknown
	}
	return *b
}
