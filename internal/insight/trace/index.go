package trace

import (
	"net/netip"
	"slices"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/state"
)

// index finds objects of a survey by what a packet shows: addresses, ports and chassis.
type index struct {
	podsByName          map[string]*clusterstate.Pod   // namespace/name
	podsByVPC           map[string][]*clusterstate.Pod // without those in host networks
	podsByPort          map[string]state.Ref           // by the name of the first switch port
	podsByAddress       map[netip.Addr][]state.Ref     // projects may use the same addresses
	usersByAddress      map[netip.Addr][]state.Ref     // FIps, Services, EIps and EgressIPs, in this order
	servicesByClusterIP map[netip.Addr]state.Ref
	projectsByShard     map[string]state.Ref
	nodesByChassis      map[string]string
	staticMACs          map[portAddress]string
}

// portAddress is an address on the switch of a router port.
type portAddress struct {
	port    string
	address netip.Addr
}

func newIndex(s *clusterstate.State) index {
	x := index{
		podsByName: map[string]*clusterstate.Pod{}, podsByVPC: map[string][]*clusterstate.Pod{},
		podsByPort: map[string]state.Ref{}, podsByAddress: map[netip.Addr][]state.Ref{},
		usersByAddress: map[netip.Addr][]state.Ref{}, servicesByClusterIP: map[netip.Addr]state.Ref{},
		projectsByShard: map[string]state.Ref{}, nodesByChassis: map[string]string{},
		staticMACs: map[portAddress]string{},
	}
	x.addPods(&s.Cluster)
	x.addAddressUsers(&s.Cluster)
	for _, p := range s.Cluster.Projects {
		x.projectsByShard[p.Shard] = p.Ref
	}
	for _, c := range s.Logical.Chassis {
		x.nodesByChassis[c.Name] = c.Host
	}
	for _, n := range s.Cluster.Nodes {
		if n.Chassis != "" {
			x.nodesByChassis[n.Chassis] = n.Name
		}
	}
	for _, n := range s.Logical.Static {
		x.staticMACs[portAddress{n.Port, n.Address}] = n.MAC
	}
	return x
}

func (x *index) addPods(c *clusterstate.Cluster) {
	vpcs := map[string]string{}
	for _, s := range c.Subnets {
		vpcs[s.Name] = s.Vpc
	}
	for i := range c.Pods {
		p := &c.Pods[i]
		x.podsByName[p.Namespace+"/"+p.Name] = p
		x.podsByPort[kubeovn.PodPort(p.Name, p.Namespace)] = p.Ref
		if p.HostNetwork {
			continue
		}
		x.podsByVPC[vpcs[p.Subnet]] = append(x.podsByVPC[vpcs[p.Subnet]], p)
		for _, a := range p.Addresses {
			x.podsByAddress[a] = append(x.podsByAddress[a], p.Ref)
		}
	}
}

func (x *index) addAddressUsers(c *clusterstate.Cluster) {
	add := func(ref state.Ref, addresses ...netip.Addr) {
		for _, a := range addresses {
			if !slices.Contains(x.usersByAddress[a], ref) {
				x.usersByAddress[a] = append(x.usersByAddress[a], ref)
			}
		}
	}
	for _, o := range c.FIps {
		add(o.Ref, o.External)
	}
	for _, o := range c.Services {
		add(o.Ref, o.Ingress...)
		add(o.Ref, o.ExternalIPs...)
		if _, known := x.servicesByClusterIP[o.ClusterIP]; !known {
			x.servicesByClusterIP[o.ClusterIP] = o.Ref
		}
	}
	for _, o := range c.EIps {
		add(o.Ref, o.Address)
	}
	for _, o := range c.EgressIPs {
		for _, text := range o.Addresses {
			if a, err := netip.ParseAddr(text); err == nil {
				add(o.Ref, a)
			}
		}
	}
	delete(x.usersByAddress, netip.Addr{})
	delete(x.servicesByClusterIP, netip.Addr{})
}

// podsWithAddress returns the pods with an address.
func (x *index) podsWithAddress(a netip.Addr) []state.Ref { return slices.Clip(x.podsByAddress[a]) }

// addressRefs returns the API objects that have an external address.
func (x *index) addressRefs(a netip.Addr) []state.Ref { return slices.Clip(x.usersByAddress[a]) }

// nodeOfChassis returns the node of a chassis, or the name of the chassis if there is none.
func (x *index) nodeOfChassis(chassis string) string {
	if node, known := x.nodesByChassis[chassis]; known {
		return node
	}
	return chassis
}
