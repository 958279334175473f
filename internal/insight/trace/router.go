package trace

import (
	"fmt"
	"net/netip"
	"slices"

	"go4.org/netipx"

	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/ipfamily"
	"github.com/sallyport/sallyport/internal/model/state"
)

// routerPipeline processes a packet in a logical router, from ingress to egress port.
type routerPipeline struct {
	*traceRun
	*logicalRouter
	inport, outport *routerPort
	pkt             packet
}

// runRouterPipeline runs the pipeline stages of a router, in OVN's order.
func (w *traceRun) runRouterPipeline(in *routerPort, f packet) transition {
	f.clearConntrack()
	f.Inport, f.Outport = in.Name, ""
	w.notePassed(clusterstate.RouterRef(in.router.Name), w.routerOwnerRef(in.router.Name),
		clusterstate.NodeRef(w.nodeOfChassis(f.chassis)))
	w.beginStep(in.router.Name, f)
	p := &routerPipeline{traceRun: w, logicalRouter: in.router, inport: in, pkt: f}
	for _, table := range []func() (transition, bool){
		p.lrInAdmission, p.lrInIPInput, p.lrInUnSNAT, p.lrInDNAT, p.lrInIPRouting, p.lrInPolicy, p.lrInARPResolve,
		p.lrInGwRedirect, p.lrOutUnDNAT, p.lrOutSNAT, p.lrOutEgrLoop,
	} {
		if next, ends := table(); ends {
			return next
		}
	}
	return p.lrOutDelivery()
}

func continuePipeline() (transition, bool)        { return transition{}, false }
func endPipeline(s transition) (transition, bool) { return s, true }
func (p *routerPipeline) ownerRef() state.Ref     { return p.routerOwnerRef(p.Name) }

func (p *routerPipeline) lrInAdmission() (transition, bool) {
	switch {
	case p.Disabled || p.inport.Disabled:
		return endPipeline(p.dropPacket(Disabled,
			fmt.Sprintf("router %s, or its port %s, is disabled", p.Name, p.inport.Name), p.ownerRef()))
	case p.inport.isGatewayPort() && p.inport.switchPort != nil && p.inport.switchPort.onSwitch.localnetPort != nil &&
		!p.pkt.egressLooped && !p.isAdmitted():
		return endPipeline(p.dropPacket(NoGatewayNode,
			fmt.Sprintf("node %s does not hold the gateway of router %s on %s",
				p.nodeOfChassis(p.pkt.chassis), p.Name, p.inport.switchPort.onSwitch.Name), p.ownerRef()))
	default:
		return continuePipeline()
	}
}

// isAdmitted reports whether the packet's destination MAC is served on its chassis: by the gateway port, or by a
// distributed NAT entry.
func (p *routerPipeline) isAdmitted() bool {
	return p.inport.isResidentOn(p.pkt.chassis) || slices.ContainsFunc(p.natEntries, func(t natEntry) bool {
		return t.distributedVIF != nil && t.gatewayPort == p.inport && t.isResidentOn(p.pkt.chassis) &&
			t.externalMAC == p.pkt.EthDestination
	})
}

// lrInIPInput drops spoofed sources, and answers packets for the router itself.
func (p *routerPipeline) lrInIPInput() (transition, bool) {
	f := &p.pkt
	if p.isSpoofed() {
		return endPipeline(p.dropPacket(Spoofed, fmt.Sprintf(
			"router %s drops it: its source is the router's own address %s", p.Name, f.Source), p.ownerRef()))
	}
	own := p.portWithAddress(f.Destination)
	if own != nil && f.isICMP() && f.canStartConnection() { // the only other type that is traced is the reply
		return endPipeline(p.answerPing(own))
	}
	if own != nil && !p.hasVIP(f.Destination) && !p.isSNATAddress(f.Destination) {
		reason := fmt.Sprintf("%s is the address of router %s itself, which answers pings only", f.Destination, p.Name)
		if len(p.gatewayPorts) == 0 {
			return endPipeline(p.rejectPacket(NoSuchPort, reason, p.ownerRef()))
		}
		return endPipeline(p.dropPacket(NoSuchPort, reason, p.ownerRef()))
	}
	if f.TTL--; f.TTL == 0 {
		return endPipeline(p.dropPacket(Loop, "its TTL has expired", p.ownerRef()))
	}
	return continuePipeline()
}

// isSpoofed reports whether the packet's source is an address of the router.
func (p *routerPipeline) isSpoofed() bool {
	if p.pkt.egressLooped || slices.ContainsFunc(p.natEntries, func(t natEntry) bool {
		return t.Type == "snat" && t.gatewayPort == p.inport && t.External == p.pkt.Source
	}) {
		return false
	}
	return slices.ContainsFunc(p.ports, func(o *routerPort) bool {
		return slices.ContainsFunc(o.Networks, func(n netip.Prefix) bool {
			return n.Addr() == p.pkt.Source || n.Bits() < 31 && broadcastAddress(n) == p.pkt.Source
		})
	})
}

// broadcastAddress returns the last address of a prefix; invalid: the family has no broadcast.
func broadcastAddress(p netip.Prefix) netip.Addr {
	if !ipfamily.HasBroadcast(p.Addr()) {
		return netip.Addr{}
	}
	return netipx.PrefixLastIP(p)
}

// answerPing ends the path with the router's reply to a ping.
func (p *routerPipeline) answerPing(own *routerPort) transition {
	return transition{outcome: &outcome{
		kind:     outcomeEchoed,
		echoPort: p.inport,
		packet:   p.pkt,
		Path:     Path{About: []state.Ref{p.ownerRef()}, Reason: own.Name},
	}}
}

// lrOutEgrLoop sends a packet for an external address of the router back to the ingress pipeline of its egress port.
func (p *routerPipeline) lrOutEgrLoop() (transition, bool) {
	for _, t := range p.natEntries {
		if t.External == p.pkt.Destination && t.gatewayPort == p.outport && t.isResidentOn(p.pkt.chassis) {
			f := p.pkt
			f.egressLooped = true
			f.EthSource, f.EthDestination = f.EthDestination, f.EthSource
			p.addHop(f, Hop{
				About:  p.ownerRef(),
				Row:    "Logical_Router " + p.Name,
				Places: atRouter(p.Name, "an address of its own"),
			}, "is for an address of the router itself, which processes it again")
			return endPipeline(transition{toRouter: p.outport, packet: f})
		}
	}
	return continuePipeline()
}

// lrOutDelivery outputs the packet to the peer of the egress port.
func (p *routerPipeline) lrOutDelivery() transition {
	f := p.pkt
	f.clearConntrack()
	f.egressLooped = false
	if owner := p.outport.IDs.Owner(); owner.Kind == returnPath && p.inport.isGatewayPort() {
		p.addHop(f, Hop{
			About:  owner,
			Row:    "Logical_Router_Port " + p.outport.Name,
			Places: atReturnPort(owner.Name, "so that replies are recognized"),
		}, "takes the return port of network %s, so that its replies are recognized", owner.Name)
	}
	p.endStep(p.outport.Name)
	switch {
	case p.outport.peer != nil:
		return transition{toRouter: p.outport.peer, packet: f}
	case p.outport.switchPort != nil:
		return transition{toSwitch: p.outport.switchPort, packet: f}
	default:
		return p.dropPacket(NoRoute, fmt.Sprintf("port %s of router %s is not connected", p.outport.Name, p.Name),
			p.ownerRef())
	}
}
