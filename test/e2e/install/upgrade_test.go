package install

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sallyport/sallyport/internal/lab/blueprint"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// upgradeFromVariable names the commit to upgrade from.
const upgradeFromVariable = "SALLYPORT_UPGRADE_FROM"

// rowTables are the tables of the northbound database that the controller writes.
var rowTables = []string{
	"ACL", "Address_Set", "Gateway_Chassis", "HA_Chassis", "HA_Chassis_Group", "Load_Balancer",
	"Load_Balancer_Health_Check",
	"Logical_Router", "Logical_Router_Policy", "Logical_Router_Port", "Logical_Router_Static_Route", "Logical_Switch",
	"Logical_Switch_Port", "NAT", "Port_Group", "QoS", "Static_MAC_Binding",
}

// listedWrites are what an upgrade may write, with the reason.
var listedWrites = map[*regexp.Regexp]string{
	regexp.MustCompile(`,? ?always_learn_from_arp_request=\W*false\W*`): "routers learn the neighbours they talk to (ADR 31)",
}

// TestUpgradeWritesNothing replaces the controller of another commit by this one, in a cluster with open connections.
// No row of the northbound database and no object of Kube-OVN may change, except for the listed ones, and no connection
// may be interrupted.
func TestUpgradeWritesNothing(t *testing.T) {
	from := os.Getenv(upgradeFromVariable)
	if from == "" {
		t.Skipf("%s is not set to a commit", upgradeFromVariable)
	}
	before := buildController(t, from)
	c := harness.StartLab(t, "upgrade", blueprint.Default())
	c.InstallSallyport(t)
	ctl := c.NewController(t, t.TempDir())
	ctl.Program = before
	ctl.StartForTest(t)

	c.CreateOrganization(t, "up")
	ns := c.CreateProject(t, "up", "grade", "10.91.0.0/24", "cloud")
	c.RunPod(t, harness.Pod{Namespace: ns, Name: "web", Node: "node1"})
	cloud := c.CreateFIP(t, ns, "cloud", "{externalNetworkType: cloud, podTarget: {podName: web}}")
	c.RunPod(t, harness.Pod{Namespace: ns, Name: "shop", Node: "node2"})
	public := c.CreateFIP(t, ns, "public", "{externalNetworkType: public, podTarget: {podName: shop}}")
	c.Apply(t, fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {name: web, namespace: %s},
  spec: {type: LoadBalancer, selector: {app: web}, ports: [{port: 8080, targetPort: 80}]}}`, ns))
	c.WaitForObject(t, "Service", ns, "web", func(o *unstructured.Unstructured) bool {
		ingress, _, _ := unstructured.NestedSlice(o.Object, "status", "loadBalancer", "ingress")
		return len(ingress) > 0
	})
	streams := []*harness.Stream{c.StartStream(t, "internet", cloud), c.StartStream(t, "internet", public)}
	waitForRest(t, c)

	rows, objects := dumpRows(t, c), dumpEngineObjects(t, c)
	harness.ResetGaps(streams...)
	ctl.Stop(syscall.SIGTERM)
	ctl.Program = ""
	ctl.Start(t)
	waitForRest(t, c)
	written := map[string]bool{}
	for table, text := range dumpRows(t, c) {
		for listed, why := range listedWrites {
			if without := listed.ReplaceAllString(text, ""); without != text {
				text, written[why] = without, true
			}
			rows[table] = listed.ReplaceAllString(rows[table], "")
		}
		if text != rows[table] {
			t.Errorf("table %s changed.\nBefore:\n%s\nAfter:\n%s", table, rows[table], text)
		}
	}
	if now := dumpEngineObjects(t, c); now != objects {
		t.Errorf("objects of Kube-OVN changed.\nBefore:\n%s\nAfter:\n%s", objects, now)
	}
	silence := harness.ExpectStreamsContinue(t, "after the upgrade", streams...)
	if silence > 2*time.Second {
		t.Errorf("a stream was silent for %v", silence)
	}
	c.ExpectNoDrops(t)
	t.Logf("upgrade from %s: no other row and no object of Kube-OVN changed than %q; longest silence of a stream %v", from,
		slices.Sorted(maps.Keys(written)), silence.Round(time.Millisecond))

	// Control: a change is noticed.
	c.DeleteAndWait(t, "FIp", ns, "public")
	if dumpRows(t, c)["NAT"] == rows["NAT"] {
		t.Error("a deleted FIp changes no row: the test can't fail")
	}
}

// buildController builds the controller of another commit.
func buildController(t *testing.T, commit string) string {
	t.Helper()
	dir := t.TempDir()
	source, program := filepath.Join(dir, "source"), filepath.Join(dir, "sallyport-controller")
	for _, argv := range [][]string{
		{"git", "-C", "../../..", "worktree", "add", "--detach", source, commit},
		{"go", "-C", source, "build", "-o", program, "./cmd/sallyport-controller"},
	} {
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
		}
	}
	t.Cleanup(func() {
		_ = exec.Command("git", "-C", "../../..", "worktree", "remove", "--force", source).Run()
	})
	return program
}

// waitForRest waits until nothing has changed in the northbound database for ten seconds.
func waitForRest(t *testing.T, c *harness.Cluster) {
	t.Helper()
	last, since := "", time.Now()
	harness.Eventually(t, "the northbound database is at rest", func() bool {
		if now := fmt.Sprint(dumpRows(t, c)); now != last {
			last, since = now, time.Now()
		}
		<-time.After(time.Second)
		return time.Since(since) > 10*time.Second
	})
}

// dumpRows returns the rows of the tables that the controller writes, with their UUIDs.
func dumpRows(t *testing.T, c *harness.Cluster) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, table := range rowTables {
		out[table] = c.RunTool(t, "ovsdb-client", "--format=csv", "dump", "unix:"+c.DatabaseFile("nb1", "sock"), "OVN_Northbound",
			table)
	}
	return out
}

// dumpEngineObjects returns the objects of Kube-OVN that the controller writes, with their resource versions.
func dumpEngineObjects(t *testing.T, c *harness.Cluster) string {
	t.Helper()
	out, err := exec.Command(c.Parts.Program("kubectl"), "--kubeconfig", c.Kubeconfig(), "get",
		"vpcs,subnets,ovn-eips,ovn-fips,ovn-snat-rules", "-o",
		`jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.resourceVersion}{"\n"}{end}`).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}
