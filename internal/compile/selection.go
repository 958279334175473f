package compile

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/ownership"
	"github.com/sallyport/sallyport/internal/snapshot"
	"github.com/sallyport/sallyport/internal/state"
)

// leaveByEgress makes pods that an EgressIP selects leave with its addresses. A pod that several select has those of the oldest.
func (c *compiler) leaveByEgress() {
	p := c.project
	if !c.selects() || p.way == nil || c.w.Engine.Ports == nil {
		return
	}
	selected, closed := map[netip.Addr]string{}, false // by whom
	for _, s := range inOrder(c.w.Selections, func(s snapshot.Selection) snapshot.Meta { return snapshot.Meta{Name: s.EgressIP, Created: s.Created} }) {
		pods := c.unselected(s, selected)
		way := c.wayBy(s)
		if way.Action == "" {
			continue // it fails open, and its pods leave as others do
		}
		closed = closed || !s.Open
		for _, a := range pods {
			selected[a] = s.EgressIP
		}
		c.in.Row(c.w.Shard, intent.AddressSet{Name: ownership.EgressSet(c.w.Shard, s.EgressIP), Addresses: list(pods)}, selectionRef(s))
		c.in.Row(c.w.Shard, way, selectionRef(s))
	}
	if closed {
		c.keepRest(slices.DeleteFunc(slices.Clone(c.w.Inside), func(a netip.Addr) bool { return selected[a] != "" }))
	}
}

// unselected is the pods that an EgressIP selects and no older one does. Of the others a note tells.
func (c *compiler) unselected(s snapshot.Selection, selected map[netip.Addr]string) []netip.Addr {
	older := map[string]bool{}
	pods := slices.DeleteFunc(slices.Clone(s.Pods), func(a netip.Addr) bool {
		older[selected[a]] = true
		return selected[a] != ""
	})
	delete(older, "")
	for _, name := range slices.Sorted(maps.Keys(older)) {
		c.in.Notes = append(c.in.Notes, intent.Note{
			Object: intent.ObjectKey{Kind: intent.EgressIP, Name: s.EgressIP},
			Finding: intent.Finding{Reason: intent.UndefinedRequest, Message: fmt.Sprintf(
				"pods of project %s are selected by EgressIP %s as well, which is older: they leave with its addresses; let only one select them",
				c.w.Shard, name)},
		})
	}
	return pods
}

// selects says whether pods of the project leave with egress addresses, or may.
func (c *compiler) selects() bool {
	return len(c.w.Selections) > 0 && c.w.Management == nil && c.project.alive() && c.project.prefix4().IsValid() && !c.vpcLeaves()
}

func selectionRef(s snapshot.Selection) state.Ref {
	return state.Ref{Kind: string(intent.EgressIP), Name: s.EgressIP}
}

// leaving are packets of a set of pods to the outside.
func (c *compiler) leaving(from string) string {
	return fmt.Sprintf("inport == %q && ip4.src == %s && ip4.dst != %s", c.inport(), from, c.project.prefix4().Masked())
}

// wayBy is the policy that leads selected pods to the addresses of an EgressIP that are there. Without any they go nowhere, or, where it
// fails open, there is none.
func (c *compiler) wayBy(s snapshot.Selection) intent.RouterPolicy {
	var hops []string
	for _, l := range s.Links {
		c.link(l, selectionRef(s))
		hops = append(hops, l.Network.Addr().String())
	}
	slices.Sort(hops)
	way := intent.RouterPolicy{Priority: ownership.EgressOut, Match: c.leaving("$" + ownership.EgressSet(c.w.Shard, s.EgressIP))}
	switch {
	case len(hops) > 0:
		way.Action, way.NextHops = "reroute", strings.Join(hops, " ")
	case !s.Open:
		way.Action = "drop"
	}
	return way
}

// link wants the project's end of the way to an egress address. What leaves by it has the link's address, so that projects may use the
// same addresses inside. It names the same holders as the address, and so moves with it.
func (c *compiler) link(l snapshot.Link, by state.Ref) {
	row := func(r intent.Row) { c.in.Row(c.w.Shard, r, by) }
	end := ownership.EgressEnd(c.w.Shard, l.Address)
	mine := l.Network.Addr().Next()
	row(intent.RouterPort{
		Name: end, MAC: intent.MAC(end), Network: netip.PrefixFrom(mine, l.Network.Bits()), Peer: ownership.EgressLink(l.Address, c.w.Shard),
		Holders: ownership.EgressPort(l.Address),
	})
	row(intent.PortNAT{Port: end, External: mine, Logical: netip.PrefixFrom(netip.IPv4Unspecified(), 0)})
}

// keepRest lets pods that no EgressIP selects leave as ever, and others not at all: a pod that nobody has looked at yet might be one that
// must not be seen with another address.
func (c *compiler) keepRest(free []netip.Addr) {
	by, way := c.project.ref(), c.project.way
	row := func(r intent.Row) { c.in.Row(c.w.Shard, r, by) }
	set := "$" + ownership.FreeSet(c.w.Shard)
	row(intent.AddressSet{Name: ownership.FreeSet(c.w.Shard), Addresses: list(free)})
	row(intent.Reroute(ownership.EgressFree, c.leaving(set), way.Gateway).Row())
	row(c.onLink(ownership.EgressFreeLink, fmt.Sprintf("ip4.src == %s && ip4.dst == %s", set, way.Prefix.Masked())).Row())
	row(intent.Drop(ownership.EgressRest, c.leaving(c.project.prefix4().Masked().String())).Row())
}
