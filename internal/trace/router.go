package trace

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/sallyport/sallyport/internal/match"
	"github.com/sallyport/sallyport/internal/state"
	"github.com/sallyport/sallyport/internal/survey"
)

// passage is a packet in a router, from one port to another.
type passage struct {
	*walk
	*router
	in, out *port
	f       flight
}

// enterRouter is what a router does with a packet, in the order of OVN's tables.
func (w *walk) enterRouter(in *port, f flight) step {
	f.forget()
	f.Inport, f.Outport = in.Name, ""
	w.pass(survey.RouterRef(in.router.Name), w.vpc(in.router.Name), survey.NodeRef(w.node(f.chassis)))
	w.enter(in.router.Name, f)
	p := &passage{walk: w, router: in.router, in: in, f: f}
	for _, table := range []func() (step, bool){
		p.admit, p.receive, p.unSource, p.destine, p.route, p.obey, p.resolve, p.redirect, p.unDestine, p.source, p.loop,
	} {
		if next, ends := table(); ends {
			return next
		}
	}
	return p.deliver()
}

func goesOn() (step, bool)          { return step{}, false }
func ends(s step) (step, bool)      { return s, true }
func (p *passage) about() state.Ref { return p.vpc(p.Name) }

func (p *passage) admit() (step, bool) {
	switch {
	case p.Disabled || p.in.Disabled:
		return ends(p.drop(Disabled, fmt.Sprintf("router %s, or its port %s, is disabled", p.Name, p.in.Name), p.about()))
	case p.in.gateway() && p.in.socket != nil && p.in.socket.on.outside != nil && !p.f.looped && !p.admitted():
		return ends(p.drop(NoGatewayNode, fmt.Sprintf("node %s does not hold the gateway of router %s on %s",
			p.node(p.f.chassis), p.Name, p.in.socket.on.Name), p.about()))
	default:
		return goesOn()
	}
}

// admitted says whether the packet is for an address that is answered for where it is.
func (p *passage) admitted() bool {
	return p.in.resident(p.f.chassis) || slices.ContainsFunc(p.translations, func(t translation) bool {
		mac, _ := match.ParseMAC(t.ExternalMAC)
		return t.at != nil && t.port == p.in && t.resident(p.f.chassis) && mac == p.f.EthDestination
	})
}

// receive judges addresses, and answers what is for the router itself.
func (p *passage) receive() (step, bool) {
	f := &p.f
	if p.spoofs() {
		return ends(p.drop(Spoofed, fmt.Sprintf("router %s drops it: it comes with the router's own address %s", p.Name, f.Source), p.about()))
	}
	own := p.own(f.Destination)
	if own != nil && f.Protocol == match.ICMP && f.ICMPType == 8 {
		return ends(p.echo(own))
	}
	if own != nil && !p.balances(f.Destination) && !p.sourceAddress(f.Destination) {
		reason := fmt.Sprintf("%s is the address of router %s itself, which answers pings only", f.Destination, p.Name)
		if len(p.gateways) == 0 {
			return ends(p.refuse(NoSuchPort, reason, p.about()))
		}
		return ends(p.drop(NoSuchPort, reason, p.about()))
	}
	if f.TTL--; f.TTL == 0 {
		return ends(p.drop(Loop, "it has passed too many routers", p.about()))
	}
	return goesOn()
}

// spoofs says whether the packet has an address of the router's as its source.
func (p *passage) spoofs() bool {
	if p.f.looped || slices.ContainsFunc(p.translations, func(t translation) bool {
		return t.Type == "snat" && t.port == p.in && t.External == p.f.Source
	}) {
		return false
	}
	return slices.ContainsFunc(p.ports, func(o *port) bool {
		return slices.ContainsFunc(o.Networks, func(n netip.Prefix) bool {
			return n.Addr() == p.f.Source || n.Addr().Is4() && n.Bits() < 31 && last(n) == p.f.Source
		})
	})
}

// last is the last address of a prefix: for all hosts in it.
func last(p netip.Prefix) netip.Addr {
	bytes := p.Masked().Addr().As4()
	for i := p.Bits(); i < 32; i++ {
		bytes[i/8] |= 0x80 >> (i % 8)
	}
	return netip.AddrFrom4(bytes)
}

// echo is the router's answer to a ping.
func (p *passage) echo(own *port) step {
	return step{end: &ending{kind: echoed, echo: p.in, flight: p.f, Path: Path{About: []state.Ref{p.about()}, Reason: own.Name}}}
}

// loop sends a packet for an address of the router's own back to where it began.
func (p *passage) loop() (step, bool) {
	for _, t := range p.translations {
		if t.External == p.f.Destination && t.port == p.out && t.resident(p.f.chassis) {
			f := p.f
			f.looped = true
			f.EthSource, f.EthDestination = f.EthDestination, f.EthSource
			p.hop(f, p.about(), "Logical_Router "+p.Name, "is for an address of the router itself, and turns round")
			return ends(step{router: p.out, flight: f})
		}
	}
	return goesOn()
}

// deliver lets the packet out of the router.
func (p *passage) deliver() step {
	f := p.f
	f.forget()
	f.looped = false
	if leg := p.out.IDs.Owner(); leg.Kind == returnPath && p.in.gateway() {
		p.hop(f, leg, "Logical_Router_Port "+p.out.Name, "takes the leg of network %s, by which its replies are known", leg.Name)
	}
	p.leave(p.out.Name)
	switch {
	case p.out.peer != nil:
		return step{router: p.out.peer, flight: f}
	case p.out.socket != nil:
		return step{swtch: p.out.socket, flight: f}
	default:
		return p.drop(NoRoute, fmt.Sprintf("port %s of router %s leads nowhere", p.out.Name, p.Name), p.about())
	}
}
