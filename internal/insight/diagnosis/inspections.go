package diagnosis

import (
	"net/netip"
	"slices"

	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/ipfamily"
)

// InspectionScope limits what nodes are asked: everything, or about one connection.
type InspectionScope struct {
	// Nodes to inspect; empty: all.
	Nodes []string
	// Client and Server are the endpoints of a connection as the client sees them; invalid: no particular connection.
	Client netip.Addr
	Server netip.AddrPort
	// Ports is set if the pods behind Services are asked whether they answer.
	Ports bool
}

// Maximum number of questions of a kind for one node. The kind Inspection has the same limits.
const (
	maxNeighbourQuestions = 256
	maxUsageQuestions     = 1024
)

// PlanInspections returns one Inspection for each node, with what CheckCluster needs to know. Nodes that are not Ready
// are skipped.
func PlanInspections(s *clusterstate.State, c InspectionScope) (out []kubedcv1alpha1.InspectionSpec) {
	q := &inspectionPlanner{checker: newChecker(s), scope: c, specs: map[string]*kubedcv1alpha1.InspectionSpec{}}
	for _, n := range s.Cluster.Nodes {
		if n.Ready && (len(c.Nodes) == 0 || slices.Contains(c.Nodes, n.Name)) {
			q.specs[n.Name] = &kubedcv1alpha1.InspectionSpec{Node: n.Name}
		}
	}
	q.addGatewayQuestions()
	q.addAddressQuestions()
	q.addRouteQuestions()
	q.addConnectionQuestions()
	q.addPortQuestions()
	for _, name := range sortedKeys(q.specs) {
		out = append(out, *q.specs[name])
	}
	return out
}

// inspectionPlanner collects the questions for each node.
type inspectionPlanner struct {
	*checker
	scope InspectionScope
	specs map[string]*kubedcv1alpha1.InspectionSpec
}

// addNeighbourQuestion asks a node who has an address, if it is connected to that network.
func (q *inspectionPlanner) addNeighbourQuestion(node string, s *clusterstate.Subnet, a netip.Addr) {
	by := s.InterfaceOn(node)
	if spec := q.specs[node]; spec != nil && by != "" && len(spec.Neighbours) < maxNeighbourQuestions {
		//nolint:gosec // a tag of a Vlan has twelve bits
		spec.Neighbours = append(spec.Neighbours,
			kubedcv1alpha1.NeighbourQuestion{Interface: by, Vlan: int32(s.Tag), Address: a.String()})
	}
}

// gatewayNodes returns the nodes that are connected to the external networks.
func (q *inspectionPlanner) gatewayNodes() (out []*clusterstate.Node) {
	for _, name := range sortedKeys(q.specs) {
		if n := q.nodes[name]; n.Gateway {
			out = append(out, n)
		}
	}
	return out
}

// addGatewayQuestions asks every connected node for the gateways.
func (q *inspectionPlanner) addGatewayQuestions() {
	for _, n := range q.gatewayNodes() {
		for _, s := range q.externalSubnets() {
			for _, gateway := range s.Gateways {
				q.addNeighbourQuestion(n.Name, s, gateway)
			}
		}
	}
}

// addAddressQuestions asks for each address which MAC addresses answer for it. It asks a node that does not hold the
// address if there is one, because a node does not receive its own OVN's answers. The node that holds the address is
// asked how many of its ports are in use.
func (q *inspectionPlanner) addAddressQuestions() {
	present := q.presentAddresses()
	edges := q.gatewayNodes()
	for i, a := range sortedAddresses(present) {
		s := q.Cluster.ExternalSubnetAt(a)
		to := q.scope.Server.Addr()
		// an external server: the connection may use any address of the cluster as its source
		leaves := to.IsValid() && q.Cluster.ExternalSubnetAt(to) == nil
		if to.IsValid() && to != a && !leaves {
			continue
		}
		held := func(n *clusterstate.Node) bool {
			return slices.ContainsFunc(present[a].chassis, func(c string) bool { return q.nodeOfChassis(c) == n })
		}
		others := slices.DeleteFunc(slices.Clone(edges), held)
		if len(others) == 0 {
			others = edges
		}
		if len(others) > 0 && !leaves {
			q.addNeighbourQuestion(others[i%len(others)].Name, s, a)
		}
		for _, name := range sortedKeys(q.specs) {
			if spec := q.specs[name]; held(q.nodes[name]) && len(spec.Usage) < maxUsageQuestions {
				spec.Usage = append(spec.Usage, a.String())
			}
		}
	}
}

// addRouteQuestions asks through which interface replies leave: those with the mark of a network, and those from the
// server of the connection.
func (q *inspectionPlanner) addRouteQuestions() {
	to := q.scope.Client
	for _, path := range q.Cluster.NodePaths {
		spec := q.specs[path.Name]
		for _, w := range path.Ways {
			n := q.networks[w.Network]
			if spec == nil || !usesReplyMark(w) || n == nil {
				continue
			}
			for _, gateway := range n.Gateways {
				far := ipfamily.Of(gateway).OutsideHosts()[0]
				if to.IsValid() && ipfamily.Same(to, gateway) {
					far = to
				}
				spec.Routes = append(spec.Routes, kubedcv1alpha1.RouteQuestion{To: far.String(), Mark: int64(w.Mark)})
			}
		}
	}
	if server := q.scope.Server.Addr(); server.IsValid() && to.IsValid() && q.Cluster.ExternalSubnetAt(server) == nil {
		for _, name := range sortedKeys(q.specs) {
			q.specs[name].Routes = append(q.specs[name].Routes,
				kubedcv1alpha1.RouteQuestion{From: server.String(), To: to.String()})
		}
	}
}

// addConnectionQuestions asks for the tracked connections of the client.
func (q *inspectionPlanner) addConnectionQuestions() {
	if !q.scope.Client.IsValid() || !q.scope.Server.IsValid() {
		return
	}
	for _, name := range sortedKeys(q.specs) {
		q.specs[name].Connections = append(q.specs[name].Connections, kubedcv1alpha1.ConnectionQuestion{
			Client: q.scope.Client.String(), Server: q.scope.Server.Addr().String(), Port: int32(q.scope.Server.Port()),
		})
	}
}
