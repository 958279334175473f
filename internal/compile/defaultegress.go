package compile

import (
	"fmt"
	"net/netip"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/state"
)

// emitDefaultEgress makes what pods send to the outside leave by the project's default network with the address of the
// router's port there.
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
	if !p.ipv4Prefix().IsValid() || !c.w.Engine.Vpc.Exists || !c.isPortReady(p.defaultNetwork.Subnet) {
		return
	}
	c.emitOnLinkPort()
	c.emitStaticRoute(intent.DefaultRoute(p.defaultNetwork.Gateway))
	within := p.ipv4Prefix().Masked()
	c.emitRouterPolicy(intent.ReroutePolicy(ownership.DefaultEgress,
		fmt.Sprintf("inport == %q && ip4.src == %s && ip4.dst != %s", c.internalPortName(), within, within),
		p.defaultNetwork.Gateway), p.ref())
	c.emitRouterPolicy(c.onLinkPolicy(ownership.DefaultEgressOnLink,
		"ip4.dst == "+p.defaultNetwork.Prefix.Masked().String()), p.ref())
}

// isPortReady says whether the router's port on an external subnet has its address.
func (c *compiler) isPortReady(subnet string) bool {
	eip := c.w.Engine.OvnEips[c.externalPortName(subnet)]
	return eip.Ready && !eip.Deleting
}

func (c *compiler) checkProjectReady() intent.Finding {
	engine, way := c.w.Engine, c.project.defaultNetwork
	port := engine.OvnEips[c.externalPortName(way.Subnet)]
	switch {
	case !c.checkRebuild().OK():
		return c.checkRebuild()
	case !engine.Vpc.Ready:
		return intent.Finding{
			Reason:  intent.WaitingForEngine,
			Message: fmt.Sprintf("Kube-OVN has not made Vpc %s yet", c.w.Shard),
		}
	case !engine.Subnet.Ready:
		return intent.Finding{
			Reason:  intent.WaitingForEngine,
			Message: fmt.Sprintf("Kube-OVN has not made Subnet %s yet", c.subnetName()),
		}
	case c.w.Namespace.PodSubnet != "" && c.w.Namespace.PodSubnet != c.subnetName(): // Kube-OVN saw the namespace before the Subnet
		return intent.Finding{Reason: intent.WaitingForEngine, Message: fmt.Sprintf(
			"Kube-OVN would still give pods in namespace %s addresses of Subnet %s; create them later", c.w.Shard,
			c.w.Namespace.PodSubnet)}
	case port.Deleting:
		return beingDeletedFinding(intent.OvnEip, c.externalPortName(way.Subnet))
	case engine.SnatRule.Deleting:
		return beingDeletedFinding(intent.OvnSnatRule, c.w.Shard)
	case !c.checkExternalPort(way.Subnet).OK():
		return c.checkExternalPort(way.Subnet)
	case c.project.ipv4Prefix().IsValid() && (!engine.SnatRule.Ready || engine.SnatRule.ExternalIP != port.Address):
		return intent.Finding{
			Reason:  intent.WaitingForEngine,
			Message: fmt.Sprintf("Kube-OVN has not carried out OvnSnatRule %s yet", c.w.Shard),
		}
	default:
		return intent.Finding{}
	}
}

// emitDefaultSNAT wants the SNAT rule, and the NAT row that Kube-OVN makes of it.
func (c *compiler) emitDefaultSNAT() {
	p, have, name := c.project, c.w.Engine.SnatRule, c.externalPortName(c.project.defaultNetwork.Subnet)
	port := c.w.Engine.OvnEips[name]
	ready := port.Ready && c.isConnected(p.defaultNetwork.Subnet) && c.w.Engine.Subnet.Ready
	if !p.ipv4Prefix().IsValid() || port.Deleting || c.failedWithoutAddress(name) || have.Stuck ||
		(!ready && have.OvnEip != name) {
		return // what is there stays while something is slow
	}
	if have.ExternalIP.IsValid() && port.Address.IsValid() && have.ExternalIP != port.Address {
		return // Kube-OVN reads a rule once: it has to go, and comes again with the port's new address
	}
	spec := kubeovn.OvnSnatRuleSpec{OvnEip: name, VpcSubnet: c.subnetName()}
	c.out.AddObject(c.clusterKey(intent.OvnSnatRule, c.w.Shard),
		intent.NewObject(intent.Meta{Labels: ownership.ManagedLabels(c.w.Shard)}, spec), p.ref())
	if have.Ready && !have.Deleting && have.ExternalIP.IsValid() && have.ExternalIP == port.Address {
		c.out.AddRow(c.w.Shard, intent.SNAT{External: have.ExternalIP, Logical: p.ipv4Prefix().Masked()}, p.ref())
	}
}

// The link of the router with itself. What is sent to hop leaves by the port and comes in again by the same port, whose
// routing table is empty, so that only the prefixes of the router's own ports apply. It is needed because Kube-OVN
// gives each VPC a route for its subnet's sources, which stock OVN prefers to the route of a connected prefix. Nobody
// answers for hop, so its MAC address is written down.
var (
	onLinkNextHop = netip.MustParseAddr("169.254.90.2")
	onLinkNetwork = netip.MustParsePrefix("169.254.90.1/30")
)

// emitOnLinkPort wants the link.
func (c *compiler) emitOnLinkPort() {
	if c.w.Engine.RouterPorts == nil {
		return // the router is not there yet
	}
	name, by := ownership.OnLinkLoopbackPort(c.w.Shard), c.project.ref()
	c.out.AddRow(c.w.Shard, intent.LogicalRouterPort{
		Name: name, MAC: intent.DeriveMAC(name), Network: onLinkNetwork, Peer: name, RouteTable: "onlink",
	}, by)
	c.out.AddRow(c.w.Shard, intent.StaticMACBinding{Port: name, Address: onLinkNextHop, MAC: intent.DeriveMAC(name)},
		by)
}

// onLinkPolicy is a policy that sends pods' packets to hosts on a connected prefix to those hosts, not to a gateway. It
// names the inport, or it would catch the packets again when they come back in.
func (c *compiler) onLinkPolicy(priority int, match string) intent.PolicyRoute {
	return intent.ReroutePolicy(priority, fmt.Sprintf("inport == %q && %s", c.internalPortName(), match), onLinkNextHop)
}

// emitRouterPolicy wants a router policy: as an element of the Vpc, and as the row that Kube-OVN makes of it.
func (c *compiler) emitRouterPolicy(p intent.PolicyRoute, by state.Ref) {
	key, element := p.ToVpcEntry(c.w.Shard)
	c.out.AddVpcEntry(key, element, by)
	if c.w.Engine.RouterPorts != nil {
		c.out.AddRow(c.w.Shard, p.ToRouterPolicy(), by)
	}
}

// emitStaticRoute wants a route of the router's main table.
func (c *compiler) emitStaticRoute(r intent.StaticRoute) {
	key, element := r.ToVpcEntry(c.w.Shard)
	c.out.AddVpcEntry(key, element, c.project.ref())
}
