package address

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	wiring "github.com/sallyport/sallyport/internal/controller"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// TestMetricsAreTheListedOnes checks that the served metrics are exactly the listed ones.
func TestMetricsAreTheListedOnes(t *testing.T) {
	c := harness.SharedSallyport(t)
	counters := c.CreateCountedObjects(t)
	served := map[string]bool{}
	for name := range counters {
		name, _, _ = strings.Cut(name, "{")
		for _, part := range []string{"_bucket", "_sum", "_count"} {
			name = strings.TrimSuffix(name, part)
		}
		if strings.HasPrefix(name, "sallyport_") {
			served[name] = true
		}
	}
	for _, m := range wiring.Metrics {
		// there is no agent with a certificate here
		if !served[m.Name] && m.Name != "sallyport_agent_certificate_expires_seconds" {
			t.Errorf("%s is listed and not served", m.Name)
		}
		delete(served, m.Name)
	}
	if len(served) > 0 {
		t.Errorf("served and not listed: %v", slices.Collect(maps.Keys(served)))
	}
	for series, least := range map[string]float64{
		"sallyport_leading": 1, "sallyport_northbound_connected": 1, "sallyport_southbound_connected": 1,
		`sallyport_objects{condition="Programmed",kind="Project",reason="Programmed",status="True"}`: 1,
		`sallyport_pool_addresses{network="ext-cloud",state="free",subnet="ext-cloud"}`:              1000,
		`sallyport_pool_addresses{network="ext-cloud",state="used",subnet="ext-cloud"}`:              1,
	} {
		if counters[series] < least {
			t.Errorf("%s is %v, want %v at least", series, counters[series], least)
		}
	}
}

// TestRepairsAreCounted checks that restoring something that others removed counts as a repair, and that writing a
// requested change does not.
func TestRepairsAreCounted(t *testing.T) {
	c := harness.SharedSallyport(t)
	c.CreateOrganization(t, "mend")
	c.CreateProject(t, "mend", "web", "10.67.0.0/24", "cloud")
	for i, name := range []string{"a", "b"} {
		c.RunPod(t, harness.Pod{Namespace: "mend-web", Name: name, Address: fmt.Sprintf("10.67.0.1%d", i)})
	}
	const fip = "{apiVersion: kube-dc.com/v1, kind: FIp, metadata: {name: web, namespace: mend-web}, spec: {externalNetworkType: cloud, podTarget: {podName: %s}}}"
	repairs := func() float64 {
		return harness.SharedController.ReadMetrics(t)[`sallyport_repairs_total{target="OVN"}`]
	}
	c.Apply(t, fmt.Sprintf(fip, "a"))
	waitForNAT(t, c, "10.67.0.10")
	waitQuiet(t, c)
	before := repairs()
	if err := c.Objects.Apply(harness.Within(t, harness.Patience), fmt.Sprintf(fip, "b")); err != nil {
		t.Fatal(err)
	}
	waitForNAT(t, c, "10.67.0.11")
	waitQuiet(t, c)
	if after := repairs(); after != before {
		t.Errorf("a floating IP was pointed at another pod, and %v repairs were counted", after-before)
	}
	c.RunNbctl(t, "lr-nat-del", "mend-web", "dnat_and_snat")
	waitForNAT(t, c, "10.67.0.11")
	waitQuiet(t, c)
	if after := repairs(); after != before+1 {
		t.Errorf("a row was put back, and %v repairs were counted", after-before)
	}
}

// waitForNAT waits until the router of mend-web has a NAT row for a pod.
func waitForNAT(t *testing.T, c *harness.Cluster, to string) {
	t.Helper()
	harness.Eventually(t, "a translation to "+to, func() bool {
		return c.RunNbctl(t, "--bare", "--columns=_uuid", "find", "nat", "logical_ip="+to) != ""
	})
}
