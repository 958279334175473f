package controller

import (
	"slices"
	"time"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/snapshot"
	"github.com/sallyport/sallyport/internal/model/state"
)

// switchRemovalTimeout is how long Kube-OVN may take to remove a switch. After that we do not wait for it: it may have
// been restarted in between, and then it leaves the router port of the switch where it is.
const switchRemovalTimeout = time.Minute

// guardVpcRemoval is a guard that keeps a Vpc until Kube-OVN has removed the switch of its Subnet, which it begins when
// the Subnet is gone. The port on the router is the last of it. Without the router it would try for ever.
func guardVpcRemoval(w *snapshot.VpcInput) state.Guard[intent.ObjectKey, intent.Object] {
	port := kubeovn.RouterPort(w.Shard, ownership.VPCSubnetName(w.Shard))
	waits := w.Engine.RouterPorts[port] && !slices.ContainsFunc(w.Projects, func(p snapshot.Project) bool {
		return p.Deleting && w.Now.Sub(p.DeletedAt) > switchRemovalTimeout
	})
	return func(changes []state.Change[intent.ObjectKey, intent.Object],
		_ intent.Objects,
	) []state.Change[intent.ObjectKey, intent.Object] {
		return slices.DeleteFunc(slices.Clone(changes), func(c state.Change[intent.ObjectKey, intent.Object]) bool {
			return waits && c.IsRemoval() && c.Key.Kind == intent.Vpc
		})
	}
}

// externalSubnetNames names the external subnets.
func externalSubnetNames(w *snapshot.VpcInput) []string {
	var out []string
	for _, x := range w.ExternalSubnets {
		out = append(out, x.Subnet)
	}
	return out
}

// guardVpcLeftovers is a guard that lets what Kube-OVN leaves behind of a VPC go when the Vpc is gone and is not about
// to come again. A switch port that leads nowhere goes at once.
func guardVpcLeftovers(w *snapshot.VpcInput, want *intent.Intent) state.Guard[intent.RowKey, intent.Row] {
	_, comes := want.Objects[intent.ObjectKey{Kind: intent.Vpc, Name: w.Shard}]
	return func(changes []state.Change[intent.RowKey, intent.Row], _ intent.Rows) []state.Change[intent.RowKey,
		intent.Row] {
		return slices.DeleteFunc(slices.Clone(changes), func(c state.Change[intent.RowKey, intent.Row]) bool {
			return c.Key.Table != "Logical_Switch_Port" && (comes || w.Engine.Vpc.Exists || w.Management != nil)
		})
	}
}
