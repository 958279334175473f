package compile

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// blockEIPDeletion marks the EIps that are being deleted while in use. They keep working until they are released.
func (c *compiler) blockEIPDeletion() {
	if !c.project.isActive() {
		return
	}
	for _, e := range c.eips {
		if !e.Deleting || c.isTerminating(e.Namespace) {
			continue
		}
		if user := c.findEIPUser(e); user != "" {
			e.deletionBlocked = true
			e.held = intent.Finding{
				Reason: intent.InUse,
				Message: fmt.Sprintf("deletion is blocked: the EIp is held by %s; "+
					"delete that object, or assign it another EIp", user),
			}
		}
	}
}

// findEIPUser returns the object that uses an EIp and blocks its deletion, as text; empty: none. Services of other
// namespaces may use the EIp as long as its owner allows it, and do not block its deletion.
func (c *compiler) findEIPUser(e *eip) string {
	if c.isDefaultEIP(e) {
		return c.project.key.String()
	}
	for _, f := range c.fips {
		if !f.Deleting && f.Namespace == e.Namespace &&
			(f.EIp == e.Name || ownEIPName(f) == e.Name && c.fipUsesEIP(f, e)) {
			return f.key.String()
		}
	}
	for _, s := range c.services {
		if s.Namespace == e.Namespace && c.serviceUsesEIP(s, e) {
			return s.key.String()
		}
	}
	return ""
}

// fipUsesEIP reports whether a FIp's translation has the address of an EIp. The controller deletes the EIp that was
// created for a FIp when the FIp switches to another one. A deletion can't be reverted: if the FIp needs an EIp of its
// own again, the old one has to be gone first.
func (c *compiler) fipUsesEIP(f *fip, e *eip) bool {
	if c.isSecond(e) {
		return e.StatusAddress.IsValid()
	}
	have := c.w.Engine.OvnFips[c.ovnFipName(f)] // none in the management VPC, where a row is all there is
	return have.Exists && !have.Deleting && have.OvnEip == c.ovnEipName(e)
}

// isDefaultEIP reports whether an EIp is the one created for the project's default egress.
func (c *compiler) isDefaultEIP(e *eip) bool {
	return e.Name == defaultEIPName && c.standsForDefaultPort(e)
}

// recordEIPHolders records the holders of each EIp, and which EIps were created for a FIp or a Service.
func (c *compiler) recordEIPHolders() {
	for _, e := range c.eips {
		if c.isDefaultEIP(e) {
			e.holders = append(e.holders, c.project.key)
		}
	}
	hold := func(by intent.ObjectKey, e *eip, own string, holds bool) {
		if made := c.lookupEIP(by.Namespace, own); made != nil {
			made.madeForOwner = true
		}
		if e != nil && holds {
			e.holders = append(e.holders, by)
		}
	}
	for _, f := range c.fips {
		hold(f.key, f.eip, f.ownEIPName, f.accepted.OK() && !f.Deleting)
	}
	for _, s := range c.services {
		hold(s.key, s.eip, s.ownEIPName, s.accepted.OK() && !s.Deleting)
	}
}

// emitFinalizers adds a finalizer to each object for which something was, or is about to be, written.
func (c *compiler) emitFinalizers() {
	c.emitEIPFinalizers()
	c.emitFIPFinalizers()
	if p := c.project; p != nil && c.w.Management == nil && (p.isActive() || !c.checkLeftovers().OK()) {
		c.out.AddFinalizer(p.key)
	}
}

func (c *compiler) emitEIPFinalizers() {
	for _, e := range c.eips {
		name := cmp.Or(e.ovnEipName, ownership.OvnEipNames(e.Namespace, e.Name)[0]) // of an EIp that had its name
		there := e.hasOwnOvnEip() && c.w.Engine.OwnedObjects[c.clusterKey(intent.OvnEip, name)]
		if there || e.deletionBlocked || (!e.Deleting && e.accepted.OK()) {
			c.out.AddFinalizer(e.key)
		}
		if e.Deleting && there && e.held.OK() {
			e.held = intent.Finding{
				Reason:  intent.CleaningUp,
				Message: fmt.Sprintf("OvnEip %s is being deleted", name),
			}
		}
	}
}

func (c *compiler) emitFIPFinalizers() {
	for _, f := range c.fips {
		there := c.w.Engine.OwnedObjects[c.clusterKey(intent.OvnFip, f.ovnFipName)]
		if there || (!f.Deleting && f.accepted.OK()) {
			c.out.AddFinalizer(f.key)
		}
		if f.Deleting && there {
			f.held = intent.Finding{
				Reason:  intent.CleaningUp,
				Message: fmt.Sprintf("OvnFip %s is being deleted", f.ovnFipName),
			}
		}
	}
}

// checkLeftovers returns what has to be removed before a Project's finalizer.
func (c *compiler) checkLeftovers() intent.Finding {
	var left []intent.ObjectKey
	for key := range c.w.Engine.OwnedObjects {
		left = append(left, key)
	}
	if len(left) == 0 {
		return c.checkEngineLeftovers()
	}
	if ns := c.w.Namespace; ns.Deleting && ns.RemainingContent != "" {
		return intent.Finding{Reason: intent.NamespaceContentRemaining, Message: fmt.Sprintf(
			"deletion of namespace %s is blocked by its content (%s); delete that, or remove its finalizers", c.w.Shard,
			ns.RemainingContent)}
	}
	slices.SortFunc(left, intent.ObjectKey.Compare)
	last := left[len(left)-1]
	return intent.Finding{
		Reason:  intent.CleaningUp,
		Message: fmt.Sprintf("%d objects are still to be deleted; next: %s", len(left), last),
	}
}

// checkEngineLeftovers returns what Kube-OVN still has to remove from the OVN database after the Vpc is gone, and what
// is left when it has. A Project of the same name that is created earlier would lose its router.
func (c *compiler) checkEngineLeftovers() intent.Finding {
	e := c.w.Engine
	switch {
	case !c.project.Deleting || e.Vpc.Exists: // it was refused: existing objects belong to another Project
		return intent.Finding{}
	case e.RouterPorts != nil:
		return intent.Finding{
			Reason:  intent.CleaningUp,
			Message: fmt.Sprintf("Kube-OVN is removing router %s", c.w.Shard),
		}
	case len(e.Leftovers) > 0:
		return intent.Finding{Reason: intent.CleaningUp, Message: fmt.Sprintf("%s is being removed", e.Leftovers[0])}
	default:
		return intent.Finding{}
	}
}

// engineGracePeriod is how long Kube-OVN may take to delete a translation before the controller intervenes.
const engineGracePeriod = 3 * time.Second

// unblockDeletions restores the NAT row of a translation that is stuck in deletion: Kube-OVN waits forever when there
// is no row to delete. The row is marked as the controller's, so it is removed once the translation is gone.
func (c *compiler) unblockDeletions() {
	for _, name := range slices.Sorted(maps.Keys(c.w.Engine.OvnFips)) {
		if have := c.w.Engine.OvnFips[name]; c.isStuckDeleting(have.ObjectState) && have.ExternalIP.IsValid() &&
			have.TargetIP.IsValid() {
			c.emitTemporaryRow(intent.DNATAndSNAT{External: have.ExternalIP, Logical: have.TargetIP},
				c.clusterKey(intent.OvnFip, name))
		}
	}
	if have := c.w.Engine.SnatRule; c.isStuckDeleting(have.ObjectState) && have.ExternalIP.IsValid() &&
		have.InternalPrefix.IsValid() {
		c.emitTemporaryRow(intent.SNAT{External: have.ExternalIP, Logical: have.InternalPrefix},
			c.clusterKey(intent.OvnSnatRule, c.snatRuleName()))
	}
}

// isStuckDeleting reports whether an object has been terminating for too long.
func (c *compiler) isStuckDeleting(have snapshot.ObjectState) bool {
	return have.Deleting && c.w.Now.Sub(have.DeletedAt) > engineGracePeriod
}

// emitTemporaryRow adds a row that exists only until its object is gone, unless the row is wanted anyway.
func (c *compiler) emitTemporaryRow(row intent.Row, of intent.ObjectKey) {
	if _, taken := c.out.Rows[row.Key(c.w.Shard)]; !taken {
		c.out.AddRow(c.w.Shard, row, of.Ref())
	}
}
