package kube

import (
	"cmp"
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
		s.Endpoints, s.Left = readEndpoints(o, in.slices[o.Namespace+"/"+o.Name])
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
		Type:    p.network("annotation "+kubedcv1.ExternalNetworkTypeLabel, o.Annotations[kubedcv1.ExternalNetworkTypeLabel]),
		Address: p.addr("spec.loadBalancerIP", o.Spec.LoadBalancerIP),
		Check:   p.check(o.Annotations[kubedcv1.HealthAnnotation]),
		Backend: cmp.Or(o.Annotations[kubedcv1.BackendAnnotation], o.Annotations[kubedcv1.BackendAnnotationToo]) == "true",
		Expires: o.Annotations[kubedcv1.AutodeleteAnnotation] == "true",
		Leaves:  leaves(o),
	}
	if o.Spec.LoadBalancerClass != nil {
		out.Class = *o.Spec.LoadBalancerClass
	}
	out.EIpIn, out.EIp = p.bound(o.Annotations[kubedcv1.BindAnnotation])
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

// bound reads which EIp a Service names: NAME, or NAMESPACE/NAME.
func (p *parser) bound(text string) (namespace, name string) {
	namespace, name, elsewhere := strings.Cut(text, "/")
	if !elsewhere {
		namespace, name = "", text
	}
	if text == "" {
		return "", ""
	}
	if elsewhere && len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
		p.fail("annotation "+kubedcv1.BindAnnotation, text, "the name of an EIp, or NAMESPACE/NAME; correct it")
		return "", ""
	}
	return namespace, name
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

// checks says whether a load balancer wants its backends checked. Then the pods of its namespace decide, too.
func checks(o *corev1.Service) bool {
	return balances(o) && new(parser).check(o.Annotations[kubedcv1.HealthAnnotation]) != nil
}

// checks says whether a load balancer of a namespace wants its backends checked.
func (in *Inputs) checks(namespace string) bool {
	return slices.ContainsFunc(in.services, func(o *corev1.Service) bool { return o.Namespace == namespace && checks(o) })
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

// readEndpoints reads the IPv4 endpoints of a Service, one for each port, and says how many more there are.
func readEndpoints(o *corev1.Service, from []*discoveryv1.EndpointSlice) (out []snapshot.Endpoint, left int) {
	four := slices.DeleteFunc(slices.Clone(from), func(s *discoveryv1.EndpointSlice) bool { return s.AddressType != discoveryv1.AddressTypeIPv4 })
	left = eachEndpoint(o, four, func(e *discoveryv1.Endpoint, address netip.Addr, port discoveryv1.EndpointPort) {
		out = append(out, readEndpoint(e, address, port))
	})
	return out, left
}

// eachEndpoint visits the endpoints of a Service, one for each of its ports: as many as the limit allows, always the same ones. It returns how many it
// has left out. Anybody with rights in a namespace may write slices: only ports that the Service has count, and addresses that are some.
func eachEndpoint(o *corev1.Service, from []*discoveryv1.EndpointSlice, visit func(*discoveryv1.Endpoint, netip.Addr, discoveryv1.EndpointPort)) (left int) {
	room := snapshot.MostEndpoints
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
					continue // it can't be reached
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

// servedPorts are the ports of a slice that its Service has: by name and protocol, each once.
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

func readEndpoint(e *discoveryv1.Endpoint, address netip.Addr, port discoveryv1.EndpointPort) snapshot.Endpoint {
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
