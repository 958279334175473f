package clusterstate

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/logical"
	"github.com/sallyport/sallyport/internal/model/state"
)

// Kinds of references that are not our objects.
const (
	RouterKind = "Router"
	NodeKind   = "Node"
	PodKind    = "Pod"
)

// NodeRef returns the reference of a node.
func NodeRef(name string) state.Ref { return state.Ref{Kind: NodeKind, Name: name} }

// RouterRef returns the reference of a router.
func RouterRef(name string) state.Ref { return state.Ref{Kind: RouterKind, Name: name} }

// PodRef returns the reference of a pod.
func PodRef(namespace, name string) state.Ref {
	return state.Ref{Kind: PodKind, Namespace: namespace, Name: name}
}

// Objects returns all objects that users ask about, by kind, namespace and name.
func (c *Cluster) Objects() []Object {
	return slices.Concat(
		extractObjects(c.Projects, func(o Project) Object { return o.Object }),
		extractObjects(c.EIps, func(o EIp) Object { return o.Object }),
		extractObjects(c.FIps, func(o FIp) Object { return o.Object }),
		extractObjects(c.Services, func(o Service) Object { return o.Object }),
		extractObjects(c.EgressIPs, func(o EgressIP) Object { return o.Object }),
		extractObjects(c.EgressServices, func(o EgressPolicy) Object { return o.Object }),
		extractObjects(c.EgressRoutes, func(o EgressPolicy) Object { return o.Object }),
		extractObjects(c.Networks, func(o Network) Object { return o.Object }),
		extractObjects(c.Nodes, func(o Node) Object { return o.Object }),
		extractObjects(c.NodePaths, func(o NodePath) Object { return o.Object }),
		extractObjects(c.Pods, func(o Pod) Object { return o.Object }),
	)
}

func extractObjects[T any](list []T, object func(T) Object) []Object {
	out := make([]Object, 0, len(list))
	for _, o := range list {
		out = append(out, object(o))
	}
	return out
}

// findFirst returns the first match in a list, or nil.
func findFirst[T any](list []T, is func(*T) bool) *T {
	for i := range list {
		if is(&list[i]) {
			return &list[i]
		}
	}
	return nil
}

// EIp returns the EIp with a name, or nil. The functions below do the same.
func (c *Cluster) EIp(ref state.Ref) *EIp {
	return findFirst(c.EIps, func(o *EIp) bool { return o.Ref == ref })
}

// FIp returns the FIp with a name.
func (c *Cluster) FIp(ref state.Ref) *FIp {
	return findFirst(c.FIps, func(o *FIp) bool { return o.Ref == ref })
}

// Service returns the Service with a name.
func (c *Cluster) Service(ref state.Ref) *Service {
	return findFirst(c.Services, func(o *Service) bool { return o.Ref == ref })
}

// Project returns the Project with a name.
func (c *Cluster) Project(ref state.Ref) *Project {
	return findFirst(c.Projects, func(o *Project) bool { return o.Ref == ref })
}

// ProjectOfShard returns the Project of a VPC or a namespace, which have the same name.
func (c *Cluster) ProjectOfShard(shard string) *Project {
	return findFirst(c.Projects, func(o *Project) bool { return o.Shard == shard && shard != "" })
}

// EgressIP returns the EgressIP with a name.
func (c *Cluster) EgressIP(ref state.Ref) *EgressIP {
	return findFirst(c.EgressIPs, func(o *EgressIP) bool { return o.Ref == ref })
}

// EgressPolicy returns the EgressService or EgressRoute with a name.
func (c *Cluster) EgressPolicy(ref state.Ref) *EgressPolicy {
	list := c.EgressServices
	if ref.Kind == string(intent.EgressRoute) {
		list = c.EgressRoutes
	}
	return findFirst(list, func(o *EgressPolicy) bool { return o.Ref == ref })
}

// Network returns the external network with a name: its own, or that of one of its Subnets.
func (c *Cluster) Network(name string) *Network {
	if n := c.Subnet(name); n != nil && n.Network != "" {
		name = n.Network
	}
	return findFirst(c.Networks, func(o *Network) bool { return o.Name == name && name != "" })
}

// NetworkAt returns the external network that an address belongs to, or through which nodes are reached at it.
func (c *Cluster) NetworkAt(a netip.Addr) *Network {
	if pool := c.ExternalSubnetAt(a); pool != nil {
		return c.Network(pool.Network)
	}
	return findFirst(c.Networks, func(o *Network) bool {
		return slices.ContainsFunc(o.Addresses, func(p netip.Prefix) bool { return p.Contains(a) })
	})
}

// Subnet returns the Subnet with a name.
func (c *Cluster) Subnet(name string) *Subnet {
	return findFirst(c.Subnets, func(o *Subnet) bool { return o.Name == name })
}

// InterfaceOn returns the interface of a node that leads to an external subnet.
func (n *Subnet) InterfaceOn(node string) string { return cmp.Or(n.Interfaces[node], n.Interface) }

// ExternalSubnetAt returns the external subnet that an address belongs to.
func (c *Cluster) ExternalSubnetAt(a netip.Addr) *Subnet {
	return findFirst(c.Subnets, func(o *Subnet) bool { return o.Network != "" && o.Contains(a) })
}

// Contains reports whether an address belongs to a subnet.
func (n *Subnet) Contains(a netip.Addr) bool {
	return slices.ContainsFunc(n.Prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
}

// Node returns the node with a name.
func (c *Cluster) Node(name string) *Node {
	return findFirst(c.Nodes, func(o *Node) bool { return o.Name == name })
}

// Pod returns the pod with a name.
func (c *Cluster) Pod(ref state.Ref) *Pod {
	return findFirst(c.Pods, func(o *Pod) bool { return o.Ref == ref })
}

// PodAt returns the pod with an address in a VPC. Tenants may use the same addresses.
func (s *State) PodAt(vpc string, a netip.Addr) *Pod {
	return findFirst(s.Cluster.Pods, func(o *Pod) bool {
		if o.HostNetwork || !slices.Contains(o.Addresses, a) {
			return false
		}
		subnet := s.Cluster.Subnet(o.Subnet)
		return subnet != nil && subnet.Vpc == vpc
	})
}

// NodeOfChassis returns the node of a chassis, whose name is random. If there is none, it returns the name of the
// chassis.
func (s *State) NodeOfChassis(chassis string) string {
	if n := findFirst(s.Cluster.Nodes, func(o *Node) bool { return o.Chassis == chassis && chassis != "" }); n != nil {
		return n.Name
	}
	if c := findFirst(s.Logical.Chassis, func(o *logical.Chassis) bool { return o.Name == chassis }); c != nil {
		return c.Host
	}
	return chassis
}

// GatewayPort returns the port through which a router has an external address: the address of the port itself, or one
// on the same subnet. Nil: there is none.
func (s *State) GatewayPort(router string, a netip.Addr) *logical.RouterPort {
	r, pool := s.Logical.Router(router), s.Cluster.ExternalSubnetAt(a)
	if r == nil || pool == nil {
		return nil
	}
	own := findFirst(r.Ports, func(p *logical.RouterPort) bool {
		return slices.ContainsFunc(p.Networks, func(n netip.Prefix) bool { return n.Addr() == a })
	})
	if own != nil {
		return own
	}
	return findFirst(r.Ports, func(p *logical.RouterPort) bool {
		return slices.ContainsFunc(p.Networks, func(n netip.Prefix) bool { return pool.Contains(n.Addr()) })
	})
}

// Verdict returns the verdict on an object. Nil: its shard was not compiled, or it belongs to none.
func (s *State) Verdict(ref state.Ref) *intent.Verdict {
	for _, shard := range s.Shards {
		if v := findFirst(shard.Verdicts, func(v *intent.Verdict) bool { return v.Object.Ref() == ref }); v != nil {
			return v
		}
	}
	return nil
}
