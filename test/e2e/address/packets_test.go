package address

import (
	"fmt"
	"testing"

	"github.com/sallyport/sallyport/test/e2e/harness"
)

// TestCore1ByPackets tests with packets, using only Projects, EIps, FIps and pods.
func TestCore1ByPackets(t *testing.T) {
	item := coreItems.Item(t, 1)
	c := harness.SharedSallyport(t)
	c.CreateOrganization(t, "packets")
	s := &projectPair{
		Cluster: c,
		// The same internal addresses: projects are isolated from each other.
		cloud:  c.CreateProject(t, "packets", "cloud", "10.31.0.0/24", "cloud"),
		public: c.CreateProject(t, "packets", "public", "10.31.0.0/24", "public"),
	}
	for _, node := range []string{"node1", "node2", "node3"} { // only node2 and node3 may hold gateways
		c.RunPod(t, harness.Pod{Namespace: s.cloud, Name: "plain-" + node, Node: node})
		c.RunPod(t, harness.Pod{Namespace: s.public, Name: "plain-" + node, Node: node})
	}
	for _, part := range []struct {
		name string
		run  func(*projectPair, *testing.T) string
	}{
		{"way out", (*projectPair).checkDefaultEgress},
		{"floating IPs on three networks", (*projectPair).checkThreeNetworks},
		{"neighbours and other projects", (*projectPair).checkNeighbours},
		{"only while there is a FIp", (*projectPair).checkAnswersOnlyWithFIP},
		{"targets", (*projectPair).checkTargets},
		{"another target and another EIp", (*projectPair).checkRetarget},
		{"an EIp of its own", (*projectPair).checkOwnedEIP},
		{"an address that another project had", (*projectPair).checkAddressReuse},
		{"dual stack", (*projectPair).checkDualStack},
		{"IPv6 outside", (*projectPair).checkNoExternalIPv6},
	} {
		t.Run(part.name, func(t *testing.T) {
			if figure := part.run(s, t); !t.Failed() {
				item.AddFigure("%s: %s", part.name, figure)
			}
		})
	}
}

// projectPair is two projects on different networks, each with a pod on every node.
type projectPair struct {
	*harness.Cluster
	cloud, public string // namespaces
}

// checkDefaultEgress shows that packets of pods without a floating IP leave through the project's default network with
// the address of its default egress.
func (s *projectPair) checkDefaultEgress(t *testing.T) string {
	ways := 0
	s.SyncFlows(t)
	s.ResetDrops(t)
	for namespace, x := range map[string]harness.ExternalNetwork{
		s.cloud:  s.Network(t, "cloud"),
		s.public: s.Network(t, "public"),
	} {
		name := namespace[len("packets-"):]
		external := s.ReadField(t, "Project", "packets", name, "status", "externalIP")
		if gw := s.ReadField(t, "EIp", namespace, "default-gw", "status", "ipAddress"); gw != external ||
			external == "" {
			t.Errorf("Project %s has the external address %q and its EIp default-gw has %q", name, external, gw)
		}
		for _, from := range []string{"plain-node1", "plain-node2", "plain-node3"} {
			ways += s.ExpectAnswers(t, from+"."+namespace, harness.InternetAddress, "internet", external)
			ways += s.ExpectAnswers(t, from+"."+namespace, x.ClientAddress, x.Client, external)
		}
	}
	s.ExpectNoDrops(t)
	return fmt.Sprintf("%d ways from pods on three nodes, by either network, came from the project's default-gw address; no router dropped anything", ways)
}
