package topology

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	"github.com/sallyport/sallyport/internal/diagnosis"
	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/state"
	"github.com/sallyport/sallyport/internal/survey"
)

// Of is the graph of a survey, with what a diagnosis found about what is in it.
func Of(s *survey.Survey, findings []diagnosis.Finding) *Graph {
	b := index(s, findings)
	g := &Graph{Cluster: s.Cluster.Name, Version: s.Cluster.Version, Taken: s.Taken, Networks: b.networks()}
	b.graph = g
	g.Nodes = b.nodes()
	g.Gateways, g.Routes, g.Backends = b.gateways(), b.routes(), b.backends()
	g.Egress = b.egressIPs()
	g.Vpcs = b.vpcs()
	g.Counts = counts(s)
	g.Problems = b.whole()
	return g
}

// builder looks things up in a survey.
type builder struct {
	*survey.Survey
	graph    *Graph
	found    map[state.Ref][]Problem
	network  map[string]string            // subnet or network → network
	prefixes []claim                      // of external networks
	pods     map[string]survey.Pod        // namespace/name
	at       map[netip.Addr][]survey.Pod  // by address; projects may share some
	ovnEip   map[netip.Addr]string        // under which name Kube-OVN has an address
	node     map[string]string            // chassis → node
	beside   map[state.Ref]survey.Service // the headless Services that tell addresses, by their source
	of       map[string]*belongings       // shard → what is in it
}

// claim is a prefix of an external network.
type claim struct {
	netip.Prefix
	network, subnet string
}

// belongings are the objects of one VPC.
type belongings struct {
	eips     []survey.EIp
	fips     []survey.FIp
	services []survey.Service
	routes   []survey.Egress
	behind   []survey.Egress
	subnets  []survey.Subnet
	pods     int
	// inhabited are the namespaces with pods.
	inhabited map[string]bool
}

func index(s *survey.Survey, findings []diagnosis.Finding) *builder {
	b := &builder{
		Survey: s, found: map[state.Ref][]Problem{}, network: map[string]string{}, pods: map[string]survey.Pod{}, at: map[netip.Addr][]survey.Pod{},
		ovnEip: map[netip.Addr]string{}, node: map[string]string{}, beside: map[state.Ref]survey.Service{}, of: map[string]*belongings{},
	}
	for _, f := range findings {
		if len(f.About) > 0 {
			b.found[f.About[0]] = append(b.found[f.About[0]], Problem{f.Code, f.Severity.String(), f.Message, f.Cure})
		}
	}
	for _, c := range s.Logical.Chassis {
		b.node[c.Name] = c.Host
	}
	for _, n := range s.Cluster.Nodes {
		b.node[n.Chassis] = n.Name
	}
	b.indexNetworks()
	b.indexShards()
	return b
}

func (b *builder) indexNetworks() {
	for _, n := range b.Cluster.Networks {
		b.network[n.Name] = n.Name
		for _, p := range n.Addresses {
			b.prefixes = append(b.prefixes, claim{p, n.Name, ""})
		}
	}
	for _, s := range b.Cluster.Subnets {
		if s.Network == "" {
			continue
		}
		b.network[s.Name] = s.Network
		for _, p := range s.Prefixes {
			b.prefixes = append(b.prefixes, claim{p, s.Network, s.Name})
		}
	}
}

func (b *builder) indexShards() {
	c, subnets := b.Cluster, map[string]string{}
	for _, s := range c.Subnets {
		if s.Network == "" {
			b.shard(s.Vpc).subnets = append(b.shard(s.Vpc).subnets, s)
			subnets[s.Name] = s.Vpc
		}
	}
	for _, p := range c.Pods {
		b.pods[p.Namespace+"/"+p.Name] = p
		if p.HostNetwork {
			continue
		}
		for _, a := range p.Addresses {
			b.at[a] = append(b.at[a], p)
		}
		if vpc := subnets[p.Subnet]; vpc != "" {
			b.shard(vpc).pods++
			b.shard(vpc).inhabited[p.Namespace] = true
		}
	}
	for _, o := range c.OvnEips {
		if o.Address.IsValid() {
			b.ovnEip[o.Address] = o.Name
		}
	}
	for _, e := range c.EIps {
		b.shard(e.Shard).eips = append(b.shard(e.Shard).eips, e)
	}
	for _, f := range c.FIps {
		b.shard(f.Shard).fips = append(b.shard(f.Shard).fips, f)
	}
	for _, s := range c.Beside {
		b.beside[state.Ref{Kind: "Service", Namespace: s.Namespace, Name: s.Labels[kubedcv1.SourceServiceLabel]}] = s
	}
	for _, s := range c.Services {
		b.shard(s.Shard).services = append(b.shard(s.Shard).services, s)
	}
	for _, e := range c.EgressRoutes {
		b.shard(e.Shard).routes = append(b.shard(e.Shard).routes, e)
	}
	for _, e := range c.EgressServices {
		b.shard(e.Shard).behind = append(b.shard(e.Shard).behind, e)
	}
}

func (b *builder) shard(name string) *belongings {
	if b.of[name] == nil {
		b.of[name] = &belongings{inhabited: map[string]bool{}}
	}
	return b.of[name]
}

// networkOf is the external network that an address is of.
func (b *builder) networkOf(a netip.Addr) string {
	best := claim{}
	for _, c := range b.prefixes {
		if c.Contains(a) && (best.network == "" || c.Bits() > best.Bits()) {
			best = c
		}
	}
	return best.network
}

// Of conditions, those whose being false is a problem, and how bad it is.
var telling = map[string]diagnosis.Severity{
	"Accepted": diagnosis.Error, "ResolvedRefs": diagnosis.Error, "Programmed": diagnosis.Error, "Ready": diagnosis.Error,
	"HasEndpoints": diagnosis.Warning, "ReturnPath": diagnosis.Warning, "NetworkAllowed": diagnosis.Warning,
}

// problems are what is wrong with an object: what was found, and conditions of which nothing was found.
func (b *builder) problems(o survey.Object) []Problem {
	all := slices.Clone(b.found[o.Ref])
	for _, c := range o.Conditions {
		severity, tells := telling[c.Type]
		if !tells || c.Status == "True" || c.Reason == intent.NotAccepted {
			continue
		}
		if slices.ContainsFunc(all, func(p Problem) bool { return p.Code == c.Reason }) {
			continue
		}
		if intent.Passing(c.Reason) {
			severity = diagnosis.Info
		}
		all = append(all, Problem{Code: c.Reason, Severity: severity.String(), Message: c.Message})
	}
	if o.Deleting {
		all = append(all, Problem{Code: intent.BeingDeleted, Severity: diagnosis.Info.String(), Message: "it is being deleted"})
	}
	return all
}

// whole is what is wrong with the cluster, or with what is not in the graph.
func (b *builder) whole() []Problem {
	all := slices.Clone(b.found[diagnosis.Platform])
	for _, u := range b.Unread {
		all = append(all, Problem{Code: "Unread", Severity: diagnosis.Error.String(), Message: u.System + ": " + u.Problem})
	}
	return all
}

// networks are in the order of the picture: the default first, then by name.
func (b *builder) networks() []Network {
	var all []Network
	for _, n := range b.Cluster.Networks {
		out := Network{
			Ref: n.Ref, Name: n.Name, Type: n.Type, Default: n.Default, Return: n.Return, Problems: b.problems(n.Object), Public: len(n.Addresses) > 0,
		}
		for _, s := range b.Cluster.Subnets {
			if s.Network == n.Name {
				out.Subnets = append(out.Subnets, b.subnet(s, ForOutside))
				out.Public = true
			}
		}
		for _, c := range b.prefixes {
			out.Public = out.Public && (c.network != n.Name || routable(c.Addr()))
		}
		if n.Interface != "" {
			out.Uplink = &Uplink{n.Interface, n.Method, n.Gateways, n.Addresses, n.OnNodes}
		}
		all = append(all, out)
	}
	slices.SortStableFunc(all, func(a, b Network) int {
		if a.Default != b.Default {
			return cmp.Compare(rank(b.Default), rank(a.Default))
		}
		return cmp.Or(cmp.Compare(rank(a.Uplink != nil), rank(b.Uplink != nil)), cmp.Compare(a.Name, b.Name))
	})
	for i := range all {
		all[i].Colour = i
	}
	return all
}

func rank(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// Addresses that the internet does not route, beside those that netip knows: of carriers (RFC 6598).
var carriers = netip.MustParsePrefix("100.64.0.0/10")

func routable(a netip.Addr) bool {
	return a.IsGlobalUnicast() && !a.IsPrivate() && !carriers.Contains(a)
}

func (b *builder) subnet(s survey.Subnet, purpose string) Subnet {
	out := Subnet{
		Ref: s.Ref, Name: s.Name, Vpc: s.Vpc, Prefixes: s.Prefixes, Gateways: s.Gateways, Excluded: s.Excluded, Free: s.Free, Used: s.Used,
		Purpose: purpose, Problems: b.problems(s.Object), Vlan: s.Vlan, Tag: s.Tag, Interface: s.Interface,
	}
	if purpose == ForOutside {
		out.Provider = s.Provider
	}
	return out
}

// joinSwitch is the switch that joins nodes to OVN, and the subnet of it.
const joinSwitch = "join"

func (b *builder) nodes() []Node {
	joins := map[string]netip.Addr{}
	if s := b.Logical.Switch(joinSwitch); s != nil {
		for _, p := range s.Ports {
			if name, ok := strings.CutPrefix(p.Name, "node-"); ok && len(p.Addresses) > 0 {
				joins[name] = p.Addresses[0]
			}
		}
	}
	holds := b.holds()
	var all []Node
	for _, n := range b.Cluster.Nodes {
		out := Node{
			Ref: n.Ref, Name: n.Name, Addresses: n.Addresses, Join: joins[n.Name], Ready: n.Ready, Gateway: n.Gateway, Egress: n.Assignable,
			Cordoned: n.Cordoned, Holds: holds[n.Name], Problems: slices.Clone(b.found[n.Ref]),
		}
		if !n.Ready && len(out.Problems) == 0 {
			out.Problems = []Problem{{Code: "NodeNotReady", Severity: diagnosis.Error.String(), Message: "the node is not ready"}}
		}
		inspected := b.Inspected[n.Name]
		for _, i := range inspected.Interfaces {
			out.Interfaces = append(out.Interfaces, Interface{i.Name, i.Up, i.MTU, i.Addresses})
		}
		for _, r := range inspected.Routes {
			if r.Problem == "" && r.Mark == 0 && r.Input == "" && !r.From.IsValid() {
				out.Routes = append(out.Routes, NodeRoute{r.To, r.Output, r.NextHop})
			}
		}
		all = append(all, out)
	}
	return all
}

// holds are the ports of routers on external networks, by the node that holds them.
func (b *builder) holds() map[string][]Hold {
	all := map[string][]Hold{}
	for _, r := range b.Logical.Routers {
		for _, p := range r.Ports {
			node := b.node[p.Holder]
			if p.Holder == "" || len(p.Networks) == 0 {
				continue
			}
			a := p.Networks[0].Addr()
			all[node] = append(all[node], Hold{Router: r.Name, Port: p.Name, Network: b.networkOf(a), Address: a})
		}
	}
	return all
}

func (b *builder) egressIPs() []EgressIP {
	var all []EgressIP
	for _, e := range b.Cluster.EgressIPs {
		out := EgressIP{Ref: e.Ref, Pods: e.Selects, Problems: b.problems(e.Object)}
		for _, text := range e.Addresses {
			a, err := netip.ParseAddr(text)
			if err != nil {
				continue // its condition says so
			}
			out.Addresses = append(out.Addresses, EgressAddress{Address: a, Network: b.networkOf(a), Node: e.Held[text]})
		}
		all = append(all, out)
	}
	return all
}

// counts are what there is of each kind that matters here.
func counts(s *survey.Survey) []Count {
	c, snat, fips := s.Cluster, 0, 0
	for _, r := range s.Logical.Routers {
		for _, n := range r.NATs {
			snat += rank(n.Type == "snat")
			fips += rank(n.Type == "dnat_and_snat")
		}
	}
	balancers, routes := 0, map[string]int{}
	for _, v := range c.Services {
		balancers += rank(v.Type == "LoadBalancer")
	}
	all := []Count{
		{"Projects", len(c.Projects), "tenants, each with a network of its own"},
		{"VPCs", len(c.Vpcs), "routers that keep tenants apart"},
		{"Subnets", len(c.Subnets), "addresses for pods, nodes and the outside"},
		{"ExternalNetworks", len(c.Networks), "ways to the outside"},
		{"EIps", len(c.EIps), "external addresses of projects"},
		{"OvnEips", len(c.OvnEips), "the same as Kube-OVN holds them, with the routers' own"},
		{"FIps", len(c.FIps), "addresses for one pod or virtual machine, both ways"},
		{"SNAT rules", snat, "ways out of VPCs"},
		{"DNAT rules", fips, "floating IPs in OVN"},
		{"LoadBalancer Services", balancers, "ports of addresses, over pods"},
		{"EgressIPs", len(c.EgressIPs), "addresses that pods leave with"},
		{"EgressServices", len(c.EgressServices), "pods that leave with their Service's address"},
		{"EgressRoutes", len(c.EgressRoutes), "destinations that are reached by another network"},
		{"Backends", len(c.Backends), "where Envoy Gateway sends requests"},
		{"Gateways", len(c.Gateways), "listeners of the Gateway API"},
	}
	for _, r := range c.Routes {
		routes[r.Kind]++
	}
	for _, kind := range sortedKeys(routes) {
		all = append(all, Count{kind + "s", routes[kind], "which requests a Gateway sends where"})
	}
	return append(all, Count{"Nodes", len(c.Nodes), "machines"}, Count{"Pods", len(c.Pods), "workloads"})
}

// Project narrows a graph to one VPC and what it hangs on; its name is that of the VPC, or of the project with its namespace before it.
func (g *Graph) Project(name string) (*Graph, error) {
	at := slices.IndexFunc(g.Vpcs, func(v Vpc) bool {
		return v.Name == name || v.Project != nil && (v.Project.Namespace+"/"+v.Project.Name == name)
	})
	if at < 0 {
		at = slices.IndexFunc(g.Vpcs, func(v Vpc) bool { return v.Project != nil && v.Project.Name == name })
	}
	if at < 0 {
		return nil, fmt.Errorf("there is no project %s; name one by its namespace, as `sallyport map` shows it", name)
	}
	one := *g
	v := g.Vpcs[at]
	one.Focus = v.Name
	one.Vpcs = []Vpc{v}
	one.Networks = slices.DeleteFunc(slices.Clone(g.Networks), func(n Network) bool {
		return !slices.ContainsFunc(g.groups(&v), func(o group) bool { return o.network == n.Name })
	})
	mine := func(r state.Ref) bool { return slices.Contains(v.Namespaces, r.Namespace) }
	one.Routes = slices.DeleteFunc(slices.Clone(g.Routes), func(r Route) bool { return !mine(r.Ref) })
	one.Backends = slices.DeleteFunc(slices.Clone(g.Backends), func(r Backend) bool { return !mine(r.Ref) })
	one.Gateways = slices.DeleteFunc(slices.Clone(g.Gateways), func(w Gateway) bool {
		return !mine(w.Ref) && !slices.ContainsFunc(one.Routes, func(r Route) bool { return slices.Contains(r.Gateways, w.Ref) })
	})
	one.Egress = slices.DeleteFunc(slices.Clone(g.Egress), func(e EgressIP) bool { return !slices.Contains(v.Egress, e.Ref.Name) })
	one.Nodes = slices.DeleteFunc(slices.Clone(g.Nodes), func(n Node) bool { return !v.touches(n.Name) })
	return &one, nil
}

// refOf is an object by its kind and its namespace/name.
func refOf(kind, text string) state.Ref {
	namespace, name, found := strings.Cut(text, "/")
	if !found {
		return state.Ref{Kind: kind, Name: text}
	}
	return state.Ref{Kind: kind, Namespace: namespace, Name: name}
}
