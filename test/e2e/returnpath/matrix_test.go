package returnpath

import (
	"testing"

	"github.com/sallyport/sallyport/test/e2e/harness"
)

// TestReturn1Matrix shows that a pod with a floating IP on each of three networks answers on all of them at the same
// time, on one port and to one client address, while connections that it initiates use the project's default network.
func TestReturn1Matrix(t *testing.T) {
	item := returnItems.Item(t, 1)
	s := &projectPair{Cluster: harness.SharedSallyport(t)}
	s.CreateOrganization(t, "return")
	if rows := s.checkMatrix(t); !t.Failed() {
		item.AddFigure("%d of %d kinds of traffic answer, the client's own address was seen, no router dropped anything", rows, rows)
	}
	s.cloud = s.CreateProject(t, "return", "cloud", "10.41.0.0/24", "cloud")
	for _, node := range s.Blueprint.NodeList() {
		ways := s.checkAllNetworks(t, node.Name)
		if !t.Failed() {
			item.AddFigure("pod on %s, a floating IP on each of %d networks: %d ways, each client's own address was seen, no router dropped anything", node.Name, len(harness.NetworkTypes), ways)
		}
	}
}

// checkAllNetworks sends requests to one pod through three networks from all places, and from the pod to the outside.
func (s *projectPair) checkAllNetworks(t *testing.T, node string) (ways int) {
	t.Helper()
	name := "web-" + node
	s.RunPod(t, harness.Pod{Namespace: s.cloud, Name: name, Node: node})
	addresses := s.createFIPs(t, name)
	s.ResetDrops(t)
	for _, kind := range harness.NetworkTypes {
		// from the clients and neighbours of every network, not only its own
		for _, from := range harness.NetworkTypes {
			x := s.Network(t, from)
			ways += s.ExpectAnswers(t, x.Client, addresses[kind], name, x.ClientAddress)
			ways += s.ExpectAnswers(t, x.Neighbour, addresses[kind], name, x.NeighbourAddress)
		}
		ways += s.ExpectAnswers(t, "internet", addresses[kind], name, harness.InternetAddress)
	}
	ways += s.ExpectAnswers(t, name+"."+s.cloud, harness.InternetAddress, "internet", addresses["cloud"])
	s.ExpectNoDrops(t)
	return ways
}

// projectPair is a lab with up to two projects: their namespaces, the first on the network cloud.
type projectPair struct {
	*harness.Cluster
	cloud, public string
}
