package ui

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"

	"github.com/sallyport/sallyport/internal/insight/topology"
	"github.com/sallyport/sallyport/internal/model/state"
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
	Ref          state.Ref      `json:"ref"` // the project, or the VPC where it is none's
	Vpc          string         `json:"vpc"`
	Organization string         `json:"group,omitempty"` // the organization
	Name         string         `json:"name"`
	Management   bool           `json:"management,omitempty"`
	Namespaces   []string       `json:"namespaces"`
	Subnets      []string       `json:"subnets"`
	Prefixes     []netip.Prefix `json:"prefixes"`
	Networks     []string       `json:"networks"` // the default first
	Address      netip.Addr     `json:"address,omitzero"`
	Nodes        []string       `json:"nodes"` // that hold its ports outside
	Pods         int            `json:"pods"`
	Entries      []tileEntry    `json:"ways"`
	Omitted      int            `json:"more,omitempty"` // ways that do not fit
	Severity     string         `json:"severity,omitempty"`
	Problems     int            `json:"problems,omitempty"`
}

// tileEntry is a way in or out: a floating IP, a load balancer, a diversion.
type tileEntry struct {
	Ref      state.Ref  `json:"ref"`
	Address  netip.Addr `json:"address,omitzero"`
	Network  string     `json:"network,omitempty"`
	Ports    string     `json:"ports,omitempty"`
	To       string     `json:"to,omitempty"` // one target by name
	Targets  int        `json:"targets"`
	Ready    int        `json:"ready"`
	Outbound bool       `json:"out,omitempty"` // packets leave by it
	Severity string     `json:"severity,omitempty"`
}

// maxTileEntries is how many ways are on a tile.
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

// addProblems counts what is wrong, and keeps the worst.
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

// tileCandidate is a way that may be on the tile.
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

// addEntries puts as many on the tile as fit, in their order; those that something is wrong with have a right to be
// among them.
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
