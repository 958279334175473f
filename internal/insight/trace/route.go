package trace

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/insight/diagnosis"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/logical"
	"github.com/sallyport/sallyport/internal/model/match"
	"github.com/sallyport/sallyport/internal/model/state"
)

// routeCandidate is where a route leads.
type routeCandidate struct {
	rank    int
	nextHop netip.Addr
	outport *routerPort
}

// lrInIPRouting looks for the way in the routing table of the port that the packet came in by.
func (p *routerPipeline) lrInIPRouting() (transition, bool) {
	var best []routeCandidate
	for _, w := range p.matchingRoutes() {
		switch {
		case len(best) == 0 || w.rank > best[0].rank:
			best = []routeCandidate{w}
		case w.rank == best[0].rank && w.rank%8 != rankConnected && !slices.Contains(best, w): // OVN installs one of several ports with one network
			best = append(best, w)
		}
	}
	if len(best) == 0 {
		return endPipeline(p.dropPacket(NoRoute, fmt.Sprintf("router %s has no route to %s for what comes in by %s",
			p.Name, p.pkt.Destination, p.inport.Name), p.ownerRef()))
	}
	to := best[0]
	if len(best) > 1 {
		to = best[p.chooseIndex("routes of "+p.Name+" to "+p.pkt.Destination.String(), len(best))]
	}
	if to.outport == nil {
		return endPipeline(p.dropPacket(NoRoute,
			fmt.Sprintf("a route of router %s discards what is for %s", p.Name, p.pkt.Destination), p.ownerRef()))
	}
	p.setNextHop(to.nextHop, to.outport)
	return continuePipeline()
}

func (p *routerPipeline) setNextHop(hop netip.Addr, out *routerPort) {
	p.pkt.nextHop, p.outport, p.pkt.Outport = hop, out, out.Name
	p.pkt.EthSource = out.mac
}

// How OVN ranks routes of one length: those by source are the last, those of the ports' own networks the first.
const (
	rankStatic    = 4
	rankConnected = 6
)

// matchingRoutes are the routes that are for the packet.
func (p *routerPipeline) matchingRoutes() (out []routeCandidate) {
	table := p.inport.Options["route_table"]
	for _, o := range p.ports {
		for _, n := range o.Networks {
			if n.Masked().Contains(p.pkt.Destination) && !o.Disabled {
				out = append(out, routeCandidate{n.Bits()*8 + rankConnected, p.pkt.Destination, o})
			}
		}
	}
	for _, r := range p.Routes {
		to, rank := p.pkt.Destination, rankStatic
		if r.BySource {
			to, rank = p.pkt.Source, 0
		}
		if r.Table != table || !r.Prefix.Masked().Contains(to) {
			continue
		}
		w := routeCandidate{r.Prefix.Bits()*8 + rank, r.NextHop, p.routeOutport(r)}
		if !r.NextHop.IsValid() {
			w.nextHop = p.pkt.Destination
		}
		if w.outport != nil || r.Output == "" && !r.NextHop.IsValid() { // others OVN does not carry out
			out = append(out, w)
		}
	}
	return out
}

// routeOutport is the port by which a route leaves; nil: by none.
func (p *routerPipeline) routeOutport(r logical.StaticRoute) *routerPort {
	if r.Output != "" {
		i := slices.IndexFunc(p.ports, func(o *routerPort) bool { return o.Name == r.Output })
		if i < 0 {
			return nil
		}
		return p.ports[i]
	}
	return p.outportFor(r.NextHop)
}

// outportFor is the port that is on the network of a next hop. Of several OVN takes any; the longest prefix is the best
// guess.
func (p *routerPipeline) outportFor(hop netip.Addr) *routerPort {
	var best *routerPort
	bits := -1
	for _, o := range p.ports {
		for _, n := range o.Networks {
			if n.Masked().Contains(hop) && n.Bits() > bits && !o.Disabled {
				best, bits = o, n.Bits()
			}
		}
	}
	return best
}

// lrInPolicy carries out the router's policies, which overrule the routing table.
func (p *routerPipeline) lrInPolicy() (transition, bool) {
	for _, rule := range p.Policies {
		row := fmt.Sprintf("Logical_Router_Policy %s %d", p.Name, rule.Priority)
		hops := p.reachableNextHops(rule)
		if rule.Action == "reroute" && len(hops) == 0 || !p.evaluateMatch(rule.Match, p.pkt, row) {
			continue
		}
		about, text, foreign := p.describePolicy(p.logicalRouter, rule)
		switch rule.Action {
		case "drop":
			p.addHop(p.pkt, about, row, "%s", text)
			code, reason := PolicyDrops,
				fmt.Sprintf("%s (policy %d of router %s: %s)", text, rule.Priority, p.Name, rule.Match)
			if foreign {
				code = ForeignPolicyDrops
			}
			return endPipeline(p.dropPacket(code, reason, about))
		case "reroute":
			to := hops[0]
			if len(hops) > 1 {
				to = hops[p.chooseIndex(row+" "+rule.Match, len(hops))]
			}
			p.setNextHop(to, p.outportFor(to))
			p.addHop(p.pkt, about, row, "%s", text)
		case "allow":
		default:
			p.addCaveat("%s has action %s, which is not followed here", row, rule.Action)
		}
		p.noteForeignPolicy(foreign && rule.Action == "reroute", about, rule)
		return continuePipeline()
	}
	return continuePipeline()
}

// noteForeignPolicy notes a policy of somebody else that leads a packet.
func (p *routerPipeline) noteForeignPolicy(is bool, about state.Ref, rule logical.RouterPolicy) {
	if is {
		p.addCaveat("policy %d of router %s is nobody's that is known here, and leads the packet (%s)", rule.Priority,
			p.Name, rule.Match)
		p.foreignPolicies = append(p.foreignPolicies, about)
	}
}

// reachableNextHops are the next hops of a policy that can be reached.
func (p *routerPipeline) reachableNextHops(rule logical.RouterPolicy) (out []netip.Addr) {
	for _, hop := range rule.NextHops {
		if hop.IsValid() && p.outportFor(hop) != nil {
			out = append(out, hop)
		}
	}
	return out
}

// lrInARPResolve finds the MAC address of the next hop.
func (p *routerPipeline) lrInARPResolve() (transition, bool) {
	translated := slices.IndexFunc(p.natEntries, func(t natEntry) bool {
		return t.gatewayPort == p.outport && t.External == p.pkt.Destination
	})
	if p.inport == p.outport && translated >= 0 {
		return endPipeline(p.dropUntranslated())
	}
	if mac, known := p.knownNeighbourMAC(); known {
		p.pkt.EthDestination = mac
		return continuePipeline()
	}
	if p.portWithAddress(p.pkt.Destination) != nil {
		return endPipeline(p.dropUntranslated())
	}
	if mac, known := p.staticMACBinding(); known {
		p.pkt.EthDestination = mac
		return continuePipeline()
	}
	return p.resolveByARP()
}

// dropUntranslated is the end of a packet for an address of the router's own that nobody translates: a port without a
// Service, or a reply that nobody waits for.
func (p *routerPipeline) dropUntranslated() transition {
	protocol, number := protocolName(p.pkt.Protocol), p.pkt.DestinationPort
	about := append(p.addressRefs(p.pkt.Destination), p.ownerRef())
	nobody := fmt.Sprintf("nobody is behind port %d/%s of %s", number, protocol, p.pkt.Destination)
	if p.pkt.Protocol == match.ICMP {
		nobody = fmt.Sprintf("nobody answers pings of %s", p.pkt.Destination)
	}
	for _, s := range p.survey.Cluster.Services {
		if slices.Contains(s.Ingress, p.pkt.Destination) &&
			slices.ContainsFunc(s.Ports, func(o clusterstate.ServicePort) bool {
				return o.Port == int(number) && strings.EqualFold(o.Protocol, protocol)
			}) {
			return p.dropPacket(NotInForce,
				fmt.Sprintf("%s has the port, and %s: router %s has no load balancer for it", s.Ref, nobody, p.Name),
				append([]state.Ref{s.Ref}, about...)...)
		}
	}
	if i := slices.IndexFunc(about, func(r state.Ref) bool { return r.Kind == string(intent.FIp) }); i >= 0 {
		return p.dropPacket(NotInForce, fmt.Sprintf("%s has the address, and %s: router %s does not translate it",
			about[i], nobody, p.Name), about...)
	}
	if p.pkt.Protocol == match.ICMP && p.hasVIP(p.pkt.Destination) {
		return p.dropUnansweredPing(about)
	}
	return p.dropPacket(NoSuchPort, nobody, about...)
}

// dropUnansweredPing is the end of a ping of a load balancer's address: OVN answers pings of its routers' own addresses
// only.
func (p *routerPipeline) dropUnansweredPing(about []state.Ref) transition {
	var ports []string
	for i := range p.Balancers {
		b := &p.Balancers[i]
		for _, v := range b.VIPs {
			if v.Address.Addr() != p.pkt.Destination {
				continue
			}
			ports = append(ports, fmt.Sprintf("%d/%s", v.Address.Port(), loadBalancerProtocol(*b)))
			if of := p.loadBalancerRef(b, v.Address.Addr()); !slices.Contains(about, of) {
				about = append([]state.Ref{of}, about...)
			}
		}
	}
	return p.dropPacket(BalancerIgnoresPing,
		fmt.Sprintf("%s is the address of the load balancer of %s, which passes on %s and answers no ping",
			p.pkt.Destination, about[0], strings.Join(ports, ", ")), about...)
}

// knownNeighbourMAC is the MAC address of a next hop that OVN knows by itself.
func (p *routerPipeline) knownNeighbourMAC() (match.MAC, bool) {
	for _, t := range p.natEntries {
		if t.gatewayPort == p.outport && t.External == p.pkt.nextHop {
			if mac, ok := match.ParseMAC(t.ExternalMAC); ok && t.distributedVIF != nil {
				return mac, true
			}
			return p.outport.mac, true
		}
	}
	if p.outport.peer != nil {
		return p.outport.peer.mac, p.outport.peer.hasAddress(p.pkt.nextHop)
	}
	if p.outport.switchPort == nil || !p.outport.isOnLink(p.pkt.nextHop) {
		return 0, false
	}
	for _, at := range p.outport.switchPort.onSwitch.ports {
		if at.routerPort == nil && !at.Disabled && slices.Contains(at.Addresses, p.pkt.nextHop) {
			return at.mac, true
		}
	}
	return 0, false
}

// staticMACBinding is the MAC address that somebody has written down for the next hop.
func (p *routerPipeline) staticMACBinding() (match.MAC, bool) {
	for _, n := range p.survey.Logical.Static {
		if n.Port == p.outport.Name && n.Address == p.pkt.nextHop {
			return match.ParseMAC(n.MAC)
		}
	}
	return 0, false
}

// resolveByARP is who answers for the next hop on the wire.
func (p *routerPipeline) resolveByARP() (transition, bool) {
	if p.outport.switchPort == nil {
		return endPipeline(p.dropPacket(NobodyAnswers, fmt.Sprintf("nobody answers for %s on port %s of router %s",
			p.pkt.nextHop, p.outport.Name, p.Name), p.ownerRef()))
	}
	on := p.outport.switchPort.onSwitch
	for _, o := range p.findAddressOwners(on, p.pkt.nextHop) {
		if o.switchPort != p.outport.switchPort { // not the router itself: it does not hear its own question
			p.pkt.EthDestination = o.mac
			return continuePipeline()
		}
	}
	if on.localnetPort == nil || len(p.findAddressOwners(on, p.pkt.nextHop)) > 0 {
		return endPipeline(p.dropUnresolved(on))
	}
	p.pkt.EthDestination = externalMAC
	return continuePipeline()
}

// externalMAC stands for the MAC address of a host that is not the cluster's.
const externalMAC match.MAC = 0x02_00_00_00_00_01

// dropUnresolved is the end of a packet whose next hop is on a switch and nobody's.
func (p *routerPipeline) dropUnresolved(on *logicalSwitch) transition {
	hop := p.pkt.nextHop
	if p.hasVIP(hop) {
		return p.dropUntranslated()
	}
	about := append([]state.Ref{}, p.addressRefs(p.query.Server.Addr())...)
	return p.dropPacket(TargetGone, fmt.Sprintf("nobody on %s has address %s", on.Name, hop),
		append(about, p.ownerRef())...)
}

// lrInGwRedirect brings the packet to the node that holds the port by which it leaves.
func (p *routerPipeline) lrInGwRedirect() (transition, bool) {
	if !p.outport.isGatewayPort() {
		return continuePipeline()
	}
	balanced := p.isFromBackend()
	if i := slices.IndexFunc(p.natEntries, func(t natEntry) bool {
		return !balanced && t.distributedVIF != nil && t.gatewayPort == p.outport && t.Logical.Contains(p.pkt.Source) &&
			t.isResidentOn(p.pkt.chassis)
	}); i >= 0 {
		p.pkt.EthSource, _ = match.ParseMAC(p.natEntries[i].ExternalMAC)
		return continuePipeline()
	}
	if wrong, bad := p.checkGatewayChassis(p.outport); bad {
		return endPipeline(wrong)
	}
	p.moveToChassis(&p.pkt, p.outport.Holder)
	return continuePipeline()
}

// moveToChassis brings a packet to another node.
func (w *traceRun) moveToChassis(f *packet, chassis string) {
	if f.chassis != chassis {
		f.clearConntrack()
		f.chassis, f.recirculations = chassis, 1 // it comes out of a tunnel
	}
}

// checkGatewayChassis says whether a node that works holds a gateway.
func (w *traceRun) checkGatewayChassis(p *routerPort) (transition, bool) {
	where := "router " + p.Name
	if p.switchPort != nil {
		where += " on " + p.switchPort.onSwitch.Name
	}
	if p.Holder == "" {
		return w.dropPacket(NoGatewayNode, "no node holds the gateway of "+where, w.routerOwnerRef(p.Name)), true
	}
	return w.checkNodeReady(p.Holder, "holds the gateway of "+where)
}

// checkNodeReady says whether a node can carry packets, as far as Kubernetes knows.
func (w *traceRun) checkNodeReady(chassis, does string) (transition, bool) {
	name := w.nodeOfChassis(chassis)
	for _, n := range w.survey.Cluster.Nodes {
		if n.Name == name && !n.Ready {
			return w.dropPacket(diagnosis.NodeNotReady, fmt.Sprintf("node %s %s, and is not Ready", name, does), n.Ref),
				true
		}
	}
	return transition{}, false
}
