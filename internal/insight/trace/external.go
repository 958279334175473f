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

// addressOwner is who answers for an address on a switch: with which MAC address, and on which node.
type addressOwner struct {
	switchPort *switchPort
	mac        match.MAC
	chassis    string
}

// findAddressOwners are those who answer for an address on a switch.
func (f *topology) findAddressOwners(on *logicalSwitch, a netip.Addr) (out []addressOwner) {
	for _, at := range on.ports {
		switch {
		case at.Disabled:
		case at.routerPort == nil && slices.Contains(at.Addresses, a):
			out = append(out, addressOwner{at, at.mac, at.Chassis})
		case at.routerPort != nil && !at.routerPort.Disabled && !at.routerPort.router.Disabled:
			if mac, chassis, answers := at.routerPort.answersARPFor(a); answers {
				out = append(out, addressOwner{at, mac, chassis})
			}
		}
	}
	return out
}

// answersARPFor says whether a router's port answers for an address: its own, that of a translation, or that of a load
// balancer.
func (p *routerPort) answersARPFor(a netip.Addr) (match.MAC, string, bool) {
	for _, t := range p.router.natEntries {
		if mac, ok := match.ParseMAC(t.ExternalMAC); ok && t.distributedVIF != nil && t.gatewayPort == p &&
			t.External == a {
			return mac, t.distributedVIF.Chassis, true
		}
	}
	translated := slices.ContainsFunc(p.router.natEntries, func(t natEntry) bool {
		return t.gatewayPort == p && t.External == a
	})
	return p.mac, p.Holder, p.hasAddress(a) || translated || p.router.hasVIP(a)
}

// externalSwitchFor is the external network that an address is of; nil: of none.
func (f *topology) externalSwitchFor(a netip.Addr) (out *logicalSwitch) {
	for _, name := range sortedKeys(f.switches) {
		s := f.switches[name]
		if s.localnetPort == nil {
			continue
		}
		if _, in := s.prefixContaining(a); in &&
			(out == nil || len(f.findAddressOwners(s, a)) > 0 && len(f.findAddressOwners(out, a)) == 0) {
			out = s
		}
	}
	return out
}

// enterFromOutside is the way of a packet that a host outside sends.
func (w *traceRun) enterFromOutside(f packet) transition {
	to, from := w.externalSwitchFor(f.Destination), w.externalSwitchFor(f.Source)
	if to == nil {
		return w.dropNotExternal(f.Destination)
	}
	how := "comes in, from its gateway"
	if from == to {
		how = "comes in, from a neighbour on the wire"
	} else if from != nil && !w.passesGateway(from, &f) || !w.passesGateway(to, &f) {
		return w.dropOutOfState(to, f)
	}
	f.chassis = ""
	w.addHop(f, w.networkRef(to), "Logical_Switch "+to.Name, "%s", how)
	return w.deliverOnNetwork(to, f)
}

// dropNotExternal is the end of a packet for an address that nobody outside can ask.
func (w *traceRun) dropNotExternal(a netip.Addr) transition {
	reason := fmt.Sprintf("%s is of no external network of the cluster", a)
	pods := w.podsWithAddress(a)
	if len(pods) > 0 {
		reason += fmt.Sprintf("; it is %s's own, which is asked from outside by a FIp or a Service", pods[0])
	}
	return w.dropPacket(AddressUnknown, reason, pods...)
}

// deliverOnNetwork is how a packet gets from the wire of a network to who has its address.
func (w *traceRun) deliverOnNetwork(on *logicalSwitch, f packet) transition {
	w.notePassed(w.networkRef(on), subnetRef(on.Name))
	owners := w.findAddressOwners(on, f.Destination)
	if len(owners) == 0 {
		return w.dropUnowned(on, f)
	}
	o := owners[0]
	for _, other := range owners[1:] {
		w.addCaveat("%s answers for %s as well", other.switchPort.Name, f.Destination)
	}
	w.noteDuplicateOwners(on, f.Destination, o)
	if p := o.switchPort.routerPort; p != nil && o.chassis == p.Holder {
		if wrong, bad := w.checkGatewayChassis(p); bad {
			return wrong
		}
		f.chassis = o.chassis
		w.addHop(f, clusterstate.NodeRef(w.nodeOfChassis(o.chassis)), "Logical_Router_Port "+p.Name,
			"holds the gateway of %s", w.routerOwnerRef(p.router.Name))
	}
	if wrong, off := w.checkBridgeMapping(on, o.chassis); off {
		return wrong
	}
	f.chassis, f.EthDestination, f.EthSource = o.chassis, o.mac, externalMAC
	return transition{toSwitch: on.localnetPort, packet: f}
}

// checkBridgeMapping says whether a chassis is on the wire of a network.
func (w *traceRun) checkBridgeMapping(on *logicalSwitch, chassis string) (transition, bool) {
	if known := w.bridgeMappings[chassis]; on.localnetPort.Localnet == "" || len(known) == 0 ||
		slices.Contains(known, on.localnetPort.Localnet) {
		return transition{}, false
	}
	return w.dropPacket(NotWired, fmt.Sprintf("node %s has no bridge for the wire of %s (%s)", w.nodeOfChassis(chassis),
		w.networkName(on), on.localnetPort.Localnet),
		clusterstate.NodeRef(w.nodeOfChassis(chassis)), w.networkRef(on)), true
}

// noteDuplicateOwners notes hosts on the wire that answer for an address of the cluster's, too.
func (w *traceRun) noteDuplicateOwners(on *logicalSwitch, a netip.Addr, o addressOwner) {
	for _, n := range w.probedNeighbours(a) {
		for _, text := range n.MACs {
			if mac, ok := match.ParseMAC(text); ok && mac != o.mac && mac != o.switchPort.mac {
				w.addCaveat("a host with MAC address %s answers for %s on %s as well", text, a, w.networkName(on))
			}
		}
	}
}

// probedNeighbours is what nodes heard when they asked who has an address.
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

// sendOnWire is what becomes of a packet on the wire of an external network.
func (w *traceRun) sendOnWire(on *logicalSwitch, f packet) transition {
	if wrong, off := w.checkBridgeMapping(on, f.chassis); off {
		return wrong
	}
	w.exitSwitch = on
	w.notePassed(w.networkRef(on), subnetRef(on.Name))
	gateway := on.gatewayFor(f.Destination)
	if f.nextHop == gateway || on.isGateway(f.nextHop) {
		return w.forwardByGateway(on, f)
	}
	if f.nextHop != f.Destination {
		return w.dropPacket(WrongGateway, fmt.Sprintf("it leaves by %s to %s, and the gateway there is %s",
			w.networkName(on), f.nextHop, gateway), w.networkRef(on))
	}
	w.addHop(f, w.networkRef(on), "Logical_Switch "+on.Name, "leaves, to the host on the wire")
	return w.arriveOutside(on, f)
}

// arriveOutside is the end of a packet for an address of a network that nobody in the cluster answers for: a host's
// that is there, unless the address is one of the cluster's.
func (w *traceRun) arriveOutside(on *logicalSwitch, f packet) transition {
	if about := w.addressRefs(f.Destination); len(about) > 0 {
		return w.dropUnowned(on, f)
	}
	return transition{outcome: &outcome{kind: outcomeArrived, packet: f}}
}

// dropUnowned is the end of a packet for an address that nobody answers for.
func (w *traceRun) dropUnowned(on *logicalSwitch, f packet) transition {
	about := w.addressRefs(f.Destination)
	nobody := fmt.Sprintf("nobody in the cluster answers for %s on %s", f.Destination, w.networkName(on))
	switch i := slices.IndexFunc(about, func(r state.Ref) bool { return r.Kind != string(intent.EIp) }); {
	case i >= 0:
		return w.dropPacket(NotInForce, fmt.Sprintf("%s has it, and %s: OVN does not have its rows", about[i], nobody),
			append(about, w.networkRef(on))...)
	case len(about) > 0:
		return w.dropPacket(AddressUnused, fmt.Sprintf("%s: %s is reserved, and nothing uses it", nobody, about[0]),
			append(about, w.networkRef(on))...)
	default:
		return w.dropPacket(AddressUnknown, nobody, w.networkRef(on))
	}
}

func (s *logicalSwitch) isGateway(a netip.Addr) bool {
	return s.subnet != nil && slices.Contains(s.subnet.Gateways, a) || s.network != nil &&
		slices.Contains(s.network.Gateways, a)
}

// forwardByGateway is what the router of an external network does with a packet. It drops what has no source of its
// network, and what is of a connection that it has not seen begin.
func (w *traceRun) forwardByGateway(on *logicalSwitch, f packet) transition {
	node := w.nodeOfChassis(f.chassis)
	w.addHop(f, w.networkRef(on), "Logical_Switch "+on.Name, "leaves, to its gateway %s", f.nextHop)
	if wrong, silent := w.checkGatewaySilent(on, f); silent {
		return wrong
	}
	if _, in := on.prefixContaining(f.Source); !in {
		return w.dropPacket(LeavesUntranslated, fmt.Sprintf(
			"it leaves by %s from %s with source %s, which is no address of that network: the router there drops it",
			w.networkName(on), node, f.Source), append(w.foreignPolicies, w.networkRef(on))...)
	}
	if !w.passesGateway(on, &f) {
		return w.dropOutOfState(on, f)
	}
	to := w.externalSwitchFor(f.Destination)
	if to == nil {
		if pods := w.podsWithAddress(f.Destination); len(pods) > 0 {
			w.addCaveat("%s has address %s as well, and is not reached by this way", pods[0], f.Destination)
		}
		return transition{outcome: &outcome{kind: outcomeArrived, packet: f}}
	}
	if to != on && !w.passesGateway(to, &f) {
		return w.dropOutOfState(to, f)
	}
	if len(w.findAddressOwners(to, f.Destination)) == 0 {
		return w.arriveOutside(to, f)
	}
	f.clearConntrack()
	f.Mark, f.TTL, f.chassis, f.recirculations = 0, f.TTL-1, "", 0
	w.addHop(f, w.networkRef(to), "Logical_Switch "+to.Name, "comes in, from its gateway")
	return w.deliverOnNetwork(to, f)
}

// checkGatewaySilent is the end of a packet for a gateway that did not answer when its node asked for it.
func (w *traceRun) checkGatewaySilent(on *logicalSwitch, f packet) (transition, bool) {
	for _, n := range w.survey.Inspected[w.nodeOfChassis(f.chassis)].Neighbours {
		if n.Address == f.nextHop && len(n.MACs) == 0 {
			return w.dropPacket(diagnosis.GatewaySilent,
				fmt.Sprintf("gateway %s of %s does not answer when node %s asks for it",
					f.nextHop, w.networkName(on), w.nodeOfChassis(f.chassis)), w.networkRef(on)), true
		}
	}
	return transition{}, false
}

func (w *traceRun) dropOutOfState(on *logicalSwitch, f packet) transition {
	return w.dropPacket(ReplyLeavesElsewhere,
		fmt.Sprintf("the router of %s drops it: it has not seen this connection begin (%s)",
			w.networkName(on), f.formatTuple(w.query)), append(w.foreignPolicies, w.networkRef(on))...)
}

// passesGateway says whether the router of an external network lets a packet pass: it knows the connection, or this is
// its beginning.
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
		return c.seenReply // the end of a handshake whose middle went elsewhere
	}
	return true
}
