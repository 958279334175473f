package clusterstatetest

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/logical"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/state"
)

// everything is the prefix of all addresses of these clusters.
var everything = netip.PrefixFrom(netip.IPv4Unspecified(), 0)

// linkPool has the addresses of links between routers.
var linkPool = netip.MustParsePrefix("240.0.0.0/16")

// addEgressIPs adds one EgressIP for each ten projects and one more, with two addresses each, distributed over the
// eligible nodes. Of every fourth, one address has no node.
func (b *builder) addEgressIPs(projects int) {
	var holders []string
	for _, n := range b.Cluster.Nodes {
		if n.Assignable && n.Ready {
			holders = append(holders, n.Name)
		}
	}
	router := &logical.Router{Name: ownership.EgressVpc}
	for i := range 1 + projects/10 {
		e := clusterstate.EgressIP{
			Object:  newObject("EgressIP", "", fmt.Sprintf("egress-%d", i+1), healthyConditions()...),
			Held:    map[string]string{},
			Selects: 1 + i%4,
		}
		var held []netip.Addr
		for j := range 2 {
			a := b.allocateAddress("ext-public")
			e.Addresses = append(e.Addresses, a.String())
			if j == 1 && i%4 == 3 {
				e.Conditions = failingConditions("Programmed", "UnassignedRequest", fmt.Sprintf("no node holds %s", a))
				continue
			}
			held = append(held, a)
			e.Held[a.String()] = holders[(i+j)%len(holders)]
			b.addEgressAddress(router, a, b.chassisOfNode(e.Held[a.String()]))
		}
		b.Cluster.EgressIPs = append(b.Cluster.EgressIPs, e)
		if i*10 < len(b.Cluster.Projects) {
			b.selectPods(router, e.Ref, b.Cluster.Projects[i*10], held)
		}
	}
	b.Logical.Routers = append(b.Logical.Routers, *router)
	b.Cluster.Vpcs = append(b.Cluster.Vpcs, clusterstate.Vpc{Object: newObject("Vpc", "", ownership.EgressVpc), Ready: true})
}

// addEgressAddress adds the port of the egress router that has an egress address, and its SNAT and route.
func (b *builder) addEgressAddress(router *logical.Router, a netip.Addr, chassis string) {
	port := ownership.EgressRouterPort(a)
	router.Ports = append(router.Ports, logical.RouterPort{
		Name: port, Networks: []netip.Prefix{netip.PrefixFrom(a, 16)}, MAC: intent.DeriveMAC(port),
		Chassis: []string{chassis}, Holder: chassis,
	})
	router.NATs = append(router.NATs, logical.NAT{Type: "snat", External: a, Logical: linkPool, Port: port})
	router.Routes = append(router.Routes, logical.StaticRoute{
		Table: ownership.EgressRouteTable(a), Prefix: everything, NextHop: b.gatewayOfNetwork("ext-public"), Output: port,
	})
	b.connectSwitch("ext-public", port)
}

// selectPods lets an EgressIP select a pod of a project: a link to each address, and a policy that sends the pod's
// packets there.
func (b *builder) selectPods(egress *logical.Router, by state.Ref, p clusterstate.Project, addresses []netip.Addr) {
	ids := logical.ExternalIDs{ownership.RowOwnerKey: by.Kind + "//" + by.Name, ownership.RowShardKey: p.Shard}
	set := ownership.EgressIPPodSet(p.Shard, by.Name)
	b.Logical.Sets[set] = []string{b.addMailer(p).String()}
	at := slices.IndexFunc(b.Logical.Routers, func(r logical.Router) bool { return r.Name == p.Shard })
	router := &b.Logical.Routers[at]
	policy := logical.RouterPolicy{
		Priority: ownership.EgressIPSelected, Action: "reroute", IDs: ids,
		Match: fmt.Sprintf("inport == %q && ip4.src == $%s && ip4.dst != %s",
			kubeovn.RouterPort(p.Shard, ownership.VPCSubnetName(p.Shard)), set, p.Prefixes[0]),
	}
	for _, a := range addresses {
		b.allocated["links"]++
		far := nthAddress(linkPool, 2*b.allocated["links"])
		near, here, there := far.Next(), ownership.VPCEgressLinkPort(p.Shard, a), ownership.EgressLinkPort(a, p.Shard)
		holder := egress.Ports[slices.IndexFunc(egress.Ports, func(o logical.RouterPort) bool {
			return o.Name == ownership.EgressRouterPort(a)
		})].Holder
		egress.Ports = append(egress.Ports, logical.RouterPort{
			Name: there, Networks: []netip.Prefix{netip.PrefixFrom(far, 31)}, MAC: intent.DeriveMAC(there), Peer: here,
			Options: map[string]string{"route_table": ownership.EgressRouteTable(a)},
		})
		router.Ports = append(router.Ports, logical.RouterPort{
			Name: here, Networks: []netip.Prefix{netip.PrefixFrom(near, 31)}, MAC: intent.DeriveMAC(here), Peer: there,
			Chassis: []string{holder}, Holder: holder,
		})
		router.NATs = append(router.NATs, logical.NAT{Type: "snat", External: near, Logical: everything, Port: here, IDs: ids})
		policy.NextHops = append(policy.NextHops, far)
	}
	router.Policies = sortPolicies(append(router.Policies, policy))
}

// addMailer adds a pod that no Service has as a backend.
func (b *builder) addMailer(p clusterstate.Project) netip.Addr {
	subnet, at := ownership.VPCSubnetName(p.Shard), nthAddress(p.Prefixes[0], 20)
	pod := b.newPod(p.Shard, "mailer-0", subnet, at)
	b.Cluster.Pods = append(b.Cluster.Pods, pod)
	port := kubeovn.PodPort(pod.Name, p.Shard)
	b.addSwitchPort(subnet, logical.SwitchPort{
		Name: port, Addresses: pod.Addresses, Up: true, Chassis: b.chassisOfNode(pod.Node), MAC: intent.DeriveMAC(port),
	})
	return at
}

func sortPolicies(all []logical.RouterPolicy) []logical.RouterPolicy {
	slices.SortStableFunc(all, func(a, b logical.RouterPolicy) int { return b.Priority - a.Priority })
	return all
}

// addEgressPolicies adds the objects for egress through other networks.
func (t *projectBuilder) addEgressPolicies() {
	if t.index%7 == 2 {
		to := netip.MustParsePrefix("203.0.113.0/24")
		e := clusterstate.EgressPolicy{
			Object: newObject("EgressRoute", t.ns, "partners", healthyConditions()...), Shard: t.ns,
			Network:      "ext-partner",
			Destinations: []netip.Prefix{to}, Sources: []netip.Addr{t.attachNetwork("ext-partner")},
		}
		t.Cluster.EgressRoutes = append(t.Cluster.EgressRoutes, e)
		t.addEgressRows(e, ownership.EgressRoutePodSet(t.ns, e.Name), ownership.EgressRoutePriority(to.Bits(), 0),
			" && ip4.dst == "+to.String())
	}
	if t.index%13 == 5 {
		e := clusterstate.EgressPolicy{
			Object: newObject("EgressService", t.ns, "web", healthyConditions()...), Shard: t.ns,
			Network: t.defaultNetwork,
			Sources: t.Cluster.Service(state.Ref{Kind: "Service", Namespace: t.ns, Name: "web"}).Ingress,
		}
		t.Cluster.EgressServices = append(t.Cluster.EgressServices, e)
		t.addEgressRows(e, ownership.EgressServicePodSet(t.ns, e.Name), ownership.EgressServiceBackends,
			" && ip4.dst != "+t.Cluster.Subnet(e.Network).Prefixes[0].String())
	}
}

// addEgressRows sends packets of the project's pods to the gateway of a network, with another source address.
func (t *projectBuilder) addEgressRows(e clusterstate.EgressPolicy, set string, priority int, to string) {
	for _, p := range t.backendPods {
		t.Logical.Sets[set] = append(t.Logical.Sets[set], p.Addresses[0].String())
	}
	ids, from := t.ownerIDs(e.Kind, t.ns, e.Name), "ip4.src == $"+set
	t.router.Policies = sortPolicies(append(t.router.Policies, logical.RouterPolicy{
		Priority: priority, Match: fmt.Sprintf("%s && ip4.dst != %s%s", from, t.prefix, to), Action: "reroute",
		NextHops: []netip.Addr{t.gatewayOfNetwork(e.Network)}, IDs: ids,
	}))
	t.router.NATs = append(t.router.NATs, logical.NAT{
		Type: "snat", External: e.Sources[0], Logical: everything, Port: kubeovn.RouterPort(t.ns, e.Network),
		Match: from + to, IDs: ids,
	})
}
