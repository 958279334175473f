package trace

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/logical"
	"github.com/sallyport/sallyport/internal/ownership"
	"github.com/sallyport/sallyport/internal/state"
	"github.com/sallyport/sallyport/internal/survey"
)

// The project acme-shop: three pods on 10.0.0.0/24, of which web has a floating IP on the secondary network ext-public, and web and api are
// behind a load balancer on the default network ext-cloud. Gateways are on node3, pods elsewhere.
const (
	shop      = "acme-shop"
	pods      = "acme-shop-default"
	floating  = "198.51.100.20"
	balanced  = "100.65.0.30"
	wayOut    = "100.65.0.5"
	onPublic  = "198.51.100.5"
	internet  = "203.0.113.10"
	neighbour = "198.51.100.77"
)

func addr(text string) netip.Addr         { return netip.MustParseAddr(text) }
func prefix(text string) netip.Prefix     { return netip.MustParsePrefix(text) }
func socketOf(text string) netip.AddrPort { return netip.MustParseAddrPort(text) }

func object(kind, namespace, name string) survey.Object {
	return survey.Object{Ref: state.Ref{Kind: kind, Namespace: namespace, Name: name}}
}

func owned(kind, namespace, name string) logical.IDs {
	return logical.IDs{ownership.RowOwnerKey: kind + "/" + namespace + "/" + name}
}

// world is the survey of that project.
func world() *survey.Survey {
	s := &survey.Survey{Cluster: objects()}
	s.Logical = logical.Network{
		Routers:  []logical.Router{shopRouter()},
		Switches: []logical.Switch{podSwitch(), wire("ext-cloud", shop), wire("ext-public", shop)},
		Sets:     map[string][]string{ownership.LegTargets(pods, "ext-public"): nil},
		Static:   []logical.Neighbour{{Port: turnPort(), Address: addr("169.254.91.2"), MAC: mac(legPort())}, {Port: shop + "-onlink", Address: addr("169.254.90.2"), MAC: mac(shop + "-onlink")}},
		Chassis:  []logical.Chassis{{Name: "c1", Host: "node1"}, {Name: "c2", Host: "node2"}, {Name: "c3", Host: "node3"}},
		Groups:   []logical.Group{legGroup()},
	}
	return s
}

func objects() survey.Cluster {
	out := survey.Cluster{
		Projects: []survey.Project{{Object: object("Project", "acme", "shop"), Shard: shop, Network: "ext-cloud", Address: addr(wayOut)}},
		FIps:     []survey.FIp{{Object: object("FIp", shop, "front"), External: addr(floating), Target: addr("10.0.0.2")}},
		Services: []survey.Service{{Object: object("Service", shop, "web"), Ingress: []netip.Addr{addr(balanced)}}},
		Subnets: []survey.Subnet{
			{Object: object("Subnet", "", pods), Vpc: shop, Prefixes: []netip.Prefix{prefix("10.0.0.0/24")}, Gateways: []netip.Addr{addr("10.0.0.1")}},
			{Object: object("Subnet", "", "ext-cloud"), Prefixes: []netip.Prefix{prefix("100.65.0.0/16")}, Gateways: []netip.Addr{addr("100.65.0.1")}},
			{Object: object("Subnet", "", "ext-public"), Prefixes: []netip.Prefix{prefix("198.51.100.0/24")}, Gateways: []netip.Addr{addr("198.51.100.1")}},
		},
		Networks: []survey.Network{
			{Object: object("ExternalNetwork", "", "cloud"), Subnets: []string{"ext-cloud"}},
			{Object: object("ExternalNetwork", "", "public"), Subnets: []string{"ext-public"}},
		},
	}
	for _, name := range []string{"web", "api", "db"} {
		out.Pods = append(out.Pods, survey.Pod{Object: object("Pod", shop, name)})
	}
	for _, name := range []string{"node1", "node2", "node3"} {
		out.Nodes = append(out.Nodes, survey.Node{Object: object("Node", "", name), Ready: true})
	}
	return out
}

func mac(name string) string { return intent.MAC(name) }

func routerPort(name, network string) logical.RouterPort {
	return logical.RouterPort{Name: name, MAC: mac(name), Networks: []netip.Prefix{prefix(network)}}
}

func heldPort(name, network string) logical.RouterPort {
	p := routerPort(name, network)
	p.Chassis, p.Holder = []string{"c3", "c2"}, "c3"
	return p
}

func legPort() string  { return ownership.LegRouterPort(shop, pods, "ext-public") }
func turnPort() string { return ownership.TurnRouterPort(shop, pods) }
func inport() string   { return shop + "-" + pods }

// shopRouter has what Kube-OVN writes for the VPC, and what we do.
func shopRouter() logical.Router {
	leg, turn := routerPort(legPort(), "10.0.0.254/23"), routerPort(turnPort(), "169.254.91.1/24")
	leg.IDs, turn.IDs = owned(returnPath, shop, "ext-public"), owned(returnPath, shop, "turn")
	public := heldPort(shop+"-ext-public", onPublic+"/24")
	onlink := routerPort(shop+"-onlink", "169.254.90.1/30")
	onlink.Peer, onlink.Options = onlink.Name, map[string]string{"route_table": "onlink"}
	leg.Options, public.Options = map[string]string{"route_table": "return-ext-public"}, map[string]string{"route_table": "return-ext-public"}
	own := logical.IDs{"vendor": "kube-ovn"}
	mark := ownership.Mark("ext-public")
	return logical.Router{
		Name:  shop,
		Ports: []logical.RouterPort{routerPort(inport(), "10.0.0.1/24"), leg, turn, onlink, heldPort(shop+"-ext-cloud", wayOut+"/16"), public},
		Routes: []logical.Route{
			{Prefix: prefix("10.0.0.0/24"), BySource: true, NextHop: addr("10.0.0.1")},
			{Prefix: prefix("0.0.0.0/0"), NextHop: addr("100.65.0.1")},
			{Table: "return-ext-public", Prefix: prefix("10.0.0.0/25"), Output: legPort()},
			{Table: "return-ext-public", Prefix: prefix("10.0.0.128/25"), Output: legPort()},
			{Table: "return-ext-public", Prefix: prefix("0.0.0.0/0"), NextHop: addr("198.51.100.1"), Output: shop + "-ext-public"},
		},
		Policies: []logical.Policy{
			reroute(ownership.ReturnForged, fmt.Sprintf("pkt.mark == %d", ownership.MarkForged), ""),
			{Priority: 31000, Match: "ip4.dst == 10.0.0.0/24", Action: "allow", IDs: own},
			reroute(ownership.ReturnLeave, fmt.Sprintf("inport == %q && ip4.dst != 198.51.100.0/24", legPort()), "198.51.100.1"),
			reroute(ownership.ReturnReply, fmt.Sprintf("inport == %q && pkt.mark == %d", inport(), mark), "169.254.91.2"),
			reroute(ownership.WayOutOnLink, fmt.Sprintf("inport == %q && ip4.dst == 100.65.0.0/16", inport()), "169.254.90.2"),
			reroute(ownership.WayOut, fmt.Sprintf("inport == %q && ip4.src == 10.0.0.0/24 && ip4.dst != 10.0.0.0/24", inport()), "100.65.0.1"),
		},
		NATs: []logical.NAT{
			{Type: "dnat_and_snat", External: addr(floating), Logical: prefix("10.0.0.2/32")},
			{Type: "snat", External: addr(wayOut), Logical: prefix("10.0.0.0/24")},
		},
		Balancers: []logical.Balancer{webBalancer()},
	}
}

func webBalancer() logical.Balancer {
	return logical.Balancer{
		Name: "acme-shop-web-tcp", Protocol: "tcp", IDs: owned("Service", shop, "web"), Options: map[string]string{"reject": "true"},
		VIPs: []logical.VIP{{Address: socketOf(balanced + ":80"), Backends: []netip.AddrPort{socketOf("10.0.0.2:8080"), socketOf("10.0.0.3:8080")}}},
	}
}

// reroute is a policy; one without a next hop drops.
func reroute(priority int, match, hop string) logical.Policy {
	out := logical.Policy{Priority: priority, Match: match, Action: "drop"}
	if hop != "" {
		out.Action, out.NextHops = "reroute", []netip.Addr{addr(hop)}
	}
	return out
}

// podSwitch is where the pods are, with the markings of the leg.
func podSwitch() logical.Switch {
	mark := ownership.Mark("ext-public")
	ids := owned(returnPath, shop, "ext-public")
	quality := func(priority int, match string, mark int) logical.QoS {
		return logical.QoS{Priority: priority, Direction: intoSwitch, Match: match, Action: map[string]int{"mark": mark}, IDs: ids}
	}
	return logical.Switch{
		Name: pods,
		Ports: []logical.SwitchPort{
			vif("web", "10.0.0.2", "c1"), vif("api", "10.0.0.3", "c2"), vif("db", "10.0.0.4", "c3"),
			toRouter(pods+"-"+shop, inport()), toRouter(ownership.LegSwitchPort(shop, pods, "ext-public"), legPort()),
			toRouter(ownership.TurnSwitchPort(shop, pods), turnPort()),
		},
		QoS: []logical.QoS{
			quality(120, fmt.Sprintf("inport == %q && pkt.mark == %d", ownership.TurnSwitchPort(shop, pods), mark), 0),
			quality(110, "eth.dst == "+mac(legPort()), ownership.MarkForged),
			quality(110, "eth.dst == "+mac(turnPort()), ownership.MarkForged),
			quality(100, fmt.Sprintf("ct.trk && ct_label.label == %d", mark), mark),
			quality(90, fmt.Sprintf("pkt.mark == %d", mark), 0),
		},
		Balancers: []logical.Balancer{webBalancer()},
	}
}

func vif(name, address, chassis string) logical.SwitchPort {
	return logical.SwitchPort{Name: name + "." + shop, MAC: mac(name), Addresses: []netip.Addr{addr(address)}, Up: true, Chassis: chassis}
}

func toRouter(name, port string) logical.SwitchPort {
	return logical.SwitchPort{Name: name, Type: "router", Router: port}
}

// wire is the switch of an external network, with routers on it.
func wire(name string, routers ...string) logical.Switch {
	out := logical.Switch{Name: name, Ports: []logical.SwitchPort{{Name: "localnet." + name, Type: "localnet", Localnet: name, Unknown: true}}}
	for _, r := range routers {
		out.Ports = append(out.Ports, toRouter(name+"-"+r, r+"-"+name))
	}
	return out
}

func legGroup() logical.Group {
	mark := ownership.Mark("ext-public")
	rule := func(tier, priority int, door, action string, label int) logical.ACL {
		return logical.ACL{
			Tier: tier, Priority: priority, Direction: outOfSwitch, Match: fmt.Sprintf("inport == %q && ip", door), Action: action, Label: label,
			IDs: owned(returnPath, shop, "ext-public"),
		}
	}
	leg, usual := ownership.LegSwitchPort(shop, pods, "ext-public"), pods+"-"+shop
	return logical.Group{
		Name: ownership.LegGroup(pods, "ext-public"), Ports: []string{leg}, IDs: owned(returnPath, shop, "ext-public"),
		ACLs: []logical.ACL{
			rule(1, 100, leg, "pass", mark), rule(3, 0, leg, "allow-related", mark),
			rule(1, 100, usual, "pass", ownership.LabelDefault), rule(3, 0, usual, "allow-related", ownership.LabelDefault),
		},
	}
}

// guard adds the rules that Kube-OVN makes of a NetworkPolicy that lets only some clients to a port of db.
func guard(s *survey.Survey, clients string) {
	ids := logical.IDs{"np": shop + "/guard", "vendor": "kube-ovn"}
	s.Logical.Groups = append(s.Logical.Groups, logical.Group{
		Name: "guard.acme.shop", Ports: []string{"web." + shop}, IDs: ids,
		ACLs: []logical.ACL{
			{Tier: 2, Priority: 2001, Direction: outOfSwitch, Action: "allow-related", Match: "outport == @guard.acme.shop && ip && (ip4.src == " + clients + ") && tcp.dst == 80"},
			{Tier: 2, Priority: 2000, Direction: outOfSwitch, Action: "drop", Match: "outport == @guard.acme.shop && ip"},
		},
	})
}

// mailed lets pod db leave with an EgressIP on ext-public: a router of its own has the address, and a link to the project's.
func mailed(s *survey.Survey) *logical.Router {
	s.Cluster.EgressIPs = []survey.EgressIP{{Object: object("EgressIP", "", "fixed"), Addresses: []string{"198.51.100.200"}}}
	s.Logical.Sets["chosen"] = []string{"10.0.0.4"}
	r := s.Logical.Router(shop)
	end, link := heldPort("shop-end", "240.0.0.2/30"), routerPort("egress-link", "240.0.0.1/30")
	end.Peer, link.Peer, link.Options = link.Name, end.Name, map[string]string{"route_table": "out"}
	r.Ports = append(r.Ports, end)
	ids := owned("EgressIP", "", "fixed")
	r.NATs = append(r.NATs, logical.NAT{Type: "snat", External: addr("240.0.0.2"), Logical: prefix("0.0.0.0/0"), Port: "shop-end", IDs: ids})
	leads := reroute(ownership.EgressOut, "ip4.src == $chosen && ip4.dst != 10.0.0.0/24", "240.0.0.1")
	leads.IDs = ids
	r.Policies = slices.Insert(r.Policies, len(r.Policies)-2, leads)
	s.Logical.Routers = append(s.Logical.Routers, logical.Router{
		Name: "egress", Ports: []logical.RouterPort{heldPort("egress-ext-public", "198.51.100.200/24"), link},
		NATs:   []logical.NAT{{Type: "snat", External: addr("198.51.100.200"), Logical: prefix("240.0.0.0/4"), IDs: ids}},
		Routes: []logical.Route{{Table: "out", Prefix: prefix("0.0.0.0/0"), NextHop: addr("198.51.100.1"), Output: "egress-ext-public"}},
	})
	w := s.Logical.Switch("ext-public")
	w.Ports = append(w.Ports, toRouter("ext-public-egress", "egress-ext-public"))
	return s.Logical.Router(shop)
}

// from asks about a TCP connection of a client outside; pod about one of a pod.
func from(client, server string) Query {
	return Query{Client: netip.AddrPortFrom(addr(client), 0), Server: socketOf(server), Protocol: "tcp"}
}

func pod(name, server string) Query {
	return Query{Pod: shop + "/" + name, Server: socketOf(server), Protocol: "tcp"}
}

// one is the only path of a trace.
func one(t *testing.T, s *survey.Survey, q Query) Path {
	t.Helper()
	all := New(s).Trace(q).Paths
	if len(all) != 1 {
		t.Fatalf("%d paths, wanted one: %+v", len(all), all)
	}
	return all[0]
}

// ends fails the test unless a path ends as it should.
func endsAs(t *testing.T, p Path, verdict, code string) {
	t.Helper()
	if p.Verdict != verdict || p.Code != code {
		t.Errorf("%s %s: %s; wanted %s %s\n%s", p.Verdict, p.Code, p.Reason, verdict, code, draw(p))
	}
}

// draw is a path as text.
func draw(p Path) string {
	var out strings.Builder
	for _, h := range p.There {
		fmt.Fprintf(&out, "  > %s: %s   %s\n", h.About, h.Text, h.Packet)
	}
	for _, h := range p.Back {
		fmt.Fprintf(&out, "  < %s: %s   %s\n", h.About, h.Text, h.Packet)
	}
	return out.String()
}

// passes fails the test unless the hops touch the objects, in this order.
func passes(t *testing.T, hops []Hop, names ...string) {
	t.Helper()
	rest := names
	for _, h := range hops {
		if len(rest) > 0 && h.About.String() == rest[0] {
			rest = rest[1:]
		}
	}
	if len(rest) > 0 {
		t.Errorf("%s is not on the way, or not in this order: %s", rest[0], strings.Join(names, ", "))
		for _, h := range hops {
			t.Logf("  %s: %s   %s", h.About, h.Text, h.Packet)
		}
	}
}

func about(p Path, name string) bool {
	return slices.ContainsFunc(p.About, func(r state.Ref) bool { return r.String() == name })
}
