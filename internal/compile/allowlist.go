package compile

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// emitAllowLists wants the rules that keep a project's connections with the outside to its allow-lists. They are where
// connections are tracked, at the ports of its pods: packets of the other direction pass without being looked at, and
// so replies do. What pods send each other does not come from the router, and is for the project's own prefix.
func (c *compiler) emitAllowLists() {
	p := c.project
	if !p.isActive() || c.w.Management != nil || !p.ipv4Prefix().IsValid() {
		return
	}
	p.partly = firstProblem(checkAllowList(p.IngressAllowList, "ingress"), checkAllowList(p.EgressAllowList, "egress"))
	if c.isVPCTerminating() || !c.w.Engine.RouterPorts[c.internalPortName()] || !p.IngressAllowList.RestrictsAny() &&
		!p.EgressAllowList.RestrictsAny() {
		return
	}
	row := func(r intent.Row) { c.out.AddRow(c.w.Shard, r, p.ref()) }
	group, legs := ownership.SourceRangePortGroup(c.routerSwitchPort()), c.activeReturnPorts()
	row(intent.PortGroup{Name: group, Ports: c.routerSwitchPort()})
	if len(legs) == 0 { // OVN tracks connections of a switch that has such a rule; legs have some
		row(intent.ACL{
			PortGroup: group, Direction: intent.ToLport, Tier: ownership.LabelLastTier, Action: "allow-related",
			Match: fmt.Sprintf("inport == %q && ip", c.routerSwitchPort()),
		})
	}
	if p.IngressAllowList.RestrictsAny() {
		c.emitIngressACLs(group, legs, row)
	}
	if p.EgressAllowList.RestrictsAny() {
		c.emitEgressACLs(group, legs, row)
	}
}

// emitIngressACLs wants the rules on what comes from the router: by its usual port, and by the legs of other networks.
func (c *compiler) emitIngressACLs(group string, legs []*returnPort, row func(intent.Row)) {
	set := ownership.AllowListAddressSet(c.w.Shard, "ingress")
	own := []netip.Prefix{c.project.ipv4Prefix().Masked()}
	row(intent.AddressSet{Name: set, Addresses: joinPrefixes(c.project.IngressAllowList.Prefixes,
		c.projectExternalIPs(), own)})
	doors := []string{c.routerSwitchPort()}
	for _, l := range legs {
		doors = append(doors, l.switchPort)
	}
	for _, door := range doors {
		row(intent.ACL{
			PortGroup: group, Direction: intent.ToLport, Priority: ownership.AllowListPriority + 1, Action: "pass",
			Match: fmt.Sprintf("inport == %q && ip4.src == $%s", door, set),
		})
		row(intent.ACL{
			PortGroup: group, Direction: intent.ToLport, Priority: ownership.AllowListPriority, Action: "drop",
			Match: fmt.Sprintf("inport == %q && ip4", door),
		})
	}
}

// multicastAndBroadcast are the addresses that stay on the switch: multicast and broadcast.
var multicastAndBroadcast = []netip.Prefix{
	netip.MustParsePrefix("224.0.0.0/4"),
	netip.MustParsePrefix("255.255.255.255/32"),
}

// emitEgressACLs wants the rule on what pods send to the outside. Addresses of Services are translated only after it,
// so those of the cluster pass. Replies that turn back into their leg come from the router, where nobody tracks them;
// they have passed at their pod.
func (c *compiler) emitEgressACLs(group string, legs []*returnPort, row func(intent.Row)) {
	set := ownership.AllowListAddressSet(c.w.Shard, "egress")
	own := []netip.Prefix{c.project.ipv4Prefix().Masked()}
	row(intent.AddressSet{Name: set, Addresses: joinPrefixes(c.project.EgressAllowList.Prefixes, c.projectExternalIPs(),
		c.w.Config.ClusterPrefixes, own, multicastAndBroadcast)})
	row(intent.ACL{
		PortGroup: group, Direction: intent.FromLport, Priority: ownership.AllowListPriority + 1, Action: "pass",
		Match: "ip4.dst == $" + set,
	})
	row(intent.ACL{
		PortGroup: group,
		Direction: intent.FromLport,
		Priority:  ownership.AllowListPriority,
		Action:    "drop",
		Match:     "ip4",
	})
	if len(legs) > 0 {
		row(intent.ACL{
			PortGroup: group, Direction: intent.FromLport, Priority: ownership.AllowListPriority + 1, Action: "pass",
			Match: fmt.Sprintf("inport == %q && ip", ownership.HairpinSwitchPort(c.w.Shard, c.subnetName())),
		})
	}
}

// activeReturnPorts are the legs that have rules.
func (c *compiler) activeReturnPorts() []*returnPort {
	return slices.DeleteFunc(c.planReturnPorts(), func(l *returnPort) bool {
		return !c.w.Engine.RouterPorts[l.externalPort]
	})
}

// projectExternalIPs are the external addresses of the project, by which its pods reach each other from outside.
func (c *compiler) projectExternalIPs() (out []netip.Prefix) {
	add := func(a netip.Addr) {
		if a.Is4() {
			out = append(out, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	for _, x := range c.usedExternals() {
		add(c.w.Engine.OvnEips[c.externalPortName(x.Subnet)].Address)
	}
	for _, e := range c.eips {
		if e.isWanted() {
			add(e.address)
		}
	}
	return out
}

// checkAllowList is the finding that an allow-list can't be read, and so allows nobody.
func checkAllowList(l snapshot.AllowList, what string) intent.Finding {
	if l.Malformed == "" {
		return intent.Finding{}
	}
	return intent.Finding{Reason: intent.AllowListMalformed, Message: fmt.Sprintf(
		"the %s allow-list allows nobody, because it can't be read: %s; ask the operator to correct it", what,
		l.Malformed)}
}

// joinPrefixes are IPv4 prefixes in the order of their texts, with spaces between. One address is written as such: OVN
// takes it for the same.
func joinPrefixes(lists ...[]netip.Prefix) string {
	var out []string
	for _, p := range slices.Concat(lists...) {
		switch {
		case !p.Addr().Is4():
		case p.IsSingleIP():
			out = append(out, p.Addr().String())
		default:
			out = append(out, p.Masked().String())
		}
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), " ")
}
