package compile

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/snapshot"
	"github.com/sallyport/sallyport/internal/model/state"
)

// emitEgressIPs makes pods that an EgressIP selects leave with its addresses. A pod that several select has those of
// the oldest.
func (c *compiler) emitEgressIPs() {
	p := c.project
	if !c.hasEgressIPs() || p.defaultNetwork == nil || c.w.Engine.RouterPorts == nil {
		return
	}
	selected, closed := map[netip.Addr]string{}, false // by whom
	for _, s := range sortByAge(c.w.Selections, func(s snapshot.Selection) snapshot.Meta {
		return snapshot.Meta{Name: s.EgressIP, Created: s.Created}
	}) {
		pods := c.excludeSelected(s, selected)
		way := c.buildEgressIPPolicy(s)
		if way.Action == "" {
			continue // it fails open, and its pods leave as others do
		}
		closed = closed || !s.FailOpen
		for _, a := range pods {
			selected[a] = s.EgressIP
		}
		c.out.AddRow(c.w.Shard, intent.AddressSet{
			Name:      ownership.EgressIPPodSet(c.w.Shard, s.EgressIP),
			Addresses: joinAddresses(pods),
		}, selectionRef(s))
		c.out.AddRow(c.w.Shard, way, selectionRef(s))
	}
	if closed {
		c.emitUnselectedEgress(slices.DeleteFunc(slices.Clone(c.w.PodAddresses), func(a netip.Addr) bool {
			return selected[a] != ""
		}))
	}
}

// excludeSelected is the pods that an EgressIP selects and no older one does. Of the others a note tells.
func (c *compiler) excludeSelected(s snapshot.Selection, selected map[netip.Addr]string) []netip.Addr {
	older := map[string]bool{}
	pods := slices.DeleteFunc(slices.Clone(s.Pods), func(a netip.Addr) bool {
		older[selected[a]] = true
		return selected[a] != ""
	})
	delete(older, "")
	for _, name := range slices.Sorted(maps.Keys(older)) {
		c.out.Notes = append(c.out.Notes, intent.Note{
			Object: intent.ObjectKey{Kind: intent.EgressIP, Name: s.EgressIP},
			Finding: intent.Finding{Reason: intent.UndefinedRequest, Message: fmt.Sprintf(
				"pods of project %s are selected by EgressIP %s as well, which is older: they leave with its addresses; let only one select them",
				c.w.Shard, name)},
		})
	}
	return pods
}

// hasEgressIPs says whether pods of the project leave with egress addresses, or may.
func (c *compiler) hasEgressIPs() bool {
	return len(c.w.Selections) > 0 && c.w.Management == nil && c.project.isActive() &&
		c.project.ipv4Prefix().IsValid() && !c.isVPCTerminating()
}

func selectionRef(s snapshot.Selection) state.Ref {
	return state.Ref{Kind: string(intent.EgressIP), Name: s.EgressIP}
}

// matchEgress are packets of a set of pods to the outside.
func (c *compiler) matchEgress(from string) string {
	return fmt.Sprintf("inport == %q && ip4.src == %s && ip4.dst != %s", c.internalPortName(), from,
		c.project.ipv4Prefix().Masked())
}

// buildEgressIPPolicy is the policy that leads selected pods to the addresses of an EgressIP that are there. Without
// any they go nowhere, or, where it fails open, there is none.
func (c *compiler) buildEgressIPPolicy(s snapshot.Selection) intent.LogicalRouterPolicy {
	var hops []string
	for _, l := range s.Links {
		c.emitEgressLink(l, selectionRef(s))
		hops = append(hops, l.PeerNetwork.Addr().String())
	}
	slices.Sort(hops)
	way := intent.LogicalRouterPolicy{
		Priority: ownership.EgressIPSelected,
		Match:    c.matchEgress("$" + ownership.EgressIPPodSet(c.w.Shard, s.EgressIP)),
	}
	switch {
	case len(hops) > 0:
		way.Action, way.NextHops = "reroute", strings.Join(hops, " ")
	case !s.FailOpen:
		way.Action = "drop"
	}
	return way
}

// emitEgressLink wants the project's end of the way to an egress address. What leaves by it has the link's address, so
// that projects may use the same addresses inside. It names the same holders as the address, and so moves with it.
func (c *compiler) emitEgressLink(l snapshot.EgressLink, by state.Ref) {
	row := func(r intent.Row) { c.out.AddRow(c.w.Shard, r, by) }
	end := ownership.VPCEgressLinkPort(c.w.Shard, l.Address)
	mine := l.PeerNetwork.Addr().Next()
	row(intent.LogicalRouterPort{
		Name: end, MAC: intent.DeriveMAC(end), Network: netip.PrefixFrom(mine, l.PeerNetwork.Bits()),
		Peer:           ownership.EgressLinkPort(l.Address, c.w.Shard),
		HAChassisGroup: ownership.EgressRouterPort(l.Address),
	})
	row(intent.GatewayPortSNAT{GatewayPort: end, External: mine, Logical: netip.PrefixFrom(netip.IPv4Unspecified(), 0)})
}

// emitUnselectedEgress lets pods that no EgressIP selects leave as ever, and others not at all: a pod that nobody has
// looked at yet might be one that must not be seen with another address.
func (c *compiler) emitUnselectedEgress(free []netip.Addr) {
	by, way := c.project.ref(), c.project.defaultNetwork
	row := func(r intent.Row) { c.out.AddRow(c.w.Shard, r, by) }
	set := "$" + ownership.UnselectedPodSet(c.w.Shard)
	row(intent.AddressSet{Name: ownership.UnselectedPodSet(c.w.Shard), Addresses: joinAddresses(free)})
	row(intent.ReroutePolicy(ownership.EgressUnselected, c.matchEgress(set), way.Gateway).ToRouterPolicy())
	row(c.onLinkPolicy(ownership.EgressUnselectedOnLink,
		fmt.Sprintf("ip4.src == %s && ip4.dst == %s", set, way.Prefix.Masked())).ToRouterPolicy())
	row(intent.DropPolicy(ownership.EgressFailClosed,
		c.matchEgress(c.project.ipv4Prefix().Masked().String())).ToRouterPolicy())
}
