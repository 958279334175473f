package clusterstate

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/logical"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/state"
)

// DependenciesOf returns an object and everything that it leads to or depends on, nearest first: the user and holder of
// an address, pods, project, router, network, and the nodes involved. A problem of one of them may be the cause of a
// problem of the object.
func (s *State) DependenciesOf(ref state.Ref) []state.Ref {
	out := []state.Ref{ref}
	if e := s.Cluster.EIp(ref); e != nil {
		out = append(out, s.AddressUsers(e.Address)...)
	}
	seen := map[state.Ref]bool{{}: true}
	for _, r := range out {
		seen[r] = true
	}
	for i := 0; i < len(out); i++ {
		if r := out[i]; r != ref && (r.Kind == string(intent.Project) || r.Kind == string(intent.EIp)) {
			continue // their other networks and users are not related to this object
		}
		for _, r := range s.directDependencies(out[i]) {
			if !seen[r] {
				seen[r] = true
				out = append(out, r)
			}
		}
	}
	return out
}

// directDependencies returns the direct dependencies of an object.
func (s *State) directDependencies(ref state.Ref) []state.Ref {
	c, out := &s.Cluster, s.requestDependencies(ref)
	if v := s.Verdict(ref); v != nil {
		out = append(out, v.Through...)
	}
	switch ref.Kind {
	case string(intent.ExternalNetwork), string(intent.Subnet):
		return append(out, s.networkDependencies(ref)...)
	case PodKind:
		if p := c.Pod(ref); p != nil {
			out = append(out, NodeRef(p.Node), state.Ref{Kind: string(intent.Subnet), Name: p.Subnet})
		}
	case NodeKind:
		if path := findFirst(c.NodePaths, func(o *NodePath) bool { return o.Name == ref.Name }); path != nil {
			out = append(out, path.Ref)
		}
	}
	return out
}

// requestDependencies returns the dependencies of a request for an address.
func (s *State) requestDependencies(ref state.Ref) []state.Ref {
	c := &s.Cluster
	switch intent.Kind(ref.Kind) {
	case intent.EIp:
		if e := c.EIp(ref); e != nil {
			return s.externalDependencies(e.Shard, e.Address, e.Network)
		}
	case intent.FIp:
		if f := c.FIp(ref); f != nil {
			return append(s.fipDependencies(f), s.externalDependencies(f.Shard, f.External, "")...)
		}
	case intent.Service:
		if v := c.Service(ref); v != nil {
			return s.serviceDependencies(v)
		}
	case intent.Project:
		if p := c.Project(ref); p != nil {
			return append([]state.Ref{{Kind: string(intent.Vpc), Name: p.Shard}},
				s.externalDependencies(p.Shard, p.Address, p.Network)...)
		}
	case intent.EgressIP:
		if e := c.EgressIP(ref); e != nil {
			return s.egressIPDependencies(e)
		}
	case intent.EgressService, intent.EgressRoute:
		if e := c.EgressPolicy(ref); e != nil {
			return s.egressPolicyDependencies(e)
		}
	}
	return nil
}

// AddressUsers returns the FIps and Services that are reached at an external address.
func (s *State) AddressUsers(a netip.Addr) []state.Ref {
	var out []state.Ref
	if !a.IsValid() {
		return nil
	}
	for _, f := range s.Cluster.FIps {
		if f.External == a {
			out = append(out, f.Ref)
		}
	}
	for _, v := range s.Cluster.Services {
		if slices.Contains(v.Ingress, a) || slices.Contains(v.ExternalIPs, a) {
			out = append(out, v.Ref)
		}
	}
	return out
}

// EIpAt returns the EIp that has an address.
func (c *Cluster) EIpAt(a netip.Addr) *EIp {
	return findFirst(c.EIps, func(o *EIp) bool { return a.IsValid() && o.Address == a })
}

// externalDependencies returns what a VPC needs for one of its external addresses: the holder, router, network, and the
// nodes of its gateway port.
func (s *State) externalDependencies(shard string, a netip.Addr, network string) []state.Ref {
	c, out := &s.Cluster, []state.Ref{}
	if e := c.EIpAt(a); e != nil {
		out = append(out, e.Ref)
	}
	for _, o := range c.OvnEips {
		if a.IsValid() && o.Address == a {
			out = append(out, o.Ref)
		}
	}
	if p := c.ProjectOfShard(shard); p != nil {
		out = append(out, p.Ref)
	}
	if shard != "" {
		out = append(out, RouterRef(shard))
	}
	pool, on := c.ExternalSubnetAt(a), c.NetworkAt(a)
	if pool != nil {
		out = append(out, pool.Ref)
	}
	if on == nil {
		on = c.Network(network)
	}
	if on != nil {
		out = append(out, on.Ref)
	}
	return append(out, s.gatewayNodes(s.GatewayPort(shard, a))...)
}

// gatewayNodes returns the nodes of a router port: the one it is bound to, and those that should have it instead. If it
// is bound to none, it returns all candidates.
func (s *State) gatewayNodes(port *logical.RouterPort) []state.Ref {
	if port == nil {
		return nil
	}
	may := port.Chassis
	if i := slices.Index(may, port.Holder); i >= 0 {
		may = may[:i+1]
	} else if port.Holder != "" {
		may = append([]string{port.Holder}, may...)
	}
	var out []state.Ref
	for _, chassis := range slices.Backward(may) {
		out = append(out, NodeRef(s.NodeOfChassis(chassis)))
	}
	return out
}

func (s *State) fipDependencies(f *FIp) []state.Ref {
	out := []state.Ref{{Kind: string(intent.EIp), Namespace: f.Namespace, Name: f.EIp}}
	if p := s.PodAt(f.Shard, f.Target); p != nil {
		return append(out, p.Ref)
	}
	if f.Pod != "" {
		return append(out, PodRef(f.Namespace, f.Pod))
	}
	return out
}

func (s *State) serviceDependencies(v *Service) []state.Ref {
	var out []state.Ref
	for _, e := range v.Endpoints {
		if e.Pod != "" {
			out = append(out, PodRef(v.Namespace, e.Pod))
		}
	}
	for _, a := range slices.Concat(v.Ingress, v.ExternalIPs) {
		out = append(out, s.externalDependencies(v.Shard, a, "")...)
	}
	if len(out) == 0 && v.Ours {
		return s.externalDependencies(v.Shard, netip.Addr{}, "")
	}
	return out
}

func (s *State) egressIPDependencies(e *EgressIP) []state.Ref {
	var out []state.Ref
	for _, a := range slices.Sorted(maps.Keys(e.Held)) {
		out = append(out, NodeRef(e.Held[a]))
	}
	for _, text := range e.Addresses {
		if a, err := netip.ParseAddr(text); err == nil {
			out = append(out, s.externalDependencies(ownership.EgressVpc, a, "")...)
		}
	}
	for _, r := range s.Logical.Routers {
		if r.Name != ownership.EgressVpc &&
			slices.ContainsFunc(r.Policies, func(p logical.RouterPolicy) bool { return p.IDs.Owner() == e.Ref }) {
			out = append(out, RouterRef(r.Name))
			if p := s.Cluster.ProjectOfShard(r.Name); p != nil {
				out = append(out, p.Ref)
			}
		}
	}
	return out
}

func (s *State) egressPolicyDependencies(e *EgressPolicy) []state.Ref {
	var out []state.Ref
	if e.Kind == string(intent.EgressService) {
		out = append(out, state.Ref{Kind: string(intent.Service), Namespace: e.Namespace, Name: e.Name})
	}
	for _, a := range e.Sources {
		out = append(out, s.externalDependencies(e.Shard, a, e.Network)...)
	}
	if len(e.Sources) == 0 {
		out = append(out, s.externalDependencies(e.Shard, netip.Addr{}, e.Network)...)
	}
	return out
}

// networkDependencies returns the parts of an external network, and the nodes that are on it themselves.
func (s *State) networkDependencies(ref state.Ref) []state.Ref {
	c, out := &s.Cluster, []state.Ref{}
	if n := c.Subnet(ref.Name); n != nil && ref.Kind == string(intent.Subnet) {
		if on := c.Network(n.Network); on != nil {
			out = append(out, on.Ref)
		}
	}
	n := c.Network(ref.Name)
	if n == nil || n.Ref != ref {
		return out
	}
	for _, name := range n.Subnets {
		out = append(out, state.Ref{Kind: string(intent.Subnet), Name: name})
	}
	for _, node := range n.OnNodes {
		out = append(out, NodeRef(node))
	}
	return out
}
