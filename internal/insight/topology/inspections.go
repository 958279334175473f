package topology

import (
	"net/netip"

	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
)

// defaultRouteProbe stands for everything that a node has no other way to: an address that is for documentation only.
var defaultRouteProbe = netip.MustParseAddr("203.0.113.1")

// PlanInspections are what nodes are asked for a document: their interfaces, which they tell in any case, and their
// ways to pods and to the outside.
func PlanInspections(s *clusterstate.State) (out []kubedcv1alpha1.InspectionSpec) {
	var ways []kubedcv1alpha1.RouteQuestion
	for _, subnet := range s.Cluster.Subnets {
		if subnet.Name == kubeovn.ManagementSubnet && len(subnet.Gateways) > 0 {
			ways = append(ways, kubedcv1alpha1.RouteQuestion{To: subnet.Gateways[0].String()})
		}
	}
	ways = append(ways, kubedcv1alpha1.RouteQuestion{To: defaultRouteProbe.String()})
	for _, n := range s.Cluster.Nodes[:min(maxDrawn, len(s.Cluster.Nodes))] {
		if n.Ready {
			out = append(out, kubedcv1alpha1.InspectionSpec{Node: n.Name, Routes: ways})
		}
	}
	return out
}
