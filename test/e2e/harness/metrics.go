package harness

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	ovnv1 "github.com/sallyport/sallyport/api/ovn/v1"
)

// CreateCountedObjects creates objects for every metric and returns the metrics, because a controller that has done
// nothing has no counters.
func (c *Cluster) CreateCountedObjects(t *testing.T) (counters map[string]float64) {
	t.Helper()
	org := strings.ToLower(t.Name())
	c.CreateOrganization(t, org)
	c.CreateProject(t, org, "a", "10.9.0.0/24", "cloud")
	c.SetEgressAssignable(t, "node1", true)
	t.Cleanup(func() { c.SetEgressAssignable(t, "node1", false) })
	c.Apply(t, "{apiVersion: k8s.ovn.org/v1, kind: EgressIP, metadata: {name: metrics}, "+
		"spec: {egressIPs: [100.65.9.9], namespaceSelector: {matchLabels: {kube-dc.com/project: a}}}}")
	c.WaitForObject(t, "EgressIP", "", "metrics", hasConditions)
	c.Apply(t, "{apiVersion: kube-dc.com/v1alpha1, kind: ExternalNetwork, metadata: {name: metrics}, "+
		"spec: {type: metrics, nodes: {interface: uplink-b, gateways: [192.0.2.129]}}}")
	Eventually(t, "a NodePath and a Project with its EgressIP are counted", func() bool {
		counters = SharedController.ReadMetrics(t)
		_, told := counters[`sallyport_node_repairs_total{node="node1"}`]
		return told && counters[`sallyport_node_networks{state="waits"}`] > 0 &&
			counters[`sallyport_objects{condition="Programmed",kind="Project",reason="Programmed",status="True"}`] > 0
	})
	return counters
}

// hasConditions reports whether the controller has written conditions to an object.
func hasConditions(o *unstructured.Unstructured) bool {
	if o == nil {
		return false
	}
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	return len(conditions) > 0
}

// SetEgressAssignable allows or forbids a node to hold egress addresses.
func (c *Cluster) SetEgressAssignable(t *testing.T, node string, may bool) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, ovnv1.AssignableLabel,
		map[bool]string{true: `""`, false: "null"}[may])
	if _, err := c.Client.CoreV1().Nodes().Patch(Within(t, Patience), node, types.MergePatchType, patch,
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}
