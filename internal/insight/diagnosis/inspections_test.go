package diagnosis

import (
	"net/netip"
	"slices"
	"testing"

	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/logical"
)

// asksNeighbour reports whether a node is asked who has an address.
func asksNeighbour(spec kubedcv1alpha1.InspectionSpec, address string) bool {
	return slices.ContainsFunc(spec.Neighbours, func(q kubedcv1alpha1.NeighbourQuestion) bool {
		return q.Address == address && q.Interface == "eth1"
	})
}

// inspectionsByNode returns the planned Inspections by node.
func inspectionsByNode(s *clusterstate.State, c InspectionScope) map[string]kubedcv1alpha1.InspectionSpec {
	out := map[string]kubedcv1alpha1.InspectionSpec{}
	for _, q := range PlanInspections(s, c) {
		out[q.Node] = q
	}
	return out
}

// Every gateway node is asked for gateways. For an address of the cluster, a node is asked that does not hold it,
// because it receives the answers of OVN as well as of others. The holder is asked how many ports are in use.
func TestQuestions(t *testing.T) {
	s := healthySurvey()
	q := inspectionsByNode(s, InspectionScope{})
	for _, name := range []string{"node1", "node2"} {
		if !asksNeighbour(q[name], "100.65.0.1") || q[name].Node != name {
			t.Errorf("%s is not asked for the gateway: %+v", name, q[name])
		}
	}
	for _, a := range []string{"100.65.0.11", "100.65.0.12", "100.65.0.13", "100.65.0.15"} {
		if !asksNeighbour(q["node1"], a) || asksNeighbour(q["node2"], a) {
			t.Errorf("%s: node1 should be asked, and not node2, which holds it", a)
		}
		if slices.Contains(q["node1"].Usage, a) || !slices.Contains(q["node2"].Usage, a) {
			t.Errorf("%s: node2 should be asked how much of it is in use, and not node1", a)
		}
	}
	if r := q["node1"].Routes; len(r) != 1 || r[0].Mark != 0x800000 || r[0].To != "203.0.113.1" {
		t.Errorf("node1 is asked for ways %+v", r)
	}
	if len(q["node2"].Routes) > 0 || len(q["node1"].Connections) > 0 {
		t.Errorf("asked without need: %+v", q)
	}
}

// A node that is connected through another interface than the others is asked on that one, and the usual interface is
// not reported missing.
func TestANodeWithAnInterfaceOfItsOwn(t *testing.T) {
	s := healthySurvey()
	for i := range s.Cluster.Subnets {
		if s.Cluster.Subnets[i].Name == cloud.Name {
			s.Cluster.Subnets[i].Interfaces = map[string]string{"node2": "ens1"}
		}
	}
	if q := inspectionsByNode(s, InspectionScope{}); !asksNeighbour(q["node1"], "100.65.0.1") ||
		asksNeighbour(q["node2"], "100.65.0.1") || q["node2"].Neighbours[0].Interface != "ens1" {
		t.Errorf("asked %+v", q)
	}
	missed := func() bool {
		return slices.ContainsFunc(CheckCluster(s), func(f Finding) bool { return f.Code == LinkDown })
	}
	if !missed() {
		t.Error("ens1 of node2 is not there, and nobody misses it")
	}
	changeInspection("node2", func(i *clusterstate.NodeInspection) { i.Interfaces[1].Name = "ens1" })(s)
	if missed() {
		t.Error("a node is said to lack an interface that it is not to have")
	}
}

// Inspections for a connection ask the chosen nodes about its address, its reply route and its state.
func TestQuestionsAboutAConnection(t *testing.T) {
	s := healthySurvey()
	client := addr("203.0.113.10")
	q := inspectionsByNode(s, InspectionScope{Nodes: []string{"node1"}, Client: client, Server: port("100.65.0.15:80")})
	if len(q) != 1 || !asksNeighbour(q["node1"], "100.65.0.15") || asksNeighbour(q["node1"], "100.65.0.13") ||
		!asksNeighbour(q["node1"], "100.65.0.1") {
		t.Errorf("asked %+v", q)
	}
	if c := q["node1"].Connections; len(c) != 1 || c[0].Client != "203.0.113.10" || c[0].Server != "100.65.0.15" ||
		c[0].Port != 80 {
		t.Errorf("asked for connections %+v", c)
	}
	if r := q["node1"].Routes; len(r) != 1 || r[0].To != "203.0.113.10" {
		t.Errorf("asked for ways %+v", r)
	}
	q = inspectionsByNode(s, InspectionScope{Client: client, Server: netip.MustParseAddrPort("192.0.2.12:80")})
	if r := q["node2"].Routes; len(r) != 1 || r[0].From != "192.0.2.12" || r[0].To != "203.0.113.10" {
		t.Errorf("node2 is asked for ways %+v", r)
	}
	nodeAt(s, 0).Ready = false
	if q := inspectionsByNode(s, InspectionScope{}); len(q) != 1 || q["node2"].Node != "node2" {
		t.Errorf("a node that is not Ready is asked: %+v", q)
	}
}

// A connection to the outside may use any address as its source: the usage of each is asked, but not who else answers
// for it.
func TestQuestionsAboutTheWayOut(t *testing.T) {
	q := inspectionsByNode(healthySurvey(), InspectionScope{Nodes: []string{"node2"}, Server: port("203.0.113.10:443")})
	if !slices.Contains(q["node2"].Usage, "100.65.0.12") || asksNeighbour(q["node2"], "100.65.0.12") ||
		!asksNeighbour(q["node2"], "100.65.0.1") {
		t.Errorf("asked %+v", q)
	}
}

// The pods behind Services are asked on their nodes if that is wanted: by TCP and SCTP, which programs do not notice, and
// not by UDP; and not more of them than the kind allows.
func TestPortQuestions(t *testing.T) {
	s := healthySurvey()
	s.Logical.Switches[0].Ports = []logical.SwitchPort{
		{Name: "shop-1.acme-prod", MAC: "0a:00:00:00:00:33", Addresses: []netip.Addr{addr("10.20.0.3")}},
	}
	for i := range s.Cluster.Subnets {
		if s.Cluster.Subnets[i].Name == "acme-prod-default" {
			s.Cluster.Subnets[i].Gateways = []netip.Addr{addr("10.20.0.1")}
		}
	}
	shop := &s.Cluster.Services[0]
	shop.Endpoints[0].Node = "node2"
	want := kubedcv1alpha1.PortQuestion{
		LogicalPort: "shop-1.acme-prod", MAC: "0a:00:00:00:00:33", Address: "10.20.0.3", From: "10.20.0.1",
		Protocol: "tcp", Port: 8080,
	}
	got := inspectionsByNode(s, InspectionScope{Ports: true})
	if len(got["node1"].Ports) > 0 || !slices.Equal(got["node2"].Ports, []kubedcv1alpha1.PortQuestion{want}) {
		t.Errorf("node1 is asked %+v, node2 %+v", got["node1"].Ports, got["node2"].Ports)
	}
	if got := inspectionsByNode(s, InspectionScope{}); len(got["node2"].Ports) > 0 {
		t.Errorf("asked without being wanted: %+v", got["node2"].Ports)
	}
	for what, change := range map[string]func(){
		"another pod's address": func() { shop.Endpoints[0].Address = port("10.20.0.9:8080") },
		"UDP":                   func() { shop.Ports[0].Protocol = "UDP" },
	} {
		endpoint, protocol := shop.Endpoints[0], shop.Ports[0].Protocol
		change()
		if got := inspectionsByNode(s, InspectionScope{Ports: true}); len(got["node2"].Ports) > 0 {
			t.Errorf("%s: asked %+v", what, got["node2"].Ports)
		}
		shop.Endpoints[0], shop.Ports[0].Protocol = endpoint, protocol
	}
	for n := range 2 * MaxPortQuestions {
		e := shop.Endpoints[0]
		e.Address = netip.AddrPortFrom(e.Address.Addr(), uint16(9000+n))
		shop.Endpoints = append(shop.Endpoints, e)
	}
	if got := inspectionsByNode(s, InspectionScope{Ports: true}); len(got["node2"].Ports) != MaxPortQuestions {
		t.Errorf("asked %d questions", len(got["node2"].Ports))
	}
}
