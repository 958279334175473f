package compile

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// maxReturnPorts is the number of addresses reserved for return ports in a subnet. In a small subnet it is an eighth of
// the addresses.
const maxReturnPorts = 8

// reservedAddresses returns the addresses of a subnet that are reserved for return ports: the last ones, except the
// broadcast address.
func reservedAddresses(within netip.Prefix) []netip.Addr {
	if !within.IsValid() || !within.Addr().Is4() || within.Bits() > 29 {
		return nil
	}
	size := min(1<<(32-within.Bits())/8, maxReturnPorts)
	out := make([]netip.Addr, 0, size)
	for a := lastAddress(within).Prev(); len(out) < size; a = a.Prev() {
		out = append(out, a)
	}
	return out
}

// lastAddress returns the last address of an IPv4 prefix.
func lastAddress(p netip.Prefix) netip.Addr {
	bytes := p.Masked().Addr().As4()
	for i := p.Bits(); i < 32; i++ {
		bytes[i/8] |= 0x80 >> (i % 8)
	}
	return netip.AddrFrom4(bytes)
}

// buildExcludeIPs returns the addresses of the project's subnet that pods don't get, in Kube-OVN's normal form: it
// would rewrite any other.
func (c *compiler) buildExcludeIPs(gateways []string) []string {
	kept := reservedAddresses(c.project.ipv4Prefix())
	out := slices.DeleteFunc(slices.Clone(gateways), func(g string) bool {
		a, err := netip.ParseAddr(g)
		return err == nil && slices.Contains(kept, a)
	})
	switch len(kept) {
	case 0:
		return nil // Kube-OVN excludes gateways itself
	case 1:
		out = append(out, kept[0].String())
	default:
		out = append(out, kept[len(kept)-1].String()+".."+kept[0].String())
	}
	slices.Sort(out)
	return out
}

// assignReturnIPs assigns a reserved address to each network: the one that its return port has, or the next free one.
// Invalid: none is left.
func (c *compiler) assignReturnIPs(networks []*snapshot.ExternalSubnet) []netip.Addr {
	free := slices.DeleteFunc(reservedAddresses(c.project.ipv4Prefix()), c.isOccupied)
	out := make([]netip.Addr, len(networks))
	take := func(i int, a netip.Addr) {
		out[i] = a
		free = slices.DeleteFunc(free, func(f netip.Addr) bool { return f == a })
	}
	for i, n := range networks {
		if have := c.w.Engine.ReturnPorts[ownership.ReturnRouterPort(c.w.Shard, c.subnetName(),
			n.Subnet)]; slices.Contains(free, have) {
			take(i, have)
		}
	}
	for i := range networks {
		if !out[i].IsValid() && len(free) > 0 {
			take(i, free[0])
		}
	}
	return out
}

// isOccupied reports whether a reserved address is in use: by the gateway, or by a pod that is older than the
// reservation.
func (c *compiler) isOccupied(a netip.Addr) bool {
	return slices.Contains(c.project.Gateways, a) ||
		slices.ContainsFunc(c.w.Engine.UsedIPRanges, func(r snapshot.AddressRange) bool {
			return r.Contains(a)
		})
}

// noReturnPort returns the finding that a network has no return port because no reserved address is left.
func (c *compiler) noReturnPort(x *snapshot.ExternalSubnet) intent.Finding {
	return intent.Finding{Reason: intent.NoWayBack, Message: fmt.Sprintf(
		"subnet %s has none of its %d addresses for return ports left for network %s; "+
			"use a network that the project already uses, or a project with a larger subnet", c.subnetName(),
		len(reservedAddresses(c.project.ipv4Prefix())), x.Subnet)}
}
