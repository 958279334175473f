package topology

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/insight/diagnosis"
	"github.com/sallyport/sallyport/internal/insight/trace"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/humanize"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/state"
)

// BuildGraph builds the graph of a survey, without connections. Findings become problems of the objects that they are
// about.
func BuildGraph(s *clusterstate.State, findings []diagnosis.Finding) *Graph {
	b := newBuilder(s, findings)
	g := &Graph{Cluster: s.Cluster.Name, Version: s.Cluster.Version, Taken: s.Taken, Networks: b.buildNetworks()}
	b.graph, g.builder = g, b
	g.Nodes = b.buildNodes()
	g.Gateways, g.Routes, g.Backends = b.buildGateways(), b.buildRoutes(), b.buildBackends()
	g.EgressIPs = b.buildEgressIPs()
	g.Vpcs = b.buildVPCs()
	g.Counts = countObjects(s)
	g.Problems = b.collectClusterProblems()
	return g
}

// builder builds a graph, with indexes of the survey.
type builder struct {
	*clusterstate.State
	graph            *Graph
	tracer           *trace.Tracer
	problemsByRef    map[state.Ref][]Problem
	severeRefs       map[state.Ref]bool // objects with a warning or an error
	networkBySubnet  map[string]string  // subnet or network → network
	externalPrefixes []externalPrefix
	podsByName       map[string]clusterstate.Pod        // namespace/name
	podsByAddress    map[netip.Addr][]clusterstate.Pod  // projects may use the same addresses
	ovnEIPByAddress  map[netip.Addr]string              // address → name of its OvnEip
	nodeByChassis    map[string]string                  // chassis → node
	headlessBySource map[state.Ref]clusterstate.Service // Service → its headless Service with the external address
	objectsByShard   map[string]*shardObjects           // shard → its objects
}

// externalPrefix is a prefix of an external network.
type externalPrefix struct {
	netip.Prefix
	network, subnet string
}

// shardObjects are the objects of one VPC.
type shardObjects struct {
	eips           []clusterstate.EIp
	fips           []clusterstate.FIp
	services       []clusterstate.Service
	egressRoutes   []clusterstate.EgressPolicy
	egressServices []clusterstate.EgressPolicy
	subnets        []clusterstate.Subnet
	podCount       int
	podNamespaces  map[string]bool
}

func newBuilder(s *clusterstate.State, findings []diagnosis.Finding) *builder {
	b := &builder{
		State: s, tracer: trace.New(s), problemsByRef: map[state.Ref][]Problem{}, severeRefs: map[state.Ref]bool{},
		networkBySubnet: map[string]string{},
		podsByName:      map[string]clusterstate.Pod{}, podsByAddress: map[netip.Addr][]clusterstate.Pod{},
		ovnEIPByAddress: map[netip.Addr]string{}, nodeByChassis: map[string]string{},
		headlessBySource: map[state.Ref]clusterstate.Service{}, objectsByShard: map[string]*shardObjects{},
	}
	for _, f := range findings {
		if len(f.About) > 0 {
			b.problemsByRef[f.About[0]] = append(b.problemsByRef[f.About[0]],
				Problem{f.Code, f.Severity.String(), f.Message, f.Remediation})
		}
	}
	for _, c := range s.Logical.Chassis {
		b.nodeByChassis[c.Name] = c.Host
	}
	for _, n := range s.Cluster.Nodes {
		b.nodeByChassis[n.Chassis] = n.Name
	}
	b.indexNetworks()
	b.indexShards()
	return b
}

func (b *builder) indexNetworks() {
	for _, n := range b.Cluster.Networks {
		b.networkBySubnet[n.Name] = n.Name
		for _, p := range n.Addresses {
			b.externalPrefixes = append(b.externalPrefixes, externalPrefix{p, n.Name, ""})
		}
	}
	for _, s := range b.Cluster.Subnets {
		if s.Network == "" {
			continue
		}
		b.networkBySubnet[s.Name] = s.Network
		for _, p := range s.Prefixes {
			b.externalPrefixes = append(b.externalPrefixes, externalPrefix{p, s.Network, s.Name})
		}
	}
}

func (b *builder) indexShards() {
	c, subnets := b.Cluster, map[string]string{}
	for _, s := range c.Subnets {
		if s.Network == "" {
			b.objectsOfShard(s.Vpc).subnets = append(b.objectsOfShard(s.Vpc).subnets, s)
			subnets[s.Name] = s.Vpc
		}
	}
	for _, p := range c.Pods {
		b.podsByName[p.Namespace+"/"+p.Name] = p
		if p.HostNetwork {
			continue
		}
		for _, a := range p.Addresses {
			b.podsByAddress[a] = append(b.podsByAddress[a], p)
		}
		if vpc := subnets[p.Subnet]; vpc != "" {
			b.objectsOfShard(vpc).podCount++
			b.objectsOfShard(vpc).podNamespaces[p.Namespace] = true
		}
	}
	for _, o := range c.OvnEips {
		if o.Address.IsValid() {
			b.ovnEIPByAddress[o.Address] = o.Name
		}
	}
	for _, e := range c.EIps {
		b.objectsOfShard(e.Shard).eips = append(b.objectsOfShard(e.Shard).eips, e)
	}
	for _, f := range c.FIps {
		b.objectsOfShard(f.Shard).fips = append(b.objectsOfShard(f.Shard).fips, f)
	}
	for _, s := range c.Beside {
		b.headlessBySource[state.Ref{
			Kind:      "Service",
			Namespace: s.Namespace,
			Name:      s.Labels[kubedcv1.SourceServiceLabel],
		}] = s
	}
	for _, s := range c.Services {
		b.objectsOfShard(s.Shard).services = append(b.objectsOfShard(s.Shard).services, s)
	}
	for _, e := range c.EgressRoutes {
		b.objectsOfShard(e.Shard).egressRoutes = append(b.objectsOfShard(e.Shard).egressRoutes, e)
	}
	for _, e := range c.EgressServices {
		b.objectsOfShard(e.Shard).egressServices = append(b.objectsOfShard(e.Shard).egressServices, e)
	}
}

func (b *builder) objectsOfShard(name string) *shardObjects {
	if b.objectsByShard[name] == nil {
		b.objectsByShard[name] = &shardObjects{podNamespaces: map[string]bool{}}
	}
	return b.objectsByShard[name]
}

// networkOfAddress returns the external network with the longest prefix that contains an address.
func (b *builder) networkOfAddress(a netip.Addr) string {
	best := externalPrefix{}
	for _, c := range b.externalPrefixes {
		if c.Contains(a) && (best.network == "" || c.Bits() > best.Bits()) {
			best = c
		}
	}
	return best.network
}

// problemConditions are the conditions that should be true, with the severity of the problem if they are not.
var problemConditions = map[string]diagnosis.Severity{
	"Accepted": diagnosis.Error, "ResolvedRefs": diagnosis.Error, "Programmed": diagnosis.Error,
	"Ready":        diagnosis.Error,
	"HasEndpoints": diagnosis.Warning, "ReturnPath": diagnosis.Warning, "NetworkAllowed": diagnosis.Warning,
}

// collectProblems returns the problems of an object: its findings, and its failing conditions without a finding.
func (b *builder) collectProblems(o clusterstate.Object) []Problem {
	all := slices.Clone(b.problemsByRef[o.Ref])
	for _, c := range o.Conditions {
		severity, tells := problemConditions[c.Type]
		if !tells || c.Status == "True" || intent.IsConsequence(c.Reason) {
			continue
		}
		if slices.ContainsFunc(all, func(p Problem) bool { return p.Code == c.Reason }) {
			continue
		}
		if intent.IsTransientReason(c.Reason) {
			severity = diagnosis.Info
		}
		all = append(all, Problem{Code: c.Reason, Severity: severity.String(), Message: c.Message})
	}
	if o.Deleting {
		all = append(all, Problem{
			Code:     intent.BeingDeleted,
			Severity: diagnosis.Info.String(),
			Message:  "it is being deleted",
		})
	}
	b.severeRefs[o.Ref] = hasSevereProblem(all)
	return all
}

// collectClusterProblems returns the problems of the cluster as a whole, and the systems that could not be read.
func (b *builder) collectClusterProblems() []Problem {
	all := slices.Clone(b.problemsByRef[diagnosis.ClusterRef])
	for _, u := range b.Unread {
		all = append(all, Problem{
			Code:     "Unread",
			Severity: diagnosis.Error.String(),
			Message:  u.System + ": " + u.Problem,
		})
	}
	return all
}

// buildNetworks returns the networks in the order of the picture: the default, then those with Subnets, then uplinks of
// nodes, each by name.
func (b *builder) buildNetworks() []Network {
	var all []Network
	for _, n := range b.Cluster.Networks {
		out := Network{
			Ref: n.Ref, Name: n.Name, Type: n.Type, Default: n.Default, ReturnPath: n.Return,
			Problems: b.collectProblems(n.Object), Public: len(n.Addresses) > 0,
		}
		for _, s := range b.Cluster.Subnets {
			if s.Network == n.Name {
				out.Subnets = append(out.Subnets, b.buildSubnet(s, SubnetExternal))
				out.Public = true
			}
		}
		for _, c := range b.externalPrefixes {
			out.Public = out.Public && (c.network != n.Name || isInternetRoutable(c.Addr()))
		}
		if n.Interface != "" {
			out.Uplink = &Uplink{n.Interface, n.Method, n.Gateways, n.Addresses, n.OnNodes}
		}
		all = append(all, out)
	}
	slices.SortStableFunc(all, func(a, b Network) int {
		if a.Default != b.Default {
			return cmp.Compare(boolToInt(b.Default), boolToInt(a.Default))
		}
		return cmp.Or(cmp.Compare(boolToInt(a.Uplink != nil), boolToInt(b.Uplink != nil)), cmp.Compare(a.Name, b.Name))
	})
	for i := range all {
		all[i].Colour = i
	}
	return all
}

func boolToInt(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// sharedAddressSpace is not routed on the internet (carrier-grade NAT, RFC 6598). IsPrivate of netip does not know it.
var sharedAddressSpace = netip.MustParsePrefix("100.64.0.0/10")

func isInternetRoutable(a netip.Addr) bool {
	return a.IsGlobalUnicast() && !a.IsPrivate() && !sharedAddressSpace.Contains(a)
}

func (b *builder) buildSubnet(s clusterstate.Subnet, purpose string) Subnet {
	out := Subnet{
		Ref: s.Ref, Name: s.Name, Vpc: s.Vpc, Prefixes: s.Prefixes, Gateways: s.Gateways, Excluded: s.Excluded,
		Free: s.Free, Used: s.Used,
		Purpose: purpose, Problems: b.collectProblems(s.Object), VLAN: s.Vlan, VLANTag: s.Tag, Interface: s.Interface,
	}
	if purpose == SubnetExternal {
		out.ProviderNetwork = s.Provider
	}
	return out
}

// joinSwitch is the name of the switch that connects nodes with OVN, and of its Subnet.
const joinSwitch = "join"

func (b *builder) buildNodes() []Node {
	joins := map[string]netip.Addr{}
	if s := b.Logical.Switch(joinSwitch); s != nil {
		for _, p := range s.Ports {
			if name, ok := kubeovn.NodeOfPort(p.Name); ok && len(p.Addresses) > 0 {
				joins[name] = p.Addresses[0]
			}
		}
	}
	holds := b.gatewayPortsByNode()
	var all []Node
	for _, n := range b.Cluster.Nodes {
		out := Node{
			Ref: n.Ref, Name: n.Name, Addresses: n.Addresses, JoinAddress: joins[n.Name], Ready: n.Ready,
			Gateway: n.Gateway, EgressAssignable: n.Assignable,
			Cordoned: n.Cordoned, GatewayPorts: holds[n.Name], Problems: slices.Clone(b.problemsByRef[n.Ref]),
		}
		if !n.Ready && len(out.Problems) == 0 {
			out.Problems = []Problem{{
				Code:     "NodeNotReady",
				Severity: diagnosis.Error.String(),
				Message:  "the node is not ready",
			}}
		}
		b.severeRefs[n.Ref] = hasSevereProblem(out.Problems)
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

// gatewayPortsByNode returns the router ports on external networks by the node that holds them.
func (b *builder) gatewayPortsByNode() map[string][]GatewayPort {
	all := map[string][]GatewayPort{}
	for _, r := range b.Logical.Routers {
		for _, p := range r.Ports {
			node := b.nodeByChassis[p.Holder]
			if p.Holder == "" || len(p.Networks) == 0 {
				continue
			}
			a := p.Networks[0].Addr()
			all[node] = append(all[node],
				GatewayPort{Router: r.Name, Port: p.Name, Network: b.networkOfAddress(a), Address: a})
		}
	}
	return all
}

func (b *builder) buildEgressIPs() []EgressIP {
	var all []EgressIP
	for _, e := range b.Cluster.EgressIPs {
		out := EgressIP{Ref: e.Ref, Pods: e.Selects, Problems: b.collectProblems(e.Object)}
		for _, text := range e.Addresses {
			a, err := netip.ParseAddr(text)
			if err != nil {
				continue // a condition of the EgressIP reports it
			}
			out.Addresses = append(out.Addresses,
				EgressAddress{Address: a, Network: b.networkOfAddress(a), Node: e.Held[text]})
		}
		all = append(all, out)
	}
	return all
}

// countObjects counts the objects of each kind that is relevant for the network.
func countObjects(s *clusterstate.State) []Count {
	c, snat, fips := s.Cluster, 0, 0
	for _, r := range s.Logical.Routers {
		for _, n := range r.NATs {
			snat += boolToInt(n.Type == "snat")
			fips += boolToInt(n.Type == "dnat_and_snat" || n.Type == "dnat")
		}
	}
	balancers, routes := 0, map[string]int{}
	for _, v := range c.Services {
		balancers += boolToInt(v.Type == "LoadBalancer")
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

// TraceConnections adds the connections of all VPCs of the graph. Pictures of a whole cluster do without: a thousand
// projects have some 3,500.
func (g *Graph) TraceConnections() *Graph {
	for i := range g.Vpcs {
		g.Vpcs[i].Connections = g.builder.buildConnections(&g.Vpcs[i])
	}
	return g
}

// FocusProject returns the graph of one VPC with its dependencies and connections. The name is that of the VPC, or NAMESPACE/NAME or
// NAME of its project.
func (g *Graph) FocusProject(name string) (*Graph, error) {
	at := slices.IndexFunc(g.Vpcs, func(v Vpc) bool {
		return v.Name == name || v.Project != nil && (v.Project.Namespace+"/"+v.Project.Name == name)
	})
	if at < 0 {
		at = slices.IndexFunc(g.Vpcs, func(v Vpc) bool { return v.Project != nil && v.Project.Name == name })
	}
	if at < 0 {
		var names []string
		for _, v := range g.Vpcs {
			if names = append(names, v.Name); v.Project != nil {
				names = append(names, v.Project.Namespace+"/"+v.Project.Name)
			}
		}
		return nil, fmt.Errorf("there is no project %s; use its namespace, as listed by `sallyport map`%s", name,
			humanize.SuggestName(name, names))
	}
	one := *g
	v := g.Vpcs[at]
	one.Focus = v.Name
	one.Vpcs = []Vpc{v}
	one.Networks = slices.DeleteFunc(slices.Clone(g.Networks), func(n Network) bool {
		return !slices.ContainsFunc(g.groupByNetwork(&v), func(o networkGroup) bool { return o.network == n.Name })
	})
	mine := func(r state.Ref) bool { return slices.Contains(v.Namespaces, r.Namespace) }
	one.Routes = slices.DeleteFunc(slices.Clone(g.Routes), func(r Route) bool { return !mine(r.Ref) })
	one.Backends = slices.DeleteFunc(slices.Clone(g.Backends), func(r Backend) bool { return !mine(r.Ref) })
	one.Gateways = slices.DeleteFunc(slices.Clone(g.Gateways), func(w Gateway) bool {
		return !mine(w.Ref) && !slices.ContainsFunc(one.Routes, func(r Route) bool {
			return slices.Contains(r.Gateways, w.Ref)
		})
	})
	one.EgressIPs = slices.DeleteFunc(slices.Clone(g.EgressIPs), func(e EgressIP) bool {
		return !slices.Contains(v.EgressIPs, e.Ref.Name)
	})
	one.Nodes = slices.DeleteFunc(slices.Clone(g.Nodes), func(n Node) bool { return !v.dependsOnNode(n.Name) })
	return one.TraceConnections(), nil
}

// parseRef parses NAMESPACE/NAME or NAME.
func parseRef(kind, text string) state.Ref {
	namespace, name, found := strings.Cut(text, "/")
	if !found {
		return state.Ref{Kind: kind, Name: text}
	}
	return state.Ref{Kind: kind, Namespace: namespace, Name: name}
}
