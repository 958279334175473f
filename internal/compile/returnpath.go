package compile

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/ownership"
	"github.com/sallyport/sallyport/internal/snapshot"
)

// returnToNetworks makes replies leave by the network that the connection came in on, where that is not the project's default.
func (c *compiler) returnToNetworks() {
	if !c.project.alive() || !c.project.prefix4().IsValid() || c.vpcLeaves() {
		return
	}
	legs, several := c.legs(), c.several()
	for _, f := range c.fips {
		c.returnFIp(f, legs)
	}
	for _, s := range c.services {
		c.returnService(s, legs)
	}
	c.returnDiversions(legs)
	for _, l := range legs {
		l.targets = slices.DeleteFunc(l.targets, func(a netip.Addr) bool { return several[a] })
		c.stand(l)
	}
	if len(legs) > 0 {
		c.turn()
	}
}

// returnFIp lets a FIp wait for the leg of its network, or makes the policies that do without.
func (c *compiler) returnFIp(f *fip, legs []*leg) {
	if _, translated := c.in.Objects[c.key(intent.OvnFip, f.ovnFip)]; !translated || !f.wanted() {
		return
	}
	network := f.eip.on
	if network == nil || c.straight(network) {
		return
	}
	if c.bySource(network) {
		c.returnBySource(f, network)
		return
	}
	i := slices.IndexFunc(legs, func(l *leg) bool { return l.network.Subnet == network.Subnet })
	if i >= 0 {
		legs[i].targets = append(legs[i].targets, f.target)
		f.through = append(f.through, legs[i].ref(), c.turnRef())
	} else if c.w.Engine.Ports[c.inport()] {
		f.waiting = first(f.waiting, c.noWayBack(network))
	}
}

// returnService lets a Service wait for the leg of its network.
func (c *compiler) returnService(s *service, legs []*leg) {
	if !s.wanted() || c.straight(s.eip.on) || c.bySource(s.eip.on) {
		return
	}
	i := slices.IndexFunc(legs, func(l *leg) bool { return l.network.Subnet == s.eip.on.Subnet })
	if i < 0 {
		s.waiting = first(s.waiting, c.noWayBack(s.eip.on))
		return
	}
	s.through = append(s.through, legs[i].ref(), c.turnRef(), portRef(c.port(s.eip.on.Subnet)))
	for _, e := range s.Endpoints {
		if e.Address.Is4() {
			legs[i].targets = append(legs[i].targets, e.Address)
		}
	}
}

// returnDiversions lets diversions wait for the leg of the default network, without which they would lead its replies away, too.
func (c *compiler) returnDiversions(legs []*leg) {
	if !c.diverts() || slices.ContainsFunc(legs, func(l *leg) bool { return c.isDefault(l.network) }) {
		return
	}
	for _, d := range c.diversions {
		if d.wanted() && c.project.way != nil && c.w.Engine.Ports[c.inport()] {
			d.waits(c.noWayBack(c.project.way))
		}
	}
}

// several are the targets that are reached by more than one network.
func (c *compiler) several() map[netip.Addr]bool {
	on, out := map[netip.Addr]string{}, map[netip.Addr]bool{}
	reached := func(a netip.Addr, e *eip) {
		if other, seen := on[a]; seen && other != e.on.Subnet {
			out[a] = true
		}
		on[a] = e.on.Subnet
	}
	for _, f := range c.fips {
		if f.wanted() && f.eip.on != nil {
			reached(f.target, f.eip)
		}
	}
	for _, s := range c.services {
		for _, e := range s.Endpoints {
			if s.wanted() {
				reached(e.Address, s.eip)
			}
		}
	}
	return out
}

// isDefault says whether an external subnet is the project's way out.
func (c *compiler) isDefault(x *snapshot.External) bool {
	return c.project.way != nil && c.project.way.Subnet == x.Subnet
}

// straight says whether replies find back to a network as everything else does that pods send. Where that is led elsewhere, the default
// network has a leg like any other.
func (c *compiler) straight(x *snapshot.External) bool {
	return c.isDefault(x) && !c.selects() && !c.diverts()
}

// bySource says whether replies find back to a network by the pod's address.
func (c *compiler) bySource(x *snapshot.External) bool {
	return c.w.Engine.Lacks != "" || cmp.Or(x.Return, c.w.Config.Return) == snapshot.BySource
}

// returnBySource makes everything that the target of a FIp sends to the outside leave by the FIp's network.
func (c *compiler) returnBySource(f *fip, network *snapshot.External) {
	c.bounce()
	source := "ip4.src == " + f.target.String()
	c.policy(intent.Reroute(ownership.ReturnFIP, fmt.Sprintf("inport == %q && %s", c.inport(), source), network.Gateway), f.key.Ref())
	c.policy(c.onLink(ownership.ReturnFIPLocal, source+" && ip4.dst == "+network.Prefix.Masked().String()), f.key.Ref())
}
