package compile

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ipfamily"
	"github.com/sallyport/sallyport/internal/model/match"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/snapshot"
	"github.com/sallyport/sallyport/internal/model/state"
)

// Pods of the management VPC leave through their nodes: Kube-OVN's policies, one for each node, reroute them there. A
// policy of an EgressIP has precedence over these, but not over Kube-OVN's policies for packets to nodes and to subnets.

// emitManagementEgress adds what EgressIPs need in the management VPC besides their policies.
func (c *compiler) emitManagementEgress(redirected redirectedPods) {
	f := c.familyOf(nil)
	c.redirectedPods = slices.SortedFunc(maps.Keys(redirected.egressIPs), netip.Addr.Compare)
	c.emitDestinationSets(f)
	if !redirected.closes {
		return
	}
	for name, addresses := range map[string][]netip.Addr{
		ownership.FailClosedPodSet(c.w.Shard): redirected.closed,
		ownership.ClassifiedPodSet(c.w.Shard): c.w.PodAddresses,
	} {
		c.out.AddRow(c.w.Shard, intent.AddressSet{Name: name, Addresses: joinAddresses(addresses)}, c.project.ref())
	}
	for _, on := range c.listPodSubnets(f) { // any of them may get a pod that an EgressIP selects
		on.emitManagementFailClosed(f)
		on.emitUnclassifiedDrop(f)
	}
}

// emitDestinationSets adds the address sets of destinations inside the cluster, and of those for which pods use egress
// addresses.
func (c *compiler) emitDestinationSets(f ipfamily.Family) {
	c.out.AddRow(c.w.Shard, intent.AddressSet{
		Name:      ownership.OutsideAddressSet(c.w.Shard),
		Addresses: joinPrefixes(f, subtractPrefixes([]netip.Prefix{f.Everything()}, c.servicePrefixes())),
	}, c.project.ref())
	c.out.AddRow(c.w.Shard, intent.AddressSet{
		Name: ownership.InsideAddressSet(c.w.Shard),
		Addresses: joinPrefixes(f, c.servicePrefixes(), c.w.Management.InsidePrefixes,
			internalByFamily[f].notRouted),
	}, c.project.ref())
}

// servicePrefixes returns the prefixes of Services and of the pods themselves. Kube-OVN has policies for the other
// destinations inside the cluster, such as other Subnets.
func (c *compiler) servicePrefixes() []netip.Prefix {
	return append(c.project.Prefixes[:len(c.project.Prefixes):len(c.project.Prefixes)], c.w.Config.ClusterPrefixes...)
}

// emitManagementFailClosed drops the packets of pods whose EgressIP fails closed, below the policy that redirects them.
// northd ignores that policy while the router has no port for its next hop, and Kube-OVN's policies would apply.
func (c *compiler) emitManagementFailClosed(f ipfamily.Family) {
	c.out.AddRow(c.w.Shard, intent.DropPolicy(ownership.ManagementFailClosed,
		c.matchEgress(match.AddressSet(f, ownership.FailClosedPodSet(c.w.Shard)))).ToRouterPolicy(), c.project.ref())
}

// emitUnclassifiedDrop drops packets to the outside of pods that are not classified yet: an EgressIP that fails closed
// may select them. A router policy could not do it: the other pods have to reach Kube-OVN's policies, and a policy can't
// match what is not in a set. So it is done where packets leave the switch to the router.
func (c *compiler) emitUnclassifiedDrop(f ipfamily.Family) {
	row := func(r intent.Row) { c.out.AddRow(c.w.Shard, r, c.project.ref()) }
	port := c.routerSwitchPort()
	group := ownership.SourceRangePortGroup(port)
	classified, inside := ownership.ClassifiedPodSet(c.w.Shard), ownership.InsideAddressSet(c.w.Shard)
	row(intent.PortGroup{Name: group, Ports: port})
	rule := func(priority int, packets match.Expr, action string) {
		row(intent.ACL{
			PortGroup: group, Direction: intent.ToLport, Priority: priority, Action: action,
			Match: match.All(match.OutPort(port), packets).String(),
		})
	}
	rule(ownership.UnclassifiedPodPriority+1, match.From(match.AddressSet(f, classified)), "pass")
	rule(ownership.UnclassifiedPodPriority+1, match.To(match.AddressSet(f, inside)), "pass")
	rule(ownership.UnclassifiedPodPriority, match.From(match.Prefix(c.project.prefix(f).Masked())), "drop")
}

// emitNodeReturn makes replies of redirected pods leave through the node through which the connection came in. Such a
// connection comes from Kube-OVN's own router port, and its replies get a mark. The mark leads them through the hairpin
// port to a port of their own, where the policies of EgressIPs do not apply, and Kube-OVN's policies do. The rows do not
// depend on the number of pods. It reports whether there are any.
func (c *compiler) emitNodeReturn() bool {
	if c.w.Management == nil || !c.hasRedirectedPods() || c.w.Engine.MissingCapabilities != "" ||
		!c.w.Engine.RouterPorts[c.internalPortName()] {
		return false
	}
	row := func(r intent.Row) { c.out.AddRow(c.w.Shard, r, c.nodeReturnRef()) }
	f, port := c.familyOf(nil), ownership.NodeReturnRouterPort(c.w.Shard, c.subnetName())
	mac := intent.DeriveMAC(port)
	network, nextHop := c.nodeReturnNetwork(f)
	row(intent.LogicalRouterPort{Name: port, MAC: mac, Network: network})
	row(intent.LogicalSwitchPort{
		Switch: c.subnetName(), Name: ownership.NodeReturnSwitchPort(c.w.Shard, c.subnetName()), RouterPort: port,
	})
	row(intent.StaticMACBinding{
		Port: ownership.HairpinRouterPort(c.w.Shard, c.subnetName()), Address: nextHop, MAC: mac,
	})
	c.emitRouterPolicy(intent.ReroutePolicy(ownership.ReturnReply, match.All(match.InPort(c.internalPortName()),
		match.Marked(ownership.NodeReturnMark)), nextHop), c.nodeReturnRef())
	group := ownership.SourceRangePortGroup(c.routerSwitchPort())
	c.out.AddRow(c.w.Shard, intent.PortGroup{Name: group, Ports: c.routerSwitchPort()}, c.project.ref())
	c.emitRouterLabel(group, true, row)
	c.emitNodeReturnMarks(f, mac, row)
	return true
}

// hasRedirectedPods reports whether pods of the subnet use egress addresses or floating IPs, or will as soon as they
// exist.
func (c *compiler) hasRedirectedPods() bool {
	return slices.ContainsFunc(c.redirectedPods, c.project.owns) || c.hasEgressIPs() && (c.subnet == nil ||
		slices.ContainsFunc(c.w.Selections, func(s snapshot.Selection) bool {
			return slices.Contains(s.Subnets, c.subnet.Name)
		}))
}

// emitNodeReturnMarks adds the QoS rows that mark the replies, as emitMarkQoS does for those to networks.
func (c *compiler) emitNodeReturnMarks(f ipfamily.Family, mac string, row func(intent.Row)) {
	mark := func(priority int, packets match.Expr, mark int) { row(c.newMark(priority, packets, mark)) }
	redirected := ownership.RedirectedPodSet(c.w.Shard)
	row(intent.AddressSet{Name: redirected, Addresses: joinAddresses(c.redirectedPods)})
	mark(120, match.All(match.InPort(ownership.HairpinSwitchPort(c.w.Shard, c.subnetName())),
		match.Marked(ownership.NodeReturnMark)), 0)
	mark(110, match.ToMAC(mac), ownership.ForgedMark)
	from := match.From(match.AddressSet(f, redirected))
	mark(99, match.All(from, match.To(match.AddressSet(f, ownership.InsideAddressSet(c.w.Shard)))), 0)
	mark(98, match.All(match.Tracked(), match.Reply(), match.Labelled(ownership.DefaultNetworkLabel), from),
		ownership.NodeReturnMark)
	mark(90, match.Marked(ownership.NodeReturnMark), 0)
}

// nodeReturnRef is the origin of the rows for replies through nodes.
func (c *compiler) nodeReturnRef() state.Ref {
	return state.Ref{Kind: "ReturnPath", Namespace: c.w.Shard, Name: "nodes"}
}
