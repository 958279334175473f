package compile

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/ownership"
	"github.com/sallyport/sallyport/internal/snapshot"
)

// keepToAllowLists wants the rules that keep a project's connections with the outside to its allow-lists. They are where connections are
// tracked, at the ports of its pods: packets of the other direction pass without being looked at, and so replies do. What pods send each
// other does not come from the router, and is for the project's own prefix.
func (c *compiler) keepToAllowLists() {
	p := c.project
	if !p.alive() || c.w.Management != nil || !p.prefix4().IsValid() {
		return
	}
	p.partly = first(unreadable(p.Ingress, "ingress"), unreadable(p.Egress, "egress"))
	if c.vpcLeaves() || !c.w.Engine.Ports[c.inport()] || !p.Ingress.Restricts() && !p.Egress.Restricts() {
		return
	}
	row := func(r intent.Row) { c.in.Row(c.w.Shard, r, p.ref()) }
	group, legs := ownership.RangeGroup(c.socket()), c.standing()
	row(intent.PortGroup{Name: group, Ports: c.socket()})
	if len(legs) == 0 { // OVN tracks connections of a switch that has such a rule; legs have some
		row(intent.Rule{
			Group: group, Direction: intent.OutOfSwitch, Tier: ownership.LabelLastTier, Action: "allow-related",
			Match: fmt.Sprintf("inport == %q && ip", c.socket()),
		})
	}
	if p.Ingress.Restricts() {
		c.keepIngress(group, legs, row)
	}
	if p.Egress.Restricts() {
		c.keepEgress(group, legs, row)
	}
}

// keepIngress wants the rules on what comes from the router: by its usual port, and by the legs of other networks.
func (c *compiler) keepIngress(group string, legs []*leg, row func(intent.Row)) {
	set := ownership.AllowedSet(c.w.Shard, "ingress")
	own := []netip.Prefix{c.project.prefix4().Masked()}
	row(intent.AddressSet{Name: set, Addresses: prefixes(c.project.Ingress.Prefixes, c.ownAddresses(), own)})
	doors := []string{c.socket()}
	for _, l := range legs {
		doors = append(doors, l.socket)
	}
	for _, door := range doors {
		row(intent.Rule{
			Group: group, Direction: intent.OutOfSwitch, Priority: ownership.AllowListPriority + 1, Action: "pass",
			Match: fmt.Sprintf("inport == %q && ip4.src == $%s", door, set),
		})
		row(intent.Rule{
			Group: group, Direction: intent.OutOfSwitch, Priority: ownership.AllowListPriority, Action: "drop",
			Match: fmt.Sprintf("inport == %q && ip4", door),
		})
	}
}

// toMany are the addresses that stay on the switch: multicast and broadcast.
var toMany = []netip.Prefix{netip.MustParsePrefix("224.0.0.0/4"), netip.MustParsePrefix("255.255.255.255/32")}

// keepEgress wants the rule on what pods send to the outside. Addresses of Services are translated only after it, so those of the cluster
// pass. Replies that turn back into their leg come from the router, where nobody tracks them; they have passed at their pod.
func (c *compiler) keepEgress(group string, legs []*leg, row func(intent.Row)) {
	set := ownership.AllowedSet(c.w.Shard, "egress")
	own := []netip.Prefix{c.project.prefix4().Masked()}
	row(intent.AddressSet{Name: set, Addresses: prefixes(c.project.Egress.Prefixes, c.ownAddresses(), c.w.Config.Inside, own, toMany)})
	row(intent.Rule{
		Group: group, Direction: intent.IntoSwitch, Priority: ownership.AllowListPriority + 1, Action: "pass",
		Match: "ip4.dst == $" + set,
	})
	row(intent.Rule{Group: group, Direction: intent.IntoSwitch, Priority: ownership.AllowListPriority, Action: "drop", Match: "ip4"})
	if len(legs) > 0 {
		row(intent.Rule{
			Group: group, Direction: intent.IntoSwitch, Priority: ownership.AllowListPriority + 1, Action: "pass",
			Match: fmt.Sprintf("inport == %q && ip", ownership.TurnSwitchPort(c.w.Shard, c.subnet())),
		})
	}
}

// standing are the legs that have rules.
func (c *compiler) standing() []*leg {
	return slices.DeleteFunc(c.legs(), func(l *leg) bool { return !c.w.Engine.Ports[l.outside] })
}

// ownAddresses are the external addresses of the project, by which its pods reach each other from outside.
func (c *compiler) ownAddresses() (out []netip.Prefix) {
	add := func(a netip.Addr) {
		if a.Is4() {
			out = append(out, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	for _, x := range c.used() {
		add(c.w.Engine.OvnEips[c.port(x.Subnet)].Address)
	}
	for _, e := range c.eips {
		if e.wanted() {
			add(e.address)
		}
	}
	return out
}

// unreadable is the finding that an allow-list can't be read, and so allows nobody.
func unreadable(l snapshot.AllowList, what string) intent.Finding {
	if l.Malformed == "" {
		return intent.Finding{}
	}
	return intent.Finding{Reason: intent.AllowListMalformed, Message: fmt.Sprintf(
		"the %s allow-list allows nobody, because it can't be read: %s; ask the operator to correct it", what, l.Malformed)}
}

// prefixes are IPv4 prefixes in the order of their texts, with spaces between. One address is written as such: OVN takes it for the same.
func prefixes(lists ...[]netip.Prefix) string {
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
