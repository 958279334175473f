package controller

import (
	"slices"
	"time"

	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/ownership"
	"github.com/sallyport/sallyport/internal/snapshot"
	"github.com/sallyport/sallyport/internal/state"
)

// removal is how long Kube-OVN may take to remove a switch. After that we do not wait for it: it may have been restarted in
// between, and then it leaves the router port of the switch where it is.
const removal = time.Minute

// afterSwitch is a guard that keeps a Vpc until Kube-OVN has removed the switch of its Subnet, which it begins when the Subnet
// is gone. The port on the router is the last of it. Without the router it would try for ever.
func afterSwitch(w *snapshot.World) state.Guard[intent.ObjectKey, intent.Object] {
	port := w.Shard + "-" + ownership.Subnet(w.Shard)
	waits := w.Engine.Ports[port] && !slices.ContainsFunc(w.Projects, func(p snapshot.Project) bool {
		return p.Deleting && w.Now.Sub(p.Since) > removal
	})
	return func(changes []state.Change[intent.ObjectKey, intent.Object], _ intent.Objects) []state.Change[intent.ObjectKey, intent.Object] {
		return slices.DeleteFunc(slices.Clone(changes), func(c state.Change[intent.ObjectKey, intent.Object]) bool {
			return waits && c.Removes() && c.Key.Kind == intent.Vpc
		})
	}
}

// externals names the external subnets.
func externals(w *snapshot.World) []string {
	var out []string
	for _, x := range w.Externals {
		out = append(out, x.Subnet)
	}
	return out
}

// afterVpc is a guard that lets what Kube-OVN leaves behind of a VPC go when the Vpc is gone and is not about to come again. A
// switch port that leads nowhere goes at once.
func afterVpc(w *snapshot.World, want *intent.Intent) state.Guard[intent.RowKey, intent.Row] {
	_, comes := want.Objects[intent.ObjectKey{Kind: intent.Vpc, Name: w.Shard}]
	return func(changes []state.Change[intent.RowKey, intent.Row], _ intent.Rows) []state.Change[intent.RowKey, intent.Row] {
		return slices.DeleteFunc(slices.Clone(changes), func(c state.Change[intent.RowKey, intent.Row]) bool {
			return c.Key.Table != "Logical_Switch_Port" && (comes || w.Engine.Vpc.Exists || w.Management != nil)
		})
	}
}
