package trace

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/diagnosis"
	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/logical"
	"github.com/sallyport/sallyport/internal/match"
	"github.com/sallyport/sallyport/internal/state"
	"github.com/sallyport/sallyport/internal/survey"
)

// way is where a route leads.
type way struct {
	rank int
	hop  netip.Addr
	out  *port
}

// route looks for the way in the routing table of the port that the packet came in by.
func (p *passage) route() (step, bool) {
	var best []way
	for _, w := range p.ways() {
		switch {
		case len(best) == 0 || w.rank > best[0].rank:
			best = []way{w}
		case w.rank == best[0].rank && w.rank%8 != connected && !slices.Contains(best, w): // OVN installs one of several ports with one network
			best = append(best, w)
		}
	}
	if len(best) == 0 {
		return ends(p.drop(NoRoute, fmt.Sprintf("router %s has no route to %s for what comes in by %s", p.Name, p.f.Destination, p.in.Name), p.about()))
	}
	to := best[0]
	if len(best) > 1 {
		to = best[p.choose("routes of "+p.Name+" to "+p.f.Destination.String(), len(best))]
	}
	if to.out == nil {
		return ends(p.drop(NoRoute, fmt.Sprintf("a route of router %s discards what is for %s", p.Name, p.f.Destination), p.about()))
	}
	p.leadTo(to.hop, to.out)
	return goesOn()
}

func (p *passage) leadTo(hop netip.Addr, out *port) {
	p.f.hop, p.out, p.f.Outport = hop, out, out.Name
	p.f.EthSource = out.mac
}

// How OVN ranks routes of one length: those by source are the last, those of the ports' own networks the first.
const (
	static    = 4
	connected = 6
)

// ways are the routes that are for the packet.
func (p *passage) ways() (out []way) {
	table := p.in.Options["route_table"]
	for _, o := range p.ports {
		for _, n := range o.Networks {
			if n.Masked().Contains(p.f.Destination) && !o.Disabled {
				out = append(out, way{n.Bits()*8 + connected, p.f.Destination, o})
			}
		}
	}
	for _, r := range p.Routes {
		to, rank := p.f.Destination, static
		if r.BySource {
			to, rank = p.f.Source, 0
		}
		if r.Table != table || !r.Prefix.Masked().Contains(to) {
			continue
		}
		w := way{r.Prefix.Bits()*8 + rank, r.NextHop, p.outBy(r)}
		if !r.NextHop.IsValid() {
			w.hop = p.f.Destination
		}
		if w.out != nil || r.Output == "" && !r.NextHop.IsValid() { // others OVN does not carry out
			out = append(out, w)
		}
	}
	return out
}

// outBy is the port by which a route leaves; nil: by none.
func (p *passage) outBy(r logical.Route) *port {
	if r.Output != "" {
		i := slices.IndexFunc(p.ports, func(o *port) bool { return o.Name == r.Output })
		if i < 0 {
			return nil
		}
		return p.ports[i]
	}
	return p.toward(r.NextHop)
}

// toward is the port that is on the network of a next hop. Of several OVN takes any; the longest prefix is the best guess.
func (p *passage) toward(hop netip.Addr) *port {
	var best *port
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

// obey carries out the router's policies, which overrule the routing table.
func (p *passage) obey() (step, bool) {
	for _, rule := range p.Policies {
		row := fmt.Sprintf("Logical_Router_Policy %s %d", p.Name, rule.Priority)
		hops := p.hopsOf(rule)
		if rule.Action == "reroute" && len(hops) == 0 || !p.holds(rule.Match, p.f, row) {
			continue
		}
		about, text, foreign := p.policyWords(p.router, rule)
		switch rule.Action {
		case "drop":
			p.hop(p.f, about, row, "%s", text)
			code, reason := PolicyDrops, fmt.Sprintf("%s (policy %d of router %s: %s)", text, rule.Priority, p.Name, rule.Match)
			if foreign {
				code = ForeignPolicyDrops
			}
			return ends(p.drop(code, reason, about))
		case "reroute":
			to := hops[0]
			if len(hops) > 1 {
				to = hops[p.choose(row+" "+rule.Match, len(hops))]
			}
			p.leadTo(to, p.toward(to))
			p.hop(p.f, about, row, "%s", text)
		case "allow":
		default:
			p.doubt("%s has action %s, which is not followed here", row, rule.Action)
		}
		p.foreign(foreign && rule.Action == "reroute", about, rule)
		return goesOn()
	}
	return goesOn()
}

// foreign notes a policy of somebody else that leads a packet.
func (p *passage) foreign(is bool, about state.Ref, rule logical.Policy) {
	if is {
		p.doubt("policy %d of router %s is nobody's that is known here, and leads the packet (%s)", rule.Priority, p.Name, rule.Match)
		p.blame = append(p.blame, about)
	}
}

// hopsOf are the next hops of a policy that can be reached.
func (p *passage) hopsOf(rule logical.Policy) (out []netip.Addr) {
	for _, hop := range rule.NextHops {
		if hop.IsValid() && p.toward(hop) != nil {
			out = append(out, hop)
		}
	}
	return out
}

// resolve finds the MAC address of the next hop.
func (p *passage) resolve() (step, bool) {
	translated := slices.IndexFunc(p.translations, func(t translation) bool { return t.port == p.out && t.External == p.f.Destination })
	if p.in == p.out && translated >= 0 {
		return ends(p.untranslated())
	}
	if mac, known := p.neighbour(); known {
		p.f.EthDestination = mac
		return goesOn()
	}
	if p.own(p.f.Destination) != nil {
		return ends(p.untranslated())
	}
	if mac, known := p.binding(); known {
		p.f.EthDestination = mac
		return goesOn()
	}
	return p.ask()
}

// untranslated is the end of a packet for an address of the router's own that nobody translates: a port without a Service, or a reply that
// nobody waits for.
func (p *passage) untranslated() step {
	protocol, number := protocolName(p.f.Protocol), p.f.DestinationPort
	about := append(p.addressAbout(p.f.Destination), p.about())
	nobody := fmt.Sprintf("nobody is behind port %d/%s of %s", number, protocol, p.f.Destination)
	if p.f.Protocol == match.ICMP {
		nobody = fmt.Sprintf("nobody answers pings of %s", p.f.Destination)
	}
	for _, s := range p.survey.Cluster.Services {
		if slices.Contains(s.Ingress, p.f.Destination) && slices.ContainsFunc(s.Ports, func(o survey.ServicePort) bool {
			return o.Port == int(number) && strings.EqualFold(o.Protocol, protocol)
		}) {
			return p.drop(NotInForce, fmt.Sprintf("%s has the port, and %s: router %s has no load balancer for it", s.Ref, nobody, p.Name),
				append([]state.Ref{s.Ref}, about...)...)
		}
	}
	if i := slices.IndexFunc(about, func(r state.Ref) bool { return r.Kind == string(intent.FIp) }); i >= 0 {
		return p.drop(NotInForce, fmt.Sprintf("%s has the address, and %s: router %s does not translate it", about[i], nobody, p.Name), about...)
	}
	if p.f.Protocol == match.ICMP && p.balances(p.f.Destination) {
		return p.unpinged(about)
	}
	return p.drop(NoSuchPort, nobody, about...)
}

// unpinged is the end of a ping of a load balancer's address: OVN answers pings of its routers' own addresses only.
func (p *passage) unpinged(about []state.Ref) step {
	var ports []string
	for i := range p.Balancers {
		b := &p.Balancers[i]
		for _, v := range b.VIPs {
			if v.Address.Addr() != p.f.Destination {
				continue
			}
			ports = append(ports, fmt.Sprintf("%d/%s", v.Address.Port(), protocolOf(*b)))
			if of := p.balancerAbout(b, v.Address.Addr()); !slices.Contains(about, of) {
				about = append([]state.Ref{of}, about...)
			}
		}
	}
	return p.drop(BalancerIgnoresPing, fmt.Sprintf("%s is the address of the load balancer of %s, which passes on %s and answers no ping",
		p.f.Destination, about[0], strings.Join(ports, ", ")), about...)
}

// neighbour is the MAC address of a next hop that OVN knows by itself.
func (p *passage) neighbour() (match.MAC, bool) {
	for _, t := range p.translations {
		if t.port == p.out && t.External == p.f.hop {
			if mac, ok := match.ParseMAC(t.ExternalMAC); ok && t.at != nil {
				return mac, true
			}
			return p.out.mac, true
		}
	}
	if p.out.peer != nil {
		return p.out.peer.mac, p.out.peer.has(p.f.hop)
	}
	if p.out.socket == nil || !p.out.near(p.f.hop) {
		return 0, false
	}
	for _, at := range p.out.socket.on.sockets {
		if at.port == nil && !at.Disabled && slices.Contains(at.Addresses, p.f.hop) {
			return at.mac, true
		}
	}
	return 0, false
}

// binding is the MAC address that somebody has written down for the next hop.
func (p *passage) binding() (match.MAC, bool) {
	for _, n := range p.survey.Logical.Static {
		if n.Port == p.out.Name && n.Address == p.f.hop {
			return match.ParseMAC(n.MAC)
		}
	}
	return 0, false
}

// ask is who answers for the next hop on the wire.
func (p *passage) ask() (step, bool) {
	if p.out.socket == nil {
		return ends(p.drop(NobodyAnswers, fmt.Sprintf("nobody answers for %s on port %s of router %s", p.f.hop, p.out.Name, p.Name), p.about()))
	}
	on := p.out.socket.on
	for _, o := range p.owners(on, p.f.hop) {
		if o.socket != p.out.socket { // not the router itself: it does not hear its own question
			p.f.EthDestination = o.mac
			return goesOn()
		}
	}
	if on.outside == nil || len(p.owners(on, p.f.hop)) > 0 {
		return ends(p.nobodyAt(on))
	}
	p.f.EthDestination = elsewhere
	return goesOn()
}

// elsewhere stands for the MAC address of a host that is not the cluster's.
const elsewhere match.MAC = 0x02_00_00_00_00_01

// nobodyAt is the end of a packet whose next hop is on a switch and nobody's.
func (p *passage) nobodyAt(on *segment) step {
	hop := p.f.hop
	if p.balances(hop) {
		return p.untranslated()
	}
	about := append([]state.Ref{}, p.addressAbout(p.query.Server.Addr())...)
	return p.drop(TargetGone, fmt.Sprintf("nobody on %s has address %s", on.Name, hop), append(about, p.about())...)
}

// redirect brings the packet to the node that holds the port by which it leaves.
func (p *passage) redirect() (step, bool) {
	if !p.out.gateway() {
		return goesOn()
	}
	balanced := p.serves()
	if i := slices.IndexFunc(p.translations, func(t translation) bool {
		return !balanced && t.at != nil && t.port == p.out && t.Logical.Contains(p.f.Source) && t.resident(p.f.chassis)
	}); i >= 0 {
		p.f.EthSource, _ = match.ParseMAC(p.translations[i].ExternalMAC)
		return goesOn()
	}
	if wrong, bad := p.held(p.out); bad {
		return ends(wrong)
	}
	p.move(&p.f, p.out.Holder)
	return goesOn()
}

// move brings a packet to another node.
func (w *walk) move(f *flight, chassis string) {
	if f.chassis != chassis {
		f.forget()
		f.chassis, f.repeats = chassis, 1 // it comes out of a tunnel
	}
}

// held says whether a node that works holds a gateway.
func (w *walk) held(p *port) (step, bool) {
	where := "router " + p.Name
	if p.socket != nil {
		where += " on " + p.socket.on.Name
	}
	if p.Holder == "" {
		return w.drop(NoGatewayNode, "no node holds the gateway of "+where, w.vpc(p.Name)), true
	}
	return w.works(p.Holder, "holds the gateway of "+where)
}

// works says whether a node can carry packets, as far as Kubernetes knows.
func (w *walk) works(chassis, does string) (step, bool) {
	name := w.node(chassis)
	for _, n := range w.survey.Cluster.Nodes {
		if n.Name == name && !n.Ready {
			return w.drop(diagnosis.NodeNotReady, fmt.Sprintf("node %s %s, and is not Ready", name, does), n.Ref), true
		}
	}
	return step{}, false
}
