package compile

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/ownership"
	"github.com/sallyport/sallyport/internal/snapshot"
	"github.com/sallyport/sallyport/internal/state"
)

// leg is a second way between the project's router and its switch, for one network. What came in by the network goes to the pods
// by it. A rule writes the network's number into the label of each connection that begins there; replies get it back as their
// mark, on the pod's own node, and the mark leads them through the leg to the network's gateway. The rows are the same for any
// number of pods, addresses and ports.
type leg struct {
	network *snapshot.External
	vpc     string
	within  netip.Prefix // the project's subnet
	address netip.Addr   // in it: the router's, which nobody asks for
	hop     netip.Addr   // where the mark leads to
	number  int          // label and mark
	mac     string
	// Names: of the router's port and the switch's, of the port group, and of the router's own port on the network.
	port, socket, group, outside string
	// targets are the targets of floating IPs and load balancers on this network and no other.
	targets []netip.Addr
}

func (l *leg) ref() state.Ref {
	return state.Ref{Kind: "ReturnPath", Namespace: l.vpc, Name: l.network.Subnet}
}

// legs are those of the secondary networks that the project uses.
func (c *compiler) legs() []*leg {
	if !c.w.Engine.Ports[c.inport()] {
		return nil // the switch is not there yet, or goes
	}
	var out []*leg
	numbers := map[int]bool{}
	networks := slices.DeleteFunc(c.used(), func(x *snapshot.External) bool { return c.straight(x) || c.bySource(x) })
	slices.SortFunc(networks, func(a, b *snapshot.External) int { return strings.Compare(a.Subnet, b.Subnet) })
	for i, address := range c.legAddresses(networks) {
		if !address.IsValid() {
			continue
		}
		l := c.leg(networks[i], address)
		for numbers[l.number] {
			l.number++
		}
		numbers[l.number] = true
		out = append(out, l)
	}
	return out
}

func (c *compiler) leg(n *snapshot.External, address netip.Addr) *leg {
	port := ownership.LegRouterPort(c.w.Shard, c.subnet(), n.Subnet)
	return &leg{
		network: n, vpc: c.w.Shard, within: c.project.prefix4().Masked(), address: address, number: ownership.Mark(n.Subnet), mac: intent.MAC(port),
		hop:  c.hopTo(address),
		port: port, socket: ownership.LegSwitchPort(c.w.Shard, c.subnet(), n.Subnet), group: ownership.LegGroup(c.subnet(), n.Subnet),
		outside: c.port(n.Subnet),
	}
}

// hops are the addresses that marks lead to. They are of a network of their own, so that no other port of the router has it: northd
// takes any port whose network has a policy's next hop.
var hops = netip.MustParsePrefix("169.254.91.1/24")

// hopTo is the hop to a leg: as stable as the leg's address, and nobody's.
func (c *compiler) hopTo(leg netip.Addr) netip.Addr {
	bytes := hops.Addr().As4()
	bytes[3] += byte(1 + slices.Index(reserve(c.project.prefix4()), leg)) //nolint:gosec // a project has few reserved addresses
	return netip.AddrFrom4(bytes)
}

// turn wants the port by which replies turn back into the switch, and from there into the leg of their network. What pods send to it
// themselves goes nowhere, and nothing for all goes to the legs.
func (c *compiler) turn() {
	row := func(r intent.Row) { c.in.Row(c.w.Shard, r, c.turnRef()) }
	name := ownership.TurnRouterPort(c.w.Shard, c.subnet())
	row(intent.RouterPort{Name: name, MAC: intent.MAC(name), Network: hops})
	row(intent.SwitchPort{Switch: c.subnet(), Name: ownership.TurnSwitchPort(c.w.Shard, c.subnet()), RouterPort: name})
	row(intent.Marking{Switch: c.subnet(), Priority: 110, Match: "eth.dst == " + intent.MAC(name), Mark: ownership.MarkForged})
	row(intent.Marking{Switch: c.subnet(), Priority: 115, Match: "eth.mcast && ip4 && !ip4.mcast && ip4.dst != 255.255.255.255", Mark: ownership.MarkForged})
	c.policy(intent.Drop(ownership.ReturnForged, fmt.Sprintf("pkt.mark == %d", ownership.MarkForged)), c.turnRef())
}

// turnRef is what all legs need.
func (c *compiler) turnRef() state.Ref {
	return state.Ref{Kind: "ReturnPath", Namespace: c.w.Shard, Name: "turn"}
}

// stand wants the policies of a leg, and its rows as soon as the router has a port on the network. The policies stay when that port
// goes and comes again: Kube-OVN writes them slowly.
func (c *compiler) stand(l *leg) {
	c.policy(intent.Reroute(ownership.ReturnReply, fmt.Sprintf("inport == %q && pkt.mark == %d", c.inport(), l.number), l.hop), l.ref())
	c.policy(intent.Reroute(ownership.ReturnLeave, fmt.Sprintf("inport == %q && ip4.dst != %s", l.port, l.network.Prefix.Masked()), l.network.Gateway), l.ref())
	if c.w.Management != nil { // where a policy of Kube-OVN's would send it to the nodes
		c.policy(intent.Allow(ownership.ReturnLeave, fmt.Sprintf("inport == %q && ip4.dst == %s", l.port, l.network.Prefix.Masked())), l.ref())
	}
	if !c.w.Engine.Ports[l.outside] {
		return
	}
	row := func(r intent.Row) { c.in.Row(c.w.Shard, r, l.ref()) }
	c.connect(l, row)
	c.label(l, row)
	c.mark(l, row)
}

// connect wants the leg itself, and the routes by which what comes in by the network takes it.
func (c *compiler) connect(l *leg, row func(intent.Row)) {
	table := ownership.ReturnTable(l.network.Subnet)
	// Its prefix has one bit less than the subnet's, so that it has a neighbour entry for each pod and yet never wins against
	// Kube-OVN's port.
	row(intent.RouterPort{Name: l.port, MAC: l.mac, Network: netip.PrefixFrom(l.address, l.within.Bits()-1), Table: table})
	row(intent.SwitchPort{Switch: c.subnet(), Name: l.socket, RouterPort: l.port})
	row(intent.MACBinding{Port: ownership.TurnRouterPort(c.w.Shard, c.subnet()), Address: l.hop, MAC: l.mac})
	if !c.connects(l.network.Subnet) { // then it has it already
		row(intent.RoutingTable(l.outside, table))
	}
	row(intent.Route{Table: table, Prefix: netip.PrefixFrom(netip.IPv4Unspecified(), 0), NextHop: l.network.Gateway, Port: l.outside})
	for _, half := range halves(l.within) {
		row(intent.Route{Table: table, Prefix: half, Port: l.port})
	}
}

// label wants the rules that write into each connection by which network it came in. What comes in by the default network has a
// label as well, so that a connection without one is older than the leg.
func (c *compiler) label(l *leg, row func(intent.Row)) {
	rule := func(direction intent.Direction, tier, priority int, match, action string, label int) {
		row(intent.Rule{Group: l.group, Direction: direction, Tier: tier, Priority: priority, Match: match, Action: action, Label: label})
	}
	row(intent.PortGroup{Name: l.group, Ports: l.socket})
	for door, label := range map[string]int{l.socket: l.number, c.socket(): ownership.LabelDefault} {
		comes := fmt.Sprintf("inport == %q && ip", door)
		rule(intent.OutOfSwitch, ownership.LabelTier, ownership.LabelPriority, comes, "pass", label)
		rule(intent.OutOfSwitch, ownership.LabelLastTier, 0, comes, "allow-related", label)
	}
	row(intent.AddressSet{Name: c.targetSet(l), Addresses: list(l.targets)})
	rule(intent.IntoSwitch, ownership.LabelTier, ownership.LabelPriority, c.unseen(l), "pass", l.number)
}

// mark wants the markings of replies. They are wiped when a reply comes back from the router, before it leaves the node; and those
// that a sender brought along are wiped, too.
func (c *compiler) mark(l *leg, row func(intent.Row)) {
	mark := func(priority int, match string, mark int) {
		row(intent.Marking{Switch: c.subnet(), Priority: priority, Match: match, Mark: mark})
	}
	mark(120, fmt.Sprintf("inport == %q && pkt.mark == %d", ownership.TurnSwitchPort(c.w.Shard, c.subnet()), l.number), 0)
	mark(110, "eth.dst == "+l.mac, ownership.MarkForged)
	mark(100, fmt.Sprintf("ct.trk && ct_label.label == %d", l.number), l.number)
	if c.isDefault(l.network) { // connections that are older than the leg
		mark(97, fmt.Sprintf("ct.trk && ct.rpl && ct_label.label == %d && ip4.dst != %s", ownership.LabelDefault, l.within), l.number)
	}
	mark(96, "ct.trk && ct.rpl && ct_label.label == 0 && "+c.ofTargets(l), l.number)
	mark(95, c.unseen(l), l.number)
	mark(90, fmt.Sprintf("pkt.mark == %d", l.number), 0)
}

// socketOn is the port of a switch to the router. Kube-OVN names it.
func (c *compiler) socketOn(subnet string) string { return subnet + "-" + c.w.Shard }

// socket is that of the project's switch.
func (c *compiler) socket() string { return c.socketOn(c.subnet()) }

func (c *compiler) targetSet(l *leg) string {
	return ownership.LegTargets(c.subnet(), l.network.Subnet)
}

// ofTargets are packets to the outside of targets that are reached by this network only. Replies among them that have no label are
// of a connection by this network that is older than the leg.
func (c *compiler) ofTargets(l *leg) string {
	return fmt.Sprintf("ip4.src == $%s && ip4.dst != %s", c.targetSet(l), l.within)
}

// unseen are packets of such targets in the middle of a connection that their node has never seen, from the port of a server: the
// target has come from another node, or nobody has kept track before there was a leg.
func (c *compiler) unseen(l *leg) string {
	return "ct.trk && ct.new && " + c.ofTargets(l) + " && tcp.src < 32768 && tcp.flags == 0/2"
}

// list is addresses in the order of their texts, with spaces between.
func list(addresses []netip.Addr) string {
	var out []string
	for _, a := range addresses {
		out = append(out, a.String())
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), " ")
}

// halves are the two halves of a prefix: longer than that of Kube-OVN's port, and so preferred to it.
func halves(p netip.Prefix) [2]netip.Prefix {
	low := netip.PrefixFrom(p.Addr(), p.Bits()+1)
	bytes := p.Addr().As4()
	bytes[p.Bits()/8] |= 0x80 >> (p.Bits() % 8)
	return [2]netip.Prefix{low, netip.PrefixFrom(netip.AddrFrom4(bytes), p.Bits()+1)}
}
