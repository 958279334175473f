package topology

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/kubeovn"
	"github.com/sallyport/sallyport/internal/logical"
	"github.com/sallyport/sallyport/internal/ownership"
	"github.com/sallyport/sallyport/internal/state"
	"github.com/sallyport/sallyport/internal/survey"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// vpcs are Kube-OVN's own first, then by name: those of projects, and those that somebody else made.
func (b *builder) vpcs() []Vpc {
	projects, seen := map[string]survey.Project{}, map[string]bool{}
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
		all = append(all, b.vpc(v, projects[v.Name], routers[v.Name]))
	}
	for _, name := range sortedKeys(projects) {
		if !seen[name] {
			all = append(all, b.vpc(survey.Vpc{Object: survey.Object{Ref: state.Ref{Kind: "Vpc", Name: name}}}, projects[name], nil))
		}
	}
	slices.SortStableFunc(all, func(a, b Vpc) int {
		return cmp.Or(cmp.Compare(rank(b.Management), rank(a.Management)), cmp.Compare(a.Name, b.Name))
	})
	return all
}

func (b *builder) vpc(v survey.Vpc, p survey.Project, router *logical.Router) Vpc {
	has := b.shard(v.Name)
	out := Vpc{
		Ref: v.Ref, Name: v.Name, Management: v.Name == kubeovn.ManagementVpc, Namespaces: v.Namespaces, Pods: has.pods, Problems: b.problems(v.Object),
	}
	if out.Management { // Kube-OVN does not list them: it has all that no other VPC has
		out.Namespaces = sortedKeys(has.inhabited)
	}
	if p.Name != "" {
		out.Project, out.Address = &p.Ref, p.Address
		out.Problems = append(b.problems(p.Object), out.Problems...)
	}
	for _, s := range has.subnets {
		purpose := ForPods
		if s.Name == joinSwitch {
			purpose = ForNodes
		}
		out.Subnets = append(out.Subnets, b.subnet(s, purpose))
	}
	if router != nil {
		out.Router = b.router(router, out.Subnets)
	}
	b.wayOut(&out, p)
	b.addressesOf(&out, has)
	for _, e := range has.routes {
		out.Routes = append(out.Routes, b.diversion(e))
	}
	for _, e := range has.behind {
		out.Behind = append(out.Behind, b.diversion(e))
	}
	for _, e := range b.graph.Egress {
		if b.selects(e, v.Name) {
			out.Egress = append(out.Egress, e.Ref.Name)
		}
	}
	out.Paths = b.paths(&out)
	return out
}

// wayOut is the network by which the pods of a VPC leave: that of their address, or else the one that is asked for. Those of the management
// VPC leave by nodes, and have an address for what is on that network itself.
func (b *builder) wayOut(v *Vpc, p survey.Project) {
	for _, n := range v.Router.NATs {
		if n.Type == "snat" && n.Match == "" && !v.Address.IsValid() {
			v.Address = n.External
		}
	}
	v.Network = cmp.Or(b.networkOf(v.Address), b.asked(p))
	on := map[string]bool{v.Network: true}
	for _, port := range v.Router.Ports {
		on[port.Network] = on[port.Network] || port.Kind == ToOutside
	}
	for _, n := range b.graph.Networks {
		if !on[n.Name] {
			continue
		}
		v.Networks = append(v.Networks, n.Name)
		if n.Name == v.Network && len(n.Subnets) > 0 && len(n.Subnets[0].Gateways) > 0 && v.Address.IsValid() && !v.Management {
			v.Gateway = n.Subnets[0].Gateways[0]
		}
	}
	slices.SortStableFunc(v.Networks, func(x, y string) int { return cmp.Compare(rank(y == v.Network), rank(x == v.Network)) })
}

// asked is the network that a project asks for, by name or by type; the default one when it does not.
func (b *builder) asked(p survey.Project) string {
	for _, n := range b.graph.Networks {
		if p.Name != "" && (n.Name == p.Network || n.Type == p.Network || p.Network == "" && n.Default) {
			return n.Name
		}
	}
	return ""
}

// router is what a VPC's router has.
func (b *builder) router(r *logical.Router, inside []Subnet) Router {
	out := Router{Name: r.Name}
	for _, p := range r.Ports {
		port := Port{Name: p.Name, Addresses: p.Networks, Node: b.node[p.Holder]}
		for _, c := range p.Chassis {
			if c != p.Holder && b.node[c] != "" {
				port.Standby = append(port.Standby, b.node[c])
			}
		}
		port.Kind, port.Subnet, port.Network = b.portKind(r.Name, p.Name, inside)
		out.Ports = append(out.Ports, port)
	}
	slices.SortStableFunc(out.Ports, func(x, y Port) int {
		return cmp.Or(cmp.Compare(slices.Index(portOrder, x.Kind), slices.Index(portOrder, y.Kind)), cmp.Compare(x.Name, y.Name))
	})
	for _, n := range r.NATs {
		out.NATs = append(out.NATs, Translation{Type: n.Type, External: n.External, Internal: n.Logical, Match: n.Match, Owner: n.IDs.Owner()})
	}
	slices.SortStableFunc(out.NATs, func(x, y Translation) int { return cmp.Or(cmp.Compare(y.Type, x.Type), x.External.Compare(y.External)) })
	return out
}

var portOrder = []string{ToOutside, ToPods, ToNodes, ToLeg, ToEgress, ToItself}

// portKind tells what a port of a router leads to, by its name. Kube-OVN names ports router-switch.
func (b *builder) portKind(router, port string, inside []Subnet) (kind, subnet, network string) {
	rest, _ := strings.CutPrefix(port, router+"-")
	if n := b.network[rest]; n != "" {
		return ToOutside, rest, n
	}
	for _, s := range inside {
		if rest == s.Name && s.Purpose == ForNodes {
			return ToNodes, s.Name, ""
		}
		if rest == s.Name {
			return ToPods, s.Name, ""
		}
		if n, ok := strings.CutPrefix(port, ownership.LegRouterPort(router, s.Name, "")); ok {
			return ToLeg, s.Name, n
		}
	}
	if ownership.RouterOf(port) == router {
		return ToEgress, "", ""
	}
	return ToItself, "", ""
}

// selects says whether pods of a VPC may leave with an EgressIP: the VPC has a set of them.
func (b *builder) selects(e EgressIP, vpc string) bool {
	_, ok := b.Logical.Sets[ownership.EgressSet(vpc, e.Ref.Name)]
	return ok
}

func (b *builder) diversion(e survey.Egress) Diversion {
	d := Diversion{Ref: e.Ref, Network: cmp.Or(b.network[e.Network], e.Network), Destinations: e.Destinations, Problems: b.problems(e.Object)}
	if len(e.Sources) > 0 {
		d.Address = e.Sources[0]
	}
	return d
}

// touches says whether a node holds a port of the VPC, may hold it, or runs something that is reached from outside.
func (v *Vpc) touches(node string) bool {
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

// port is the VPC's port on a network.
func (v *Vpc) port(network string) Port {
	for _, p := range v.Router.Ports {
		if p.Kind == ToOutside && p.Network == network {
			return p
		}
	}
	return Port{}
}

// leg is the VPC's leg of a network: replies of connections that came in by it go there.
func (v *Vpc) leg(network string) Port {
	for _, p := range v.Router.Ports {
		if p.Kind == ToLeg && p.Network == network {
			return p
		}
	}
	return Port{}
}

// inner is the prefix of the VPC's pods.
func (v *Vpc) inner() netip.Prefix {
	for _, s := range v.Subnets {
		if s.Purpose == ForPods && len(s.Prefixes) > 0 {
			return s.Prefixes[0]
		}
	}
	return netip.Prefix{}
}
