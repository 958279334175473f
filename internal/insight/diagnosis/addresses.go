package diagnosis

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/logical"
	"github.com/sallyport/sallyport/internal/model/state"
)

// checkDefaultNetworks finds several networks that are labelled as the default.
func (p *checker) checkDefaultNetworks() {
	var refs []state.Ref
	var names []string
	for _, n := range p.Cluster.Networks {
		if n.Default {
			refs, names = append(refs, n.Ref), append(names, n.String())
		}
	}
	if len(refs) > 1 {
		p.report(SeveralDefaults, refs, "%d networks are labelled as the default: %s", len(refs), joinLimited(names, 4))
	}
}

// checkAddressPools finds networks with few free addresses, or none.
func (p *checker) checkAddressPools() {
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
		f := p.report(PoolLow, uniqueRefs(about...), "network %s has %d of %d addresses left", n.Name, free, total)
		if free == 0 {
			f.Message = fmt.Sprintf("network %s has no address left; all %d are in use", n.Name, total)
		}
	}
}

// addressClaim is a row in OVN that has an external address.
type addressClaim struct {
	address      netip.Addr
	router       *logical.Router
	description  string
	owner        state.Ref
	allPorts     bool           // it uses all ports
	port         netip.AddrPort // the only port it uses
	protocol     string         // of the port
	mac          string         // the MAC address that answers for it; empty: that of the router port
	localARPOnly bool           // OVN only answers requests with a source in the network; nodes send them without one
}

// collectAddressClaims returns everything in OVN that has an external address, by address.
func (p *checker) collectAddressClaims() map[netip.Addr][]addressClaim {
	out := map[netip.Addr][]addressClaim{}
	for i := range p.Logical.Routers {
		for _, c := range routerAddressClaims(&p.Logical.Routers[i]) {
			if p.Cluster.ExternalSubnetAt(c.address) != nil {
				out[c.address] = append(out[c.address], c)
			}
		}
	}
	return out
}

// routerAddressClaims returns the addresses of a router.
func routerAddressClaims(r *logical.Router) (out []addressClaim) {
	for _, port := range r.Ports {
		for _, n := range port.Networks {
			out = append(out, addressClaim{
				address:      n.Addr(),
				router:       r,
				description:  "port " + port.Name,
				owner:        port.IDs.Owner(),
				localARPOnly: true,
			})
		}
	}
	for _, n := range r.NATs {
		out = append(out, addressClaim{
			address: n.External, router: r, description: fmt.Sprintf("the %s of %s", n.Type, n.Logical),
			owner: n.IDs.Owner(), allPorts: n.Type != "snat",
			mac: n.ExternalMAC,
		})
	}
	for _, b := range r.Balancers {
		for _, v := range b.VIPs {
			out = append(out, addressClaim{
				address: v.Address.Addr(), router: r, description: "load balancer " + b.Name, owner: b.VIPOwner(v.Address),
				port:     v.Address,
				protocol: cmp.Or(b.Protocol, "tcp"),
			})
		}
	}
	return out
}

// checkAddressClashes finds external addresses that are assigned twice.
func (p *checker) checkAddressClashes() {
	if p.isUnreadable(clusterstate.Northbound) {
		return
	}
	claims := p.collectAddressClaims()
	for _, a := range sortedAddresses(claims) {
		list := claims[a]
		for i := range list {
			for k := i + 1; k < len(list); k++ {
				if claimsCollide(list[i], list[k]) {
					p.reportAddressClash(a, list[i], list[k])
				}
			}
		}
	}
	for _, e := range p.Cluster.EIps {
		if s := p.Cluster.ExternalSubnetAt(e.Address); s != nil && slices.Contains(s.Gateways, e.Address) {
			p.report(AddressClash, uniqueRefs(append([]state.Ref{e.Ref}, p.externalSubnetRefs(s)...)...),
				"%s has address %s, which is the gateway of network %s", e.Ref,
				e.Address, s.Network)
		}
	}
	p.checkNodeAddressClashes(claims)
}

// claimsCollide reports whether two claims on one address conflict: always on two routers, on one router if both use
// the same port.
func claimsCollide(a, b addressClaim) bool {
	switch {
	case a.router != b.router:
		return true
	case a.allPorts && b.allPorts:
		return true
	case a.port.IsValid() && b.port.IsValid():
		return a.port == b.port && a.protocol == b.protocol
	}
	return a.allPorts && b.port.IsValid() || b.allPorts && a.port.IsValid()
}

func (p *checker) reportAddressClash(address netip.Addr, a, b addressClaim) {
	about := slices.Concat(p.objectsWithAddress(address), []state.Ref{a.owner, b.owner},
		p.projectsOfShard(a.router.Name), p.projectsOfShard(b.router.Name))
	p.report(AddressClash, uniqueRefs(about...),
		"%s is assigned twice: to %s on router %s and to %s on router %s",
		address, a.description, a.router.Name, b.description, b.router.Name)
}

// checkNodeAddressClashes finds external addresses that are also assigned to a node.
func (p *checker) checkNodeAddressClashes(claims map[netip.Addr][]addressClaim) {
	for _, n := range p.Cluster.Nodes {
		for _, a := range n.Addresses {
			if len(claims[a]) > 0 {
				c := claims[a][0]
				p.report(AddressClash, uniqueRefs(append(p.objectsWithAddress(a), n.Ref, c.owner)...),
					"%s is assigned twice: to node %s and to %s on router %s", a, n.Name,
					c.description, c.router.Name)
			}
		}
	}
}

// checkPrefixOverlaps finds overlapping prefixes that have to be distinct.
func (p *checker) checkPrefixOverlaps() {
	for i := range p.Cluster.Projects {
		x := &p.Cluster.Projects[i]
		for _, prefix := range x.Prefixes {
			p.checkProjectPrefix(x, prefix)
		}
	}
	for i := range p.Cluster.Subnets {
		for k := i + 1; k < len(p.Cluster.Subnets); k++ {
			a, b := &p.Cluster.Subnets[i], &p.Cluster.Subnets[k]
			together := a.Vpc == b.Vpc && a.Vpc != "" && a.Network == "" && b.Network == "" || a.Network != "" &&
				b.Network != ""
			if together && prefixesOverlap(a.Prefixes, b.Prefixes) {
				p.report(Overlap, uniqueRefs(append(p.externalSubnetRefs(a), p.externalSubnetRefs(b)...)...),
					"Subnets %s (%s) and %s (%s) overlap", a.Name, joinPrefixes(a.Prefixes),
					b.Name, joinPrefixes(b.Prefixes))
			}
		}
	}
}

// checkProjectPrefix finds what a prefix of a project overlaps with. The project's pods cannot reach hosts there. If
// the project uses the external network, hosts on it cannot reach the pods either.
func (p *checker) checkProjectPrefix(x *clusterstate.Project, prefix netip.Prefix) {
	mine := []netip.Prefix{prefix}
	for _, s := range p.externalSubnets() {
		if !prefixesOverlap(mine, s.Prefixes) {
			continue
		}
		f := p.report(Overlap, uniqueRefs(append([]state.Ref{x.Ref, clusterstate.RouterRef(x.Shard)},
			p.externalSubnetRefs(s)...)...),
			"prefix %s of %s overlaps with %s of external network %s", prefix, x.Ref, joinPrefixes(s.Prefixes),
			s.Network)
		if !p.isVPCAttached(x.Shard, s.Name) {
			f.Severity = Warning
		}
	}
	for _, s := range p.Cluster.Subnets {
		if s.Vpc == kubeovn.ManagementVpc && s.Network == "" && prefixesOverlap(mine, s.Prefixes) {
			p.report(Overlap, []state.Ref{x.Ref, clusterstate.RouterRef(x.Shard), s.Ref},
				"prefix %s of %s overlaps with %s of Subnet %s in Kube-OVN's default VPC",
				prefix, x.Ref, joinPrefixes(s.Prefixes), s.Name).Severity = Warning
		}
	}
	for _, n := range p.Cluster.Nodes {
		if slices.ContainsFunc(n.Addresses, prefix.Contains) {
			f := p.report(Overlap, []state.Ref{x.Ref, clusterstate.RouterRef(x.Shard)},
				"prefix %s of %s contains the address of node %s", prefix, x.Ref, n.Name)
			f.Severity = Warning
			break
		}
	}
	if prefixesOverlap(mine, p.Cluster.Inside) {
		p.report(Overlap, []state.Ref{x.Ref, clusterstate.RouterRef(x.Shard)},
			"prefix %s of %s overlaps with the cluster IPs of Services (%s)",
			prefix, x.Ref, joinPrefixes(p.Cluster.Inside)).Severity = Warning
	}
}

// isVPCAttached reports whether a VPC uses an external subnet.
func (p *checker) isVPCAttached(vpc, subnet string) bool {
	return slices.ContainsFunc(p.Cluster.Vpcs, func(v clusterstate.Vpc) bool {
		return v.Name == vpc && slices.Contains(v.External, subnet)
	})
}

func prefixesOverlap(a, b []netip.Prefix) bool {
	return slices.ContainsFunc(a, func(x netip.Prefix) bool { return slices.ContainsFunc(b, x.Overlaps) })
}

func joinPrefixes(prefixes []netip.Prefix) string {
	var out []string
	for _, p := range prefixes {
		out = append(out, p.String())
	}
	return strings.Join(out, ", ")
}
