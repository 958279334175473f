package view

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/test/e2e/harness"
)

// TestDay3Check checks a real API server and Kube-OVN before an installation, and then with one fault at a time. All faults
// that check knows are named by the unit tests of package preflight, on objects in memory.
func TestDay3Check(t *testing.T) {
	item := dayItems.Item(t, 3)
	c := harness.SharedSallyport(t)
	healthy := problemsOfCheck(t, c)
	// Kube-OVN of the lab does not use TLS, the CRDs are not of Helm, and one network has IPv6.
	known := []string{"DatabasesWithoutTLS", "DefinitionNotOfHelm", "SubnetWithIPv6"}
	for _, p := range healthy {
		if !slices.Contains(known, p.Code) {
			t.Errorf("a cluster without faults: %v", p)
		}
	}
	faults := []struct {
		code         string
		make, mended []string // arguments of kubectl
		args         []string
	}{
		{
			code:   "OtherInstallation",
			make:   []string{"create", "deployment", "sallyport-controller", "--image=none", "--replicas=0", "-n", "default"},
			mended: []string{"delete", "deployment", "sallyport-controller", "-n", "default"},
		},
		{
			code:   "DefinitionOfAnotherRelease",
			make:   []string{"annotate", "crd", "eips.kube-dc.com", "meta.helm.sh/release-name=other", "meta.helm.sh/release-namespace=other"},
			mended: []string{"annotate", "crd", "eips.kube-dc.com", "meta.helm.sh/release-name-", "meta.helm.sh/release-namespace-"},
		},
		{code: "NamespaceMissing", args: []string{"--controller-namespace", "day3-none"}},
		{code: "SecretMissing", args: []string{"--ovn-tls-secret", "day3-none"}},
		{code: "KubeOVNNotFound", args: []string{"--kube-ovn-namespace", "day3-none"}},
	}
	for _, f := range faults {
		if f.make != nil {
			kubectl(t, c, f.make...)
		}
		found := problemsOfCheck(t, c, f.args...)
		if f.mended != nil {
			kubectl(t, c, f.mended...)
		}
		if !slices.ContainsFunc(found, func(p checkProblem) bool { return p.Code == f.code && p.Next != "" }) {
			t.Errorf("%s is not named: %v", f.code, found)
		}
	}
	if after := problemsOfCheck(t, c); !slices.Equal(after, healthy) {
		t.Errorf("with all faults mended: %v, and before %v", after, healthy)
	}
	item.AddFigure("%d faults in a lab are named, none without them", len(faults))
}

// checkProblem is a check that is not ok.
type checkProblem struct{ Check, State, Code, Next string }

// problemsOfCheck runs sallyport check and returns what is not ok. The lab has no Services of OVN's databases.
func problemsOfCheck(t *testing.T, c *harness.Cluster, args ...string) (problems []checkProblem) {
	t.Helper()
	args = append([]string{"check", "-o", "json", "--nb-address", "ssl:192.0.2.1:6641"}, args...)
	cmd := exec.CommandContext(harness.Within(t, harness.Patience), filepath.Join(binDir(t), "sallyport"), args...)
	cmd.Env = []string{"KUBECONFIG=" + c.Kubeconfig(), "TMPDIR=" + os.TempDir()}
	out, err := cmd.Output()
	var report struct{ Checks []checkProblem }
	if json.Unmarshal(out, &report) != nil || len(report.Checks) < 10 {
		t.Fatalf("sallyport %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	for _, p := range report.Checks {
		if p.Code != "" {
			problems = append(problems, p)
		}
	}
	return problems
}
