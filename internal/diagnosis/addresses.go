package diagnosis

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/kubeovn"
	"github.com/sallyport/sallyport/internal/logical"
	"github.com/sallyport/sallyport/internal/state"
	"github.com/sallyport/sallyport/internal/survey"
)

// pools finds networks that have few addresses left, or none.
func (p *patient) pools() {
	for _, n := range p.Cluster.Networks {
		about := []state.Ref{n.Ref}
		free, used := 0, 0
		for _, name := range n.Subnets {
			if s := p.subnets[name]; s != nil && s.Ready {
				about = append(about, s.Ref)
				free, used = free+s.Free, used+s.Used
			}
		}
		total := free + used
		if total == 0 || free >= max(2, total/10) {
			continue
		}
		f := p.report(PoolLow, distinct(about...), "network %s has %d of %d addresses left", n.Name, free, total)
		if free == 0 {
			f.Message = fmt.Sprintf("network %s has no address left; all %d are in use", n.Name, total)
		}
	}
}

// claim is something in OVN that has an external address.
type claim struct {
	address  netip.Addr
	router   *logical.Router
	what     string
	owner    state.Ref
	all      bool           // it takes all ports
	port     netip.AddrPort // that it takes
	protocol string         // of the port
	mac      string         // that answers for it; empty: that of the router's port
	reserved bool           // OVN answers only who has an address of the same network, and nodes ask without one
}

// claims are everything in OVN that has an external address, by address.
func (p *patient) claims() map[netip.Addr][]claim {
	out := map[netip.Addr][]claim{}
	for i := range p.Logical.Routers {
		for _, c := range claimsOf(&p.Logical.Routers[i]) {
			if p.Cluster.Pool(c.address) != nil {
				out[c.address] = append(out[c.address], c)
			}
		}
	}
	return out
}

// claimsOf are the addresses of a router.
func claimsOf(r *logical.Router) (out []claim) {
	for _, port := range r.Ports {
		for _, n := range port.Networks {
			out = append(out, claim{address: n.Addr(), router: r, what: "port " + port.Name, owner: port.IDs.Owner(), reserved: true})
		}
	}
	for _, n := range r.NATs {
		out = append(out, claim{
			address: n.External, router: r, what: fmt.Sprintf("the %s of %s", n.Type, n.Logical), owner: n.IDs.Owner(), all: n.Type != "snat",
			mac: n.ExternalMAC,
		})
	}
	for _, b := range r.Balancers {
		for _, v := range b.VIPs {
			out = append(out, claim{
				address: v.Address.Addr(), router: r, what: "load balancer " + b.Name, owner: b.IDs.Owner(), port: v.Address,
				protocol: cmp.Or(b.Protocol, "tcp"),
			})
		}
	}
	return out
}

// clashes finds external addresses that two things have.
func (p *patient) clashes() {
	if p.blind(survey.Northbound) {
		return
	}
	claims := p.claims()
	for _, a := range sortedAddresses(claims) {
		list := claims[a]
		for i := range list {
			for k := i + 1; k < len(list); k++ {
				if collide(list[i], list[k]) {
					p.clash(a, list[i], list[k])
				}
			}
		}
	}
	for _, e := range p.Cluster.EIps {
		if s := p.Cluster.Pool(e.Address); s != nil && slices.Contains(s.Gateways, e.Address) {
			p.report(AddressClash, distinct(append([]state.Ref{e.Ref}, p.wire(s)...)...), "%s has %s, which is the gateway of network %s", e.Ref,
				e.Address, s.Network)
		}
	}
	p.nodeClashes(claims)
}

// collide says whether two things can't have one address: on two routers never, on one when both take the same port.
func collide(a, b claim) bool {
	switch {
	case a.router != b.router:
		return true
	case a.all && b.all:
		return true
	case a.port.IsValid() && b.port.IsValid():
		return a.port == b.port && a.protocol == b.protocol
	}
	return a.all && b.port.IsValid() || b.all && a.port.IsValid()
}

func (p *patient) clash(address netip.Addr, a, b claim) {
	about := slices.Concat(p.holders(address), []state.Ref{a.owner, b.owner}, p.tenants(a.router.Name), p.tenants(b.router.Name))
	p.report(AddressClash, distinct(about...), "%s is had by %s on router %s and by %s on router %s", address, a.what, a.router.Name, b.what, b.router.Name)
}

// nodeClashes finds external addresses that a node has as well.
func (p *patient) nodeClashes(claims map[netip.Addr][]claim) {
	for _, n := range p.Cluster.Nodes {
		for _, a := range n.Addresses {
			if len(claims[a]) > 0 {
				c := claims[a][0]
				p.report(AddressClash, distinct(append(p.holders(a), n.Ref, c.owner)...), "%s is had by node %s and by %s on router %s", a, n.Name,
					c.what, c.router.Name)
			}
		}
	}
}

// overlaps finds prefixes that overlap where they must not.
func (p *patient) overlaps() {
	for i := range p.Cluster.Projects {
		x := &p.Cluster.Projects[i]
		for _, prefix := range x.Prefixes {
			p.overlapsOf(x, prefix)
		}
	}
	for i := range p.Cluster.Subnets {
		for k := i + 1; k < len(p.Cluster.Subnets); k++ {
			a, b := &p.Cluster.Subnets[i], &p.Cluster.Subnets[k]
			together := a.Vpc == b.Vpc && a.Vpc != "" && a.Network == "" && b.Network == "" || a.Network != "" && b.Network != ""
			if together && overlap(a.Prefixes, b.Prefixes) {
				p.report(Overlap, distinct(append(p.wire(a), p.wire(b)...)...), "Subnets %s (%s) and %s (%s) overlap", a.Name, list(a.Prefixes),
					b.Name, list(b.Prefixes))
			}
		}
	}
}

// overlapsOf finds what a prefix of a project overlaps with: its pods do not reach hosts there. On networks that it uses, nobody there
// reaches them either.
func (p *patient) overlapsOf(x *survey.Project, prefix netip.Prefix) {
	mine := []netip.Prefix{prefix}
	for _, s := range p.externals() {
		if !overlap(mine, s.Prefixes) {
			continue
		}
		f := p.report(Overlap, distinct(append([]state.Ref{x.Ref, survey.RouterRef(x.Shard)}, p.wire(s)...)...),
			"prefix %s of %s overlaps with %s of external network %s", prefix, x.Ref, list(s.Prefixes), s.Network)
		if !p.attached(x.Shard, s.Name) {
			f.Severity = Warning
		}
	}
	for _, s := range p.Cluster.Subnets {
		if s.Vpc == kubeovn.ManagementVpc && s.Network == "" && overlap(mine, s.Prefixes) {
			p.report(Overlap, []state.Ref{x.Ref, survey.RouterRef(x.Shard), s.Ref}, "prefix %s of %s overlaps with %s of Subnet %s of Kube-OVN's own VPC",
				prefix, x.Ref, list(s.Prefixes), s.Name).Severity = Warning
		}
	}
	for _, n := range p.Cluster.Nodes {
		if slices.ContainsFunc(n.Addresses, prefix.Contains) {
			f := p.report(Overlap, []state.Ref{x.Ref, survey.RouterRef(x.Shard)}, "prefix %s of %s has the address of node %s", prefix, x.Ref, n.Name)
			f.Severity = Warning
			break
		}
	}
	if overlap(mine, p.Cluster.Inside) {
		p.report(Overlap, []state.Ref{x.Ref, survey.RouterRef(x.Shard)}, "prefix %s of %s overlaps with the cluster addresses of Services (%s)",
			prefix, x.Ref, list(p.Cluster.Inside)).Severity = Warning
	}
}

// attached says whether a VPC is on an external subnet.
func (p *patient) attached(vpc, subnet string) bool {
	return slices.ContainsFunc(p.Cluster.Vpcs, func(v survey.Vpc) bool { return v.Name == vpc && slices.Contains(v.External, subnet) })
}

func overlap(a, b []netip.Prefix) bool {
	return slices.ContainsFunc(a, func(x netip.Prefix) bool { return slices.ContainsFunc(b, x.Overlaps) })
}

func list(prefixes []netip.Prefix) string {
	var out []string
	for _, p := range prefixes {
		out = append(out, p.String())
	}
	return strings.Join(out, ", ")
}
