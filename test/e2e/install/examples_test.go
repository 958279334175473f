package install

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/internal/lab"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// TestProjectExampleRunsAsWritten runs the commands of the project example unchanged and checks that they do what the
// text says.
func TestProjectExampleRunsAsWritten(t *testing.T) {
	out, name := runExample(t, "02-project")
	if n := strings.Count(out, "web saw 203.0.113.10"); n != 2 {
		t.Errorf("the pod answered %d times; wanted one answer on each of two networks:\n%s", n, out)
	}
	harness.ExpectContains(t, out,
		// the client's address, and the pod's source address on the default network and then on the other
		"web saw 203.0.113.10", "internet saw 100.65.", "internet saw 198.51.100.",
		"fip.kube-dc.com/web-public condition met", "project.kube-dc.com \"production\" deleted",
		"lab \""+name+"\" is down")
}

// TestLoadBalancerExampleRunsAsWritten does the same for load balancers.
func TestLoadBalancerExampleRunsAsWritten(t *testing.T) {
	out, name := runExample(t, "03-load-balancer")
	if n := strings.Count(out, " saw 203.0.113.10"); n != 5 {
		t.Errorf("the internet host was seen %d times, wanted 5:\n%s", n, out)
	}
	if n := strings.Count(out, " saw 10.16."); n != 1 {
		t.Errorf("an address of ovn-default was seen %d times, wanted once, by the pod on its node's network:\n%s", n, out)
	}
	harness.ExpectContains(t, out, "service/tls condition met", "no answer", "held by Service acme-shop/plain",
		"lab \""+name+"\" is down")
}

// TestEgressExampleRunsAsWritten does the same for egress addresses.
func TestEgressExampleRunsAsWritten(t *testing.T) {
	out, name := runExample(t, "04-egress")
	if n := strings.Count(out, "internet saw 198.51.100.200"); n != 2 {
		t.Errorf("the egress address was seen %d times, wanted once before and once after its node died:\n%s", n, out)
	}
	_, address, _ := strings.Cut(out, "to 203.0.113.0/24 it is to leave as ")
	address, _, _ = strings.Cut(address, "\n")
	harness.ExpectContains(t, out, "internet saw "+address+":", "internet saw 100.65.", "was on node2, is on node3",
		"internet saw 198.51.100.210:", // the pod of the default VPC
		"no answer", "no node can hold an address", "lab \""+name+"\" is down")
}

// TestNodesExampleRunsAsWritten does the same for nodes with several uplinks.
func TestNodesExampleRunsAsWritten(t *testing.T) {
	out, name := runExample(t, "05-nodes")
	if n := strings.Count(out, "echo saw 172."); n != 2 {
		t.Errorf("the client was answered %d times, wanted once with the network and once after it was put back:\n%s",
			n, out)
	}
	harness.ExpectContains(t, out, "no answer\n", "nodepath.kube-dc.com/node1 condition met", "table inet sallyport",
		"put back ", "no answer again", "lab \""+name+"\" is down")
}

// TestIsolationExampleRunsAsWritten does the same for isolation of tenants on external networks.
func TestIsolationExampleRunsAsWritten(t *testing.T) {
	out, name := runExample(t, "06-isolation")
	if n := strings.Count(out, "web saw "); n != 3 {
		t.Errorf("the floating IP answered %d times, wanted twice before and once with isolation:\n%s", n, out)
	}
	harness.ExpectContains(t, out, "no answer\n", "keeps projects apart (isolation: Tenants)",
		"is not available to namespace initech-dev", "lab \""+name+"\" is down")
}

// runExample runs the commands of an example's text in a separate lab, and returns their output and the name of the
// lab.
func runExample(t *testing.T, dir string) (out, name string) {
	t.Helper()
	name = fmt.Sprintf("e2e-%d-%s", os.Getpid(), dir)
	t.Cleanup(func() {
		if _, err := lab.Open(name); err == nil { // the example failed before its last command
			_ = lab.Down(t.Context(), name)
		}
	})
	page := harness.ExecutableBlocks(harness.ReadFile(t, "../../../examples/"+dir+"/README.md"))
	return harness.RunBash(t, "../../..", append(os.Environ(), "SALLYPORT_LAB="+name), harness.ScriptFromBlocks(page)),
		name
}
