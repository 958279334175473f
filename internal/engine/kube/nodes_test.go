package kube

import (
	"context"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	ovnv1 "github.com/sallyport/sallyport/api/ovn/v1"
	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/shard"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

func metaIn(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

// egressFixture returns a cluster with a node on a network, a namespace of the management VPC with egress objects, and
// the namespace of a project with the same objects.
func egressFixture() []client.Object {
	managed := namespaceInSubnet(kubeovn.ManagementSubnet, nil)
	managed.Name = "gate"
	own := namespaceInSubnet("acme-prod-default", ownership.ManagedLabels("acme-prod"))
	own.Name = "acme-prod"
	out := []client.Object{
		managed, own,
		&corev1.Node{ObjectMeta: metaIn("", "a"), Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}, {Type: corev1.NodeHostName, Address: "a"},
		}}},
		newUplinkNetwork("red"),
	}
	for _, namespace := range []string{"gate", "acme-prod"} {
		out = append(out,
			&corev1.Pod{
				ObjectMeta: metaIn(namespace, "x"),
				Spec:       corev1.PodSpec{NodeName: "a"},
				Status:     corev1.PodStatus{PodIPs: []corev1.PodIP{{IP: "10.16.0.7"}, {IP: "fd00::7"}}},
			},
			&kubedcv1alpha1.EgressRoute{ObjectMeta: metaIn(namespace, "partners"), Spec: kubedcv1alpha1.EgressRouteSpec{
				Destinations: []string{"203.0.113.0/24", "2001:db8::/32"}, ExternalNetwork: "red",
			}},
			&ovnv1.EgressService{ObjectMeta: metaIn(namespace, "mail")},
			newLoadBalancer(namespace, "mail"),
			newEndpointSlice(namespace, "mail",
				discoveryv1.Endpoint{Addresses: []string{"10.16.0.7"}, NodeName: new("a")}),
		)
	}
	return out
}

func newUplinkNetwork(name string) *kubedcv1alpha1.ExternalNetwork {
	return &kubedcv1alpha1.ExternalNetwork{ObjectMeta: metaIn("", name), Spec: kubedcv1alpha1.ExternalNetworkSpec{
		Type: "red", Nodes: &kubedcv1alpha1.NodeUplink{
			Interface: "eth1", Gateways: []string{"192.168.10.1"}, Addresses: []string{"192.168.10.0/24"},
			Method: kubedcv1alpha1.NodeConnection,
		},
	}}
}

func newLoadBalancer(namespace, name string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metaIn(namespace, name),
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, ExternalIPs: []string{"192.168.10.99"}},
		Status:     corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "192.168.10.25"}}}},
	}
}

func newEndpointSlice(namespace, service string, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	out := &discoveryv1.EndpointSlice{
		ObjectMeta:  metaIn(namespace, service+"-1"),
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   endpoints,
	}
	out.Labels = map[string]string{discoveryv1.LabelServiceName: service}
	return out
}

func newFakeCluster(objects ...client.Object) *Cluster {
	return &Cluster{reader: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithReturnManagedFields().Build()}
}

// The shard of NodePaths reads the egress objects in namespaces of the management VPC, but not those of projects.
func TestNodesAreRead(t *testing.T) {
	inputs, err := newFakeCluster(egressFixture()...).GatherNodePaths(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w := inputs.BuildNodeSnapshot(snapshot.Config{})
	if len(w.EgressRoutes) != 1 || len(w.EgressServices) != 1 || len(w.LoadBalancers) != 1 ||
		w.EgressRoutes[0].Namespace != "gate" {
		t.Fatalf("routes %v, services %v, balancers %v", w.EgressRoutes, w.EgressServices, w.LoadBalancers)
	}
	four, six := netip.MustParseAddr("10.16.0.7"), netip.MustParseAddr("fd00::7")
	for what, c := range map[string]struct{ got, want any }{
		"pods of the route": {
			w.EgressRoutes[0].Pods,
			[]snapshot.PodPlacement{{Address: four, Node: "a"}, {Address: six, Node: "a"}},
		},
		"pods of the Service": {w.LoadBalancers[0].Pods, []snapshot.PodPlacement{{Address: four, Node: "a"}}},
		"its addresses":       {w.LoadBalancers[0].ExternalIPs, ParseAddresses([]string{"192.168.10.25"})},
		"whose they are": {
			w.AddressNamespaces,
			map[netip.Addr]string{netip.MustParseAddr("192.168.10.25"): "acme-prod"},
		},
		"nodes": {w.NodeAddresses, ParseAddresses([]string{"192.0.2.1"})},
	} {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%s: %v, want %v", what, c.got, c.want)
		}
	}
	for _, o := range inputs.StatusObjects() {
		if o.GetNamespace() != "gate" {
			t.Errorf("%T %s/%s would be judged here, too", o, o.GetNamespace(), o.GetName())
		}
	}
}

// An endpoint counts while it is ready or still serving. It must be a pod of the namespace; the pod gives its node.
func TestPlacesAreRead(t *testing.T) {
	end := func(a string, node *string, ready, serving *bool) discoveryv1.Endpoint {
		return discoveryv1.Endpoint{
			Addresses:  []string{a},
			NodeName:   node,
			Conditions: discoveryv1.EndpointConditions{Ready: ready, Serving: serving},
		}
	}
	nodes := map[netip.Addr]string{}
	for _, a := range ParseAddresses([]string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "fd00::5"}) {
		nodes[a] = "b"
	}
	nodes[netip.MustParseAddr("10.0.0.4")] = "" // not scheduled yet
	var got []string
	for _, p := range readEndpointNodes(newEndpointSlice("gate", "mail",
		end("10.0.0.1", new("a"), nil, nil), end("10.0.0.2", nil, new(false), new(true)),
		end("10.0.0.3", new("a"), new(false), new(false)),
		end("10.0.0.4", new("a"), nil, nil), end("fd00::5", new("b"), new(true), nil),
		end("10.0.0.6", new("a"), nil, nil)), nodes) {
		got = append(got, p.Address.String()+"@"+p.Node)
	}
	if text := strings.Join(got, " "); text != "10.0.0.1@b 10.0.0.2@b fd00::5@b" {
		t.Error(text)
	}
}

// attackFixture returns the objects of egressFixture outside the project and, in another namespace, a pod and a Service
// with an address, after one modification.
func attackFixture(change func(map[string]client.Object)) []client.Object {
	victim := namespaceInSubnet(kubeovn.ManagementSubnet, nil)
	victim.Name = "victim"
	target := &corev1.Pod{ObjectMeta: metaIn("victim", "v"), Spec: corev1.PodSpec{NodeName: "a"}}
	target.Status.PodIPs = []corev1.PodIP{{IP: "10.16.0.2"}}
	show := newLoadBalancer("victim", "front")
	show.CreationTimestamp, show.Status.LoadBalancer.Ingress[0].IP = metav1.Unix(100, 0), "192.168.10.77"
	byKind := map[string]client.Object{"victim": victim, "pod": target, "front": show}
	for _, o := range egressFixture() {
		if o.GetNamespace() != "acme-prod" && o.GetName() != "acme-prod" {
			key, _ := KeyOf(o)
			byKind[key.String()] = o
		}
	}
	change(byKind)
	return slices.Collect(maps.Values(byKind))
}

// Egress through nodes applies to pods of the requesting namespace only, by the addresses that their nodes report, and
// with addresses of that namespace.
func TestPodsOfOthersAreNotLedOut(t *testing.T) {
	service := func(m map[string]client.Object) *corev1.Service { return m["Service gate/mail"].(*corev1.Service) }
	for what, c := range map[string]struct {
		change             func(map[string]client.Object)
		routed, led, owner string
	}{
		"as it should be": {func(map[string]client.Object) {}, "10.16.0.7", "10.16.0.7", "gate"},
		"a hand-written slice": {func(m map[string]client.Object) {
			slice := m["EndpointSlice gate/mail-1"].(*discoveryv1.EndpointSlice)
			slice.Labels["endpointslice.kubernetes.io/managed-by"] = "endpointslice-controller.k8s.io"
			slice.Endpoints = append(slice.Endpoints,
				discoveryv1.Endpoint{Addresses: []string{"10.16.0.2"}, NodeName: new("a")})
		}, "10.16.0.7", "10.16.0.7", "gate"},
		"a pod's annotation": {func(m map[string]client.Object) {
			m["Pod gate/x"].SetAnnotations(map[string]string{kubeovn.IPAddressAnnotation: "10.16.0.2"})
		}, "10.16.0.7", "10.16.0.7", "gate"},
		"a pod that has ended": {func(m map[string]client.Object) {
			m["Pod gate/x"].(*corev1.Pod).Status.Phase = corev1.PodSucceeded
		}, "", "", "gate"},
		"an address of externalIPs": {func(m map[string]client.Object) {
			service(m).Spec.ExternalIPs, service(m).Status = []string{"192.168.10.77"}, corev1.ServiceStatus{}
		}, "10.16.0.7", "10.16.0.7", ""},
		"an older Service's address": {func(m map[string]client.Object) {
			service(m).CreationTimestamp, service(m).Status.LoadBalancer.Ingress[0].IP = metav1.Unix(200, 0),
				"192.168.10.77"
		}, "10.16.0.7", "10.16.0.7", "victim"},
		"an EIp's address, of a younger Service": {func(m map[string]client.Object) {
			service(m).CreationTimestamp, service(m).Status.LoadBalancer.Ingress[0].IP = metav1.Unix(1, 0),
				"192.168.10.77"
			m["eip"] = &kubedcv1.EIp{
				ObjectMeta: metaIn("victim", "front"),
				Status:     kubedcv1.EIpStatus{IPAddress: "192.168.10.77"},
			}
		}, "10.16.0.7", "10.16.0.7", "victim"},
	} {
		inputs, err := newFakeCluster(attackFixture(c.change)...).GatherNodePaths(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		w := inputs.BuildNodeSnapshot(snapshot.Config{})
		four := func(pods []snapshot.PodPlacement) string {
			var out []string
			for _, p := range pods {
				if p.Address.Is4() {
					out = append(out, p.Address.String())
				}
			}
			return strings.Join(out, " ")
		}
		owner := ""
		if b := w.LoadBalancers[0]; len(b.ExternalIPs) > 0 {
			owner = w.AddressNamespaces[b.ExternalIPs[0]]
		}
		if routed, led := four(w.EgressRoutes[0].Pods), four(w.LoadBalancers[0].Pods); routed != c.routed ||
			led != c.led || owner != c.owner {
			t.Errorf("%s: routed %q, led %q, with an address of %q", what, routed, led, owner)
		}
	}
}

// A network works when the agent reports so for the current generation of the NodePath.
func TestPathIsRead(t *testing.T) {
	path := func(observed int64, programmed metav1.ConditionStatus, problem string) *kubedcv1alpha1.NodePath {
		return &kubedcv1alpha1.NodePath{
			ObjectMeta: metav1.ObjectMeta{Generation: 2},
			Status: kubedcv1alpha1.NodePathStatus{
				ObservedGeneration: observed,
				Networks:           []kubedcv1alpha1.NodeNetworkStatus{{Name: "red"}, {Name: "blue", Problem: problem}},
				Conditions: []metav1.Condition{{
					Type:    kubedcv1.ConditionProgrammed,
					Status:  programmed,
					Message: "no",
				}},
			},
		}
	}
	for what, c := range map[string]struct {
		path      *kubedcv1alpha1.NodePath
		reported  bool
		red, blue string
	}{
		"in force":                   {path(2, metav1.ConditionTrue, ""), true, "", ""},
		"an older one is":            {path(1, metav1.ConditionTrue, ""), false, "", ""},
		"one network is not":         {path(2, metav1.ConditionFalse, "no eth2"), true, "", "no eth2"},
		"nothing is":                 {path(2, metav1.ConditionFalse, ""), true, "no", "no"},
		"the agent has said nothing": {&kubedcv1alpha1.NodePath{}, false, "", ""},
	} {
		if got := readNodePath(c.path); got.IsCurrent != c.reported || got.NetworkProblems["red"] != c.red ||
			got.NetworkProblems["blue"] != c.blue {
			t.Errorf("%s: %+v", what, got)
		}
	}
}

// Events in the management VPC enqueue the NodePaths if they may change egress through nodes. If no node is on a
// network, only EgressServices and EgressRoutes do, because they have a status.
func TestNodesAreAskedFor(t *testing.T) {
	labelled := func(o client.Object, key string) client.Object {
		o = o.DeepCopyObject().(client.Object)
		o.SetLabels(map[string]string{
			key:                          "x",
			discoveryv1.LabelServiceName: o.GetLabels()[discoveryv1.LabelServiceName],
		})
		o.SetResourceVersion("2")
		return o
	}
	annotated := labelled(newLoadBalancer("gate", "web"), "x")
	annotated.SetAnnotations(map[string]string{ovnv1.EgressServiceAnnotation: "{}"})
	moved := labelled(newLoadBalancer("gate", "mail"), "x").(*corev1.Service)
	moved.Status.LoadBalancer.Ingress[0].IP = "192.168.10.26"
	quiet := newLoadBalancer("gate", "web")
	quiet.Status.LoadBalancer.Ingress[0].IP = "192.168.10.30"
	elder := labelled(newLoadBalancer("edge", "elder"), "x")
	readdressed := labelled(egressFixture()[4], "").(*corev1.Pod)
	readdressed.Labels, readdressed.Status.PodIPs = nil, []corev1.PodIP{{IP: "10.16.0.8"}}
	find := func(kind client.Object, namespace string) client.Object {
		i := slices.IndexFunc(egressFixture(), func(o client.Object) bool {
			return reflect.TypeOf(o) == reflect.TypeOf(kind) && o.GetNamespace() == namespace
		})
		return egressFixture()[i]
	}
	for what, c := range map[string]struct {
		was, is       client.Object
		with, without bool
	}{
		"a pod's labels": {
			find(&corev1.Pod{}, "gate"),
			labelled(find(&corev1.Pod{}, "gate"), "new"), true, false,
		},
		"a pod in a project": {
			find(&corev1.Pod{}, "acme-prod"),
			labelled(find(&corev1.Pod{}, "acme-prod"), "new"), false, false,
		},
		"a pod's address":                     {find(&corev1.Pod{}, "gate"), readdressed, true, false},
		"an address that another leaves with": {nil, elder, true, false},
		"a pod where nobody asks":             {nil, &corev1.Pod{ObjectMeta: metaIn("quiet", "x")}, false, false},
		"an EgressRoute":                      {nil, find(&kubedcv1alpha1.EgressRoute{}, "gate"), true, true},
		"an EgressRoute of a project":         {nil, find(&kubedcv1alpha1.EgressRoute{}, "acme-prod"), false, false},
		"an EgressService":                    {find(&ovnv1.EgressService{}, "gate"), nil, true, true},
		"endpoints":                           {nil, find(&discoveryv1.EndpointSlice{}, "gate"), true, false},
		"endpoints of a project":              {nil, find(&discoveryv1.EndpointSlice{}, "acme-prod"), false, false},
		"an address":                          {newLoadBalancer("gate", "mail"), moved, true, false},
		"a Service's labels": {
			newLoadBalancer("gate", "mail"),
			labelled(newLoadBalancer("gate", "mail"), "new"), false, false,
		},
		"a Service that nobody leaves with": {nil, quiet, false, false},
		"an annotation":                     {newLoadBalancer("gate", "web"), annotated, true, false},
	} {
		for _, uplinks := range []bool{true, false} {
			objects := append(egressFixture(), newLoadBalancer("gate", "web"))
			if !uplinks {
				objects = slices.DeleteFunc(objects, func(o client.Object) bool { return o.GetName() == "red" })
			}
			asked := map[string]bool{}
			w := &eventMapper{cluster: newFakeCluster(objects...), enqueue: func(of shard.Shard) { asked[of.Name] = true }}
			w.handleChange(context.Background(), c.was, c.is)
			if want := uplinks && c.with || !uplinks && c.without; asked[ownership.NodesShard] != want {
				t.Errorf("%s, with uplinks: %v: asked for %v", what, uplinks, slices.Sorted(maps.Keys(asked)))
			}
		}
	}
}

// Egress policies of the management VPC are told about FIps with which pods of their namespace leave, when the status of
// such a FIp changes.
func TestOutboundFIPsAreTold(t *testing.T) {
	newFIP := func(namespace string, direction kubedcv1.FIpDirection) *kubedcv1.FIp {
		return &kubedcv1.FIp{ObjectMeta: metaIn(namespace, "front"), Status: kubedcv1.FIpStatus{
			Direction: direction, ResolvedTargetIP: "10.16.0.7",
		}}
	}
	for name, c := range map[string]struct {
		was, is *kubedcv1.FIp
		want    bool
	}{
		"it begins":      {newFIP("gate", kubedcv1.FIpInbound), newFIP("gate", kubedcv1.FIpBoth), true},
		"it ends":        {newFIP("gate", kubedcv1.FIpBoth), newFIP("gate", kubedcv1.FIpInbound), true},
		"still the same": {newFIP("gate", kubedcv1.FIpBoth), newFIP("gate", kubedcv1.FIpBoth), false},
		"inbound only":   {newFIP("gate", ""), newFIP("gate", kubedcv1.FIpInbound), false},
		"in a project":   {newFIP("acme-prod", kubedcv1.FIpInbound), newFIP("acme-prod", kubedcv1.FIpBoth), false},
	} {
		cluster := newFakeCluster(append(egressFixture(), c.is)...)
		asked := false
		w := &eventMapper{cluster: cluster, enqueue: func(of shard.Shard) { asked = asked || of == shard.NodePaths }}
		w.handleOutboundFIP(t.Context(), c.was, c.is)
		in, err := cluster.GatherNodePaths(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got := in.BuildNodeSnapshot(snapshot.Config{}).OutboundFIps[netip.MustParseAddr("10.16.0.7")]
		if want := c.is.Namespace == "gate" && c.is.Status.Direction == kubedcv1.FIpBoth; asked != c.want || (got == "front") != want {
			t.Errorf("%s: asked %t, FIp %q", name, asked, got)
		}
	}
}
