package trace

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/logical"
)

// balancer is the load balancer that a new connection is for.
func (p *passage) balancer() (*logical.Balancer, logical.VIP) {
	if !p.f.Tracked || !p.f.New {
		return nil, logical.VIP{}
	}
	b, v := balancerOf(p.Balancers, p.f)
	if b == nil {
		return nil, v
	}
	here := len(p.gateways) == 0 || slices.ContainsFunc(p.gateways, func(g *port) bool { return g.resident(p.f.chassis) })
	if !here && (len(v.Backends) > 0 || b.Options["reject"] != "true") {
		return nil, v
	}
	return b, v
}

// balancerOf is the load balancer among several whose address a packet is for, its port before any port.
func balancerOf(all []logical.Balancer, f flight) (*logical.Balancer, logical.VIP) {
	for _, port := range []uint16{f.DestinationPort, 0} {
		for i := range all {
			for _, v := range all[i].VIPs {
				if v.Address == netip.AddrPortFrom(f.Destination, port) && (port == 0 || protocolName(f.Protocol) == protocolOf(all[i])) {
					return &all[i], v
				}
			}
		}
	}
	return nil, logical.VIP{}
}

func protocolOf(b logical.Balancer) string {
	if b.Protocol == "" {
		return "tcp"
	}
	return b.Protocol
}

// balance gives a connection to a backend.
func (p *passage) balance(b *logical.Balancer, v logical.VIP) (step, bool) {
	to, next, ends := p.pick(b, v, p.f)
	if ends {
		return next, true
	}
	as := p.f.tuple()
	as.destination = to
	p.hash(b, &p.f)
	p.commit("dnat "+p.Name, &p.f, as)
	p.hop(p.f, p.balancerAbout(b, v.Address.Addr()), "Load_Balancer "+b.Name, "%s", p.balanceText(b, v, to, p.inside()))
	return goesOn()
}

// pick chooses a backend; without any, the connection is refused or dropped.
func (w *walk) pick(b *logical.Balancer, v logical.VIP, f flight) (netip.AddrPort, step, bool) {
	alive := w.backends(b, v)
	if len(alive) == 0 {
		about := w.balancerAbout(b, v.Address.Addr())
		reason := fmt.Sprintf("%s has no endpoint for port %d/%s", about, v.Address.Port(), protocolName(f.Protocol))
		if len(v.Backends) > 0 {
			reason = fmt.Sprintf("the health check of %s finds none of its %d endpoints alive", about, len(v.Backends))
		}
		w.hop(f, about, "Load_Balancer "+b.Name, "nobody is behind it")
		if b.Options["reject"] == "true" {
			return netip.AddrPort{}, w.refuse(NoEndpoints, reason, about), true
		}
		return netip.AddrPort{}, w.drop(NoEndpoints, reason, about), true
	}
	to := alive[w.choose("Load_Balancer "+b.Name+" "+v.Address.String(), len(alive))].Address
	if to.Port() == 0 {
		to = netip.AddrPortFrom(to.Addr(), f.DestinationPort)
	}
	if w.steps[len(w.steps)-1].Backend = to; b.Options["affinity_timeout"] != "" {
		w.unasked() // ovn-trace does not go on where a client's backend is written down
	}
	return to, step{}, false
}

// hash notes that a packet begins again for the choice of its backend: Open vSwitch does, unless it is told by which fields to choose.
func (w *walk) hash(b *logical.Balancer, f *flight) {
	if len(b.Fields) == 0 {
		w.repeat(f)
	}
}

// alive says whether the health check of a backend does not say that it is dead.
func (w *walk) alive(b *logical.Balancer, to netip.AddrPort, mapping string) bool {
	for _, m := range w.survey.Logical.Monitors {
		if m.Address == to && (m.Protocol == "" || m.Protocol == protocolOf(*b)) && strings.HasPrefix(mapping, m.Port+":") {
			return m.Status == "online" || m.Status == ""
		}
	}
	return false // OVN asks nobody there
}

// backend says whether the packet comes from a backend of a load balancer, and so may be a reply.
func (p *passage) backend() bool {
	if !slices.ContainsFunc(p.gateways, func(g *port) bool { return (g == p.in || g == p.out) && g.resident(p.f.chassis) }) {
		return false
	}
	return p.serves()
}

// serves says whether the packet's source is a backend.
func (p *passage) serves() bool {
	return slices.ContainsFunc(p.Balancers, func(b logical.Balancer) bool {
		return protocolOf(b) == protocolName(p.f.Protocol) && slices.ContainsFunc(b.VIPs, func(v logical.VIP) bool {
			return slices.Contains(v.Backends, p.f.tuple().source)
		})
	})
}

// balancerAt is the load balancer that has an address and port; nil: none has.
func (p *passage) balancerAt(at netip.AddrPort) *logical.Balancer {
	for i := range p.Balancers {
		b := &p.Balancers[i]
		if protocolOf(*b) == protocolName(p.f.Protocol) && slices.ContainsFunc(b.VIPs, func(v logical.VIP) bool { return v.Address == at }) {
			return b
		}
	}
	return nil
}

// backends are those of a load balancer that get connections to an address: of checked ones, those that are not known to be dead.
func (w *walk) backends(b *logical.Balancer, v logical.VIP) []logical.VIP {
	checked := slices.Contains(b.Checked, v.Address.String())
	var out []logical.VIP
	for _, to := range v.Backends {
		at, mapped := b.Mappings[to.Addr().String()]
		if !checked || mapped && w.alive(b, to, at) {
			out = append(out, logical.VIP{Address: to})
		}
	}
	return out
}
