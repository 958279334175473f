package trace

import (
	"net/netip"
	"slices"

	"github.com/sallyport/sallyport/internal/model/ipfamily"
	"github.com/sallyport/sallyport/internal/model/match"
)

// isSNATAddress reports whether the router uses an address for SNAT.
func (r *logicalRouter) isSNATAddress(a netip.Addr) bool {
	return slices.ContainsFunc(r.natEntries, func(t natEntry) bool { return t.Type == "snat" && t.External == a })
}

// lrInUnSNAT translates the destination of replies to connections with SNAT back to the original source.
func (p *routerPipeline) lrInUnSNAT() (transition, bool) {
	for _, t := range p.natEntries {
		if t.Type == "dnat" || t.External != p.pkt.Destination || t.gatewayPort != p.inport ||
			!t.isResidentOn(p.pkt.chassis) {
			continue
		}
		p.lookupConntrack("snat "+p.Name, &p.pkt, true)
		if p.pkt.Established && p.pkt.Destination != t.External {
			p.addHop(p.pkt, Hop{
				About:  p.natOwnerRef(t),
				Row:    p.formatNATRow(t),
				Places: atRouter(p.Name, "back to %s", p.pkt.Destination),
			}, "translates the reply's destination %s back to %s", t.External, p.pkt.Destination)
		}
		return continuePipeline()
	}
	return continuePipeline()
}

// lrInDNAT translates destinations: to a backend of a load balancer, or to the logical address of a NAT entry.
func (p *routerPipeline) lrInDNAT() (transition, bool) {
	if p.hasVIP(p.pkt.Destination) {
		before := p.pkt.tuple().destination
		p.lookupConntrack("dnat "+p.Name, &p.pkt, true)
		p.noteKnownBackend(before)
	}
	t := p.applicableNAT(true)
	if t == nil || t.Match == "" {
		if b, v := p.matchLoadBalancer(); b != nil {
			return p.applyLoadBalancer(b, v)
		}
	}
	if t == nil {
		return continuePipeline()
	}
	before := p.pkt.Destination
	as := p.pkt.tuple()
	as.destination = netip.AddrPortFrom(t.Logical.Addr(), as.destination.Port())
	p.applyNATEntry(*t, "dnat", as)
	p.addHop(p.pkt, Hop{
		About:  p.natOwnerRef(*t),
		Row:    p.formatNATRow(*t),
		Places: atAddress(before.String(), "DNAT to %s", p.pkt.Destination),
	}, "translates destination %s to %s", before, p.describePod(p.pkt.Destination, p.internalSwitches()))
	return continuePipeline()
}

// applyNATEntry translates the packet, with a connection unless the entry is stateless.
func (p *routerPipeline) applyNATEntry(t natEntry, zone string, as tuple) {
	if t.isStateless() {
		p.pkt.setTuple(as)
		return
	}
	p.commitNAT(zone+" "+p.Name, &p.pkt, as)
}

func (t natEntry) isStateless() bool { return t.Options["stateless"] == "true" }

// flowPriority returns the priority among NAT entries: those with a match come first, then the longest prefix wins.
func (t natEntry) flowPriority() int {
	if t.Match != "" {
		return 300 + t.Priority
	}
	return 129 + t.Logical.Bits()
}

// applicableNAT returns the NAT entry that applies to a packet: for the destination on ingress through a gateway port,
// or for the source on egress through one.
func (p *routerPipeline) applicableNAT(destination bool) *natEntry {
	other := "dnat"
	if destination {
		other = "snat"
	}
	return p.bestNAT(func(t natEntry) bool { return t.Type != other && p.natApplies(t, destination) })
}

// bestNAT returns the entry with the highest priority among those that are resident on the packet's chassis and fit, or
// nil.
func (p *routerPipeline) bestNAT(fits func(natEntry) bool) (best *natEntry) {
	for i := range p.natEntries {
		if t := &p.natEntries[i]; t.isResidentOn(p.pkt.chassis) && fits(*t) &&
			(best == nil || t.flowPriority() > best.flowPriority()) {
			best = t
		}
	}
	return best
}

// natApplies reports whether a NAT entry applies to the packet.
func (p *routerPipeline) natApplies(t natEntry, destination bool) bool {
	outer := p.pkt.Destination
	if destination {
		if t.External != p.pkt.Destination || t.gatewayPort != p.inport {
			return false
		}
		outer = p.pkt.Source
	} else if !t.Logical.Contains(p.pkt.Source) || t.gatewayPort != p.outport {
		return false
	}
	if t.Match != "" && !p.evaluateMatch(t.Match, p.pkt, p.formatNATRow(t)) {
		return false
	}
	return (t.Allowed == "" || p.inAddressSet(t.Allowed, outer)) &&
		(t.Exempted == "" || !p.inAddressSet(t.Exempted, outer))
}

// inAddressSet reports whether an address is in an address set.
func (p *routerPipeline) inAddressSet(set string, a netip.Addr) bool {
	probe := p.pkt
	probe.Source, probe.Destination = a, a
	return p.evaluateMatch(match.From(match.AddressSet(ipfamily.Of(a), set)).String(), probe, "Address_Set "+set)
}

// lrOutUnDNAT translates the source of replies back to the address that the client used.
func (p *routerPipeline) lrOutUnDNAT() (transition, bool) {
	t := p.replyNAT()
	if t == nil && !p.mayBeBackendReply() {
		return continuePipeline()
	}
	before := p.pkt.tuple().source
	p.lookupConntrack("dnat "+p.Name, &p.pkt, true)
	after := p.pkt.tuple().source
	if before == after {
		return continuePipeline()
	}
	about, row := p.ownerRef(), ""
	if b := p.loadBalancerAt(after); b != nil {
		about, row = p.vipOwnerRef(b, after), "Load_Balancer "+b.Name
	}
	if t != nil && t.External == after.Addr() {
		about, row = p.natOwnerRef(*t), p.formatNATRow(*t)
	}
	p.addHop(p.pkt, Hop{
		About:  about,
		Row:    row,
		Places: atRouter(p.Name, "from %s again%s", after.Addr(), p.formatGateway()),
	}, "translates the reply's source back to %s (was %s)", after.Addr(), before.Addr())
	return continuePipeline()
}

// replyNAT returns the NAT entry that makes the router look up an outgoing packet as a possible reply, or nil.
func (p *routerPipeline) replyNAT() *natEntry {
	return p.bestNAT(func(t natEntry) bool {
		return t.Type != "snat" && !t.isStateless() && t.Logical.Contains(p.pkt.Source) && t.gatewayPort == p.outport
	})
}

// lrOutSNAT translates the source of outgoing packets to an external address.
func (p *routerPipeline) lrOutSNAT() (transition, bool) {
	if p.bestNAT(func(t natEntry) bool { return t.Type == "snat" && !p.pkt.Reply && p.natApplies(t, false) }) != nil {
		p.lookupConntrack("snat "+p.Name, &p.pkt, false)
	}
	t, back := p.applicableNAT(false), p.returnSNAT()
	if t != nil && p.pkt.Reply && !t.isStateless() {
		t = nil
	}
	switch {
	case back != nil && (t == nil || back.flowPriority() > t.flowPriority()):
		if p.lookupConntrack("snat "+p.Name, &p.pkt, true); p.pkt.New {
			p.commitConnection("snat "+p.Name, &p.pkt, 0)
			p.recirculate(&p.pkt)
		}
	case t != nil:
		before, as := p.pkt.Source, p.pkt.tuple()
		as.source = netip.AddrPortFrom(t.External, as.source.Port())
		p.applyNATEntry(*t, "snat", as)
		p.addHop(p.pkt, Hop{
			About:  p.natOwnerRef(*t),
			Row:    p.formatNATRow(*t),
			Places: atRouter(p.Name, "SNAT to %s%s", p.pkt.Source, p.formatGateway()),
		}, "translates the source to %s (was %s)", p.pkt.Source, before)
	}
	return continuePipeline()
}

// formatGateway names the next hop if it is the gateway of an external network.
func (p *routerPipeline) formatGateway() string {
	if p.outport.switchPort == nil || !p.outport.switchPort.onSwitch.isGateway(p.pkt.nextHop) {
		return ""
	}
	return ", to gateway " + p.pkt.nextHop.String()
}

// returnSNAT returns the SNAT entry whose logical prefix contains the packet's destination, or nil. Connections to such
// addresses are committed, so that their replies keep their source address.
func (p *routerPipeline) returnSNAT() *natEntry {
	return p.bestNAT(func(t natEntry) bool {
		return t.Type == "snat" && t.Logical.Contains(p.pkt.Destination) && t.gatewayPort == p.inport &&
			(t.Match == "" || p.evaluateMatch(t.Match, p.pkt, p.formatNATRow(t)))
	})
}
