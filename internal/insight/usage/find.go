package usage

import (
	"net/netip"
	"slices"

	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/logical"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/state"
)

// Owners of addresses that are not projects.
const (
	groupRouters = "routers"
	groupEgress  = "egress addresses"
	groupOthers  = "others"
)

// addressIndex collects external addresses.
type addressIndex struct {
	survey    *clusterstate.State
	byAddress map[netip.Addr]*Address
}

// findAddresses returns every external address in use, with its owners and the nodes that hold it.
func findAddresses(s *clusterstate.State) map[netip.Addr]*Address {
	x := &addressIndex{s, map[netip.Addr]*Address{}}
	c := &s.Cluster
	for _, o := range c.FIps {
		x.addAddress(o.External, o.Ref, o.Shard)
	}
	for _, o := range c.Services {
		for _, a := range o.Ingress {
			x.addAddress(a, o.Ref, o.Shard)
		}
	}
	for _, o := range c.EgressIPs {
		for _, text := range o.Addresses {
			if a, err := netip.ParseAddr(text); err == nil {
				x.addAddress(a, o.Ref, groupEgress)
			}
		}
	}
	for _, o := range c.Projects {
		x.addAddress(o.Address, o.Ref, o.Shard)
	}
	for _, o := range c.EIps {
		x.addAddress(o.Address, o.Ref, o.Shard)
	}
	x.addRouterPorts()
	for _, o := range c.OvnEips {
		if x.byAddress[o.Address] == nil { // of another controller, or leaked
			x.addAddress(o.Address, o.Ref, groupOthers)
		}
	}
	for i := range s.Logical.Routers {
		x.addGatewayNodes(&s.Logical.Routers[i])
	}
	return x.byAddress
}

func (x *addressIndex) addAddress(a netip.Addr, who state.Ref, by string) {
	if !a.IsValid() {
		return
	}
	entry := x.byAddress[a]
	if entry == nil {
		pool := x.survey.Cluster.ExternalSubnetAt(a)
		if pool == nil {
			return
		}
		entry = &Address{Address: a, Subnet: pool.Name, ownerGroup: by}
		x.byAddress[a] = entry
	}
	if !slices.Contains(entry.Owners, who) {
		entry.Owners = append(entry.Owners, who)
	}
}

// addRouterPorts adds the addresses of router ports.
func (x *addressIndex) addRouterPorts() {
	for _, r := range x.survey.Logical.Routers {
		for _, p := range r.Ports {
			for _, n := range p.Networks {
				if r.Name != ownership.EgressVpc && x.byAddress[n.Addr()] == nil {
					x.addAddress(n.Addr(), clusterstate.RouterRef(r.Name), groupRouters)
				}
			}
		}
	}
}

// addGatewayNodes adds to each address of a router the node that holds its gateway port.
func (x *addressIndex) addGatewayNodes(r *logical.Router) {
	for _, a := range routerAddresses(r) {
		entry := x.byAddress[a]
		if entry == nil {
			continue
		}
		p := x.survey.GatewayPort(r.Name, a)
		if p == nil || p.Holder == "" {
			continue
		}
		if node := x.survey.NodeOfChassis(p.Holder); !slices.Contains(entry.Nodes, node) {
			entry.Nodes = append(entry.Nodes, node)
		}
	}
}

// routerAddresses returns the addresses of a router: those of its ports, NAT rows and load balancers.
func routerAddresses(r *logical.Router) []netip.Addr {
	var out []netip.Addr
	for _, p := range r.Ports {
		for _, n := range p.Networks {
			out = append(out, n.Addr())
		}
	}
	for _, n := range r.NATs {
		out = append(out, n.External)
	}
	for _, b := range r.Balancers {
		for _, v := range b.VIPs {
			out = append(out, v.Address.Addr())
		}
	}
	return out
}

// maxAddressesPerNode limits the addresses in a query to a node. The Inspection API allows no more.
const maxAddressesPerNode = 1024

// PlanInspections returns the inspections that count connections: each address is queried on the nodes that hold it.
func PlanInspections(s *clusterstate.State) []kubedcv1alpha1.InspectionSpec {
	asked := map[string][]string{}
	for a, entry := range findAddresses(s) {
		for _, node := range entry.Nodes {
			asked[node] = append(asked[node], a.String())
		}
	}
	var out []kubedcv1alpha1.InspectionSpec
	for _, n := range s.Cluster.Nodes {
		if list := asked[n.Name]; len(list) > 0 && n.Ready {
			slices.Sort(list)
			out = append(out, kubedcv1alpha1.InspectionSpec{
				Node:  n.Name,
				Usage: list[:min(len(list), maxAddressesPerNode)],
			})
		}
	}
	return out
}
