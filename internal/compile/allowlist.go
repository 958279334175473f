package compile

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ipfamily"
	"github.com/sallyport/sallyport/internal/model/match"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// emitAllowLists adds the ACLs that restrict a project's external connections to its allow-lists. They apply where
// connections are tracked, at the ports of the pods, so replies pass: packets in the other direction are not matched.
// Traffic between pods does not come from the router, and its destination is the project's own prefix.
func (c *compiler) emitAllowLists() {
	p := c.project
	if !p.isActive() || c.w.Management != nil || len(c.connectedFamilies()) == 0 {
		return
	}
	p.partly = firstProblem(checkAllowList(p.IngressAllowList, "ingress"), checkAllowList(p.EgressAllowList, "egress"))
	restricts := func(f ipfamily.Family) bool {
		return p.IngressAllowList.Restricts(f) || c.egressAllowList(f).Restricts(f)
	}
	if c.isVPCTerminating() || !c.w.Engine.RouterPorts[c.internalPortName()] ||
		!slices.ContainsFunc(c.connectedFamilies(), restricts) {
		return
	}
	row := func(r intent.Row) { c.out.AddRow(c.w.Shard, r, p.ref()) }
	group, returnPorts := ownership.SourceRangePortGroup(c.routerSwitchPort()), c.activeReturnPorts()
	row(intent.PortGroup{Name: group, Ports: c.routerSwitchPort()})
	if len(returnPorts) == 0 { // this ACL makes OVN track connections on the switch; return ports have such ACLs
		row(intent.ACL{
			PortGroup: group, Direction: intent.ToLport, Tier: ownership.LabelLastTier, Action: "allow-related",
			Match: match.All(match.InPort(c.routerSwitchPort()), match.IP()).String(),
		})
	}
	for _, f := range c.connectedFamilies() {
		if p.IngressAllowList.Restricts(f) {
			c.emitIngressACLs(f, group, returnPorts, row)
		}
		if c.egressAllowList(f).Restricts(f) {
			c.emitEgressACLs(f, group, returnPorts, row)
		}
	}
}

// egressAllowList returns the addresses that the project's pods may open connections to. EgressIPs have addresses of one
// family. If one that fails closed selects pods of the project, no pod may leave in the other family: it would have the
// router's address, and a pod that is not known yet may be selected.
func (c *compiler) egressAllowList(f ipfamily.Family) snapshot.AllowList {
	if c.selected.closes && f != c.families[0] {
		return snapshot.AllowList{IsSet: true}
	}
	return c.project.EgressAllowList
}

// emitIngressACLs adds the ACLs for packets from the router, through its usual port and through the return ports.
func (c *compiler) emitIngressACLs(f ipfamily.Family, group string, returnPorts []*returnPort, row func(intent.Row)) {
	set := ownership.AllowListAddressSet(c.w.Shard, "ingress", f)
	own := []netip.Prefix{c.project.prefix(f).Masked()}
	row(intent.AddressSet{Name: set, Addresses: joinPrefixes(f, c.project.IngressAllowList.Prefixes,
		c.projectExternalIPs(), own)})
	switchPorts := []string{c.routerSwitchPort()}
	for _, l := range returnPorts {
		switchPorts = append(switchPorts, l.switchPort)
	}
	for _, port := range switchPorts {
		row(intent.ACL{
			PortGroup: group, Direction: intent.ToLport, Priority: ownership.AllowListPriority + 1, Action: "pass",
			Match: match.All(match.InPort(port), match.From(match.AddressSet(f, set))).String(),
		})
		row(intent.ACL{
			PortGroup: group, Direction: intent.ToLport, Priority: ownership.AllowListPriority, Action: "drop",
			Match: match.All(match.InPort(port), match.OfFamily(f)).String(),
		})
	}
}

// emitEgressACLs adds the ACLs for packets that pods send to the outside. OVN translates Service addresses only after
// these ACLs, so the cluster's prefixes are allowed. Replies that return through the hairpin port come from the router,
// where connections are not tracked; they have already passed the ACLs at their pod.
func (c *compiler) emitEgressACLs(f ipfamily.Family, group string, returnPorts []*returnPort, row func(intent.Row)) {
	set := ownership.AllowListAddressSet(c.w.Shard, "egress", f)
	own := []netip.Prefix{c.project.prefix(f).Masked()}
	row(intent.AddressSet{Name: set, Addresses: joinPrefixes(f, c.egressAllowList(f).Prefixes,
		c.projectExternalIPs(), c.w.Config.ClusterPrefixes, own, internalByFamily[f].notRouted)})
	row(intent.ACL{
		PortGroup: group, Direction: intent.FromLport, Priority: ownership.AllowListPriority + 1, Action: "pass",
		Match: match.To(match.AddressSet(f, set)).String(),
	})
	row(intent.ACL{
		PortGroup: group,
		Direction: intent.FromLport,
		Priority:  ownership.AllowListPriority,
		Action:    "drop",
		Match:     match.OfFamily(f).String(),
	})
	if len(returnPorts) > 0 {
		row(intent.ACL{
			PortGroup: group, Direction: intent.FromLport, Priority: ownership.AllowListPriority + 1, Action: "pass",
			Match: match.All(match.InPort(ownership.HairpinSwitchPort(c.w.Shard, c.subnetName())), match.IP()).String(),
		})
	}
}

// activeReturnPorts returns the return ports whose rows exist.
func (c *compiler) activeReturnPorts() []*returnPort {
	return slices.DeleteFunc(c.planReturnPorts(c.usedExternals()), func(l *returnPort) bool {
		return !c.w.Engine.RouterPorts[l.externalPort]
	})
}

// projectExternalIPs returns the external addresses of the project. Its pods reach each other through them.
func (c *compiler) projectExternalIPs() (out []netip.Prefix) {
	add := func(a netip.Addr) {
		if a.IsValid() {
			out = append(out, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	for _, x := range c.usedExternals() {
		add(c.w.Engine.OvnEips[c.externalPortName(x.Subnet)].Address)
		add(c.secondNetwork(x).Addr())
	}
	for _, e := range c.eips {
		if e.isWanted() {
			add(e.address)
		}
	}
	return out
}

// checkAllowList returns the finding that an allow-list is malformed and therefore allows nothing.
func checkAllowList(l snapshot.AllowList, what string) intent.Finding {
	if l.Malformed == "" {
		return intent.Finding{}
	}
	return intent.Finding{Reason: intent.AllowListMalformed, Message: fmt.Sprintf(
		"the %s allow-list is invalid and allows nothing: %s; ask the operator to correct it", what,
		l.Malformed)}
}

// networksOf returns the prefixes of a family as operands of a match. A single address is written without a prefix
// length, which OVN treats as the same.
func networksOf(f ipfamily.Family, prefixes []netip.Prefix) (out []match.Network) {
	for _, p := range prefixes {
		switch {
		case ipfamily.Of(p.Addr()) != f:
		case p.IsSingleIP():
			out = append(out, match.Addr(p.Addr()))
		default:
			out = append(out, match.Prefix(p.Masked()))
		}
	}
	return out
}

// joinPrefixes formats the prefixes of a family for an Address_Set, sorted as text and separated by spaces.
func joinPrefixes(f ipfamily.Family, lists ...[]netip.Prefix) string {
	var out []string
	for _, n := range networksOf(f, slices.Concat(lists...)) {
		out = append(out, n.String())
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), " ")
}
