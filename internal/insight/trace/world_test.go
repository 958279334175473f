package trace

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/logical"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/state"
)

// The project acme-shop has three pods on 10.0.0.0/24. web has a floating IP on the secondary network ext-public. web
// and api are backends of a load balancer on the default network ext-cloud. node3 holds the gateway ports; web and api
// are on other nodes.
const (
	shop           = "acme-shop"
	pods           = "acme-shop-default"
	floatingIP     = "198.51.100.20"
	loadBalancerIP = "100.65.0.30"
	defaultSNAT    = "100.65.0.5"
	publicRouterIP = "198.51.100.5"
	internet       = "203.0.113.10"
	neighbour      = "198.51.100.77"
)

func addr(text string) netip.Addr         { return netip.MustParseAddr(text) }
func prefix(text string) netip.Prefix     { return netip.MustParsePrefix(text) }
func addrPort(text string) netip.AddrPort { return netip.MustParseAddrPort(text) }

func object(kind, namespace, name string) clusterstate.Object {
	return clusterstate.Object{Ref: state.Ref{Kind: kind, Namespace: namespace, Name: name}}
}

func ownerIDs(kind, namespace, name string) logical.ExternalIDs {
	return logical.ExternalIDs{ownership.RowOwnerKey: kind + "/" + namespace + "/" + name}
}

// shopSurvey returns the survey of that project.
func shopSurvey() *clusterstate.State {
	s := &clusterstate.State{Cluster: shopCluster()}
	s.Logical = logical.Network{
		Routers:  []logical.Router{shopRouter()},
		Switches: []logical.Switch{podSwitch(), externalSwitch("ext-cloud", shop), externalSwitch("ext-public", shop)},
		Sets:     map[string][]string{ownership.ReturnTargetSet(pods, "ext-public"): nil},
		Static: []logical.MACBinding{{
			Port:    hairpinPortName(),
			Address: addr("169.254.91.2"),
			MAC:     mac(returnPortName()),
		}, {Port: shop + "-onlink", Address: addr("169.254.90.2"), MAC: mac(shop + "-onlink")}},
		Chassis: []logical.Chassis{
			{Name: "c1", Host: "node1"},
			{Name: "c2", Host: "node2"},
			{Name: "c3", Host: "node3"},
		},
		Groups: []logical.PortGroup{returnPortGroup()},
	}
	return s
}

func shopCluster() clusterstate.Cluster {
	out := clusterstate.Cluster{
		Projects: []clusterstate.Project{{
			Object:  object("Project", "acme", "shop"),
			Shard:   shop,
			Network: "ext-cloud",
			Address: addr(defaultSNAT),
		}},
		FIps: []clusterstate.FIp{{
			Object:   object("FIp", shop, "front"),
			External: addr(floatingIP),
			Target:   addr("10.0.0.2"),
		}},
		Services: []clusterstate.Service{{
			Object:  object("Service", shop, "web"),
			Ingress: []netip.Addr{addr(loadBalancerIP)},
		}},
		Subnets: []clusterstate.Subnet{
			{
				Object:   object("Subnet", "", pods),
				Vpc:      shop,
				Prefixes: []netip.Prefix{prefix("10.0.0.0/24")},
				Gateways: []netip.Addr{addr("10.0.0.1")},
			},
			{
				Object:   object("Subnet", "", "ext-cloud"),
				Prefixes: []netip.Prefix{prefix("100.65.0.0/16")},
				Gateways: []netip.Addr{addr("100.65.0.1")},
			},
			{
				Object:   object("Subnet", "", "ext-public"),
				Prefixes: []netip.Prefix{prefix("198.51.100.0/24")},
				Gateways: []netip.Addr{addr("198.51.100.1")},
			},
		},
		Networks: []clusterstate.Network{
			{Object: object("ExternalNetwork", "", "cloud"), Subnets: []string{"ext-cloud"}},
			{Object: object("ExternalNetwork", "", "public"), Subnets: []string{"ext-public"}},
		},
	}
	for _, name := range []string{"web", "api", "db"} {
		out.Pods = append(out.Pods, clusterstate.Pod{Object: object("Pod", shop, name)})
	}
	for _, name := range []string{"node1", "node2", "node3"} {
		out.Nodes = append(out.Nodes, clusterstate.Node{Object: object("Node", "", name), Ready: true})
	}
	return out
}

func mac(name string) string { return intent.DeriveMAC(name) }

func newRouterPort(name, network string) logical.RouterPort {
	return logical.RouterPort{Name: name, MAC: mac(name), Networks: []netip.Prefix{prefix(network)}}
}

func newGatewayPort(name, network string) logical.RouterPort {
	p := newRouterPort(name, network)
	p.Chassis, p.Holder = []string{"c3", "c2"}, "c3"
	return p
}

func returnPortName() string  { return ownership.ReturnRouterPort(shop, pods, "ext-public") }
func hairpinPortName() string { return ownership.HairpinRouterPort(shop, pods) }
func subnetPortName() string  { return shop + "-" + pods }

// shopRouter returns the router with the rows of Kube-OVN and of Sallyport.
func shopRouter() logical.Router {
	returnPort := newRouterPort(returnPortName(), "10.0.0.254/23")
	hairpin := newRouterPort(hairpinPortName(), "169.254.91.1/24")
	returnPort.IDs, hairpin.IDs = ownerIDs(returnPath, shop, "ext-public"), ownerIDs(returnPath, shop, "turn")
	public := newGatewayPort(shop+"-ext-public", publicRouterIP+"/24")
	onlink := newRouterPort(shop+"-onlink", "169.254.90.1/30")
	onlink.Peer, onlink.Options = onlink.Name, map[string]string{"route_table": "onlink"}
	returnPort.Options, public.Options = map[string]string{"route_table": "return-ext-public"},
		map[string]string{"route_table": "return-ext-public"}
	own := logical.ExternalIDs{"vendor": "kube-ovn"}
	mark := ownership.NetworkMark("ext-public")
	return logical.Router{
		Name: shop,
		Ports: []logical.RouterPort{
			newRouterPort(subnetPortName(), "10.0.0.1/24"), returnPort, hairpin, onlink,
			newGatewayPort(shop+"-ext-cloud", defaultSNAT+"/16"), public,
		},
		Routes: []logical.StaticRoute{
			{Prefix: prefix("10.0.0.0/24"), BySource: true, NextHop: addr("10.0.0.1")},
			{Prefix: prefix("0.0.0.0/0"), NextHop: addr("100.65.0.1")},
			{Table: "return-ext-public", Prefix: prefix("10.0.0.0/25"), Output: returnPortName()},
			{Table: "return-ext-public", Prefix: prefix("10.0.0.128/25"), Output: returnPortName()},
			{
				Table:   "return-ext-public",
				Prefix:  prefix("0.0.0.0/0"),
				NextHop: addr("198.51.100.1"),
				Output:  shop + "-ext-public",
			},
		},
		Policies: []logical.RouterPolicy{
			reroutePolicy(ownership.ReturnForged, fmt.Sprintf("pkt.mark == %d", ownership.ForgedMark), ""),
			{Priority: 31000, Match: "ip4.dst == 10.0.0.0/24", Action: "allow", IDs: own},
			reroutePolicy(ownership.ReturnLeave,
				fmt.Sprintf("inport == %q && ip4.dst != 198.51.100.0/24", returnPortName()), "198.51.100.1"),
			reroutePolicy(ownership.ReturnReply, fmt.Sprintf("inport == %q && pkt.mark == %d", subnetPortName(), mark),
				"169.254.91.2"),
			reroutePolicy(ownership.DefaultEgressOnLink,
				fmt.Sprintf("inport == %q && ip4.dst == 100.65.0.0/16", subnetPortName()), "169.254.90.2"),
			reroutePolicy(ownership.DefaultEgress, fmt.Sprintf(
				"inport == %q && ip4.src == 10.0.0.0/24 && ip4.dst != 10.0.0.0/24", subnetPortName()), "100.65.0.1"),
		},
		NATs: []logical.NAT{
			{Type: "dnat_and_snat", External: addr(floatingIP), Logical: prefix("10.0.0.2/32")},
			{Type: "snat", External: addr(defaultSNAT), Logical: prefix("10.0.0.0/24")},
		},
		Balancers: []logical.LoadBalancer{webBalancer()},
	}
}

func webBalancer() logical.LoadBalancer {
	return logical.LoadBalancer{
		Name: "acme-shop-web-tcp", Protocol: "tcp", IDs: ownerIDs("Service", shop, "web"),
		Options: map[string]string{"reject": "true"},
		VIPs: []logical.VIP{{
			Address:  addrPort(loadBalancerIP + ":80"),
			Backends: []netip.AddrPort{addrPort("10.0.0.2:8080"), addrPort("10.0.0.3:8080")},
		}},
	}
}

// reroutePolicy returns a policy with a next hop; without one it drops.
func reroutePolicy(priority int, match, hop string) logical.RouterPolicy {
	out := logical.RouterPolicy{Priority: priority, Match: match, Action: "drop"}
	if hop != "" {
		out.Action, out.NextHops = "reroute", []netip.Addr{addr(hop)}
	}
	return out
}

// podSwitch returns the switch of the pods, with the QoS rows of the return path.
func podSwitch() logical.Switch {
	mark := ownership.NetworkMark("ext-public")
	ids := ownerIDs(returnPath, shop, "ext-public")
	quality := func(priority int, match string, mark int) logical.QoS {
		return logical.QoS{
			Priority: priority, Direction: fromLport, Match: match, Action: map[string]int{"mark": mark}, IDs: ids,
		}
	}
	return logical.Switch{
		Name: pods,
		Ports: []logical.SwitchPort{
			vif("web", "10.0.0.2", "c1"), vif("api", "10.0.0.3", "c2"), vif("db", "10.0.0.4", "c3"),
			routerSwitchPort(pods+"-"+shop, subnetPortName()),
			routerSwitchPort(ownership.ReturnSwitchPort(shop, pods, "ext-public"), returnPortName()),
			routerSwitchPort(ownership.HairpinSwitchPort(shop, pods), hairpinPortName()),
		},
		QoS: []logical.QoS{
			quality(120, fmt.Sprintf("inport == %q && pkt.mark == %d", ownership.HairpinSwitchPort(shop, pods), mark),
				0),
			quality(110, "eth.dst == "+mac(returnPortName()), ownership.ForgedMark),
			quality(110, "eth.dst == "+mac(hairpinPortName()), ownership.ForgedMark),
			quality(100, fmt.Sprintf("ct.trk && ct_label.label == %d", mark), mark),
			quality(90, fmt.Sprintf("pkt.mark == %d", mark), 0),
		},
		Balancers: []logical.LoadBalancer{webBalancer()},
	}
}

func vif(name, address, chassis string) logical.SwitchPort {
	return logical.SwitchPort{
		Name: name + "." + shop, MAC: mac(name), Addresses: []netip.Addr{addr(address)}, Up: true, Chassis: chassis,
	}
}

func routerSwitchPort(name, port string) logical.SwitchPort {
	return logical.SwitchPort{Name: name, Type: "router", Router: port}
}

// externalSwitch returns the switch of an external network that some routers are connected to.
func externalSwitch(name string, routers ...string) logical.Switch {
	out := logical.Switch{Name: name, Ports: []logical.SwitchPort{{
		Name:     "localnet." + name,
		Type:     "localnet",
		Localnet: name,
		Unknown:  true,
	}}}
	for _, r := range routers {
		out.Ports = append(out.Ports, routerSwitchPort(name+"-"+r, r+"-"+name))
	}
	return out
}

func returnPortGroup() logical.PortGroup {
	mark := ownership.NetworkMark("ext-public")
	rule := func(tier, priority int, inport, action string, label int) logical.ACL {
		return logical.ACL{
			Tier: tier, Priority: priority, Direction: toLport, Match: fmt.Sprintf("inport == %q && ip", inport),
			Action: action, Label: label,
			IDs: ownerIDs(returnPath, shop, "ext-public"),
		}
	}
	returnPort, usual := ownership.ReturnSwitchPort(shop, pods, "ext-public"), pods+"-"+shop
	return logical.PortGroup{
		Name: ownership.ReturnPortGroup(pods, "ext-public"), Ports: []string{returnPort},
		IDs: ownerIDs(returnPath, shop, "ext-public"),
		ACLs: []logical.ACL{
			rule(1, 100, returnPort, "pass", mark), rule(3, 0, returnPort, "allow-related", mark),
			rule(1, 100, usual, "pass", ownership.DefaultNetworkLabel),
			rule(3, 0, usual, "allow-related", ownership.DefaultNetworkLabel),
		},
	}
}

// addNetworkPolicy adds the rows of Kube-OVN for a NetworkPolicy that allows some clients on one port of web.
func addNetworkPolicy(s *clusterstate.State, clients string) {
	ids := logical.ExternalIDs{"np": shop + "/guard", "vendor": "kube-ovn"}
	s.Logical.Groups = append(s.Logical.Groups, logical.PortGroup{
		Name: "guard.acme.shop", Ports: []string{"web." + shop}, IDs: ids,
		ACLs: []logical.ACL{
			{
				Tier:      2,
				Priority:  2001,
				Direction: toLport,
				Action:    "allow-related",
				Match:     "outport == @guard.acme.shop && ip && (ip4.src == " + clients + ") && tcp.dst == 80",
			},
			{Tier: 2, Priority: 2000, Direction: toLport, Action: "drop", Match: "outport == @guard.acme.shop && ip"},
		},
	})
}

// addEgressIP gives pod db an EgressIP on ext-public: its address is on a router of its own, which is linked to the
// project's router.
func addEgressIP(s *clusterstate.State) *logical.Router {
	s.Logical.Sets["chosen"] = []string{"10.0.0.4"}
	return addEgressIPOn(s, shop, ownership.EgressIPSelected, "ip4.src == $chosen && ip4.dst != 10.0.0.0/24")
}

// addEgressIPOn adds an EgressIP for packets that a router receives.
func addEgressIPOn(s *clusterstate.State, router string, priority int, match string) *logical.Router {
	s.Cluster.EgressIPs = []clusterstate.EgressIP{{
		Object:    object("EgressIP", "", "fixed"),
		Addresses: []string{"198.51.100.200"},
	}}
	r := s.Logical.Router(router)
	end, link := newGatewayPort("shop-end", "240.0.0.2/30"), newRouterPort("egress-link", "240.0.0.1/30")
	end.Peer, link.Peer, link.Options = link.Name, end.Name, map[string]string{"route_table": "out"}
	r.Ports = append(r.Ports, end)
	ids := ownerIDs("EgressIP", "", "fixed")
	r.NATs = append(r.NATs, logical.NAT{
		Type: "snat", External: addr("240.0.0.2"), Logical: prefix("0.0.0.0/0"), Port: "shop-end", IDs: ids,
	})
	leads := reroutePolicy(priority, match, "240.0.0.1")
	leads.IDs = ids
	r.Policies = slices.Insert(r.Policies, len(r.Policies)-2, leads)
	s.Logical.Routers = append(s.Logical.Routers, logical.Router{
		Name: "egress", Ports: []logical.RouterPort{newGatewayPort("egress-ext-public", "198.51.100.200/24"), link},
		NATs: []logical.NAT{{
			Type:     "snat",
			External: addr("198.51.100.200"),
			Logical:  prefix("240.0.0.0/4"),
			IDs:      ids,
		}},
		Routes: []logical.StaticRoute{{
			Table:   "out",
			Prefix:  prefix("0.0.0.0/0"),
			NextHop: addr("198.51.100.1"),
			Output:  "egress-ext-public",
		}},
	})
	w := s.Logical.Switch("ext-public")
	w.Ports = append(w.Ports, routerSwitchPort("ext-public-egress", "egress-ext-public"))
	return s.Logical.Router(router)
}

// queryFromClient returns a query for a TCP connection from a client outside.
func queryFromClient(client, server string) Query {
	return Query{Client: netip.AddrPortFrom(addr(client), 0), Server: addrPort(server), Protocol: "tcp"}
}

func queryFromPod(name, server string) Query {
	return Query{Pod: shop + "/" + name, Server: addrPort(server), Protocol: "tcp"}
}

// traceOnePath returns the only path of a trace.
func traceOnePath(t *testing.T, s *clusterstate.State, q Query) Path {
	t.Helper()
	all := New(s).Trace(q).Paths
	if len(all) != 1 {
		t.Fatalf("%d paths, wanted one: %+v", len(all), all)
	}
	return all[0]
}

// assertVerdict fails the test unless a path has the verdict and code.
func assertVerdict(t *testing.T, p Path, verdict, code string) {
	t.Helper()
	if p.Verdict != verdict || p.Code != code {
		t.Errorf("%s %s: %s; wanted %s %s\n%s", p.Verdict, p.Code, p.Reason, verdict, code, formatPath(p))
	}
}

func formatPath(p Path) string {
	var out strings.Builder
	for _, h := range p.RequestHops {
		fmt.Fprintf(&out, "  > %s: %s   %s\n", h.About, h.Text, h.Packet)
	}
	for _, h := range p.ReplyHops {
		fmt.Fprintf(&out, "  < %s: %s   %s\n", h.About, h.Text, h.Packet)
	}
	return out.String()
}

// assertHops fails the test unless the hops are about these objects, in this order.
func assertHops(t *testing.T, hops []Hop, names ...string) {
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

func isAbout(p Path, name string) bool {
	return slices.ContainsFunc(p.About, func(r state.Ref) bool { return r.String() == name })
}
