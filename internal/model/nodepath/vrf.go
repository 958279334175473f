package nodepath

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/model/ipfamily"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/state"
)

// unreachableMetric is the metric of the last route of a VRF's table, as in the kernel's documentation. Without such a
// route a lookup continues in the main table.
const unreachableMetric = 4278198272

// emitVRF puts the interface into a VRF, and adds the routing between the VRF and the rest of the node.
func (w *networkCompiler) emitVRF() {
	name := fmt.Sprintf("%s%d", ownership.NodeVRFPrefix, w.number)
	w.addLink(LinkKey{LinkDevice, name}, Link{VRF: w.tableID()})
	w.addLink(LinkKey{LinkMaster, w.dev.Name}, Link{Master: name})
	for _, g := range w.gateways {
		w.addRoute(Route{Table: w.tableID(), To: ipfamily.Of(g).Everything(), Metric: unreachableMetric})
		w.addRoute(Route{Table: w.tableID(), To: ipfamily.Of(g).Everything(), Via: g, Dev: w.dev.Name})
	}
	// The kernel sets an interface down to put it into a VRF, which removes its IPv6 addresses.
	if slices.ContainsFunc(w.dev.Addresses, func(p netip.Prefix) bool { return ipfamily.V6.Contains(p.Addr()) }) {
		w.addSysctl("net.ipv6.conf."+escapeIfName(w.dev.Name)+".keep_addr_on_down", "1")
	}
	// Sockets that listen on all addresses must stay reachable through the interface, such as those of a BGP speaker.
	w.addSysctl("net.ipv4.tcp_l3mdev_accept", "1")
	w.addSysctl("net.ipv4.udp_l3mdev_accept", "1")
	if w.spec.Legs {
		w.emitVethPair(name)
		return
	}
	for _, p := range w.clusterPrefixes() {
		w.addRule(RuleKey{Pref: ownership.NodeRuleToCluster, To: p.Masked(), Family: ipfamily.Of(p.Addr())}, MainTable)
	}
	w.emitSteering(w.tableID(), w.dev.Name)
}

// emitSteering adds the routing of replies into the VRF through a table. Packets of the network enter the node's default
// routing domain through an interface: the network's own, or the near end of the veth pair. Conntrack has connections
// there under that interface, in the zone of the replies.
func (w *networkCompiler) emitSteering(table int, arrival string) {
	switch w.spec.Steering {
	case kubedcv1alpha1.SteerByMark:
		w.markServices()
		w.emitMarkRules()
	case kubedcv1alpha1.SteerByConnection:
		w.markConnections(arrival)
		w.emitMarkRules()
	default:
		w.emitSourceRules(table)
	}
}

// clusterPrefixes returns the cluster's prefixes of the families that the network has.
func (w *networkCompiler) clusterPrefixes() []netip.Prefix {
	return filterSlice(parseValid(w.spec.Inside, netip.ParsePrefix), func(p netip.Prefix) bool {
		return w.gatewayFor(ipfamily.Of(p.Addr())).IsValid()
	})
}

// vethNames returns the ends of a network's veth pair: near is in the node's default routing domain, far is in the VRF.
func (w *networkCompiler) vethNames() (near, far string) {
	return fmt.Sprintf("%s%d", ownership.NodeVethPrefix, w.number),
		fmt.Sprintf("%s%d", ownership.NodeVethPeerPrefix, w.number)
}

// emitVethPair connects the VRF and the rest of the node by a veth pair. To conntrack, packets that cross it are a
// second connection. So the VRF has a conntrack zone of its own: in one zone the two connections would clash, and
// conntrack would change the client's port.
func (w *networkCompiler) emitVethPair(vrf string) {
	near, far := w.vethNames()
	w.addLink(LinkKey{LinkDevice, near}, Link{Peer: far})
	w.addLink(LinkKey{LinkMaster, far}, Link{Master: vrf})
	for _, g := range w.gateways {
		here, there := vethAddresses(w.number, ipfamily.Of(g))
		w.addLinkAddress(near, here)
		w.addLinkAddress(far, there)
		for _, p := range w.clusterPrefixes() {
			if ipfamily.Same(p.Addr(), g) {
				w.addRoute(Route{Table: w.tableID(), To: p.Masked(), Via: here.Addr(), Dev: far})
			}
		}
		w.addRoute(Route{Table: w.vethTableID(), To: ipfamily.Of(g).Everything(), Via: there.Addr(), Dev: near})
	}
	w.emitSteering(w.vethTableID(), near)
	side := fmt.Sprintf("{ %q, %q, %q } ct zone set %d", w.dev.Name, far, vrf, w.tableID())
	w.addNftRule("zones", "far", "iifname "+side)
	w.addNftRule("ownzones", "far", "oifname "+side) // so that replies to the node's own packets in the VRF match
	for _, name := range []string{near, far} {
		w.addSysctl("net.ipv4.conf."+name+".forwarding", "1")
	}
}

// addLinkAddress adds an address to an end of the veth pair.
func (w *networkCompiler) addLinkAddress(name string, p netip.Prefix) {
	key := LinkKey{LinkAddresses, name}
	all := parseValid(strings.Fields(w.kernel.Links[key].Value.Addresses), netip.ParsePrefix)
	all = append(all, p)
	slices.SortFunc(all, netip.Prefix.Compare) // the order in which the kernel returns them
	w.addLink(key, Link{Addresses: strings.Join(toStrings(all), " ")})
}

// vethTableID returns the routing table that leads to the veth pair.
func (w *networkCompiler) vethTableID() int { return w.tableID() + ownership.NodeVethTableOffset }

// vethAddresses returns the addresses of the ends of a network's veth pair.
func vethAddresses(number int, f ipfamily.Family) (near, far netip.Prefix) {
	if f == ipfamily.V6 {
		base := ownership.NodeVethBase6.As16()
		base[13], base[15] = byte(number), 1 //nolint:gosec // the API server allows 1 to 255
		a := netip.AddrFrom16(base)
		return netip.PrefixFrom(a, 126), netip.PrefixFrom(a.Next(), 126)
	}
	base := ownership.NodeVethBase4.As4()
	base[2] += byte(number >> 6)  //nolint:gosec // the API server allows 1 to 255
	base[3] = byte(number<<2) + 1 //nolint:gosec // the API server allows 1 to 255
	a := netip.AddrFrom4(base)
	return netip.PrefixFrom(a, 30), netip.PrefixFrom(a.Next(), 30)
}

func (w *networkCompiler) addLink(key LinkKey, l Link) {
	w.kernel.Links[key] = state.Entry[Link]{Value: l, Origin: w.origin}
}
