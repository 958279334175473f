package nodepath

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/ownership"
	"github.com/sallyport/sallyport/internal/state"
)

// unreachable is the metric of the last route of a VRF's table, as the kernel's documentation has it: without such a route a lookup goes on
// in the main table.
const unreachable = 4278198272

// vrf wants the interface in a VRF, and the ways between it and the rest of the node.
func (w *way) vrf() {
	name := fmt.Sprintf("%s%d", ownership.NodeVRFs, w.number)
	w.link(LinkKey{ItsBeing, name}, Link{VRF: w.tableID()})
	w.link(LinkKey{ItsMaster, w.dev.Name}, Link{Master: name})
	for _, g := range w.usable {
		w.route(Route{Table: w.tableID(), To: Everything(g.Is6()), Metric: unreachable})
		w.route(Route{Table: w.tableID(), To: Everything(g.Is6()), Via: g, Dev: w.dev.Name})
	}
	// The kernel takes an interface down to put it into a VRF, and IPv6 addresses go with that.
	if slices.ContainsFunc(w.dev.Addresses, func(p netip.Prefix) bool { return p.Addr().Is6() }) {
		w.setting("net.ipv6.conf."+dotted(w.dev.Name)+".keep_addr_on_down", "1")
	}
	// What listens on all addresses is still to be reached by the interface: a BGP speaker, for one.
	w.setting("net.ipv4.tcp_l3mdev_accept", "1")
	w.setting("net.ipv4.udp_l3mdev_accept", "1")
	if w.spec.Legs {
		w.legs(name)
		return
	}
	for _, p := range w.inside() {
		w.rule(RuleKey{Pref: ownership.NodeRuleInside, To: p.Masked(), V6: p.Addr().Is6()}, MainTable)
	}
	w.fromServices(w.tableID())
}

// inside are the prefixes of the cluster, of families that the network has.
func (w *way) inside() []netip.Prefix {
	return keep(parse(w.spec.Inside, netip.ParsePrefix), func(p netip.Prefix) bool { return w.gateway(p.Addr().Is6()).IsValid() })
}

// legNames are the ends of a network's legs: near the rest of the node, and far from it, in the VRF.
func (w *way) legNames() (near, far string) {
	return fmt.Sprintf("%s%d", ownership.NodeLegs, w.number), fmt.Sprintf("%s%d", ownership.NodeFarLegs, w.number)
}

// legs wants the VRF and the rest of the node connected by a pair of interfaces. To conntrack what crosses it is a second connection. So
// each side has a zone of its own: in one zone they would meet, and the client's port would be changed.
func (w *way) legs(vrf string) {
	near, far := w.legNames()
	w.link(LinkKey{ItsBeing, near}, Link{Peer: far})
	w.link(LinkKey{ItsMaster, far}, Link{Master: vrf})
	for _, g := range w.usable {
		here, there := legAddresses(w.number, g.Is6())
		w.addresses(near, here)
		w.addresses(far, there)
		for _, p := range w.inside() {
			if p.Addr().Is6() == g.Is6() {
				w.route(Route{Table: w.tableID(), To: p.Masked(), Via: here.Addr(), Dev: far})
			}
		}
		w.route(Route{Table: w.legTableID(), To: Everything(g.Is6()), Via: there.Addr(), Dev: near})
	}
	w.fromServices(w.legTableID())
	side := fmt.Sprintf("{ %q, %q, %q } ct zone set %d", w.dev.Name, far, vrf, w.tableID())
	w.in("zones", "far", "iifname "+side)
	w.in("ownzones", "far", "oifname "+side) // what the node itself says in the VRF has its replies there
	for _, name := range []string{near, far} {
		w.setting("net.ipv4.conf."+name+".forwarding", "1")
	}
}

// addresses wants an address on a leg.
func (w *way) addresses(name string, p netip.Prefix) {
	key := LinkKey{ItsAddress, name}
	all := parse(strings.Fields(w.kernel.Links[key].Value.Addresses), netip.ParsePrefix)
	all = append(all, p)
	slices.SortFunc(all, netip.Prefix.Compare) // as they are read from the kernel
	w.link(key, Link{Addresses: strings.Join(texts(all), " ")})
}

// legTableID is the table that leads to the legs.
func (w *way) legTableID() int { return w.tableID() + ownership.NodeLegTables }

// legAddresses are the ends of a network's legs.
func legAddresses(number int, v6 bool) (near, far netip.Prefix) {
	if v6 {
		base := ownership.NodeLegs6.As16()
		base[13], base[15] = byte(number), 1 //nolint:gosec // the API server allows 1 to 255
		a := netip.AddrFrom16(base)
		return netip.PrefixFrom(a, 126), netip.PrefixFrom(a.Next(), 126)
	}
	base := ownership.NodeLegs4.As4()
	base[2] += byte(number >> 6)  //nolint:gosec // the API server allows 1 to 255
	base[3] = byte(number<<2) + 1 //nolint:gosec // the API server allows 1 to 255
	a := netip.AddrFrom4(base)
	return netip.PrefixFrom(a, 30), netip.PrefixFrom(a.Next(), 30)
}

func (w *way) link(key LinkKey, l Link) {
	w.kernel.Links[key] = state.Entry[Link]{Value: l, Origin: w.by}
}
