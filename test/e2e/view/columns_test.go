package view

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sallyport/sallyport/test/e2e/harness"
)

// kubectl runs kubectl in a lab and returns its output with single spaces.
func kubectl(t *testing.T, c *harness.Cluster, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience) // also at the end of a test
	defer cancel()
	cmd := exec.CommandContext(ctx, "env", append([]string{"PATH=" + c.Parts.Bin() + ":" + os.Getenv("PATH"), "kubectl", "--kubeconfig", c.Kubeconfig()}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %v: %v\n%s", args, err, out)
	}
	return regexp.MustCompile(` +`).ReplaceAllString(string(out), " ")
}

// TestDay6Columns checks the columns and Events of objects that work, and of one that does not.
func TestDay6Columns(t *testing.T) {
	c := harness.SharedSallyport(t)
	item := dayItems.Item(t, 6)
	c.CreateOrganization(t, "day6")
	ns := c.CreateProject(t, "day6", "one", "10.92.0.0/24", "cloud")
	target := c.RunPod(t, harness.Pod{Namespace: ns, Name: "web", Node: "node1"})
	c.CreateEIP(t, ns, "front", "{externalNetworkType: public, ipAddress: 91.224.11.220}")
	c.CreateFIP(t, ns, "web", "{eip: front, podTarget: {podName: web}}")
	c.ApplyObject(t, "FIp", ns, "bad", "{eip: none, podTarget: {podName: web}}")
	c.WaitForObject(t, "FIp", ns, "bad", func(o *unstructured.Unstructured) bool {
		conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
		return len(conditions) > 0
	})
	shown := 0
	for _, want := range []struct{ args, line string }{
		{"get eip -n " + ns, "NAME EXTERNAL IP NETWORK USED BY READY REASON AGE"},
		{"get eip -n " + ns, "front 91.224.11.220 ext-public FIp web true "},
		{"get fip -n " + ns, "NAME EXTERNAL IP NETWORK TARGET IP POD VM DIRECTION READY REASON AGE"},
		{"get fip -n " + ns, "web 91.224.11.220 ext-public " + target + " web "},
		{"get proj -n day6", "NAME PROJECT NAMESPACE CIDR NETWORK EXTERNAL IP EIPS READY REASON AGE"},
		{"get proj -n day6", "one " + ns + " 10.92.0.0/24 cloud "},
		{"get sallyport -A", "project.kube-dc.com/one"},
		{"get sallyport -A", "fip.kube-dc.com/web"},
		{"describe fip -n " + ns + " web", "91.224.11.220 leads to " + target},
		{"describe eip -n " + ns + " front", "91.224.11.220 of ext-public is reserved"},
		{"get fip -n " + ns + " bad", " false NotResolved "},
		{"describe fip -n " + ns + " bad", "Reason: NotResolved"},
	} {
		if out := kubectl(t, c, strings.Fields(want.args)...); !strings.Contains(out, want.line) {
			t.Errorf("kubectl %s: no %q in\n%s", want.args, want.line, out)
			continue
		}
		shown++
	}
	item.AddFigure("columns and texts as expected: %d of 12", shown)
}
