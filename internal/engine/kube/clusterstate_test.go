package kube

import (
	"encoding/json"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiwatch "k8s.io/apimachinery/pkg/watch"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	ovnv1 "github.com/sallyport/sallyport/api/ovn/v1"
	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/snapshot"
	"github.com/sallyport/sallyport/internal/model/state"
)

func newMeta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

// smallClusterDump returns a cluster with a project, a namespace of the management VPC, and an external subnet on a
// VLAN.
func smallClusterDump() *clusterDump {
	management := newMeta("", "ingress")
	management.Annotations = map[string]string{kubeovn.LogicalSwitchAnnotation: kubeovn.ManagementSubnet}
	management.Labels = map[string]string{"team": "edge"}
	external := newMeta("", "ext")
	external.Labels = map[string]string{kubedcv1.ExternalNetworkTypeLabel: "public"}
	proxy := newMeta("ingress", "proxy")
	proxy.Annotations = map[string]string{kubedcv1.BindAnnotation: "acme-shop/front"}
	ready, port, node := true, int32(8080), "node1"
	name := "http"
	e := &clusterDump{}
	e.projects.Items = []kubedcv1.Project{{ObjectMeta: newMeta("acme", "shop")}}
	e.namespaces.Items = []corev1.Namespace{
		{ObjectMeta: management},
		{ObjectMeta: newMeta("", "acme-shop")},
		{ObjectMeta: newMeta("", "acme")},
	}
	e.subnets.Items = []Subnet{{
		ObjectMeta: external,
		Spec:       kubeovn.SubnetSpec{CIDRBlock: "203.0.113.0/24", Gateway: "203.0.113.1", Vlan: "v7"},
	}}
	e.vlans.Items = []Vlan{{ObjectMeta: newMeta("", "v7"), Spec: kubeovn.VlanSpec{ID: 7, Provider: "wire"}}}
	e.providers.Items = []ProviderNetwork{{ObjectMeta: newMeta("", "wire"), Spec: kubeovn.ProviderNetworkSpec{
		DefaultInterface: "eth1", CustomInterfaces: []kubeovn.CustomInterface{{
			Interface: "ens4",
			Nodes:     []string{"node2"},
		}},
	}}}
	e.eips.Items = []kubedcv1.EIp{{ObjectMeta: newMeta("acme-shop", "front"), Status: kubedcv1.EIpStatus{
		IPAddress: "203.0.113.9", ExternalNetwork: "ext",
		Owners: []kubedcv1.EIpOwner{{OwnerRef: "proxy", Type: "Service"}, {OwnerRef: "web", Type: "FIp"}},
	}}}
	balancer := corev1.ServiceSpec{
		Type:  corev1.ServiceTypeLoadBalancer,
		Ports: []corev1.ServicePort{{Name: name, Port: 80}},
	}
	e.services.Items = []corev1.Service{
		{ObjectMeta: newMeta("ingress", "inside")},
		{ObjectMeta: proxy, Spec: balancer},
		{ObjectMeta: newMeta("acme-shop", "web"), Spec: balancer},
	}
	e.endpointSlices.Items = []discoveryv1.EndpointSlice{{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "acme-shop",
			Name:      "web-1",
			Labels:    map[string]string{discoveryv1.LabelServiceName: "web"},
		},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: &name, Port: &port}},
		Endpoints: []discoveryv1.Endpoint{{
			Addresses: []string{"10.0.0.5"}, NodeName: &node,
			TargetRef:  &corev1.ObjectReference{Kind: "Pod", Name: "web-0"},
			Conditions: discoveryv1.EndpointConditions{Ready: new(bool), Serving: &ready, Terminating: &ready},
		}},
	}}
	e.pods.Items = []corev1.Pod{
		{ObjectMeta: newMeta("ingress", "a")},
		{ObjectMeta: newMeta("ingress", "host"), Spec: corev1.PodSpec{HostNetwork: true}},
		{ObjectMeta: newMeta("ingress", "done"), Status: corev1.PodStatus{Phase: corev1.PodSucceeded}},
		{ObjectMeta: newMeta("acme-shop", "web-0")},
	}
	e.egressIPs.Items = []ovnv1.EgressIP{{ObjectMeta: newMeta("", "edge"), Spec: ovnv1.EgressIPSpec{
		NamespaceSelector: metav1.LabelSelector{MatchLabels: map[string]string{"team": "edge"}},
	}}}
	e.resolveShards()
	return e
}

func TestSurveySaysWhereThingsBelong(t *testing.T) {
	e := smallClusterDump()
	eips := e.readEIps()
	users := []state.Ref{
		{Kind: "Service", Namespace: "ingress", Name: "proxy"},
		{Kind: "FIp", Namespace: "acme-shop", Name: "web"},
	}
	if got := eips[0]; got.Network != "ext" || got.Type != "public" || got.Shard != "acme-shop" ||
		!reflect.DeepEqual(got.UsedBy, users) {
		t.Errorf("EIp %+v", got)
	}
	s := e.readSubnets()[0]
	if s.Network != "ext" || s.Tag != 7 || s.Provider != "wire" || s.Interface != "eth1" ||
		s.Interfaces["node2"] != "ens4" || len(s.Interfaces) != 1 {
		t.Errorf("Subnet %+v", s)
	}
	if n := e.readNetworks(snapshot.Config{}); len(n) != 1 || n[0].Type != "public" || n[0].Return != "Connection" ||
		n[0].Kind != "Subnet" {
		t.Errorf("networks %+v", n)
	}
	var shards []string
	for _, ns := range e.readNamespaces() {
		shards = append(shards, ns.Name+"="+ns.Shard)
	}
	if want := []string{"acme=acme", "acme-shop=acme-shop", "ingress=" + kubeovn.ManagementVpc}; !slices.Equal(shards,
		want) {
		t.Errorf("shards %v, want %v", shards, want)
	}
}

func TestSurveySaysWhichPodsAreSelected(t *testing.T) {
	e := smallClusterDump()
	got := e.readEgressIPs()[0]
	if got.Selects != 1 || got.Outside.Number != 0 {
		t.Errorf("the EgressIP selects %d pods, want the one that has an address of its own; not served are %s",
			got.Selects, got.Outside)
	}
	for i := range e.namespaces.Items { // on another Subnet
		if ns := &e.namespaces.Items[i]; ns.Name == "ingress" {
			ns.Annotations = map[string]string{kubeovn.LogicalSwitchAnnotation: "second"}
		}
	}
	if got := e.readEgressIPs()[0]; got.Outside.Number != 1 || got.Outside.String() != "ingress/a" {
		t.Errorf("not served are %d: %s", got.Outside.Number, got.Outside)
	}
}

func TestSurveySaysWhichServicesAreOurs(t *testing.T) {
	end := clusterstate.Endpoint{
		Port:    "http",
		Address: netip.MustParseAddrPort("10.0.0.5:8080"),
		Serving: true,
		End:     true,
		Pod:     "web-0",
		Node:    "node1",
	}
	for where, want := range map[snapshot.ClasslessPolicy][]bool{
		snapshot.ClasslessInProjects: {true, false},
		snapshot.ClasslessEverywhere: {true, true},
		snapshot.ClasslessNowhere:    {false, false},
	} {
		list := smallClusterDump().readServices(snapshot.Config{ClasslessServices: where})
		if len(list) != 2 || list[0].Ours != want[0] || list[1].Ours != want[1] || list[0].Name != "web" {
			t.Errorf("%s: %+v", where, list)
		}
		if !slices.Equal(list[0].Endpoints, []clusterstate.Endpoint{end}) {
			t.Errorf("endpoints %+v", list[0].Endpoints)
		}
	}
}

func TestSurveyReadsGatewaysOfAnyVersion(t *testing.T) {
	const text = `{"metadata": {"namespace": "shop", "name": "web"}, "spec": {"hostnames": ["shop.example"], "parentRefs": [{"name": "edge", "namespace": "ingress"}],
"rules": [{"backendRefs": [{"name": "web", "port": 80}, {"kind": "Backend", "name": "far"}]}]},
"status": {"parents": [{"conditions": [{"type": "Accepted", "status": "False", "reason": "NoMatchingParent"}]}]}}`
	var o gatewayObject
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	e := clusterDump{gatewayLists: []gatewayList{{
		kind:  schema.GroupKind{Group: gatewayAPI, Kind: "HTTPRoute"},
		items: []gatewayObject{o},
	}}}
	var got clusterstate.Cluster
	e.readGatewayObjects(&got)
	r := got.Routes[0]
	backends := []state.Ref{
		{Kind: "Service", Namespace: "shop", Name: "web"},
		{Kind: "Backend", Namespace: "shop", Name: "far"},
	}
	if r.Kind != "HTTPRoute" || !slices.Equal(r.Gateways, []string{"ingress/edge"}) ||
		!slices.Equal(r.Backends, backends) ||
		!slices.Equal(r.Hosts, []string{"shop.example"}) || r.Condition("Accepted").Reason != "NoMatchingParent" {
		t.Errorf("%+v", r)
	}
}

// The first answer of a node is used; a node without an answer keeps its problem.
func TestAnswersOfNodesAreHeard(t *testing.T) {
	question := kubedcv1alpha1.InspectionSpec{
		Node:   "node1",
		Routes: []kubedcv1alpha1.RouteQuestion{{From: "10.0.0.5", To: "198.51.100.7", Mark: 5}},
		Ports:  []kubedcv1alpha1.PortQuestion{{LogicalPort: "web.shop", Address: "10.0.0.5", Protocol: "tcp", Port: 80}},
	}
	asked := &kubedcv1alpha1.Inspection{ObjectMeta: newMeta("", "one"), Spec: question}
	i := &inspectionRun{
		created: map[string]*kubedcv1alpha1.Inspection{
			"one": asked,
			"two": {ObjectMeta: newMeta("", "two"), Spec: kubedcv1alpha1.InspectionSpec{Node: "node2"}},
		},
		results: map[string]clusterstate.NodeInspection{"node1": {Problem: "no answer"}, "node2": {Problem: "no answer"}},
	}
	answers := apiwatch.NewFakeWithChanSize(5, false)
	answers.Add(asked) // not answered yet
	somebodys := asked.DeepCopy()
	somebodys.Name = "another"
	somebodys.Status = kubedcv1alpha1.InspectionStatus{Time: &metav1.MicroTime{Time: time.Unix(1, 0)}}
	answers.Modify(somebodys)
	answer := asked.DeepCopy()
	answer.Status = kubedcv1alpha1.InspectionStatus{
		Time:   &metav1.MicroTime{Time: time.Unix(2, 0)},
		Routes: []kubedcv1alpha1.RouteAnswer{{Interface: "eth1", NextHop: "203.0.113.1"}},
		Usage: []kubedcv1alpha1.UsageAnswer{{
			Address: "203.0.113.9", Connections: 3, Protocol: "tcp", To: "198.51.100.7:443", Ports: 2,
		}},
		Ports: []kubedcv1alpha1.PortAnswer{{Result: "Closed"}, {Result: "Open"}}, // one more than asked
	}
	answers.Modify(answer)
	answers.Error(&metav1.Status{Message: "too old"})
	answers.Stop()
	i.awaitAnswers(t.Context(), answers)
	got := i.results["node1"]
	route := clusterstate.RouteLookup{
		From: netip.MustParseAddr("10.0.0.5"), To: netip.MustParseAddr("198.51.100.7"), Mark: 5, Output: "eth1",
		NextHop: netip.MustParseAddr("203.0.113.1"),
	}
	if got.Problem != "" || !got.Clock.Equal(time.Unix(2, 0)) || got.Answered.IsZero() ||
		!slices.Equal(got.Routes, []clusterstate.RouteLookup{route}) {
		t.Errorf("node1 says %+v", got)
	}
	closed := clusterstate.PortAnswer{
		LogicalPort: "web.shop", Address: netip.MustParseAddrPort("10.0.0.5:80"), Protocol: "tcp", Result: clusterstate.PortClosed,
	}
	if !slices.Equal(got.Ports, []clusterstate.PortAnswer{closed}) {
		t.Errorf("ports %+v", got.Ports)
	}
	if u := got.Usage; len(u) != 1 || u[0].To != netip.MustParseAddrPort("198.51.100.7:443") ||
		u[0].Of != natPortCount {
		t.Errorf("usage %+v", u)
	}
	if i.results["node2"].Problem != "no answer" {
		t.Errorf("node2 says %+v", i.results["node2"])
	}
}

func TestServersAreThoseThatKubeOVNNames(t *testing.T) {
	c := corev1.Container{Env: []corev1.EnvVar{
		{Name: "OVN_DB_IPS", Value: "192.0.2.1,2001:db8::2"},
		{Name: "ENABLE_SSL", Value: "true"},
	}}
	if got, want := databaseServers(c, 6641),
		[]string{"ssl:192.0.2.1:6641", "ssl:[2001:db8::2]:6641"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := databaseServers(corev1.Container{}, 6641); len(got) > 0 {
		t.Errorf("of nothing: %v", got)
	}
}

// From natOutgoing, a trace knows whether nodes apply SNAT to traffic of pods to the outside.
func TestSurveySaysWhetherNodesTranslate(t *testing.T) {
	for _, nat := range []bool{true, false} {
		e := &clusterDump{}
		e.subnets.Items = []Subnet{{Spec: kubeovn.SubnetSpec{NatOutgoing: nat}}}
		if got := e.readSubnets()[0].NatOutgoing; got != nat {
			t.Errorf("natOutgoing is %t, and read as %t", nat, got)
		}
	}
}
