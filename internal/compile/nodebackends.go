package compile

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ipfamily"
	"github.com/sallyport/sallyport/internal/model/match"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// Pods on the network of their node can be backends of load balancers in the management VPC. A node sends its replies to
// clients through its own default route, so the packets to it get a source address that it sends to the router: an
// address of the pods' subnet that no pod has, one for each external network. They are translated at a gateway port of
// the router that is linked to itself, on the chassis of the network's gateway. Replies to the address go to this port,
// are translated back, and leave with the routing table of the network.

// nodeBackends are the backends on nodes of all Services on one external network.
type nodeBackends struct {
	addresses map[netip.Addr]bool
	ports     map[intent.Protocol]map[string]bool
}

// findNodeBackends returns the backends of Services on nodes, by external subnet.
func (c *compiler) findNodeBackends() map[string]nodeBackends {
	out := map[string]nodeBackends{}
	for _, s := range c.services {
		if !s.isWanted() || c.w.Management == nil {
			continue
		}
		for _, p := range s.Ports {
			for _, e := range c.endpointsForPort(s, p.Name) {
				if c.isHostPod(s, e) {
					addNodeBackend(out, s.eip.external.Subnet, p.Protocol, e)
					s.addDependency(gatewayRef(ownership.NodeBackendPort(c.w.Shard, s.eip.external.Subnet)))
				}
			}
		}
	}
	return out
}

// addNodeBackend adds an endpoint to the backends on a network.
func addNodeBackend(to map[string]nodeBackends, network string, protocol intent.Protocol, e snapshot.Endpoint) {
	on, known := to[network]
	if !known {
		on = nodeBackends{map[netip.Addr]bool{}, map[intent.Protocol]map[string]bool{}}
		to[network] = on
	}
	if on.ports[protocol] == nil {
		on.ports[protocol] = map[string]bool{}
	}
	on.addresses[e.Address], on.ports[protocol][strconv.Itoa(e.Number)] = true, true
}

// isHostPod reports whether an endpoint is a declared port of a pod of the Service's namespace on the network of its
// node.
func (c *compiler) isHostPod(s *service, e snapshot.Endpoint) bool {
	return c.w.Management != nil && c.w.Management.HostPods[s.Namespace][newAddrPort(e.Address, e.Number)] &&
		ipfamily.Of(e.Address) == c.familyOf(s.eip)
}

// nodeEndpoint returns the finding on an endpoint that is a node's address, and no pod of the namespace there declares its
// port. Anybody who may write Services with a target port, or EndpointSlices, could otherwise publish the node's own
// services, such as the kubelet's.
func (c *compiler) nodeEndpoint(s *service, e snapshot.Endpoint) intent.Finding {
	return intent.Finding{Reason: intent.EndpointIsNode, Message: fmt.Sprintf(
		"endpoint %s is on node %s, where no pod of namespace %s with hostNetwork declares port %d; it gets no connections; "+
			"select pods of the Service's own namespace, and declare the port in their containers",
		newAddrPort(e.Address, e.Number), c.w.Management.NodeAddresses[e.Address], s.Namespace, e.Number)}
}

// emitNodeBackends adds the rows for backends on nodes.
func (c *compiler) emitNodeBackends() {
	backends := c.findNodeBackends()
	sources := map[netip.Addr]bool{}
	for _, name := range slices.Sorted(maps.Keys(backends)) {
		x := c.externalByName(name)
		source := c.chooseNodeSource(x, sources)
		if !source.IsValid() {
			for _, s := range c.services {
				if s.isWanted() && s.eip.external.Subnet == name && slices.ContainsFunc(s.Endpoints,
					func(e snapshot.Endpoint) bool { return c.isHostPod(s, e) }) {
					s.waiting = firstProblem(s.waiting, c.noReturnPort(x))
				}
			}
			continue
		}
		if c.isConnected(name) {
			c.emitNodePort(x, source, backends[name])
		}
	}
}

// chooseNodeSource returns the source address of packets from a network to nodes: by the network's name one of the eight
// addresses before those of return ports. Invalid: none is free.
func (c *compiler) chooseNodeSource(x *snapshot.ExternalSubnet, taken map[netip.Addr]bool) netip.Addr {
	reserved := reservedAddresses(c.project.prefixOn(x))
	if len(reserved) < maxReturnPorts {
		return netip.Addr{}
	}
	var free []netip.Addr
	for a := reserved[len(reserved)-1].Prev(); len(free) < maxReturnPorts; a = a.Prev() {
		free = append(free, a)
	}
	first := ownership.HashName(x.Subnet)
	for i := range uint32(maxReturnPorts) {
		a := free[(first+i)%maxReturnPorts]
		if !taken[a] && !c.isOccupied(a) {
			taken[a] = true
			return a
		}
	}
	return netip.Addr{}
}

// emitNodePort adds the port for one network, and the policies that lead packets and replies through it. Only packets to
// the ports of backends are led there.
func (c *compiler) emitNodePort(x *snapshot.ExternalSubnet, source netip.Addr, to nodeBackends) {
	f, port := x.Family(), ownership.NodeBackendPort(c.w.Shard, x.Subnet)
	row := func(r intent.Row) { c.out.AddRow(c.w.Shard, r, gatewayRef(port)) }
	network := chooseHairpinNetwork(f, port, c.hairpinNetworks)
	nextHop, set := network.Addr().Next(), ownership.NodeBackendSet(x.Subnet)
	row(intent.LogicalRouterPort{
		Name: port, MAC: intent.DeriveMAC(port), Network: network, Peer: port, RouteTable: ownership.ReturnRouteTable(x.Subnet),
	})
	for i, chassis := range c.gatewayChassis() {
		row(intent.GatewayChassis{Port: port, Chassis: chassis, Priority: 100 - min(i, 99)})
	}
	row(intent.StaticMACBinding{Port: port, Address: nextHop, MAC: intent.DeriveMAC(port)})
	row(intent.AddressSet{Name: set, Addresses: joinAddresses(slices.Collect(maps.Keys(to.addresses)))})
	toNodes := match.To(match.AddressSet(f, set))
	// Without the match, OVN would also track the packets when they enter the router again, as connections whose replies
	// are those of the translated ones, and would not translate these back.
	fromNetwork := match.InPort(c.externalPortName(x.Subnet))
	row(intent.GatewayPortSNAT{
		GatewayPort: port, External: source, Logical: f.Everything(), Match: fromNetwork.String(), Priority: 1,
	})
	for _, p := range protocols {
		if ports := slices.Sorted(maps.Keys(to.ports[p])); len(ports) > 0 {
			row(intent.ReroutePolicy(ownership.NodeBackend, match.All(fromNetwork, toNodes,
				match.ToPorts(string(p), ports)), nextHop).ToRouterPolicy())
		}
	}
	row(intent.ReroutePolicy(ownership.NodeBackendReply, match.All(match.InPort(c.joinPortName()),
		match.To(match.Addr(source))), nextHop).ToRouterPolicy())
}
