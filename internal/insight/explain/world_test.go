package explain_test

import (
	"net/netip"

	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/logical"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/state"
)

func addr(text string) netip.Addr         { return netip.MustParseAddr(text) }
func prefix(text string) netip.Prefix     { return netip.MustParsePrefix(text) }
func port(text string) netip.AddrPort     { return netip.MustParseAddrPort(text) }
func ref(kind, ns, name string) state.Ref { return state.Ref{Kind: kind, Namespace: ns, Name: name} }

// healthyObject returns an object without problems.
func healthyObject(kind, ns, name string) clusterstate.Object {
	o := clusterstate.Object{Ref: ref(kind, ns, name)}
	for _, c := range []string{"Accepted", "Programmed", "ResolvedRefs"} {
		o.Conditions = append(o.Conditions, clusterstate.Condition{Type: c, Status: "True", Reason: c})
	}
	return o
}

func plainObject(kind, ns, name string) clusterstate.Object {
	return clusterstate.Object{Ref: ref(kind, ns, name)}
}

// Objects of healthySurvey.
var (
	project           = ref("Project", "acme", "prod")
	defaultGatewayEIP = ref("EIp", "acme-prod", "default-gw")
	frontEIP          = ref("EIp", "acme-prod", "front")
	fipEIP            = ref("EIp", "acme-prod", "fip-db-1")
	fip               = ref("FIp", "acme-prod", "db")
	web               = ref("Service", "acme-prod", "web")
	mail              = ref("Service", "acme-prod", "mail")
	egress            = ref("EgressIP", "", "out")
	partners          = ref("EgressRoute", "acme-prod", "partners")
	returnPath        = ref("ReturnPath", "acme-prod", "ext-public")
)

// healthySurvey returns a cluster without problems: two nodes, and one project with one object of each kind on two
// networks.
func healthySurvey() *clusterstate.State {
	return &clusterstate.State{Cluster: healthyCluster(), Logical: ovnNetwork(), Shards: []clusterstate.Shard{compiledShard()}}
}

func healthyCluster() clusterstate.Cluster {
	return clusterstate.Cluster{
		Networks: []clusterstate.Network{
			{Object: plainObject("Subnet", "", "ext-cloud"), Type: "cloud", Default: true, Subnets: []string{"ext-cloud"}},
			{Object: healthyObject("ExternalNetwork", "", "public"), Type: "public", Return: "Connection", Subnets: []string{"ext-public"}},
		},
		Subnets: []clusterstate.Subnet{
			{Object: plainObject("Subnet", "", "acme-prod-default"), Vpc: "acme-prod", Prefixes: []netip.Prefix{prefix("10.0.0.0/24")}, Gateways: []netip.Addr{addr("10.0.0.1")}},
			{Object: plainObject("Subnet", "", "ext-cloud"), Prefixes: []netip.Prefix{prefix("100.65.0.0/16")}, Gateways: []netip.Addr{addr("100.65.0.1")}, Network: "ext-cloud", Free: 65530, Used: 2},
			{Object: plainObject("Subnet", "", "ext-public"), Prefixes: []netip.Prefix{prefix("198.51.100.0/24")}, Gateways: []netip.Addr{addr("198.51.100.1")}, Network: "public", Tag: 12, Free: 248, Used: 5},
		},
		Projects: []clusterstate.Project{{Object: healthyObject("Project", "acme", "prod"), Shard: "acme-prod", Prefixes: []netip.Prefix{prefix("10.0.0.0/24")}, Network: "cloud", Address: addr("100.65.0.2")}},
		EIps: []clusterstate.EIp{
			{Object: healthyObject("EIp", "acme-prod", "default-gw"), Shard: "acme-prod", Address: addr("100.65.0.2"), Network: "ext-cloud", Subnet: "ext-cloud"},
			{Object: healthyObject("EIp", "acme-prod", "fip-db-1"), Shard: "acme-prod", Address: addr("198.51.100.8"), Network: "public", Subnet: "ext-public", Type: "public", MadeFor: fip},
			{Object: healthyObject("EIp", "acme-prod", "front"), Shard: "acme-prod", Address: addr("198.51.100.7"), Network: "public", Subnet: "ext-public", Requested: "198.51.100.7"},
		},
		FIps: []clusterstate.FIp{{Object: healthyObject("FIp", "acme-prod", "db"), Shard: "acme-prod", EIp: "fip-db-1", External: addr("198.51.100.8"), Target: addr("10.0.0.9"), Pod: "db-0"}},
		Services: []clusterstate.Service{
			service("mail", 25, clusterstate.Endpoint{Address: port("10.0.0.10:2525"), Ready: true, Pod: "web-0", Node: "node1"}),
			service("web", 80,
				clusterstate.Endpoint{Address: port("10.0.0.10:8080"), Ready: true, Pod: "web-0", Node: "node1"},
				clusterstate.Endpoint{Address: port("10.0.0.11:8080"), Pod: "web-1", Node: "node2"}),
		},
		EgressIPs: []clusterstate.EgressIP{{Object: healthyObject("EgressIP", "", "out"), Addresses: []string{"198.51.100.9"}, Held: map[string]string{"198.51.100.9": "node2"}, Selects: 3}},
		EgressRoutes: []clusterstate.EgressPolicy{{
			Object: healthyObject("EgressRoute", "acme-prod", "partners"), Shard: "acme-prod", Network: "ext-public",
			Destinations: []netip.Prefix{prefix("203.0.113.0/24")}, Sources: []netip.Addr{addr("198.51.100.2")},
		}},
		Pods: []clusterstate.Pod{
			{Object: plainObject("Pod", "acme-prod", "db-0"), Addresses: []netip.Addr{addr("10.0.0.9")}, Node: "node1", Ready: true, Subnet: "acme-prod-default"},
			{Object: plainObject("Pod", "acme-prod", "job-0"), Addresses: []netip.Addr{addr("10.0.0.12")}, Node: "node1", Ready: true, Subnet: "acme-prod-default"},
			{Object: plainObject("Pod", "acme-prod", "mail-0"), Addresses: []netip.Addr{addr("10.0.0.13")}, Node: "node1", Ready: true, Subnet: "acme-prod-default"},
			{Object: plainObject("Pod", "acme-prod", "web-0"), Addresses: []netip.Addr{addr("10.0.0.10")}, Node: "node1", Ready: true, Subnet: "acme-prod-default"},
			{Object: plainObject("Pod", "acme-prod", "web-1"), Addresses: []netip.Addr{addr("10.0.0.11")}, Node: "node2", Waiting: "CrashLoopBackOff", Subnet: "acme-prod-default"},
		},
		Nodes: []clusterstate.Node{
			{Object: plainObject("Node", "", "node1"), Chassis: "c1", Addresses: []netip.Addr{addr("192.168.1.1")}, Ready: true, Gateway: true},
			{Object: plainObject("Node", "", "node2"), Chassis: "c2", Addresses: []netip.Addr{addr("192.168.1.2")}, Ready: true, Gateway: true, Assignable: true},
		},
		OvnEips: []clusterstate.OvnEip{{Object: plainObject("OvnEip", "", "eip-acme-prod-front"), Subnet: "ext-public", Type: "nat", Address: addr("198.51.100.7"), Ready: true}},
	}
}

func service(name string, number int, endpoints ...clusterstate.Endpoint) clusterstate.Service {
	return clusterstate.Service{
		Object: healthyObject("Service", "acme-prod", name), Shard: "acme-prod", Type: "LoadBalancer", Ours: true, Ingress: []netip.Addr{addr("198.51.100.7")},
		Ports: []clusterstate.ServicePort{{Protocol: "TCP", Port: number, Target: name}}, Selector: map[string]string{"app": name},
		Annotations: map[string]string{"service.nlb.kube-dc.com/bind-on-eip": "front", "team": "x"}, Endpoints: endpoints,
	}
}

func ownedBy(r state.Ref) logical.ExternalIDs {
	return logical.ExternalIDs{"sallyport-owner": r.Kind + "/" + r.Namespace + "/" + r.Name}
}

// returnMatch stands for the return path: replies of pods with external addresses leave through network public.
const returnMatch = `inport == "acme-prod-acme-prod-default" && ip4.src == {10.0.0.9, 10.0.0.10}`

func ovnNetwork() logical.Network {
	public, cloud, all := addr("198.51.100.1"), addr("100.65.0.1"), prefix("0.0.0.0/0")
	routeSet, egressSet := ownership.EgressRoutePodSet("acme-prod", "partners"), ownership.EgressIPPodSet("acme-prod", "out")
	return logical.Network{
		Routers: []logical.Router{
			{
				Name: "acme-prod",
				Ports: []logical.RouterPort{
					routerPort("acme-prod-acme-prod-default", "10.0.0.1/24"),
					gatewayPort("acme-prod-ext-cloud", "100.65.0.2/16", "c1"),
					gatewayPort("acme-prod-ext-public", "198.51.100.2/24", "c2"),
					linkPort(gatewayPort("acme-prod-egress", "240.0.0.1/31", "c2"), "sallyport-egress-acme-prod"),
				},
				Routes: []logical.StaticRoute{{Prefix: all, NextHop: cloud}},
				NATs: []logical.NAT{
					{Type: "snat", External: addr("100.65.0.2"), Logical: prefix("10.0.0.0/24")},
					{Type: "snat", External: addr("198.51.100.2"), Logical: all, Port: "acme-prod-ext-public", Match: "ip4.src == $" + routeSet, IDs: ownedBy(partners)},
					{Type: "dnat_and_snat", External: addr("198.51.100.8"), Logical: prefix("10.0.0.9/32")},
					{Type: "snat", External: addr("240.0.0.1"), Logical: all, Port: "acme-prod-egress"},
				},
				Balancers: []logical.LoadBalancer{
					{Name: "acme-prod-mail-tcp", Protocol: "tcp", IDs: ownedBy(mail), VIPs: []logical.VIP{{Address: port("198.51.100.7:25"), Backends: []netip.AddrPort{port("10.0.0.10:2525")}}}},
					{Name: "acme-prod-web-tcp", Protocol: "tcp", IDs: ownedBy(web), VIPs: []logical.VIP{{Address: port("198.51.100.7:80"), Backends: []netip.AddrPort{port("10.0.0.10:8080")}}}},
				},
				Policies: []logical.RouterPolicy{
					{Priority: 30010, Match: returnMatch, Action: "reroute", NextHops: []netip.Addr{public}, IDs: ownedBy(returnPath)},
					{Priority: 3489, Match: "ip4.src == $" + routeSet + " && ip4.dst == 203.0.113.0/24", Action: "reroute", NextHops: []netip.Addr{public}, IDs: ownedBy(partners)},
					{Priority: 2000, Match: "ip4.src == $" + egressSet, Action: "reroute", NextHops: []netip.Addr{addr("240.0.0.0")}, IDs: ownedBy(egress)},
				},
			},
			{
				Name: "sallyport-egress",
				Ports: []logical.RouterPort{
					egressPort("sallyport-egress-198-51-100-9", "198.51.100.9/24"),
					linkPort(routerPort("sallyport-egress-acme-prod", "240.0.0.0/31"), "acme-prod-egress"),
				},
				Routes: []logical.StaticRoute{{Prefix: all, NextHop: public}},
				NATs:   []logical.NAT{{Type: "snat", External: addr("198.51.100.9"), Logical: prefix("240.0.0.0/24"), IDs: ownedBy(egress)}},
			},
		},
		Switches: []logical.Switch{
			{Name: "acme-prod-default", Ports: []logical.SwitchPort{
				podPort("db-0.acme-prod", "10.0.0.9"), podPort("web-0.acme-prod", "10.0.0.10"),
				podPort("job-0.acme-prod", "10.0.0.12"), podPort("mail-0.acme-prod", "10.0.0.13"),
				toRouter("acme-prod-acme-prod-default"),
			}},
			{Name: "ext-cloud", Ports: []logical.SwitchPort{{Name: "localnet.ext-cloud", Type: "localnet"}, toRouter("acme-prod-ext-cloud")}},
			{Name: "ext-public", Ports: []logical.SwitchPort{
				{Name: "localnet.ext-public", Type: "localnet"}, toRouter("acme-prod-ext-public"), toRouter("sallyport-egress-198-51-100-9"),
			}},
		},
		Sets:     map[string][]string{routeSet: {"10.0.0.12"}, egressSet: {"10.0.0.13"}},
		Chassis:  []logical.Chassis{{Name: "c1", Host: "node1", Seen: 7}, {Name: "c2", Host: "node2", Seen: 7}},
		Progress: logical.ConfigProgress{Asked: 7, Translated: 7, Done: 7},
	}
}

func routerPort(name, network string) logical.RouterPort {
	return logical.RouterPort{Name: name, MAC: intent.DeriveMAC(name), Networks: []netip.Prefix{prefix(network)}}
}

// gatewayPort returns a port of a router that both chassis may hold.
func gatewayPort(name, network, holder string) logical.RouterPort {
	p := routerPort(name, network)
	p.Chassis, p.Holder = []string{"c1", "c2"}, holder
	return p
}

func linkPort(p logical.RouterPort, peer string) logical.RouterPort {
	p.Peer = peer
	return p
}

// egressPort returns the port of an egress address. The first chassis holds it.
func egressPort(name, network string) logical.RouterPort {
	p := gatewayPort(name, network, "c2")
	p.Chassis, p.IDs = []string{"c2", "c1"}, ownedBy(egress)
	return p
}

func toRouter(name string) logical.SwitchPort {
	return logical.SwitchPort{Name: "to-" + name, Type: "router", Router: name, MAC: intent.DeriveMAC(name)}
}

func podPort(name, address string) logical.SwitchPort {
	return logical.SwitchPort{Name: name, MAC: intent.DeriveMAC(name), Addresses: []netip.Addr{addr(address)}, Up: true, Chassis: "c1"}
}

// compiledShard returns a compiled shard of which everything is present.
func compiledShard() clusterstate.Shard {
	s := clusterstate.Shard{Name: "acme-prod"}
	want := func(by state.Ref, text string) {
		s.Wanted = append(s.Wanted, clusterstate.DesiredEntry{Scope: "acme-prod", Line: state.Line{Text: text, Key: text, Origin: by}, There: true})
	}
	want(fip, "FIp acme-prod/db finalizer")
	want(fip, "EIp acme-prod/fip-db-1 {}")
	want(fip, "OvnFip acme-prod-db {}")
	want(fip, "NAT acme-prod [dnat_and_snat 198.51.100.8] 10.0.0.9")
	want(web, "Load_Balancer acme-prod [acme-prod/web tcp] 198.51.100.7:80=10.0.0.10:8080")
	want(frontEIP, "OvnEip eip-acme-prod-front {}")
	want(returnPath, "Logical_Router_Policy acme-prod [30010 "+returnMatch+"] reroute 198.51.100.1")
	key := func(r state.Ref) intent.ObjectKey {
		return intent.ObjectKey{Kind: intent.Kind(r.Kind), Namespace: r.Namespace, Name: r.Name}
	}
	s.Verdicts = []intent.Verdict{
		{Object: key(project), Facts: intent.ProjectFacts{}},
		{Object: key(defaultGatewayEIP), Facts: intent.EIpFacts{}},
		{Object: key(fipEIP), Facts: intent.EIpFacts{}},
		{Object: key(frontEIP), Facts: intent.EIpFacts{}},
		{Object: key(fip), Facts: intent.FIpFacts{}, Through: []state.Ref{returnPath}},
		{Object: key(web), Facts: intent.ServiceFacts{}, Through: []state.Ref{returnPath}},
		{Object: key(partners), Facts: intent.EgressPolicyFacts{}, Through: []state.Ref{returnPath}},
	}
	return s
}
