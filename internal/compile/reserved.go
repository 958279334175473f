package compile

import (
	"fmt"
	"net/netip"
	"slices"

	"go4.org/netipx"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ipfamily"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// maxReturnPorts is the number of addresses reserved for return ports in a subnet. In a small subnet it is an eighth of
// the addresses.
const maxReturnPorts = 8

// reservedAddresses returns the addresses of a subnet that are reserved for return ports: the last ones, except the
// very last, which is the broadcast address of IPv4.
func reservedAddresses(within netip.Prefix) []netip.Addr {
	hostBits := within.Addr().BitLen() - within.Bits()
	if !within.IsValid() || hostBits < 3 {
		return nil
	}
	size := maxReturnPorts
	if hostBits < 6 {
		size = 1 << hostBits / 8
	}
	out := make([]netip.Addr, 0, size)
	for a := netipx.PrefixLastIP(within).Prev(); len(out) < size; a = a.Prev() {
		out = append(out, a)
	}
	return out
}

// buildExcludeIPs returns the addresses of the project's subnet that pods don't get, in Kube-OVN's normal form: it
// would rewrite any other.
func (c *compiler) buildExcludeIPs(gateways []string) []string {
	var ranges []string
	out := slices.Clone(gateways)
	for _, f := range c.families {
		kept := reservedAddresses(c.project.prefix(f))
		out = slices.DeleteFunc(out, func(g string) bool {
			a, err := netip.ParseAddr(g)
			return err == nil && slices.Contains(kept, a)
		})
		switch len(kept) {
		case 0:
		case 1:
			ranges = append(ranges, kept[0].String())
		default:
			ranges = append(ranges, kept[len(kept)-1].String()+".."+kept[0].String())
		}
	}
	if len(ranges) == 0 {
		return nil // Kube-OVN excludes gateways itself
	}
	out = append(out, ranges...)
	slices.Sort(out)
	return out
}

// assignReturnIPs assigns a reserved address to each network: the one that its return port has, or the next free one.
// Invalid: none is left.
func (c *compiler) assignReturnIPs(networks []*snapshot.ExternalSubnet) []netip.Addr {
	free := map[ipfamily.Family][]netip.Addr{}
	for _, f := range c.families {
		free[f] = slices.DeleteFunc(reservedAddresses(c.project.prefix(f)), c.isOccupied)
	}
	out := make([]netip.Addr, len(networks))
	take := func(i int, a netip.Addr) {
		out[i] = a
		free[ipfamily.Of(a)] = slices.DeleteFunc(free[ipfamily.Of(a)], func(f netip.Addr) bool { return f == a })
	}
	for i, n := range networks {
		if have := c.w.Engine.ReturnPorts[ownership.ReturnRouterPort(c.w.Shard, c.subnetName(),
			n.Subnet)]; slices.Contains(free[n.Family()], have) {
			take(i, have)
		}
	}
	for i, n := range networks {
		if left := free[n.Family()]; !out[i].IsValid() && len(left) > 0 {
			take(i, left[0])
		}
	}
	return out
}

// isOccupied reports whether a reserved address is in use: by the gateway, or by a pod that is older than the
// reservation.
func (c *compiler) isOccupied(a netip.Addr) bool {
	used := c.w.Engine.UsedIPRanges
	if c.subnet != nil {
		used = c.subnet.UsedIPRanges
	}
	return slices.Contains(c.project.Gateways, a) ||
		slices.ContainsFunc(used, func(r snapshot.AddressRange) bool {
			return r.Contains(a)
		})
}

// noReturnPort returns the finding that a network has no return port because no reserved address is left.
func (c *compiler) noReturnPort(x *snapshot.ExternalSubnet) intent.Finding {
	return intent.Finding{Reason: intent.NoWayBack, Message: fmt.Sprintf(
		"subnet %s has none of its %d addresses for return ports left for network %s; "+
			"use a network that the project already uses, or a project with a larger subnet", c.subnetName(),
		len(reservedAddresses(c.project.prefixOn(x))), x.Subnet)}
}
