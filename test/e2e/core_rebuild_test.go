package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sallyport/sallyport/internal/lab/manifest"
)

// rebuilds: a Vpc or a Subnet that somebody deletes can't be kept. Without pods it is made again at once, with the same
// addresses; with pods it works on, says what it waits for, and is made again when they have ended.
func (c *cluster) rebuilds(t *testing.T, figure func(string, ...any)) {
	p := &patient{cluster: c, api: c.direct(t, nil)}
	ns := c.project(t, "drift", "built", "10.68.0.0/24", "cloud")
	c.apply(t, fmt.Sprintf(`
{apiVersion: kube-dc.com/v1, kind: FIp, metadata: {name: fixed, namespace: %[1]s}, spec: {ipAddress: 10.68.0.20}}
---
{apiVersion: kube-dc.com/v1, kind: FIp, metadata: {name: away, namespace: %[1]s}, spec: {ipAddress: 10.68.0.21, externalNetworkType: public}}`, ns))
	c.built(t, ns)
	addresses := c.addressesOf(t, ns)
	var times []string
	for _, o := range []struct{ kind, name string }{{"Vpc", ns}, {"Subnet", ns + "-default"}} {
		begin := time.Now()
		c.replaced(t, o.kind, o.name, p.deletes(o.kind, "", o.name))
		c.built(t, ns)
		times = append(times, fmt.Sprintf("%s %.1f s", o.kind, time.Since(begin).Seconds()))
		if now := c.addressesOf(t, ns); now != addresses {
			t.Errorf("%s was deleted and made again, and the addresses are %s; they were %s", o.kind, now, addresses)
		}
	}
	figure("deleted in a project without pods and made again with the same addresses: %s", strings.Join(times, ", "))

	c.run(t, pod{namespace: ns, name: "web", address: "10.68.0.20"})
	external := c.status(t, "FIp", ns, "fixed", "externalIP")
	c.answers(t, "client-ext-cloud", "http://"+external, "web", "")
	c.replaced(t, "Vpc", ns, func() error {
		if err := p.deletes("Vpc", "", ns)(); err != nil {
			return err
		}
		c.wait(t, "Project", "drift", "built", func(o *unstructured.Unstructured) bool {
			return o != nil && strings.Contains(fmt.Sprint(o.Object["status"]), "it works until the project's pods (1) have ended")
		})
		c.answers(t, "client-ext-cloud", "http://"+external, "web", "")
		return p.deletes("Pod", ns, "web")()
	})
	c.built(t, ns)
	if now := c.addressesOf(t, ns); now != addresses {
		t.Errorf("the addresses are %s; they were %s", now, addresses)
	}
	c.run(t, pod{namespace: ns, name: "again", address: "10.68.0.20"})
	c.answers(t, "client-ext-cloud", "http://"+external, "again", "")
}

// replaced does something, and waits until there is another object of the name; in between the Project says what it waits for.
func (c *cluster) replaced(t *testing.T, kind, name string, hand func() error) {
	t.Helper()
	before, err := c.objects.Get(within(t, time.Minute), ref(kind, "", name))
	if err == nil {
		err = hand()
	}
	if err != nil {
		t.Fatal(err)
	}
	c.wait(t, kind, "", name, func(o *unstructured.Unstructured) bool { return o != nil && o.GetUID() != before.GetUID() })
}

// built waits until the project and its floating IPs are in force.
func (c *cluster) built(t *testing.T, namespace string) {
	t.Helper()
	c.programmed(t, "Project", "drift", "built")
	for _, name := range []string{"fixed", "away"} {
		c.programmed(t, "FIp", namespace, name)
	}
	c.wait(t, "EIp", namespace, "default-gw", manifest.True("Programmed"))
}

func (c *cluster) status(t *testing.T, kind, namespace, name, field string) string {
	t.Helper()
	o, err := c.objects.Get(within(t, time.Minute), ref(kind, namespace, name))
	if err != nil || o == nil {
		t.Fatalf("%s %s: %v", kind, name, err)
	}
	return text(o, "status", field)
}

// addressesOf are the external addresses of the project and its floating IPs.
func (c *cluster) addressesOf(t *testing.T, namespace string) string {
	t.Helper()
	return strings.Join([]string{
		c.status(t, "Project", "drift", "built", "externalIP"), c.status(t, "EIp", namespace, "default-gw", "ipAddress"),
		c.status(t, "FIp", namespace, "fixed", "externalIP"), c.status(t, "FIp", namespace, "away", "externalIP"),
	}, " ")
}
