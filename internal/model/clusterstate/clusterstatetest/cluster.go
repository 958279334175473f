// Package clusterstatetest is a generator of plausible clusters of any size, for tests and pictures.
package clusterstatetest

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/logical"
	"github.com/sallyport/sallyport/internal/model/state"
)

// Taken is the time of every survey of this package.
var Taken = time.Date(2026, 3, 14, 2, 17, 0, 0, time.UTC)

// GenerateCluster returns a cluster with a number of projects on three external networks, a further network that nodes
// are on themselves, and some problems. The result is deterministic. The fifth project and some more have a FIp without
// a target; other problems are rarer.
func GenerateCluster(projects int) *clusterstate.State {
	b := builder{State: &clusterstate.State{Taken: Taken}, allocated: map[string]int{}}
	b.Logical.Sets = map[string][]string{}
	b.Cluster.Name, b.Cluster.Version = "metro-1", "v1.35.3"
	b.addNetworks()
	b.addNodes(projects)
	b.addManagementVPC()
	for i := range projects {
		b.addProject(i)
	}
	b.addEgressIPs(projects)
	b.addLeases()
	b.setSubnetUsage()
	b.sortObjects()
	return b.State
}

// builder builds a survey. allocated is the number of addresses allocated from each network.
type builder struct {
	*clusterstate.State
	allocated map[string]int
}

// externalNetwork is an external network of these clusters.
type externalNetwork struct {
	name, kind, prefix string
	tag                int
}

// The first network is the default.
var externalNetworks = []externalNetwork{
	{"ext-cloud", "cloud", "100.65.0.0/16", 4013},
	{"ext-public", "public", "198.18.0.0/16", 4011},
	{"ext-partner", "partner", "172.28.0.0/16", 4020},
}

const uplinkNetwork = "uplink-a"

// newObject returns the common fields of an object with conditions.
func newObject(kind, namespace, name string, conditions ...clusterstate.Condition) clusterstate.Object {
	return clusterstate.Object{
		Ref: state.Ref{Kind: kind, Namespace: namespace, Name: name}, Created: Taken.Add(-40 * 24 * time.Hour),
		Generation: 1, Conditions: conditions,
	}
}

// healthyConditions returns the conditions of an object that works.
func healthyConditions() []clusterstate.Condition {
	return []clusterstate.Condition{
		{Type: "Accepted", Status: "True", Reason: "Accepted", Since: Taken.Add(-time.Hour)},
		{Type: "ResolvedRefs", Status: "True", Reason: "ResolvedRefs", Since: Taken.Add(-time.Hour)},
		{Type: "Programmed", Status: "True", Reason: "Programmed", Since: Taken.Add(-time.Hour)},
	}
}

// failingConditions returns the conditions of an object with one false condition, which is not programmed.
func failingConditions(kind, reason, message string) []clusterstate.Condition {
	conditions := healthyConditions()
	for i := range conditions {
		if conditions[i].Type == "Programmed" && kind != "Programmed" {
			conditions[i].Status, conditions[i].Reason, conditions[i].Message = "False", "NotAccepted", "see "+kind
		}
		if conditions[i].Type == kind {
			conditions[i].Status, conditions[i].Reason, conditions[i].Message = "False", reason, message
		}
	}
	return conditions
}

func (b *builder) addNetworks() {
	c := &b.Cluster
	for i, o := range externalNetworks {
		prefix := netip.MustParsePrefix(o.prefix)
		c.Networks = append(c.Networks, clusterstate.Network{
			Object: newObject("ExternalNetwork", "", o.name, healthyConditions()...), Type: o.kind, Default: i == 0,
			Return: "Connection", Subnets: []string{o.name},
		})
		c.Subnets = append(c.Subnets, clusterstate.Subnet{
			Object: newObject("Subnet", "", o.name), Vpc: kubeovn.ManagementVpc, Prefixes: []netip.Prefix{prefix},
			Gateways: []netip.Addr{nthAddress(prefix, 1)},
			Excluded: []string{nthAddress(prefix, 1).String() + ".." + nthAddress(prefix, 10).String()}, Ready: true,
			Provider: o.name, Vlan: "vlan-" + o.name, Tag: o.tag, Interface: "eth1", Network: o.name,
		})
		b.Logical.Switches = append(b.Logical.Switches, logical.Switch{Name: o.name, Ports: []logical.SwitchPort{
			{Name: "localnet." + o.name, Type: "localnet", Localnet: o.name, Tag: o.tag, Unknown: true},
		}})
	}
	prefix := netip.MustParsePrefix("192.0.2.0/24")
	c.Networks = append(c.Networks, clusterstate.Network{
		Object: newObject("ExternalNetwork", "", uplinkNetwork, healthyConditions()...), Type: "uplink",
		Interface: "eth2", Method: "Connection",
		Gateways:  []netip.Addr{nthAddress(prefix, 1)},
		Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.240/28")},
	})
}

// addNodes adds three nodes and one more for each twenty projects, at most 24. The last third may be gateways; of three
// nodes, the last two.
func (b *builder) addNodes(projects int) {
	count := min(3+projects/20, 24)
	for i := range count {
		n := clusterstate.Node{
			Object: newObject("Node", "", fmt.Sprintf("node%d", i+1),
				clusterstate.Condition{Type: "Ready", Status: "True", Reason: "KubeletReady"}),
			Chassis: chassisName(i), Addresses: []netip.Addr{nthAddress(netip.MustParsePrefix("192.168.10.0/24"),
				11+i)}, Ready: true,
			Gateway: i >= count-max(2, count/3), Assignable: i >= count-max(2, count/3), Kernel: "6.12.43",
			Heartbeat: Taken.Add(-4 * time.Second),
		}
		if count > 5 && i == 1 {
			n.Ready, n.Heartbeat = false, Taken.Add(-7*time.Minute)
			n.Conditions[0].Status, n.Conditions[0].Reason = "Unknown", "NodeStatusUnknown"
		}
		b.Cluster.Nodes = append(b.Cluster.Nodes, n)
		b.Logical.Chassis = append(b.Logical.Chassis,
			logical.Chassis{Name: n.Chassis, Host: n.Name, Encaps: []string{"geneve " + n.Addresses[0].String()}})
		last := &b.Cluster.Networks[len(b.Cluster.Networks)-1]
		last.OnNodes = append(last.OnNodes, n.Name)
		b.Cluster.NodePaths = append(b.Cluster.NodePaths,
			clusterstate.NodePath{
				Object:   newObject("NodePath", "", n.Name, healthyConditions()...),
				Networks: []string{uplinkNetwork},
			})
	}
}

func chassisName(i int) string { return fmt.Sprintf("5f0c7a10-9d1e-4b7a-8c55-%012d", i+1) }

// gatewayChassis returns the candidate chassis for the port of a VPC, rotated for each VPC.
func (b *builder) gatewayChassis(n int) []string {
	var all []string
	for _, n := range b.Cluster.Nodes {
		if n.Gateway {
			all = append(all, n.Chassis)
		}
	}
	first := n % len(all)
	return append(all[first:len(all):len(all)], all[:first]...)
}

// nthAddress returns the nth address of an IPv4 prefix.
func nthAddress(p netip.Prefix, n int) netip.Addr {
	a := p.Addr().As4()
	for i := 3; n > 0 && i >= 0; i-- {
		n += int(a[i])
		a[i], n = byte(n), n>>8 //nolint:gosec // the lowest byte
	}
	return netip.AddrFrom4(a)
}

// allocateAddress returns the next free address of an external network.
func (b *builder) allocateAddress(network string) netip.Addr {
	b.allocated[network]++
	for _, o := range externalNetworks {
		if o.name == network {
			return nthAddress(netip.MustParsePrefix(o.prefix), 100+b.allocated[network])
		}
	}
	panic("no network " + network)
}

func (b *builder) addLeases() {
	for _, l := range []clusterstate.Lease{
		{Object: newObject("Lease", "kube-system", "sallyport-controller"), Holder: "sallyport-controller-0"},
		{Object: newObject("Lease", "kube-system", "kube-ovn-controller"), Holder: "node1"},
	} {
		l.Renewed, l.Lasts = Taken.Add(-2*time.Second), 15*time.Second
		b.Cluster.Leases = append(b.Cluster.Leases, l)
	}
}

// setSubnetUsage counts the addresses of external subnets like Kube-OVN.
func (b *builder) setSubnetUsage() {
	for i := range b.Cluster.Subnets {
		s := &b.Cluster.Subnets[i]
		if s.Network != "" {
			s.Used = b.allocated[s.Network]
			s.Free = 1<<(32-s.Prefixes[0].Bits()) - 12 - s.Used
		}
	}
}

// sortObjects sorts objects and rows in the order of a survey.
func (b *builder) sortObjects() {
	c := &b.Cluster
	sortByRef(c.Subnets, func(o clusterstate.Subnet) state.Ref { return o.Ref })
	sortByRef(c.Vpcs, func(o clusterstate.Vpc) state.Ref { return o.Ref })
	sortByRef(c.Projects, func(o clusterstate.Project) state.Ref { return o.Ref })
	sortByRef(c.EIps, func(o clusterstate.EIp) state.Ref { return o.Ref })
	sortByRef(c.FIps, func(o clusterstate.FIp) state.Ref { return o.Ref })
	sortByRef(c.Services, func(o clusterstate.Service) state.Ref { return o.Ref })
	sortByRef(c.Beside, func(o clusterstate.Service) state.Ref { return o.Ref })
	sortByRef(c.EgressIPs, func(o clusterstate.EgressIP) state.Ref { return o.Ref })
	sortByRef(c.EgressRoutes, func(o clusterstate.EgressPolicy) state.Ref { return o.Ref })
	sortByRef(c.EgressServices, func(o clusterstate.EgressPolicy) state.Ref { return o.Ref })
	sortByRef(c.NodePaths, func(o clusterstate.NodePath) state.Ref { return o.Ref })
	sortByRef(c.Pods, func(o clusterstate.Pod) state.Ref { return o.Ref })
	sortByRef(c.Nodes, func(o clusterstate.Node) state.Ref { return o.Ref })
	sortByRef(c.OvnEips, func(o clusterstate.OvnEip) state.Ref { return o.Ref })
	sortByRef(c.Routes, func(o clusterstate.Route) state.Ref { return o.Ref })
	sortByRef(c.Backends, func(o clusterstate.Backend) state.Ref { return o.Ref })
	sortByRef(b.Logical.Routers, func(r logical.Router) state.Ref { return state.Ref{Name: r.Name} })
	sortByRef(b.Logical.Switches, func(s logical.Switch) state.Ref { return state.Ref{Name: s.Name} })
	for _, r := range b.Logical.Routers {
		sortByRef(r.Ports, func(p logical.RouterPort) state.Ref { return state.Ref{Name: p.Name} })
	}
}

func sortByRef[T any](all []T, ref func(T) state.Ref) {
	slices.SortStableFunc(all, func(a, b T) int {
		return cmp.Or(cmp.Compare(ref(a).Namespace, ref(b).Namespace), cmp.Compare(ref(a).Name, ref(b).Name))
	})
}
