package trace

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/model/logical"
)

// matchLoadBalancer returns the load balancer for a new connection, or nil.
func (p *routerPipeline) matchLoadBalancer() (*logical.LoadBalancer, logical.VIP) {
	if !p.pkt.Tracked || !p.pkt.New {
		return nil, logical.VIP{}
	}
	b, v := findLoadBalancer(p.Balancers, p.pkt)
	if b == nil {
		return nil, v
	}
	here := len(p.gatewayPorts) == 0 || slices.ContainsFunc(p.gatewayPorts, func(g *routerPort) bool {
		return g.isResidentOn(p.pkt.chassis)
	})
	if !here && (len(v.Backends) > 0 || b.Options["reject"] != "true") {
		return nil, v
	}
	return b, v
}

// findLoadBalancer returns the load balancer whose VIP a packet is for, or nil. A VIP with a port takes precedence over
// one without.
func findLoadBalancer(all []logical.LoadBalancer, f packet) (*logical.LoadBalancer, logical.VIP) {
	for _, port := range []uint16{f.DestinationPort, 0} {
		for i := range all {
			for _, v := range all[i].VIPs {
				if v.Address == netip.AddrPortFrom(f.Destination, port) &&
					(port == 0 || protocolName(f.Protocol) == loadBalancerProtocol(all[i])) {
					return &all[i], v
				}
			}
		}
	}
	return nil, logical.VIP{}
}

func loadBalancerProtocol(b logical.LoadBalancer) string {
	if b.Protocol == "" {
		return "tcp"
	}
	return b.Protocol
}

// applyLoadBalancer translates the destination of a new connection to a backend.
func (p *routerPipeline) applyLoadBalancer(b *logical.LoadBalancer, v logical.VIP) (transition, bool) {
	to, next, ends := p.pickBackend(b, v, p.pkt)
	if ends {
		return next, true
	}
	as := p.pkt.tuple()
	as.destination = to
	p.recirculateForHash(b, &p.pkt)
	p.commitNAT("dnat "+p.Name, &p.pkt, as)
	p.noteBackend(b, v, to)
	return continuePipeline()
}

// noteKnownBackend adds a hop for a packet of a connection whose backend was chosen before: a retransmission.
func (p *routerPipeline) noteKnownBackend(vip netip.AddrPort) {
	to, b := p.pkt.tuple().destination, p.loadBalancerAt(vip)
	if to == vip || p.pkt.Reply || b == nil {
		return
	}
	at := slices.IndexFunc(b.VIPs, func(v logical.VIP) bool { return v.Address == vip })
	p.noteBackend(b, b.VIPs[at], to)
}

// noteBackend adds a hop for the backend of a connection.
func (p *routerPipeline) noteBackend(b *logical.LoadBalancer, v logical.VIP, to netip.AddrPort) {
	p.addHop(p.pkt, Hop{
		About:  p.vipOwnerRef(b, v.Address),
		Row:    "Load_Balancer " + b.Name,
		Places: p.atLoadBalancer(b, v, to, " on router "+p.Name),
	}, "%s", p.describeBackend(b, v, to, p.internalSwitches()))
}

// pickBackend chooses a backend. If there is none, the connection is rejected or dropped.
func (w *traceRun) pickBackend(b *logical.LoadBalancer, v logical.VIP, f packet) (netip.AddrPort, transition, bool) {
	alive := w.liveBackends(b, v)
	if len(alive) == 0 {
		about := w.vipOwnerRef(b, v.Address)
		reason := fmt.Sprintf("%s has no endpoint for port %d/%s", about, v.Address.Port(), protocolName(f.Protocol))
		if len(v.Backends) > 0 {
			reason = fmt.Sprintf("the health check of %s finds none of its %d endpoints online", about, len(v.Backends))
		}
		w.addHop(f, Hop{
			About:  about,
			Row:    "Load_Balancer " + b.Name,
			Places: atAddress(v.Address.String(), "load balancer"),
		}, "has no backend")
		if b.Options["reject"] == "true" {
			return netip.AddrPort{}, w.rejectPacket(NoEndpoints, reason, about), true
		}
		return netip.AddrPort{}, w.dropPacket(NoEndpoints, reason, about), true
	}
	to := alive[w.chooseIndex("Load_Balancer "+b.Name+" "+v.Address.String(), len(alive))].Address
	if to.Port() == 0 {
		to = netip.AddrPortFrom(to.Addr(), f.DestinationPort)
	}
	if w.steps[len(w.steps)-1].Backend = to; b.Options["affinity_timeout"] != "" {
		w.skipOVNTrace() // ovn-trace stops at the flow that learns the backend of a client
	}
	return to, transition{}, false
}

// recirculateForHash counts the recirculation for choosing a backend. Open vSwitch needs it unless the load balancer
// has selection_fields.
func (w *traceRun) recirculateForHash(b *logical.LoadBalancer, f *packet) {
	if len(b.Fields) == 0 {
		w.recirculate(f)
	}
}

// atLoadBalancer is a VIP of a load balancer, with the backend that it chose.
func (w *traceRun) atLoadBalancer(b *logical.LoadBalancer, v logical.VIP, to netip.AddrPort, where string) []Place {
	action := fmt.Sprintf("load balancer%s, DNAT to %s", where, to)
	if n := len(w.liveBackends(b, v)); n > 1 {
		action += fmt.Sprintf(", one of %d", n)
	}
	return atAddress(v.Address.String(), "%s", action)
}

// isBackendAlive reports whether the health check of a backend does not report it offline.
func (w *traceRun) isBackendAlive(b *logical.LoadBalancer, to netip.AddrPort, mapping string) bool {
	for _, m := range w.survey.Logical.Monitors {
		if m.Address == to && (m.Protocol == "" || m.Protocol == loadBalancerProtocol(*b)) &&
			strings.HasPrefix(mapping, m.Port+":") {
			return m.Status == "online" || m.Status == ""
		}
	}
	return false // OVN has no Service_Monitor for it
}

// mayBeBackendReply reports whether the packet passes a gateway port on its chassis and comes from a backend of a load
// balancer, so that it may be a reply.
func (p *routerPipeline) mayBeBackendReply() bool {
	if !slices.ContainsFunc(p.gatewayPorts, func(g *routerPort) bool {
		return (g == p.inport || g == p.outport) && g.isResidentOn(p.pkt.chassis)
	}) {
		return false
	}
	return p.isFromBackend()
}

// isFromBackend reports whether the packet's source is a backend of a load balancer.
func (p *routerPipeline) isFromBackend() bool {
	return slices.ContainsFunc(p.Balancers, func(b logical.LoadBalancer) bool {
		return loadBalancerProtocol(b) == protocolName(p.pkt.Protocol) &&
			slices.ContainsFunc(b.VIPs, func(v logical.VIP) bool {
				return slices.Contains(v.Backends, p.pkt.tuple().source)
			})
	})
}

// loadBalancerAt returns the load balancer with a VIP at an address and port, or nil.
func (p *routerPipeline) loadBalancerAt(at netip.AddrPort) *logical.LoadBalancer {
	for i := range p.Balancers {
		b := &p.Balancers[i]
		if loadBalancerProtocol(*b) == protocolName(p.pkt.Protocol) &&
			slices.ContainsFunc(b.VIPs, func(v logical.VIP) bool { return v.Address == at }) {
			return b
		}
	}
	return nil
}

// liveBackends returns the backends that get connections to a VIP: all of them, or with health checks those that are
// not offline.
func (w *traceRun) liveBackends(b *logical.LoadBalancer, v logical.VIP) []logical.VIP {
	checked := slices.Contains(b.Checked, v.Address.String())
	var out []logical.VIP
	for _, to := range v.Backends {
		at, mapped := b.Mappings[to.Addr().String()]
		if !checked || mapped && w.isBackendAlive(b, to, at) {
			out = append(out, logical.VIP{Address: to})
		}
	}
	return out
}
