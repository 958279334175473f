package topology

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/sallyport/sallyport/internal/insight/trace"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/state"
)

// buildConnections returns example connections into a VPC and out of it, as the tracer follows them.
func (b *builder) buildConnections(v *Vpc) (all []Connection) {
	has := b.objectsOfShard(v.Name)
	for i := range has.fips {
		if f := &has.fips[i]; f.External.IsValid() {
			title := fmt.Sprintf("to %s, floating IP %s", f.External, f.Name)
			all = append(all, b.traceConnection(f.Ref, b.networkOfAddress(f.External), title, b.tracer.FloatingIPQuery(f)))
		}
	}
	for _, s := range v.Services {
		all = append(all, b.traceService(s)...)
	}
	for _, r := range b.graph.Routes {
		if slices.Contains(v.Namespaces, r.Ref.Namespace) {
			all = append(all, b.traceRoute(r)...)
		}
	}
	return append(all, b.traceEgress(v, has)...)
}

// traceConnection follows a connection that an object is for.
func (b *builder) traceConnection(about state.Ref, network, title string, q trace.Query) Connection {
	return b.newConnection(about, network, title, q, b.tracer.TraceFirst(q))
}

// newConnection describes a connection by its path. Places of objects with a severe problem are marked.
func (b *builder) newConnection(about state.Ref, network, title string, q trace.Query, p trace.Path) Connection {
	c := Connection{
		About: about, Title: title, Inbound: q.Pod == "", Network: cmp.Or(network, p.Network), Query: q,
		Verdict: p.Verdict, Reason: p.Reason,
	}
	c.Request, c.Reply = p.Places()
	for _, places := range [][]trace.Place{c.Request, c.Reply} {
		for i := range places {
			places[i].Problem = places[i].Problem || b.severeRefs[places[i].Ref]
		}
	}
	return c
}

// readyTargets returns the targets that receive connections.
func (l ServicePort) readyTargets() []Target {
	return slices.DeleteFunc(slices.Clone(l.Targets), func(t Target) bool { return !t.Ready })
}

// hasSameBackends reports whether both ports have the same ready pods.
func (l ServicePort) hasSameBackends(o ServicePort) bool {
	return slices.EqualFunc(l.readyTargets(), o.readyTargets(), func(a, b Target) bool {
		return a.Address == b.Address
	})
}

// formatVIPPorts returns an address with a port of the Service and all later ports with the same backends. It returns
// an empty string if an earlier port has the same backends.
func (s *Service) formatVIPPorts(a netip.Addr, at int) string {
	l := s.Ports[at]
	if slices.ContainsFunc(s.Ports[:at], l.hasSameBackends) {
		return ""
	}
	text := netip.AddrPortFrom(a, uint16(l.Port)).String() //nolint:gosec // a port of a Service
	for _, o := range s.Ports[at+1:] {
		if l.hasSameBackends(o) {
			text += fmt.Sprintf(" :%d", o.Port)
		}
	}
	return text
}

// traceService follows connections to the addresses of a Service. Ports with the same backends share a connection.
func (b *builder) traceService(s Service) (all []Connection) {
	of := b.Cluster.Service(s.Ref)
	add := func(a netip.Addr, what string) {
		for i, l := range s.Ports {
			vip := s.formatVIPPorts(a, i)
			if vip == "" {
				continue
			}
			port := clusterstate.ServicePort{Name: l.Name, Protocol: l.Protocol, Port: l.Port}
			all = append(all, b.traceConnection(s.Ref, b.networkOfAddress(a),
				fmt.Sprintf("to %s, %s %s", vip, what, s.Ref.Name), b.tracer.ServiceQuery(of, a, port)))
		}
	}
	if s.Address.IsValid() && s.Network != "" {
		add(s.Address, "Service")
	}
	for _, a := range s.ExternalIPs {
		add(a, "external IP of Service")
	}
	return all
}

// podRef returns the pod of the target, or an empty reference if it is something else.
func (t Target) podRef(namespace string) state.Ref {
	if t.Name == "" || t.VM {
		return state.Ref{}
	}
	return clusterstate.PodRef(namespace, t.Name)
}

// String returns the name, address and port of the target.
func (t Target) String() string {
	at := ""
	switch {
	case t.Port > 0:
		at = netip.AddrPortFrom(t.Address, t.Port).String()
	case t.Address.IsValid():
		at = t.Address.String()
	}
	return strings.TrimSpace(t.Name + " " + at)
}

// routeProtocols are the listener protocols that each kind of route can attach to.
var routeProtocols = map[string][]string{
	"HTTPRoute": {"HTTP", "HTTPS"}, "GRPCRoute": {"HTTP", "HTTPS"}, "TLSRoute": {"TLS"}, "TCPRoute": {"TCP"},
	"UDPRoute": {"UDP"},
}

// listenerForRoute returns the protocol and port of the first listener of a Gateway that a route can attach to.
func (g Gateway) listenerForRoute(r Route) (protocol, port string) {
	for _, l := range g.Listeners {
		words := strings.Fields(l) // name, protocol, port, and the mode of TLS
		if len(words) > 2 && slices.Contains(routeProtocols[r.Ref.Kind], words[1]) {
			return words[1], words[2]
		}
	}
	return "", ""
}

// formatRouteURLs returns the URLs of a route.
func (g Gateway) formatRouteURLs(r Route) string {
	protocol, port := g.listenerForRoute(r)
	scheme := map[string]string{"HTTP": "http://", "HTTPS": "https://", "TLS": "https://"}[protocol]
	var all []string
	for _, host := range r.Hosts {
		if port != "" {
			host += ":" + port
		}
		all = append(all, scheme+host)
	}
	return cmp.Or(strings.Join(all, ", "), r.Ref.Name)
}

// traceRoute follows connections through a Gateway, whose proxy ends them and opens others to Backends.
func (b *builder) traceRoute(r Route) (all []Connection) {
	for _, g := range b.graph.Gateways {
		if !slices.Contains(r.Gateways, g.Ref) {
			continue
		}
		q, known := b.gatewayQuery(g, r)
		if !known {
			continue
		}
		title := fmt.Sprintf("to %s, by Gateway %s", g.formatRouteURLs(r), g.Ref.Name)
		for _, ref := range r.Backends {
			p := b.tracer.TraceProxied(q, g.proxyFor(r, ref), b.backendEndpoint(ref))
			all = append(all, b.newConnection(r.Ref, "", title, q, p))
		}
	}
	return all
}

// gatewayQuery returns a connection to the listener of a Gateway that a route attaches to.
func (b *builder) gatewayQuery(g Gateway, r Route) (trace.Query, bool) {
	_, port := g.listenerForRoute(r)
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return trace.Query{}, false
	}
	var addresses []netip.Addr
	for _, ref := range g.Services {
		if s := b.Cluster.Service(ref); s != nil {
			addresses = append(addresses, s.ExternalIPs...)
		}
	}
	for _, text := range g.Addresses {
		if a, err := netip.ParseAddr(text); err == nil {
			addresses = append(addresses, a)
		}
	}
	if len(addresses) == 0 {
		return trace.Query{}, false
	}
	listener := clusterstate.ServicePort{Protocol: "TCP", Port: int(number)}
	return b.tracer.ServiceQuery(&clusterstate.Service{}, addresses[0], listener), true
}

// proxyFor returns the proxy of a Gateway, and why it chooses the backends of a route.
func (g Gateway) proxyFor(r Route, backend state.Ref) trace.Proxy {
	by := map[string]string{"TLSRoute": "SNI ", "HTTPRoute": "Host ", "GRPCRoute": "Host "}[r.Ref.Kind]
	out := trace.Proxy{Gateway: g.Ref, Label: "proxy of " + g.Ref.Name}
	out.Action = fmt.Sprintf("%s %s matches %s%s, to %s %s", r.Ref.Kind, r.Ref.Name, by, strings.Join(r.Hosts, ", "),
		backend.Kind, backend.Name)
	if len(g.Pods) > 0 && len(g.Services) > 0 {
		_, port := g.listenerForRoute(r)
		out.Label, out.Pod = g.Pods[0].String()+":"+port, g.Services[0].Namespace+"/"+g.Pods[0].Name
	}
	return out
}

// backendEndpoint returns the first endpoint of a Backend that is an address; invalid: it has none.
func (b *builder) backendEndpoint(ref state.Ref) netip.AddrPort {
	for _, k := range b.graph.Backends {
		for _, text := range k.Endpoints {
			if at, err := netip.ParseAddrPort(text); err == nil && k.Ref == ref {
				return at
			}
		}
	}
	return netip.AddrPort{}
}

// traceEgress follows connections from pods of a VPC: by its default egress, by EgressRoutes and EgressServices, and
// with EgressIPs.
func (b *builder) traceEgress(v *Vpc, has *shardObjects) (all []Connection) {
	add := func(about state.Ref, network, title string, queries []trace.Query) {
		for _, q := range queries {
			all = append(all, b.traceConnection(about, network, title, q))
		}
	}
	if v.SNATAddress.IsValid() {
		about, title := v.Ref, fmt.Sprintf("out, with %s", v.SNATAddress)
		if v.Project != nil {
			about = *v.Project
		}
		if v.Management {
			title = fmt.Sprintf("out to %s, with %s", v.EgressNetwork, v.SNATAddress)
		}
		queries := b.tracer.DefaultEgressQueries(v.Name)
		if add(about, v.EgressNetwork, title, queries); len(queries) == 0 {
			pods := trace.Place{Kind: trace.AtPod, Label: "pods " + v.firstPodPrefix().String(), Action: "none to trace from"}
			all = append(all, Connection{
				About: about, Network: v.EgressNetwork, Title: title, Verdict: trace.Unknown, Request: []trace.Place{pods},
			})
		}
	}
	policies := slices.Concat(has.egressRoutes, has.egressServices)
	for i, d := range slices.Concat(v.EgressRoutes, v.EgressServices) {
		if d.Address.IsValid() {
			title := fmt.Sprintf("out to %s, with %s", cmp.Or(joinStrings(d.Destinations), "anywhere"), d.Address)
			add(d.Ref, d.Network, title, b.tracer.EgressPolicyQueries(&policies[i]))
		}
	}
	for i := range b.Cluster.EgressIPs {
		if e := &b.Cluster.EgressIPs[i]; slices.Contains(v.EgressIPs, e.Name) {
			add(e.Ref, "", "out, with EgressIP "+e.Name, b.tracer.EgressIPQueries(e, v.Name))
		}
	}
	return all
}

// hasSevereProblem reports whether a problem is a warning or an error.
func hasSevereProblem(problems []Problem) bool {
	return slices.ContainsFunc(problems, func(p Problem) bool { return p.Severity != "info" })
}
