package compile

import (
	"cmp"
	"fmt"
	"net/netip"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ipfamily"
	"github.com/sallyport/sallyport/internal/model/match"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/state"
)

// emitDefaultEgress routes packets from pods to the outside through the project's default network, with the address of
// the router's port there.
func (c *compiler) emitDefaultEgress() {
	p := c.project
	if !p.isActive() || p.defaultNetwork == nil {
		return
	}
	p.waiting = c.checkProjectReady()
	if c.isVPCTerminating() {
		return
	}
	c.emitDefaultSNAT()
	within := p.prefixOn(p.defaultNetwork).Masked()
	if !within.IsValid() || !c.w.Engine.Vpc.Exists || !c.isPortReady(p.defaultNetwork.Subnet) {
		return
	}
	c.emitOnLinkPort(p.defaultNetwork.Family())
	c.emitStaticRoute(intent.DefaultRoute(p.defaultNetwork.Gateway))
	c.emitRouterPolicy(intent.ReroutePolicy(ownership.DefaultEgress, c.matchEgress(match.Prefix(within)),
		p.defaultNetwork.Gateway), p.ref())
	c.emitRouterPolicy(c.onLinkPolicy(ownership.DefaultEgressOnLink, p.defaultNetwork.Family(),
		match.To(match.Prefix(p.defaultNetwork.Prefix.Masked()))), p.ref())
	c.emitSecondEgress()
}

// isPortReady reports whether the router's port on an external subnet has its address.
func (c *compiler) isPortReady(subnet string) bool {
	eip := c.w.Engine.OvnEips[c.externalPortName(subnet)]
	return eip.Ready && !eip.Deleting
}

func (c *compiler) checkProjectReady() intent.Finding {
	engine, network := c.w.Engine, c.project.defaultNetwork
	port := engine.OvnEips[c.externalPortName(network.Subnet)]
	switch {
	case !c.checkRebuild().OK():
		return c.checkRebuild()
	case !engine.Vpc.Ready:
		return intent.Finding{
			Reason:  intent.WaitingForEngine,
			Message: fmt.Sprintf("Kube-OVN has not created the router of Vpc %s yet", c.w.Shard),
		}
	case !engine.Subnet.Ready:
		return intent.Finding{
			Reason:  intent.WaitingForEngine,
			Message: fmt.Sprintf("Kube-OVN has not created the switch of Subnet %s yet", c.subnetName()),
		}
	// Kube-OVN processed the namespace before the Subnet.
	case c.w.Namespace.PodSubnet != "" && c.w.Namespace.PodSubnet != c.subnetName():
		return intent.Finding{Reason: intent.WaitingForEngine, Message: fmt.Sprintf(
			"Kube-OVN would still assign addresses of Subnet %[2]s to pods in namespace %[1]s; create pods later",
			c.w.Shard, c.w.Namespace.PodSubnet)}
	case port.Deleting:
		return beingDeletedFinding(intent.OvnEip, c.externalPortName(network.Subnet))
	case engine.SnatRule.Deleting:
		return beingDeletedFinding(intent.OvnSnatRule, c.snatRuleName())
	case !c.checkExternalPort(network.Subnet).OK():
		return c.checkExternalPort(network.Subnet)
	case c.project.prefixOn(network).IsValid() && (!engine.SnatRule.Ready || engine.SnatRule.ExternalIP != port.Address):
		return intent.Finding{
			Reason:  intent.WaitingForEngine,
			Message: fmt.Sprintf("Kube-OVN has not applied OvnSnatRule %s yet", c.snatRuleName()),
		}
	default:
		return intent.Finding{}
	}
}

// emitDefaultSNAT adds the OvnSnatRule, and the NAT row that Kube-OVN creates from it.
func (c *compiler) emitDefaultSNAT() {
	p, have, name := c.project, c.w.Engine.SnatRule, c.externalPortName(c.project.defaultNetwork.Subnet)
	port := c.w.Engine.OvnEips[name]
	ready := port.Ready && c.isConnected(p.defaultNetwork.Subnet) && c.w.Engine.Subnet.Ready
	inside := p.prefixOn(p.defaultNetwork).Masked()
	if !inside.IsValid() || port.Deleting || c.failedWithoutAddress(name) || have.Stuck ||
		(!ready && have.OvnEip != name) {
		return // keep the existing rule while something is slow
	}
	if have.ExternalIP.IsValid() && port.Address.IsValid() && have.ExternalIP != port.Address {
		return // Kube-OVN reads a rule once: delete it, then recreate it with the port's new address
	}
	spec := kubeovn.OvnSnatRuleSpec{OvnEip: name, VpcSubnet: c.subnetName()}
	c.out.AddObject(c.clusterKey(intent.OvnSnatRule, c.snatRuleName()),
		intent.NewObject(intent.Meta{Labels: ownership.ManagedLabels(c.w.Shard)}, spec), p.ref())
	if have.Ready && !have.Deleting && have.ExternalIP.IsValid() && have.ExternalIP == port.Address {
		c.out.AddRow(c.w.Shard, intent.SNAT{External: have.ExternalIP, Logical: inside}, p.ref())
	}
}

// snatRuleName returns the name of the OvnSnatRule: that of the VPC, or the one under which it was adopted.
func (c *compiler) snatRuleName() string { return cmp.Or(c.w.Engine.SnatRule.Name, c.w.Shard) }

// The on-link loopback port, a router port linked to itself. A packet sent to its next hop leaves through the port and
// enters the router again through the same port. The port's routing table is empty, so only the connected prefixes of
// the router apply. It is needed because Kube-OVN adds to each VPC a source route for its subnet, which stock OVN
// prefers to the route of a connected prefix. No host answers ARP for the next hop, so its MAC address is a static
// binding.

// emitOnLinkPort adds the on-link loopback port.
func (c *compiler) emitOnLinkPort(f ipfamily.Family) {
	if c.w.Engine.RouterPorts == nil {
		return // the router does not exist yet
	}
	name, by := ownership.OnLinkLoopbackPort(c.w.Shard), c.project.ref()
	port := intent.LogicalRouterPort{
		Name: name, MAC: intent.DeriveMAC(name), Network: internalByFamily[f].onLinkNetwork, Peer: name, RouteTable: "onlink",
	}
	nextHops := []netip.Addr{internalByFamily[f].onLinkNextHop}
	if x := c.secondDefault(); x != nil {
		port.SecondNetwork = internalByFamily[x.Family()].onLinkNetwork
		nextHops = append(nextHops, internalByFamily[x.Family()].onLinkNextHop)
	}
	c.out.AddRow(c.w.Shard, port, by)
	for _, a := range nextHops {
		c.out.AddRow(c.w.Shard, intent.StaticMACBinding{Port: name, Address: a, MAC: intent.DeriveMAC(name)}, by)
	}
}

// onLinkPolicy returns a policy that sends pods' packets to hosts on a connected prefix directly, not to a gateway. It
// matches the inport, or it would match the packets again when they re-enter the router.
func (c *compiler) onLinkPolicy(priority int, f ipfamily.Family, packets match.Expr) intent.PolicyRoute {
	return intent.ReroutePolicy(priority, match.All(match.InPort(c.internalPortName()), packets),
		internalByFamily[f].onLinkNextHop)
}

// emitRouterPolicy adds a router policy: the entry of the Vpc's policyRoutes, and the row that Kube-OVN creates from
// it.
func (c *compiler) emitRouterPolicy(p intent.PolicyRoute, by state.Ref) {
	key, entry := p.ToVpcEntry(c.w.Shard)
	c.out.AddVpcEntry(key, entry, by)
	if c.w.Engine.RouterPorts != nil {
		c.out.AddRow(c.w.Shard, p.ToRouterPolicy(), by)
	}
}

// emitStaticRoute adds a route of the router's main table.
func (c *compiler) emitStaticRoute(r intent.StaticRoute) {
	key, entry := r.ToVpcEntry(c.w.Shard)
	c.out.AddVpcEntry(key, entry, c.project.ref())
}
