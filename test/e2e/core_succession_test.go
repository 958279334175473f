package e2e

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/show"
)

// succession shows that of two controllers one leads, and that the other takes over when it dies or is told to end.
func (c *cluster) succession(t *testing.T, item *show.Item) {
	t.Helper()
	first, second := c.candidate(t), c.candidate(t)
	first.start(t)
	holder := c.follows(t, "")
	second.start(t)
	c.put(t, "{apiVersion: v1, kind: Namespace, metadata: {name: heirs}}")
	c.put(t, `
{apiVersion: kube-dc.com/v1, kind: Project, metadata: {name: a, namespace: heirs}, spec: {cidrBlock: 10.9.0.0/24, egressNetworkType: cloud}}`)
	c.programmed(t, "Project", "heirs", "a")
	const ns = "heirs-a"

	begin := time.Now()
	first.stop(syscall.SIGKILL)
	c.put(t, fmt.Sprintf("{apiVersion: kube-dc.com/v1, kind: EIp, metadata: {name: after-death, namespace: %s}}", ns))
	holder = c.follows(t, holder)
	taken := time.Since(begin)
	c.programmed(t, "EIp", ns, "after-death")
	item.Figure("the leading replica killed: the other leads after %.1f s, an EIp made meanwhile is in force after %.1f s",
		taken.Seconds(), time.Since(begin).Seconds())
	if taken > 25*time.Second {
		t.Errorf("the lease was taken over after %s; it lasts 15 s", taken)
	}
	first.start(t)
	c.until(t, "the replica that was started again", func() bool { _, err := first.scrape(within(t, time.Second)); return err == nil })
	c.bowOut(t, item, second, ns, holder)
}

// put makes objects that go with the lab.
func (c *cluster) put(t *testing.T, text string) {
	t.Helper()
	if err := c.objects.ApplyAll(within(t, time.Minute), text); err != nil {
		t.Fatal(err)
	}
}

// candidate is a controller that leads when no other does.
func (c *cluster) candidate(t *testing.T) *controller {
	t.Helper()
	ctl := c.controller(t, t.TempDir(), "--leader-elect=true", "--leader-election-namespace=kube-system")
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("a replica's log ends with\n%s", ctl.tail(20))
		}
		ctl.stop(syscall.SIGKILL)
	})
	return ctl
}

// follows waits until somebody else than before leads, and says who.
func (c *cluster) follows(t *testing.T, before string) (holder string) {
	t.Helper()
	kind := schema.GroupVersionKind{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"}
	lease := manifest.Ref{GVK: kind, Namespace: chartNamespace, Name: "sallyport-controller"}
	err := c.objects.Wait(within(t, time.Minute), lease, func(o *unstructured.Unstructured) bool {
		if o != nil {
			holder, _, _ = unstructured.NestedString(o.Object, "spec", "holderIdentity")
		}
		return holder != "" && holder != before
	})
	if err != nil {
		t.Fatal(err)
	}
	return holder
}

// bowOut tells the leader to end while it has a lot to write: it finishes what it is at, gives up the lead and ends without a
// complaint, and the other goes on.
func (c *cluster) bowOut(t *testing.T, item *show.Item, leader *controller, ns, holder string) {
	t.Helper()
	const many = 10
	var text strings.Builder
	for i := range many {
		fmt.Fprintf(&text, "---\n{apiVersion: kube-dc.com/v1, kind: FIp, metadata: {name: f%d, namespace: %s}, spec: {ipAddress: 10.9.0.%d}}\n", i, ns, 10+i)
	}
	c.put(t, text.String())
	c.wait(t, "FIp", ns, "f0", func(o *unstructured.Unstructured) bool { return o != nil && len(o.GetFinalizers()) > 0 }) // it has begun
	process := leader.process
	begin := time.Now()
	leader.stop(syscall.SIGTERM)
	ended := time.Since(begin)
	c.follows(t, holder)
	taken := time.Since(begin)
	if code := process.ProcessState.ExitCode(); code != 0 {
		t.Errorf("a leader that is told to end ends with %d", code)
	}
	if log := leader.tail(1000); strings.Contains(log, "context canceled") || strings.Contains(log, "context deadline exceeded") {
		t.Errorf("a write was cut off:\n%s", leader.tail(20))
	}
	for i := range many {
		c.programmed(t, "FIp", ns, fmt.Sprintf("f%d", i))
	}
	item.Figure("told to end amid %d new FIps: ended with 0 after %.1f s, the other leads %.1f s after the signal, all in force after %.1f s", many,
		ended.Seconds(), taken.Seconds(), time.Since(begin).Seconds())
	if taken-ended > 5*time.Second {
		t.Errorf("the lead was taken over %s after its end; it should be given up", taken-ended)
	}
}

// absence deletes a FIp while Kube-OVN is not running. Kube-OVN takes no notice of that when it is back, unless it is reminded.
func (c *cluster) absence(t *testing.T, item *show.Item) {
	t.Helper()
	c.put(t, "{apiVersion: v1, kind: Namespace, metadata: {name: absent}}")
	c.put(t, `
{apiVersion: kube-dc.com/v1, kind: Project, metadata: {name: a, namespace: absent}, spec: {cidrBlock: 10.8.0.0/24, egressNetworkType: cloud}}`)
	c.programmed(t, "Project", "absent", "a")
	const ns = "absent-a"
	fip := fmt.Sprintf("{apiVersion: kube-dc.com/v1, kind: FIp, metadata: {name: f, namespace: %s}, spec: {ipAddress: 10.8.0.10}}", ns)
	c.put(t, fip)
	c.programmed(t, "FIp", ns, "f")
	c.order(t, "kill", "kube-ovn-controller")
	if err := c.client.CoreV1().RESTClient().Delete().AbsPath("/apis/kube-dc.com/v1/namespaces", ns, "fips/f").Do(within(t, time.Minute)).Error(); err != nil {
		t.Fatal(err)
	}
	c.wait(t, "OvnFip", "", ns+"-f", func(o *unstructured.Unstructured) bool { return o != nil && o.GetDeletionTimestamp() != nil })
	begin := time.Now()
	c.order(t, "start", "kube-ovn-controller")
	c.wait(t, "FIp", ns, "f", manifest.Gone)
	item.Figure("a FIp deleted while Kube-OVN was not running is gone %.1f s after Kube-OVN was started", time.Since(begin).Seconds())
}
