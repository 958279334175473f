package compile

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// emitReturnPaths makes replies leave by the network that the connection came in on, where that is not the project's
// default.
func (c *compiler) emitReturnPaths() {
	if !c.project.isActive() || !c.project.ipv4Prefix().IsValid() || c.isVPCTerminating() {
		return
	}
	legs, several := c.planReturnPorts(), c.multiNetworkTargets()
	for _, f := range c.fips {
		c.resolveFIPReturn(f, legs)
	}
	for _, s := range c.services {
		c.resolveServiceReturn(s, legs)
	}
	c.checkEgressReturn(legs)
	for _, l := range legs {
		l.targets = slices.DeleteFunc(l.targets, func(a netip.Addr) bool { return several[a] })
		c.emitReturnPort(l)
	}
	if len(legs) > 0 {
		c.emitHairpinPort()
	}
}

// resolveFIPReturn lets a FIp wait for the leg of its network, or makes the policies that do without.
func (c *compiler) resolveFIPReturn(f *fip, legs []*returnPort) {
	if _, translated := c.out.Objects[c.clusterKey(intent.OvnFip, f.ovnFipName)]; !translated || !f.isWanted() {
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
	i := slices.IndexFunc(legs, func(l *returnPort) bool { return l.network.Subnet == network.Subnet })
	if i >= 0 {
		legs[i].targets = append(legs[i].targets, f.target)
		f.dependencies = append(f.dependencies, legs[i].ref(), c.hairpinRef())
	} else if c.w.Engine.RouterPorts[c.internalPortName()] {
		f.waiting = firstProblem(f.waiting, c.noReturnPort(network))
	}
}

// resolveServiceReturn lets a Service wait for the leg of its network.
func (c *compiler) resolveServiceReturn(s *service, legs []*returnPort) {
	if !s.isWanted() || c.usesDefaultReturn(s.eip.external) || c.returnsBySource(s.eip.external) {
		return
	}
	i := slices.IndexFunc(legs, func(l *returnPort) bool { return l.network.Subnet == s.eip.external.Subnet })
	if i < 0 {
		s.waiting = firstProblem(s.waiting, c.noReturnPort(s.eip.external))
		return
	}
	s.dependencies = append(s.dependencies, legs[i].ref(), c.hairpinRef(),
		gatewayRef(c.externalPortName(s.eip.external.Subnet)))
	for _, e := range s.Endpoints {
		if e.Address.Is4() {
			legs[i].targets = append(legs[i].targets, e.Address)
		}
	}
}

// checkEgressReturn lets diversions wait for the leg of the default network, without which they would lead its replies
// away, too.
func (c *compiler) checkEgressReturn(legs []*returnPort) {
	if !c.hasEgressPolicies() || slices.ContainsFunc(legs,
		func(l *returnPort) bool { return c.isDefaultNetwork(l.network) }) {
		return
	}
	for _, d := range c.egressPolicies {
		if d.isWanted() && c.project.defaultNetwork != nil && c.w.Engine.RouterPorts[c.internalPortName()] {
			d.setWaiting(c.noReturnPort(c.project.defaultNetwork))
		}
	}
}

// multiNetworkTargets are the targets that are reached by more than one network.
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
			if s.isWanted() {
				reached(e.Address, s.eip)
			}
		}
	}
	return out
}

// isDefaultNetwork says whether an external subnet is the project's way out.
func (c *compiler) isDefaultNetwork(x *snapshot.ExternalSubnet) bool {
	return c.project.defaultNetwork != nil && c.project.defaultNetwork.Subnet == x.Subnet
}

// usesDefaultReturn says whether replies find back to a network as everything else does that pods send. Where that is
// led elsewhere, the default network has a leg like any other.
func (c *compiler) usesDefaultReturn(x *snapshot.ExternalSubnet) bool {
	return c.isDefaultNetwork(x) && !c.hasEgressIPs() && !c.hasEgressPolicies()
}

// returnsBySource says whether replies find back to a network by the pod's address.
func (c *compiler) returnsBySource(x *snapshot.ExternalSubnet) bool {
	return c.w.Engine.MissingCapabilities != "" ||
		cmp.Or(x.ReturnPath, c.w.Config.DefaultReturnPath) == snapshot.ReturnBySource
}

// emitSourceReturn makes everything that the target of a FIp sends to the outside leave by the FIp's network.
func (c *compiler) emitSourceReturn(f *fip, network *snapshot.ExternalSubnet) {
	c.emitOnLinkPort()
	source := "ip4.src == " + f.target.String()
	c.emitRouterPolicy(intent.ReroutePolicy(ownership.ReturnFIP,
		fmt.Sprintf("inport == %q && %s", c.internalPortName(), source), network.Gateway), f.key.Ref())
	c.emitRouterPolicy(c.onLinkPolicy(ownership.ReturnFIPOnLink,
		source+" && ip4.dst == "+network.Prefix.Masked().String()), f.key.Ref())
}
