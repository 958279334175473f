package compile

import (
	"net/netip"
	"slices"

	"go4.org/netipx"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ipfamily"
	"github.com/sallyport/sallyport/internal/model/match"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// emitTenantIsolation adds the ACLs that drop packets of other projects to the project's addresses on networks with
// isolation Tenants. The ACLs are at the router's ports on these networks. They match the source address: a packet from
// a router whose gateway is on another node arrives from the wire like any other.
//
// Other projects' addresses are all that Kube-OVN could assign to them, assigned or not. So no address is reachable
// before a row exists for it, and the rows do not change with the addresses of others.
func (c *compiler) emitTenantIsolation() {
	if !c.project.isActive() || c.isVPCTerminating() {
		return
	}
	row := func(r intent.Row) { c.out.AddRow(c.w.Shard, r, c.project.ref()) }
	isolated := map[ipfamily.Family]bool{}
	for _, x := range c.usedFamilies() {
		if !x.Isolated || !c.isConnected(x.Subnet) {
			continue
		}
		f := x.Family()
		isolated[f] = true
		port := c.routerSwitchPortOn(x.Subnet)
		foreign := match.All(match.OutPort(port), match.From(match.AddressSet(f, ownership.ForeignAddressSet(c.w.Shard, f))))
		if shared := c.sharedAddresses(x); len(shared) > 0 {
			unshared := ownership.UnsharedAddressSet(c.w.Shard, x.Subnet)
			row(intent.AddressSet{
				Name:      unshared,
				Addresses: joinPrefixes(f, subtractPrefixes([]netip.Prefix{x.Prefix}, shared)),
			})
			foreign = match.All(foreign, match.To(match.AddressSet(f, unshared)))
		}
		row(intent.PortGroup{Name: ownership.SourceRangePortGroup(port), Ports: port})
		row(intent.ACL{
			PortGroup: ownership.SourceRangePortGroup(port), Direction: intent.ToLport,
			Priority: ownership.NetworkIsolationPriority, Match: foreign.String(), Action: "drop",
		})
	}
	for f := range isolated {
		row(intent.AddressSet{
			Name: ownership.ForeignAddressSet(c.w.Shard, f), Addresses: joinPrefixes(f, c.otherTenantPrefixes()),
		})
	}
}

// usedFamilies returns the external subnets that the router has a port on, each followed by its second family.
func (c *compiler) usedFamilies() (out []*snapshot.ExternalSubnet) {
	for _, x := range c.usedExternals() {
		out = append(out, x)
		if c.secondNetwork(x).IsValid() {
			out = append(out, x.Second)
		}
	}
	return out
}

// sharedAddresses returns the project's addresses on a network that all projects may reach. An address that is not
// reserved is not shared, because anybody could have got it.
func (c *compiler) sharedAddresses(x *snapshot.ExternalSubnet) (out []netip.Prefix) {
	for _, e := range c.eips {
		if e.isWanted() && e.external.Subnet == x.Subnet && x.IsReserved(e.address) &&
			x.GrantsAddress(e.address, e.Namespace) {
			out = append(out, netip.PrefixFrom(e.address, e.address.BitLen()))
		}
	}
	return out
}

// otherTenantPrefixes returns the addresses on external networks that other projects have or may get.
func (c *compiler) otherTenantPrefixes() []netip.Prefix {
	own := c.projectExternalIPs()
	for _, s := range c.w.Selections { // source addresses of its own pods
		for _, a := range s.Addresses {
			own = append(own, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	var pools, reserved []netip.Prefix
	for _, x := range c.w.ExternalSubnets {
		pools = append(pools, x.Prefix)
		reserved = append(reserved, netip.PrefixFrom(x.Gateway, x.Gateway.BitLen()))
		for _, r := range x.ReservedRanges {
			reserved = append(reserved, netipx.IPRangeFrom(r.First, r.Last).Prefixes()...)
		}
		if second := x.Second; second != nil { // its reserved addresses are those of routers
			pools = append(pools, second.Pool)
			for _, r := range second.ReservedRanges {
				pools = append(pools, netipx.IPRangeFrom(r.First, r.Last).Prefixes()...)
			}
			reserved = append(reserved, netip.PrefixFrom(second.Gateway, second.Gateway.BitLen()))
			for _, r := range x.ReservedRanges { // hosts with a number that Kube-OVN does not give to routers
				if x.Prefix.Contains(r.First) && x.Prefix.Contains(r.Last) {
					reserved = append(reserved, netipx.IPRangeFrom(x.SecondAddress(second, r.First),
						x.SecondAddress(second, r.Last)).Prefixes()...)
				}
			}
		}
	}
	return subtractPrefixes(pools, slices.Concat(reserved, own))
}

// subtractPrefixes returns prefixes without others. Invalid prefixes are skipped: the library would return nothing at
// all, and nothing would be dropped.
func subtractPrefixes(from, without []netip.Prefix) []netip.Prefix {
	var b netipx.IPSetBuilder
	for _, p := range from {
		if p.IsValid() {
			b.AddPrefix(p.Masked())
		}
	}
	for _, p := range without {
		if p.IsValid() {
			b.RemovePrefix(p)
		}
	}
	set, err := b.IPSet()
	if err != nil {
		return nil
	}
	return set.Prefixes()
}
