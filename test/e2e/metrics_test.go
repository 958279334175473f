package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	ovnv1 "github.com/sallyport/sallyport/api/ovn/v1"
	wiring "github.com/sallyport/sallyport/internal/controller"
)

// A metric that nobody lists is as bad as a listed one that nobody serves.
func TestMetricsAreTheListedOnes(t *testing.T) {
	c := sallyport(t)
	counters := c.everythingCounted(t)
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
		if !served[m.Name] {
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

// everythingCounted makes something of everything that is counted, and returns the counters then: a controller that has done nothing has
// counted nothing.
func (c *cluster) everythingCounted(t *testing.T) (counters map[string]float64) {
	t.Helper()
	org := strings.ToLower(t.Name())
	c.organization(t, org)
	c.project(t, org, "a", "10.9.0.0/24", "cloud")
	c.assignable(t, "node1", true)
	t.Cleanup(func() { c.assignable(t, "node1", false) })
	c.apply(t, "{apiVersion: k8s.ovn.org/v1, kind: EgressIP, metadata: {name: metrics}, spec: {egressIPs: [100.65.9.9], namespaceSelector: {matchLabels: {kube-dc.com/project: a}}}}")
	c.wait(t, "EgressIP", "", "metrics", hasConditions)
	c.apply(t, "{apiVersion: kube-dc.com/v1alpha1, kind: ExternalNetwork, metadata: {name: metrics}, spec: {type: metrics, nodes: {interface: uplink-b, gateways: [192.0.2.129]}}}")
	eventually(t, "a NodePath that is counted", func() bool {
		counters = sharedController.counters(t)
		_, told := counters[`sallyport_node_repairs_total{node="node1"}`]
		return told && counters[`sallyport_node_networks{state="waits"}`] > 0
	})
	return counters
}

// What somebody takes away and is put back is a repair; what is written because somebody wants it is none.
func TestRepairsAreCounted(t *testing.T) {
	c := sallyport(t)
	c.organization(t, "mend")
	c.project(t, "mend", "web", "10.67.0.0/24", "cloud")
	for i, name := range []string{"a", "b"} {
		c.run(t, pod{namespace: "mend-web", name: name, address: fmt.Sprintf("10.67.0.1%d", i)})
	}
	const fip = "{apiVersion: kube-dc.com/v1, kind: FIp, metadata: {name: web, namespace: mend-web}, spec: {externalNetworkType: cloud, podTarget: {podName: %s}}}"
	repairs := func() float64 { return sharedController.counters(t)[`sallyport_repairs_total{target="OVN"}`] }
	c.apply(t, fmt.Sprintf(fip, "a"))
	c.translated(t, "10.67.0.10")
	c.quiet(t)
	before := repairs()
	if err := c.objects.Apply(within(t, time.Minute), fmt.Sprintf(fip, "b")); err != nil {
		t.Fatal(err)
	}
	c.translated(t, "10.67.0.11")
	c.quiet(t)
	if after := repairs(); after != before {
		t.Errorf("a floating IP was pointed at another pod, and %v repairs were counted", after-before)
	}
	c.nbctl(t, "lr-nat-del", "mend-web", "dnat_and_snat")
	c.translated(t, "10.67.0.11")
	c.quiet(t)
	if after := repairs(); after != before+1 {
		t.Errorf("a row was put back, and %v repairs were counted", after-before)
	}
}

// translated waits until the router of mend-web has a floating IP for a pod.
func (c *cluster) translated(t *testing.T, to string) {
	t.Helper()
	eventually(t, "a translation to "+to, func() bool { return c.nbctl(t, "--bare", "--columns=_uuid", "find", "nat", "logical_ip="+to) != "" })
}

// hasConditions holds when the controller has said something of an object.
func hasConditions(o *unstructured.Unstructured) bool {
	if o == nil {
		return false
	}
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	return len(conditions) > 0
}

// assignable lets a node hold egress addresses, or not.
func (c *cluster) assignable(t *testing.T, node string, may bool) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, ovnv1.AssignableLabel, map[bool]string{true: `""`, false: "null"}[may])
	if _, err := c.client.CoreV1().Nodes().Patch(within(t, time.Minute), node, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}
