package compile

import (
	"net/netip"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ipfamily"
	"github.com/sallyport/sallyport/internal/model/match"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/snapshot"
	"github.com/sallyport/sallyport/internal/model/state"
)

// The management VPC is Kube-OVN's default VPC, with the pods of all namespaces that have no Subnet of their own. It
// has no Project, and its pods leave through the nodes. So it has no default network: each external network has a
// return port.

// adoptManagementVPC makes Kube-OVN's Vpc the owner of the shard.
func (c *compiler) adoptManagementVPC() {
	m := c.w.Management
	c.project = &project{
		Project: snapshot.Project{Prefixes: m.Prefixes, Gateways: m.Gateways},
		key:     c.clusterKey(intent.Vpc, c.w.Shard),
	}
	c.listOtherSubnets()
	if c.w.Config.ManagementNetworkType == "" {
		return
	}
	found := c.findExternals(func(x snapshot.ExternalSubnet) bool {
		return x.Type == c.w.Config.ManagementNetworkType && !x.Unsupported
	})
	if len(found) > 0 {
		c.project.accessNetwork = pickPreferred(found,
			func(x *snapshot.ExternalSubnet) bool { return c.hasExternalPort(x.Subnet) },
			func(x *snapshot.ExternalSubnet) bool { return x.Default && x.Free > 0 })
	}
}

// ownsExternalPort reports whether the controller creates the router's port on an external subnet itself. Kube-OVN
// connects its default VPC only to the external subnet that its ConfigMap names.
func (c *compiler) ownsExternalPort(subnet string) bool {
	return c.w.Management != nil && !c.w.Management.ConnectedByKubeOVN[subnet]
}

// hasForeignPortEIP reports whether the OvnEip of that port was not created by the controller.
func (c *compiler) hasForeignPortEIP(subnet string) bool {
	return c.w.Management != nil && c.hasExternalPort(subnet) && !c.w.Engine.OvnEips[c.externalPortName(subnet)].Owned
}

// emitManagementPort adds that port. Its address is that of an OvnEip.
func (c *compiler) emitManagementPort(x *snapshot.ExternalSubnet) {
	row := func(r intent.Row) { c.out.AddRow(c.w.Shard, r, gatewayRef(c.externalPortName(x.Subnet))) }
	eip, name := c.w.Engine.OvnEips[c.externalPortName(x.Subnet)], c.externalPortName(x.Subnet)
	if !c.ownsExternalPort(x.Subnet) || !eip.Ready || eip.Deleting || c.w.Engine.RouterPorts == nil ||
		len(c.gatewayChassis()) == 0 {
		return
	}
	row(intent.LogicalRouterPort{
		Name: name, MAC: intent.DeriveMAC(name), Network: netip.PrefixFrom(eip.Address, x.Prefix.Bits()),
		RouteTable: ownership.ReturnRouteTable(x.Subnet),
	})
	row(intent.LogicalSwitchPort{
		Switch:               x.Subnet,
		Name:                 c.routerSwitchPortOn(x.Subnet),
		RouterPort:           name,
		AnnounceNATAddresses: true,
	})
	for i, chassis := range c.gatewayChassis() {
		row(intent.GatewayChassis{Port: name, Chassis: chassis, Priority: 100 - min(i, 99)})
	}
}

// gatewayChassis returns the chassis that may hold gateways. If no node is labelled, the current ones stay: Kube-OVN
// removes the label from all nodes when it starts without its ConfigMap.
func (c *compiler) gatewayChassis() []string {
	if m := c.w.Management; len(m.GatewayChassis) > 0 {
		return m.GatewayChassis
	}
	return c.w.Management.CurrentChassis
}

// gatewayRef is the origin of a gateway port's rows, on which all users of the network depend.
func gatewayRef(port string) state.Ref { return state.Ref{Kind: "Gateway", Name: port} }

// checkGatewayNodes checks that some node can hold the gateways of the management VPC.
func (c *compiler) checkGatewayNodes() intent.Finding {
	if c.w.Management == nil || len(c.gatewayChassis()) > 0 {
		return intent.Finding{}
	}
	return intent.Finding{
		Reason: intent.NoGatewayNode, Message: "no node can hold the gateway of the management VPC; " +
			"label at least one with ovn.kubernetes.io/external-gw=true",
	}
}

// emitHostAccess lets pods of the management VPC reach the hosts of one network, and so the external addresses of
// projects on it, with the address of the router's port there. All other traffic still leaves through the nodes.
func (c *compiler) emitHostAccess() {
	x := c.project.activeAccessNetwork()
	if x == nil || !c.isConnected(x.Subnet) {
		return
	}
	by := gatewayRef(c.externalPortName(x.Subnet))
	c.emitManagementOnLinkPort(x.Family())
	inside := c.project.prefixOn(x).Masked()
	c.emitRouterPolicy(c.onLinkPolicy(ownership.Reach, x.Family(), match.All(
		match.From(match.Prefix(inside)), match.To(match.Prefix(x.Prefix.Masked())))), by)
	if !c.w.Management.HasForeignSNAT {
		c.out.AddRow(c.w.Shard, intent.SNAT{
			External: c.w.Engine.OvnEips[c.externalPortName(x.Subnet)].Address,
			Logical:  inside,
		}, by)
	}
}

// emitManagementOnLinkPort adds the on-link loopback port, and the policy that overrides Kube-OVN's for packets from it,
// which would send them to the nodes.
func (c *compiler) emitManagementOnLinkPort(f ipfamily.Family) {
	c.emitOnLinkPort(f)
	c.emitRouterPolicy(intent.AllowPolicy(ownership.ReachOnLink,
		match.InPort(ownership.OnLinkLoopbackPort(c.w.Shard))), c.project.ref())
}

// activeAccessNetwork returns the network whose hosts the pods can reach, or nil.
func (p *project) activeAccessNetwork() *snapshot.ExternalSubnet {
	if !p.isActive() || p.accessNetwork == nil || !p.prefixOn(p.accessNetwork).IsValid() {
		return nil
	}
	return p.accessNetwork
}
