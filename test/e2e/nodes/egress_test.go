package nodes

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/sallyport/sallyport/internal/lab/manifest"
)

// TestNodeEgress shows that pods of the management VPC leave through networks of their node, as EgressServices and
// EgressRoutes request. The target host is behind the router of a network, which has routes back only to addresses that
// arrive through it.
func TestNodeEgress(t *testing.T) {
	g := newNodeFixture(t, "nodeegress")
	g.startAgent(t)
	g.applyNetwork(t, "vlan1", fmt.Sprintf("method: Connection, addresses: [%s/32]", g.serviceIPs["vlan1"]))
	g.applyNetwork(t, "vlan2", "method: Connection")
	before := g.dumpKernel(t)
	second := g.Segment(t, "vlan2").NodeAddresses(g.Blueprint.NodeList()[0])[0].Addr() // of node1

	t.Run("EgressService", func(t *testing.T) {
		g.expectNotSeenAs(t, "vlan1", "vlan1", g.serviceIPs["vlan1"])
		g.Apply(t, "apiVersion: k8s.ovn.org/v1\nkind: EgressService\nmetadata: {name: vlan1, namespace: shop}")
		g.WaitForObject(t, "EgressService", "shop", "vlan1", manifest.True("Programmed"))
		for _, protocol := range []string{"http", "udp"} {
			g.ExpectAnswer(t, "vlan1.shop", g.clientURL(t, protocol, "vlan1"), "client-vlan1",
				g.serviceIPs["vlan1"].String())
		}
		g.expectNotSeenAs(t, "vlan2", "vlan1", g.serviceIPs["vlan1"])                 // another pod
		g.ExpectAnswer(t, "vlan1.shop", "http://"+g.clusterIPs["vlan2"], "vlan2", "") // inside, unaffected
		g.ExpectAnswer(t, "client-vlan1", g.serviceURL("vlan1", "http"), "vlan1", "") // and incoming connections

		g.Apply(t, g.egressRoute(t, "vlan1", "vlan2")) // takes precedence for its destination
		g.WaitForObject(t, "EgressRoute", "shop", "partners", manifest.True("Programmed"))
		g.ExpectAnswer(t, "vlan1.shop", g.clientURL(t, "http", "vlan2"), "client-vlan2", second.String())
		g.ExpectAnswer(t, "vlan1.shop", g.clientURL(t, "http", "vlan1"), "client-vlan1", g.serviceIPs["vlan1"].String())
		g.DeleteAndWait(t, "EgressRoute", "shop", "partners")
		g.DeleteAndWait(t, "EgressService", "shop", "vlan1")
		g.expectKernelRestored(t, before)
	})
	t.Run("EgressRoute", func(t *testing.T) {
		g.expectNotSeenAs(t, "uplink-a", "vlan2", second)
		g.Apply(t, g.egressRoute(t, "uplink-a", "vlan2"))
		g.WaitForObject(t, "EgressRoute", "shop", "partners", manifest.True("Programmed"))
		g.ExpectAnswer(t, "uplink-a.shop", g.clientURL(t, "http", "vlan2"), "client-vlan2", second.String())
		g.expectNotSeenAs(t, "vlan1", "vlan2", second) // a pod that is not selected
		g.DeleteAndWait(t, "EgressRoute", "shop", "partners")
		g.expectKernelRestored(t, before)
	})
}

// egressRoute returns an EgressRoute for a pod to the client of a network, through that network.
func (g *nodeFixture) egressRoute(t *testing.T, pod, network string) string {
	t.Helper()
	return fmt.Sprintf(`
apiVersion: kube-dc.com/v1alpha1
kind: EgressRoute
metadata: {name: partners, namespace: shop}
spec: {podSelector: {matchLabels: {app: %s}}, destinations: [%s/32], externalNetwork: %s}`, pod, g.Segment(t, network).ClientSide[0].Peer.Addr(), network)
}

// clientURL returns the URL of the client of a network.
func (g *nodeFixture) clientURL(t *testing.T, protocol, network string) string {
	t.Helper()
	return fmt.Sprintf("%s://%s:80", protocol, g.Segment(t, network).ClientSide[0].Peer.Addr())
}

// expectNotSeenAs fails the test if the client of a network already sees a pod with the address, because a later check
// would then prove nothing.
func (g *nodeFixture) expectNotSeenAs(t *testing.T, pod, network string, address netip.Addr) {
	t.Helper()
	if a, err := g.SendRequest(pod+".shop", g.clientURL(t, "http", network)); err == nil && a.Saw.Addr() == address {
		t.Errorf("pod %s is seen with %s though nothing says so", pod, address)
	}
}
