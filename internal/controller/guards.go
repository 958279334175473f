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

// switchRemovalTimeout is how long we wait for Kube-OVN to remove a switch. If Kube-OVN restarted in between, it leaves
// the router port of the switch behind, so waiting longer does not help.
const switchRemovalTimeout = time.Minute

// guardVpcRemoval returns a guard that keeps a Vpc until Kube-OVN has removed the switch of its Subnet, which it starts
// when the Subnet is gone. The router port is removed last. Without the router, Kube-OVN would retry forever.
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

func externalSubnetNames(w *snapshot.VpcInput) []string {
	var out []string
	for _, x := range w.ExternalSubnets {
		out = append(out, x.Subnet)
	}
	return out
}

// guardVpcLeftovers returns a guard that deletes Kube-OVN's leftovers of a VPC when the Vpc is gone and not wanted
// again. A switch port without a peer is deleted at once.
func guardVpcLeftovers(w *snapshot.VpcInput, want *intent.Intent) state.Guard[intent.RowKey, intent.Row] {
	_, wanted := want.Objects[intent.ObjectKey{Kind: intent.Vpc, Name: w.Shard}]
	return func(changes []state.Change[intent.RowKey, intent.Row], _ intent.Rows) []state.Change[intent.RowKey,
		intent.Row] {
		return slices.DeleteFunc(slices.Clone(changes), func(c state.Change[intent.RowKey, intent.Row]) bool {
			return c.Key.Table != "Logical_Switch_Port" && (wanted || w.Engine.Vpc.Exists || w.Management != nil)
		})
	}
}
