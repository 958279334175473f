package ovn

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/engine/ovn/nb"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/state"
)

// A column that somebody has put something strange into becomes a zero value: it differs from whatever is wanted, and
// so is repaired. A row whose key can't be read is not one of ours.

const routeTableOption = "route_table" // of a router port's options

func decodeRouterPort(p *nb.LogicalRouterPort) intent.LogicalRouterPort {
	out := intent.LogicalRouterPort{Name: p.Name, MAC: p.MAC, RouteTable: p.Options[routeTableOption]}
	if len(p.Networks) == 1 {
		out.Network = parsePrefix(p.Networks[0])
	}
	if p.Peer != nil {
		out.Peer = *p.Peer
	}
	return out
}

func decodeMACBinding(b *nb.StaticMACBinding) (intent.StaticMACBinding, bool) {
	out := intent.StaticMACBinding{Port: b.LogicalPort, Address: parseAddr(b.IP)}
	if b.OverrideDynamicMAC { // without it, what was learned wins
		out.MAC = b.MAC
	}
	return out, out.Address.IsValid()
}

// decodeNAT reads a translation; port is the name of the port that it is for, empty where it is for none.
func decodeNAT(n *nb.NAT, port string) (intent.Row, bool) {
	switch n.Type {
	case natTypeDNATAndSNAT:
		out := intent.DNATAndSNAT{External: parseAddr(n.ExternalIP), Logical: parseAddr(n.LogicalIP)}
		return out, out.External.IsValid()
	case natTypeSNAT:
		out := intent.SNAT{External: parseAddr(n.ExternalIP), Logical: parsePrefix(n.LogicalIP)}
		if port != "" {
			return intent.GatewayPortSNAT{
				GatewayPort: port, External: out.External, Logical: out.Logical, Match: n.Match, Priority: n.Priority,
			}, out.Logical.IsValid()
		}
		return out, out.Logical.IsValid()
	default:
		return nil, false
	}
}

func decodeRouterPolicy(router string, p *nb.LogicalRouterPolicy) (intent.LogicalRouterPolicy, bool) {
	out := intent.LogicalRouterPolicy{Priority: p.Priority, Match: p.Match}
	hops := p.Nexthops
	if len(hops) == 0 && p.Nexthop != nil {
		hops = []string{*p.Nexthop}
	}
	if (p.Action == policyReroute) == (len(hops) > 0) {
		out.Action, out.NextHops = p.Action, strings.Join(slices.Sorted(slices.Values(hops)), " ")
	}
	return out, ownership.IsOwnPriority(router, p.Priority)
}

func parseAddr(text string) netip.Addr {
	a, _ := netip.ParseAddr(text) // zero when it is none
	return a
}

// parsePrefix reads a prefix; an address alone is the prefix of that address.
func parsePrefix(text string) netip.Prefix {
	if a := parseAddr(text); a.IsValid() {
		return netip.PrefixFrom(a, a.BitLen())
	}
	p, _ := netip.ParsePrefix(text)
	return p
}

// unknownOrigin is who asked for a row that does not say it any more, and is ours all the same.
var unknownOrigin = state.Ref{Kind: "row without", Name: ownership.RowOwnerKey}

// rowOrigin is who asked for a row of a shard; zero for a row that is not ours.
func rowOrigin(externalIDs map[string]string, shard string) state.Ref {
	if externalIDs[ownership.RowShardKey] != shard {
		return state.Ref{}
	}
	parts := strings.SplitN(externalIDs[ownership.RowOwnerKey], "/", 3)
	if len(parts) != 3 {
		return unknownOrigin
	}
	return state.Ref{Kind: parts[0], Namespace: parts[1], Name: parts[2]}
}
