package view

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// TestDay6NetworksOfLabelledSubnets checks that each Subnet with the label has an ExternalNetwork that tenants can read,
// that an operator's ExternalNetwork takes precedence and is never deleted, and that addresses do not notice any of it.
func TestDay6NetworksOfLabelledSubnets(t *testing.T) {
	c := harness.SharedSallyport(t)
	item := dayItems.Item(t, 6)
	c.CreateOrganization(t, "shown")
	ns := c.CreateProject(t, "shown", "one", "10.93.0.0/24", "cloud")
	harness.CreateTinySubnet("shown", "shown", "198.19.77")(t, c)
	c.WaitForObject(t, "ExternalNetwork", "", "shown", manifest.True("Accepted"))
	address := c.CreateEIP(t, ns, "front", "{externalNetworkType: shown}")
	unchanged := func(when string) {
		t.Helper()
		if got := c.ReadStatusField(t, "EIp", ns, "front", "ipAddress"); got != address {
			t.Errorf("%s the address is %s, and was %s", when, got, address)
		}
		c.WaitForObject(t, "EIp", ns, "front", manifest.True("Programmed"))
	}
	if out := kubectl(t, c, "get", "externalnetworks"); !strings.Contains(out, "shown shown [\"shown\"] ") ||
		!strings.Contains(out, "ext-public public ") {
		t.Errorf("kubectl get externalnetworks:\n%s", out)
	}

	const own = "{apiVersion: kube-dc.com/v1alpha1, kind: ExternalNetwork, metadata: {name: zoo}, spec: {type: shown, subnets: [shown]}}"
	c.Apply(t, own)
	c.WaitForObject(t, "ExternalNetwork", "", "shown", manifest.Gone)
	c.WaitForObject(t, "ExternalNetwork", "", "zoo", manifest.True("Accepted"))
	unchanged("with an operator's network")
	c.DeleteAndWait(t, "ExternalNetwork", "", "zoo")
	c.WaitForObject(t, "ExternalNetwork", "", "shown", manifest.True("Accepted"))

	label := func(value string) {
		kubectl(t, c, "label", "--overwrite", "subnet", "shown", kubedcv1.ExternalNetworkTypeLabel+value)
	}
	label("=other")
	c.WaitForObject(t, "ExternalNetwork", "", "shown", func(o *unstructured.Unstructured) bool {
		return o != nil && harness.StringField(o, "spec", "type") == "other"
	})
	label("=shown")
	c.WaitForObject(t, "ExternalNetwork", "", "shown", func(o *unstructured.Unstructured) bool {
		return o != nil && harness.StringField(o, "spec", "type") == "shown"
	})
	kubectl(t, c, "patch", "externalnetwork", "shown", "--type=merge", "-p", `{"spec":{"returnPath":"Source"}}`)
	c.WaitForObject(t, "ExternalNetwork", "", "shown", func(o *unstructured.Unstructured) bool {
		return o != nil && harness.StringField(o, "status", "returnPath") == "Source"
	})
	unchanged("with an edited network")
	c.DeleteAndWait(t, "EIp", ns, "front")
	label("-")
	c.WaitForObject(t, "ExternalNetwork", "", "ext-public", manifest.True("Accepted"))
	if got := c.ReadField(t, "ExternalNetwork", "", "shown", "spec", "returnPath"); got != "Source" {
		t.Errorf("the network that an operator edited has returnPath %q after the label is gone", got)
	}
	label("=shown")
	kubectl(t, c, "delete", "externalnetwork", "shown")
	c.WaitForObject(t, "ExternalNetwork", "", "shown", func(o *unstructured.Unstructured) bool {
		return o != nil && harness.StringField(o, "spec", "returnPath") == "" // created again
	})
	label("-")
	c.WaitForObject(t, "ExternalNetwork", "", "shown", manifest.Gone)
	item.AddFigure("a labelled Subnet has an ExternalNetwork: created, changed and deleted with the label; an operator's takes precedence, an edited one is kept")
}
