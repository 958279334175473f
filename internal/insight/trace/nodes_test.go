package trace

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/insight/diagnosis"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/logical"
	"github.com/sallyport/sallyport/internal/model/ownership"
)

// The network that nodes are connected to themselves, and a Service that kube-proxy serves there.
const (
	nodeServiceIP = "192.0.2.80"
	node1Address  = "192.0.2.11"
)

// uplinkSurvey returns a survey with such a network on node1, which was inspected for its route to the client.
func uplinkSurvey() *clusterstate.State {
	s := shopSurvey()
	s.Cluster.Networks = append(s.Cluster.Networks, clusterstate.Network{
		Object: object("ExternalNetwork", "", "uplink"), Interface: "up*", OnNodes: []string{"node1"},
		Addresses: []netip.Prefix{prefix("192.0.2.0/24")},
	})
	s.Cluster.Services = append(s.Cluster.Services, clusterstate.Service{
		Object: object("Service", "default", "proxied"), ExternalIPs: []netip.Addr{addr(nodeServiceIP)},
		Ports: []clusterstate.ServicePort{
			{Name: "web", Port: 443, Protocol: "TCP"},
			{Name: "idle", Port: 444, Protocol: "TCP"},
		},
		Endpoints: []clusterstate.Endpoint{{Port: "web", Ready: true}},
	})
	s.Inspected = map[string]clusterstate.NodeInspection{"node1": {
		Interfaces: []clusterstate.Interface{
			{Name: "eth0"},
			{Name: "up0", Addresses: []netip.Prefix{prefix(node1Address + "/24")}},
		},
		Routes: []clusterstate.RouteLookup{
			{From: addr(nodeServiceIP), To: addr(internet), Output: "up0", NextHop: addr("192.0.2.1")},
			{From: addr(node1Address), To: addr(internet), Output: "eth0", NextHop: addr("10.9.0.1")},
		},
	}}
	return s
}

// Replies of a Service that kube-proxy serves leave through the interface on which the request arrived.
func TestNodesAnswerThemselves(t *testing.T) {
	p := traceOnePath(t, uplinkSurvey(), queryFromClient(internet, nodeServiceIP+":443"))
	assertVerdict(t, p, Delivered, "")
	assertHops(t, p.RequestHops, "ExternalNetwork uplink", "Service default/proxied")
	assertHops(t, p.ReplyHops, "Node node1")
	if p.Network != "uplink" {
		t.Errorf("by network %s", p.Network)
	}
	assertVerdict(t, traceOnePath(t, uplinkSurvey(), queryFromClient(internet, nodeServiceIP+":444")), Refused,
		NoEndpoints)
	assertVerdict(t, traceOnePath(t, uplinkSurvey(), queryFromClient(internet, nodeServiceIP+":80")), Dropped,
		NoSuchPort)
	assertVerdict(t, traceOnePath(t, uplinkSurvey(), queryFromClient(internet, "192.0.2.99:80")), Dropped,
		AddressUnknown)
}

// Replies from the node's own address leave through its default interface, another one. That is an asymmetric route,
// until a NodePath routes the reply.
func TestNodeAnswersElsewhere(t *testing.T) {
	s := uplinkSurvey()
	p := traceOnePath(t, s, queryFromClient(internet, node1Address+":22"))
	assertVerdict(t, p, Lost, diagnosis.AsymmetricRoute)
	if !isAbout(p, "Node node1") {
		t.Errorf("about %v", p.About)
	}
	s.Cluster.NodePaths = []clusterstate.NodePath{{
		Object: object("NodePath", "", "node1"),
		Ways:   []clusterstate.NodeNetwork{{Network: "uplink", Mark: 7}},
	}}
	i := s.Inspected["node1"]
	i.Routes = append(i.Routes, clusterstate.RouteLookup{
		Mark:    7,
		To:      addr(internet),
		Output:  "up0",
		NextHop: addr("192.0.2.1"),
	})
	s.Inspected["node1"] = i
	assertVerdict(t, traceOnePath(t, s, queryFromClient(internet, node1Address+":22")), Delivered, "")
	// the network is found by the interface that has the address
	s.Cluster.Networks[len(s.Cluster.Networks)-1].Addresses = nil
	assertVerdict(t, traceOnePath(t, s, queryFromClient(internet, node1Address+":22")), Delivered, "")
}

// Without an inspection, the trace does not guess what a node does.
func TestNodeThatWasNotAsked(t *testing.T) {
	s := uplinkSurvey()
	s.Inspected = nil
	assertVerdict(t, traceOnePath(t, s, queryFromClient(internet, nodeServiceIP+":443")), Unknown, CantTell)
	s = uplinkSurvey()
	s.Cluster.Nodes[0].Ready = false
	assertVerdict(t, traceOnePath(t, s, queryFromClient(internet, nodeServiceIP+":443")), Dropped,
		diagnosis.NodeNotReady)
}

// defaultVPCSurvey returns a survey with Kube-OVN's default VPC, as Kube-OVN writes it: pod tool is on node1, and its
// packets leave through that node.
func defaultVPCSurvey() *clusterstate.State {
	s := shopSurvey()
	router, subnet := kubeovn.ManagementVpc, kubeovn.ManagementSubnet
	s.Cluster.Pods = append(s.Cluster.Pods, clusterstate.Pod{Object: object("Pod", "default", "tool"), Node: "node1"})
	s.Cluster.Nodes[0].Addresses, s.Cluster.Nodes[1].Addresses = []netip.Addr{addr("172.22.1.1")},
		[]netip.Addr{addr("172.22.1.2")}
	s.Cluster.Subnets = append(s.Cluster.Subnets,
		clusterstate.Subnet{
			Object: object("Subnet", "", subnet), Vpc: router, Prefixes: []netip.Prefix{prefix("10.16.0.0/16")},
			Gateways:    []netip.Addr{addr("10.16.0.1")},
			NatOutgoing: true,
		},
		clusterstate.Subnet{
			Object:   object("Subnet", "", "join"),
			Vpc:      router,
			Prefixes: []netip.Prefix{prefix("100.64.0.0/16")},
			Gateways: []netip.Addr{addr("100.64.0.1")},
		})
	own := logical.ExternalIDs{"vendor": "kube-ovn"}
	rule := func(priority int, match, hop string) logical.RouterPolicy {
		out := reroutePolicy(priority, match, hop)
		out.IDs = own
		return out
	}
	s.Logical.Routers = append(s.Logical.Routers, logical.Router{
		Name: router,
		Ports: []logical.RouterPort{
			newRouterPort(router+"-"+subnet, "10.16.0.1/16"),
			newRouterPort(router+"-join", "100.64.0.1/16"),
		},
		Routes: []logical.StaticRoute{{Prefix: prefix("0.0.0.0/0"), NextHop: addr("100.64.0.1")}},
		Policies: []logical.RouterPolicy{
			{Priority: 31000, Match: "ip4.dst == 10.16.0.0/16", Action: "allow", IDs: own},
			{Priority: 31000, Match: "ip4.dst == 100.64.0.0/16", Action: "allow", IDs: own},
			rule(30000, "ip4.dst == 172.22.1.1", "100.64.0.2"),
			rule(30000, "ip4.dst == 172.22.1.2", "100.64.0.3"),
			rule(29000, "ip4.src == $ovn.default.node1_ip4", "100.64.0.2"),
		},
	})
	s.Logical.Sets["ovn.default.node1_ip4"] = []string{"10.16.0.2"}
	node := func(name, address, chassis string) logical.SwitchPort {
		return logical.SwitchPort{
			Name: "node-" + name, MAC: mac(name), Addresses: []netip.Addr{addr(address)}, Up: true, Chassis: chassis,
		}
	}
	s.Logical.Switches = append(s.Logical.Switches,
		logical.Switch{Name: subnet, Ports: []logical.SwitchPort{
			{
				Name:      "tool.default",
				MAC:       mac("tool"),
				Addresses: []netip.Addr{addr("10.16.0.2")},
				Up:        true,
				Chassis:   "c1",
			},
			routerSwitchPort(subnet+"-"+router, router+"-"+subnet),
		}},
		logical.Switch{Name: "join", Ports: []logical.SwitchPort{
			node("node1", "100.64.0.2", "c1"), node("node2", "100.64.0.3", "c2"),
			routerSwitchPort("join-"+router, router+"-join"),
		}})
	return s
}

// A pod of the default VPC that an EgressIP selects leaves with its address, not through the node. Without the router's
// port to the address it does not leave.
func TestEgressIPOfTheDefaultVPC(t *testing.T) {
	s, router := defaultVPCSurvey(), kubeovn.ManagementVpc
	ask := func(s *clusterstate.State) Path {
		return traceOnePath(t, s, Query{Pod: "default/tool", Server: addrPort(internet + ":80"), Protocol: "tcp"})
	}
	assertVerdict(t, ask(s), Unknown, LeavesByNode)
	s.Logical.Sets["selected"] = []string{"10.16.0.2"}
	const match = `inport == "ovn-cluster-ovn-default" && ip4.src == $selected`
	r := addEgressIPOn(s, router, ownership.ManagementEgressIP, match)
	r.Policies = slices.Insert(r.Policies, len(r.Policies)-1, logical.RouterPolicy{ // before Kube-OVN's 29000
		Priority: ownership.ManagementFailClosed, Match: match, Action: "drop", IDs: ownerIDs("Vpc", "", router),
	})
	p := ask(s)
	assertVerdict(t, p, Delivered, "")
	if p.SeenSource != addr("198.51.100.200") {
		t.Errorf("leaves as %s\n%s", p.SeenSource, formatPath(p))
	}
	r.Ports = slices.DeleteFunc(r.Ports, func(p logical.RouterPort) bool { return p.Name == "shop-end" })
	assertVerdict(t, ask(s), Dropped, PolicyDrops)
}

// The node of a pod in the default VPC forwards and translates its packets to the outside. Who answers them is not in
// OVN's rows.
func TestNodeForwardsWhatLeavesTheDefaultVPC(t *testing.T) {
	ask := func(s *clusterstate.State, server string) Path {
		return traceOnePath(t, s, Query{Pod: "default/tool", Server: addrPort(server), Protocol: "tcp"})
	}
	s := defaultVPCSurvey()
	p := ask(s, internet+":80")
	assertVerdict(t, p, Unknown, LeavesByNode)
	if p.Server.IsValid() || p.SeenSource.IsValid() || len(p.ReplyHops) > 0 || !isAbout(p, "Node node1") {
		t.Errorf("answered by %s, which sees %s; about %v\n%s", p.Server, p.SeenSource, p.About, formatPath(p))
	}
	assertHops(t, p.RequestHops, "Pod default/tool", "Node node1")
	for _, words := range []string{
		"node node1", "forwards it", "translates its source",
		"natOutgoing of Subnet ovn-default", "not in OVN's rows",
	} {
		if !strings.Contains(p.Reason, words) {
			t.Errorf("no %q in: %s", words, p.Reason)
		}
	}
	if last := p.RequestHops[len(p.RequestHops)-1]; strings.Contains(last.Text, "receives it") ||
		!strings.Contains(last.Text, "forwards it") {
		t.Errorf("the node %s", last.Text)
	}
	s.Cluster.Subnets[len(s.Cluster.Subnets)-2].NatOutgoing = false
	if p := ask(s, internet+":80"); !strings.Contains(p.Reason, "without translating it") {
		t.Error(p.Reason)
	}
	for _, server := range []string{"172.22.1.1:22", "172.22.1.2:22", "100.64.0.2:22"} { // addresses of nodes
		p := ask(defaultVPCSurvey(), server)
		assertVerdict(t, p, Delivered, "")
		if p.Server.String() != server || p.SeenSource.String() != "10.16.0.2" {
			t.Errorf("%s is answered by %s, which sees %s", server, p.Server, p.SeenSource)
		}
	}
}

// Nodes reach pods of the default VPC through OVN, and nothing else.
func TestFromNode(t *testing.T) {
	ask := func(node, server string) Path {
		return traceOnePath(t, defaultVPCSurvey(), Query{Node: node, Server: addrPort(server), Protocol: "tcp"})
	}
	p := ask("node2", "10.16.0.2:80")
	assertVerdict(t, p, Delivered, "")
	assertHops(t, p.RequestHops, "Node node2", "Pod default/tool")
	if p.SeenSource.String() != "100.64.0.3" {
		t.Errorf("the pod sees %s\n%s", p.SeenSource, formatPath(p))
	}
	for _, server := range []string{internet + ":80", loadBalancerIP + ":80", "10.0.0.2:80"} {
		assertVerdict(t, ask("node2", server), Unknown, CantTell)
	}
	assertVerdict(t, ask("node9", "10.16.0.2:80"), Unknown, CantTell)
	s := defaultVPCSurvey()
	s.Cluster.Pods = append(s.Cluster.Pods, clusterstate.Pod{
		Object: object("Pod", "default", "proxy"), Node: "node2", HostNetwork: true,
	})
	for server, verdict := range map[string]string{"10.16.0.2:80": Delivered, internet + ":80": Unknown} {
		if p := traceOnePath(t, s, Query{Pod: "default/proxy", Server: addrPort(server), Protocol: "tcp"}); p.Verdict != verdict {
			t.Errorf("from a pod on the host network to %s: %s", server, formatPath(p))
		}
	}
}

// Routers answer pings in IPv6, and pods do.
func TestPingIPv6(t *testing.T) {
	s := defaultVPCSurvey()
	subnet := &s.Cluster.Subnets[len(s.Cluster.Subnets)-2]
	subnet.Prefixes = append(subnet.Prefixes, prefix("fd00:16::/112"))
	subnet.Gateways = append(subnet.Gateways, addr("fd00:16::1"))
	r := s.Logical.Router(kubeovn.ManagementVpc)
	for i := range r.Ports {
		if r.Ports[i].Name == "ovn-cluster-ovn-default" {
			r.Ports[i].Networks = append(r.Ports[i].Networks, prefix("fd00:16::1/112"))
		}
	}
	for i := range s.Logical.Switches {
		if pods := &s.Logical.Switches[i]; pods.Name == "ovn-default" {
			pods.Ports[0].Addresses = append(pods.Ports[0].Addresses, addr("fd00:16::2"))
			pods.Ports = append(pods.Ports, logical.SwitchPort{
				Name: "other.default", MAC: mac("other"), Addresses: []netip.Addr{addr("fd00:16::3")}, Up: true, Chassis: "c2",
			})
		}
	}
	for _, server := range []string{"fd00:16::1", "fd00:16::3"} {
		q := Query{Pod: "default/tool", Server: netip.AddrPortFrom(addr(server), 0), Protocol: "icmp"}
		assertVerdict(t, traceOnePath(t, s, q), Delivered, "")
	}
	q := Query{Pod: "default/tool", Server: netip.AddrPortFrom(addr("fd00:16::1"), 22), Protocol: "tcp"}
	assertVerdict(t, traceOnePath(t, s, q), Refused, NoSuchPort) // the router itself answers pings only
}
