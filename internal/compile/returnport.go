package compile

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/snapshot"
	"github.com/sallyport/sallyport/internal/model/state"
)

// returnPort is a second way between the project's router and its switch, for one network. What came in by the network
// goes to the pods by it. A rule writes the network's number into the label of each connection that begins there;
// replies get it back as their mark, on the pod's own node, and the mark leads them through the leg to the network's
// gateway. The rows are the same for any number of pods, addresses and ports.
type returnPort struct {
	network *snapshot.ExternalSubnet
	vpc     string
	subnet  netip.Prefix // the project's subnet
	address netip.Addr   // in it: the router's, which nobody asks for
	nextHop netip.Addr   // where the mark leads to
	mark    int          // label and mark
	mac     string
	// Names: of the router's port and the switch's, of the port group, and of the router's own port on the network.
	routerPort, switchPort, portGroup, externalPort string
	// targets are the targets of floating IPs and load balancers on this network and no other.
	targets []netip.Addr
}

func (l *returnPort) ref() state.Ref {
	return state.Ref{Kind: "ReturnPath", Namespace: l.vpc, Name: l.network.Subnet}
}

// planReturnPorts are those of the secondary networks that the project uses.
func (c *compiler) planReturnPorts() []*returnPort {
	if !c.w.Engine.RouterPorts[c.internalPortName()] {
		return nil // the switch is not there yet, or goes
	}
	var out []*returnPort
	numbers := map[int]bool{}
	networks := slices.DeleteFunc(c.usedExternals(), func(x *snapshot.ExternalSubnet) bool {
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
		network: n, vpc: c.w.Shard, subnet: c.project.ipv4Prefix().Masked(), address: address,
		mark: ownership.NetworkMark(n.Subnet), mac: intent.DeriveMAC(port),
		nextHop:    c.reservedNextHop(address),
		routerPort: port, switchPort: ownership.ReturnSwitchPort(c.w.Shard, c.subnetName(), n.Subnet),
		portGroup:    ownership.ReturnPortGroup(c.subnetName(), n.Subnet),
		externalPort: c.externalPortName(n.Subnet),
	}
}

// reservedNextHops are the addresses that marks lead to. They are of a network of their own, so that no other port of
// the router has it: northd takes any port whose network has a policy's next hop.
var reservedNextHops = netip.MustParsePrefix("169.254.91.1/24")

// reservedNextHop is the hop to a leg: as stable as the leg's address, and nobody's.
func (c *compiler) reservedNextHop(leg netip.Addr) netip.Addr {
	bytes := reservedNextHops.Addr().As4()
	bytes[3] += byte(1 + slices.Index(reservedAddresses(c.project.ipv4Prefix()), leg)) //nolint:gosec // a project has few reserved addresses
	return netip.AddrFrom4(bytes)
}

// emitHairpinPort wants the port by which replies turn back into the switch, and from there into the leg of their
// network. What pods send to it themselves goes nowhere, and nothing for all goes to the legs.
func (c *compiler) emitHairpinPort() {
	row := func(r intent.Row) { c.out.AddRow(c.w.Shard, r, c.hairpinRef()) }
	name := ownership.HairpinRouterPort(c.w.Shard, c.subnetName())
	row(intent.LogicalRouterPort{Name: name, MAC: intent.DeriveMAC(name), Network: reservedNextHops})
	row(intent.LogicalSwitchPort{
		Switch:     c.subnetName(),
		Name:       ownership.HairpinSwitchPort(c.w.Shard, c.subnetName()),
		RouterPort: name,
	})
	row(intent.QoS{
		Switch:   c.subnetName(),
		Priority: 110,
		Match:    "eth.dst == " + intent.DeriveMAC(name),
		Mark:     ownership.ForgedMark,
	})
	row(intent.QoS{
		Switch:   c.subnetName(),
		Priority: 115,
		Match:    "eth.mcast && ip4 && !ip4.mcast && ip4.dst != 255.255.255.255",
		Mark:     ownership.ForgedMark,
	})
	c.emitRouterPolicy(intent.DropPolicy(ownership.ReturnForged, fmt.Sprintf("pkt.mark == %d", ownership.ForgedMark)),
		c.hairpinRef())
}

// hairpinRef is what all legs need.
func (c *compiler) hairpinRef() state.Ref {
	return state.Ref{Kind: "ReturnPath", Namespace: c.w.Shard, Name: "turn"}
}

// emitReturnPort wants the policies of a leg, and its rows as soon as the router has a port on the network. The
// policies stay when that port goes and comes again: Kube-OVN writes them slowly.
func (c *compiler) emitReturnPort(l *returnPort) {
	c.emitRouterPolicy(intent.ReroutePolicy(ownership.ReturnReply,
		fmt.Sprintf("inport == %q && pkt.mark == %d", c.internalPortName(), l.mark), l.nextHop), l.ref())
	c.emitRouterPolicy(intent.ReroutePolicy(ownership.ReturnLeave, fmt.Sprintf("inport == %q && ip4.dst != %s",
		l.routerPort, l.network.Prefix.Masked()), l.network.Gateway), l.ref())
	if c.w.Management != nil { // where a policy of Kube-OVN's would send it to the nodes
		c.emitRouterPolicy(intent.AllowPolicy(ownership.ReturnLeave,
			fmt.Sprintf("inport == %q && ip4.dst == %s", l.routerPort, l.network.Prefix.Masked())), l.ref())
	}
	if !c.w.Engine.RouterPorts[l.externalPort] {
		return
	}
	row := func(r intent.Row) { c.out.AddRow(c.w.Shard, r, l.ref()) }
	c.connectReturnPort(l, row)
	c.emitLabelACLs(l, row)
	c.emitMarkQoS(l, row)
}

// connectReturnPort wants the leg itself, and the routes by which what comes in by the network takes it.
func (c *compiler) connectReturnPort(l *returnPort, row func(intent.Row)) {
	table := ownership.ReturnRouteTable(l.network.Subnet)
	// Its prefix has one bit less than the subnet's, so that it has a neighbour entry for each pod and yet never wins
	// against Kube-OVN's port.
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
	if !c.ownsExternalPort(l.network.Subnet) { // then it has it already
		row(intent.RouteTableOption(l.externalPort, table))
	}
	row(intent.LogicalRouterStaticRoute{
		RouteTable: table,
		Prefix:     netip.PrefixFrom(netip.IPv4Unspecified(), 0),
		NextHop:    l.network.Gateway,
		OutputPort: l.externalPort,
	})
	for _, half := range splitPrefix(l.subnet) {
		row(intent.LogicalRouterStaticRoute{RouteTable: table, Prefix: half, OutputPort: l.routerPort})
	}
}

// emitLabelACLs wants the rules that write into each connection by which network it came in. What comes in by the
// default network has a label as well, so that a connection without one is older than the leg.
func (c *compiler) emitLabelACLs(l *returnPort, row func(intent.Row)) {
	rule := func(direction intent.Direction, tier, priority int, match, action string, label int) {
		row(intent.ACL{
			PortGroup: l.portGroup,
			Direction: direction,
			Tier:      tier,
			Priority:  priority,
			Match:     match,
			Action:    action,
			Label:     label,
		})
	}
	row(intent.PortGroup{Name: l.portGroup, Ports: l.switchPort})
	for door, label := range map[string]int{l.switchPort: l.mark, c.routerSwitchPort(): ownership.DefaultNetworkLabel} {
		comes := fmt.Sprintf("inport == %q && ip", door)
		rule(intent.ToLport, ownership.LabelTier, ownership.LabelPriority, comes, "pass", label)
		rule(intent.ToLport, ownership.LabelLastTier, 0, comes, "allow-related", label)
	}
	row(intent.AddressSet{Name: c.targetSetName(l), Addresses: joinAddresses(l.targets)})
	rule(intent.FromLport, ownership.LabelTier, ownership.LabelPriority, c.matchMidStream(l), "pass", l.mark)
}

// emitMarkQoS wants the markings of replies. They are wiped when a reply comes back from the router, before it leaves
// the node; and those that a sender brought along are wiped, too.
func (c *compiler) emitMarkQoS(l *returnPort, row func(intent.Row)) {
	mark := func(priority int, match string, mark int) {
		row(intent.QoS{Switch: c.subnetName(), Priority: priority, Match: match, Mark: mark})
	}
	mark(120, fmt.Sprintf("inport == %q && pkt.mark == %d", ownership.HairpinSwitchPort(c.w.Shard, c.subnetName()),
		l.mark), 0)
	mark(110, "eth.dst == "+l.mac, ownership.ForgedMark)
	mark(100, fmt.Sprintf("ct.trk && ct_label.label == %d", l.mark), l.mark)
	if c.isDefaultNetwork(l.network) { // connections that are older than the leg
		mark(97, fmt.Sprintf("ct.trk && ct.rpl && ct_label.label == %d && ip4.dst != %s", ownership.DefaultNetworkLabel,
			l.subnet), l.mark)
	}
	mark(96, "ct.trk && ct.rpl && ct_label.label == 0 && "+c.matchFromTargets(l), l.mark)
	mark(95, c.matchMidStream(l), l.mark)
	mark(90, fmt.Sprintf("pkt.mark == %d", l.mark), 0)
}

// routerSwitchPortOn is the port of a switch to the router. Kube-OVN names it.
func (c *compiler) routerSwitchPortOn(subnet string) string {
	return kubeovn.RouterSwitchPort(subnet, c.w.Shard)
}

// routerSwitchPort is that of the project's switch.
func (c *compiler) routerSwitchPort() string { return c.routerSwitchPortOn(c.subnetName()) }

func (c *compiler) targetSetName(l *returnPort) string {
	return ownership.ReturnTargetSet(c.subnetName(), l.network.Subnet)
}

// matchFromTargets are packets to the outside of targets that are reached by this network only. Replies among them that
// have no label are of a connection by this network that is older than the leg.
func (c *compiler) matchFromTargets(l *returnPort) string {
	return fmt.Sprintf("ip4.src == $%s && ip4.dst != %s", c.targetSetName(l), l.subnet)
}

// matchMidStream are packets of such targets in the middle of a connection that their node has never seen, from the
// port of a server: the target has come from another node, or nobody has kept track before there was a leg.
func (c *compiler) matchMidStream(l *returnPort) string {
	return "ct.trk && ct.new && " + c.matchFromTargets(l) + " && tcp.src < 32768 && tcp.flags == 0/2"
}

// joinAddresses is addresses in the order of their texts, with spaces between.
func joinAddresses(addresses []netip.Addr) string {
	var out []string
	for _, a := range addresses {
		out = append(out, a.String())
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), " ")
}

// splitPrefix are the two halves of a prefix: longer than that of Kube-OVN's port, and so preferred to it.
func splitPrefix(p netip.Prefix) [2]netip.Prefix {
	low := netip.PrefixFrom(p.Addr(), p.Bits()+1)
	bytes := p.Addr().As4()
	bytes[p.Bits()/8] |= 0x80 >> (p.Bits() % 8)
	return [2]netip.Prefix{low, netip.PrefixFrom(netip.AddrFrom4(bytes), p.Bits()+1)}
}
