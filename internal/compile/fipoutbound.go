package compile

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/match"
	"github.com/sallyport/sallyport/internal/model/ownership"
)

// Connections that the target of a FIp initiates leave with its address without further rows if the address is on the
// project's default network, or if the target's packets are routed to its network anyway. Otherwise a FIp with outbound
// has policies that route them there. They replace the default egress only: EgressIPs have precedence, and in projects
// EgressServices and EgressRoutes.

// natPriorityFIP is the priority of the SNAT rows of FIps, below those of egress policies.
const natPriorityFIP = 5

// needsOutboundPolicies reports whether the connections of a FIp's target use its address only with policies.
func (c *compiler) needsOutboundPolicies(f *fip) bool {
	x := f.eip.external
	return x != nil && !c.isDefaultNetwork(x) && !c.returnsBySource(x)
}

// resolveFIPOutbound decides which FIps get policies for the connections of their targets. Of several FIps of a target,
// the first in order of precedence gets them.
func (c *compiler) resolveFIPOutbound() {
	first := map[netip.Addr]*fip{}
	for _, f := range c.sortByTenure() {
		if !f.Outbound || !f.isWanted() || !c.needsOutboundPolicies(f) {
			continue
		}
		if other := first[f.target]; other != nil {
			f.partly = intent.Finding{Reason: intent.OutboundOverridden, Message: fmt.Sprintf(
				"connections from %s leave with the address of FIp %s, which also has outbound; remove it from one of the two",
				f.target, other.Name)}
			continue
		}
		if why := c.checkEgressSupported(); !why.OK() {
			f.partly = intent.Finding{Reason: intent.OutboundUnavailable, Message: why.Message}
			continue
		}
		f.outbound, c.hasOutboundFIPs, first[f.target] = true, true, f
	}
}

// leavesAsFIP reports whether connections of a FIp's target leave with its address.
func (c *compiler) leavesAsFIP(f *fip) bool {
	if c.needsOutboundPolicies(f) {
		return f.redirects
	}
	return c.selected.egressIPs[f.target] == "" &&
		!slices.ContainsFunc(c.fips, func(o *fip) bool { return o.redirects && o.target == f.target })
}

// emitFIPOutbound adds the policies, and in the management VPC the SNAT. In projects, the row of the FIp translates both
// ways.
func (c *compiler) emitFIPOutbound() {
	for _, f := range c.fips {
		if !f.outbound {
			continue
		}
		why := c.checkConnected(f.eip.external)
		f.partly, f.waiting = c.checkOutboundPrecedence(f), firstProblem(f.waiting, why)
		if !f.partly.OK() || !f.translated || !why.OK() {
			continue
		}
		f.redirects = true
		if c.w.Management != nil {
			c.redirectedPods = append(c.redirectedPods, f.target)
			c.emitDestinationSets(f.eip.external.Family())
			c.emitManagementOnLinkPort(f.eip.external.Family())
			c.emitManagementSNAT(f)
			if on := c.findSubnet(f.target); on != nil { // accepted targets are in a subnet
				on.emitOutboundReroutes(f, ownership.ManagementFIP, ownership.ManagementFIPOnLink)
			}
			continue
		}
		c.emitOnLinkPort(f.eip.external.Family())
		c.emitOutboundReroutes(f, ownership.FIPOutbound, ownership.FIPOutboundOnLink)
	}
}

// emitOutboundReroutes adds the policies that send the target's packets to the network's gateway, and directly to hosts
// on the network.
func (c *compiler) emitOutboundReroutes(f *fip, gateway, onLink int) {
	x, target := f.eip.external, match.Addr(f.target)
	for _, policy := range []intent.PolicyRoute{
		intent.ReroutePolicy(gateway, c.matchEgress(target), x.Gateway),
		c.onLinkPolicy(onLink, x.Family(), match.All(match.From(target), match.To(match.Prefix(x.Prefix.Masked())))),
	} {
		c.out.AddRow(c.w.Shard, policy.ToRouterPolicy(), f.key.Ref())
	}
}

// emitManagementSNAT adds the SNAT of a target in the management VPC. The row is for all addresses and the match selects
// the target: Kube-OVN removes SNAT rows whose logical address is that of a pod.
func (c *compiler) emitManagementSNAT(f *fip) {
	x := f.eip.external
	c.out.AddRow(c.w.Shard, intent.GatewayPortSNAT{
		GatewayPort: c.externalPortName(x.Subnet), External: f.eip.address, Logical: x.Family().Everything(),
		Match: match.From(match.Addr(f.target)).String(), Priority: natPriorityFIP,
	}, f.key.Ref())
}

// checkOutboundPrecedence returns the finding that another object decides about the target's connections, or will as
// soon as the target is known.
func (c *compiler) checkOutboundPrecedence(f *fip) intent.Finding {
	overridden := func(format string, args ...any) intent.Finding {
		return intent.Finding{Reason: intent.OutboundOverridden, Message: fmt.Sprintf(format, args...)}
	}
	if name := c.selected.egressIPs[f.target]; name != "" {
		return overridden("connections from %s leave with the addresses of EgressIP %s, which selects it; "+
			"remove spec.outbound, or exclude it from the EgressIP", f.target, name)
	}
	if c.selected.closes && !slices.Contains(c.w.PodAddresses, f.target) {
		return overridden("%s is not the address of a known pod, and an EgressIP may select it; "+
			"its connections get out when it is known", f.target)
	}
	for _, d := range c.egressPolicies {
		if d.isWanted() && d.natPriority == natPriorityService && slices.Contains(d.pods, f.target) {
			return overridden("connections from %s use %s %s; remove spec.outbound, or the other", f.target, d.key.Kind,
				d.key.Name)
		}
	}
	return intent.Finding{}
}
