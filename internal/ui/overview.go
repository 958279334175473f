package ui

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"

	"github.com/sallyport/sallyport/internal/state"
	"github.com/sallyport/sallyport/internal/topology"
)

// overview is a graph folded for the map: a tile for each VPC, with as much of it as fits on one.
type overview struct {
	Cluster  string              `json:"cluster"`
	Version  string              `json:"version"`
	Networks []topology.Network  `json:"networks"`
	Nodes    []topology.Node     `json:"nodes"`
	Egress   []topology.EgressIP `json:"egressIPs"`
	Gateways []topology.Gateway  `json:"gateways"`
	Problems []topology.Problem  `json:"problems"`
	Tiles    []tile              `json:"tiles"`
}

// tile is a VPC.
type tile struct {
	Ref        state.Ref      `json:"ref"` // the project, or the VPC where it is none's
	Vpc        string         `json:"vpc"`
	Group      string         `json:"group,omitempty"` // the organization
	Name       string         `json:"name"`
	Management bool           `json:"management,omitempty"`
	Namespaces []string       `json:"namespaces"`
	Subnets    []string       `json:"subnets"`
	Prefixes   []netip.Prefix `json:"prefixes"`
	Networks   []string       `json:"networks"` // the default first
	Address    netip.Addr     `json:"address,omitzero"`
	Nodes      []string       `json:"nodes"` // that hold its ports outside
	Pods       int            `json:"pods"`
	Ways       []way          `json:"ways"`
	More       int            `json:"more,omitempty"` // ways that do not fit
	Severity   string         `json:"severity,omitempty"`
	Problems   int            `json:"problems,omitempty"`
}

// way is a way in or out: a floating IP, a load balancer, a diversion.
type way struct {
	Ref      state.Ref  `json:"ref"`
	Address  netip.Addr `json:"address,omitzero"`
	Network  string     `json:"network,omitempty"`
	Ports    string     `json:"ports,omitempty"`
	To       string     `json:"to,omitempty"` // one target by name
	Targets  int        `json:"targets"`
	Ready    int        `json:"ready"`
	Out      bool       `json:"out,omitempty"` // packets leave by it
	Severity string     `json:"severity,omitempty"`
}

// fits is how many ways are on a tile.
const fits = 8

func newOverview(g *topology.Graph) overview {
	out := overview{
		Cluster: g.Cluster, Version: g.Version, Networks: g.Networks, Nodes: g.Nodes, Egress: g.Egress, Gateways: g.Gateways, Problems: g.Problems,
	}
	for i := range g.Vpcs {
		out.Tiles = append(out.Tiles, newTile(&g.Vpcs[i]))
	}
	return out
}

func newTile(v *topology.Vpc) tile {
	t := tile{
		Ref: v.Ref, Vpc: v.Name, Name: v.Name, Management: v.Management, Namespaces: v.Namespaces, Networks: v.Networks, Address: v.Address, Pods: v.Pods,
		Nodes: []string{}, Subnets: []string{}, Prefixes: []netip.Prefix{}, Ways: []way{},
	}
	if v.Networks == nil {
		t.Networks = []string{}
	}
	if v.Project != nil {
		t.Ref, t.Group, t.Name = *v.Project, v.Project.Namespace, v.Project.Name
	}
	for _, s := range v.Subnets {
		t.Subnets, t.Prefixes = append(t.Subnets, s.Name), append(t.Prefixes, s.Prefixes...)
	}
	for _, p := range v.Router.Ports {
		if p.Node != "" && !slices.Contains(t.Nodes, p.Node) {
			t.Nodes = append(t.Nodes, p.Node)
		}
	}
	t.judge(v.Problems)
	all := ways(v)
	for i := range v.EIps {
		t.judge(v.EIps[i].Problems)
	}
	for i := range all {
		t.judge(all[i].problems)
	}
	t.add(all)
	return t
}

// judge counts what is wrong, and keeps the worst.
func (t *tile) judge(problems []topology.Problem) {
	t.Problems += len(problems)
	if s := worstProblem(problems); rank(s) > rank(t.Severity) {
		t.Severity = s
	}
}

func rank(severity string) int {
	return slices.Index([]string{"", "info", "warning", "error"}, severity)
}

func worstProblem(problems []topology.Problem) (severity string) {
	for _, p := range problems {
		if rank(p.Severity) > rank(severity) {
			severity = p.Severity
		}
	}
	return severity
}

// candidate is a way that may be on the tile.
type candidate struct {
	way
	problems []topology.Problem
}

func ways(v *topology.Vpc) (all []candidate) {
	for _, f := range v.FIps {
		w := way{Ref: f.Ref, Address: f.Address, Network: f.Network, To: f.Target.Name}
		w.count(f.Target)
		all = append(all, candidate{w, f.Problems})
	}
	for _, s := range v.Services {
		w := way{Ref: s.Ref, Address: s.Address, Network: s.Network}
		if !w.Address.IsValid() && len(s.Outside) > 0 {
			w.Address = s.Outside[0]
		}
		for i, p := range s.Ports {
			if i > 0 {
				w.Ports += " "
			}
			w.Ports += strconv.Itoa(p.Port)
		}
		if len(s.Ports) > 0 {
			w.count(s.Ports[0].Targets...)
		}
		all = append(all, candidate{w, s.Problems})
	}
	for _, d := range slices.Concat(v.Routes, v.Behind) {
		all = append(all, candidate{way{Ref: d.Ref, Address: d.Address, Network: d.Network, Out: true}, d.Problems})
	}
	return all
}

func (w *way) count(targets ...topology.Target) {
	for _, t := range targets {
		if !t.Address.IsValid() {
			continue
		}
		w.Targets++
		if t.Ready {
			w.Ready++
		}
	}
}

// add puts as many on the tile as fit, in their order; those that something is wrong with have a right to be among them.
func (t *tile) add(all []candidate) {
	chosen := make([]int, len(all))
	for i := range all {
		chosen[i], all[i].Severity = i, worstProblem(all[i].problems)
	}
	slices.SortStableFunc(chosen, func(a, b int) int { return cmp.Compare(rank(all[b].Severity), rank(all[a].Severity)) })
	chosen = chosen[:min(len(chosen), fits)]
	slices.Sort(chosen)
	for _, i := range chosen {
		t.Ways = append(t.Ways, all[i].way)
	}
	t.More = len(all) - len(chosen)
}
