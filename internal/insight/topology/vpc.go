package topology

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/logical"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/state"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// buildVPCs returns the VPCs of projects and others, by name. Kube-OVN's default VPC comes first.
func (b *builder) buildVPCs() []Vpc {
	projects, seen := map[string]clusterstate.Project{}, map[string]bool{}
	for _, p := range b.Cluster.Projects {
		projects[p.Shard] = p
	}
	routers := map[string]*logical.Router{}
	for i := range b.Logical.Routers {
		routers[b.Logical.Routers[i].Name] = &b.Logical.Routers[i]
	}
	var all []Vpc
	for _, v := range b.Cluster.Vpcs {
		seen[v.Name] = true
		if v.Name == ownership.EgressVpc {
			continue // drawn as EgressIPs
		}
		all = append(all, b.buildVPC(v, projects[v.Name], routers[v.Name]))
	}
	for _, name := range sortedKeys(projects) {
		if !seen[name] {
			all = append(all, b.buildVPC(clusterstate.Vpc{Object: clusterstate.Object{Ref: state.Ref{Kind: "Vpc", Name: name}}},
				projects[name], nil))
		}
	}
	slices.SortStableFunc(all, func(a, b Vpc) int {
		return cmp.Or(cmp.Compare(boolToInt(b.Management), boolToInt(a.Management)), cmp.Compare(a.Name, b.Name))
	})
	return all
}

func (b *builder) buildVPC(v clusterstate.Vpc, p clusterstate.Project, router *logical.Router) Vpc {
	has := b.objectsOfShard(v.Name)
	out := Vpc{
		Ref: v.Ref, Name: v.Name, Management: v.Name == kubeovn.ManagementVpc, Namespaces: v.Namespaces,
		Pods: has.podCount, Problems: b.collectProblems(v.Object),
	}
	if out.Management { // Kube-OVN does not list the namespaces of its default VPC
		out.Namespaces = sortedKeys(has.podNamespaces)
	}
	if p.Name != "" {
		out.Project, out.SNATAddress = &p.Ref, p.Address
		out.Problems = append(b.collectProblems(p.Object), out.Problems...)
	}
	for _, s := range has.subnets {
		purpose := SubnetPods
		if s.Name == joinSwitch {
			purpose = SubnetJoin
		}
		out.Subnets = append(out.Subnets, b.buildSubnet(s, purpose))
	}
	if router != nil {
		out.Router = b.buildRouter(router, out.Subnets)
	}
	b.setDefaultEgress(&out, p)
	b.addExternalAddresses(&out, has)
	for _, e := range has.egressRoutes {
		out.EgressRoutes = append(out.EgressRoutes, b.buildEgressPolicy(e))
	}
	for _, e := range has.egressServices {
		out.EgressServices = append(out.EgressServices, b.buildEgressPolicy(e))
	}
	for _, e := range b.graph.EgressIPs {
		if b.hasEgressAddressSet(e, v.Name) {
			out.EgressIPs = append(out.EgressIPs, e.Ref.Name)
		}
	}
	return out
}

// setDefaultEgress sets the egress network of a VPC: the network of its SNAT address, else the requested one. Pods of
// the management VPC leave through their nodes; the SNAT address is used only for hosts on the network itself. The
// addresses of links to egress addresses are internal.
func (b *builder) setDefaultEgress(v *Vpc, p clusterstate.Project) {
	for _, n := range v.Router.NATs {
		if n.Type == "snat" && n.Match == "" && !v.SNATAddress.IsValid() && !v.Router.isEgressLink(n.ExternalIP) {
			v.SNATAddress = n.ExternalIP
		}
	}
	v.EgressNetwork = cmp.Or(b.networkOfAddress(v.SNATAddress), b.requestedNetwork(p))
	on := map[string]bool{v.EgressNetwork: true}
	for _, port := range v.Router.Ports {
		on[port.Network] = on[port.Network] || port.Kind == PortExternal
	}
	for _, n := range b.graph.Networks {
		if !on[n.Name] {
			continue
		}
		v.Networks = append(v.Networks, n.Name)
		if n.Name == v.EgressNetwork && len(n.Subnets) > 0 && len(n.Subnets[0].Gateways) > 0 &&
			v.SNATAddress.IsValid() && !v.Management {
			v.Gateway = n.Subnets[0].Gateways[0]
		}
	}
	slices.SortStableFunc(v.Networks, func(x, y string) int {
		return cmp.Compare(boolToInt(y == v.EgressNetwork), boolToInt(x == v.EgressNetwork))
	})
}

// isEgressLink reports whether an address is the router's end of a link to an egress address.
func (r *Router) isEgressLink(a netip.Addr) bool {
	return slices.ContainsFunc(r.Ports, func(p RouterPort) bool {
		return ownership.EgressLinkRouter(p.Name) == r.Name &&
			slices.ContainsFunc(p.Addresses, func(n netip.Prefix) bool { return n.Addr() == a })
	})
}

// requestedNetwork returns the network that a project requests by name or type, or the default network.
func (b *builder) requestedNetwork(p clusterstate.Project) string {
	for _, n := range b.graph.Networks {
		if p.Name != "" && (n.Name == p.Network || n.Type == p.Network || p.Network == "" && n.Default) {
			return n.Name
		}
	}
	return ""
}

func (b *builder) buildRouter(r *logical.Router, inside []Subnet) Router {
	out := Router{Name: r.Name}
	for _, p := range r.Ports {
		port := RouterPort{Name: p.Name, Addresses: p.Networks, Node: b.nodeByChassis[p.Holder]}
		for _, c := range p.Chassis {
			if c != p.Holder && b.nodeByChassis[c] != "" {
				port.Standby = append(port.Standby, b.nodeByChassis[c])
			}
		}
		port.Kind, port.Subnet, port.Network = b.classifyPort(r.Name, p.Name, inside)
		out.Ports = append(out.Ports, port)
	}
	slices.SortStableFunc(out.Ports, func(x, y RouterPort) int {
		return cmp.Or(cmp.Compare(slices.Index(portOrder, x.Kind), slices.Index(portOrder, y.Kind)),
			cmp.Compare(x.Name, y.Name))
	})
	for _, n := range r.NATs {
		out.NATs = append(out.NATs, NAT{
			Type: n.Type, ExternalIP: n.External, LogicalIP: n.Logical, Match: n.Match, Owner: n.IDs.Owner(),
		})
	}
	slices.SortStableFunc(out.NATs, func(x, y NAT) int {
		return cmp.Or(cmp.Compare(y.Type, x.Type), x.ExternalIP.Compare(y.ExternalIP))
	})
	return out
}

var portOrder = []string{PortExternal, PortPods, PortJoin, PortReturn, PortEgressRouter, PortInternal}

// classifyPort returns the kind of a router port by its name. Kube-OVN names ports ROUTER-SWITCH.
func (b *builder) classifyPort(router, port string, inside []Subnet) (kind, subnet, network string) {
	rest, _ := kubeovn.SubnetOfRouterPort(router, port)
	if n := b.networkBySubnet[rest]; n != "" {
		return PortExternal, rest, n
	}
	for _, s := range inside {
		if rest == s.Name && s.Purpose == SubnetJoin {
			return PortJoin, s.Name, ""
		}
		if rest == s.Name {
			return PortPods, s.Name, ""
		}
		if n, ok := strings.CutPrefix(port, ownership.ReturnRouterPort(router, s.Name, "")); ok {
			return PortReturn, s.Name, n
		}
	}
	if ownership.EgressLinkRouter(port) == router {
		return PortEgressRouter, "", ""
	}
	return PortInternal, "", ""
}

// hasEgressAddressSet reports whether a VPC has an address set of pods that an EgressIP selects.
func (b *builder) hasEgressAddressSet(e EgressIP, vpc string) bool {
	_, ok := b.Logical.Sets[ownership.EgressIPPodSet(vpc, e.Ref.Name)]
	return ok
}

func (b *builder) buildEgressPolicy(e clusterstate.EgressPolicy) EgressPolicy {
	d := EgressPolicy{
		Ref:          e.Ref,
		Network:      cmp.Or(b.networkBySubnet[e.Network], e.Network),
		Destinations: e.Destinations,
		Problems:     b.collectProblems(e.Object),
	}
	if len(e.Sources) > 0 {
		d.Address = e.Sources[0]
	}
	return d
}

// dependsOnNode reports whether a node holds a router port of the VPC or runs a target of its addresses.
func (v *Vpc) dependsOnNode(node string) bool {
	for _, p := range v.Router.Ports {
		if p.Node == node {
			return true
		}
	}
	for _, f := range v.FIps {
		if f.Target.Node == node {
			return true
		}
	}
	for _, s := range v.Services {
		for _, l := range s.Ports {
			if slices.ContainsFunc(l.Targets, func(t Target) bool { return t.Node == node }) {
				return true
			}
		}
	}
	return false
}

// externalPort returns the router port of the VPC on a network.
func (v *Vpc) externalPort(network string) RouterPort {
	for _, p := range v.Router.Ports {
		if p.Kind == PortExternal && p.Network == network {
			return p
		}
	}
	return RouterPort{}
}

// returnPort returns the return port of the VPC for a network.
func (v *Vpc) returnPort(network string) RouterPort {
	for _, p := range v.Router.Ports {
		if p.Kind == PortReturn && p.Network == network {
			return p
		}
	}
	return RouterPort{}
}

// firstPodPrefix returns the prefix of the VPC's pods.
func (v *Vpc) firstPodPrefix() netip.Prefix {
	for _, s := range v.Subnets {
		if s.Purpose == SubnetPods && len(s.Prefixes) > 0 {
			return s.Prefixes[0]
		}
	}
	return netip.Prefix{}
}
