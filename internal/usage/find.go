package usage

import (
	"net/netip"
	"slices"

	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/logical"
	"github.com/sallyport/sallyport/internal/ownership"
	"github.com/sallyport/sallyport/internal/state"
	"github.com/sallyport/sallyport/internal/survey"
)

// Who has addresses and is no project.
const (
	routers  = "routers"
	egresses = "egress addresses"
	others   = "others"
)

// index is external addresses as they are found.
type index struct {
	s    *survey.Survey
	have map[netip.Addr]*Address
}

// find is every external address that somebody has, with who does and which nodes hold it.
func find(s *survey.Survey) map[netip.Addr]*Address {
	x := &index{s, map[netip.Addr]*Address{}}
	c := &s.Cluster
	for _, o := range c.FIps {
		x.add(o.External, o.Ref, o.Shard)
	}
	for _, o := range c.Services {
		for _, a := range o.Ingress {
			x.add(a, o.Ref, o.Shard)
		}
	}
	for _, o := range c.EgressIPs {
		for _, text := range o.Addresses {
			if a, err := netip.ParseAddr(text); err == nil {
				x.add(a, o.Ref, egresses)
			}
		}
	}
	for _, o := range c.Projects {
		x.add(o.Address, o.Ref, o.Shard)
	}
	for _, o := range c.EIps {
		x.add(o.Address, o.Ref, o.Shard)
	}
	x.addPorts()
	for _, o := range c.OvnEips {
		if x.have[o.Address] == nil { // somebody else's, or left behind
			x.add(o.Address, o.Ref, others)
		}
	}
	for i := range s.Logical.Routers {
		x.hold(&s.Logical.Routers[i])
	}
	return x.have
}

func (x *index) add(a netip.Addr, who state.Ref, by string) {
	if !a.IsValid() {
		return
	}
	entry := x.have[a]
	if entry == nil {
		pool := x.s.Cluster.Pool(a)
		if pool == nil {
			return
		}
		entry = &Address{Address: a, Subnet: pool.Name, by: by}
		x.have[a] = entry
	}
	if !slices.Contains(entry.Who, who) {
		entry.Who = append(entry.Who, who)
	}
}

// addPorts adds the addresses that routers have for themselves.
func (x *index) addPorts() {
	for _, r := range x.s.Logical.Routers {
		for _, p := range r.Ports {
			for _, n := range p.Networks {
				if r.Name != ownership.EgressVpc && x.have[n.Addr()] == nil {
					x.add(n.Addr(), survey.RouterRef(r.Name), routers)
				}
			}
		}
	}
}

// hold notes for each address that a router has which node holds the port by which it is reached.
func (x *index) hold(r *logical.Router) {
	for _, a := range has(r) {
		entry := x.have[a]
		if entry == nil {
			continue
		}
		p := x.s.Gateway(r.Name, a)
		if p == nil || p.Holder == "" {
			continue
		}
		if node := x.s.NodeOf(p.Holder); !slices.Contains(entry.Nodes, node) {
			entry.Nodes = append(entry.Nodes, node)
		}
	}
}

// has is the addresses of a router: its own, and those that it translates or balances.
func has(r *logical.Router) []netip.Addr {
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

// mostAsked is of how many addresses a node is asked. The kind Inspection allows no more.
const mostAsked = 1024

// Questions are what nodes have to be asked, so that connections can be counted: of each address those that hold it.
func Questions(s *survey.Survey) []kubedcv1alpha1.InspectionSpec {
	asked := map[string][]string{}
	for a, entry := range find(s) {
		for _, node := range entry.Nodes {
			asked[node] = append(asked[node], a.String())
		}
	}
	var out []kubedcv1alpha1.InspectionSpec
	for _, n := range s.Cluster.Nodes {
		if list := asked[n.Name]; len(list) > 0 && n.Ready {
			slices.Sort(list)
			out = append(out, kubedcv1alpha1.InspectionSpec{Node: n.Name, Usage: list[:min(len(list), mostAsked)]})
		}
	}
	return out
}
