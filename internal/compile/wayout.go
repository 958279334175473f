package compile

import (
	"fmt"
	"net/netip"

	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/kubeovn"
	"github.com/sallyport/sallyport/internal/ownership"
	"github.com/sallyport/sallyport/internal/state"
)

// leaveByDefault makes what pods send to the outside leave by the project's default network with the address of the
// router's port there.
func (c *compiler) leaveByDefault() {
	p := c.project
	if !p.alive() || p.way == nil {
		return
	}
	p.waiting = c.projectWaits()
	if c.vpcLeaves() {
		return
	}
	c.translateSource()
	if !p.prefix4().IsValid() || !c.w.Engine.Vpc.Exists || !c.portReady(p.way.Subnet) {
		return
	}
	c.bounce()
	c.route(intent.DefaultRoute(p.way.Gateway))
	within := p.prefix4().Masked()
	c.policy(intent.Reroute(ownership.WayOut,
		fmt.Sprintf("inport == %q && ip4.src == %s && ip4.dst != %s", c.inport(), within, within), p.way.Gateway), p.ref())
	c.policy(c.onLink(ownership.WayOutOnLink, "ip4.dst == "+p.way.Prefix.Masked().String()), p.ref())
}

// portReady says whether the router's port on an external subnet has its address.
func (c *compiler) portReady(subnet string) bool {
	eip := c.w.Engine.OvnEips[c.port(subnet)]
	return eip.Ready && !eip.Deleting
}

func (c *compiler) projectWaits() intent.Finding {
	engine, way := c.w.Engine, c.project.way
	port := engine.OvnEips[c.port(way.Subnet)]
	switch {
	case !c.rebuilt().OK():
		return c.rebuilt()
	case !engine.Vpc.Ready:
		return intent.Finding{Reason: intent.WaitForEngine, Message: fmt.Sprintf("Kube-OVN has not made Vpc %s yet", c.w.Shard)}
	case !engine.Subnet.Ready:
		return intent.Finding{Reason: intent.WaitForEngine, Message: fmt.Sprintf("Kube-OVN has not made Subnet %s yet", c.subnet())}
	case c.w.Namespace.PodSubnet != "" && c.w.Namespace.PodSubnet != c.subnet(): // Kube-OVN saw the namespace before the Subnet
		return intent.Finding{Reason: intent.WaitForEngine, Message: fmt.Sprintf(
			"Kube-OVN would still give pods in namespace %s addresses of Subnet %s; create them later", c.w.Shard, c.w.Namespace.PodSubnet)}
	case port.Deleting:
		return beingDeleted(intent.OvnEip, c.port(way.Subnet))
	case engine.Snat.Deleting:
		return beingDeleted(intent.OvnSnatRule, c.w.Shard)
	case !c.unported(way.Subnet).OK():
		return c.unported(way.Subnet)
	case c.project.prefix4().IsValid() && (!engine.Snat.Ready || engine.Snat.External != port.Address):
		return intent.Finding{Reason: intent.WaitForEngine, Message: fmt.Sprintf("Kube-OVN has not carried out OvnSnatRule %s yet", c.w.Shard)}
	default:
		return intent.Finding{}
	}
}

// translateSource wants the SNAT rule, and the NAT row that Kube-OVN makes of it.
func (c *compiler) translateSource() {
	p, have, name := c.project, c.w.Engine.Snat, c.port(c.project.way.Subnet)
	port := c.w.Engine.OvnEips[name]
	ready := port.Ready && c.connected(p.way.Subnet) && c.w.Engine.Subnet.Ready
	if !p.prefix4().IsValid() || port.Deleting || c.blank(name) || have.Overlooked || (!ready && have.OvnEip != name) {
		return // what is there stays while something is slow
	}
	if have.External.IsValid() && port.Address.IsValid() && have.External != port.Address {
		return // Kube-OVN reads a rule once: it has to go, and comes again with the port's new address
	}
	spec := kubeovn.OvnSnatRuleSpec{OvnEip: name, VpcSubnet: c.subnet()}
	c.in.Object(c.key(intent.OvnSnatRule, c.w.Shard), intent.NewObject(intent.Meta{Labels: ownership.Labels(c.w.Shard)}, spec), p.ref())
	if have.Ready && !have.Deleting && have.External.IsValid() && have.External == port.Address {
		c.in.Row(c.w.Shard, intent.SourceNAT{External: have.External, Logical: p.prefix4().Masked()}, p.ref())
	}
}

// The link of the router with itself. What is sent to hop leaves by the port and comes in again by the same port, whose
// routing table is empty, so that only the prefixes of the router's own ports apply. It is needed because Kube-OVN gives
// each VPC a route for its subnet's sources, which stock OVN prefers to the route of a connected prefix. Nobody answers
// for hop, so its MAC address is written down.
var (
	hop  = netip.MustParseAddr("169.254.90.2")
	link = netip.MustParsePrefix("169.254.90.1/30")
)

// bounce wants the link.
func (c *compiler) bounce() {
	if c.w.Engine.Ports == nil {
		return // the router is not there yet
	}
	name, by := ownership.OnLinkPort(c.w.Shard), c.project.ref()
	c.in.Row(c.w.Shard, intent.RouterPort{Name: name, MAC: intent.MAC(name), Network: link, Peer: name, Table: "onlink"}, by)
	c.in.Row(c.w.Shard, intent.MACBinding{Port: name, Address: hop, MAC: intent.MAC(name)}, by)
}

// onLink is a policy that sends pods' packets to hosts on a connected prefix to those hosts, not to a gateway. It names the
// inport, or it would catch the packets again when they come back in.
func (c *compiler) onLink(priority int, match string) intent.PolicyRoute {
	return intent.Reroute(priority, fmt.Sprintf("inport == %q && %s", c.inport(), match), hop)
}

// policy wants a router policy: as an element of the Vpc, and as the row that Kube-OVN makes of it.
func (c *compiler) policy(p intent.PolicyRoute, by state.Ref) {
	key, element := p.In(c.w.Shard)
	c.in.Element(key, element, by)
	if c.w.Engine.Ports != nil {
		c.in.Row(c.w.Shard, p.Row(), by)
	}
}

// route wants a route of the router's main table.
func (c *compiler) route(r intent.StaticRoute) {
	key, element := r.In(c.w.Shard)
	c.in.Element(key, element, c.project.ref())
}
