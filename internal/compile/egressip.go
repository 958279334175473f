package compile

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ipfamily"
	"github.com/sallyport/sallyport/internal/model/match"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/snapshot"
	"github.com/sallyport/sallyport/internal/model/state"
)

// redirectedPods are the pods that EgressIPs redirect.
type redirectedPods struct {
	egressIPs map[netip.Addr]string // the EgressIP of each pod
	closed    []netip.Addr          // the pods that must not use the default egress
	closes    bool                  // an EgressIP fails closed, perhaps without pods so far
}

// emitEgressIPs redirects pods that an EgressIP selects to its addresses.
func (c *compiler) emitEgressIPs() {
	p := c.project
	if !c.hasEgressIPs() || p.defaultNetwork == nil && c.w.Management == nil || c.w.Engine.RouterPorts == nil {
		return
	}
	redirected := c.emitSelections()
	c.selected = redirected
	switch {
	case c.w.Management != nil:
		c.emitManagementEgress(redirected)
	case redirected.closes:
		c.emitUnselectedEgress(slices.DeleteFunc(slices.Clone(c.w.PodAddresses), func(a netip.Addr) bool {
			return redirected.egressIPs[a] != ""
		}))
	}
}

// emitSelections adds the address set and the policy of each EgressIP. A pod that several EgressIPs select uses the
// addresses of the oldest.
func (c *compiler) emitSelections() redirectedPods {
	out := redirectedPods{egressIPs: map[netip.Addr]string{}}
	for _, s := range sortSelections(c.w.Selections) {
		pods := c.excludeSelected(s, out.egressIPs)
		policy := c.buildEgressIPPolicy(s)
		if policy.Action == "" {
			continue // fails open: its pods use the default egress
		}
		for _, a := range pods {
			out.egressIPs[a] = s.EgressIP
		}
		if !s.FailOpen {
			out.closes, out.closed = true, append(out.closed, pods...)
		}
		c.out.AddRow(c.w.Shard, intent.AddressSet{
			Name:      ownership.EgressIPPodSet(c.w.Shard, s.EgressIP),
			Addresses: joinAddresses(pods),
		}, selectionRef(s))
		for _, on := range c.listSelectedSubnets(s) {
			policy.Match = on.matchEgress(match.AddressSet(c.familyOf(nil),
				ownership.EgressIPPodSet(c.w.Shard, s.EgressIP))).String()
			c.out.AddRow(c.w.Shard, policy, selectionRef(s))
		}
	}
	return out
}

// sortSelections sorts selections by the age of their EgressIPs.
func sortSelections(list []snapshot.Selection) []snapshot.Selection {
	return sortByAge(list, func(s snapshot.Selection) snapshot.Meta {
		return snapshot.Meta{Name: s.EgressIP, Created: s.Created}
	})
}

// listSelectedSubnets returns a compiler for the VPC's subnet, and in the management VPC for each other subnet of a
// namespace or a pod that an EgressIP selects.
func (c *compiler) listSelectedSubnets(s snapshot.Selection) []*compiler {
	return slices.DeleteFunc(c.listPodSubnets(c.familyOf(nil)), func(on *compiler) bool {
		return on.subnet != nil && !slices.Contains(s.Subnets, on.subnet.Name) &&
			!slices.ContainsFunc(s.Pods, on.project.owns)
	})
}

// excludeSelected returns the pods that an EgressIP selects and no older one does. It adds a note (an event) about the
// others.
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
				"pods of VPC %s are also selected by the older EgressIP %s and use its addresses; "+
					"change the selectors so that only one selects them",
				c.w.Shard, name)},
		})
	}
	return pods
}

// hasEgressIPs reports whether EgressIPs select pods of the VPC. They do so until the last pod of a project that is being
// deleted has terminated: Kube-OVN removes the default route and the SNAT rule in its own time, and with only these left
// the pods would leave with the project's address.
func (c *compiler) hasEgressIPs() bool {
	p := c.project
	terminates := p != nil && p.accepted.OK() && p.Deleting && c.w.Engine.UsedIPs > 0
	return len(c.w.Selections) > 0 && (p.isActive() || terminates) &&
		p.prefix(c.familyOf(nil)).IsValid() && !c.isVPCTerminating()
}

func selectionRef(s snapshot.Selection) state.Ref {
	return state.Ref{Kind: string(intent.EgressIP), Name: s.EgressIP}
}

// matchEgress returns the match for packets from a set of pods to the outside.
func (c *compiler) matchEgress(from match.Operand) match.Expr {
	f := match.FamilyOf(from)
	outside := match.NotTo(match.Prefix(c.project.prefix(f).Masked()))
	if c.w.Management != nil {
		outside = match.To(match.AddressSet(f, ownership.OutsideAddressSet(c.w.Shard)))
	}
	return match.All(match.InPort(c.internalPortName()), match.From(from), outside)
}

// egressIPPriority returns the priority of the policies of EgressIPs.
func (c *compiler) egressIPPriority() int {
	if c.w.Management != nil {
		return ownership.ManagementEgressIP
	}
	return ownership.EgressIPSelected
}

// buildEgressIPPolicy returns the policy that reroutes selected pods to the available addresses of an EgressIP, without
// its match. If no address is available it drops their packets, or has no action if the EgressIP fails open.
func (c *compiler) buildEgressIPPolicy(s snapshot.Selection) intent.LogicalRouterPolicy {
	var nextHops []string
	for _, l := range s.Links {
		c.emitEgressLink(l, selectionRef(s))
		nextHops = append(nextHops, l.PeerNetwork.Addr().String())
	}
	slices.Sort(nextHops)
	policy := intent.LogicalRouterPolicy{Priority: c.egressIPPriority()}
	switch {
	case len(nextHops) > 0:
		policy.Action, policy.NextHops = "reroute", strings.Join(nextHops, " ")
	case !s.FailOpen:
		policy.Action = "drop"
	}
	return policy
}

// emitEgressLink adds the VPC's end of the link to an egress address. Packets leave it with the link's address, so VPCs
// may use overlapping internal prefixes. The port uses the HA_Chassis_Group of the address, and so moves with
// it.
func (c *compiler) emitEgressLink(l snapshot.EgressLink, by state.Ref) {
	row := func(r intent.Row) { c.out.AddRow(c.w.Shard, r, by) }
	end := ownership.VPCEgressLinkPort(c.w.Shard, l.Address)
	local := l.PeerNetwork.Addr().Next()
	row(intent.LogicalRouterPort{
		Name: end, MAC: intent.DeriveMAC(end), Network: netip.PrefixFrom(local, l.PeerNetwork.Bits()),
		Peer:           ownership.EgressLinkPort(l.Address, c.w.Shard),
		HAChassisGroup: ownership.EgressRouterPort(l.Address),
	})
	row(intent.GatewayPortSNAT{
		GatewayPort: end, External: local, Logical: ipfamily.Of(l.Address).Everything(),
	})
}

// emitUnselectedEgress allows default egress for the given pods only and drops everything else: a pod that is not known
// yet might be one that must not appear with another address.
func (c *compiler) emitUnselectedEgress(unselected []netip.Addr) {
	by, network := c.project.ref(), c.project.defaultNetwork
	row := func(r intent.Row) { c.out.AddRow(c.w.Shard, r, by) }
	set := match.AddressSet(network.Family(), ownership.UnselectedPodSet(c.w.Shard))
	row(intent.AddressSet{Name: ownership.UnselectedPodSet(c.w.Shard), Addresses: joinAddresses(unselected)})
	row(intent.ReroutePolicy(ownership.EgressUnselected, c.matchEgress(set), network.Gateway).ToRouterPolicy())
	row(c.onLinkPolicy(ownership.EgressUnselectedOnLink, network.Family(),
		match.All(match.From(set), match.To(match.Prefix(network.Prefix.Masked())))).ToRouterPolicy())
	row(intent.DropPolicy(ownership.EgressFailClosed,
		c.matchEgress(match.Prefix(c.project.prefixOn(network).Masked()))).ToRouterPolicy())
}
