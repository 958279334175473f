package address

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// checkRebuild shows what happens when a Vpc or a Subnet is deleted, which cannot be prevented. Without pods it is
// recreated at once, with the same addresses. With pods it keeps working, reports what blocks the deletion, and is
// recreated when the pods have ended.
func checkRebuild(t *testing.T, c *harness.Cluster, figure func(string, ...any)) {
	p := &driftedProject{Cluster: c, api: c.NewDirectClient(t, nil)}
	ns := c.CreateProject(t, "drift", "built", "10.68.0.0/24", "cloud")
	c.Apply(t, fmt.Sprintf(`
{apiVersion: kube-dc.com/v1, kind: FIp, metadata: {name: fixed, namespace: %[1]s}, spec: {ipAddress: 10.68.0.20}}
---
{apiVersion: kube-dc.com/v1, kind: FIp, metadata: {name: away, namespace: %[1]s}, spec: {ipAddress: 10.68.0.21, externalNetworkType: public}}`, ns))
	waitBuilt(t, c, ns)
	addresses := externalAddresses(t, c, ns)
	var times []string
	for _, o := range []struct{ kind, name string }{{"Vpc", ns}, {"Subnet", ns + "-default"}} {
		begin := time.Now()
		waitReplaced(t, c, o.kind, o.name, p.deleteObject(o.kind, "", o.name))
		waitBuilt(t, c, ns)
		times = append(times, fmt.Sprintf("%s %.1f s", o.kind, time.Since(begin).Seconds()))
		if now := externalAddresses(t, c, ns); now != addresses {
			t.Errorf("%s was deleted and made again, and the addresses are %s; they were %s", o.kind, now, addresses)
		}
	}
	figure("deleted in a project without pods and made again with the same addresses: %s", strings.Join(times, ", "))

	c.RunPod(t, harness.Pod{Namespace: ns, Name: "web", Address: "10.68.0.20"})
	external := c.ReadStatusField(t, "FIp", ns, "fixed", "externalIP")
	c.ExpectAnswer(t, "client-ext-cloud", "http://"+external, "web", "")
	waitReplaced(t, c, "Vpc", ns, func() error {
		if err := p.deleteObject("Vpc", "", ns)(); err != nil {
			return err
		}
		c.WaitForObject(t, "Project", "drift", "built", func(o *unstructured.Unstructured) bool {
			return o != nil && strings.Contains(fmt.Sprint(o.Object["status"]),
				"it works until the project's pods (1) have terminated")
		})
		c.ExpectAnswer(t, "client-ext-cloud", "http://"+external, "web", "")
		return p.deleteObject("Pod", ns, "web")()
	})
	waitBuilt(t, c, ns)
	if now := externalAddresses(t, c, ns); now != addresses {
		t.Errorf("the addresses are %s; they were %s", now, addresses)
	}
	c.RunPod(t, harness.Pod{Namespace: ns, Name: "again", Address: "10.68.0.20"})
	c.ExpectAnswer(t, "client-ext-cloud", "http://"+external, "again", "")
}

// waitReplaced makes a change and waits until an object is replaced; in between the Project reports what it waits for.
func waitReplaced(t *testing.T, c *harness.Cluster, kind, name string, hand func() error) {
	t.Helper()
	before, err := c.Objects.Get(harness.Within(t, harness.Patience), harness.ObjectRef(kind, "", name))
	if err == nil {
		err = hand()
	}
	if err != nil {
		t.Fatal(err)
	}
	c.WaitForObject(t, kind, "", name, func(o *unstructured.Unstructured) bool {
		return o != nil && o.GetUID() != before.GetUID()
	})
}

// waitBuilt waits until the project and its floating IPs are Programmed.
func waitBuilt(t *testing.T, c *harness.Cluster, namespace string) {
	t.Helper()
	for _, o := range []manifest.Ref{
		harness.ObjectRef("Project", "drift", "built"), harness.ObjectRef("FIp", namespace, "fixed"),
		harness.ObjectRef("FIp", namespace, "away"), harness.ObjectRef("EIp", namespace, "default-gw"),
	} {
		// Kube-OVN waits twice as long before each try to connect the new router.
		if err := c.Objects.Wait(harness.Within(t, harness.Patience), o, manifest.True("Programmed")); err != nil {
			t.Fatal(err)
		}
	}
}

// externalAddresses returns the external addresses of the project and its floating IPs.
func externalAddresses(t *testing.T, c *harness.Cluster, namespace string) string {
	t.Helper()
	return strings.Join([]string{
		c.ReadStatusField(t, "Project", "drift", "built", "externalIP"),
		c.ReadStatusField(t, "EIp", namespace, "default-gw", "ipAddress"),
		c.ReadStatusField(t, "FIp", namespace, "fixed", "externalIP"),
		c.ReadStatusField(t, "FIp", namespace, "away", "externalIP"),
	}, " ")
}
