package trace

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/sallyport/sallyport/internal/diagnosis"
	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/match"
	"github.com/sallyport/sallyport/internal/state"
	"github.com/sallyport/sallyport/internal/survey"
)

// owner is who answers for an address on a switch: with which MAC address, and on which node.
type owner struct {
	socket  *socket
	mac     match.MAC
	chassis string
}

// owners are those who answer for an address on a switch.
func (f *fabric) owners(on *segment, a netip.Addr) (out []owner) {
	for _, at := range on.sockets {
		switch {
		case at.Disabled:
		case at.port == nil && slices.Contains(at.Addresses, a):
			out = append(out, owner{at, at.mac, at.Chassis})
		case at.port != nil && !at.port.Disabled && !at.port.router.Disabled:
			if mac, chassis, answers := at.port.answers(a); answers {
				out = append(out, owner{at, mac, chassis})
			}
		}
	}
	return out
}

// answers says whether a router's port answers for an address: its own, that of a translation, or that of a load balancer.
func (p *port) answers(a netip.Addr) (match.MAC, string, bool) {
	for _, t := range p.router.translations {
		if mac, ok := match.ParseMAC(t.ExternalMAC); ok && t.at != nil && t.port == p && t.External == a {
			return mac, t.at.Chassis, true
		}
	}
	translated := slices.ContainsFunc(p.router.translations, func(t translation) bool { return t.port == p && t.External == a })
	return p.mac, p.Holder, p.has(a) || translated || p.router.balances(a)
}

// home is the external network that an address is of; nil: of none.
func (f *fabric) home(a netip.Addr) (out *segment) {
	for _, name := range sortedNames(f.segments) {
		s := f.segments[name]
		if s.outside == nil {
			continue
		}
		if _, in := s.prefix(a); in && (out == nil || len(f.owners(s, a)) > 0 && len(f.owners(out, a)) == 0) {
			out = s
		}
	}
	return out
}

// begin is the way of a packet that a host outside sends.
func (w *walk) begin(f flight) step {
	to, from := w.home(f.Destination), w.home(f.Source)
	if to == nil {
		return w.notOutside(f.Destination)
	}
	how := "comes in, from its gateway"
	if from == to {
		how = "comes in, from a neighbour on the wire"
	} else if from != nil && !w.forwards(from, &f) || !w.forwards(to, &f) {
		return w.outOfState(to, f)
	}
	f.chassis = ""
	w.hop(f, w.networkAbout(to), "Logical_Switch "+to.Name, "%s", how)
	return w.reach(to, f)
}

// notOutside is the end of a packet for an address that nobody outside can ask.
func (w *walk) notOutside(a netip.Addr) step {
	reason := fmt.Sprintf("%s is of no external network of the cluster", a)
	pods := w.podsWith(a)
	if len(pods) > 0 {
		reason += fmt.Sprintf("; it is %s's own, which is asked from outside by a FIp or a Service", pods[0])
	}
	return w.drop(AddressUnknown, reason, pods...)
}

// reach is how a packet gets from the wire of a network to who has its address.
func (w *walk) reach(on *segment, f flight) step {
	w.pass(w.networkAbout(on), subnetRef(on.Name))
	owners := w.owners(on, f.Destination)
	if len(owners) == 0 {
		return w.nobodyOn(on, f)
	}
	o := owners[0]
	for _, other := range owners[1:] {
		w.doubt("%s answers for %s as well", other.socket.Name, f.Destination)
	}
	w.strangers(on, f.Destination, o)
	if p := o.socket.port; p != nil && o.chassis == p.Holder {
		if wrong, bad := w.held(p); bad {
			return wrong
		}
		f.chassis = o.chassis
		w.hop(f, survey.NodeRef(w.node(o.chassis)), "Logical_Router_Port "+p.Name, "holds the gateway of %s", w.vpc(p.router.Name))
	}
	if wrong, off := w.wired(on, o.chassis); off {
		return wrong
	}
	f.chassis, f.EthDestination, f.EthSource = o.chassis, o.mac, elsewhere
	return step{swtch: on.outside, flight: f}
}

// wired says whether a chassis is on the wire of a network.
func (w *walk) wired(on *segment, chassis string) (step, bool) {
	if known := w.bridges[chassis]; on.outside.Localnet == "" || len(known) == 0 || slices.Contains(known, on.outside.Localnet) {
		return step{}, false
	}
	return w.drop(NotWired, fmt.Sprintf("node %s has no bridge for the wire of %s (%s)", w.node(chassis), w.networkName(on), on.outside.Localnet),
		survey.NodeRef(w.node(chassis)), w.networkAbout(on)), true
}

// strangers notes hosts on the wire that answer for an address of the cluster's, too.
func (w *walk) strangers(on *segment, a netip.Addr, o owner) {
	for _, n := range w.heard(a) {
		for _, text := range n.MACs {
			if mac, ok := match.ParseMAC(text); ok && mac != o.mac && mac != o.socket.mac {
				w.doubt("a host with MAC address %s answers for %s on %s as well", text, a, w.networkName(on))
			}
		}
	}
}

// heard is what nodes heard when they asked who has an address.
func (w *walk) heard(a netip.Addr) (out []survey.Neighbour) {
	for _, name := range sortedNames(w.survey.Inspected) {
		for _, n := range w.survey.Inspected[name].Neighbours {
			if n.Address == a {
				out = append(out, n)
			}
		}
	}
	return out
}

// carry is what becomes of a packet on the wire of an external network.
func (w *walk) carry(on *segment, f flight) step {
	if wrong, off := w.wired(on, f.chassis); off {
		return wrong
	}
	w.left = on
	w.pass(w.networkAbout(on), subnetRef(on.Name))
	gateway := on.gateway(f.Destination)
	if f.hop == gateway || on.isGateway(f.hop) {
		return w.forward(on, f)
	}
	if f.hop != f.Destination {
		return w.drop(WrongGateway, fmt.Sprintf("it leaves by %s to %s, and the gateway there is %s", w.networkName(on), f.hop, gateway), w.networkAbout(on))
	}
	w.hop(f, w.networkAbout(on), "Logical_Switch "+on.Name, "leaves, to the host on the wire")
	return w.arrive(on, f)
}

// arrive is the end of a packet for an address of a network that nobody in the cluster answers for: a host's that is there, unless the
// address is one of the cluster's.
func (w *walk) arrive(on *segment, f flight) step {
	if about := w.addressAbout(f.Destination); len(about) > 0 {
		return w.nobodyOn(on, f)
	}
	return step{end: &ending{kind: arrived, flight: f}}
}

// nobodyOn is the end of a packet for an address that nobody answers for.
func (w *walk) nobodyOn(on *segment, f flight) step {
	about := w.addressAbout(f.Destination)
	nobody := fmt.Sprintf("nobody in the cluster answers for %s on %s", f.Destination, w.networkName(on))
	switch i := slices.IndexFunc(about, func(r state.Ref) bool { return r.Kind != string(intent.EIp) }); {
	case i >= 0:
		return w.drop(NotInForce, fmt.Sprintf("%s has it, and %s: OVN does not have its rows", about[i], nobody), append(about, w.networkAbout(on))...)
	case len(about) > 0:
		return w.drop(AddressUnused, fmt.Sprintf("%s: %s is reserved, and nothing uses it", nobody, about[0]), append(about, w.networkAbout(on))...)
	default:
		return w.drop(AddressUnknown, nobody, w.networkAbout(on))
	}
}

func (s *segment) isGateway(a netip.Addr) bool {
	return s.subnet != nil && slices.Contains(s.subnet.Gateways, a) || s.network != nil && slices.Contains(s.network.Gateways, a)
}

// forward is what the router of an external network does with a packet. It drops what has no source of its network, and what is of a
// connection that it has not seen begin.
func (w *walk) forward(on *segment, f flight) step {
	node := w.node(f.chassis)
	w.hop(f, w.networkAbout(on), "Logical_Switch "+on.Name, "leaves, to its gateway %s", f.hop)
	if wrong, silent := w.mute(on, f); silent {
		return wrong
	}
	if _, in := on.prefix(f.Source); !in {
		return w.drop(LeavesUntranslated, fmt.Sprintf("it leaves by %s from %s with source %s, which is no address of that network: the router there drops it",
			w.networkName(on), node, f.Source), append(w.blame, w.networkAbout(on))...)
	}
	if !w.forwards(on, &f) {
		return w.outOfState(on, f)
	}
	to := w.home(f.Destination)
	if to == nil {
		if pods := w.podsWith(f.Destination); len(pods) > 0 {
			w.doubt("%s has address %s as well, and is not reached by this way", pods[0], f.Destination)
		}
		return step{end: &ending{kind: arrived, flight: f}}
	}
	if to != on && !w.forwards(to, &f) {
		return w.outOfState(to, f)
	}
	if len(w.owners(to, f.Destination)) == 0 {
		return w.arrive(to, f)
	}
	f.forget()
	f.Mark, f.TTL, f.chassis, f.repeats = 0, f.TTL-1, "", 0
	w.hop(f, w.networkAbout(to), "Logical_Switch "+to.Name, "comes in, from its gateway")
	return w.reach(to, f)
}

// mute is the end of a packet for a gateway that did not answer when its node asked for it.
func (w *walk) mute(on *segment, f flight) (step, bool) {
	for _, n := range w.survey.Inspected[w.node(f.chassis)].Neighbours {
		if n.Address == f.hop && len(n.MACs) == 0 {
			return w.drop(diagnosis.GatewaySilent, fmt.Sprintf("gateway %s of %s does not answer when node %s asks for it",
				f.hop, w.networkName(on), w.node(f.chassis)), w.networkAbout(on)), true
		}
	}
	return step{}, false
}

func (w *walk) outOfState(on *segment, f flight) step {
	return w.drop(ReplyLeavesElsewhere, fmt.Sprintf("the router of %s drops it: it has not seen this connection begin (%s)",
		w.networkName(on), f.text(w.query)), append(w.blame, w.networkAbout(on))...)
}

// forwards says whether the router of an external network lets a packet pass: it knows the connection, or this is its beginning.
func (w *walk) forwards(on *segment, f *flight) bool {
	zone := "router of " + on.Name
	c, reply := w.tracked.find(zone, f.tuple())
	switch {
	case c == nil && f.begins():
		w.tracked = append(w.tracked, &connection{zone: zone, there: f.tuple(), back: f.tuple().reversed()})
	case c == nil:
		return false
	case reply:
		c.answered = true
	case !f.begins():
		return c.answered // the end of a handshake whose middle went elsewhere
	}
	return true
}
