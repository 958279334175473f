package trace

import (
	"net/netip"
	"slices"
)

// sourceAddress says whether the router gives an address to what leaves.
func (r *router) sourceAddress(a netip.Addr) bool {
	return slices.ContainsFunc(r.translations, func(t translation) bool { return t.Type == "snat" && t.External == a })
}

// unSource gives replies back the address that the router took from what it let out.
func (p *passage) unSource() (step, bool) {
	for _, t := range p.translations {
		if t.Type == "dnat" || t.External != p.f.Destination || t.port != p.in || !t.resident(p.f.chassis) {
			continue
		}
		p.lookUp("snat "+p.Name, &p.f, true)
		if p.f.Established && p.f.Destination != t.External {
			p.hop(p.f, p.translationAbout(t), p.natRow(t), "it answers what left with %s: it is for %s", t.External, p.f.Destination)
		}
		return goesOn()
	}
	return goesOn()
}

// destine gives packets the address of the pod that they are for: by a load balancer, or a translation.
func (p *passage) destine() (step, bool) {
	if p.balances(p.f.Destination) {
		p.lookUp("dnat "+p.Name, &p.f, true)
	}
	t := p.translated(true)
	if t == nil || t.Match == "" {
		if b, v := p.balancer(); b != nil {
			return p.balance(b, v)
		}
	}
	if t == nil {
		return goesOn()
	}
	before := p.f.Destination
	as := p.f.tuple()
	as.destination = netip.AddrPortFrom(t.Logical.Addr(), as.destination.Port())
	p.become(*t, "dnat", as)
	p.hop(p.f, p.translationAbout(*t), p.natRow(*t), "%s stands for %s", before, p.podName(p.f.Destination, p.inside()))
	return goesOn()
}

// become carries out a translation.
func (p *passage) become(t translation, zone string, as tuple) {
	if t.stateless() {
		p.f.become(as)
		return
	}
	p.commit(zone+" "+p.Name, &p.f, as)
}

func (t translation) stateless() bool { return t.Options["stateless"] == "true" }

// rank decides between translations: those with a match come before others, and of these the longest prefix.
func (t translation) rank() int {
	if t.Match != "" {
		return 300 + t.Priority
	}
	return 129 + t.Logical.Bits()
}

// translated is the translation that applies: of destinations in by a gateway, or of sources out by one.
func (p *passage) translated(destination bool) *translation {
	other := "dnat"
	if destination {
		other = "snat"
	}
	return p.best(func(t translation) bool { return t.Type != other && p.applies(t, destination) })
}

// best is the translation that decides among those that fit, where the packet is; nil: none does.
func (p *passage) best(fits func(translation) bool) (best *translation) {
	for i := range p.translations {
		if t := &p.translations[i]; t.resident(p.f.chassis) && fits(*t) && (best == nil || t.rank() > best.rank()) {
			best = t
		}
	}
	return best
}

// applies says whether a translation is for the packet.
func (p *passage) applies(t translation, destination bool) bool {
	outer := p.f.Destination
	if destination {
		if t.External != p.f.Destination || t.port != p.in {
			return false
		}
		outer = p.f.Source
	} else if !t.Logical.Contains(p.f.Source) || t.port != p.out {
		return false
	}
	if t.Match != "" && !p.holds(t.Match, p.f, p.natRow(t)) {
		return false
	}
	return (t.Allowed == "" || p.inSet(t.Allowed, outer)) && (t.Exempted == "" || !p.inSet(t.Exempted, outer))
}

// inSet says whether an address is in an address set.
func (p *passage) inSet(set string, a netip.Addr) bool {
	field := "ip4"
	if !a.Is4() {
		field = "ip6"
	}
	probe := p.f
	probe.Source, probe.Destination = a, a
	return p.holds(field+".src == $"+set, probe, "Address_Set "+set)
}

// unDestine gives replies back the address that was asked.
func (p *passage) unDestine() (step, bool) {
	t := p.answersFor()
	if t == nil && !p.backend() {
		return goesOn()
	}
	before := p.f.tuple().source
	p.lookUp("dnat "+p.Name, &p.f, true)
	after := p.f.tuple().source
	if before == after {
		return goesOn()
	}
	about, row := p.about(), ""
	if b := p.balancerAt(after); b != nil {
		about, row = p.balancerAbout(b, after.Addr()), "Load_Balancer "+b.Name
	}
	if t != nil && t.External == after.Addr() {
		about, row = p.translationAbout(*t), p.natRow(*t)
	}
	p.hop(p.f, about, row, "gives the reply the address that was asked: %s instead of %s", after.Addr(), before.Addr())
	return goesOn()
}

// answersFor is the translation because of which the router looks whether a packet that leaves is a reply.
func (p *passage) answersFor() *translation {
	return p.best(func(t translation) bool {
		return t.Type != "snat" && !t.stateless() && t.Logical.Contains(p.f.Source) && t.port == p.out
	})
}

// source gives what leaves an address of the outside.
func (p *passage) source() (step, bool) {
	if p.best(func(t translation) bool { return t.Type == "snat" && !p.f.Reply && p.applies(t, false) }) != nil {
		p.lookUp("snat "+p.Name, &p.f, false)
	}
	t, back := p.translated(false), p.returning()
	if t != nil && p.f.Reply && !t.stateless() {
		t = nil
	}
	switch {
	case back != nil && (t == nil || back.rank() > t.rank()):
		if p.lookUp("snat "+p.Name, &p.f, true); p.f.New {
			p.keep("snat "+p.Name, &p.f, 0)
			p.repeat(&p.f)
		}
	case t != nil:
		before, as := p.f.Source, p.f.tuple()
		as.source = netip.AddrPortFrom(t.External, as.source.Port())
		p.become(*t, "snat", as)
		p.hop(p.f, p.translationAbout(*t), p.natRow(*t), "leaves with address %s instead of %s", p.f.Source, before)
	}
	return goesOn()
}

// returning is the translation of sources behind which the packet's destination is: what comes in to there is written down, so that its
// replies keep their address.
func (p *passage) returning() *translation {
	return p.best(func(t translation) bool {
		return t.Type == "snat" && t.Logical.Contains(p.f.Destination) && t.port == p.in && (t.Match == "" || p.holds(t.Match, p.f, p.natRow(t)))
	})
}
