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
	c.organization(t, "metrics-org")
	c.project(t, "metrics-org", "a", "10.9.0.0/24", "cloud") // a controller that has done nothing has counted nothing
	c.assignable(t, "node1", true)
	defer c.assignable(t, "node1", false)
	c.apply(t, "{apiVersion: k8s.ovn.org/v1, kind: EgressIP, metadata: {name: metrics}, spec: {egressIPs: [100.65.9.9], namespaceSelector: {matchLabels: {kube-dc.com/project: a}}}}")
	c.wait(t, "EgressIP", "", "metrics", hasConditions)
	served := map[string]bool{}
	for name := range sharedController.counters(t) {
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
