package trace

import (
	"net/netip"
	"testing"

	"github.com/sallyport/sallyport/internal/diagnosis"
	"github.com/sallyport/sallyport/internal/survey"
)

// The wire that nodes are on themselves, and a Service that kube-proxy serves there.
const (
	onNodes = "192.0.2.80"
	node1At = "192.0.2.11"
)

// uplinked is the world with such a wire on node1, which was asked how it answers the client.
func uplinked() *survey.Survey {
	s := world()
	s.Cluster.Networks = append(s.Cluster.Networks, survey.Network{
		Object: object("ExternalNetwork", "", "uplink"), Interface: "up*", OnNodes: []string{"node1"}, Addresses: []netip.Prefix{prefix("192.0.2.0/24")},
	})
	s.Cluster.Services = append(s.Cluster.Services, survey.Service{
		Object: object("Service", "default", "proxied"), ExternalIPs: []netip.Addr{addr(onNodes)},
		Ports:     []survey.ServicePort{{Name: "web", Port: 443, Protocol: "TCP"}, {Name: "idle", Port: 444, Protocol: "TCP"}},
		Endpoints: []survey.Endpoint{{Port: "web", Ready: true}},
	})
	s.Inspected = map[string]survey.Inspected{"node1": {
		Interfaces: []survey.Interface{{Name: "eth0"}, {Name: "up0", Addresses: []netip.Prefix{prefix(node1At + "/24")}}},
		Routes: []survey.RouteTaken{
			{From: addr(onNodes), To: addr(internet), Output: "up0", NextHop: addr("192.0.2.1")},
			{From: addr(node1At), To: addr(internet), Output: "eth0", NextHop: addr("10.9.0.1")},
		},
	}}
	return s
}

// A Service that kube-proxy serves is answered by the interface that it was asked on, and by no other.
func TestNodesAnswerThemselves(t *testing.T) {
	p := one(t, uplinked(), from(internet, onNodes+":443"))
	endsAs(t, p, Answered, "")
	passes(t, p.There, "ExternalNetwork uplink", "Service default/proxied")
	passes(t, p.Back, "Node node1")
	if p.Network != "uplink" {
		t.Errorf("by network %s", p.Network)
	}
	endsAs(t, one(t, uplinked(), from(internet, onNodes+":444")), Refused, NoEndpoints)
	endsAs(t, one(t, uplinked(), from(internet, onNodes+":80")), Dropped, NoSuchPort)
	endsAs(t, one(t, uplinked(), from(internet, "192.0.2.99:80")), Dropped, AddressUnknown)
}

// The node's own address is answered by its default interface, another one: that is an asymmetric route, until a NodePath leads the reply.
func TestNodeAnswersElsewhere(t *testing.T) {
	s := uplinked()
	p := one(t, s, from(internet, node1At+":22"))
	endsAs(t, p, Lost, diagnosis.AsymmetricRoute)
	if !about(p, "Node node1") {
		t.Errorf("about %v", p.About)
	}
	s.Cluster.NodePaths = []survey.NodePath{{Object: object("NodePath", "", "node1"), Ways: []survey.Way{{Network: "uplink", Mark: 7}}}}
	i := s.Inspected["node1"]
	i.Routes = append(i.Routes, survey.RouteTaken{Mark: 7, To: addr(internet), Output: "up0", NextHop: addr("192.0.2.1")})
	s.Inspected["node1"] = i
	endsAs(t, one(t, s, from(internet, node1At+":22")), Answered, "")
	s.Cluster.Networks[len(s.Cluster.Networks)-1].Addresses = nil // the network is known by the interface that has the address
	endsAs(t, one(t, s, from(internet, node1At+":22")), Answered, "")
}

// What a node does is not guessed.
func TestNodeThatWasNotAsked(t *testing.T) {
	s := uplinked()
	s.Inspected = nil
	endsAs(t, one(t, s, from(internet, onNodes+":443")), Unknown, CantTell)
	s = uplinked()
	s.Cluster.Nodes[0].Ready = false
	endsAs(t, one(t, s, from(internet, onNodes+":443")), Dropped, diagnosis.NodeNotReady)
}
