package topology

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	"github.com/sallyport/sallyport/internal/model/state"
)

// networkGroup is a network of a VPC: the router port on it, and the addresses.
type networkGroup struct {
	network string
	port    RouterPort
	rows    []addressRow
}

// addressRow is an address of a VPC with its targets: a line of text or of a picture.
type addressRow struct {
	tag        string // kind of address, one of the constants below
	ref        state.Ref
	network    string
	address    string
	name       string
	ports      string
	targets    []Target
	targetText string // shown if there are no targets
	problems   []Problem
}

// Tags of rows.
const (
	tagSNAT         = "SNAT"
	tagFIP          = "FIp"
	tagLoadBalancer = "LB"
	tagReservedEIP  = "EIp"
	tagEgressPolicy = "OUT"
	tagEgressIP     = "EGR"
	tagNodeAddress  = "NODE"
)

// tagLegend explains the tags.
var tagLegend = [][2]string{
	{tagSNAT, "pods leave with this address"},
	{tagFIP, "floating IP: one pod or virtual machine, both ways"},
	{tagLoadBalancer, "load balancer: ports of an address, over pods"},
	{tagReservedEIP, "an address that is reserved, and not used"},
	{tagEgressPolicy, "EgressRoute or EgressService: leaves by this network"},
	{tagEgressIP, "EgressIP: some pods leave with it, by a node that holds it"},
	{tagNodeAddress, "an address that nodes answer for"},
	{"HTTP, TLS, …", "a route of the Gateway API"},
}

// groupByNetwork groups the addresses of a VPC by network: the default first, addresses without a network last.
func (g *Graph) groupByNetwork(v *Vpc) []networkGroup {
	var all []networkGroup
	for _, n := range v.Networks {
		all = append(all, networkGroup{network: n, port: v.externalPort(n)})
	}
	for _, r := range g.buildAddressRows(v) {
		at := slices.IndexFunc(all, func(x networkGroup) bool { return x.network == r.network })
		if at < 0 {
			all, at = append(all, networkGroup{network: r.network}), len(all)
		}
		all[at].rows = append(all[at].rows, r)
	}
	return all
}

// buildAddressRows returns the addresses of a VPC, each once, in the order of the picture.
func (g *Graph) buildAddressRows(v *Vpc) []addressRow {
	var all []addressRow
	if v.SNATAddress.IsValid() {
		all = append(all, g.buildSNATRow(v))
	}
	for _, f := range v.FIps {
		r := addressRow{
			tag:     tagFIP,
			ref:     f.Ref,
			network: f.Network,
			address: formatAddrOrDash(f.Address),
			name:    f.Ref.Name,
			targets: []Target{f.Target},
		}
		if !f.Target.Address.IsValid() {
			r.targets, r.targetText = nil, "nowhere: no "+f.Target.Name
		}
		r.problems = slices.Concat(f.Problems, v.findEIP(f.EIp).Problems)
		all = append(all, r)
	}
	for _, s := range v.Services {
		all = append(all, g.buildServiceRows(&s, v)...)
	}
	for _, e := range v.EIps {
		if len(e.UsedBy) == 0 && e.Ref.Name != kubedcv1.DefaultGatewayEIp {
			r := addressRow{
				tag:        tagReservedEIP,
				ref:        e.Ref,
				network:    e.Network,
				address:    formatAddrOrDash(e.Address),
				name:       e.Ref.Name,
				targetText: "not used",
			}
			r.problems = e.Problems
			all = append(all, r)
		}
	}
	for _, d := range slices.Concat(v.EgressRoutes, v.EgressServices) {
		to := "pods behind the Service → anywhere"
		if d.Ref.Kind == "EgressRoute" {
			to = "pods that it selects → " + joinStrings(d.Destinations)
		}
		all = append(all, addressRow{
			tag:        tagEgressPolicy,
			ref:        d.Ref,
			network:    d.Network,
			address:    formatAddrOrDash(d.Address),
			name:       d.Ref.Name,
			targetText: to,
			problems:   d.Problems,
		})
	}
	return append(append(all, g.buildEgressIPRows(v)...), g.buildRouteRows(v)...)
}

// buildSNATRow returns the row of the default egress.
func (g *Graph) buildSNATRow(v *Vpc) addressRow {
	r := addressRow{
		tag: tagSNAT, ref: v.Ref, network: v.EgressNetwork, address: formatAddrOrDash(v.SNATAddress), name: "way out",
	}
	if v.Project != nil {
		r.ref = *v.Project
	}
	for _, e := range v.EIps {
		if e.Address == v.SNATAddress {
			r.name, r.problems = e.Ref.Name, e.Problems
		}
	}
	if inner := v.firstPodPrefix(); inner.IsValid() {
		r.targetText = fmt.Sprintf("pods of %s → anywhere", inner)
	}
	return r
}

func (g *Graph) buildEgressIPRows(v *Vpc) (all []addressRow) {
	for _, e := range g.EgressIPs {
		if !slices.Contains(v.EgressIPs, e.Ref.Name) {
			continue
		}
		for _, a := range e.Addresses {
			to := "held by nobody"
			if a.Node != "" {
				to = "held by " + a.Node
			}
			all = append(all, addressRow{
				tag:        tagEgressIP,
				ref:        e.Ref,
				network:    a.Network,
				address:    formatAddrOrDash(a.Address),
				name:       e.Ref.Name,
				targetText: to,
				problems:   e.Problems,
			})
		}
	}
	return all
}

// buildRouteRows returns the routes of the Gateway API to Backends of the VPC.
func (g *Graph) buildRouteRows(v *Vpc) (all []addressRow) {
	for _, r := range g.Routes {
		if !slices.Contains(v.Namespaces, r.Ref.Namespace) {
			continue
		}
		for _, ref := range r.Backends {
			out := addressRow{
				tag:      strings.TrimSuffix(r.Ref.Kind, "Route"),
				ref:      r.Ref,
				network:  v.EgressNetwork,
				name:     strings.Join(r.Hosts, ", "),
				problems: r.Problems,
			}
			out.targetText = ref.Kind + " " + ref.Name
			for _, k := range g.Backends {
				if k.Ref == ref {
					out.targetText += " → " + strings.Join(k.Endpoints, ", ")
					out.problems = slices.Concat(out.problems, k.Problems)
				}
			}
			for _, s := range v.Services {
				if g.findBackend(ref).Service == s.Ref && s.Network != "" {
					out.network = s.Network
				}
			}
			all = append(all, out)
		}
	}
	return all
}

func (g *Graph) findBackend(ref state.Ref) Backend {
	for _, k := range g.Backends {
		if k.Ref == ref {
			return k
		}
	}
	return Backend{}
}

// buildServiceRows returns the addresses of a Service: its external address and its external IPs.
func (g *Graph) buildServiceRows(s *Service, v *Vpc) (all []addressRow) {
	var ports []string
	var targets []Target
	for _, l := range s.Ports {
		ports = append(ports, l.formatPort())
		for _, t := range l.Targets {
			if !slices.ContainsFunc(targets, func(o Target) bool { return o.Address == t.Address }) {
				targets = append(targets, t)
			}
		}
	}
	r := addressRow{
		ref: s.Ref, network: s.Network, name: s.Ref.Name, ports: strings.Join(ports, " "), targets: targets,
		problems: slices.Concat(s.Problems, v.findEIP(s.EIp).Problems),
	}
	if len(targets) == 0 {
		r.targetText = "no backends"
	}
	if s.Type == "LoadBalancer" {
		r.tag, r.address = tagLoadBalancer, formatAddrOrDash(s.Address)
		all = append(all, r)
	}
	for _, a := range s.ExternalIPs {
		r.tag, r.address, r.network = tagNodeAddress, formatAddrOrDash(a), g.networkOfAddress(a)
		all = append(all, r)
	}
	return all
}

// formatPort returns the number of a port, with the protocol if it is not TCP.
func (l ServicePort) formatPort() string {
	if strings.EqualFold(l.Protocol, "tcp") {
		return fmt.Sprint(l.Port)
	}
	return fmt.Sprintf("%d/%s", l.Port, strings.ToLower(l.Protocol))
}

// networkOfAddress returns the external network that contains an address.
func (g *Graph) networkOfAddress(a netip.Addr) string {
	has := func(p netip.Prefix) bool { return p.Contains(a) }
	for _, n := range g.Networks {
		if n.Uplink != nil && slices.ContainsFunc(n.Uplink.Addresses, has) {
			return n.Name
		}
		for _, s := range n.Subnets {
			if slices.ContainsFunc(s.Prefixes, has) {
				return n.Name
			}
		}
	}
	return ""
}

// findEIP returns the EIp of this name, or the zero value.
func (v *Vpc) findEIP(name string) EIp {
	for _, e := range v.EIps {
		if e.Ref.Name == name {
			return e
		}
	}
	return EIp{}
}

// formatAddrOrDash returns an address as text, or a dash.
func formatAddrOrDash(a netip.Addr) string {
	if !a.IsValid() {
		return "–"
	}
	return a.String()
}

func joinStrings[T fmt.Stringer](all []T) string {
	var words []string
	for _, x := range all {
		words = append(words, x.String())
	}
	return strings.Join(words, ", ")
}

// ObjectProblem is a problem with its object.
type ObjectProblem struct {
	Ref state.Ref
	Problem
}

type objectProblems []ObjectProblem

// appendSevere appends warnings and errors.
func (t *objectProblems) appendSevere(ref state.Ref, problems []Problem) {
	for _, p := range problems {
		if p.Severity != "info" {
			*t = append(*t, ObjectProblem{ref, p})
		}
	}
}

// SevereProblems returns the warnings and errors of everything in a VPC.
func (v *Vpc) SevereProblems() []ObjectProblem {
	var all objectProblems
	all.appendSevere(v.projectOrVPCRef(), v.Problems)
	for _, s := range v.Subnets {
		all.appendSevere(s.Ref, s.Problems)
	}
	for _, e := range v.EIps {
		all.appendSevere(e.Ref, e.Problems)
	}
	for _, f := range v.FIps {
		all.appendSevere(f.Ref, f.Problems)
	}
	for _, s := range v.Services {
		all.appendSevere(s.Ref, s.Problems)
	}
	for _, d := range slices.Concat(v.EgressRoutes, v.EgressServices) {
		all.appendSevere(d.Ref, d.Problems)
	}
	return all
}

// SevereProblems returns the warnings and errors of everything in the graph, errors first.
func (g *Graph) SevereProblems() []ObjectProblem {
	var all objectProblems
	all.appendSevere(state.Ref{Kind: "Cluster", Name: g.Cluster}, g.Problems)
	for _, n := range g.Networks {
		all.appendSevere(n.Ref, n.Problems)
	}
	for _, n := range g.Nodes {
		all.appendSevere(n.Ref, n.Problems)
	}
	for _, e := range g.EgressIPs {
		all.appendSevere(e.Ref, e.Problems)
	}
	for _, w := range g.Gateways {
		all.appendSevere(w.Ref, w.Problems)
	}
	for _, r := range g.Routes {
		all.appendSevere(r.Ref, r.Problems)
	}
	for _, k := range g.Backends {
		all.appendSevere(k.Ref, k.Problems)
	}
	for i := range g.Vpcs {
		all = append(all, g.Vpcs[i].SevereProblems()...)
	}
	// "error" sorts before "warning"
	slices.SortStableFunc(all, func(a, b ObjectProblem) int { return strings.Compare(a.Severity, b.Severity) })
	return all
}

// condensedProblem is a problem with the number of omitted problems of the same code.
type condensedProblem struct {
	ObjectProblem
	more int
}

// condenseProblems returns all problems or, if there are many, one of each code and severity.
func condenseProblems(all []ObjectProblem) []condensedProblem {
	const most = 12
	var out []condensedProblem
	for _, t := range all {
		at := slices.IndexFunc(out, func(c condensedProblem) bool {
			return c.Code == t.Code && c.Severity == t.Severity
		})
		if len(all) > most && at >= 0 {
			out[at].more++
			continue
		}
		out = append(out, condensedProblem{ObjectProblem: t})
	}
	return out
}

// projectOrVPCRef returns the Project of a VPC, or the VPC if it has none.
func (v *Vpc) projectOrVPCRef() state.Ref {
	if v.Project != nil {
		return *v.Project
	}
	return v.Ref
}

// vpcsByEgressNetwork returns the VPCs with this egress network, or without any if network is empty: the management VPC
// first, then by number of problems.
func (g *Graph) vpcsByEgressNetwork(network string) (all []*Vpc) {
	for i := range g.Vpcs {
		v := &g.Vpcs[i]
		known := slices.ContainsFunc(g.Networks, func(n Network) bool { return n.Name == v.EgressNetwork })
		if known && v.EgressNetwork == network || !known && network == "" {
			all = append(all, v)
		}
	}
	slices.SortStableFunc(all, func(a, b *Vpc) int {
		return cmp.Or(
			cmp.Compare(boolToInt(b.Management), boolToInt(a.Management)),
			cmp.Compare(len(b.SevereProblems()), len(a.SevereProblems())), cmp.Compare(a.Name, b.Name))
	})
	return all
}
