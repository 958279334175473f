package egress

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/lab/blueprint"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// TestEgress3Many distributes many addresses over several nodes and stops one of them.
func TestEgress3Many(t *testing.T) {
	harness.RunAlone(t)
	item := egressItems.Item(t, 3)
	nodes, addresses := show.ChooseSize(10, 5), show.ChooseSize(100, 20)
	b, err := blueprint.Load("../testdata/egress.yaml")
	if err != nil {
		t.Fatal(err)
	}
	b.Nodes, b.Gateways = nodes+1, nodes
	y := newEgressFixtureFrom(t, "many", b)
	var list strings.Builder
	for i := range addresses {
		project, app := []string{"one", "two"}[i%2], "nobody"
		if i < 2 {
			app = "a"
		}
		fmt.Fprintf(&list, "---\n{apiVersion: k8s.ovn.org/v1, kind: EgressIP, metadata: {name: many-%d}, spec: {egressIPs: [91.224.11.%d], %s, podSelector: {matchLabels: {app: %s}}}}\n",
			i, 100+i, projectSelector(project), app)
	}
	begun := time.Now()
	y.Apply(t, list.String())
	for i := range addresses {
		y.WaitForObject(t, "EgressIP", "", fmt.Sprintf("many-%d", i), harness.IsUpToDate)
	}
	made := time.Since(begun)
	y.SyncFlows(t)
	before := y.addressesPerNode(t, addresses)
	expectEvenSpread(t, before, nodes, addresses)
	lost := y.assignedNode(t, "many-0")
	p := y.StartProbe(t, "a."+y.namespaces[0])
	p.WaitSteady(t)
	begun = time.Now()
	y.ControlLab(t, "kill", lost)
	t.Cleanup(func() { y.ControlLab(t, "start", lost) })
	for i := range addresses {
		y.WaitForObject(t, "EgressIP", "", fmt.Sprintf("many-%d", i), isHeldBy(func(node string) bool {
			return node != lost
		}))
	}
	took := time.Since(begun)
	gap := p.MeasureLongestGap(t, 2*time.Second)
	p.Stop()
	after := y.addressesPerNode(t, addresses)
	expectEvenSpread(t, after, nodes-1, addresses)
	y.expectEgressAs(t, "a."+y.namespaces[0], "91.224.11.100")
	y.expectEgressAs(t, "a."+y.namespaces[1], "91.224.11.101")
	// Eleven nodes on two cores need some seconds to process the ports that move; traffic of an address pauses for that
	// long.
	if gap > harness.TimeLimit(10*time.Second) {
		t.Errorf("nothing came back for %s", gap)
	}
	item.AddFigure("%d addresses on %d nodes in force after %.1f s, %v; one node killed: the %d that it had are elsewhere and told after %.1f s, %v; a pod's traffic paused for %d ms",
		addresses, nodes, made.Seconds(), before, before[lost], took.Seconds(), after, gap.Milliseconds())
}

// addressesPerNode returns the number of addresses that each node holds.
func (y *egressFixture) addressesPerNode(t *testing.T, addresses int) map[string]int {
	t.Helper()
	out := map[string]int{}
	for i := range addresses {
		out[y.assignedNode(t, fmt.Sprintf("many-%d", i))]++
	}
	return out
}

// expectEvenSpread fails the test unless the addresses are distributed evenly.
func expectEvenSpread(t *testing.T, load map[string]int, nodes, addresses int) {
	t.Helper()
	least, most := addresses/nodes-1, (addresses+nodes-1)/nodes+1
	for node, n := range load {
		if n < least || n > most || len(load) != nodes {
			t.Errorf("%s holds %d of %d addresses on %d nodes: %v", node, n, addresses, nodes, load)
			return
		}
	}
}
