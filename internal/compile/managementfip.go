package compile

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ipfamily"
	"github.com/sallyport/sallyport/internal/model/match"
	"github.com/sallyport/sallyport/internal/model/ownership"
)

// Floating IPs of the management VPC are NAT rows of type dnat. Kube-OVN removes rows of the other types whose logical
// address is that of a pod without its own annotation.

// checkTargetOwned checks that the target is a pod or virtual machine of the FIp's namespace. In the management VPC,
// which has pods of many namespaces, the address of the target's switch port decides: a user can write addresses into a
// FIp, and a virtual machine reports its own.
func (c *compiler) checkTargetOwned(f *fip) intent.Finding {
	if c.w.Management == nil || !f.target.IsValid() || c.w.Management.PortAddresses[f.Namespace][f.target] {
		return intent.Finding{}
	}
	return intent.Finding{Reason: intent.TargetOutsideProject, Message: fmt.Sprintf(
		"%s is not the address of a pod or virtual machine of namespace %s on a Subnet of VPC %s; "+
			"use one that is, or create the FIp in the namespace of the target", f.target, f.Namespace, c.w.Shard)}
}

// checkManagementReturn checks that replies can be returned to the FIp's network: all networks of the management VPC
// have return ports.
func (c *compiler) checkManagementReturn(f *fip) intent.Finding {
	if c.w.Management == nil || f.eip == nil || f.eip.external == nil || !c.returnsBySource(f.eip.external) {
		return intent.Finding{}
	}
	return intent.Finding{Reason: intent.NeedsConnectionReturnPath, Message: fmt.Sprintf(
		"network %s routes replies by the pod's address (returnPath Source), which is not possible in the management VPC; "+
			"use another network, or ask the operator for returnPath Connection, and for OVN 24.09 or later",
		f.eip.external.Network)}
}

// emitFIPSubnetAccess lets the targets of FIps in the management VPC reach its other Subnets. With its ConfigMap, Kube-OVN
// writes a source route for each address that a NAT row translates, and stock OVN prefers it to connected routes. Packets
// through the on-link loopback port use connected routes only.
func (c *compiler) emitFIPSubnetAccess() {
	if c.w.Management == nil {
		return
	}
	f := c.familyOf(nil)
	for _, on := range c.listPodSubnets(f) {
		var targets []netip.Addr
		for _, fip := range c.fips {
			if fip.translated && on.project.owns(fip.target) {
				targets = append(targets, fip.target)
			}
		}
		others := slices.Clone(c.w.Management.JoinPrefixes)
		for _, other := range c.listPodSubnets(f) {
			if other.subnetName() != on.subnetName() {
				others = append(others, other.project.prefix(f).Masked())
			}
		}
		if prefixes := joinPrefixes(f, others); len(targets) > 0 && prefixes != "" {
			on.emitSubnetAccess(f, joinAddresses(targets), prefixes)
		}
	}
}

// emitSubnetAccess leads packets from addresses of the subnet to prefixes through the on-link loopback port.
func (c *compiler) emitSubnetAccess(f ipfamily.Family, targets, prefixes string) {
	from, to := ownership.FIPTargetSet(c.subnetName()), ownership.OtherSubnetSet(c.subnetName())
	c.emitOnLinkPort(f)
	for _, row := range []intent.Row{
		intent.AddressSet{Name: from, Addresses: targets},
		intent.AddressSet{Name: to, Addresses: prefixes},
		c.onLinkPolicy(ownership.FIPSubnets, f,
			match.All(match.From(match.AddressSet(f, from)), match.To(match.AddressSet(f, to)))).ToRouterPolicy(),
	} {
		c.out.AddRow(c.w.Shard, row, c.project.ref())
	}
}

// emitManagementFIP adds the translation of a FIp of the management VPC.
func (c *compiler) emitManagementFIP(f *fip) {
	why := c.checkEIPReady(f.eip)
	if why.OK() {
		why = c.checkConnected(f.eip.external)
	}
	if on := c.findSubnet(f.target); on != nil && on.subnet != nil {
		why = firstProblem(on.checkReturnNetwork("target", f.target), why)
	}
	if f.waiting = firstProblem(f.waiting, why); !why.OK() {
		return
	}
	f.translated = true
	c.out.AddRow(c.w.Shard, intent.DNAT{
		GatewayPort: c.externalPortName(f.eip.external.Subnet), External: f.eip.address, Logical: f.target,
	}, f.key.Ref())
}
