package compile

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"go4.org/netipx"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ipfamily"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// The management VPC may have Subnets besides ovn-default. Their pods can be backends of load balancers and targets of
// floating IPs, and EgressIPs can select them. Each Subnet has return ports and a hairpin port of its own, because only
// the switch of a pod sees both directions of its connections.

// otherSubnet is a Subnet of the management VPC besides ovn-default.
type otherSubnet struct {
	snapshot.PodSubnet
	nextHops   map[ipfamily.Family]netip.Prefix // of its hairpin port
	nodeReturn map[ipfamily.Family]netip.Prefix // of its port for replies through nodes
}

// listOtherSubnets lists the other subnets by name, and gives each a network for its hairpin port and one for its port
// for replies through nodes: no two ports of a router may have the same one.
func (c *compiler) listOtherSubnets() {
	byName := func(a, b snapshot.PodSubnet) int { return strings.Compare(a.Name, b.Name) }
	for _, s := range slices.SortedFunc(slices.Values(c.w.Management.Subnets), byName) {
		c.otherSubnets = append(c.otherSubnets, &otherSubnet{
			PodSubnet: s, nextHops: map[ipfamily.Family]netip.Prefix{}, nodeReturn: map[ipfamily.Family]netip.Prefix{},
		})
	}
	for _, f := range c.families {
		for _, s := range c.otherSubnets {
			s.nextHops[f] = chooseHairpinNetwork(f, s.Name, c.hairpinNetworks)
		}
		for _, s := range c.otherSubnets { // last, so that the networks of hairpin ports depend on these ports only
			s.nodeReturn[f] = chooseHairpinNetwork(f, ownership.NodeReturnRouterPort(c.w.Shard, s.Name), c.hairpinNetworks)
		}
	}
}

// chooseHairpinNetwork returns a network for a port of a subnet, by the name of the subnet or port, with the address of
// the port. There are 2,048; if all are taken, the last one is used twice.
func chooseHairpinNetwork(f ipfamily.Family, name string, taken map[netip.Addr]bool) netip.Prefix {
	pool, length := internalByFamily[f].otherNextHops, internalByFamily[f].otherNextHopLen
	hostBits := pool.Addr().BitLen() - length
	first := ownership.HashName(name)
	var network netip.Addr
	for i := range uint32(1) << (length - pool.Bits()) {
		network = addressAt(pool, (first+i)<<hostBits)
		if !taken[network] {
			break
		}
	}
	taken[network] = true
	return netip.PrefixFrom(network.Next(), length)
}

// onSubnet returns a compiler for another subnet. It has the same input, decisions and intent; what concerns the
// subnet of the VPC concerns that one.
func (c *compiler) onSubnet(s *otherSubnet) *compiler {
	out, project := *c, *c.project
	project.Prefixes, project.Gateways = s.Prefixes, s.Gateways
	out.project, out.subnet = &project, s
	return &out
}

// reservedNextHops returns the network of the subnet's hairpin port.
func (c *compiler) reservedNextHops(f ipfamily.Family) netip.Prefix {
	if c.subnet != nil {
		return c.subnet.nextHops[f]
	}
	return internalByFamily[f].reservedNextHops
}

// nodeReturnNetwork returns the network of the subnet's port for replies through nodes, and the reserved next hop that
// leads to it: the last host of the hairpin port's network. Return ports have the first ones.
func (c *compiler) nodeReturnNetwork(f ipfamily.Family) (netip.Prefix, netip.Addr) {
	if c.subnet == nil {
		return internalByFamily[f].nodeReturn, internalByFamily[f].nodeReturnHop
	}
	return c.subnet.nodeReturn[f], netipx.PrefixLastIP(c.subnet.nextHops[f].Masked()).Prev()
}

// listPodSubnets returns a compiler for each subnet of the VPC with pods of a family, the VPC's first subnet first. In
// projects there is one.
func (c *compiler) listPodSubnets(f ipfamily.Family) []*compiler {
	out := []*compiler{c}
	for _, s := range c.otherSubnets {
		on := c.onSubnet(s)
		if c.w.Engine.RouterPorts[on.internalPortName()] && on.project.prefix(f).IsValid() {
			out = append(out, on)
		}
	}
	return out
}

// joinPortName returns the name of the router's port to the nodes of the management VPC. Kube-OVN defines it.
func (c *compiler) joinPortName() string { return kubeovn.RouterPort(c.w.Shard, kubeovn.JoinSubnet) }

// podSwitches returns the switches whose pods reach external addresses of the VPC directly, sorted.
func (c *compiler) podSwitches() []string {
	out := []string{c.subnetName()}
	for _, s := range c.otherSubnets {
		if c.w.Engine.RouterPorts[kubeovn.RouterPort(c.w.Shard, s.Name)] {
			out = append(out, s.Name)
		}
	}
	slices.Sort(out)
	return out
}

// findSubnet returns a compiler for the subnet that an address belongs to, or nil if no pod of the VPC can have it.
func (c *compiler) findSubnet(a netip.Addr) *compiler {
	if c.project.owns(a) {
		return c
	}
	for _, s := range c.otherSubnets {
		if on := c.onSubnet(s); on.project.owns(a) {
			return on
		}
	}
	return nil
}

// checkEndpointSubnet returns the reason why an endpoint gets no connections because of the subnet that it is in.
func (c *compiler) checkEndpointSubnet(s *service, e snapshot.Endpoint) intent.Finding {
	f, on := c.familyOf(s.eip), c.findSubnet(e.Address)
	if ipfamily.Of(e.Address) != f {
		on = nil
	}
	switch {
	case on == nil && c.w.Management != nil && c.w.Management.NodeAddresses[e.Address] != "":
		return c.nodeEndpoint(s, e)
	case on == nil && c.w.Management != nil:
		return intent.Finding{Reason: intent.EndpointOutsideProject, Message: fmt.Sprintf(
			"endpoint %s is not in a Subnet of VPC %s and gets no connections; use pods in one of its Subnets", e.Address,
			c.w.Shard)}
	case on == nil:
		return intent.Finding{Reason: intent.EndpointOutsideProject, Message: fmt.Sprintf(
			"endpoint %s is not in the project's subnet %s and gets no connections; use pods or virtual machines in it",
			e.Address, c.project.prefix(f))}
	case on.subnet != nil:
		return on.checkReturnNetwork("endpoint", e.Address)
	default:
		return intent.Finding{}
	}
}

// checkReturnNetwork checks that no next hop of the router is in the network of the subnet's return ports, which is one
// bit shorter than the subnet's: northd sends packets to a next hop through any port whose network contains it. what is
// the role of the address.
func (c *compiler) checkReturnNetwork(what string, address netip.Addr) intent.Finding {
	prefix := c.project.prefix(ipfamily.Of(address))
	around := netip.PrefixFrom(prefix.Addr(), max(prefix.Bits()-1, 0)).Masked()
	others := slices.Clone(c.w.Management.JoinPrefixes)
	for i := range c.w.ExternalSubnets {
		others = append(others, c.w.ExternalSubnets[i].Prefix)
	}
	for _, other := range others {
		if other.IsValid() && other.Overlaps(around) {
			return intent.Finding{Reason: intent.SubnetTooClose, Message: fmt.Sprintf(
				"%s %s is in Subnet %s and gets no connections: the network of its return ports, %s, overlaps with %s; "+
					"use a Subnet with another prefix", what, address, c.subnetName(), around, other)}
		}
	}
	return intent.Finding{}
}

// emitOtherReturnPaths adds the return ports of another subnet, for the networks of the Services with backends in it and
// of the FIps with targets in it.
func (c *compiler) emitOtherReturnPaths(several map[netip.Addr]bool) {
	var services []*service
	var networks []*snapshot.ExternalSubnet
	addNetwork := func(x *snapshot.ExternalSubnet) {
		if x != nil && !slices.Contains(networks, x) {
			networks = append(networks, x)
		}
	}
	for _, s := range c.services {
		if s.isWanted() && c.hasBackendOf(s) {
			services = append(services, s)
			addNetwork(s.eip.external)
		}
	}
	for _, f := range c.fips {
		if f.translated && c.project.owns(f.target) {
			addNetwork(f.eip.external)
		}
	}
	returnPorts := c.planReturnPorts(networks)
	for _, s := range services {
		c.resolveServiceReturn(s, returnPorts)
	}
	for _, f := range c.fips {
		c.resolveFIPReturn(f, returnPorts)
	}
	for _, l := range returnPorts {
		l.targets = slices.DeleteFunc(l.targets, func(a netip.Addr) bool { return several[a] })
		c.emitReturnPort(l)
	}
	returnsThroughNodes := c.emitNodeReturn()
	if len(returnPorts) > 0 || returnsThroughNodes {
		c.emitHairpinPort(c.families[0])
	}
}

// listBackendSubnets returns a compiler for the VPC's subnet, and for each of the others with backends of a Service.
func (c *compiler) listBackendSubnets(s *service) []*compiler {
	out := []*compiler{c}
	for _, other := range c.otherSubnets {
		if on := c.onSubnet(other); on.hasBackendOf(s) {
			out = append(out, on)
		}
	}
	return out
}

// hasBackendOf reports whether a Service has an endpoint in the subnet that may get connections.
func (c *compiler) hasBackendOf(s *service) bool {
	return slices.ContainsFunc(s.Endpoints, func(e snapshot.Endpoint) bool {
		return c.project.owns(e.Address) && c.checkEndpoint(s, e).OK()
	})
}
