package compile

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ipfamily"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// The shortest prefix lengths of a project. 10.0.0.0/8 is the largest private range of IPv4, and a /48 is one IPv6 site
// (RFC 4193). Anything wider always contains addresses of others, and endpoints and floating IPs with those addresses
// would be considered the project's own.
var minPrefixLen = map[ipfamily.Family]int{ipfamily.V4: 8, ipfamily.V6: 48}

// unusablePrefixes are the addresses that no pod can have.
var unusablePrefixes = []snapshot.PrefixClaim{
	{Prefix: netip.MustParsePrefix("0.0.0.0/8"), Owner: "addresses of this network (RFC 1122)"},
	{Prefix: netip.MustParsePrefix("127.0.0.0/8"), Owner: "loopback addresses"},
	{Prefix: netip.MustParsePrefix("169.254.0.0/16"), Owner: "link-local addresses"},
	{Prefix: netip.MustParsePrefix("224.0.0.0/4"), Owner: "multicast addresses"},
	{
		Prefix: netip.MustParsePrefix("240.0.0.0/4"),
		Owner:  "reserved addresses (class E), which Sallyport uses inside OVN",
	},
	{Prefix: netip.MustParsePrefix("::/8"), Owner: "reserved addresses, with loopback and mapped ones"},
	{Prefix: netip.MustParsePrefix("fdfe:5a11::/32"), Owner: "addresses that Sallyport uses inside OVN"},
	{Prefix: netip.MustParsePrefix("fe80::/10"), Owner: "link-local addresses"},
	{Prefix: netip.MustParsePrefix("ff00::/8"), Owner: "multicast addresses"},
}

// checkPrefixes refuses a new project whose prefix contains addresses of others: its pods could not reach them, and
// requests for them inside the project would be answered by a pod. Two projects may have the same prefix. An existing
// project is not refused, whatever is added to the cluster later.
func (c *compiler) checkPrefixes() intent.Finding {
	if c.projectExists() {
		return intent.Finding{}
	}
	claims := slices.Concat(unusablePrefixes, c.w.PlatformPrefixes)
	for _, x := range c.w.ExternalSubnets {
		claims = append(claims, snapshot.PrefixClaim{
			Prefix: x.Prefix,
			Owner:  "Subnet " + x.Subnet + " of external network " + x.Network,
		})
	}
	for _, p := range c.w.Config.ClusterPrefixes {
		claims = append(claims, snapshot.PrefixClaim{
			Prefix: p,
			Owner:  "the cluster's own pods and Services (--cluster-prefixes)",
		})
	}
	for _, prefix := range c.project.Prefixes {
		if shortest := minPrefixLen[ipfamily.Of(prefix.Addr())]; prefix.Bits() < shortest {
			return intent.Finding{Reason: intent.Malformed, Message: fmt.Sprintf(
				"cidrBlock %s is too wide: the limit is /%d; "+
					"create the Project with a longer prefix, such as 10.0.0.0/16 or fd00:10::/64",
				prefix, shortest)}
		}
		for _, claim := range claims {
			if claim.Prefix.IsValid() && claim.Prefix.Overlaps(prefix) {
				return intent.Finding{Reason: intent.PrefixOverlaps, Message: fmt.Sprintf(
					"cidrBlock %s overlaps with %s of %s; create the Project with another prefix", prefix, claim.Prefix,
					claim.Owner)}
			}
		}
	}
	return intent.Finding{}
}

// projectExists reports whether anything was created for the project already.
func (c *compiler) projectExists() bool {
	return c.w.Namespace.Owned || c.w.Engine.OwnedObjects[c.clusterKey(intent.Vpc, c.w.Shard)] ||
		c.w.Engine.OwnedObjects[c.clusterKey(intent.Subnet, c.subnetName())]
}
