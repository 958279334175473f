package ui

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"

	"github.com/sallyport/sallyport/internal/insight/topology"
	"github.com/sallyport/sallyport/internal/model/state"
)

// overview is the graph reduced for the map of the page: one tile for each VPC, with as many entries as fit.
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

// tile is a VPC on the map.
type tile struct {
	Ref          state.Ref      `json:"ref"` // the project, or the VPC if it has no project
	Vpc          string         `json:"vpc"`
	Organization string         `json:"group,omitempty"`
	Name         string         `json:"name"`
	Management   bool           `json:"management,omitempty"`
	Namespaces   []string       `json:"namespaces"`
	Subnets      []string       `json:"subnets"`
	Prefixes     []netip.Prefix `json:"prefixes"`
	Networks     []string       `json:"networks"` // default network first
	Address      netip.Addr     `json:"address,omitzero"`
	Nodes        []string       `json:"nodes"` // nodes that hold its router ports
	Pods         int            `json:"pods"`
	Entries      []tileEntry    `json:"ways"`
	Omitted      int            `json:"more,omitempty"` // number of entries that do not fit
	Severity     string         `json:"severity,omitempty"`
	Problems     int            `json:"problems,omitempty"`
}

// tileEntry is a line of a tile: a floating IP, a load balancer or an egress policy.
type tileEntry struct {
	Ref      state.Ref  `json:"ref"`
	Address  netip.Addr `json:"address,omitzero"`
	Network  string     `json:"network,omitempty"`
	Ports    string     `json:"ports,omitempty"`
	To       string     `json:"to,omitempty"` // name of the only target
	Targets  int        `json:"targets"`
	Ready    int        `json:"ready"`
	Outbound bool       `json:"out,omitempty"` // an egress policy
	Severity string     `json:"severity,omitempty"`
}

// maxTileEntries limits the entries of a tile.
const maxTileEntries = 8

func newOverview(g *topology.Graph) overview {
	out := overview{
		Cluster: g.Cluster, Version: g.Version, Networks: g.Networks, Nodes: g.Nodes, Egress: g.EgressIPs,
		Gateways: g.Gateways, Problems: g.Problems,
	}
	for i := range g.Vpcs {
		out.Tiles = append(out.Tiles, newTile(&g.Vpcs[i]))
	}
	return out
}

func newTile(v *topology.Vpc) tile {
	t := tile{
		Ref: v.Ref, Vpc: v.Name, Name: v.Name, Management: v.Management, Namespaces: v.Namespaces, Networks: v.Networks,
		Address: v.SNATAddress, Pods: v.Pods,
		Nodes: []string{}, Subnets: []string{}, Prefixes: []netip.Prefix{}, Entries: []tileEntry{},
	}
	if v.Networks == nil {
		t.Networks = []string{}
	}
	if v.Project != nil {
		t.Ref, t.Organization, t.Name = *v.Project, v.Project.Namespace, v.Project.Name
	}
	for _, s := range v.Subnets {
		t.Subnets, t.Prefixes = append(t.Subnets, s.Name), append(t.Prefixes, s.Prefixes...)
	}
	for _, p := range v.Router.Ports {
		if p.Node != "" && !slices.Contains(t.Nodes, p.Node) {
			t.Nodes = append(t.Nodes, p.Node)
		}
	}
	t.addProblems(v.Problems)
	all := listTileEntries(v)
	for i := range v.EIps {
		t.addProblems(v.EIps[i].Problems)
	}
	for i := range all {
		t.addProblems(all[i].problems)
	}
	t.addEntries(all)
	return t
}

// addProblems counts problems and updates the highest severity.
func (t *tile) addProblems(problems []topology.Problem) {
	t.Problems += len(problems)
	if s := worstSeverity(problems); severityRank(s) > severityRank(t.Severity) {
		t.Severity = s
	}
}

func severityRank(severity string) int {
	return slices.Index([]string{"", "info", "warning", "error"}, severity)
}

func worstSeverity(problems []topology.Problem) (severity string) {
	for _, p := range problems {
		if severityRank(p.Severity) > severityRank(severity) {
			severity = p.Severity
		}
	}
	return severity
}

// tileCandidate is an entry that may be shown on the tile.
type tileCandidate struct {
	tileEntry
	problems []topology.Problem
}

func listTileEntries(v *topology.Vpc) (all []tileCandidate) {
	for _, f := range v.FIps {
		w := tileEntry{Ref: f.Ref, Address: f.Address, Network: f.Network, To: f.Target.Name}
		w.countTargets(f.Target)
		all = append(all, tileCandidate{w, f.Problems})
	}
	for _, s := range v.Services {
		w := tileEntry{Ref: s.Ref, Address: s.Address, Network: s.Network}
		if !w.Address.IsValid() && len(s.ExternalIPs) > 0 {
			w.Address = s.ExternalIPs[0]
		}
		for i, p := range s.Ports {
			if i > 0 {
				w.Ports += " "
			}
			w.Ports += strconv.Itoa(p.Port)
		}
		if len(s.Ports) > 0 {
			w.countTargets(s.Ports[0].Targets...)
		}
		all = append(all, tileCandidate{w, s.Problems})
	}
	for _, d := range slices.Concat(v.EgressRoutes, v.EgressServices) {
		all = append(all, tileCandidate{
			tileEntry{Ref: d.Ref, Address: d.Address, Network: d.Network, Outbound: true},
			d.Problems,
		})
	}
	return all
}

func (w *tileEntry) countTargets(targets ...topology.Target) {
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

// addEntries adds as many entries as fit, in their order. Entries with problems take precedence over others.
func (t *tile) addEntries(all []tileCandidate) {
	chosen := make([]int, len(all))
	for i := range all {
		chosen[i], all[i].Severity = i, worstSeverity(all[i].problems)
	}
	slices.SortStableFunc(chosen, func(a, b int) int {
		return cmp.Compare(severityRank(all[b].Severity), severityRank(all[a].Severity))
	})
	chosen = chosen[:min(len(chosen), maxTileEntries)]
	slices.Sort(chosen)
	for _, i := range chosen {
		t.Entries = append(t.Entries, all[i].tileEntry)
	}
	t.Omitted = len(all) - len(chosen)
}
