package compile

import (
	"net/netip"
	"slices"

	"github.com/sallyport/sallyport/internal/model/ipfamily"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// An external network has addresses of one family. Everything that is compiled for the network is of this family: the
// project's prefix, targets and endpoints, matches, routes and the addresses inside OVN below.

// internalAddresses are addresses that Sallyport uses inside OVN. No host has them.
type internalAddresses struct {
	onLinkNetwork    netip.Prefix // of the on-link loopback port
	onLinkNextHop    netip.Addr   // the other address in it
	reservedNextHops netip.Prefix // of the hairpin port; marks select the addresses in it
	otherNextHops    netip.Prefix // of the hairpin ports in the management VPC's other subnets
	otherNextHopLen  int          // of each of these
	nodeReturn       netip.Prefix // of the port for replies through nodes
	nodeReturnHop    netip.Addr   // the reserved next hop that leads to it; return ports have the first ones
	drainPool        netip.Prefix // of the addresses with the backends of a Service that get no new connections
	linkPool         netip.Prefix // of the links to egress addresses; no two links share a network
	linkPrefixLen    int          // of a link, which has two ends
	notRouted        []netip.Prefix
}

// internalByFamily has the internal addresses of each family. The pools of IPv4 are class E; those of IPv6 are a
// unique local prefix. notRouted are destinations that never leave a switch: multicast and broadcast.
var internalByFamily = map[ipfamily.Family]internalAddresses{
	ipfamily.V4: {
		onLinkNetwork:    netip.MustParsePrefix("169.254.90.1/30"),
		onLinkNextHop:    netip.MustParseAddr("169.254.90.2"),
		reservedNextHops: netip.MustParsePrefix("169.254.91.1/24"),
		otherNextHops:    netip.MustParsePrefix("169.254.128.0/17"),
		otherNextHopLen:  28,
		nodeReturn:       netip.MustParsePrefix("169.254.92.1/30"),
		nodeReturnHop:    netip.MustParseAddr("169.254.91.254"),
		drainPool:        netip.MustParsePrefix("240.0.0.0/8"),
		linkPool:         netip.MustParsePrefix("240.0.0.0/4"),
		linkPrefixLen:    30,
		notRouted:        []netip.Prefix{netip.MustParsePrefix("224.0.0.0/4"), netip.MustParsePrefix("255.255.255.255/32")},
	},
	ipfamily.V6: {
		onLinkNetwork:    netip.MustParsePrefix("fdfe:5a11:9090::1/126"),
		onLinkNextHop:    netip.MustParseAddr("fdfe:5a11:9090::2"),
		reservedNextHops: netip.MustParsePrefix("fdfe:5a11:9091::1/120"),
		otherNextHops:    netip.MustParsePrefix("fdfe:5a11:9093::/113"),
		otherNextHopLen:  124,
		nodeReturn:       netip.MustParsePrefix("fdfe:5a11:9092::1/126"),
		nodeReturnHop:    netip.MustParseAddr("fdfe:5a11:9091::fe"),
		drainPool:        netip.MustParsePrefix("fdfe:5a11:d000::/104"),
		linkPool:         netip.MustParsePrefix("fdfe:5a11:f000::/100"),
		linkPrefixLen:    126,
		notRouted:        []netip.Prefix{netip.MustParsePrefix("ff00::/8")},
	},
}

// addressAt returns the address of a pool with a number, which is reduced to the size of the pool.
func addressAt(pool netip.Prefix, number uint32) netip.Addr {
	bytes := pool.Masked().Addr().AsSlice()
	number &= 1<<(pool.Addr().BitLen()-pool.Bits()) - 1
	for i := len(bytes) - 1; number > 0; i-- {
		bytes[i] |= byte(number)
		number >>= 8
	}
	a, _ := netip.AddrFromSlice(bytes) // 4 or 16 bytes, as before
	return a
}

// prefix returns the project's prefix of a family; invalid: none.
func (p *project) prefix(f ipfamily.Family) netip.Prefix { return ipfamily.FirstPrefix(f, p.Prefixes) }

// prefixOn returns the project's prefix of the family that an external network has; invalid: none.
func (p *project) prefixOn(x *snapshot.ExternalSubnet) netip.Prefix { return p.prefix(x.Family()) }

// owns reports whether an address is in a prefix of the project.
func (p *project) owns(a netip.Addr) bool { return p.prefix(ipfamily.Of(a)).Contains(a) }

// externalFamilies returns the families that external networks have, in order; without any network, the default.
func externalFamilies(subnets []snapshot.ExternalSubnet) []ipfamily.Family {
	var out []ipfamily.Family
	for i := range subnets {
		if x := &subnets[i]; !x.Unsupported && x.Prefix.IsValid() {
			out = append(out, x.Family())
		}
	}
	if len(out) == 0 {
		return []ipfamily.Family{ipfamily.Default}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// projectFamilies returns the families that both the project and external networks have.
func (c *compiler) projectFamilies() []ipfamily.Family {
	return slices.DeleteFunc(slices.Clone(c.families), func(f ipfamily.Family) bool {
		return !c.project.prefix(f).IsValid()
	})
}

// connectedFamilies returns the families in which the project's pods have a way to the outside or may get one.
func (c *compiler) connectedFamilies() []ipfamily.Family {
	out := c.projectFamilies()
	if x := c.project.defaultNetwork; x != nil && x.Second != nil && c.project.prefixOn(x.Second).IsValid() &&
		!slices.Contains(out, x.Second.Family()) {
		out = append(out, x.Second.Family())
	}
	return out
}

// familyOf returns the family of an EIp's address: that of its network. Until the network is known, it is that of the
// project's default network.
func (c *compiler) familyOf(e *eip) ipfamily.Family {
	switch {
	case e != nil && e.external != nil:
		return e.external.Family()
	case e != nil && c.isSecond(e):
		return e.Family
	case c.project != nil && c.project.defaultNetwork != nil:
		return c.project.defaultNetwork.Family()
	default:
		return c.families[0]
	}
}
