// Package usage is the usage of a cluster's external networks: addresses of pools, connections and ports of addresses,
// and the load of nodes.
package usage

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/state"
)

// Usage is the usage of pools, addresses and nodes, each sorted by usage, most used first.
type Usage struct {
	Pools     []Pool    `json:"pools,omitempty"`
	Addresses []Address `json:"addresses,omitempty"`
	Nodes     []Node    `json:"nodes,omitempty"`
}

// Pool is the usage of the addresses in a Subnet of an external network.
type Pool struct {
	Subnet   string         `json:"subnet"`
	Network  string         `json:"network"`
	Prefixes []netip.Prefix `json:"prefixes"`
	Used     int            `json:"used"`
	Free     int            `json:"free"`
	// ByOwner counts the addresses of each project, and of routers, egress addresses and others.
	ByOwner []OwnerShare `json:"by,omitempty"`
}

// Utilization returns the used share of the pool, from 0 to 1.
func (p Pool) Utilization() float64 { return ratioOf(p.Used, p.Used+p.Free) }

// OwnerShare is the number of addresses of an owner.
type OwnerShare struct {
	Owner     string `json:"who"`
	Addresses int    `json:"addresses"`
}

// Address is the usage of an external address.
type Address struct {
	Address netip.Addr `json:"address"`
	Subnet  string     `json:"subnet"`
	// Owners are the objects that have the address. Nodes are the nodes that hold it.
	Owners []state.Ref `json:"who,omitempty"`
	Nodes  []string    `json:"nodes,omitempty"`
	// Counted is set if a node reported the number of connections.
	Counted     bool `json:"counted"`
	Connections int  `json:"connections"`
	// TopDestination is the destination with the most ports in use: PortsInUse of PortCapacity.
	Protocol       string         `json:"protocol,omitempty"`
	TopDestination netip.AddrPort `json:"to,omitzero"`
	PortsInUse     int            `json:"ports"`
	PortCapacity   int            `json:"of,omitempty"`

	ownerGroup string // the project
}

// Utilization returns the used share of the ports towards the top destination, from 0 to 1.
func (a Address) Utilization() float64 { return ratioOf(a.PortsInUse, a.PortCapacity) }

// Node is the load of a node.
type Node struct {
	Name string `json:"name"`
	// EgressAddresses are the egress addresses on the node, GatewayPorts is the number of router ports that it holds,
	// and Connections is the number of connections of the addresses that it holds.
	EgressAddresses []netip.Addr `json:"egress,omitempty"`
	GatewayPorts    int          `json:"gateways"`
	Connections     int          `json:"connections"`
	// Counted is set if the node reported its connections. Problem is the reason if it did not.
	Counted bool   `json:"counted"`
	Problem string `json:"problem,omitempty"`
}

func ratioOf(part, whole int) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// Summarize computes the usage from a survey.
func Summarize(s *clusterstate.State) Usage {
	addresses := findAddresses(s)
	out := Usage{Pools: summarizePools(s, addresses), Nodes: summarizeNodes(s)}
	for _, a := range slices.SortedFunc(maps.Keys(addresses), netip.Addr.Compare) {
		out.Addresses = append(out.Addresses, withInspectedUsage(s, *addresses[a]))
	}
	slices.SortStableFunc(out.Addresses, func(a, b Address) int {
		return cmp.Or(cmp.Compare(b.Utilization(), a.Utilization()), cmp.Compare(b.Connections, a.Connections))
	})
	return out
}

// withInspectedUsage adds the connections and ports that nodes reported for an address.
func withInspectedUsage(s *clusterstate.State, a Address) Address {
	for _, name := range slices.Sorted(maps.Keys(s.Inspected)) {
		for _, u := range s.Inspected[name].Usage {
			if u.Address != a.Address {
				continue
			}
			a.Counted = true
			a.Connections += u.Connections
			if u.Ports > a.PortsInUse {
				a.Protocol, a.TopDestination, a.PortsInUse = u.Protocol, u.To, u.Ports
			}
			a.PortCapacity = max(a.PortCapacity, u.Of)
		}
	}
	return a
}

func summarizePools(s *clusterstate.State, addresses map[netip.Addr]*Address) []Pool {
	var out []Pool
	for _, n := range s.Cluster.Subnets {
		if n.Network == "" {
			continue
		}
		p := Pool{Subnet: n.Name, Network: n.Network, Prefixes: n.Prefixes, Used: n.Used, Free: n.Free}
		by := map[string]int{}
		for _, a := range addresses {
			if a.Subnet == n.Name {
				by[a.ownerGroup]++
			}
		}
		for who, count := range by {
			p.ByOwner = append(p.ByOwner, OwnerShare{who, count})
		}
		slices.SortFunc(p.ByOwner, func(a, b OwnerShare) int {
			return cmp.Or(cmp.Compare(b.Addresses, a.Addresses), cmp.Compare(a.Owner, b.Owner))
		})
		out = append(out, p)
	}
	slices.SortStableFunc(out, func(a, b Pool) int { return cmp.Compare(b.Utilization(), a.Utilization()) })
	return out
}

func summarizeNodes(s *clusterstate.State) []Node {
	gateways := map[string]int{}
	for _, r := range s.Logical.Routers {
		for _, p := range r.Ports {
			gateways[s.NodeOfChassis(p.Holder)]++
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
		x := Node{
			Name:            n.Name,
			GatewayPorts:    gateways[n.Name],
			EgressAddresses: egress[n.Name],
			Problem:         s.Inspected[n.Name].Problem,
		}
		slices.SortFunc(x.EgressAddresses, netip.Addr.Compare)
		for _, u := range s.Inspected[n.Name].Usage {
			x.Counted = true
			x.Connections += u.Connections
		}
		out = append(out, x)
	}
	slices.SortStableFunc(out, func(a, b Node) int {
		return cmp.Or(cmp.Compare(b.Connections, a.Connections), cmp.Compare(b.GatewayPorts, a.GatewayPorts))
	})
	return out
}
