package ovn

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/engine/ovn/nb"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ipfamily"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/state"
)

// A column with an unexpected value decodes to a zero value. That differs from every wanted value, so the row is
// repaired. A row whose key can't be parsed is not ours.

const routeTableOption = "route_table" // option of a router port

func decodeRouterPort(p *nb.LogicalRouterPort) intent.LogicalRouterPort {
	out := intent.LogicalRouterPort{Name: p.Name, MAC: p.MAC, RouteTable: p.Options[routeTableOption]}
	switch len(p.Networks) {
	case 1:
		out.Network = parsePrefix(p.Networks[0])
	case 2:
		out.Network, out.SecondNetwork = parsePrefix(p.Networks[0]), parsePrefix(p.Networks[1])
		if ipfamily.Of(out.Network.Addr()) != ipfamily.Default { // a set has no order
			out.Network, out.SecondNetwork = out.SecondNetwork, out.Network
		}
	}
	if p.Peer != nil {
		out.Peer = *p.Peer
	}
	return out
}

func decodeMACBinding(b *nb.StaticMACBinding) (intent.StaticMACBinding, bool) {
	out := intent.StaticMACBinding{Port: b.LogicalPort, Address: parseAddr(b.IP)}
	if b.OverrideDynamicMAC { // otherwise learned bindings take precedence
		out.MAC = b.MAC
	}
	return out, out.Address.IsValid()
}

// decodeNAT decodes a NAT. port is the name of its gateway port, empty if it has none.
func decodeNAT(n *nb.NAT, port string) (intent.Row, bool) {
	switch n.Type {
	case natTypeDNATAndSNAT:
		out := intent.DNATAndSNAT{External: parseAddr(n.ExternalIP), Logical: parseAddr(n.LogicalIP)}
		return out, out.External.IsValid()
	case natTypeDNAT:
		out := intent.DNAT{GatewayPort: port, External: parseAddr(n.ExternalIP), Logical: parseAddr(n.LogicalIP)}
		return out, out.External.IsValid() && n.Match == ""
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
	a, _ := netip.ParseAddr(text) // zero if invalid
	return a
}

// parsePrefix parses a prefix or a single address.
func parsePrefix(text string) netip.Prefix {
	if a := parseAddr(text); a.IsValid() {
		return netip.PrefixFrom(a, a.BitLen())
	}
	p, _ := netip.ParsePrefix(text)
	return p
}

// unknownOrigin is the origin of rows that are ours but no longer name their owner.
var unknownOrigin = state.Ref{Kind: "row without", Name: ownership.RowOwnerKey}

// rowOrigin returns the owner of a row of a shard, or zero if the row is not ours.
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
