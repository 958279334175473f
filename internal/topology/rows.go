package topology

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	"github.com/sallyport/sallyport/internal/state"
)

// group is what a VPC has on one network: its port there, and what is reached or leaves by it.
type group struct {
	network string
	port    Port
	rows    []row
}

// row is one address of a VPC, and what it leads to: a line of text, or of a picture.
type row struct {
	sign     string // what it is, in a few letters
	ref      state.Ref
	network  string
	address  string
	name     string
	ports    string
	targets  []Target
	to       string // in words, where there are no targets
	problems []Problem
}

// Signs of rows.
const (
	signOut     = "SNAT"
	signFIp     = "FIp"
	signService = "LB"
	signEIp     = "EIp"
	signDivert  = "OUT"
	signEgress  = "EGR"
	signNodes   = "NODE"
)

// Signs are what the letters in pictures and text mean.
var signs = [][2]string{
	{signOut, "pods leave with this address"},
	{signFIp, "floating IP: one pod or virtual machine, both ways"},
	{signService, "load balancer: ports of an address, over pods"},
	{signEIp, "an address that is reserved, and not used"},
	{signDivert, "EgressRoute or EgressService: leaves by this network"},
	{signEgress, "EgressIP: some pods leave with it, by a node that holds it"},
	{signNodes, "an address that nodes answer for"},
	{"HTTP, TLS, …", "a route of the Gateway API"},
}

// groups are what a VPC has, by network: the default one first. What has no network comes last.
func (g *Graph) groups(v *Vpc) []group {
	var all []group
	for _, n := range v.Networks {
		all = append(all, group{network: n, port: v.port(n)})
	}
	for _, r := range g.rows(v) {
		at := slices.IndexFunc(all, func(x group) bool { return x.network == r.network })
		if at < 0 {
			all, at = append(all, group{network: r.network}), len(all)
		}
		all[at].rows = append(all[at].rows, r)
	}
	return all
}

// rows are the addresses of a VPC, each once, in the order of a picture.
func (g *Graph) rows(v *Vpc) []row {
	var all []row
	if v.Address.IsValid() {
		all = append(all, g.outRow(v))
	}
	for _, f := range v.FIps {
		r := row{sign: signFIp, ref: f.Ref, network: f.Network, address: text(f.Address), name: f.Ref.Name, targets: []Target{f.Target}}
		if !f.Target.Address.IsValid() {
			r.targets, r.to = nil, "nowhere: no "+f.Target.Name
		}
		r.problems = slices.Concat(f.Problems, v.eip(f.EIp).Problems)
		all = append(all, r)
	}
	for _, s := range v.Services {
		all = append(all, g.serviceRows(&s, v)...)
	}
	for _, e := range v.EIps {
		if len(e.Users) == 0 && e.Ref.Name != kubedcv1.DefaultGatewayEIp {
			r := row{sign: signEIp, ref: e.Ref, network: e.Network, address: text(e.Address), name: e.Ref.Name, to: "not used"}
			r.problems = e.Problems
			all = append(all, r)
		}
	}
	for _, d := range slices.Concat(v.Routes, v.Behind) {
		to := "pods behind the Service → anywhere"
		if d.Ref.Kind == "EgressRoute" {
			to = "pods that it selects → " + join(d.Destinations)
		}
		all = append(all, row{sign: signDivert, ref: d.Ref, network: d.Network, address: text(d.Address), name: d.Ref.Name, to: to, problems: d.Problems})
	}
	return append(append(all, g.egressRows(v)...), g.routeRows(v)...)
}

// outRow is the way out.
func (g *Graph) outRow(v *Vpc) row {
	r := row{sign: signOut, ref: v.Ref, network: v.Network, address: text(v.Address), name: "way out"}
	if v.Project != nil {
		r.ref = *v.Project
	}
	for _, e := range v.EIps {
		if e.Address == v.Address {
			r.name, r.problems = e.Ref.Name, e.Problems
		}
	}
	if inner := v.inner(); inner.IsValid() {
		r.to = fmt.Sprintf("pods of %s → anywhere", inner)
	}
	return r
}

func (g *Graph) egressRows(v *Vpc) (all []row) {
	for _, e := range g.Egress {
		if !slices.Contains(v.Egress, e.Ref.Name) {
			continue
		}
		for _, a := range e.Addresses {
			to := "held by nobody"
			if a.Node != "" {
				to = "held by " + a.Node
			}
			all = append(all, row{sign: signEgress, ref: e.Ref, network: a.Network, address: text(a.Address), name: e.Ref.Name, to: to, problems: e.Problems})
		}
	}
	return all
}

// routeRows are routes of the Gateway API to Backends of the VPC.
func (g *Graph) routeRows(v *Vpc) (all []row) {
	for _, r := range g.Routes {
		if !slices.Contains(v.Namespaces, r.Ref.Namespace) {
			continue
		}
		for _, ref := range r.Backends {
			out := row{sign: strings.TrimSuffix(r.Ref.Kind, "Route"), ref: r.Ref, network: v.Network, name: strings.Join(r.Hosts, ", "), problems: r.Problems}
			out.to = ref.Kind + " " + ref.Name
			for _, k := range g.Backends {
				if k.Ref == ref {
					out.to += " → " + strings.Join(k.Endpoints, ", ")
					out.problems = slices.Concat(out.problems, k.Problems)
				}
			}
			for _, s := range v.Services {
				if g.backendOf(ref).Service == s.Ref && s.Network != "" {
					out.network = s.Network
				}
			}
			all = append(all, out)
		}
	}
	return all
}

func (g *Graph) backendOf(ref state.Ref) Backend {
	for _, k := range g.Backends {
		if k.Ref == ref {
			return k
		}
	}
	return Backend{}
}

// serviceRows are the addresses of a Service: its own, and those that nodes answer for.
func (g *Graph) serviceRows(s *Service, v *Vpc) (all []row) {
	var ports []string
	var targets []Target
	for _, l := range s.Ports {
		ports = append(ports, l.port())
		for _, t := range l.Targets {
			if !slices.ContainsFunc(targets, func(o Target) bool { return o.Address == t.Address }) {
				targets = append(targets, t)
			}
		}
	}
	r := row{
		ref: s.Ref, network: s.Network, name: s.Ref.Name, ports: strings.Join(ports, " "), targets: targets,
		problems: slices.Concat(s.Problems, v.eip(s.EIp).Problems),
	}
	if len(targets) == 0 {
		r.to = "no backends"
	}
	if s.Type == "LoadBalancer" {
		r.sign, r.address = signService, text(s.Address)
		all = append(all, r)
	}
	for _, a := range s.Outside {
		r.sign, r.address, r.network = signNodes, text(a), g.networkOf(a)
		all = append(all, r)
	}
	return all
}

// port is the number of a port, with the protocol where it is not the usual one.
func (l Listener) port() string {
	if strings.EqualFold(l.Protocol, "tcp") {
		return fmt.Sprint(l.Port)
	}
	return fmt.Sprintf("%d/%s", l.Port, strings.ToLower(l.Protocol))
}

// networkOf is the external network that has an address.
func (g *Graph) networkOf(a netip.Addr) string {
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

// eip is the EIp of a name; the zero value when there is none.
func (v *Vpc) eip(name string) EIp {
	for _, e := range v.EIps {
		if e.Ref.Name == name {
			return e
		}
	}
	return EIp{}
}

// text is an address, or a dash when there is none.
func text(a netip.Addr) string {
	if !a.IsValid() {
		return "–"
	}
	return a.String()
}

func join[T fmt.Stringer](all []T) string {
	var words []string
	for _, x := range all {
		words = append(words, x.String())
	}
	return strings.Join(words, ", ")
}

// Trouble is a problem, and the object that it is at.
type Trouble struct {
	Ref state.Ref
	Problem
}

type troubles []Trouble

// note adds the problems that are more than worth knowing.
func (t *troubles) note(ref state.Ref, problems []Problem) {
	for _, p := range problems {
		if p.Severity != "info" {
			*t = append(*t, Trouble{ref, p})
		}
	}
}

// Wrong are the problems of everything in a VPC that are more than worth knowing.
func (v *Vpc) Wrong() []Trouble {
	var all troubles
	all.note(v.ref(), v.Problems)
	for _, s := range v.Subnets {
		all.note(s.Ref, s.Problems)
	}
	for _, e := range v.EIps {
		all.note(e.Ref, e.Problems)
	}
	for _, f := range v.FIps {
		all.note(f.Ref, f.Problems)
	}
	for _, s := range v.Services {
		all.note(s.Ref, s.Problems)
	}
	for _, d := range slices.Concat(v.Routes, v.Behind) {
		all.note(d.Ref, d.Problems)
	}
	return all
}

// Wrong are the problems of everything in the graph that are more than worth knowing: errors first.
func (g *Graph) Wrong() []Trouble {
	var all troubles
	all.note(state.Ref{Kind: "Cluster", Name: g.Cluster}, g.Problems)
	for _, n := range g.Networks {
		all.note(n.Ref, n.Problems)
	}
	for _, n := range g.Nodes {
		all.note(n.Ref, n.Problems)
	}
	for _, e := range g.Egress {
		all.note(e.Ref, e.Problems)
	}
	for _, w := range g.Gateways {
		all.note(w.Ref, w.Problems)
	}
	for _, r := range g.Routes {
		all.note(r.Ref, r.Problems)
	}
	for _, k := range g.Backends {
		all.note(k.Ref, k.Problems)
	}
	for i := range g.Vpcs {
		all = append(all, g.Vpcs[i].Wrong()...)
	}
	slices.SortStableFunc(all, func(a, b Trouble) int { return strings.Compare(a.Severity, b.Severity) }) // error, warning
	return all
}

// condensate is a problem, and how many more there are of its code.
type condensate struct {
	Trouble
	more int
}

// condensed are problems as one looks at them: each, or where there are many, one of each code.
func condensed(all []Trouble) []condensate {
	const most = 12
	var out []condensate
	for _, t := range all {
		at := slices.IndexFunc(out, func(c condensate) bool { return c.Code == t.Code && c.Severity == t.Severity })
		if len(all) > most && at >= 0 {
			out[at].more++
			continue
		}
		out = append(out, condensate{Trouble: t})
	}
	return out
}

// ref is the object that a VPC stands for: its Project, where it is one's.
func (v *Vpc) ref() state.Ref {
	if v.Project != nil {
		return *v.Project
	}
	return v.Ref
}

// leaving are the VPCs that leave by a network, the worst first. An empty name: those that leave by none.
func (g *Graph) leaving(network string) (all []*Vpc) {
	for i := range g.Vpcs {
		v := &g.Vpcs[i]
		known := slices.ContainsFunc(g.Networks, func(n Network) bool { return n.Name == v.Network })
		if known && v.Network == network || !known && network == "" {
			all = append(all, v)
		}
	}
	slices.SortStableFunc(all, func(a, b *Vpc) int {
		return cmp.Or(
			cmp.Compare(rank(b.Management), rank(a.Management)), cmp.Compare(len(b.Wrong()), len(a.Wrong())), cmp.Compare(a.Name, b.Name))
	})
	return all
}
