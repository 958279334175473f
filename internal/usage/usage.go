// Package usage is who uses how much of a cluster's external networks: addresses of pools, connections and ports of addresses, and what
// nodes hold.
package usage

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"github.com/sallyport/sallyport/internal/state"
	"github.com/sallyport/sallyport/internal/survey"
)

// Usage is how much is used, the most used first.
type Usage struct {
	Pools     []Pool    `json:"pools,omitempty"`
	Addresses []Address `json:"addresses,omitempty"`
	Nodes     []Node    `json:"nodes,omitempty"`
}

// Pool is the addresses of a subnet of an external network.
type Pool struct {
	Subnet   string         `json:"subnet"`
	Network  string         `json:"network"`
	Prefixes []netip.Prefix `json:"prefixes"`
	Used     int            `json:"used"`
	Free     int            `json:"free"`
	// By is how many each project, and each kind of what is nobody's, has.
	By []Share `json:"by,omitempty"`
}

// Full is how much of a pool is in use, from 0 to 1.
func (p Pool) Full() float64 { return share(p.Used, p.Used+p.Free) }

// Share is how many addresses somebody has.
type Share struct {
	Who       string `json:"who"`
	Addresses int    `json:"addresses"`
}

// Address is an external address.
type Address struct {
	Address netip.Addr `json:"address"`
	Subnet  string     `json:"subnet"`
	// Who has it, and the nodes that hold it.
	Who   []state.Ref `json:"who,omitempty"`
	Nodes []string    `json:"nodes,omitempty"`
	// Counted: a node has said how many connections use it.
	Counted     bool `json:"counted"`
	Connections int  `json:"connections"`
	// Ports of it are in use to the destination to which the most are, of those that there are.
	Protocol string         `json:"protocol,omitempty"`
	To       netip.AddrPort `json:"to,omitzero"`
	Ports    int            `json:"ports"`
	Of       int            `json:"of,omitempty"`

	by string // the project
}

// Full is how many of the ports to one destination are in use, from 0 to 1.
func (a Address) Full() float64 { return share(a.Ports, a.Of) }

// Node is what a node holds.
type Node struct {
	Name string `json:"name"`
	// Egress are the egress addresses that it holds, Gateways how many ports of routers on external networks, and Connections how many use
	// addresses that it holds.
	Egress      []netip.Addr `json:"egress,omitempty"`
	Gateways    int          `json:"gateways"`
	Connections int          `json:"connections"`
	// Counted: it has said so. Problem is why not.
	Counted bool   `json:"counted"`
	Problem string `json:"problem,omitempty"`
}

func share(part, whole int) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// Count is how much is used.
func Count(s *survey.Survey) Usage {
	addresses := find(s)
	out := Usage{Pools: pools(s, addresses), Nodes: nodes(s)}
	for _, a := range slices.SortedFunc(maps.Keys(addresses), netip.Addr.Compare) {
		out.Addresses = append(out.Addresses, measured(s, *addresses[a]))
	}
	slices.SortStableFunc(out.Addresses, func(a, b Address) int {
		return cmp.Or(cmp.Compare(b.Full(), a.Full()), cmp.Compare(b.Connections, a.Connections))
	})
	return out
}

// measured is an address with what nodes say of it.
func measured(s *survey.Survey, a Address) Address {
	for _, name := range slices.Sorted(maps.Keys(s.Inspected)) {
		for _, u := range s.Inspected[name].Usage {
			if u.Address != a.Address {
				continue
			}
			a.Counted = true
			a.Connections += u.Connections
			if u.Ports > a.Ports {
				a.Protocol, a.To, a.Ports = u.Protocol, u.To, u.Ports
			}
			a.Of = max(a.Of, u.Of)
		}
	}
	return a
}

func pools(s *survey.Survey, addresses map[netip.Addr]*Address) []Pool {
	var out []Pool
	for _, n := range s.Cluster.Subnets {
		if n.Network == "" {
			continue
		}
		p := Pool{Subnet: n.Name, Network: n.Network, Prefixes: n.Prefixes, Used: n.Used, Free: n.Free}
		by := map[string]int{}
		for _, a := range addresses {
			if a.Subnet == n.Name {
				by[a.by]++
			}
		}
		for who, count := range by {
			p.By = append(p.By, Share{who, count})
		}
		slices.SortFunc(p.By, func(a, b Share) int { return cmp.Or(cmp.Compare(b.Addresses, a.Addresses), cmp.Compare(a.Who, b.Who)) })
		out = append(out, p)
	}
	slices.SortStableFunc(out, func(a, b Pool) int { return cmp.Compare(b.Full(), a.Full()) })
	return out
}

func nodes(s *survey.Survey) []Node {
	gateways := map[string]int{}
	for _, r := range s.Logical.Routers {
		for _, p := range r.Ports {
			gateways[s.NodeOf(p.Holder)]++
		}
	}
	egress := map[string][]netip.Addr{}
	for _, e := range s.Cluster.EgressIPs {
		for text, node := range e.Held {
			if a, err := netip.ParseAddr(text); err == nil {
				egress[node] = append(egress[node], a)
			}
		}
	}
	var out []Node
	for _, n := range s.Cluster.Nodes {
		x := Node{Name: n.Name, Gateways: gateways[n.Name], Egress: egress[n.Name], Problem: s.Inspected[n.Name].Problem}
		slices.SortFunc(x.Egress, netip.Addr.Compare)
		for _, u := range s.Inspected[n.Name].Usage {
			x.Counted = true
			x.Connections += u.Connections
		}
		out = append(out, x)
	}
	slices.SortStableFunc(out, func(a, b Node) int {
		return cmp.Or(cmp.Compare(b.Connections, a.Connections), cmp.Compare(b.Gateways, a.Gateways))
	})
	return out
}
