package e2e

import (
	"testing"
)

// TestReturn1Matrix: a pod with a floating IP on each of three networks answers on all of them at once, on one port and to one
// client address, and what it sends by itself keeps the project's default network.
func TestReturn1Matrix(t *testing.T) {
	item := returns.Item(t, 1)
	s := &stage{cluster: sallyport(t)}
	s.organization(t, "return")
	if rows := s.matrix18(t); !t.Failed() {
		item.Figure("%d of %d kinds of traffic answer, the client's own address was seen, no router dropped anything", rows, rows)
	}
	s.cloud = s.project(t, "return", "cloud", "10.41.0.0/24", "cloud")
	for _, node := range s.blueprint.NodeList() {
		ways := s.atOnce(t, node.Name)
		if !t.Failed() {
			item.Figure("pod on %s, a floating IP on each of %d networks: %d ways, each client's own address was seen, no router dropped anything", node.Name, len(kindsOfNetwork), ways)
		}
	}
}

// atOnce asks one pod by three networks from everywhere, and lets it ask outside.
func (s *stage) atOnce(t *testing.T, node string) (ways int) {
	t.Helper()
	name := "web-" + node
	s.run(t, pod{namespace: s.cloud, name: name, node: node})
	addresses := s.everywhere(t, name)
	s.resetDrops(t)
	for _, kind := range kindsOfNetwork {
		for _, from := range kindsOfNetwork { // from the clients and neighbours of every network, not only its own
			x := s.network(t, from)
			ways += s.everyWay(t, x.client, addresses[kind], name, x.clientAddress)
			ways += s.everyWay(t, x.neighbour, addresses[kind], name, x.neighbourAddress)
		}
		ways += s.everyWay(t, "internet", addresses[kind], name, theInternet)
	}
	ways += s.everyWay(t, name+"."+s.cloud, theInternet, "internet", addresses["cloud"])
	s.noDrops(t)
	return ways
}
