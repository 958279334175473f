package compile

import (
	"net/netip"
	"slices"
	"strings"

	"go4.org/netipx"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ipfamily"
	"github.com/sallyport/sallyport/internal/model/match"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/snapshot"
	"github.com/sallyport/sallyport/internal/model/state"
)

// returnPort is a second port between the project's router and its switch, for one external network. Packets that
// arrive from the network reach the pods through it. An ACL writes the network's number into the label of each
// connection that begins there. Replies get the label as packet mark, on the pod's own node, and the mark routes them
// through the return port to the network's gateway. The rows do not depend on the number of pods, addresses and ports.
type returnPort struct {
	network *snapshot.ExternalSubnet
	vpc     string
	subnet  netip.Prefix // the project's prefix
	address netip.Addr   // the router's address in it, which no host uses
	nextHop netip.Addr   // reserved next hop that the mark selects
	mark    int          // connection label and packet mark
	mac     string
	// Names of the router port, the switch port, the port group, and the router's port on the network.
	routerPort, switchPort, portGroup, externalPort string
	// targets are the targets of floating IPs and load balancers on this network only.
	targets []netip.Addr
}

func (l *returnPort) ref() state.Ref {
	return state.Ref{Kind: "ReturnPath", Namespace: l.vpc, Name: l.network.Subnet}
}

// planReturnPorts returns the return ports of the secondary networks among those that the project uses.
func (c *compiler) planReturnPorts(used []*snapshot.ExternalSubnet) []*returnPort {
	if !c.w.Engine.RouterPorts[c.internalPortName()] {
		return nil // the switch does not exist yet, or is being removed
	}
	var out []*returnPort
	numbers := map[int]bool{}
	networks := slices.DeleteFunc(used, func(x *snapshot.ExternalSubnet) bool {
		return c.usesDefaultReturn(x) || c.returnsBySource(x)
	})
	slices.SortFunc(networks, func(a, b *snapshot.ExternalSubnet) int { return strings.Compare(a.Subnet, b.Subnet) })
	for i, address := range c.assignReturnIPs(networks) {
		if !address.IsValid() {
			continue
		}
		l := c.newReturnPort(networks[i], address)
		for numbers[l.mark] {
			l.mark++
		}
		numbers[l.mark] = true
		out = append(out, l)
	}
	return out
}

func (c *compiler) newReturnPort(n *snapshot.ExternalSubnet, address netip.Addr) *returnPort {
	port := ownership.ReturnRouterPort(c.w.Shard, c.subnetName(), n.Subnet)
	return &returnPort{
		network: n, vpc: c.w.Shard, subnet: c.project.prefixOn(n).Masked(), address: address,
		mark: ownership.NetworkMark(n.Subnet), mac: intent.DeriveMAC(port),
		nextHop:    c.reservedNextHop(address),
		routerPort: port, switchPort: ownership.ReturnSwitchPort(c.w.Shard, c.subnetName(), n.Subnet),
		portGroup:    ownership.ReturnPortGroup(c.subnetName(), n.Subnet),
		externalPort: c.externalPortName(n.Subnet),
	}
}

// reservedNextHop returns the next hop for a return port. It is as stable as the port's address, and no host has it. No
// other port of the router has its network: northd accepts any port whose network contains a policy's next hop.
func (c *compiler) reservedNextHop(returnIP netip.Addr) netip.Addr {
	f := ipfamily.Of(returnIP)
	index := slices.Index(reservedAddresses(c.project.prefix(f)), returnIP)
	return addressAt(c.reservedNextHops(f), uint32(2+index)) //nolint:gosec // there are few
}

// emitHairpinPort adds the hairpin port. Through it the router sends replies back into the switch, and from there they
// enter the return port of their network. Packets that pods themselves send to it are dropped. So are unicast packets
// in broadcast or multicast frames, which would reach all return ports.
func (c *compiler) emitHairpinPort(f ipfamily.Family) {
	row := func(r intent.Row) { c.out.AddRow(c.w.Shard, r, c.hairpinRef()) }
	name := ownership.HairpinRouterPort(c.w.Shard, c.subnetName())
	row(intent.LogicalRouterPort{Name: name, MAC: intent.DeriveMAC(name), Network: c.reservedNextHops(f)})
	row(intent.LogicalSwitchPort{
		Switch:     c.subnetName(),
		Name:       ownership.HairpinSwitchPort(c.w.Shard, c.subnetName()),
		RouterPort: name,
	})
	row(c.newMark(110, match.ToMAC(intent.DeriveMAC(name)), ownership.ForgedMark))
	row(c.newMark(115, match.All(match.MulticastFrame(), match.UnicastPacket(f)), ownership.ForgedMark))
	c.emitRouterPolicy(intent.DropPolicy(ownership.ReturnForged, match.Marked(ownership.ForgedMark)),
		c.hairpinRef())
}

// hairpinRef is the origin of the hairpin port's rows, on which all return ports depend.
func (c *compiler) hairpinRef() state.Ref {
	return state.Ref{Kind: "ReturnPath", Namespace: c.w.Shard, Name: "turn"}
}

// emitReturnPort adds the policies of a return port, and its rows as soon as the router has a port on the network. The
// policies are kept when that port is deleted and recreated, because Kube-OVN writes them slowly.
func (c *compiler) emitReturnPort(l *returnPort) {
	c.emitRouterPolicy(intent.ReroutePolicy(ownership.ReturnReply,
		match.All(match.InPort(c.internalPortName()), match.Marked(l.mark)), l.nextHop), l.ref())
	c.emitRouterPolicy(intent.ReroutePolicy(ownership.ReturnLeave, match.All(
		match.InPort(l.routerPort), match.NotTo(match.Prefix(l.network.Prefix.Masked()))), l.network.Gateway), l.ref())
	if c.w.Management != nil { // Kube-OVN's policy would send it to the nodes
		c.emitRouterPolicy(intent.AllowPolicy(ownership.ReturnLeave,
			match.All(match.InPort(l.routerPort), match.To(match.Prefix(l.network.Prefix.Masked())))), l.ref())
	}
	if !c.w.Engine.RouterPorts[l.externalPort] {
		return
	}
	row := func(r intent.Row) { c.out.AddRow(c.w.Shard, r, l.ref()) }
	c.connectReturnPort(l, row)
	c.emitLabelACLs(l, row)
	c.emitMarkQoS(l, row)
}

// connectReturnPort adds the return port itself, and the routes that send packets from the network through it.
func (c *compiler) connectReturnPort(l *returnPort, row func(intent.Row)) {
	table := ownership.ReturnRouteTable(l.network.Subnet)
	// The prefix is one bit shorter than the subnet's, so that the port has a neighbour entry for each pod but
	// Kube-OVN's port always has the longer match.
	row(intent.LogicalRouterPort{
		Name:       l.routerPort,
		MAC:        l.mac,
		Network:    netip.PrefixFrom(l.address, l.subnet.Bits()-1),
		RouteTable: table,
	})
	row(intent.LogicalSwitchPort{Switch: c.subnetName(), Name: l.switchPort, RouterPort: l.routerPort})
	row(intent.StaticMACBinding{
		Port:    ownership.HairpinRouterPort(c.w.Shard, c.subnetName()),
		Address: l.nextHop,
		MAC:     l.mac,
	})
	if !c.ownsExternalPort(l.network.Subnet) { // the controller's own port has the option already
		row(intent.RouteTableOption(l.externalPort, table))
	}
	row(intent.LogicalRouterStaticRoute{
		RouteTable: table,
		Prefix:     l.network.Family().Everything(),
		NextHop:    l.network.Gateway,
		OutputPort: l.externalPort,
	})
	for _, half := range splitPrefix(l.subnet) {
		row(intent.LogicalRouterStaticRoute{RouteTable: table, Prefix: half, OutputPort: l.routerPort})
	}
}

// emitLabelACLs adds the ACLs that label each connection with the network it arrived on. Connections from the default
// network also get a label, so that a connection without one must be older than the return port.
func (c *compiler) emitLabelACLs(l *returnPort, row func(intent.Row)) {
	row(intent.PortGroup{Name: l.portGroup, Ports: l.switchPort})
	emitLabel(l.portGroup, match.All(match.InPort(l.switchPort), match.IP()), l.mark, 0, row)
	c.emitRouterLabel(l.portGroup, c.isDefaultNetwork(l.network), row)
	row(intent.AddressSet{Name: c.targetSetName(l), Addresses: joinAddresses(l.targets)})
	row(intent.ACL{
		PortGroup: l.portGroup, Direction: intent.FromLport, Tier: ownership.LabelTier,
		Priority: ownership.LabelPriority, Match: c.matchMidStream(l).String(), Action: "pass", Label: l.mark,
	})
}

// emitRouterLabel adds the ACLs of a port group that label the connections from Kube-OVN's router port. If replies with
// that label are redirected, connections that pods have opened themselves have another one: a pod that moves can get an
// answer of a server before it has sent anything on its new node.
func (c *compiler) emitRouterLabel(group string, redirected bool, row func(intent.Row)) {
	in := match.InPort(c.routerSwitchPort())
	emitLabel(group, match.All(in, match.IP()), ownership.DefaultNetworkLabel, 0, row)
	if redirected {
		// OVN writes the label again with each packet, so those that follow have to match, too.
		midStream := match.Either(match.NewConnection(), match.Labelled(ownership.OwnConnectionLabel))
		own := match.All(in, match.TCPToPortFrom(firstClientPort), match.TCPWithoutSYN(), midStream)
		emitLabel(group, own, ownership.OwnConnectionLabel, 1, row)
	}
}

// firstClientPort is the lowest port from which clients usually connect. Servers have lower ones.
const firstClientPort = 32768

// emitLabel adds the ACLs of a port group that label connections. Of several, the one with the highest rank is used.
func emitLabel(group string, packets match.Expr, label, rank int, row func(intent.Row)) {
	acl := intent.ACL{
		PortGroup: group, Direction: intent.ToLport, Tier: ownership.LabelTier, Priority: ownership.LabelPriority + rank,
		Match: packets.String(), Action: "pass", Label: label,
	}
	row(acl)
	acl.Tier, acl.Priority, acl.Action = ownership.LabelLastTier, rank, "allow-related"
	row(acl)
}

// emitMarkQoS adds the QoS rows that mark replies. Marks are cleared when a reply comes back from the router, before it
// leaves the node. Marks set by a sender are cleared as well.
func (c *compiler) emitMarkQoS(l *returnPort, row func(intent.Row)) {
	mark := func(priority int, packets match.Expr, mark int) { row(c.newMark(priority, packets, mark)) }
	hairpin := ownership.HairpinSwitchPort(c.w.Shard, c.subnetName())
	mark(120, match.All(match.InPort(hairpin), match.Marked(l.mark)), 0)
	mark(110, match.ToMAC(l.mac), ownership.ForgedMark)
	mark(100, match.All(match.Tracked(), match.Labelled(l.mark)), l.mark)
	if c.isDefaultNetwork(l.network) { // connections that are older than the return port
		mark(97, match.All(match.Tracked(), match.Reply(), match.Labelled(ownership.DefaultNetworkLabel),
			match.NotTo(match.Prefix(l.subnet))), l.mark)
	}
	mark(96, match.All(match.Tracked(), match.Reply(), match.Labelled(0), c.matchFromTargets(l)), l.mark)
	mark(95, c.matchMidStream(l), l.mark)
	mark(90, match.Marked(l.mark), 0)
}

// newMark returns the QoS row that marks packets on the VPC's switch.
func (c *compiler) newMark(priority int, packets match.Expr, mark int) intent.QoS {
	return intent.QoS{Switch: c.subnetName(), Priority: priority, Match: packets.String(), Mark: mark}
}

// routerSwitchPortOn returns the name of a switch's port to the router. Kube-OVN defines it.
func (c *compiler) routerSwitchPortOn(subnet string) string {
	return kubeovn.RouterSwitchPort(subnet, c.w.Shard)
}

// routerSwitchPort returns the port of the project's own switch to the router.
func (c *compiler) routerSwitchPort() string { return c.routerSwitchPortOn(c.subnetName()) }

func (c *compiler) targetSetName(l *returnPort) string {
	return ownership.ReturnTargetSet(c.subnetName(), l.network.Subnet)
}

// matchFromTargets returns the match for packets to the outside from targets that are reachable on this network only.
// Replies among them without a label belong to a connection through this network that is older than the return port.
func (c *compiler) matchFromTargets(l *returnPort) match.Expr {
	return match.All(match.From(match.AddressSet(l.network.Family(), c.targetSetName(l))), match.NotTo(match.Prefix(l.subnet)))
}

// matchMidStream returns the match for packets from such targets in the middle of a connection that their node has
// never seen, from a server's port: the target moved from another node, or connections were not tracked before the
// return port existed.
func (c *compiler) matchMidStream(l *returnPort) match.Expr {
	return match.All(match.Tracked(), match.NewConnection(), c.matchFromTargets(l),
		match.TCPFromPortBelow(firstClientPort), match.TCPWithoutSYN())
}

// joinAddresses formats addresses, sorted as text and separated by spaces.
func joinAddresses(addresses []netip.Addr) string {
	var out []string
	for _, a := range addresses {
		out = append(out, a.String())
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), " ")
}

// splitPrefix returns the two halves of a prefix. They are longer than that of Kube-OVN's port, so they are preferred
// to it.
func splitPrefix(p netip.Prefix) [2]netip.Prefix {
	low := netip.PrefixFrom(p.Addr(), p.Bits()+1)
	return [2]netip.Prefix{low, netip.PrefixFrom(netipx.PrefixLastIP(low).Next(), low.Bits())}
}
