package compile

import (
	"fmt"

	"github.com/sallyport/sallyport/internal/intent"
)

// What somebody has deleted can't be kept: it goes, and is made again. Kube-OVN removes the router after the Vpc is gone, and
// the switch after the Subnet, each from a queue of its own; a new one that comes earlier loses its router or switch to that.
// So the OVN database has to show that the old one is gone.

// beingDeleted is what is said of an object that somebody deletes and that is needed.
func beingDeleted(kind intent.Kind, name string) intent.Finding {
	return intent.Finding{Reason: intent.BeingDeleted, Message: fmt.Sprintf("%s %s is being deleted by somebody; it is made again when it is gone", kind, name)}
}

// vpcLeaves says whether the VPC is on its way out. Kube-OVN keeps a Vpc that has a Subnet, and a Subnet that has pods, so as
// long as there are pods all stays as it is and works.
func (c *compiler) vpcLeaves() bool {
	e := c.w.Engine
	return e.Vpc.Deleting && e.InUse == 0 || !e.Vpc.Exists && e.Ports != nil
}

// subnetLeaves says whether Kube-OVN has not finished with a Subnet that is gone.
func (c *compiler) subnetLeaves() bool {
	return !c.w.Engine.Subnet.Exists && c.w.Engine.Ports[c.inport()]
}

// rebuilt is what a project waits for that somebody has deleted something of.
func (c *compiler) rebuilt() intent.Finding {
	e := c.w.Engine
	message := ""
	switch {
	case c.w.Namespace.Deleting:
		message = fmt.Sprintf("namespace %s is being deleted; it is made again when it is gone", c.w.Shard)
	case e.Vpc.Deleting && e.InUse > 0:
		message = fmt.Sprintf(
			"Vpc %s is being deleted by somebody; it works until the project's pods (%d) have ended, and is then made again", c.w.Shard, e.InUse)
	case e.Vpc.Deleting:
		message = fmt.Sprintf("Vpc %s is being deleted by somebody; it is made again when it is gone", c.w.Shard)
	case !e.Vpc.Exists && e.Ports != nil:
		message = fmt.Sprintf("Kube-OVN has not removed router %s of a Vpc that was deleted; if it stays, remove it with ovn-nbctl lr-del", c.w.Shard)
	case e.Subnet.Deleting && e.InUse > 0:
		message = fmt.Sprintf(
			"Subnet %s is being deleted by somebody; it works until the project's pods (%d) have ended, and is then made again", c.subnet(), e.InUse)
	case e.Subnet.Deleting:
		message = fmt.Sprintf("Subnet %s is being deleted by somebody; it is made again when it is gone", c.subnet())
	case c.subnetLeaves():
		message = fmt.Sprintf("Kube-OVN has not removed router port %s of a Subnet that was deleted; if it stays, remove it with ovn-nbctl lrp-del", c.inport())
	default:
		return intent.Finding{}
	}
	return intent.Finding{Reason: intent.BeingDeleted, Message: message}
}
