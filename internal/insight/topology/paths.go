package topology

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/model/state"
)

// buildPaths returns the paths of packets into a VPC and out of it.
func (b *builder) buildPaths(v *Vpc) []Path {
	var all []Path
	for _, f := range v.FIps {
		if f.Address.IsValid() {
			all = append(all, b.buildFIPPath(v, f))
		}
	}
	for _, s := range v.Services {
		if s.Address.IsValid() && s.Network != "" {
			all = append(all, b.buildServicePaths(v, s)...)
		}
		if len(s.ExternalIPs) > 0 {
			all = append(all, b.buildExternalIPPaths(s)...)
		}
	}
	for _, r := range b.graph.Routes {
		if slices.Contains(v.Namespaces, r.Ref.Namespace) {
			all = append(all, b.buildGatewayPaths(v, r)...)
		}
	}
	if v.SNATAddress.IsValid() {
		all = append(all, b.buildDefaultEgressPath(v))
	}
	for _, d := range slices.Concat(v.EgressRoutes, v.EgressServices) {
		if d.Address.IsValid() {
			all = append(all, b.buildEgressPolicyPath(v, d))
		}
	}
	for _, e := range b.graph.EgressIPs {
		if slices.Contains(v.EgressIPs, e.Ref.Name) {
			all = append(all, b.buildEgressIPPath(v, e))
		}
	}
	return all
}

func clientStep() Step { return Step{Kind: StepClient, Label: "client outside"} }

func (b *builder) networkStep(name string) Step {
	s := Step{Kind: StepNetwork, Label: name}
	for _, n := range b.graph.Networks {
		if n.Name == name {
			s.Ref, s.Problem = n.Ref, hasSevereProblem(n.Problems)
			if len(n.Subnets) > 0 && n.Subnets[0].VLANTag > 0 {
				s.Action = fmt.Sprintf("VLAN %d", n.Subnets[0].VLANTag)
			}
		}
	}
	return s
}

func (b *builder) gatewayNodeStep(name string) Step {
	s := Step{Kind: StepNode, Ref: state.Ref{Kind: "Node", Name: name}, Label: name, Action: "holds the router's port"}
	if name == "" {
		return Step{Kind: StepNode, Label: "no node", Action: "nobody holds the router's port", Problem: true}
	}
	for _, n := range b.graph.Nodes {
		if n.Name == name {
			s.Problem = hasSevereProblem(n.Problems)
		}
	}
	return s
}

// buildIngressSteps returns the steps from an external client to the router of a VPC.
func (b *builder) buildIngressSteps(v *Vpc, network string) []Step {
	return []Step{clientStep(), b.networkStep(network), b.gatewayNodeStep(v.externalPort(network).Node)}
}

// buildReplySteps returns the steps of a reply from the VPC to the client, through the network the request arrived on.
func (b *builder) buildReplySteps(v *Vpc, network, undo string) []Step {
	var steps []Step
	if port := v.returnPort(network); port.Name != "" {
		steps = append(steps, Step{
			Kind: StepReturnPort, Label: "leg of " + network, Action: "the connection's label leads its replies here",
		})
	}
	via := Step{Kind: StepRouter, Ref: v.Ref, Label: "router " + v.Name, Action: undo}
	if gw := b.gatewayOfNetwork(network); gw.IsValid() {
		via.Action += ", to gateway " + gw.String()
	}
	return append(steps, via, b.gatewayNodeStep(v.externalPort(network).Node), b.networkStep(network), clientStep())
}

func (b *builder) gatewayOfNetwork(network string) netip.Addr {
	for _, n := range b.graph.Networks {
		if n.Name == network && len(n.Subnets) > 0 && len(n.Subnets[0].Gateways) > 0 {
			return n.Subnets[0].Gateways[0]
		}
	}
	return netip.Addr{}
}

func (t Target) buildStep(namespace string) Step {
	s := Step{Kind: StepPod, Label: t.String(), Problem: !t.Ready}
	if t.Name != "" && !t.VM {
		s.Ref = state.Ref{Kind: "Pod", Namespace: namespace, Name: t.Name}
	}
	if t.Node != "" {
		s.Action = "on " + t.Node
	}
	return s
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

func (b *builder) buildFIPPath(v *Vpc, f FIp) Path {
	p := Path{
		About:   f.Ref,
		Inbound: true,
		Network: f.Network,
		Title:   fmt.Sprintf("to %s, floating IP %s", f.Address, f.Ref.Name),
	}
	at := Step{Kind: StepAddress, Ref: f.Ref, Label: f.Address.String(), Problem: hasSevereProblem(f.Problems)}
	p.Forward = append(b.buildIngressSteps(v, f.Network), at)
	if !f.Target.Address.IsValid() {
		p.Forward[len(p.Forward)-1].Action = "leads nowhere: there is no " + f.Target.Name
		return p
	}
	p.Forward[len(p.Forward)-1].Action = "DNAT to " + f.Target.Address.String()
	p.Forward = append(p.Forward, f.Target.buildStep(f.Ref.Namespace))
	p.Reply = append([]Step{f.Target.buildStep(f.Ref.Namespace)},
		b.buildReplySteps(v, f.Network, "SNAT to "+f.Address.String())...)
	return p
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

// buildServicePaths returns the paths to a Service. Ports with the same backends share a path.
func (b *builder) buildServicePaths(v *Vpc, s Service) []Path {
	var all []Path
	for i, l := range s.Ports {
		vip := s.formatVIPPorts(s.Address, i)
		if vip == "" {
			continue
		}
		p := Path{
			About:   s.Ref,
			Inbound: true,
			Network: s.Network,
			Title:   fmt.Sprintf("to %s, Service %s", vip, s.Ref.Name),
		}
		at := Step{Kind: StepAddress, Ref: s.Ref, Label: vip, Problem: hasSevereProblem(s.Problems)}
		targets := l.readyTargets()
		if len(targets) == 0 {
			at.Action, at.Problem = "no backend is ready", true
			p.Forward = append(b.buildIngressSteps(v, s.Network), at)
			all = append(all, p)
			continue
		}
		at.Action = "load balancer, DNAT"
		end := targets[0].buildStep(s.Ref.Namespace)
		if len(targets) > 1 {
			at.Action += fmt.Sprintf(" to one of %d", len(targets))
			end.Label += fmt.Sprintf(" and %d more", len(targets)-1)
			end.Action = ""
		}
		p.Forward = append(b.buildIngressSteps(v, s.Network), at, end)
		p.Reply = append([]Step{end}, b.buildReplySteps(v, s.Network, "from "+s.Address.String()+" again")...)
		all = append(all, p)
	}
	return all
}

// buildExternalIPPaths returns the paths to the external IPs of a Service, which nodes serve.
func (b *builder) buildExternalIPPaths(s Service) []Path {
	var all []Path
	for _, a := range s.ExternalIPs {
		network := b.networkOfAddress(a)
		for i, l := range s.Ports {
			at := s.formatVIPPorts(a, i)
			if at == "" {
				continue
			}
			p := Path{
				About:   s.Ref,
				Inbound: true,
				Network: network,
				Title:   fmt.Sprintf("to %s, external IP of Service %s", at, s.Ref.Name),
			}
			p.Forward = b.buildNodeSteps(at, network, s.LocalTrafficPolicy)
			p.Reply = reverseSteps(p.Forward)
			if len(l.Targets) > 0 {
				end := l.Targets[0].buildStep(s.Ref.Namespace)
				p.Forward, p.Reply = append(p.Forward, end), append([]Step{end}, p.Reply...)
			}
			all = append(all, p)
		}
	}
	return all
}

// reverseSteps returns the steps in reverse order, without actions: a reply undoes them.
func reverseSteps(there []Step) []Step {
	back := slices.Clone(there)
	slices.Reverse(back)
	for i := range back {
		if back[i].Kind != StepNetwork {
			back[i].Action = ""
		}
	}
	return back
}

// buildNodeSteps returns the steps to an address that the Service proxy of a node serves.
func (b *builder) buildNodeSteps(address, network string, local bool) []Step {
	node := Step{Kind: StepNode, Label: "a node with " + address, Action: "kube-proxy, keeps the client's address"}
	if !local {
		node.Action = "kube-proxy, SNAT to the node's own address"
		if len(b.graph.Nodes) > 0 && b.graph.Nodes[0].JoinAddress.IsValid() {
			node.Action += ", such as " + b.graph.Nodes[0].JoinAddress.String()
		}
		node.Action += ": the client's is lost"
	}
	if network == "" {
		return []Step{clientStep(), node}
	}
	return []Step{clientStep(), b.networkStep(network), node}
}

// buildGatewayPaths returns the paths through a Gateway, whose proxy terminates the connection and opens another one to
// a Backend.
func (b *builder) buildGatewayPaths(v *Vpc, r Route) []Path {
	var all []Path
	for _, g := range b.graph.Gateways {
		if !slices.Contains(r.Gateways, g.Ref) {
			continue
		}
		for _, ref := range r.Backends {
			p := Path{
				About:   r.Ref,
				Inbound: true,
				Title:   fmt.Sprintf("to %s, by Gateway %s", g.formatRouteURLs(r), g.Ref.Name),
			}
			p.Forward = b.buildProxySteps(g, r)
			p.Reply = reverseSteps(p.Forward)
			b.appendBackendSteps(&p, v, ref)
			all = append(all, p)
		}
	}
	return all
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

// buildProxySteps returns the steps to a proxy of a Gateway.
func (b *builder) buildProxySteps(g Gateway, r Route) []Step {
	_, port := g.listenerForRoute(r)
	at := func(address string) string { return strings.TrimSuffix(address+":"+port, ":") }
	step := Step{
		Kind:    StepProxy,
		Ref:     g.Ref,
		Label:   "proxy of " + g.Ref.Name,
		Problem: hasSevereProblem(g.Problems) || len(g.Pods) == 0,
	}
	if len(g.Pods) > 0 {
		step.Label = at(g.Pods[0].String())
	}
	by := map[string]string{"TLSRoute": "SNI", "HTTPRoute": "Host", "GRPCRoute": "Host"}[r.Ref.Kind]
	step.Action = strings.TrimSpace(fmt.Sprintf("%s %s matches %s %s", r.Ref.Kind, r.Ref.Name, by,
		strings.Join(r.Hosts, ", ")))
	for _, s := range b.Cluster.Services {
		if slices.Contains(g.Services, s.Ref) && len(s.ExternalIPs) > 0 {
			return append(b.buildNodeSteps(at(s.ExternalIPs[0].String()), "", s.Local), step)
		}
	}
	if len(g.Addresses) == 0 {
		return []Step{clientStep(), step}
	}
	return []Step{clientStep(), {
		Kind:   StepAddress,
		Ref:    g.Ref,
		Label:  at(g.Addresses[0]),
		Action: "Gateway " + g.Ref.Name,
	}, step}
}

// appendBackendSteps adds the second connection of a proxy: to the address of a Backend, and from there to the pods of
// its Service.
func (b *builder) appendBackendSteps(p *Path, v *Vpc, ref state.Ref) {
	at := slices.IndexFunc(b.graph.Backends, func(k Backend) bool { return k.Ref == ref })
	if at < 0 {
		p.Forward = append(p.Forward, Step{
			Kind:    StepAddress,
			Ref:     ref,
			Label:   ref.Name,
			Problem: ref.Kind == "Backend",
		})
		return
	}
	k := b.graph.Backends[at]
	step := Step{
		Kind:   StepAddress,
		Ref:    k.Ref,
		Label:  strings.Join(k.Endpoints, ", "),
		Action: "the endpoint of Backend " + k.Ref.Name,
	}
	for _, s := range v.Services {
		if s.Ref != k.Service || len(s.Ports) == 0 || len(s.Ports[0].Targets) == 0 {
			continue
		}
		p.Network = s.Network
		step.Action += ", load balancer of " + s.Ref.Name + " in VPC " + v.Name + ", DNAT"
		end := s.Ports[0].Targets[0].buildStep(s.Ref.Namespace)
		p.Forward = append(p.Forward, step, end)
		p.Reply = append(append([]Step{end}, reverseSteps([]Step{step})...), p.Reply...)
		return
	}
	p.Forward, p.Reply = append(p.Forward, step), append(reverseSteps([]Step{step}), p.Reply...)
}

// buildDefaultEgressPath returns the path of connections that pods initiate.
func (b *builder) buildDefaultEgressPath(v *Vpc) Path {
	about := v.Ref
	if v.Project != nil {
		about = *v.Project
	}
	pods := Step{Kind: StepPod, Label: "pods " + v.firstPodPrefix().String()}
	router := Step{Kind: StepRouter, Ref: v.Ref, Label: "router " + v.Name, Action: "SNAT to " + v.SNATAddress.String()}
	outside := Step{Kind: StepClient, Label: "anywhere"}
	if v.Gateway.IsValid() {
		router.Action += ", to gateway " + v.Gateway.String()
	}
	title := "out, with " + v.SNATAddress.String()
	if v.Management {
		outside.Label, title = "hosts of "+v.EgressNetwork, "out to "+v.EgressNetwork+", with "+v.SNATAddress.String()
	}
	p := Path{
		About: about, Network: v.EgressNetwork, Title: title,
		Forward: []Step{
			pods, router, b.gatewayNodeStep(v.externalPort(v.EgressNetwork).Node),
			b.networkStep(v.EgressNetwork), outside,
		},
	}
	p.Reply = slices.Clone(p.Forward)
	slices.Reverse(p.Reply)
	p.Reply[3].Action = "back to the pod's address"
	return p
}

// buildEgressPolicyPath returns the path of packets that match an EgressRoute or EgressService.
func (b *builder) buildEgressPolicyPath(v *Vpc, d EgressPolicy) Path {
	var to []string
	for _, prefix := range d.Destinations {
		to = append(to, prefix.String())
	}
	outside := Step{Kind: StepClient, Label: "anywhere"}
	if len(to) > 0 {
		outside.Label = strings.Join(to, ", ")
	}
	pods := Step{Kind: StepPod, Label: "pods of " + d.Ref.Name}
	router := Step{
		Kind:    StepRouter,
		Ref:     d.Ref,
		Label:   d.Ref.Kind + " " + d.Ref.Name,
		Action:  "SNAT to " + d.Address.String(),
		Problem: hasSevereProblem(d.Problems),
	}
	p := Path{
		About: d.Ref, Network: d.Network, Title: fmt.Sprintf("out to %s, with %s", outside.Label, d.Address),
		Forward: []Step{
			pods, router, b.gatewayNodeStep(v.externalPort(d.Network).Node), b.networkStep(d.Network),
			outside,
		},
	}
	p.Reply = slices.Clone(p.Forward)
	slices.Reverse(p.Reply)
	p.Reply[3].Action = "back to the pod's address"
	return p
}

// buildEgressIPPath returns the path of packets from pods that an EgressIP selects.
func (b *builder) buildEgressIPPath(v *Vpc, e EgressIP) Path {
	p := Path{About: e.Ref, Title: "out, with EgressIP " + e.Ref.Name}
	var addresses, nodes []string
	for _, a := range e.Addresses {
		addresses = append(addresses, a.Address.String())
		if a.Node != "" && !slices.Contains(nodes, a.Node) {
			nodes = append(nodes, a.Node)
		}
		p.Network = a.Network
	}
	p.Forward = []Step{
		{Kind: StepPod, Label: "pods that it selects"},
		{Kind: StepRouter, Ref: v.Ref, Label: "router " + v.Name, Action: "to the router of egress addresses"},
		{
			Kind:    StepAddress,
			Ref:     e.Ref,
			Label:   strings.Join(addresses, ", "),
			Action:  "SNAT to one of them",
			Problem: hasSevereProblem(e.Problems),
		},
		{Kind: StepNode, Label: strings.Join(nodes, ", "), Action: "hold the addresses", Problem: len(nodes) == 0},
		b.networkStep(p.Network),
		{Kind: StepClient, Label: "anywhere"},
	}
	p.Reply = slices.Clone(p.Forward)
	slices.Reverse(p.Reply)
	return p
}

// hasSevereProblem reports whether a problem is a warning or an error.
func hasSevereProblem(problems []Problem) bool {
	return slices.ContainsFunc(problems, func(p Problem) bool { return p.Severity != "info" })
}
