package topology

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/state"
)

// paths are the ways of packets into a VPC and out of it.
func (b *builder) paths(v *Vpc) []Path {
	var all []Path
	for _, f := range v.FIps {
		if f.Address.IsValid() {
			all = append(all, b.toFIp(v, f))
		}
	}
	for _, s := range v.Services {
		if s.Address.IsValid() && s.Network != "" {
			all = append(all, b.toService(v, s)...)
		}
		if len(s.Outside) > 0 {
			all = append(all, b.toNodes(s)...)
		}
	}
	for _, r := range b.graph.Routes {
		if slices.Contains(v.Namespaces, r.Ref.Namespace) {
			all = append(all, b.byGateway(v, r)...)
		}
	}
	if v.Address.IsValid() {
		all = append(all, b.outward(v))
	}
	for _, d := range slices.Concat(v.Routes, v.Behind) {
		if d.Address.IsValid() {
			all = append(all, b.diverted(v, d))
		}
	}
	for _, e := range b.graph.Egress {
		if slices.Contains(v.Egress, e.Ref.Name) {
			all = append(all, b.byEgressIP(v, e))
		}
	}
	return all
}

// Places on the way that many paths share.
func client() Step { return Step{Kind: AtClient, Label: "client outside"} }

func (b *builder) net(name string) Step {
	s := Step{Kind: AtNetwork, Label: name}
	for _, n := range b.graph.Networks {
		if n.Name == name {
			s.Ref, s.Problem = n.Ref, severe(n.Problems)
			if len(n.Subnets) > 0 && n.Subnets[0].Tag > 0 {
				s.Action = fmt.Sprintf("VLAN %d", n.Subnets[0].Tag)
			}
		}
	}
	return s
}

func (b *builder) gatewayNode(name string) Step {
	s := Step{Kind: AtNode, Ref: state.Ref{Kind: "Node", Name: name}, Label: name, Action: "holds the router's port"}
	if name == "" {
		return Step{Kind: AtNode, Label: "no node", Action: "nobody holds the router's port", Problem: true}
	}
	for _, n := range b.graph.Nodes {
		if n.Name == name {
			s.Problem = severe(n.Problems)
		}
	}
	return s
}

// in is how a packet from outside gets to a VPC's router.
func (b *builder) in(v *Vpc, network string) []Step {
	return []Step{client(), b.net(network), b.gatewayNode(v.port(network).Node)}
}

// out is how a reply gets from the VPC's router to the client, by the network that its connection came in by.
func (b *builder) out(v *Vpc, network, undo string) []Step {
	var steps []Step
	if leg := v.leg(network); leg.Name != "" {
		steps = append(steps, Step{
			Kind: AtLeg, Label: "leg of " + network, Action: "the connection's label leads its replies here",
		})
	}
	via := Step{Kind: AtRouter, Ref: v.Ref, Label: "router " + v.Name, Action: undo}
	if gw := b.gatewayOf(network); gw.IsValid() {
		via.Action += ", to gateway " + gw.String()
	}
	return append(steps, via, b.gatewayNode(v.port(network).Node), b.net(network), client())
}

func (b *builder) gatewayOf(network string) netip.Addr {
	for _, n := range b.graph.Networks {
		if n.Name == network && len(n.Subnets) > 0 && len(n.Subnets[0].Gateways) > 0 {
			return n.Subnets[0].Gateways[0]
		}
	}
	return netip.Addr{}
}

func (t Target) step(namespace string) Step {
	s := Step{Kind: AtTarget, Label: t.String(), Problem: !t.Ready}
	if t.Name != "" && !t.VM {
		s.Ref = state.Ref{Kind: "Pod", Namespace: namespace, Name: t.Name}
	}
	if t.Node != "" {
		s.Action = "on " + t.Node
	}
	return s
}

// String is the target as people name it: with its address and port.
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

func (b *builder) toFIp(v *Vpc, f FIp) Path {
	p := Path{About: f.Ref, Inbound: true, Network: f.Network, Title: fmt.Sprintf("to %s, floating IP %s", f.Address, f.Ref.Name)}
	at := Step{Kind: AtAddress, Ref: f.Ref, Label: f.Address.String(), Problem: severe(f.Problems)}
	p.There = append(b.in(v, f.Network), at)
	if !f.Target.Address.IsValid() {
		p.There[len(p.There)-1].Action = "leads nowhere: there is no " + f.Target.Name
		return p
	}
	p.There[len(p.There)-1].Action = "DNAT to " + f.Target.Address.String()
	p.There = append(p.There, f.Target.step(f.Ref.Namespace))
	p.Back = append([]Step{f.Target.step(f.Ref.Namespace)}, b.out(v, f.Network, "SNAT to "+f.Address.String())...)
	return p
}

// ready are the targets of a port that get connections.
func (l Listener) ready() []Target {
	return slices.DeleteFunc(slices.Clone(l.Targets), func(t Target) bool { return !t.Ready })
}

// alike says whether connections to both ports go to the same pods.
func (l Listener) alike(o Listener) bool {
	return slices.EqualFunc(l.ready(), o.ready(), func(a, b Target) bool { return a.Address == b.Address })
}

// listens is an address with a port of the Service and all others that lead to the same pods; empty: it is one of these.
func (s *Service) listens(a netip.Addr, at int) string {
	l := s.Ports[at]
	if slices.ContainsFunc(s.Ports[:at], l.alike) {
		return ""
	}
	text := netip.AddrPortFrom(a, uint16(l.Port)).String() //nolint:gosec // a port of a Service
	for _, o := range s.Ports[at+1:] {
		if l.alike(o) {
			text += fmt.Sprintf(" :%d", o.Port)
		}
	}
	return text
}

// toService are the ways to a Service: one for all ports that lead to the same pods.
func (b *builder) toService(v *Vpc, s Service) []Path {
	var all []Path
	for i, l := range s.Ports {
		vip := s.listens(s.Address, i)
		if vip == "" {
			continue
		}
		p := Path{About: s.Ref, Inbound: true, Network: s.Network, Title: fmt.Sprintf("to %s, Service %s", vip, s.Ref.Name)}
		at := Step{Kind: AtAddress, Ref: s.Ref, Label: vip, Problem: severe(s.Problems)}
		targets := l.ready()
		if len(targets) == 0 {
			at.Action, at.Problem = "no backend is ready", true
			p.There = append(b.in(v, s.Network), at)
			all = append(all, p)
			continue
		}
		at.Action = "load balancer, DNAT"
		end := targets[0].step(s.Ref.Namespace)
		if len(targets) > 1 {
			at.Action += fmt.Sprintf(" to one of %d", len(targets))
			end.Label += fmt.Sprintf(" and %d more", len(targets)-1)
			end.Action = ""
		}
		p.There = append(b.in(v, s.Network), at, end)
		p.Back = append([]Step{end}, b.out(v, s.Network, "from "+s.Address.String()+" again")...)
		all = append(all, p)
	}
	return all
}

// toNodes are the ways to the addresses that nodes answer for themselves.
func (b *builder) toNodes(s Service) []Path {
	var all []Path
	for _, a := range s.Outside {
		network := b.networkOf(a)
		for i, l := range s.Ports {
			at := s.listens(a, i)
			if at == "" {
				continue
			}
			p := Path{About: s.Ref, Inbound: true, Network: network, Title: fmt.Sprintf("to %s, external IP of Service %s", at, s.Ref.Name)}
			p.There = b.byNode(at, network, s.Local)
			p.Back = undone(p.There)
			if len(l.Targets) > 0 {
				end := l.Targets[0].step(s.Ref.Namespace)
				p.There, p.Back = append(p.There, end), append([]Step{end}, p.Back...)
			}
			all = append(all, p)
		}
	}
	return all
}

// undone is the same way back. What was done to packets on the way there is undone, which needs no words.
func undone(there []Step) []Step {
	back := slices.Clone(there)
	slices.Reverse(back)
	for i := range back {
		if back[i].Kind != AtNetwork {
			back[i].Action = ""
		}
	}
	return back
}

// byNode is how a packet gets to an address that nodes answer for: to a Service proxy there.
func (b *builder) byNode(address, network string, local bool) []Step {
	node := Step{Kind: AtNode, Label: "a node with " + address, Action: "kube-proxy, keeps the client's address"}
	if !local {
		node.Action = "kube-proxy, SNAT to the node's own address"
		if len(b.graph.Nodes) > 0 && b.graph.Nodes[0].Join.IsValid() {
			node.Action += ", such as " + b.graph.Nodes[0].Join.String()
		}
		node.Action += ": the client's is lost"
	}
	if network == "" {
		return []Step{client(), node}
	}
	return []Step{client(), b.net(network), node}
}

// byGateway are the ways through a Gateway: a proxy ends the connection and begins another one, to a Backend.
func (b *builder) byGateway(v *Vpc, r Route) []Path {
	var all []Path
	for _, g := range b.graph.Gateways {
		if !slices.Contains(r.Gateways, g.Ref) {
			continue
		}
		for _, ref := range r.Backends {
			p := Path{About: r.Ref, Inbound: true, Title: fmt.Sprintf("to %s, by Gateway %s", g.requests(r), g.Ref.Name)}
			p.There = b.proxy(g, r)
			p.Back = undone(p.There)
			b.behind(&p, v, ref)
			all = append(all, p)
		}
	}
	return all
}

// carries are the protocols of listeners that a kind of route can be at.
var carries = map[string][]string{
	"HTTPRoute": {"HTTP", "HTTPS"}, "GRPCRoute": {"HTTP", "HTTPS"}, "TLSRoute": {"TLS"}, "TCPRoute": {"TCP"}, "UDPRoute": {"UDP"},
}

// listener is the protocol and the port of the first listener of a Gateway that a route can be at.
func (g Gateway) listener(r Route) (protocol, port string) {
	for _, l := range g.Listeners {
		words := strings.Fields(l) // name, protocol, port, and the mode of TLS
		if len(words) > 2 && slices.Contains(carries[r.Ref.Kind], words[1]) {
			return words[1], words[2]
		}
	}
	return "", ""
}

// requests are what a client asks for to get to a route.
func (g Gateway) requests(r Route) string {
	protocol, port := g.listener(r)
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

// proxy is how a request gets to a proxy of a Gateway, and what it does with it.
func (b *builder) proxy(g Gateway, r Route) []Step {
	_, port := g.listener(r)
	at := func(address string) string { return strings.TrimSuffix(address+":"+port, ":") }
	step := Step{Kind: AtProxy, Ref: g.Ref, Label: "proxy of " + g.Ref.Name, Problem: severe(g.Problems) || len(g.Pods) == 0}
	if len(g.Pods) > 0 {
		step.Label = at(g.Pods[0].String())
	}
	by := map[string]string{"TLSRoute": "SNI", "HTTPRoute": "Host", "GRPCRoute": "Host"}[r.Ref.Kind]
	step.Action = strings.TrimSpace(fmt.Sprintf("%s %s matches %s %s", r.Ref.Kind, r.Ref.Name, by, strings.Join(r.Hosts, ", ")))
	for _, s := range b.Cluster.Services {
		if slices.Contains(g.Services, s.Ref) && len(s.ExternalIPs) > 0 {
			return append(b.byNode(at(s.ExternalIPs[0].String()), "", s.Local), step)
		}
	}
	if len(g.Addresses) == 0 {
		return []Step{client(), step}
	}
	return []Step{client(), {Kind: AtAddress, Ref: g.Ref, Label: at(g.Addresses[0]), Action: "Gateway " + g.Ref.Name}, step}
}

// behind adds the second connection of a proxy: to the address of a Backend, and from there to the pods of its Service.
func (b *builder) behind(p *Path, v *Vpc, ref state.Ref) {
	at := slices.IndexFunc(b.graph.Backends, func(k Backend) bool { return k.Ref == ref })
	if at < 0 {
		p.There = append(p.There, Step{Kind: AtAddress, Ref: ref, Label: ref.Name, Problem: ref.Kind == "Backend"})
		return
	}
	k := b.graph.Backends[at]
	step := Step{Kind: AtAddress, Ref: k.Ref, Label: strings.Join(k.Endpoints, ", "), Action: "the endpoint of Backend " + k.Ref.Name}
	for _, s := range v.Services {
		if s.Ref != k.Service || len(s.Ports) == 0 || len(s.Ports[0].Targets) == 0 {
			continue
		}
		p.Network = s.Network
		step.Action += ", load balancer of " + s.Ref.Name + " in VPC " + v.Name + ", DNAT"
		end := s.Ports[0].Targets[0].step(s.Ref.Namespace)
		p.There = append(p.There, step, end)
		p.Back = append(append([]Step{end}, undone([]Step{step})...), p.Back...)
		return
	}
	p.There, p.Back = append(p.There, step), append(undone([]Step{step}), p.Back...)
}

// outward is the way of what pods send by themselves.
func (b *builder) outward(v *Vpc) Path {
	about := v.Ref
	if v.Project != nil {
		about = *v.Project
	}
	pods := Step{Kind: AtTarget, Label: "pods " + v.inner().String()}
	router := Step{Kind: AtRouter, Ref: v.Ref, Label: "router " + v.Name, Action: "SNAT to " + v.Address.String()}
	outside := Step{Kind: AtClient, Label: "anywhere"}
	if v.Gateway.IsValid() {
		router.Action += ", to gateway " + v.Gateway.String()
	}
	title := "out, with " + v.Address.String()
	if v.Management {
		outside.Label, title = "hosts of "+v.Network, "out to "+v.Network+", with "+v.Address.String()
	}
	p := Path{
		About: about, Network: v.Network, Title: title,
		There: []Step{pods, router, b.gatewayNode(v.port(v.Network).Node), b.net(v.Network), outside},
	}
	p.Back = slices.Clone(p.There)
	slices.Reverse(p.Back)
	p.Back[3].Action = "back to the pod's address"
	return p
}

// diverted is the way of what leaves by another network than the rest.
func (b *builder) diverted(v *Vpc, d Diversion) Path {
	var to []string
	for _, prefix := range d.Destinations {
		to = append(to, prefix.String())
	}
	outside := Step{Kind: AtClient, Label: "anywhere"}
	if len(to) > 0 {
		outside.Label = strings.Join(to, ", ")
	}
	pods := Step{Kind: AtTarget, Label: "pods of " + d.Ref.Name}
	router := Step{Kind: AtRouter, Ref: d.Ref, Label: d.Ref.Kind + " " + d.Ref.Name, Action: "SNAT to " + d.Address.String(), Problem: severe(d.Problems)}
	p := Path{
		About: d.Ref, Network: d.Network, Title: fmt.Sprintf("out to %s, with %s", outside.Label, d.Address),
		There: []Step{pods, router, b.gatewayNode(v.port(d.Network).Node), b.net(d.Network), outside},
	}
	p.Back = slices.Clone(p.There)
	slices.Reverse(p.Back)
	p.Back[3].Action = "back to the pod's address"
	return p
}

// byEgressIP is the way of what pods send that an EgressIP selects.
func (b *builder) byEgressIP(v *Vpc, e EgressIP) Path {
	p := Path{About: e.Ref, Title: "out, with EgressIP " + e.Ref.Name}
	var addresses, nodes []string
	for _, a := range e.Addresses {
		addresses = append(addresses, a.Address.String())
		if a.Node != "" && !slices.Contains(nodes, a.Node) {
			nodes = append(nodes, a.Node)
		}
		p.Network = a.Network
	}
	p.There = []Step{
		{Kind: AtTarget, Label: "pods that it selects"},
		{Kind: AtRouter, Ref: v.Ref, Label: "router " + v.Name, Action: "to the router of egress addresses"},
		{Kind: AtAddress, Ref: e.Ref, Label: strings.Join(addresses, ", "), Action: "SNAT to one of them", Problem: severe(e.Problems)},
		{Kind: AtNode, Label: strings.Join(nodes, ", "), Action: "hold the addresses", Problem: len(nodes) == 0},
		b.net(p.Network),
		{Kind: AtClient, Label: "anywhere"},
	}
	p.Back = slices.Clone(p.There)
	slices.Reverse(p.Back)
	return p
}

// severe says whether one of the problems is more than worth knowing.
func severe(problems []Problem) bool {
	return slices.ContainsFunc(problems, func(p Problem) bool { return p.Severity != "info" })
}
