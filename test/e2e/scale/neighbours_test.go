package scale

import (
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// neighbourCost is what neighbours cost a cluster after its gateways were restarted and have announced all addresses.
type neighbourCost struct {
	projects, bindings, flows int
}

func (n neighbourCost) String() string {
	return fmt.Sprintf("%d projects: %d MAC bindings, %d flows", n.projects, n.bindings, n.flows)
}

// maxExponent is the largest exponent that is still called linear.
const maxExponent = 1.05

// A gateway announces each address of each project, and by default each router on the network learns each. That is a
// MAC binding and four flows for each pair of them. Sallyport's routers learn the neighbours that they talk to.
func TestScale3Neighbours(t *testing.T) {
	item := scaleItems.Item(t, 3)
	f := harness.NewGatewayScaleFixture(t, 2)
	var all []neighbourCost
	for _, size := range show.ChooseSize([]int{10, 25, 50, 100}, []int{4, 12}) {
		f.GrowTo(t, size)
		all = append(all, measureNeighbours(t, f))
		item.AddFigure("%s", all[len(all)-1])
	}
	first, last := all[0], all[len(all)-1]
	for what, n := range map[string][2]int{
		"MAC bindings": {first.bindings, last.bindings}, "flows": {first.flows, last.flows},
	} {
		exponent := math.Log(float64(max(n[1], 1))/float64(max(n[0], 1))) /
			math.Log(float64(last.projects)/float64(first.projects))
		item.AddFigure("%s: exponent %.2f from %d to %d projects", what, exponent, first.projects, last.projects)
		if exponent > maxExponent {
			t.Errorf("%s grow with exponent %.2f, wanted at most %.2f: %v", what, exponent, maxExponent, all)
		}
	}
	// control: the same with OVN's default
	f.Controller.Stop(syscall.SIGTERM)
	for i := range f.Size {
		f.RunNbctl(t, "set", "logical_router", f.NamespaceOf(i), "options:always_learn_from_arp_request=true")
	}
	control := measureNeighbours(t, f)
	item.AddFigure("with OVN's default, %s", control)
	if control.bindings < 2*last.bindings || control.bindings < last.projects {
		t.Errorf("OVN's default gives %v and ours %v: the restart makes nobody learn", control, last)
	}
}

// measureNeighbours restarts ovn-controller on all nodes, waits until all addresses are announced, and counts.
func measureNeighbours(t *testing.T, f *harness.ScaleFixture) neighbourCost {
	t.Helper()
	f.SyncFlows(t)
	f.RunSbctl(t, "--", "--all", "destroy", "MAC_Binding")
	nodes := []string{"node1", "node2"}
	for _, node := range nodes {
		f.ControlLab(t, "kill", node+"-ovn-controller")
	}
	for _, node := range nodes {
		f.ControlLab(t, "start", node+"-ovn-controller")
	}
	f.SyncFlows(t)
	out := neighbourCost{projects: f.Size}
	since := time.Now()
	harness.Eventually(t, "no address has been learned for five seconds", func() bool {
		if n := strings.Count(f.RunSbctl(t, "--columns=ip", "list", "MAC_Binding"), "."); n/3 != out.bindings {
			out.bindings, since = n/3, time.Now()
		}
		return time.Since(since) > 5*time.Second
	})
	f.SyncFlows(t)
	for _, node := range nodes {
		out.flows = max(out.flows, countFlows(t, f.Cluster, node))
	}
	return out
}

var flowCount = regexp.MustCompile(`flow_count=(\d+)`)

// countFlows returns the number of OpenFlow flows of a node.
func countFlows(t *testing.T, c *harness.Cluster, node string) int {
	t.Helper()
	bridge := filepath.Join(c.Dir, "data", node, "br-int.mgmt")
	found := flowCount.FindStringSubmatch(c.RunTool(t, "ovs-ofctl", "dump-aggregate", "unix:"+bridge))
	if found == nil {
		t.Fatalf("ovs-ofctl does not tell the number of flows of %s", node)
	}
	n, _ := strconv.Atoi(found[1])
	return n
}
