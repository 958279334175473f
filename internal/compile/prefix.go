package compile

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/snapshot"
)

// The widest prefixes of a project. 10.0.0.0/8 is the largest private range of IPv4, and a /48 is what one site has of IPv6 (RFC 4193). In anything
// wider there are always addresses of others, which endpoints and floating IPs would be taken for the project's own.
const (
	widest4 = 8
	widest6 = 48
)

// unusable are the addresses that no pod can have.
var unusable = []snapshot.Claim{
	{Prefix: netip.MustParsePrefix("0.0.0.0/8"), By: "addresses of this network (RFC 1122)"},
	{Prefix: netip.MustParsePrefix("127.0.0.0/8"), By: "loopback addresses"},
	{Prefix: netip.MustParsePrefix("169.254.0.0/16"), By: "link-local addresses"},
	{Prefix: netip.MustParsePrefix("224.0.0.0/4"), By: "multicast addresses"},
	{Prefix: netip.MustParsePrefix("240.0.0.0/4"), By: "reserved addresses (class E), which Sallyport uses inside OVN"},
	{Prefix: netip.MustParsePrefix("::/8"), By: "reserved addresses, with loopback and mapped ones"},
	{Prefix: netip.MustParsePrefix("fe80::/10"), By: "link-local addresses"},
	{Prefix: netip.MustParsePrefix("ff00::/8"), By: "multicast addresses"},
}

// acceptPrefixes refuses prefixes of a new project in which addresses are of others: its pods would not reach those, and who asks for them inside would
// be answered by a pod. Two projects may have the same prefix. A project that exists stays, whatever is added to the cluster later.
func (c *compiler) acceptPrefixes() intent.Finding {
	if c.begun() {
		return intent.Finding{}
	}
	claims := slices.Concat(unusable, c.w.Platform)
	for _, x := range c.w.Externals {
		claims = append(claims, snapshot.Claim{Prefix: x.Prefix, By: "Subnet " + x.Subnet + " of external network " + x.Network})
	}
	for _, p := range c.w.Config.Inside {
		claims = append(claims, snapshot.Claim{Prefix: p, By: "the cluster's own pods and Services (--cluster-prefixes)"})
	}
	for _, prefix := range c.project.Prefixes {
		widest := widest6
		if prefix.Addr().Is4() {
			widest = widest4
		}
		if prefix.Bits() < widest {
			return intent.Finding{Reason: intent.Malformed, Message: fmt.Sprintf(
				"cidrBlock %s is too wide: a project may have a /%d at most; make the Project with a smaller prefix, such as 10.0.0.0/16 or fd00:10::/64",
				prefix, widest)}
		}
		for _, claim := range claims {
			if claim.Prefix.IsValid() && claim.Prefix.Overlaps(prefix) {
				return intent.Finding{Reason: intent.PrefixOverlaps, Message: fmt.Sprintf(
					"cidrBlock %s overlaps with %s of %s; make the Project with another prefix", prefix, claim.Prefix, claim.By)}
			}
		}
	}
	return intent.Finding{}
}

// begun says whether something of the project is there already.
func (c *compiler) begun() bool {
	return c.w.Namespace.Ours || c.w.Engine.Objects[c.key(intent.Vpc, c.w.Shard)] || c.w.Engine.Objects[c.key(intent.Subnet, c.subnet())]
}
