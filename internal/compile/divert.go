package compile

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/ownership"
	"github.com/sallyport/sallyport/internal/snapshot"
)

// diversion is pods that leave otherwise than the project does: by another network, with another address, or both. EgressServices and
// EgressRoutes are such, and so are Services with the annotation of the former.
type diversion struct {
	key                         intent.ObjectKey
	meta                        snapshot.Meta
	accepted, resolved, waiting intent.Finding

	pods    []netip.Addr
	set     string             // the name of their address set
	on      *snapshot.External // by which they leave; nil: not known
	address netip.Addr         // with which; invalid: that of the router's port
	ways    []way
	rank    int      // among translations: the higher one applies
	service *service // that asked for it by annotation, and whose conditions are its own; nil: it has some itself
}

// way is where a diversion leads to.
type way struct {
	to       netip.Prefix // invalid: everywhere outside
	priority int          // of the way by the gateway; neighbours have another
	near     int
}

// The ranks of translations.
const (
	rankBehind = 10
	rankRoute  = 20
)

func (d *diversion) wanted() bool { return d.accepted.OK() && d.on != nil && !d.meta.Deleting }

// resolveDiversions gives each EgressService and each EgressRoute its network, its address and its pods.
func (c *compiler) resolveDiversions() {
	behind := map[netip.Addr]bool{}
	for _, s := range c.egressServices() {
		d := c.leaveBehind(s)
		d.pods = slices.DeleteFunc(d.pods, func(a netip.Addr) bool { return behind[a] }) // a pod of several has the oldest
		if d.wanted() {
			for _, a := range d.pods {
				behind[a] = true
			}
		}
		if d.service != nil && !d.accepted.OK() {
			d.waits(intent.Finding{Reason: intent.NoEgress, Message: "its pods can't leave with its address: " + d.accepted.Message})
		}
		c.diversions = append(c.diversions, d)
	}
	same, led := map[netip.Prefix]int{}, destinations{}
	for _, r := range inOrder(c.w.EgressRoutes, func(r snapshot.EgressRoute) snapshot.Meta { return r.Meta }) {
		d := c.leaveTo(r, same)
		if d.wanted() {
			d.accepted = led.add(r)
		}
		c.diversions = append(c.diversions, d)
	}
}

// mostDestinations is how many destinations the EgressRoutes of a namespace may have together: each is two policies of its router, or a rule on
// every node that its pods run on.
const mostDestinations = 256

// destinations are how many destinations EgressRoutes have, by namespace.
type destinations map[string]int

// add adds those of an EgressRoute, if there may be so many.
func (n destinations) add(r snapshot.EgressRoute) intent.Finding {
	if n[r.Namespace]+len(r.Destinations) > mostDestinations {
		return intent.Finding{Reason: intent.TooManyRoutes, Message: fmt.Sprintf(
			"older EgressRoutes of namespace %s have %d destinations, and together there may be %d; delete some, or use shorter prefixes",
			r.Namespace, n[r.Namespace], mostDestinations)}
	}
	n[r.Namespace] += len(r.Destinations)
	return intent.Finding{}
}

// diverts says whether pods leave otherwise than the project does, or should.
func (c *compiler) diverts() bool {
	return c.divertible().OK() && !c.vpcLeaves() && slices.ContainsFunc(c.diversions, (*diversion).wanted)
}

// divertible says whether pods can leave otherwise.
func (c *compiler) divertible() intent.Finding {
	if wrong := c.member(); !wrong.OK() {
		return wrong
	}
	p := c.project
	switch {
	case !p.prefix4().IsValid():
		return onlyIPv6
	case p.way != nil && c.bySource(p.way):
		return intent.Finding{Reason: intent.NeedsConnection, Message: fmt.Sprintf(
			"network %s leads replies back by the pod's address (returnPath Source), and they would be led away, too; "+
				"ask the operator for returnPath Connection, and for OVN 24.09 or later", p.way.Network)}
	default:
		return intent.Finding{}
	}
}

// behind is a request for the pods behind a Service, by an EgressService or by the Service itself.
type behind struct {
	snapshot.EgressService
	service *service // nil: by an EgressService
}

// egressServices are the requests by age. An EgressService comes before the annotation of its Service.
func (c *compiler) egressServices() []behind {
	var all []behind
	asked := map[string]bool{}
	for _, s := range c.w.EgressServices {
		all = append(all, behind{EgressService: s})
		asked[s.Name] = !s.Deleting
	}
	for _, s := range c.services {
		if s.Leaves && !asked[s.Name] && s.Namespace == c.w.Shard {
			all = append(all, behind{snapshot.EgressService{Meta: s.Meta}, s})
		}
	}
	return inOrder(all, func(b behind) snapshot.Meta { return b.Meta })
}

// leaveBehind is the diversion of pods behind a Service.
func (c *compiler) leaveBehind(b behind) *diversion {
	d := &diversion{
		key: intent.ObjectKey{Kind: intent.EgressService, Namespace: b.Namespace, Name: b.Name}, meta: b.Meta, service: b.service,
		set: ownership.BehindSet(c.w.Shard, b.Name), ways: []way{{priority: ownership.EgressBehind, near: ownership.EgressNear}}, rank: rankBehind,
	}
	if b.service != nil {
		d.key = b.service.key
	}
	if d.accepted = c.divertible(); !d.accepted.OK() {
		return d
	}
	i := slices.IndexFunc(c.services, func(s *service) bool { return s.key.Namespace == b.Namespace && s.key.Name == b.Name })
	if i < 0 {
		d.resolved = intent.Finding{Reason: intent.ServiceNotFound, Message: fmt.Sprintf(
			"there is no Service %s of type LoadBalancer of ours in namespace %s; create it, or give this the name of one", b.Name, b.Namespace)}
		return d
	}
	s := c.services[i]
	if !s.wanted() {
		d.waiting = intent.Finding{Reason: intent.WaitForEIp, Message: fmt.Sprintf("Service %s has no address yet; look at its conditions", s.Name)}
		return d
	}
	for _, e := range s.Endpoints {
		if c.project.prefix4().Contains(e.Address) {
			d.pods = append(d.pods, e.Address)
		}
	}
	d.on, d.resolved = c.networkBehind(b, s)
	switch {
	case d.on == nil || b.ByNetwork:
	case d.on.Subnet != s.eip.on.Subnet:
		d.accepted = intent.Finding{Reason: intent.AddressElsewhere, Message: fmt.Sprintf(
			"address %s is of network %s and would be dropped on %s; leave out spec.network, or use sourceIPBy Network",
			s.eip.address, s.eip.on.Network, d.on.Network)}
	default:
		d.address = s.eip.address
	}
	return d
}

// networkBehind is the network by which pods behind a Service leave: the one that is named, of which the address is preferred.
func (c *compiler) networkBehind(b behind, s *service) (*snapshot.External, intent.Finding) {
	if b.Network == "" {
		return s.eip.on, intent.Finding{}
	}
	found, wrong := c.subnetsOf("", b.Network, b.Namespace)
	if wrong.Reason == intent.NetworkNotFound {
		found, wrong = c.subnetsOf(b.Network, "", b.Namespace)
	}
	if !wrong.OK() {
		return nil, wrong
	}
	return pick(found,
		func(x *snapshot.External) bool { return x.Subnet == s.eip.on.Subnet },
		func(x *snapshot.External) bool { return c.ported(x.Subnet) },
	), wrong
}

// leaveTo is the diversion of an EgressRoute. same counts how many have had a destination.
func (c *compiler) leaveTo(r snapshot.EgressRoute, same map[netip.Prefix]int) *diversion {
	d := &diversion{
		key: intent.ObjectKey{Kind: intent.EgressRoute, Namespace: r.Namespace, Name: r.Name}, meta: r.Meta,
		set: ownership.RouteSet(c.w.Shard, r.Name), rank: rankRoute,
	}
	if d.accepted = first(c.divertible(), malformed(r.Malformed), onlyIPv4(r.Destinations)); !d.accepted.OK() {
		return d
	}
	found, wrong := c.subnetsOf(r.Type, r.Network, r.Namespace)
	if d.resolved = wrong; !wrong.OK() {
		return d
	}
	for _, p := range r.Pods {
		if c.project.prefix4().Contains(p.Address) { // and not of a node
			d.pods = append(d.pods, p.Address)
		}
	}
	for _, to := range r.Destinations {
		rank := same[to]
		if rank >= ownership.SameRoutes {
			d.accepted = intent.Finding{Reason: intent.TooManyRoutes, Message: fmt.Sprintf(
				"%d older EgressRoutes have destination %s; put their pods together in one", rank, to)}
			return d
		}
		if !r.Deleting {
			same[to]++
		}
		priority := ownership.RouteWay(to.Bits(), rank)
		d.ways = append(d.ways, way{to: to, priority: priority, near: priority + 1})
	}
	d.on = pick(found, func(x *snapshot.External) bool { return c.ported(x.Subnet) })
	return d
}

// onlyIPv4 says whether a destination can't be reached by an external network of Kube-OVN's.
func onlyIPv4(destinations []netip.Prefix) intent.Finding {
	for _, to := range destinations {
		if !to.Addr().Is4() {
			return intent.Finding{Reason: intent.Malformed, Message: fmt.Sprintf(
				"destination %s is not an IPv4 prefix such as 198.51.100.0/24; there are no others for projects yet", to)}
		}
	}
	return intent.Finding{}
}

// divert wants the rows of diversions whose network the router is connected to.
func (c *compiler) divert() {
	for _, d := range c.diversions {
		if !d.wanted() {
			continue
		}
		if why := c.unconnected(d.on); !why.OK() {
			d.waits(why)
			continue
		}
		c.bounce()
		c.lead(d)
		c.rename(d)
	}
}

// unconnected is why a network can't be left by yet.
func (c *compiler) unconnected(x *snapshot.External) intent.Finding {
	switch {
	case c.vpcLeaves() || c.w.Engine.Ports == nil:
		return intent.Finding{Reason: intent.WaitForEngine, Message: fmt.Sprintf("router %s is not there yet", c.w.Shard)}
	case c.w.Engine.OvnEips[c.port(x.Subnet)].Deleting:
		return beingDeleted(intent.OvnEip, c.port(x.Subnet))
	default:
		return c.unported(x.Subnet)
	}
}

// waits lets a diversion wait, or the Service that asked for it.
func (d *diversion) waits(why intent.Finding) {
	waiting := &d.waiting
	if d.service != nil {
		waiting = &d.service.waiting
	}
	*waiting = first(*waiting, why)
}

// lead wants the policies that lead the pods of a diversion to its network's gateway, and to hosts on the network itself.
func (c *compiler) lead(d *diversion) {
	row := func(r intent.Row) { c.in.Row(c.w.Shard, r, d.key.Ref()) }
	row(intent.AddressSet{Name: d.set, Addresses: list(d.pods)})
	near := d.on.Prefix.Masked()
	for _, w := range d.ways {
		match, there := c.leaving("$"+d.set), near
		if w.to.IsValid() {
			match += " && ip4.dst == " + w.to.String()
			there = overlap(w.to, near)
		}
		row(intent.Reroute(w.priority, match, d.on.Gateway).Row())
		if there.IsValid() {
			row(c.onLink(w.near, fmt.Sprintf("ip4.src == $%s && ip4.dst == %s", d.set, there)).Row())
		}
	}
}

// rename wants the translation of what a diversion leads out: the project's own is of its default network alone.
func (c *compiler) rename(d *diversion) {
	if c.isDefault(d.on) && !d.address.IsValid() {
		return
	}
	match := "ip4.src == $" + d.set
	var to []string
	for _, w := range d.ways {
		if w.to.IsValid() {
			to = append(to, w.to.String())
		}
	}
	if slices.Sort(to); len(to) > 0 {
		match += " && ip4.dst == {" + strings.Join(to, ", ") + "}"
	}
	c.in.Row(c.w.Shard, intent.PortNAT{
		Port: c.port(d.on.Subnet), External: c.seenAs(d), Logical: netip.PrefixFrom(netip.IPv4Unspecified(), 0), Match: match, Priority: d.rank,
	}, d.key.Ref())
}

// seenAs is the address with which the pods of a diversion leave.
func (c *compiler) seenAs(d *diversion) netip.Addr {
	return cmp.Or(d.address, c.w.Engine.OvnEips[c.port(d.on.Subnet)].Address)
}

// overlap is what two prefixes have in common: the longer one, or nothing.
func overlap(a, b netip.Prefix) netip.Prefix {
	switch {
	case !a.Overlaps(b):
		return netip.Prefix{}
	case a.Bits() > b.Bits():
		return a
	default:
		return b
	}
}

func (d *diversion) verdict(c *compiler) intent.Verdict {
	facts := intent.DiversionFacts{}
	if d.wanted() {
		facts = intent.DiversionFacts{Network: d.on.Subnet, Address: c.seenAs(d), Pods: len(d.pods)}
	}
	return intent.Verdict{
		Object: d.key, Generation: d.meta.Generation, Facts: facts,
		Accepted: d.accepted, Resolved: d.resolved, Waiting: first(deleting(d.meta.Deleting), d.waiting),
	}
}
