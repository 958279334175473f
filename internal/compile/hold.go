package compile

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/snapshot"
)

// keepHeldEIps finds the EIps that somebody deletes while they are in use. They stay as they are until they are released.
func (c *compiler) keepHeldEIps() {
	if !c.project.alive() {
		return
	}
	for _, e := range c.eips {
		if !e.Deleting || c.ending(e.Namespace) {
			continue
		}
		if who := c.user(e); who != "" {
			e.keep = true
			e.held = intent.Finding{Reason: intent.InUse, Message: fmt.Sprintf("deletion waits: held by %s; delete that, or let it use another EIp", who)}
		}
	}
}

// user is who uses an EIp and keeps it from being deleted, in words; empty: nobody. Services of other namespaces use it as long as its
// owner lets them, and do not keep it.
func (c *compiler) user(e *eip) string {
	if c.isWayOut(e) {
		return c.project.key.String()
	}
	for _, f := range c.fips {
		if !f.Deleting && f.Namespace == e.Namespace && (f.EIp == e.Name || ownEIp(f) == e.Name && c.translatesBy(f, e)) {
			return f.key.String()
		}
	}
	for _, s := range c.services {
		if s.Namespace == e.Namespace && c.usesEIp(s, e) {
			return s.key.String()
		}
	}
	return ""
}

// translatesBy says whether a FIp's translation has the address of an EIp. The EIp of its own that a FIp has left for another
// is deleted by us, and a deletion can't be taken back: when the FIp wants one of its own again, the old one goes first.
func (c *compiler) translatesBy(f *fip, e *eip) bool {
	have := c.w.Engine.OvnFips[c.ovnFip(f)]
	return have.Exists && !have.Deleting && have.OvnEip == c.ovnEip(e)
}

// isWayOut says whether an EIp is the one that the project has for its way out.
func (c *compiler) isWayOut(e *eip) bool { return e.Name == DefaultEIp && c.ownChild(e) }

// judgeEIps says who holds each EIp, and for whom it was made.
func (c *compiler) judgeEIps() {
	for _, e := range c.eips {
		if c.isWayOut(e) {
			e.holders = append(e.holders, c.project.key)
		}
	}
	hold := func(by intent.ObjectKey, e *eip, own string, holds bool) {
		if made := c.named(by.Namespace, own); made != nil {
			made.made = true
		}
		if e != nil && holds {
			e.holders = append(e.holders, by)
		}
	}
	for _, f := range c.fips {
		hold(f.key, f.eip, f.own, f.accepted.OK() && !f.Deleting)
	}
	for _, s := range c.services {
		hold(s.key, s.eip, s.own, s.accepted.OK() && !s.Deleting)
	}
}

// holdObjects wants a finalizer on each object that something was, or is about to be, written for.
func (c *compiler) holdObjects() {
	c.holdEIps()
	c.holdFIps()
	if p := c.project; p != nil && c.w.Management == nil && (p.alive() || !c.leftovers().OK()) {
		c.in.Hold(p.key)
	}
}

func (c *compiler) holdEIps() {
	for _, e := range c.eips {
		there := e.owns() && c.w.Engine.Objects[c.key(intent.OvnEip, e.ovnEip)]
		if there || e.keep || (!e.Deleting && e.accepted.OK()) {
			c.in.Hold(e.key)
		}
		if e.Deleting && there && e.held.OK() {
			e.held = intent.Finding{Reason: intent.Cleanup, Message: fmt.Sprintf("OvnEip %s is being removed", e.ovnEip)}
		}
	}
}

func (c *compiler) holdFIps() {
	for _, f := range c.fips {
		there := c.w.Engine.Objects[c.key(intent.OvnFip, f.ovnFip)]
		if there || (!f.Deleting && f.accepted.OK()) {
			c.in.Hold(f.key)
		}
		if f.Deleting && there {
			f.held = intent.Finding{Reason: intent.Cleanup, Message: fmt.Sprintf("OvnFip %s is being removed", f.ovnFip)}
		}
	}
}

// leftovers is what has to go before a Project can.
func (c *compiler) leftovers() intent.Finding {
	var left []intent.ObjectKey
	for key := range c.w.Engine.Objects {
		left = append(left, key)
	}
	if len(left) == 0 {
		return c.engineLeftovers()
	}
	if ns := c.w.Namespace; ns.Deleting && ns.Remaining != "" {
		return intent.Finding{Reason: intent.NamespaceRemains, Message: fmt.Sprintf(
			"namespace %s is kept by what is in it (%s); remove that or its finalizers", c.w.Shard, ns.Remaining)}
	}
	slices.SortFunc(left, intent.ObjectKey.Compare)
	last := left[len(left)-1]
	return intent.Finding{Reason: intent.Cleanup, Message: fmt.Sprintf("%d objects are being removed; next to go: %s", len(left), last)}
}

// engineLeftovers is what Kube-OVN has to remove from the OVN database after the Vpc is gone, and what is left when it has. A
// Project of the same name that came earlier would lose its router.
func (c *compiler) engineLeftovers() intent.Finding {
	e := c.w.Engine
	switch {
	case !c.project.Deleting || e.Vpc.Exists: // it was refused, and what is there is somebody else's
		return intent.Finding{}
	case e.Ports != nil:
		return intent.Finding{Reason: intent.Cleanup, Message: fmt.Sprintf("Kube-OVN is removing router %s", c.w.Shard)}
	case len(e.Left) > 0:
		return intent.Finding{Reason: intent.Cleanup, Message: fmt.Sprintf("%s is being removed", e.Left[0])}
	default:
		return intent.Finding{}
	}
}

// patience is how long Kube-OVN may take to remove a translation before we help.
const patience = 3 * time.Second

// unblock puts back the NAT row of a translation that can't be deleted: Kube-OVN waits for ever when there is no row to
// delete. The row says that it is ours, so it goes when the translation is gone.
func (c *compiler) unblock() {
	for _, name := range slices.Sorted(maps.Keys(c.w.Engine.OvnFips)) {
		if have := c.w.Engine.OvnFips[name]; c.stuck(have.Seen) && have.External.IsValid() && have.Target.IsValid() {
			c.lend(intent.FloatingNAT{External: have.External, Logical: have.Target}, c.key(intent.OvnFip, name))
		}
	}
	if have := c.w.Engine.Snat; c.stuck(have.Seen) && have.External.IsValid() && have.Inside.IsValid() {
		c.lend(intent.SourceNAT{External: have.External, Logical: have.Inside}, c.key(intent.OvnSnatRule, c.w.Shard))
	}
}

// stuck says whether an object has been trying to go for too long.
func (c *compiler) stuck(have snapshot.Seen) bool {
	return have.Deleting && c.w.Now.Sub(have.Since) > patience
}

// lend wants a row for an object that is to go with it, unless somebody wants it anyway.
func (c *compiler) lend(row intent.Row, of intent.ObjectKey) {
	if _, taken := c.in.Rows[row.Key(c.w.Shard)]; !taken {
		c.in.Row(c.w.Shard, row, of.Ref())
	}
}
