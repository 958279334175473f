package compile

import (
	"fmt"
	"net/netip"

	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/ownership"
	"github.com/sallyport/sallyport/internal/snapshot"
	"github.com/sallyport/sallyport/internal/state"
)

// The management VPC is Kube-OVN's own, with the pods of all namespaces that have no Subnet of their own. Nobody asks for it by a
// Project, and its way out is the nodes'. So none of its networks is a default one: each has a leg.

// manage gives the shard to Kube-OVN.
func (c *compiler) manage() {
	m := c.w.Management
	c.project = &project{Project: snapshot.Project{Prefixes: m.Prefixes, Gateways: m.Gateways}, key: c.key(intent.Vpc, c.w.Shard)}
	if c.w.Config.ManagementNetwork == "" {
		return
	}
	found := c.networks(func(x snapshot.External) bool { return x.Type == c.w.Config.ManagementNetwork && !x.Dual })
	if len(found) > 0 {
		c.project.reach = pick(found,
			func(x *snapshot.External) bool { return c.ported(x.Subnet) },
			func(x *snapshot.External) bool { return x.Default && x.Free > 0 })
	}
}

// connects says whether the router's port on an external subnet is a row of ours. Kube-OVN connects its own VPC to the one that its
// ConfigMap names, and to no other.
func (c *compiler) connects(subnet string) bool {
	return c.w.Management != nil && !c.w.Management.Connected[subnet]
}

// given says whether somebody else has made the OvnEip of that port.
func (c *compiler) given(subnet string) bool {
	return c.w.Management != nil && c.ported(subnet) && !c.w.Engine.OvnEips[c.port(subnet)].Ours
}

// connectManagement wants that port. Its address is that of an OvnEip.
func (c *compiler) connectManagement(x *snapshot.External) {
	row := func(r intent.Row) { c.in.Row(c.w.Shard, r, portRef(c.port(x.Subnet))) }
	eip, name := c.w.Engine.OvnEips[c.port(x.Subnet)], c.port(x.Subnet)
	if !c.connects(x.Subnet) || !eip.Ready || eip.Deleting || c.w.Engine.Ports == nil || len(c.chassis()) == 0 {
		return
	}
	row(intent.RouterPort{
		Name: name, MAC: intent.MAC(name), Network: netip.PrefixFrom(eip.Address, x.Prefix.Bits()), Table: ownership.ReturnTable(x.Subnet),
	})
	row(intent.SwitchPort{Switch: x.Subnet, Name: c.socketOn(x.Subnet), RouterPort: name, Announces: true})
	for i, chassis := range c.chassis() {
		row(intent.Gateway{Port: name, Chassis: chassis, Priority: 100 - min(i, 99)})
	}
}

// chassis are those that may hold gateways. When no node is said to, it stays as it is: Kube-OVN takes the label off all nodes at its
// start when it has no ConfigMap.
func (c *compiler) chassis() []string {
	if m := c.w.Management; len(m.Chassis) > 0 {
		return m.Chassis
	}
	return c.w.Management.Holding
}

// portRef is what all who use a network need.
func portRef(port string) state.Ref { return state.Ref{Kind: "Gateway", Name: port} }

// gated says whether some node can hold the gateways of the management VPC.
func (c *compiler) gated() intent.Finding {
	if c.w.Management == nil || len(c.chassis()) > 0 {
		return intent.Finding{}
	}
	return intent.Finding{
		Reason: intent.NoGateway, Message: "no node may hold the gateway of the management VPC; label some with ovn.kubernetes.io/external-gw=true",
	}
}

// reachNetwork lets pods of the management VPC reach the hosts of one network, and so the external addresses of projects on it, with
// the address of the router's port there. Everything else goes by the nodes, as ever.
func (c *compiler) reachNetwork() {
	x := c.project.reaches()
	if x == nil || !c.connected(x.Subnet) {
		return
	}
	by := portRef(c.port(x.Subnet))
	c.bounce()
	c.policy(intent.Allow(ownership.ReachOnLink, fmt.Sprintf("inport == %q", ownership.OnLinkPort(c.w.Shard))), by) // not to the nodes
	c.policy(c.onLink(ownership.Reach, fmt.Sprintf("ip4.src == %s && ip4.dst == %s", c.project.prefix4().Masked(), x.Prefix.Masked())), by)
	if !c.w.Management.Translated {
		c.in.Row(c.w.Shard, intent.SourceNAT{External: c.w.Engine.OvnEips[c.port(x.Subnet)].Address, Logical: c.project.prefix4().Masked()}, by)
	}
}

// reaches is the network whose hosts the pods reach, or nil.
func (p *project) reaches() *snapshot.External {
	if !p.alive() || !p.prefix4().IsValid() {
		return nil
	}
	return p.reach
}
