package topology

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/state"
	"github.com/sallyport/sallyport/internal/survey"
)

// addressesOf puts the external addresses of a VPC into it, with what they lead to.
func (b *builder) addressesOf(v *Vpc, has *belongings) {
	for _, e := range has.eips {
		network := cmp.Or(b.networkOf(e.Address), b.network[e.Network], e.Network)
		v.EIps = append(v.EIps, EIp{
			Ref: e.Ref, Address: e.Address, Network: network, Type: e.Type, OvnEip: b.ovnEip[e.Address], MadeFor: e.MadeFor, Users: e.UsedBy,
			Node: v.port(network).Node, Problems: b.problems(e.Object),
		})
	}
	for _, f := range has.fips {
		v.FIps = append(v.FIps, b.fip(f))
	}
	for _, s := range has.services {
		v.Services = append(v.Services, b.service(s, v))
	}
}

func (b *builder) fip(f survey.FIp) FIp {
	out := FIp{
		Ref: f.Ref, EIp: f.EIp, Address: f.External, Network: b.networkOf(f.External), Problems: b.problems(f.Object),
		Target: Target{Address: f.Target, Name: cmp.Or(f.Pod, f.VM), VM: f.VM != ""},
	}
	for _, p := range b.at[f.Target] {
		if p.Namespace == f.Namespace {
			out.Target.Name, out.Target.Node, out.Target.Ready = cmp.Or(out.Target.Name, p.Name), p.Node, p.Ready
		}
	}
	return out
}

func (b *builder) service(s survey.Service, v *Vpc) Service {
	out := Service{
		Ref: s.Ref, Type: s.Type, Ours: s.Ours, ClusterIP: s.ClusterIP, Outside: s.ExternalIPs, Problems: b.problems(s.Object),
		Selector: s.Selector, Local: s.Local, Annotations: map[string]string{},
	}
	for key, value := range s.Annotations {
		if strings.Contains(key, "kube-dc.com/") {
			out.Annotations[key] = value
		}
	}
	if len(s.Ingress) > 0 {
		out.Address = s.Ingress[0]
		out.Network = b.networkOf(out.Address)
	}
	for _, e := range v.EIps {
		if out.Address.IsValid() && e.Address == out.Address {
			out.EIp = e.Ref.Name
		}
	}
	for _, p := range s.Ports {
		l := Listener{Name: p.Name, Protocol: p.Protocol, Port: p.Port, Target: p.Target, NodePort: p.NodePort}
		for _, e := range s.Endpoints {
			if e.Port == p.Name {
				l.Targets = append(l.Targets, Target{Address: e.Address.Addr(), Port: e.Address.Port(), Name: e.Pod, Node: e.Node, Ready: e.Ready})
			}
		}
		out.Ports = append(out.Ports, l)
	}
	out.Balancers = b.balancers(v.Name, out)
	b.made(&out, v)
	return out
}

// balancers are the load balancers of OVN that have the address of a Service, with what is at it. We give them other addresses, too, which
// nobody outside can reach.
func (b *builder) balancers(router string, s Service) (all []Balancer) {
	r := b.Logical.Router(router)
	if r == nil || !s.Address.IsValid() {
		return nil
	}
	for _, l := range r.Balancers {
		if owner := l.IDs.Owner(); owner != (state.Ref{}) && owner != s.Ref {
			continue
		}
		out := Balancer{Name: l.Name, Protocol: cmp.Or(l.Protocol, "tcp")}
		for _, vip := range l.VIPs {
			if vip.Address.Addr() == s.Address {
				out.VIPs = append(out.VIPs, VIP(vip))
			}
		}
		if len(out.VIPs) > 0 {
			all = append(all, out)
		}
	}
	slices.SortFunc(all, func(x, y Balancer) int { return cmp.Compare(x.Name, y.Name) })
	return all
}

// made is what exists because of a Service.
func (b *builder) made(s *Service, v *Vpc) {
	for _, e := range v.EIps {
		if s.EIp != e.Ref.Name || !s.Address.IsValid() {
			continue
		}
		s.Made = append(s.Made, e.Ref)
		if e.OvnEip != "" {
			s.Made = append(s.Made, state.Ref{Kind: "OvnEip", Name: e.OvnEip})
		}
	}
	for _, l := range s.Balancers {
		s.Made = append(s.Made, state.Ref{Kind: "Load_Balancer", Name: l.Name})
	}
	if beside, ok := b.beside[s.Ref]; ok {
		s.External = &ExternalService{Ref: beside.Ref, Labels: beside.Labels}
		for _, e := range beside.Endpoints {
			s.External.Endpoints = append(s.External.Endpoints, e.Address.String())
		}
		s.Made = append(s.Made, beside.Ref, state.Ref{Kind: "EndpointSlice", Namespace: beside.Namespace, Name: beside.Name})
	}
	for _, k := range b.graph.Backends {
		if k.Service == s.Ref {
			s.Made = append(s.Made, k.Ref)
		}
	}
}

// Labels by which Envoy Gateway marks the Services of its proxies.
const (
	owningGateway   = "gateway.envoyproxy.io/owning-gateway-name"
	owningNamespace = "gateway.envoyproxy.io/owning-gateway-namespace"
)

// gateways are those of the Gateway API, with their proxies: what is behind the Services that Envoy Gateway made, or that have the address.
func (b *builder) gateways() []Gateway {
	controllers := map[string]string{}
	for _, c := range b.Cluster.Classes {
		controllers[c.Name] = c.Controller
	}
	var all []Gateway
	for _, g := range b.Cluster.Gateways {
		out := Gateway{
			Ref: g.Ref, Class: g.Class, Controller: controllers[g.Class], Listeners: g.Listeners, Addresses: g.Addresses, Problems: b.problems(g.Object),
		}
		for _, s := range b.Cluster.Services {
			if !proxies(s, g) {
				continue
			}
			out.Services = append(out.Services, s.Ref)
			for _, e := range s.Endpoints {
				if !slices.ContainsFunc(out.Pods, func(t Target) bool { return t.Address == e.Address.Addr() }) {
					out.Pods = append(out.Pods, Target{Address: e.Address.Addr(), Name: e.Pod, Node: e.Node, Ready: e.Ready})
				}
			}
		}
		all = append(all, out)
	}
	return all
}

// proxies reports whether a Service leads to a gateway's proxies. Labels and external IPs count in the gateway's own namespace: whoever
// writes a Service elsewhere chooses both. Cluster addresses and those of load balancers are given, and count anywhere.
func proxies(s survey.Service, g survey.Gateway) bool {
	addresses := append([]netip.Addr{s.ClusterIP}, s.Ingress...)
	if s.Namespace == g.Namespace {
		if s.Labels[owningGateway] != "" {
			return s.Labels[owningGateway] == g.Name && s.Labels[owningNamespace] == g.Namespace
		}
		addresses = append(addresses, s.ExternalIPs...)
	}
	return slices.ContainsFunc(addresses, func(a netip.Addr) bool { return a.IsValid() && slices.Contains(g.Addresses, a.String()) })
}

func (b *builder) routes() []Route {
	var all []Route
	for _, r := range b.Cluster.Routes {
		out := Route{Ref: r.Ref, Hosts: r.Hosts, Backends: r.Backends, Problems: b.problems(r.Object)}
		for _, text := range r.Gateways {
			out.Gateways = append(out.Gateways, refOf("Gateway", text))
		}
		all = append(all, out)
	}
	return all
}

func (b *builder) backends() []Backend {
	var all []Backend
	for _, k := range b.Cluster.Backends {
		out := Backend{Ref: k.Ref, Endpoints: k.Endpoints, Problems: b.problems(k.Object)}
		for _, s := range b.Cluster.Services {
			if s.Namespace == k.Namespace && out.leadsTo(s) {
				out.Service = s.Ref
			}
		}
		all = append(all, out)
	}
	return all
}

// leadsTo says whether a Backend has the address and a port of a Service.
func (k Backend) leadsTo(s survey.Service) bool {
	for _, a := range s.Ingress {
		for _, p := range s.Ports {
			if slices.Contains(k.Endpoints, netip.AddrPortFrom(a, uint16(p.Port)).String()) { //nolint:gosec // a port of a Service
				return true
			}
		}
	}
	return false
}
