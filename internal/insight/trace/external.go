package trace

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/sallyport/sallyport/internal/insight/diagnosis"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/match"
	"github.com/sallyport/sallyport/internal/model/state"
)

// addressOwner is a switch port that answers ARP or ND for an address: with which MAC address, and on which chassis.
type addressOwner struct {
	switchPort *switchPort
	mac        match.MAC
	chassis    string
}

// findAddressOwners returns the ports of a switch that answer for an address.
func (s *logicalSwitch) findAddressOwners(a netip.Addr) []addressOwner {
	if s.addressOwners == nil {
		s.addressOwners = map[netip.Addr][]addressOwner{}
		for _, at := range s.ports {
			s.indexAddresses(at)
		}
	}
	return s.addressOwners[a]
}

// indexAddresses adds the addresses that a port of the switch answers for.
func (s *logicalSwitch) indexAddresses(at *switchPort) {
	owners := map[netip.Addr]addressOwner{}
	switch {
	case at.Disabled:
	case at.routerPort == nil:
		for _, a := range at.Addresses {
			owners[a] = addressOwner{at, at.mac, at.Chassis}
		}
	case !at.routerPort.Disabled && !at.routerPort.router.Disabled:
		owners = at.routerPort.answeredAddresses(at)
	}
	for a, o := range owners {
		s.addressOwners[a] = append(s.addressOwners[a], o)
	}
}

// answeredAddresses returns the addresses that a router port answers for: its own, those of NAT entries, and VIPs of
// load balancers. For distributed NAT entries the chassis of the pod answers.
func (p *routerPort) answeredAddresses(at *switchPort) map[netip.Addr]addressOwner {
	out := map[netip.Addr]addressOwner{}
	for _, b := range p.router.Balancers {
		for _, v := range b.VIPs {
			out[v.Address.Addr()] = addressOwner{at, p.mac, p.Holder}
		}
	}
	for _, n := range p.Networks {
		out[n.Addr()] = addressOwner{at, p.mac, p.Holder}
	}
	for _, t := range slices.Backward(p.router.natEntries) { // the first distributed entry of an address wins
		switch {
		case t.gatewayPort != p:
		case t.externalMAC != 0:
			out[t.External] = addressOwner{at, t.externalMAC, t.distributedVIF.Chassis}
		case out[t.External].switchPort == nil:
			out[t.External] = addressOwner{at, p.mac, p.Holder}
		}
	}
	return out
}

// externalSwitchFor returns the switch of the external network that contains an address, or nil.
func (f *topology) externalSwitchFor(a netip.Addr) (out *logicalSwitch) {
	for _, s := range f.externalSwitches {
		if _, in := s.prefixContaining(a); in &&
			(out == nil || len(s.findAddressOwners(a)) > 0 && len(out.findAddressOwners(a)) == 0) {
			out = s
		}
	}
	return out
}

// enterFromOutside sends a packet from a host outside the cluster.
func (w *traceRun) enterFromOutside(f packet) transition {
	to, from := w.externalSwitchFor(f.Destination), w.externalSwitchFor(f.Source)
	if to == nil {
		return w.dropNotExternal(f.Destination)
	}
	how := "enters from its gateway"
	if from == to {
		how = "enters from an on-link host"
	} else if from != nil && !w.passesGateway(from, &f) || !w.passesGateway(to, &f) {
		return w.dropOutOfState(to, f)
	}
	f.chassis = ""
	w.addHop(f, Hop{
		About:  w.networkRef(to),
		Row:    "Logical_Switch " + to.Name,
		Places: []Place{w.atOutside(f.Source), w.atNetwork(to)},
	}, "%s", how)
	return w.deliverOnNetwork(to, f)
}

// dropNotExternal ends the path of a packet for an address that cannot be reached from outside.
func (w *traceRun) dropNotExternal(a netip.Addr) transition {
	reason := fmt.Sprintf("%s is not in an external network of the cluster", a)
	for _, u := range w.survey.Unread {
		if u.System == clusterstate.Kubernetes || u.System == clusterstate.Northbound {
			return w.dropPacket(CantTell, fmt.Sprintf("whether %s is in an external network is not known: the %s could not be read",
				a, u.System))
		}
	}
	pods := w.podsWithAddress(a)
	if len(pods) > 0 {
		reason += fmt.Sprintf("; it is the address of %s, which is reachable from outside through a FIp or a Service",
			pods[0])
	}
	return w.dropPacket(AddressUnknown, reason, pods...)
}

// deliverOnNetwork delivers a packet from the physical network to the owner of its destination address.
func (w *traceRun) deliverOnNetwork(on *logicalSwitch, f packet) transition {
	w.notePassed(w.networkRef(on), subnetRef(on.Name))
	owners := on.findAddressOwners(f.Destination)
	if len(owners) == 0 {
		return w.dropUnowned(on, f)
	}
	o := owners[0]
	for _, other := range owners[1:] {
		w.addCaveat("%s also answers for %s", other.switchPort.Name, f.Destination)
	}
	w.noteDuplicateOwners(on, f.Destination, o)
	if p := o.switchPort.routerPort; p != nil && o.chassis == p.Holder {
		if wrong, bad := w.checkGatewayChassis(p); bad {
			return wrong
		}
		f.chassis = o.chassis
		node := w.nodeOfChassis(o.chassis)
		w.addHop(f, Hop{
			About:  clusterstate.NodeRef(node),
			Row:    "Logical_Router_Port " + p.Name,
			Places: []Place{atNode(node, "holds the router's port")},
		}, "holds the gateway of %s", w.routerOwnerRef(p.router.Name))
	}
	if wrong, off := w.checkBridgeMapping(on, o.chassis); off {
		return wrong
	}
	if node := w.nodeOfChassis(o.chassis); w.entry == nil && node != "" {
		w.entry = &Entry{
			Node: node, Network: w.networkName(on), LogicalPort: on.localnetPort.Name, VLAN: on.localnetPort.Tag,
			MAC: o.mac.String(),
		}
	}
	f.chassis, f.EthDestination, f.EthSource = o.chassis, o.mac, externalMAC
	return transition{toSwitch: on.localnetPort, packet: f}
}

// checkBridgeMapping ends the path if a chassis has no bridge mapping for a network. A chassis without any mappings
// counts as unknown.
func (w *traceRun) checkBridgeMapping(on *logicalSwitch, chassis string) (transition, bool) {
	if known := w.bridgeMappings[chassis]; on.localnetPort.Localnet == "" || len(known) == 0 ||
		slices.Contains(known, on.localnetPort.Localnet) {
		return transition{}, false
	}
	return w.dropPacket(NotWired, fmt.Sprintf("node %s has no bridge mapping for %s (%s)", w.nodeOfChassis(chassis),
		w.networkName(on), on.localnetPort.Localnet),
		clusterstate.NodeRef(w.nodeOfChassis(chassis)), w.networkRef(on)), true
}

// noteDuplicateOwners adds a caveat for each other host on the network that answers for an address of the cluster.
func (w *traceRun) noteDuplicateOwners(on *logicalSwitch, a netip.Addr, o addressOwner) {
	for _, n := range w.probedNeighbours(a) {
		for _, text := range n.MACs {
			if mac, ok := match.ParseMAC(text); ok && mac != o.mac && mac != o.switchPort.mac {
				w.addCaveat("a host with MAC address %s also answers for %s on %s", text, a, w.networkName(on))
			}
		}
	}
}

// probedNeighbours returns the answers that nodes got when they resolved an address.
func (w *traceRun) probedNeighbours(a netip.Addr) (out []clusterstate.Neighbour) {
	for _, name := range sortedKeys(w.survey.Inspected) {
		for _, n := range w.survey.Inspected[name].Neighbours {
			if n.Address == a {
				out = append(out, n)
			}
		}
	}
	return out
}

// sendOnWire forwards a packet on the physical network of a switch.
func (w *traceRun) sendOnWire(on *logicalSwitch, f packet) transition {
	if wrong, off := w.checkBridgeMapping(on, f.chassis); off {
		return wrong
	}
	w.exitSwitch, w.exitChassis = on, f.chassis
	w.notePassed(w.networkRef(on), subnetRef(on.Name))
	gateway := on.gatewayFor(f.Destination)
	if f.nextHop == gateway || on.isGateway(f.nextHop) {
		return w.forwardByGateway(on, f)
	}
	if f.nextHop != f.Destination {
		return w.dropPacket(WrongGateway, fmt.Sprintf("it leaves through %s to %s, but the gateway there is %s",
			w.networkName(on), f.nextHop, gateway), w.networkRef(on))
	}
	w.addHop(f, Hop{About: w.networkRef(on), Row: "Logical_Switch " + on.Name, Places: w.atExit(on, f)},
		"leaves, to the on-link host")
	return w.arriveOutside(on, f)
}

// arriveOutside ends the path at a host on the network, unless the address belongs to an object of the cluster: then
// nothing answers for it.
func (w *traceRun) arriveOutside(on *logicalSwitch, f packet) transition {
	if about := w.addressRefs(f.Destination); len(about) > 0 {
		return w.dropUnowned(on, f)
	}
	return transition{outcome: &outcome{kind: outcomeArrived, packet: f}}
}

// dropUnowned ends the path of a packet for an address that nothing answers for.
func (w *traceRun) dropUnowned(on *logicalSwitch, f packet) transition {
	about := w.addressRefs(f.Destination)
	nobody := fmt.Sprintf("nothing in the cluster answers for %s on %s", f.Destination, w.networkName(on))
	switch i := slices.IndexFunc(about, func(r state.Ref) bool { return r.Kind != string(intent.EIp) }); {
	case i >= 0:
		return w.dropPacket(NotInForce,
			fmt.Sprintf("%s has the address, but %s: OVN does not have its rows", about[i], nobody),
			append(about, w.networkRef(on))...)
	case len(about) > 0:
		return w.dropPacket(AddressUnused, fmt.Sprintf("%s: %s reserves it, but nothing uses it", nobody, about[0]),
			append(about, w.networkRef(on))...)
	default:
		return w.dropPacket(AddressUnknown, nobody, w.networkRef(on))
	}
}

func (s *logicalSwitch) isGateway(a netip.Addr) bool {
	return s.subnet != nil && slices.Contains(s.subnet.Gateways, a) || s.network != nil &&
		slices.Contains(s.network.Gateways, a)
}

// forwardByGateway forwards a packet through the router of an external network. That router drops packets whose source
// is not in its network, and packets of connections whose start it has not seen.
func (w *traceRun) forwardByGateway(on *logicalSwitch, f packet) transition {
	node := w.nodeOfChassis(f.chassis)
	w.addHop(f, Hop{About: w.networkRef(on), Row: "Logical_Switch " + on.Name, Places: w.atExit(on, f)},
		"leaves, to its gateway %s", f.nextHop)
	if wrong, silent := w.checkGatewaySilent(on, f); silent {
		return wrong
	}
	if _, in := on.prefixContaining(f.Source); !in {
		return w.dropPacket(LeavesUntranslated, fmt.Sprintf(
			"it leaves through %s from %s with source %s, which is not in that network: the router there drops it",
			w.networkName(on), node, f.Source), append(w.foreignPolicies, w.networkRef(on))...)
	}
	if !w.passesGateway(on, &f) {
		return w.dropOutOfState(on, f)
	}
	to := w.externalSwitchFor(f.Destination)
	if to == nil {
		if pods := w.podsWithAddress(f.Destination); len(pods) > 0 {
			w.addCaveat("%s also has address %s, but is not reached on this path", pods[0], f.Destination)
		}
		return transition{outcome: &outcome{kind: outcomeArrived, packet: f}}
	}
	if to != on && !w.passesGateway(to, &f) {
		return w.dropOutOfState(to, f)
	}
	if len(to.findAddressOwners(f.Destination)) == 0 {
		return w.arriveOutside(to, f)
	}
	f.clearConntrack()
	f.Mark, f.TTL, f.chassis, f.recirculations = 0, f.TTL-1, "", 0
	w.addHop(f, Hop{About: w.networkRef(to), Row: "Logical_Switch " + to.Name, Places: []Place{w.atNetwork(to)}},
		"enters from its gateway")
	return w.deliverOnNetwork(to, f)
}

// checkGatewaySilent ends the path if the gateway did not answer when the packet's node resolved it.
func (w *traceRun) checkGatewaySilent(on *logicalSwitch, f packet) (transition, bool) {
	for _, n := range w.survey.Inspected[w.nodeOfChassis(f.chassis)].Neighbours {
		if n.Address == f.nextHop && len(n.MACs) == 0 {
			return w.dropPacket(diagnosis.GatewaySilent,
				fmt.Sprintf("gateway %s of %s does not answer ARP or ND requests from node %s",
					f.nextHop, w.networkName(on), w.nodeOfChassis(f.chassis)), w.networkRef(on)), true
		}
	}
	return transition{}, false
}

func (w *traceRun) dropOutOfState(on *logicalSwitch, f packet) transition {
	return w.dropPacket(ReplyLeavesElsewhere,
		fmt.Sprintf("the router of %s drops it: it has not seen the start of this connection (%s)",
			w.networkName(on), f.formatTuple(w.query)), append(w.foreignPolicies, w.networkRef(on))...)
}

// passesGateway reports whether the stateful router of an external network lets a packet pass: it knows the connection,
// or this packet starts one.
func (w *traceRun) passesGateway(on *logicalSwitch, f *packet) bool {
	zone := "router of " + on.Name
	c, reply := w.conntrack.findConnection(zone, f.tuple())
	switch {
	case c == nil && f.canStartConnection():
		w.conntrack = append(w.conntrack, &connection{zone: zone, original: f.tuple(), reply: f.tuple().reversed()})
	case c == nil:
		return false
	case reply:
		c.seenReply = true
	case !f.canStartConnection():
		return c.seenReply // false: the handshake's second packet took another path
	}
	return true
}
