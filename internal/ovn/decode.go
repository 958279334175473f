package ovn

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/ovn/nb"
	"github.com/sallyport/sallyport/internal/ownership"
	"github.com/sallyport/sallyport/internal/state"
)

// A column that somebody has put something strange into becomes a zero value: it differs from whatever is wanted, and so is
// repaired. A row whose key can't be read is not one of ours.

const routeTable = "route_table" // of a router port's options

func decodePort(p *nb.LogicalRouterPort) intent.RouterPort {
	out := intent.RouterPort{Name: p.Name, MAC: p.MAC, Table: p.Options[routeTable]}
	if len(p.Networks) == 1 {
		out.Network = prefix(p.Networks[0])
	}
	if p.Peer != nil {
		out.Peer = *p.Peer
	}
	return out
}

func decodeBinding(b *nb.StaticMACBinding) (intent.MACBinding, bool) {
	out := intent.MACBinding{Port: b.LogicalPort, Address: address(b.IP)}
	if b.OverrideDynamicMAC { // without it, what was learned wins
		out.MAC = b.MAC
	}
	return out, out.Address.IsValid()
}

// decodeNAT reads a translation; port is the name of the port that it is for, empty where it is for none.
func decodeNAT(n *nb.NAT, port string) (intent.Row, bool) {
	switch n.Type {
	case floating:
		out := intent.FloatingNAT{External: address(n.ExternalIP), Logical: address(n.LogicalIP)}
		return out, out.External.IsValid()
	case source:
		out := intent.SourceNAT{External: address(n.ExternalIP), Logical: prefix(n.LogicalIP)}
		if port != "" {
			return intent.PortNAT{Port: port, External: out.External, Logical: out.Logical, Match: n.Match, Priority: n.Priority}, out.Logical.IsValid()
		}
		return out, out.Logical.IsValid()
	default:
		return nil, false
	}
}

func decodePolicy(router string, p *nb.LogicalRouterPolicy) (intent.RouterPolicy, bool) {
	out := intent.RouterPolicy{Priority: p.Priority, Match: p.Match}
	hops := p.Nexthops
	if len(hops) == 0 && p.Nexthop != nil {
		hops = []string{*p.Nexthop}
	}
	if (p.Action == reroute) == (len(hops) > 0) {
		out.Action, out.NextHops = p.Action, strings.Join(slices.Sorted(slices.Values(hops)), " ")
	}
	return out, ownership.Priority(router, p.Priority)
}

func address(text string) netip.Addr {
	a, _ := netip.ParseAddr(text) // zero when it is none
	return a
}

// prefix reads a prefix; an address alone is the prefix of that address.
func prefix(text string) netip.Prefix {
	if a := address(text); a.IsValid() {
		return netip.PrefixFrom(a, a.BitLen())
	}
	p, _ := netip.ParsePrefix(text)
	return p
}

// lost is who asked for a row that does not say it any more, and is ours all the same.
var lost = state.Ref{Kind: "row without", Name: ownership.RowOwnerKey}

// origin is who asked for a row of a shard; zero for a row that is not ours.
func origin(externalIDs map[string]string, shard string) state.Ref {
	if externalIDs[ownership.RowShardKey] != shard {
		return state.Ref{}
	}
	parts := strings.SplitN(externalIDs[ownership.RowOwnerKey], "/", 3)
	if len(parts) != 3 {
		return lost
	}
	return state.Ref{Kind: parts[0], Namespace: parts[1], Name: parts[2]}
}
