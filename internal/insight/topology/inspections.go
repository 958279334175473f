package topology

import (
	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/ipfamily"
)

// defaultRouteProbe is a destination that only the default route matches.
var defaultRouteProbe = ipfamily.Default.OutsideHosts()[0]

// PlanInspections returns the inspections for a document: the routes of nodes to pods and to the outside. Every
// inspection also reports the interfaces.
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
