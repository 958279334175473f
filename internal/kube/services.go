package kube

import (
	"cmp"
	"net/netip"
	"reflect"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	ovnv1 "github.com/sallyport/sallyport/api/ovn/v1"
	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/ownership"
	"github.com/sallyport/sallyport/internal/snapshot"
)

// balances says whether a Service has a say: it asks for a load balancer, or has asked and has a status of ours.
func balances(o *corev1.Service) bool {
	return o != nil && (o.Spec.Type == corev1.ServiceTypeLoadBalancer || hasStatus(o))
}

func hasStatus(o *corev1.Service) bool {
	for _, entry := range o.GetManagedFields() {
		if isApplied(entry, ownership.StatusManager) && entry.Subresource == "status" {
			return true
		}
	}
	return false
}

// sameService says whether nothing has changed in a Service that we read or write. Kube-OVN annotates each that has an address of ours.
func sameService(was, is client.Object) bool {
	before, one := was.(*corev1.Service)
	now, other := is.(*corev1.Service)
	return one && other && reflect.DeepEqual(before.Status, now.Status) && reflect.DeepEqual(readService(before), readService(now))
}

// serviceOf is the name of the Service whose endpoints a slice has.
func serviceOf(o *discoveryv1.EndpointSlice) string { return o.Labels[discoveryv1.LabelServiceName] }

// readServices reads Services, each with its endpoints.
func (in *Inputs) readServices() (out []snapshot.Service) {
	for _, o := range in.services {
		s := readService(o)
		for _, slice := range in.slices[o.Namespace+"/"+o.Name] {
			s.Endpoints = append(s.Endpoints, readEndpoints(slice)...)
		}
		out = append(out, s)
	}
	return out
}

// leaves says whether the pods behind a Service are to leave with its address, as the annotation says.
func leaves(o client.Object) bool {
	_, asked := o.GetAnnotations()[ovnv1.EgressServiceAnnotation]
	return asked
}

func readService(o *corev1.Service) snapshot.Service {
	var p parser
	out := snapshot.Service{
		Meta: readMeta(o.ObjectMeta), Balancer: o.Spec.Type == corev1.ServiceTypeLoadBalancer, Marked: hasStatus(o),
		EIp: o.Annotations[kubedcv1.BindAnnotation], Type: o.Annotations[kubedcv1.ExternalNetworkTypeLabel],
		Address: p.addr("spec.loadBalancerIP", o.Spec.LoadBalancerIP),
		Check:   p.check(o.Annotations[kubedcv1.HealthAnnotation]),
		Backend: cmp.Or(o.Annotations[kubedcv1.BackendAnnotation], o.Annotations[kubedcv1.BackendAnnotationToo]) == "true",
		Expires: o.Annotations[kubedcv1.AutodeleteAnnotation] == "true",
		Leaves:  leaves(o),
	}
	if o.Spec.LoadBalancerClass != nil {
		out.Class = *o.Spec.LoadBalancerClass
	}
	if in, name, elsewhere := strings.Cut(out.EIp, "/"); elsewhere {
		out.EIpIn, out.EIp = in, name
	}
	if out.EIp == "" && o.Annotations[kubedcv1.BindDefaultAnnotation] == "true" {
		out.EIp = kubedcv1.DefaultGatewayEIp
	}
	if o.Spec.SessionAffinity == corev1.ServiceAffinityClientIP {
		out.Affinity = int(corev1.DefaultClientIPServiceAffinitySeconds)
		if c := o.Spec.SessionAffinityConfig; c != nil && c.ClientIP != nil && c.ClientIP.TimeoutSeconds != nil {
			out.Affinity = int(*c.ClientIP.TimeoutSeconds)
		}
	}
	for _, text := range o.Spec.LoadBalancerSourceRanges {
		if prefix := p.prefix("spec.loadBalancerSourceRanges", text); prefix.IsValid() {
			out.Ranges = append(out.Ranges, prefix)
		}
	}
	for _, port := range o.Spec.Ports {
		out.Ports = append(out.Ports, snapshot.Port{Name: port.Name, Protocol: protocol(port.Protocol), Number: int(port.Port)})
	}
	for _, i := range o.Status.LoadBalancer.Ingress {
		out.Shown, _ = netip.ParseAddr(i.IP)
	}
	for _, c := range o.Status.Conditions {
		if c.Type == intent.HasEndpoints && c.Status == metav1.ConditionFalse {
			out.Idle = c.LastTransitionTime.Time
		}
	}
	p.families(o)
	out.Malformed = p.malformed
	return out
}

// families checks that the Service wants IPv4, which is all that there is outside.
func (p *parser) families(o *corev1.Service) {
	dual := o.Spec.IPFamilyPolicy != nil && *o.Spec.IPFamilyPolicy == corev1.IPFamilyPolicyRequireDualStack
	six := len(o.Spec.IPFamilies) == 1 && o.Spec.IPFamilies[0] == corev1.IPv6Protocol
	if (dual || six) && p.malformed == "" {
		p.malformed = "an IPv6 address is asked for, and Kube-OVN 1.16 has IPv4 addresses on external networks only; use IPv4, or PreferDualStack"
	}
	if o.Spec.LoadBalancerIP != "" && strings.Contains(o.Spec.LoadBalancerIP, ":") {
		p.fail("spec.loadBalancerIP", o.Spec.LoadBalancerIP, "an IPv4 address; Kube-OVN 1.16 can't give IPv6 addresses of external networks")
	}
}

// usualCheck is how backends are checked when nothing else is said.
var usualCheck = snapshot.Check{Interval: 5, Timeout: 2, Successes: 2, Failures: 3}

// check reads how backends are to be checked: "true", or what differs from the usual.
func (p *parser) check(text string) *snapshot.Check {
	if text == "" || text == "false" {
		return nil
	}
	out := usualCheck
	if text == "true" {
		return &out
	}
	for word := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(word), "=")
		field := map[string]*int{"interval": &out.Interval, "timeout": &out.Timeout, "successes": &out.Successes, "failures": &out.Failures}[key]
		n, err := strconv.Atoi(value)
		if field == nil || err != nil || n < 1 || n > 3600 {
			p.fail("annotation "+kubedcv1.HealthAnnotation, text, `"true", or some of interval, timeout, successes and failures such as interval=5,failures=3`)
			return nil
		}
		*field = n
	}
	return &out
}

func protocol(p corev1.Protocol) intent.Protocol {
	return intent.Protocol(strings.ToLower(string(cmp.Or(p, corev1.ProtocolTCP))))
}

// readEndpoints reads the endpoints of a slice, one for each port.
func readEndpoints(o *discoveryv1.EndpointSlice) (out []snapshot.Endpoint) {
	if o.AddressType != discoveryv1.AddressTypeIPv4 {
		return nil
	}
	for _, e := range o.Endpoints {
		for _, text := range e.Addresses {
			address, err := netip.ParseAddr(text)
			if err != nil {
				continue // it can't be reached
			}
			for _, port := range o.Ports {
				if port.Port != nil {
					out = append(out, readEndpoint(e, address, port))
				}
			}
		}
	}
	return out
}

func readEndpoint(e discoveryv1.Endpoint, address netip.Addr, port discoveryv1.EndpointPort) snapshot.Endpoint {
	out := snapshot.Endpoint{Address: address, Number: int(*port.Port), Ready: isTrue(e.Conditions.Ready, true)}
	out.Serving = isTrue(e.Conditions.Serving, out.Ready)
	if port.Name != nil {
		out.Port = *port.Name
	}
	if e.TargetRef != nil && e.TargetRef.Kind == "Pod" {
		out.Target = e.TargetRef.Name
	}
	return out
}

func isTrue(b *bool, unknown bool) bool {
	if b == nil {
		return unknown
	}
	return *b
}
