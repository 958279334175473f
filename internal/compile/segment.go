package compile

import (
	"fmt"
	"net/netip"
	"slices"

	"go4.org/netipx"

	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/ownership"
	"github.com/sallyport/sallyport/internal/snapshot"
)

// isolateAddresses drops what other projects send to the project's addresses on networks with isolation Tenants. The rules are at the router's
// ports on these networks. They look at the source address: a packet of a router whose gateway is on another node comes in from the wire
// like everybody's.
//
// Other projects' addresses are those that Kube-OVN could give them, whether it has or not. So no address is reachable before
// a row says otherwise, and the rows do not change with the addresses of others.
func (c *compiler) isolateAddresses() {
	if !c.project.alive() || c.vpcLeaves() {
		return
	}
	row := func(r intent.Row) { c.in.Row(c.w.Shard, r, c.project.ref()) }
	others := ownership.OthersSet(c.w.Shard)
	isolated := false
	for _, x := range c.used() {
		if !x.Isolated || !c.connected(x.Subnet) {
			continue
		}
		isolated = true
		port := c.socketOn(x.Subnet)
		match := fmt.Sprintf("outport == %q && ip4.src == $%s", port, others)
		if shared := c.sharedOn(x); len(shared) > 0 {
			unshared := ownership.UnsharedSet(c.w.Shard, x.Subnet)
			row(intent.AddressSet{Name: unshared, Addresses: prefixes(subtract([]netip.Prefix{x.Prefix}, shared))})
			match += " && ip4.dst == $" + unshared
		}
		row(intent.PortGroup{Name: ownership.RangeGroup(port), Ports: port})
		row(intent.Rule{
			Group: ownership.RangeGroup(port), Direction: intent.OutOfSwitch, Priority: ownership.SegmentPriority, Match: match, Action: "drop",
		})
	}
	if isolated {
		row(intent.AddressSet{Name: others, Addresses: prefixes(c.othersAddresses())})
	}
}

// sharedOn are the project's addresses on a network that all projects reach. One that is not reserved anybody could have got.
func (c *compiler) sharedOn(x *snapshot.External) (out []netip.Prefix) {
	for _, e := range c.eips {
		if e.wanted() && e.on.Subnet == x.Subnet && x.Reserves(e.address) && x.Grants(e.address, e.Namespace) {
			out = append(out, netip.PrefixFrom(e.address, e.address.BitLen()))
		}
	}
	return out
}

// othersAddresses are the addresses on external networks that other projects have or may get.
func (c *compiler) othersAddresses() []netip.Prefix {
	own := c.ownAddresses()
	for _, s := range c.w.Selections { // with these its pods leave
		for _, a := range s.Addresses {
			own = append(own, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	var pools, reserved []netip.Prefix
	for _, x := range c.w.Externals {
		pools = append(pools, x.Prefix)
		reserved = append(reserved, netip.PrefixFrom(x.Gateway, x.Gateway.BitLen()))
		for _, r := range x.Reserved {
			reserved = append(reserved, netipx.IPRangeFrom(r.First, r.Last).Prefixes()...)
		}
	}
	return subtract(pools, slices.Concat(reserved, own))
}

// subtract is prefixes without others. What is invalid is left out: the library would give nothing at all, and then nothing would be dropped.
func subtract(from, without []netip.Prefix) []netip.Prefix {
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
