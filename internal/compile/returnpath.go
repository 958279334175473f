package compile

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/match"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// emitReturnPaths makes replies leave through the network the request arrived on, where that is not the project's
// default.
func (c *compiler) emitReturnPaths() {
	if !c.project.isActive() || len(c.projectFamilies()) == 0 || c.isVPCTerminating() {
		return
	}
	returnPorts, several := c.planReturnPorts(c.usedExternals()), c.multiNetworkTargets()
	c.hasReturnPorts = len(returnPorts) > 0
	for _, f := range c.fips {
		c.resolveFIPReturn(f, returnPorts)
	}
	for _, s := range c.services {
		c.resolveServiceReturn(s, returnPorts)
	}
	c.checkEgressReturn(returnPorts)
	for _, l := range returnPorts {
		l.targets = slices.DeleteFunc(l.targets, func(a netip.Addr) bool { return several[a] })
		c.emitReturnPort(l)
	}
	returnsThroughNodes := c.emitNodeReturn()
	if len(returnPorts) > 0 || returnsThroughNodes {
		c.emitHairpinPort(c.families[0]) // all networks are of one family so far
	}
	for _, s := range c.otherSubnets {
		c.onSubnet(s).emitOtherReturnPaths(several)
	}
}

// resolveFIPReturn makes a FIp depend on the return port of its network, or adds the policies of returnPath Source.
func (c *compiler) resolveFIPReturn(f *fip, returnPorts []*returnPort) {
	if !f.translated || !f.isWanted() || !c.project.owns(f.target) || c.isSecond(f.eip) {
		return
	}
	network := f.eip.external
	if network == nil || c.usesDefaultReturn(network) {
		return
	}
	if c.returnsBySource(network) {
		c.emitSourceReturn(f, network)
		return
	}
	i := slices.IndexFunc(returnPorts, func(l *returnPort) bool { return l.network.Subnet == network.Subnet })
	if i >= 0 {
		returnPorts[i].targets = append(returnPorts[i].targets, f.target)
		f.dependencies = append(f.dependencies, returnPorts[i].ref(), c.hairpinRef())
		if c.w.Management != nil {
			f.dependencies = append(f.dependencies, gatewayRef(c.externalPortName(network.Subnet)))
		}
	} else if c.w.Engine.RouterPorts[c.internalPortName()] {
		f.waiting = firstProblem(f.waiting, c.noReturnPort(network))
	}
}

// resolveServiceReturn makes a Service depend on the return port of its network.
func (c *compiler) resolveServiceReturn(s *service, returnPorts []*returnPort) {
	if !s.isWanted() || s.isSecond || c.usesDefaultReturn(s.eip.external) || c.returnsBySource(s.eip.external) {
		return
	}
	i := slices.IndexFunc(returnPorts, func(l *returnPort) bool { return l.network.Subnet == s.eip.external.Subnet })
	if i < 0 {
		s.waiting = firstProblem(s.waiting, c.noReturnPort(s.eip.external))
		return
	}
	s.dependencies = append(s.dependencies, returnPorts[i].ref(), c.hairpinRef(),
		gatewayRef(c.externalPortName(s.eip.external.Subnet)))
	for _, e := range s.Endpoints {
		if c.project.owns(e.Address) && c.checkEndpoint(s, e).OK() {
			returnPorts[i].targets = append(returnPorts[i].targets, e.Address)
		}
	}
}

// checkEgressReturn makes egress policies wait for the return port of the default network. Without it they would also
// redirect replies to requests from that network.
func (c *compiler) checkEgressReturn(returnPorts []*returnPort) {
	if !c.hasEgressPolicies() || slices.ContainsFunc(returnPorts,
		func(l *returnPort) bool { return c.isDefaultNetwork(l.network) }) {
		return
	}
	for _, d := range c.egressPolicies {
		if d.isWanted() && c.project.defaultNetwork != nil && c.w.Engine.RouterPorts[c.internalPortName()] {
			d.setWaiting(c.noReturnPort(c.project.defaultNetwork))
		}
	}
	for _, f := range c.fips {
		if f.redirects && c.project.defaultNetwork != nil && c.w.Engine.RouterPorts[c.internalPortName()] {
			f.waiting = firstProblem(f.waiting, c.noReturnPort(c.project.defaultNetwork))
		}
	}
}

// multiNetworkTargets returns the targets that are reachable on more than one network.
func (c *compiler) multiNetworkTargets() map[netip.Addr]bool {
	on, out := map[netip.Addr]string{}, map[netip.Addr]bool{}
	reached := func(a netip.Addr, e *eip) {
		if other, seen := on[a]; seen && other != e.external.Subnet {
			out[a] = true
		}
		on[a] = e.external.Subnet
	}
	for _, f := range c.fips {
		if f.isWanted() && f.eip.external != nil {
			reached(f.target, f.eip)
		}
	}
	for _, s := range c.services {
		for _, e := range s.Endpoints {
			if s.isWanted() && c.checkEndpoint(s, e).OK() {
				reached(e.Address, s.eip)
			}
		}
	}
	return out
}

// isDefaultNetwork reports whether an external subnet is the project's default network.
func (c *compiler) isDefaultNetwork(x *snapshot.ExternalSubnet) bool {
	return c.project.defaultNetwork != nil && c.project.defaultNetwork.Subnet == x.Subnet
}

// usesDefaultReturn reports whether replies to a network use the default route like all other traffic. If egress
// policies or EgressIPs redirect that traffic, the default network has a return port like any other.
func (c *compiler) usesDefaultReturn(x *snapshot.ExternalSubnet) bool {
	return c.isDefaultNetwork(x) && !c.hasEgressIPs() && !c.hasEgressPolicies()
}

// returnsBySource reports whether the return path of a network is by the pod's source address.
func (c *compiler) returnsBySource(x *snapshot.ExternalSubnet) bool {
	return c.w.Engine.MissingCapabilities != "" ||
		cmp.Or(x.ReturnPath, c.w.Config.DefaultReturnPath) == snapshot.ReturnBySource
}

// emitSourceReturn routes all packets from the target of a FIp to the outside through the FIp's network.
func (c *compiler) emitSourceReturn(f *fip, network *snapshot.ExternalSubnet) {
	c.emitOnLinkPort(network.Family())
	source := match.From(match.Addr(f.target))
	c.emitRouterPolicy(intent.ReroutePolicy(ownership.ReturnFIP,
		match.All(match.InPort(c.internalPortName()), source), network.Gateway), f.key.Ref())
	c.emitRouterPolicy(c.onLinkPolicy(ownership.ReturnFIPOnLink, network.Family(),
		match.All(source, match.To(match.Prefix(network.Prefix.Masked())))), f.key.Ref())
}
