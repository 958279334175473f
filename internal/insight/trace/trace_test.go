package trace

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/internal/insight/diagnosis"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/logical"
	"github.com/sallyport/sallyport/internal/model/ownership"
)

// A pod with a public floating IP and a load balancer on the cloud network replies on the network of each request, and
// sees the client's address.
func TestOnePodAnswersOnBothNetworks(t *testing.T) {
	p := traceOnePath(t, shopSurvey(), queryFromClient(internet, floatingIP+":80"))
	assertVerdict(t, p, Delivered, "")
	if p.Network != "public" || p.Server.String() != "10.0.0.2:80" || p.SeenSource.String() != internet {
		t.Errorf("by %s, to %s, from %s\n%s", p.Network, p.Server, p.SeenSource, formatPath(p))
	}
	assertHops(t, p.RequestHops, "ExternalNetwork public", "Node node3", "FIp acme-shop/front",
		"ReturnPath acme-shop/ext-public", "Pod acme-shop/web")
	assertHops(t, p.ReplyHops, "Pod acme-shop/web", "ReturnPath acme-shop/ext-public", "FIp acme-shop/front",
		"ExternalNetwork public", "Host "+internet)

	all := New(shopSurvey()).Trace(queryFromClient(internet, loadBalancerIP+":80")).Paths
	if len(all) != 2 {
		t.Fatalf("%d ways to two endpoints", len(all))
	}
	for i, server := range []string{"10.0.0.2:8080", "10.0.0.3:8080"} {
		assertVerdict(t, all[i], Delivered, "")
		if p := all[i]; p.Network != "cloud" || p.Server.String() != server || p.SeenSource.String() != internet {
			t.Errorf("by %s, to %s, from %s", p.Network, p.Server, p.SeenSource)
		}
		assertHops(t, all[i].RequestHops, "ExternalNetwork cloud", "Node node3", "Service acme-shop/web")
		assertHops(t, all[i].ReplyHops, "Service acme-shop/web", "ExternalNetwork cloud")
	}
}

// Hops show the addresses before and after each translation, in both directions.
func TestPacketsAreTold(t *testing.T) {
	p := traceOnePath(t, shopSurvey(), Query{
		Client:   addrPort(internet + ":40000"),
		Server:   addrPort(floatingIP + ":80"),
		Protocol: "tcp",
	})
	for _, packet := range []string{internet + ":40000 → " + floatingIP + ":80", internet + ":40000 → 10.0.0.2:80"} {
		if !slices.ContainsFunc(p.RequestHops, func(h Hop) bool { return h.Packet == packet }) {
			t.Errorf("no hop there has %s\n%s", packet, formatPath(p))
		}
	}
	for _, packet := range []string{
		"10.0.0.2:80 → " + internet + ":40000",
		floatingIP + ":80 → " + internet + ":40000",
	} {
		if !slices.ContainsFunc(p.ReplyHops, func(h Hop) bool { return h.Packet == packet }) {
			t.Errorf("no hop back has %s\n%s", packet, formatPath(p))
		}
	}
}

// Without the QoS rows of the return path, the reply takes the project's default egress, with another address.
func TestReplyWithoutItsLeg(t *testing.T) {
	s := shopSurvey()
	s.Logical.Switch(pods).QoS = nil
	p := traceOnePath(t, s, queryFromClient(internet, floatingIP+":80"))
	assertVerdict(t, p, Lost, ReplyLeavesElsewhere)
	if p.Network != "cloud" || !isAbout(p, "ExternalNetwork cloud") {
		t.Errorf("left by %s, about %v", p.Network, p.About)
	}
	// paths without a return port still work
	for _, q := range []Query{queryFromClient(internet, loadBalancerIP+":80"), queryFromPod("db", internet+":443")} {
		for _, p := range New(s).Trace(q).Paths {
			assertVerdict(t, p, Delivered, "")
		}
	}
}

// A policy of unknown origin with a higher priority than ours reroutes the reply: it is named.
func TestForeignPolicy(t *testing.T) {
	s := shopSurvey()
	r := s.Logical.Router(shop)
	r.Policies = append([]logical.RouterPolicy{reroutePolicy(32000, "ip4.src == 10.0.0.2", "100.65.0.1")},
		r.Policies...)
	p := traceOnePath(t, s, queryFromClient(internet, floatingIP+":80"))
	assertVerdict(t, p, Lost, ReplyLeavesElsewhere)
	if !isAbout(p, "Project acme/shop") || len(p.Caveats) == 0 || !strings.Contains(p.Caveats[0], "policy 32000") {
		t.Errorf("about %v, doubts %v", p.About, p.Caveats)
	}
	r.Policies[0] = reroutePolicy(32000, "ip4.src == 10.0.0.2", "")
	assertVerdict(t, traceOnePath(t, s, queryFromPod("web", internet+":443")), Dropped, ForeignPolicyDrops)
	assertVerdict(t, traceOnePath(t, s, queryFromPod("db", internet+":443")), Delivered, "")
}

func TestNetworkPolicy(t *testing.T) {
	s := shopSurvey()
	addNetworkPolicy(s, "198.51.100.0/24")
	p := traceOnePath(t, s, queryFromClient(internet, floatingIP+":80"))
	assertVerdict(t, p, Dropped, NetworkPolicyDrops)
	if !isAbout(p, "NetworkPolicy acme-shop/guard") {
		t.Errorf("about %v", p.About)
	}
	allowed := traceOnePath(t, s, queryFromClient(neighbour, floatingIP+":80"))
	assertVerdict(t, allowed, Delivered, "")
	assertHops(t, allowed.RequestHops, "NetworkPolicy acme-shop/guard", "Pod acme-shop/web")
	assertVerdict(t, traceOnePath(t, s, queryFromClient(neighbour, floatingIP+":81")), Dropped, NetworkPolicyDrops)
	// replies to its own requests pass
	assertVerdict(t, traceOnePath(t, s, queryFromPod("web", internet+":443")), Delivered, "")
}

// Replies to an on-link client go directly to it, not through the gateway.
func TestNeighbourOnTheWire(t *testing.T) {
	p := traceOnePath(t, shopSurvey(), queryFromClient(neighbour, floatingIP+":80"))
	assertVerdict(t, p, Delivered, "")
	if leaves := p.ReplyHops[len(p.ReplyHops)-2]; !strings.Contains(leaves.Text, "on-link host") {
		t.Errorf("the last hop but one: %s", leaves.Text)
	}
}

func TestSourceRanges(t *testing.T) {
	s := shopSurvey()
	s.Logical.Groups = append(s.Logical.Groups, logical.PortGroup{
		Name: "ranges", Ports: []string{"ext-cloud-" + shop}, IDs: ownerIDs("Project", "acme", "shop"),
		ACLs: []logical.ACL{
			{
				Priority: 101, Direction: toLport, Action: "pass", IDs: ownerIDs("Service", shop, "web"),
				Match: `outport == "ext-cloud-acme-shop" && ip4.dst == 100.65.0.30 && tcp.dst == {80} && ip4.src == {198.51.100.0/24}`,
			},
			{
				Priority: 100, Direction: toLport, Action: "drop", IDs: ownerIDs("Service", shop, "web"),
				Match: `outport == "ext-cloud-acme-shop" && ip4.dst == 100.65.0.30 && tcp.dst == {80}`,
			},
		},
	})
	p := traceOnePath(t, s, queryFromClient(internet, loadBalancerIP+":80"))
	assertVerdict(t, p, Dropped, SourceRangesDrop)
	if !isAbout(p, "Service acme-shop/web") {
		t.Errorf("about %v", p.About)
	}
	for _, p := range New(s).Trace(queryFromClient(neighbour, loadBalancerIP+":80")).Paths {
		assertVerdict(t, p, Delivered, "")
	}
}

// ACLs of a Project have different codes: isolation of a network, and an allow-list.
func TestRulesOfProjects(t *testing.T) {
	for priority, code := range map[int]string{
		ownership.NetworkIsolationPriority: NetworkIsolates, ownership.AllowListPriority: AllowListDrops, 5: RuleDrops,
	} {
		s := shopSurvey()
		s.Logical.Sets["others"] = []string{internet}
		s.Logical.Groups = append(s.Logical.Groups, logical.PortGroup{
			Name: "ranges", Ports: []string{"ext-cloud-" + shop}, IDs: ownerIDs("Project", "acme", "shop"),
			ACLs: []logical.ACL{{
				Priority: priority, Direction: toLport, Action: "drop", IDs: ownerIDs("Project", "acme", "shop"),
				Match: `outport == "ext-cloud-acme-shop" && ip4.src == $others`,
			}},
		})
		p := traceOnePath(t, s, queryFromClient(internet, loadBalancerIP+":80"))
		assertVerdict(t, p, Dropped, code)
		for _, p := range New(s).Trace(queryFromClient(neighbour, loadBalancerIP+":80")).Paths {
			assertVerdict(t, p, Delivered, "")
		}
	}
}

func TestWithoutEndpoints(t *testing.T) {
	s := shopSurvey()
	s.Logical.Router(shop).Balancers[0].VIPs[0].Backends = nil
	assertVerdict(t, traceOnePath(t, s, queryFromClient(internet, loadBalancerIP+":80")), Refused, NoEndpoints)
	s.Logical.Router(shop).Balancers[0].Options = nil
	assertVerdict(t, traceOnePath(t, s, queryFromClient(internet, loadBalancerIP+":80")), Dropped, NoEndpoints)
}

// A backend that its health check reports offline gets no connections. If all are offline, connections are refused.
func TestHealthChecks(t *testing.T) {
	s := shopSurvey()
	b := &s.Logical.Router(shop).Balancers[0]
	b.Checked = []string{loadBalancerIP + ":80"}
	b.Mappings = map[string]string{"10.0.0.2": "web." + shop + ":10.0.0.250", "10.0.0.3": "api." + shop + ":10.0.0.250"}
	s.Logical.Monitors = []logical.ServiceMonitor{
		{Address: addrPort("10.0.0.2:8080"), Protocol: "tcp", Port: "web." + shop, Status: "offline"},
		{Address: addrPort("10.0.0.3:8080"), Protocol: "tcp", Port: "api." + shop, Status: "online"},
	}
	if p := traceOnePath(t, s, queryFromClient(internet, loadBalancerIP+":80")); p.Server.String() != "10.0.0.3:8080" {
		t.Errorf("goes to %s", p.Server)
	}
	s.Logical.Monitors[1].Status = "offline"
	assertVerdict(t, traceOnePath(t, s, queryFromClient(internet, loadBalancerIP+":80")), Refused, NoEndpoints)
}

func TestNobodyBehindIt(t *testing.T) {
	for server, code := range map[string]string{
		loadBalancerIP + ":81": NoSuchPort, defaultSNAT + ":80": NoSuchPort, publicRouterIP + ":80": NoSuchPort,
		"100.65.0.99:80": AddressUnknown,
	} {
		assertVerdict(t, traceOnePath(t, shopSurvey(), queryFromClient(internet, server)), Dropped, code)
	}
	assertVerdict(t, traceOnePath(t, shopSurvey(), queryFromClient(internet, "192.0.2.1:80")), Unknown, AddressUnknown)
	udp := queryFromClient(internet, loadBalancerIP+":80")
	udp.Protocol = "udp"
	assertVerdict(t, traceOnePath(t, shopSurvey(), udp), Dropped, NoSuchPort)
}

func TestPing(t *testing.T) {
	for _, server := range []string{floatingIP, defaultSNAT, publicRouterIP} {
		q := queryFromClient(internet, server+":0")
		q.Protocol = "icmp"
		assertVerdict(t, traceOnePath(t, shopSurvey(), q), Delivered, "")
	}
}

// OVN's load balancers only forward ports: nothing answers a ping to their VIP, unless it is also an address of a
// router or floating IP.
func TestPingOfALoadBalancer(t *testing.T) {
	outside, inside := queryFromClient(internet, loadBalancerIP+":0"), queryFromPod("db", loadBalancerIP+":0")
	for _, q := range []Query{outside, inside} {
		q.Protocol = "icmp"
		p := traceOnePath(t, shopSurvey(), q)
		assertVerdict(t, p, Dropped, BalancerIgnoresPing)
		if !isAbout(p, "Service acme-shop/web") || !strings.Contains(p.Reason, "Service acme-shop/web") ||
			!strings.Contains(p.Reason, "80/tcp") {
			t.Errorf("about %v: %s", p.About, p.Reason)
		}
		if f, _ := p.Finding(); !strings.Contains(f.Remediation, "sallyport trace CLIENT ADDRESS:PORT") {
			t.Errorf("the next step is %q", f.Remediation)
		}
	}
	s := shopSurvey()
	s.Logical.Router(shop).Balancers[0].VIPs[0].Address = addrPort(defaultSNAT + ":80") // the router's own address
	q := queryFromClient(internet, defaultSNAT+":0")
	q.Protocol = "icmp"
	assertVerdict(t, traceOnePath(t, s, q), Delivered, "")
}

// Pods' packets leave through the default network with the project's address, or with that of the pod's floating IP on
// the default network.
func TestEgress(t *testing.T) {
	// web's floating IP is on a secondary network
	for name, seen := range map[string]string{"db": defaultSNAT, "web": defaultSNAT} {
		p := traceOnePath(t, shopSurvey(), queryFromPod(name, internet+":443"))
		assertVerdict(t, p, Delivered, "")
		if p.SeenSource.String() != seen || p.Network != "cloud" || p.Server.String() != internet+":443" {
			t.Errorf("%s is seen as %s by %s", name, p.SeenSource, p.Network)
		}
	}
	s := shopSurvey()
	r := s.Logical.Router(shop)
	r.NATs = append(r.NATs, logical.NAT{
		Type:     "dnat_and_snat",
		External: addr("100.65.0.44"),
		Logical:  prefix("10.0.0.4/32"),
	})
	if p := traceOnePath(t, s, queryFromPod("db", internet+":443")); p.Verdict != Delivered ||
		p.SeenSource.String() != "100.65.0.44" {
		t.Errorf("%s, seen as %s\n%s", p.Verdict, p.SeenSource, formatPath(p))
	}
	// An on-link host of the default network is reached directly, not through the gateway.
	p := traceOnePath(t, shopSurvey(), queryFromPod("db", "100.65.0.77:80"))
	assertVerdict(t, p, Delivered, "")
	if !slices.ContainsFunc(p.RequestHops, func(h Hop) bool { return strings.Contains(h.Text, "on-link host") }) {
		t.Error(formatPath(p))
	}
}

// Without a NAT entry a packet leaves with the pod's own address, and the network's router drops it.
func TestEgressWithoutTranslation(t *testing.T) {
	s := shopSurvey()
	s.Logical.Router(shop).NATs = s.Logical.Router(shop).NATs[:1]
	assertVerdict(t, traceOnePath(t, s, queryFromPod("db", internet+":443")), Dropped, LeavesUntranslated)
}

// An EgressIP's address is on a router of its own, which is linked to the project's router.
func TestEgressIP(t *testing.T) {
	s := shopSurvey()
	r := addEgressIP(s)
	p := traceOnePath(t, s, queryFromPod("db", internet+":443"))
	assertVerdict(t, p, Delivered, "")
	if p.SeenSource.String() != "198.51.100.200" || p.Network != "public" {
		t.Errorf("seen as %s by %s\n%s", p.SeenSource, p.Network, formatPath(p))
	}
	assertHops(t, p.RequestHops, "Pod acme-shop/db", "EgressIP fixed", "ExternalNetwork public")
	if other := traceOnePath(t, s, queryFromPod("api", internet+":443")); other.SeenSource.String() != defaultSNAT {
		t.Errorf("a pod that is not selected is seen as %s", other.SeenSource)
	}
	assertVerdict(t, traceOnePath(t, s, queryFromClient(internet, "198.51.100.200:80")), Dropped, NoSuchPort)
	leads := &r.Policies[len(r.Policies)-3]
	leads.Action, leads.NextHops = "drop", nil
	assertVerdict(t, traceOnePath(t, s, queryFromPod("db", internet+":443")), Dropped, PolicyDrops)
}

// While the port moves, no node holds it: labelling nodes is not the remedy.
func TestGatewayThatMoves(t *testing.T) {
	s := shopSurvey()
	for i := range s.Cluster.Nodes {
		s.Cluster.Nodes[i].Gateway = true
	}
	for i := range s.Logical.Router(shop).Ports {
		s.Logical.Router(shop).Ports[i].Holder = ""
	}
	p := traceOnePath(t, s, queryFromClient(internet, floatingIP+":80"))
	assertVerdict(t, p, Dropped, GatewayUnclaimed)
	if f, _ := p.Finding(); !strings.Contains(f.Remediation, "again") || strings.Contains(f.Remediation, "Label") {
		t.Errorf("the remedy is %q", f.Remediation)
	}
}

// A pod or node that does not exist gets a suggestion, and an address that could not be looked up is not called foreign.
func TestWhatIsNotKnown(t *testing.T) {
	s := shopSurvey()
	if p := traceOnePath(t, s, queryFromPod("wab", internet+":443")); !strings.Contains(p.Reason, "did you mean acme-shop/web") {
		t.Errorf("%q", p.Reason)
	}
	q := queryFromPod("web", "10.0.0.3:80")
	q.Pod, q.Node = "", "nod1"
	if p := traceOnePath(t, s, q); !strings.Contains(p.Reason, "did you mean node1") {
		t.Errorf("%q", p.Reason)
	}
	q = queryFromClient(internet, "192.0.2.7:80")
	assertVerdict(t, traceOnePath(t, s, q), Unknown, AddressUnknown)
	s.Unread = []clusterstate.ReadFailure{{System: clusterstate.Northbound, Problem: "no route"}}
	p := traceOnePath(t, s, q)
	assertVerdict(t, p, Unknown, CantTell)
	if !strings.Contains(p.Reason, "could not be read") {
		t.Errorf("%q", p.Reason)
	}
}

func TestNodes(t *testing.T) {
	s := shopSurvey()
	for i := range s.Logical.Router(shop).Ports {
		s.Logical.Router(shop).Ports[i].Holder = ""
	}
	assertVerdict(t, traceOnePath(t, s, queryFromClient(internet, floatingIP+":80")), Dropped, NoGatewayNode)
	assertVerdict(t, traceOnePath(t, s, queryFromPod("db", internet+":443")), Dropped, NoGatewayNode)

	s = shopSurvey()
	s.Cluster.Nodes[2].Ready = false
	p := traceOnePath(t, s, queryFromClient(internet, floatingIP+":80"))
	assertVerdict(t, p, Dropped, diagnosis.NodeNotReady)
	if !isAbout(p, "Node node3") {
		t.Errorf("about %v", p.About)
	}
	s = shopSurvey()
	s.Cluster.Nodes[0].Ready = false
	assertVerdict(t, traceOnePath(t, s, queryFromClient(internet, floatingIP+":80")), Dropped, diagnosis.NodeNotReady)
	s = shopSurvey()
	s.Logical.Switch(pods).Ports[0].Chassis = ""
	assertVerdict(t, traceOnePath(t, s, queryFromClient(internet, floatingIP+":80")), Dropped, TargetGone)
	s = shopSurvey()
	s.Logical.Switch(pods).Ports = s.Logical.Switch(pods).Ports[1:]
	assertVerdict(t, traceOnePath(t, s, queryFromClient(internet, floatingIP+":80")), Dropped, TargetGone)
}

// The neighbours that nodes found count: with a silent gateway the reply is lost, and another host with the address
// becomes a caveat.
func TestWires(t *testing.T) {
	s := shopSurvey()
	s.Inspected = map[string]clusterstate.NodeInspection{"node3": {Neighbours: []clusterstate.Neighbour{{Address: addr("198.51.100.1")}}}}
	assertVerdict(t, traceOnePath(t, s, queryFromClient(internet, floatingIP+":80")), Lost, diagnosis.GatewaySilent)
	assertVerdict(t, traceOnePath(t, s, queryFromClient(neighbour, floatingIP+":80")), Delivered, "")
	s.Inspected = map[string]clusterstate.NodeInspection{"node1": {Neighbours: []clusterstate.Neighbour{{
		Address: addr(floatingIP),
		MACs:    []string{mac(shop + "-ext-public"), "02:00:00:00:00:99"},
	}}}}
	if p := traceOnePath(t, s, queryFromClient(internet, floatingIP+":80")); len(p.Caveats) != 1 ||
		!strings.Contains(p.Caveats[0], "02:00:00:00:00:99") {
		t.Errorf("doubts %v", p.Caveats)
	}
}

func TestWrongGateway(t *testing.T) {
	s := shopSurvey()
	r := s.Logical.Router(shop)
	i := slices.IndexFunc(r.Policies, func(p logical.RouterPolicy) bool { return p.Priority == ownership.ReturnLeave })
	r.Policies[i].NextHops = []netip.Addr{addr("198.51.100.2")}
	assertVerdict(t, traceOnePath(t, s, queryFromClient(internet, floatingIP+":80")), Lost, WrongGateway)
}

// Pods reach load balancers of their own project through the switch, even if they are a backend themselves.
func TestHairpin(t *testing.T) {
	for _, name := range []string{"db", "web"} {
		all := New(shopSurvey()).Trace(queryFromPod(name, loadBalancerIP+":80")).Paths
		for _, p := range all {
			assertVerdict(t, p, Delivered, "")
		}
		if len(all) != 2 {
			t.Errorf("%d ways from %s", len(all), name)
		}
	}
	// A packet to a floating IP of the own project returns with the router's own address.
	assertVerdict(t, traceOnePath(t, shopSurvey(), queryFromPod("db", floatingIP+":80")), Dropped, Spoofed)
}

// A pod's own address is not reachable from outside or from another project; the reason names the pod.
func TestPodsOwnAddress(t *testing.T) {
	s := shopSurvey()
	s.Cluster.Pods[0].Addresses = []netip.Addr{addr("10.7.0.2")}
	p := traceOnePath(t, s, queryFromClient(internet, "10.7.0.2:80"))
	assertVerdict(t, p, Unknown, AddressUnknown)
	if !isAbout(p, "Pod acme-shop/web") || !strings.Contains(p.Reason, "the address of Pod acme-shop/web") {
		t.Errorf("%s %v", p.Reason, p.About)
	}
	p = traceOnePath(t, s, queryFromPod("db", "10.7.0.2:80"))
	if len(p.Caveats) != 1 || !strings.Contains(p.Caveats[0], "Pod acme-shop/web also has address 10.7.0.2") {
		t.Errorf("doubts %v", p.Caveats)
	}
	s.Cluster.Pods[0].HostNetwork, s.Cluster.Pods[0].Node = true, "node1"
	if p = traceOnePath(t, s, queryFromPod("web", internet+":80")); p.Verdict != Unknown ||
		!strings.Contains(p.Reason, "host network of its node node1") {
		t.Errorf("%s: %s", p.Verdict, p.Reason)
	}
}

// Two routes with the same next hop give one path. Two different ones give two, unless a policy overrides them.
func TestRoutesOfOneRank(t *testing.T) {
	ways := func(s *clusterstate.State) int { return len(New(s).Trace(queryFromPod("db", internet+":443")).Paths) }
	s := shopSurvey()
	r := s.Logical.Router(shop)
	r.Policies = slices.DeleteFunc(r.Policies, func(p logical.RouterPolicy) bool {
		return p.Priority == ownership.DefaultEgress
	})
	r.Routes = append(r.Routes[1:], r.Routes[1]) // without Kube-OVN's route by source, which has a longer prefix
	if n := ways(s); n != 1 {
		t.Errorf("a route that is there twice: %d ways", n)
	}
	r.Routes[len(r.Routes)-1].NextHop = addr("198.51.100.1")
	if n := ways(s); n != 2 {
		t.Errorf("two routes: %d ways", n)
	}
	s = shopSurvey()
	r = s.Logical.Router(shop)
	r.Routes = append(r.Routes[1:], logical.StaticRoute{Prefix: prefix("0.0.0.0/0"), NextHop: addr("198.51.100.1")})
	if n := ways(s); n != 1 {
		t.Errorf("two routes that a policy overrules: %d ways", n)
	}
}

// The hop for a cluster IP is about the Service, although the row belongs to the VPC.
func TestClusterAddress(t *testing.T) {
	s := shopSurvey()
	s.Cluster.Services[0].ClusterIP = addr("10.96.0.7")
	s.Logical.Switch(pods).Balancers = append(s.Logical.Switch(pods).Balancers, logical.LoadBalancer{
		Name: "vpc-acme-shop-tcp-load", Protocol: "tcp",
		VIPs: []logical.VIP{{Address: addrPort("10.96.0.7:80"), Backends: webBalancer().VIPs[0].Backends[:1]}},
	})
	p := traceOnePath(t, s, queryFromPod("db", "10.96.0.7:80"))
	assertVerdict(t, p, Delivered, "")
	assertHops(t, p.RequestHops, "Pod acme-shop/db", "Service acme-shop/web", "Pod acme-shop/web")
}

// A match that OVN can't parse has no effect, and becomes a caveat.
func TestUnreadableMatch(t *testing.T) {
	s := shopSurvey()
	r := s.Logical.Router(shop)
	r.Policies = append([]logical.RouterPolicy{reroutePolicy(32001, "ip4.sorc == 10.0.0.2", "")}, r.Policies...)
	p := traceOnePath(t, s, queryFromClient(internet, floatingIP+":80"))
	assertVerdict(t, p, Delivered, "")
	if len(p.Caveats) != 1 || !strings.Contains(p.Caveats[0], "can't be evaluated") {
		t.Errorf("doubts %v", p.Caveats)
	}
}

func TestPortSecurity(t *testing.T) {
	s := shopSurvey()
	s.Logical.Switch(pods).Ports[2].Security = []string{mac("db") + " 10.0.0.4"}
	assertVerdict(t, traceOnePath(t, s, queryFromPod("db", internet+":443")), Delivered, "")
	s.Logical.Switch(pods).Ports[2].Security = []string{mac("db") + " 10.0.0.5"}
	assertVerdict(t, traceOnePath(t, s, queryFromPod("db", internet+":443")), Dropped, PortSecurityDrops)
	s.Logical.Switch(pods).Ports[2].Security = []string{" ", mac("db") + " 10.0.0.4"} // a blank entry allows nothing
	assertVerdict(t, traceOnePath(t, s, queryFromPod("db", internet+":443")), Delivered, "")
}

// Every path that fails gives a finding with a remedy.
func TestFindings(t *testing.T) {
	p := traceOnePath(t, shopSurvey(), queryFromClient(internet, loadBalancerIP+":81"))
	f, bad := p.Finding()
	if !bad || f.Code != NoSuchPort || f.Remediation == "" || f.Message != p.Reason || f.Severity != diagnosis.Error {
		t.Errorf("%+v", f)
	}
	if _, bad := traceOnePath(t, shopSurvey(), queryFromClient(internet, floatingIP+":80")).Finding(); bad {
		t.Error("an answer is a finding")
	}
}

// FuzzTrace: any query about any rows ends with a verdict and a reason.
func FuzzTrace(f *testing.F) {
	f.Add("203.0.113.10:5", "198.51.100.20:80", "tcp", "ip4.src == 10.0.0.2", uint8(0))
	f.Add("10.0.0.2:5", "100.65.0.30:80", "udp", "1", uint8(77))
	f.Fuzz(func(t *testing.T, client, server, protocol, text string, change uint8) {
		q := Query{Protocol: protocol}
		q.Client, _ = netip.ParseAddrPort(client)
		if q.Server, _ = netip.ParseAddrPort(server); change%3 == 0 {
			q.Pod = shop + "/web"
		}
		s := shopSurvey()
		r := s.Logical.Router(shop)
		r.Policies[int(change)%len(r.Policies)].Match = text
		r.Ports[int(change)%len(r.Ports)].Networks = nil
		s.Logical.Groups[0].ACLs[int(change)%4].Match = text
		s.Logical.Switches[int(change)%3].Ports[0].MAC = text
		for _, p := range New(s).Trace(q).Paths {
			if p.Verdict == "" || p.Verdict != Delivered && (p.Code == "" || p.Reason == "") {
				t.Errorf("%+v ends without a word: %+v", q, p)
			}
		}
	})
}
