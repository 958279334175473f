package topology

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/state"
)

// addExternalAddresses adds the EIps, FIps and Services of a VPC.
func (b *builder) addExternalAddresses(v *Vpc, has *shardObjects) {
	for _, e := range has.eips {
		network := cmp.Or(b.networkOfAddress(e.Address), b.networkBySubnet[e.Network], e.Network)
		v.EIps = append(v.EIps, EIp{
			Ref: e.Ref, Address: e.Address, Network: network, Type: e.Type, OvnEip: b.ovnEIPByAddress[e.Address],
			CreatedFor: e.MadeFor, UsedBy: e.UsedBy,
			Node: v.externalPort(network).Node, Problems: b.collectProblems(e.Object),
		})
	}
	for _, f := range has.fips {
		v.FIps = append(v.FIps, b.buildFIP(f))
	}
	for _, s := range has.services {
		v.Services = append(v.Services, b.buildService(s, v))
	}
}

func (b *builder) buildFIP(f clusterstate.FIp) FIp {
	out := FIp{
		Ref: f.Ref, EIp: f.EIp, Address: f.External, Network: b.networkOfAddress(f.External),
		Problems: b.collectProblems(f.Object),
		Target:   Target{Address: f.Target, Name: cmp.Or(f.Pod, f.VM), VM: f.VM != ""},
	}
	for _, p := range b.podsByAddress[f.Target] {
		if p.Namespace == f.Namespace {
			out.Target.Name, out.Target.Node, out.Target.Ready = cmp.Or(out.Target.Name, p.Name), p.Node, p.Ready
		}
	}
	return out
}

func (b *builder) buildService(s clusterstate.Service, v *Vpc) Service {
	out := Service{
		Ref: s.Ref, Type: s.Type, Managed: s.Ours, ClusterIP: s.ClusterIP, ExternalIPs: s.ExternalIPs,
		Problems: b.collectProblems(s.Object),
		Selector: s.Selector, LocalTrafficPolicy: s.Local, Annotations: map[string]string{},
	}
	for key, value := range s.Annotations {
		if strings.Contains(key, "kube-dc.com/") {
			out.Annotations[key] = value
		}
	}
	if len(s.Ingress) > 0 {
		out.Address = s.Ingress[0]
		out.Network = b.networkOfAddress(out.Address)
	}
	for _, e := range v.EIps {
		if out.Address.IsValid() && e.Address == out.Address {
			out.EIp = e.Ref.Name
		}
	}
	for _, p := range s.Ports {
		l := ServicePort{Name: p.Name, Protocol: p.Protocol, Port: p.Port, TargetPort: p.Target, NodePort: p.NodePort}
		for _, e := range s.Endpoints {
			if e.Port == p.Name {
				l.Targets = append(l.Targets, Target{
					Address: e.Address.Addr(), Port: e.Address.Port(), Name: e.Pod, Node: e.Node, Ready: e.Ready,
				})
			}
		}
		out.Ports = append(out.Ports, l)
	}
	out.LoadBalancers = b.buildLoadBalancers(v.Name, out)
	b.addCompanions(&out, v)
	return out
}

// buildLoadBalancers returns the OVN load balancers of a Service, with only its VIPs at its external address. Services
// share load balancers, and some VIPs cannot be reached from outside.
func (b *builder) buildLoadBalancers(router string, s Service) (all []LoadBalancer) {
	r := b.Logical.Router(router)
	if r == nil || !s.Address.IsValid() {
		return nil
	}
	for _, l := range r.Balancers {
		out := LoadBalancer{Name: l.Name, Protocol: cmp.Or(l.Protocol, "tcp")}
		for _, vip := range l.VIPs {
			if owner := l.VIPOwner(vip.Address); vip.Address.Addr() == s.Address && (owner == (state.Ref{}) || owner == s.Ref) {
				out.VIPs = append(out.VIPs, VIP(vip))
			}
		}
		if len(out.VIPs) > 0 {
			all = append(all, out)
		}
	}
	slices.SortFunc(all, func(x, y LoadBalancer) int { return cmp.Compare(x.Name, y.Name) })
	return all
}

// addCompanions adds the objects that exist because of a Service.
func (b *builder) addCompanions(s *Service, v *Vpc) {
	for _, e := range v.EIps {
		if s.EIp != e.Ref.Name || !s.Address.IsValid() {
			continue
		}
		s.Companions = append(s.Companions, e.Ref)
		if e.OvnEip != "" {
			s.Companions = append(s.Companions, state.Ref{Kind: "OvnEip", Name: e.OvnEip})
		}
	}
	for _, l := range s.LoadBalancers {
		s.Companions = append(s.Companions, state.Ref{Kind: "Load_Balancer", Name: l.Name})
	}
	if beside, ok := b.headlessBySource[s.Ref]; ok {
		s.HeadlessService = &HeadlessService{Ref: beside.Ref, Labels: beside.Labels}
		for _, e := range beside.Endpoints {
			s.HeadlessService.Endpoints = append(s.HeadlessService.Endpoints, e.Address.String())
		}
		s.Companions = append(s.Companions, beside.Ref,
			state.Ref{Kind: "EndpointSlice", Namespace: beside.Namespace, Name: beside.Name})
	}
	for _, k := range b.graph.Backends {
		if k.Service == s.Ref {
			s.Companions = append(s.Companions, k.Ref)
		}
	}
}

// Labels of Envoy Gateway on the Services of its proxies.
const (
	owningGatewayLabel   = "gateway.envoyproxy.io/owning-gateway-name"
	owningNamespaceLabel = "gateway.envoyproxy.io/owning-gateway-namespace"
)

// buildGateways returns the Gateways with their proxies: the endpoints of the Services that isProxyService selects.
func (b *builder) buildGateways() []Gateway {
	controllers := map[string]string{}
	for _, c := range b.Cluster.Classes {
		controllers[c.Name] = c.Controller
	}
	var all []Gateway
	for _, g := range b.Cluster.Gateways {
		out := Gateway{
			Ref: g.Ref, Class: g.Class, Controller: controllers[g.Class], Listeners: g.Listeners,
			Addresses: g.Addresses, Problems: b.collectProblems(g.Object),
		}
		for _, s := range b.Cluster.Services {
			if !isProxyService(s, g) {
				continue
			}
			out.Services = append(out.Services, s.Ref)
			for _, e := range s.Endpoints {
				if !slices.ContainsFunc(out.Pods, func(t Target) bool { return t.Address == e.Address.Addr() }) {
					out.Pods = append(out.Pods,
						Target{Address: e.Address.Addr(), Name: e.Pod, Node: e.Node, Ready: e.Ready})
				}
			}
		}
		all = append(all, out)
	}
	return all
}

// isProxyService reports whether a Service belongs to the proxies of a Gateway. Labels and external IPs count only in
// the namespace of the Gateway, because the author of a Service chooses them freely. Cluster IPs and addresses of load
// balancers are allocated by the platform and count in any namespace.
func isProxyService(s clusterstate.Service, g clusterstate.Gateway) bool {
	addresses := append([]netip.Addr{s.ClusterIP}, s.Ingress...)
	if s.Namespace == g.Namespace {
		if s.Labels[owningGatewayLabel] != "" {
			return s.Labels[owningGatewayLabel] == g.Name && s.Labels[owningNamespaceLabel] == g.Namespace
		}
		addresses = append(addresses, s.ExternalIPs...)
	}
	return slices.ContainsFunc(addresses, func(a netip.Addr) bool {
		return a.IsValid() && slices.Contains(g.Addresses, a.String())
	})
}

func (b *builder) buildRoutes() []Route {
	var all []Route
	for _, r := range b.Cluster.Routes {
		out := Route{Ref: r.Ref, Hosts: r.Hosts, Backends: r.Backends, Problems: b.collectProblems(r.Object)}
		for _, text := range r.Gateways {
			out.Gateways = append(out.Gateways, parseRef("Gateway", text))
		}
		all = append(all, out)
	}
	return all
}

func (b *builder) buildBackends() []Backend {
	var all []Backend
	for _, k := range b.Cluster.Backends {
		out := Backend{Ref: k.Ref, Endpoints: k.Endpoints, Problems: b.collectProblems(k.Object)}
		for _, s := range b.Cluster.Services {
			if s.Namespace == k.Namespace && out.matchesService(s) {
				out.Service = s.Ref
			}
		}
		all = append(all, out)
	}
	return all
}

// matchesService reports whether an endpoint of the Backend is the external address and a port of a Service.
func (k Backend) matchesService(s clusterstate.Service) bool {
	for _, a := range s.Ingress {
		for _, p := range s.Ports {
			if slices.Contains(k.Endpoints, netip.AddrPortFrom(a, uint16(p.Port)).String()) { //nolint:gosec // a port of a Service
				return true
			}
		}
	}
	return false
}
