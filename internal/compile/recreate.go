package compile

import (
	"fmt"

	"github.com/sallyport/sallyport/internal/model/intent"
)

// A deletion can't be reverted, so objects that users delete are recreated once they are gone. Kube-OVN removes the
// router after the Vpc is gone, and the switch after the Subnet, each from a queue of its own. A Vpc or Subnet that is
// recreated earlier loses its router or switch. So the controller waits until the OVN database shows that the old one
// is gone.

// beingDeletedFinding returns the finding that a required object is being deleted.
func beingDeletedFinding(kind intent.Kind, name string) intent.Finding {
	return intent.Finding{
		Reason:  intent.BeingDeleted,
		Message: fmt.Sprintf("%s %s is being deleted; it will be recreated when it is gone", kind, name),
	}
}

// isVPCTerminating reports whether the VPC is being removed. Kube-OVN keeps a Vpc that has a Subnet, and a Subnet that
// has pods, so the VPC works unchanged as long as it has pods.
func (c *compiler) isVPCTerminating() bool {
	e := c.w.Engine
	return e.Vpc.Deleting && e.UsedIPs == 0 || !e.Vpc.Exists && e.RouterPorts != nil
}

// isSubnetTerminating reports whether Kube-OVN is still removing the switch of a Subnet that is gone.
func (c *compiler) isSubnetTerminating() bool {
	return !c.w.Engine.Subnet.Exists && c.w.Engine.RouterPorts[c.internalPortName()]
}

// checkRebuild returns what a project waits for after some of its objects were deleted.
func (c *compiler) checkRebuild() intent.Finding {
	e := c.w.Engine
	message := ""
	switch {
	case c.w.Namespace.Deleting:
		message = fmt.Sprintf("namespace %s is being deleted; it will be recreated when it is gone", c.w.Shard)
	case e.Vpc.Deleting && e.UsedIPs > 0:
		message = fmt.Sprintf(
			"Vpc %s is being deleted; it works until the project's pods (%d) have terminated, and is then recreated",
			c.w.Shard, e.UsedIPs)
	case e.Vpc.Deleting:
		message = fmt.Sprintf("Vpc %s is being deleted; it will be recreated when it is gone", c.w.Shard)
	case !e.Vpc.Exists && e.RouterPorts != nil:
		message = fmt.Sprintf("Kube-OVN has not removed router %s of a deleted Vpc yet; "+
			"if it does not within 20 seconds, Sallyport removes it", c.w.Shard)
	case e.Subnet.Deleting && e.UsedIPs > 0:
		message = fmt.Sprintf(
			"Subnet %s is being deleted; it works until the project's pods (%d) have terminated, and is then recreated",
			c.subnetName(), e.UsedIPs)
	case e.Subnet.Deleting:
		message = fmt.Sprintf("Subnet %s is being deleted; it will be recreated when it is gone",
			c.subnetName())
	case c.isSubnetTerminating():
		message = fmt.Sprintf("Kube-OVN has not removed router port %s of a deleted Subnet yet; "+
			"if this persists, remove it with ovn-nbctl lrp-del", c.internalPortName())
	default:
		return intent.Finding{}
	}
	return intent.Finding{Reason: intent.BeingDeleted, Message: message}
}
