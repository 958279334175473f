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
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/state"
)

// routeCandidate is the result of a matching route.
type routeCandidate struct {
	rank    int
	nextHop netip.Addr
	outport *routerPort
}

// lrInIPRouting selects a route in the routing table of the ingress port.
func (p *routerPipeline) lrInIPRouting() (transition, bool) {
	var best []routeCandidate
	for _, w := range p.matchingRoutes() {
		switch {
		case len(best) == 0 || w.rank > best[0].rank:
			best = []routeCandidate{w}
		case w.rank == best[0].rank && w.rank%8 != rankConnected && !slices.Contains(best, w):
			// not for connected routes: of several ports with the same network, OVN uses one
			best = append(best, w)
		}
	}
	if len(best) == 0 {
		return endPipeline(p.dropPacket(NoRoute, fmt.Sprintf(
			"router %s has no route to %s for packets that enter through %s",
			p.Name, p.pkt.Destination, p.inport.Name), p.ownerRef()))
	}
	to := best[0]
	if len(best) > 1 {
		to = best[p.chooseIndex("routes of "+p.Name+" to "+p.pkt.Destination.String(), len(best))]
	}
	if to.outport == nil {
		return endPipeline(p.dropPacket(NoRoute,
			fmt.Sprintf("a route of router %s discards packets to %s", p.Name, p.pkt.Destination), p.ownerRef()))
	}
	p.setNextHop(to.nextHop, to.outport)
	return continuePipeline()
}

func (p *routerPipeline) setNextHop(hop netip.Addr, out *routerPort) {
	p.pkt.nextHop, p.outport, p.pkt.Outport = hop, out, out.Name
	p.pkt.EthSource = out.mac
}

// Ranks of routes with the same prefix length: routes by source are last, connected routes first.
const (
	rankStatic    = 4
	rankConnected = 6
)

// matchingRoutes returns the routes that match the packet.
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
		if w.outport != nil || r.Output == "" && !r.NextHop.IsValid() { // OVN ignores other routes without a port
			out = append(out, w)
		}
	}
	return out
}

// routeOutport returns the egress port of a route, or nil.
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

// outportFor returns the port whose network contains a next hop. If there are several, OVN may use any of them; the
// longest prefix is the best guess.
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

// lrInPolicy evaluates the router's policies, which override the routing table.
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
			p.addHop(p.pkt, Hop{About: about, Row: row, Places: atRouter(p.Name, "policy %d", rule.Priority)},
				"%s", text)
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
			p.addHop(p.pkt, Hop{About: about, Row: row, Places: p.atPolicy(rule, about)}, "%s", text)
		case "allow":
		default:
			p.addCaveat("%s has action %s, which trace does not support", row, rule.Action)
		}
		p.noteForeignPolicy(foreign && rule.Action == "reroute", about, rule)
		return continuePipeline()
	}
	return continuePipeline()
}

// atPolicy is the router, or the return port that a policy of the return path leads a reply to. Of a policy that sends
// a packet to another router, the router is named.
func (p *routerPipeline) atPolicy(rule logical.RouterPolicy, about state.Ref) []Place {
	switch peer := p.outport.peer; {
	case about.Kind == returnPath && rule.Priority == ownership.ReturnReply:
		return atReturnPort(about.Name, "")
	case peer != nil && peer.router != p.logicalRouter:
		return atRouter(p.Name, "to router %s", peer.router.Name)
	default:
		return atRouter(p.Name, "") // NAT names the gateway
	}
}

// noteForeignPolicy records a policy of unknown origin that reroutes the packet.
func (p *routerPipeline) noteForeignPolicy(is bool, about state.Ref, rule logical.RouterPolicy) {
	if is {
		p.addCaveat("policy %d of router %s is of unknown origin and reroutes the packet (%s)", rule.Priority,
			p.Name, rule.Match)
		p.foreignPolicies = append(p.foreignPolicies, about)
	}
}

// reachableNextHops returns the next hops of a policy that are on a network of a port.
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

// dropUntranslated ends the path of a packet for an address of the router that no load balancer or NAT entry
// translates: a port without a Service, or a reply without a connection.
func (p *routerPipeline) dropUntranslated() transition {
	protocol, number := protocolName(p.pkt.Protocol), p.pkt.DestinationPort
	about := append(p.addressRefs(p.pkt.Destination), p.ownerRef())
	nobody := fmt.Sprintf("no load balancer or NAT entry serves port %d/%s of %s", number, protocol, p.pkt.Destination)
	if p.pkt.isICMP() {
		nobody = fmt.Sprintf("nothing answers pings to %s", p.pkt.Destination)
	}
	for _, s := range p.survey.Cluster.Services {
		if slices.Contains(s.Ingress, p.pkt.Destination) &&
			slices.ContainsFunc(s.Ports, func(o clusterstate.ServicePort) bool {
				return o.Port == int(number) && strings.EqualFold(o.Protocol, protocol)
			}) {
			return p.dropPacket(NotInForce,
				fmt.Sprintf("%s has the port, but %s: router %s has no load balancer for it", s.Ref, nobody, p.Name),
				append([]state.Ref{s.Ref}, about...)...)
		}
	}
	if i := slices.IndexFunc(about, func(r state.Ref) bool { return r.Kind == string(intent.FIp) }); i >= 0 {
		return p.dropPacket(NotInForce, fmt.Sprintf("%s has the address, but %s: router %s does not translate it",
			about[i], nobody, p.Name), about...)
	}
	if p.pkt.isICMP() && p.hasVIP(p.pkt.Destination) {
		return p.dropUnansweredPing(about)
	}
	return p.dropPacket(NoSuchPort, nobody, about...)
}

// dropUnansweredPing ends the path of a ping to a load balancer's VIP: OVN answers pings only to the addresses of
// router ports.
func (p *routerPipeline) dropUnansweredPing(about []state.Ref) transition {
	var ports []string
	for i := range p.Balancers {
		b := &p.Balancers[i]
		for _, v := range b.VIPs {
			if v.Address.Addr() != p.pkt.Destination {
				continue
			}
			ports = append(ports, fmt.Sprintf("%d/%s", v.Address.Port(), loadBalancerProtocol(*b)))
			if of := p.vipOwnerRef(b, v.Address); !slices.Contains(about, of) {
				about = append([]state.Ref{of}, about...)
			}
		}
	}
	return p.dropPacket(BalancerIgnoresPing,
		fmt.Sprintf("%s is the address of the load balancer of %s, which serves %s and does not answer pings",
			p.pkt.Destination, about[0], strings.Join(ports, ", ")), about...)
}

// knownNeighbourMAC returns the MAC address of a next hop that OVN knows without ARP or ND.
func (p *routerPipeline) knownNeighbourMAC() (match.MAC, bool) {
	for _, t := range p.natEntries {
		if t.gatewayPort == p.outport && t.External == p.pkt.nextHop {
			if t.externalMAC != 0 {
				return t.externalMAC, true
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

// staticMACBinding returns the MAC address of the next hop from a Static_MAC_Binding.
func (p *routerPipeline) staticMACBinding() (match.MAC, bool) {
	return match.ParseMAC(p.staticMACs[portAddress{p.outport.Name, p.pkt.nextHop}])
}

// resolveByARP resolves the next hop on the switch of the egress port.
func (p *routerPipeline) resolveByARP() (transition, bool) {
	if p.outport.switchPort == nil {
		return endPipeline(p.dropPacket(NobodyAnswers, fmt.Sprintf(
			"nothing answers for next hop %s on port %s of router %s",
			p.pkt.nextHop, p.outport.Name, p.Name), p.ownerRef()))
	}
	on := p.outport.switchPort.onSwitch
	for _, o := range on.findAddressOwners(p.pkt.nextHop) {
		if o.switchPort != p.outport.switchPort { // not the router itself: it does not receive its own request
			p.pkt.EthDestination = o.mac
			return continuePipeline()
		}
	}
	if on.localnetPort == nil || len(on.findAddressOwners(p.pkt.nextHop)) > 0 {
		return endPipeline(p.dropUnresolved(on))
	}
	p.pkt.EthDestination = externalMAC
	return continuePipeline()
}

// externalMAC stands for the MAC address of any host outside the cluster.
const externalMAC match.MAC = 0x02_00_00_00_00_01

// dropUnresolved ends the path of a packet whose next hop is on a switch where no port has that address.
func (p *routerPipeline) dropUnresolved(on *logicalSwitch) transition {
	hop := p.pkt.nextHop
	if p.hasVIP(hop) {
		return p.dropUntranslated()
	}
	about := append([]state.Ref{}, p.addressRefs(p.query.Server.Addr())...)
	return p.dropPacket(TargetGone, fmt.Sprintf("no port on %s has address %s", on.Name, hop),
		append(about, p.ownerRef())...)
}

// lrInGwRedirect moves the packet to the chassis of the gateway port through which it leaves.
func (p *routerPipeline) lrInGwRedirect() (transition, bool) {
	if !p.outport.isGatewayPort() {
		return continuePipeline()
	}
	balanced := p.isFromBackend()
	if i := slices.IndexFunc(p.natEntries, func(t natEntry) bool {
		return !balanced && t.distributedVIF != nil && t.gatewayPort == p.outport && t.Logical.Contains(p.pkt.Source) &&
			t.isResidentOn(p.pkt.chassis)
	}); i >= 0 {
		p.pkt.EthSource = p.natEntries[i].externalMAC
		return continuePipeline()
	}
	if wrong, bad := p.checkGatewayChassis(p.outport); bad {
		return endPipeline(wrong)
	}
	p.moveToChassis(&p.pkt, p.outport.Holder)
	return continuePipeline()
}

// moveToChassis moves a packet to another chassis.
func (w *traceRun) moveToChassis(f *packet, chassis string) {
	if f.chassis != chassis {
		f.clearConntrack()
		f.chassis, f.recirculations = chassis, 1 // for leaving the tunnel
	}
}

// checkGatewayChassis ends the path if no chassis holds a gateway port, or if its node is not Ready.
func (w *traceRun) checkGatewayChassis(p *routerPort) (transition, bool) {
	where := "port " + p.Name
	if p.switchPort != nil {
		where += " on " + p.switchPort.onSwitch.Name
	}
	if names := w.readyNodesOf(p.Chassis); p.Holder == "" && len(names) > 0 {
		return w.dropPacket(GatewayUnclaimed, fmt.Sprintf("at this moment no node holds gateway %s, which may be on %s", where,
			strings.Join(names, " or ")), w.routerOwnerRef(p.router.Name)), true
	}
	if p.Holder == "" {
		return w.dropPacket(NoGatewayNode, "no node holds gateway "+where, w.routerOwnerRef(p.router.Name)), true
	}
	return w.checkNodeReady(p.Holder, "holds gateway "+where)
}

// readyNodesOf returns the nodes of chassis that are Ready and may be gateways.
func (w *traceRun) readyNodesOf(chassis []string) (out []string) {
	for _, c := range chassis {
		if n := w.survey.Cluster.Node(w.nodeOfChassis(c)); n != nil && n.Ready && n.Gateway {
			out = append(out, n.Name)
		}
	}
	return out
}

// checkNodeReady ends the path if the node of a chassis is not Ready according to Kubernetes.
func (w *traceRun) checkNodeReady(chassis, does string) (transition, bool) {
	name := w.nodeOfChassis(chassis)
	for _, n := range w.survey.Cluster.Nodes {
		if n.Name == name && !n.Ready {
			return w.dropPacket(diagnosis.NodeNotReady, fmt.Sprintf("node %s %s, but is not Ready", name, does), n.Ref),
				true
		}
	}
	return transition{}, false
}
