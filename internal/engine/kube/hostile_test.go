package kube

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/model/shard"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// Any text in a field that names something is parsed as a name, or the object is malformed and the text is not used.
func TestHostileTextIsMalformed(t *testing.T) {
	annotated := func(key, text string) (snapshot.Malformed, any) {
		s := readService(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{key: text}}})
		malformed := s.Malformed
		s.Malformed = ""
		return malformed, s
	}
	eip := func(spec kubedcv1.EIpSpec) (snapshot.Malformed, any) {
		e := readEIp(&kubedcv1.EIp{Spec: spec})
		malformed := e.Malformed
		e.Malformed = ""
		return malformed, e
	}
	fip := func(spec kubedcv1.FIpSpec) (snapshot.Malformed, any) {
		f := readFIp(&kubedcv1.FIp{Spec: spec})
		malformed := f.Malformed
		f.Malformed = ""
		return malformed, f
	}
	for name, read := range map[string]func(text string) (snapshot.Malformed, any){
		"Service, type":   func(text string) (snapshot.Malformed, any) { return annotated(kubedcv1.ExternalNetworkTypeLabel, text) },
		"Service, EIp":    func(text string) (snapshot.Malformed, any) { return annotated(kubedcv1.BindAnnotation, text) },
		"Service, EIp in": func(text string) (snapshot.Malformed, any) { return annotated(kubedcv1.BindAnnotation, text+"/web") },
		"Service, check":  func(text string) (snapshot.Malformed, any) { return annotated(kubedcv1.HealthAnnotation, text) },
		"EIp, type": func(text string) (snapshot.Malformed, any) {
			return eip(kubedcv1.EIpSpec{ExternalNetworkType: kubedcv1.NetworkType(text)})
		},
		"EIp, network": func(text string) (snapshot.Malformed, any) { return eip(kubedcv1.EIpSpec{ExternalNetwork: text}) },
		"EIp, child":   func(text string) (snapshot.Malformed, any) { return eip(kubedcv1.EIpSpec{ChildRef: text}) },
		"EIp, address": func(text string) (snapshot.Malformed, any) { return eip(kubedcv1.EIpSpec{IPAddress: text}) },
		"FIp, EIp": func(text string) (snapshot.Malformed, any) {
			return fip(kubedcv1.FIpSpec{IPAddress: "10.0.0.7", EIp: text})
		},
		"FIp, pod": func(text string) (snapshot.Malformed, any) {
			return fip(kubedcv1.FIpSpec{PodTarget: &kubedcv1.PodTarget{PodName: text}})
		},
		"FIp, VM": func(text string) (snapshot.Malformed, any) {
			return fip(kubedcv1.FIpSpec{VMTarget: &kubedcv1.VMTarget{VMName: text}})
		},
		"Project, network": func(text string) (snapshot.Malformed, any) {
			p := readProject(&kubedcv1.Project{Spec: kubedcv1.ProjectSpec{CIDRBlock: "10.0.0.0/24", EgressNetworkType: kubedcv1.NetworkType(text)}})
			malformed := p.Malformed
			p.Malformed = ""
			return malformed, p
		},
		"EgressRoute, network": func(text string) (snapshot.Malformed, any) {
			r := NewInputs(shard.Named("x")).readEgressRoute(&kubedcv1alpha1.EgressRoute{Spec: kubedcv1alpha1.EgressRouteSpec{ExternalNetwork: text}})
			malformed := r.Malformed
			r.Malformed = ""
			return malformed, r
		},
	} {
		for _, text := range []string{
			"hOsTiLe x", `hOsTiLe"`, "hOsTiLe=1", "hOsTiLe,x", "hOsTiLe || ip4", "hOsTiLe\n0 errors", "hOsTiLe\x1b[2J", "hOsTiLe" + strings.Repeat("a", 300),
			"hOsTiLe/../x", "-hOsTiLe",
		} {
			malformed, value := read(text)
			if malformed == "" || len(malformed) > 400 || strings.ContainsAny(string(malformed), "\n\x1b") {
				t.Errorf("%s %q: malformed is %q", name, text, malformed)
			}
			if got := fmt.Sprintf("%+v", value); strings.Contains(got, "hOsTiLe") {
				t.Errorf("%s %q: it is read: %s", name, text, got)
			}
		}
	}
	for key, text := range map[string]string{kubedcv1.ExternalNetworkTypeLabel: "My_type.1", kubedcv1.BindAnnotation: "gate/web.1"} {
		if malformed, _ := annotated(key, text); malformed != "" {
			t.Errorf("%s %q is good, and malformed: %s", key, text, malformed)
		}
	}
}

// newHugeSlice returns an EndpointSlice of the maximum size that Kubernetes accepts.
func newHugeSlice(name string, endpoints, addresses, ports int) *discoveryv1.EndpointSlice {
	o := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, AddressType: discoveryv1.AddressTypeIPv4}
	for i := range endpoints {
		e := discoveryv1.Endpoint{}
		for j := range addresses {
			e.Addresses = append(e.Addresses, fmt.Sprintf("10.%d.%d.%d", i>>8, i&255, j))
		}
		o.Endpoints = append(o.Endpoints, e)
	}
	for i := range ports {
		o.Ports = append(o.Ports, discoveryv1.EndpointPort{Name: new(fmt.Sprintf("p%d", i)), Port: new(int32(1 + i))})
	}
	return o
}

// Before the limit, one EndpointSlice of 200 kB had 8 million endpoints, and the controller used 3.7 GB.
func TestEndpointsAreBounded(t *testing.T) {
	service := &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "p0"}, {Name: "p7"}, {Name: "p8", Protocol: corev1.ProtocolUDP}}}}
	for name, c := range map[string]struct {
		slices    []*discoveryv1.EndpointSlice
		has, left int
	}{
		"only ports of the Service":   {[]*discoveryv1.EndpointSlice{newHugeSlice("a", 10, 1, 2000)}, 20, 0},
		"as many as there may be":     {[]*discoveryv1.EndpointSlice{newHugeSlice("a", 1000, 1, 10), newHugeSlice("b", 1000, 1, 10), newHugeSlice("c", 500, 1, 10)}, 5000, 0},
		"one too many":                {[]*discoveryv1.EndpointSlice{newHugeSlice("a", 1000, 2, 10), newHugeSlice("b", 501, 1, 10)}, 5000, 2},
		"as large as Kubernetes lets": {[]*discoveryv1.EndpointSlice{newHugeSlice("a", 1000, 100, 20000)}, 5000, 195000},
		"no port of the Service":      {[]*discoveryv1.EndpointSlice{newHugeSlice("a", 1000, 1, 0)}, 0, 0},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got, left := readEndpoints(service, c.slices)
		runtime.ReadMemStats(&after)
		if len(got) != c.has || left != c.left {
			t.Errorf("%s: %d endpoints, %d left out; want %d and %d", name, len(got), left, c.has, c.left)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 8<<20 {
			t.Errorf("%s: it takes %d bytes", name, took)
		}
		if n := len(readEndpointStates(service, c.slices)); n != c.has {
			t.Errorf("%s: a survey has %d endpoints, want %d", name, n, c.has)
		}
	}
}

func TestEndpointsThatAreNone(t *testing.T) {
	service := &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "p0"}}}}
	slice := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"moon", "10.0.0.1"}}}}
	udp := corev1.ProtocolUDP
	for name, port := range map[string]discoveryv1.EndpointPort{
		"another protocol": {Name: new("p0"), Port: new(int32(80)), Protocol: &udp}, "no name": {Port: new(int32(80))}, "no port": {Name: new("p0")},
		"port 0": {Name: new("p0"), Port: new(int32(0))}, "a port past the last": {Name: new("p0"), Port: new(int32(65536 + 22))},
	} {
		slice.Ports = []discoveryv1.EndpointPort{port}
		if got, _ := readEndpoints(service, []*discoveryv1.EndpointSlice{slice}); len(got) > 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	slice.Ports = []discoveryv1.EndpointPort{{Name: new("p0"), Port: new(int32(80))}, {Name: new("p0"), Port: new(int32(81))}}
	if got, _ := readEndpoints(service, []*discoveryv1.EndpointSlice{slice}); len(got) != 1 || got[0].Number != 80 {
		t.Errorf("one endpoint: %+v", got)
	}
}
