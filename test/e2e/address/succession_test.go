package address

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// electedLease is long enough to tell a lease that was given up from one that ended.
const electedLease = 10 * time.Second

// checkLeaderFailover shows that one of two controllers leads, and that the other takes over when it is killed or
// terminated.
func checkLeaderFailover(t *testing.T, c *harness.Cluster, item *show.Item) {
	t.Helper()
	first, second := newElectedController(t, c), newElectedController(t, c)
	first.Start(t)
	holder := waitNewLeader(t, c, "")
	second.Start(t)
	c.ApplyWithoutCleanup(t, "{apiVersion: v1, kind: Namespace, metadata: {name: heirs}}")
	c.ApplyWithoutCleanup(t, `
{apiVersion: kube-dc.com/v1, kind: Project, metadata: {name: a, namespace: heirs}, spec: {cidrBlock: 10.9.0.0/24, egressNetworkType: cloud}}`)
	c.WaitProgrammed(t, "Project", "heirs", "a")
	const ns = "heirs-a"

	begin := time.Now()
	first.Stop(syscall.SIGKILL)
	c.ApplyWithoutCleanup(t, fmt.Sprintf(
		"{apiVersion: kube-dc.com/v1, kind: EIp, metadata: {name: after-death, namespace: %s}}", ns))
	holder = waitNewLeader(t, c, holder)
	taken := time.Since(begin)
	c.WaitProgrammed(t, "EIp", ns, "after-death")
	item.AddFigure("the leading replica killed: the other leads after %.1f s, an EIp made meanwhile is in force after %.1f s",
		taken.Seconds(), time.Since(begin).Seconds())
	if taken > 2*electedLease {
		t.Errorf("the lease was taken over after %s; it lasts %s", taken, electedLease)
	}
	first.Start(t)
	c.PollUntil(t, "the replica that was started again", func() bool {
		_, err := first.ScrapeMetrics(harness.Within(t, time.Second))
		return err == nil
	})
	item.AddFigure("%s", checkGracefulHandover(t, c, second, ns, holder))
}

// newElectedController returns a controller with leader election.
func newElectedController(t *testing.T, c *harness.Cluster) *harness.Controller {
	t.Helper()
	ctl := c.NewController(t, t.TempDir(), "--leader-elect=true", "--leader-election-namespace=kube-system",
		"--leader-elect-lease-duration="+electedLease.String())
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("a replica's log ends with\n%s", ctl.LogTail(20))
		}
		ctl.Stop(syscall.SIGKILL)
	})
	return ctl
}

// waitNewLeader waits until another controller leads, and returns its name.
func waitNewLeader(t *testing.T, c *harness.Cluster, before string) (holder string) {
	t.Helper()
	kind := schema.GroupVersionKind{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"}
	lease := manifest.Ref{GVK: kind, Namespace: harness.ChartNamespace, Name: "sallyport-controller"}
	err := c.Objects.Wait(harness.Within(t, harness.Patience), lease, func(o *unstructured.Unstructured) bool {
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

// checkGracefulHandover terminates the leader while it has a lot to write: it finishes its current run, releases the
// lease and exits without an error, and the other continues.
func checkGracefulHandover(t *testing.T, c *harness.Cluster, leader *harness.Controller, ns, holder string) string {
	t.Helper()
	const many = 10
	var text strings.Builder
	for i := range many {
		fmt.Fprintf(&text, "---\n{apiVersion: kube-dc.com/v1, kind: FIp, metadata: {name: f%d, namespace: %s}, spec: {ipAddress: 10.9.0.%d}}\n", i, ns, 10+i)
	}
	c.ApplyWithoutCleanup(t, text.String())
	// the leader has started to write
	c.WaitForObject(t, "FIp", ns, "f0", func(o *unstructured.Unstructured) bool {
		return o != nil && len(o.GetFinalizers()) > 0
	})
	process := leader.Process
	begin := time.Now()
	leader.Stop(syscall.SIGTERM)
	ended := time.Since(begin)
	waitNewLeader(t, c, holder)
	taken := time.Since(begin)
	if code := process.ProcessState.ExitCode(); code != 0 {
		t.Errorf("a leader that is told to end ends with %d", code)
	}
	for line := range strings.Lines(leader.LogTail(1000)) {
		// the election may be reading the lease when it is told to end
		if cut := strings.Contains(line, "context canceled") || strings.Contains(line, "context deadline exceeded"); cut &&
			!strings.Contains(line, `"logger":"leaderelection"`) {
			t.Errorf("a write was cut off: %s", line)
		}
	}
	for i := range many {
		c.WaitProgrammed(t, "FIp", ns, fmt.Sprintf("f%d", i))
	}
	if taken-ended > electedLease/2 {
		t.Errorf("the lead was taken over %s after its end; it should be given up", taken-ended)
	}
	return fmt.Sprintf("told to end amid %d new FIps: ended with 0 after %.1f s, the other leads %.1f s after the signal, all in force after %.1f s", many,
		ended.Seconds(), taken.Seconds(), time.Since(begin).Seconds())
}

// checkDeletionDuringOutage deletes a FIp while Kube-OVN is not running. Kube-OVN misses the deletion after its start
// unless the controller triggers it.
func checkDeletionDuringOutage(t *testing.T, c *harness.Cluster, item *show.Item) {
	t.Helper()
	c.ApplyWithoutCleanup(t, "{apiVersion: v1, kind: Namespace, metadata: {name: absent}}")
	c.ApplyWithoutCleanup(t, `
{apiVersion: kube-dc.com/v1, kind: Project, metadata: {name: a, namespace: absent}, spec: {cidrBlock: 10.8.0.0/24, egressNetworkType: cloud}}`)
	c.WaitProgrammed(t, "Project", "absent", "a")
	const ns = "absent-a"
	fip := fmt.Sprintf("{apiVersion: kube-dc.com/v1, kind: FIp, metadata: {name: f, namespace: %s}, spec: {ipAddress: 10.8.0.10}}", ns)
	c.ApplyWithoutCleanup(t, fip)
	c.WaitProgrammed(t, "FIp", ns, "f")
	c.ControlLab(t, "kill", "kube-ovn-controller")
	if err := c.Client.CoreV1().RESTClient().Delete().AbsPath("/apis/kube-dc.com/v1/namespaces", ns,
		"fips/f").Do(harness.Within(t, harness.Patience)).Error(); err != nil {
		t.Fatal(err)
	}
	c.WaitForObject(t, "OvnFip", "", ns+"-f", func(o *unstructured.Unstructured) bool {
		return o != nil && o.GetDeletionTimestamp() != nil
	})
	begin := time.Now()
	c.ControlLab(t, "start", "kube-ovn-controller")
	c.WaitForObject(t, "FIp", ns, "f", manifest.Gone)
	item.AddFigure("a FIp deleted while Kube-OVN was not running is gone %.1f s after Kube-OVN was started",
		time.Since(begin).Seconds())
}

// checkForgottenRouter shows that a project can be deleted although Kube-OVN does not remove the router of its Vpc. A
// finalizer of an OvnEip holds up the project until the router is gone, and then the router is made again.
func checkForgottenRouter(t *testing.T, c *harness.Cluster, ctl *harness.Controller, item *show.Item) {
	t.Helper()
	const rowEvents = `sallyport_shard_asks_total{by="OVN"}`
	const vpc = "absent-a"
	kubernetes := c.Client.CoreV1().RESTClient()
	patchEIP := func(patch string) {
		t.Helper()
		if err := kubernetes.Patch(types.JSONPatchType).AbsPath("/apis/kubeovn.io/v1/ovn-eips", vpc+"-ext-cloud").
			Body([]byte(patch)).Do(harness.Within(t, harness.Patience)).Error(); err != nil {
			t.Fatal(err)
		}
	}
	routerExists := func() bool {
		return c.RunNbctl(t, "--bare", "--columns=name", "find", "Logical_Router", "name="+vpc) != ""
	}
	patchEIP(`[{"op": "add", "path": "/metadata/finalizers/-", "value": "example.com/hold"}]`)
	if err := kubernetes.Delete().AbsPath("/apis/kube-dc.com/v1/namespaces/absent/projects/a").
		Do(harness.Within(t, harness.Patience)).Error(); err != nil {
		t.Fatal(err)
	}
	c.WaitForObject(t, "Vpc", "", vpc, manifest.Gone)
	harness.Eventually(t, "Kube-OVN has removed the router", func() bool { return !routerExists() })
	before := ctl.ReadMetrics(t)[rowEvents]
	c.RunNbctl(t, "lr-add", vpc, "--", "set", "Logical_Router", vpc, "external_ids:vendor=kube-ovn")
	harness.Eventually(t, "the controller has seen the router", func() bool { return ctl.ReadMetrics(t)[rowEvents] > before })
	begin := time.Now()
	patchEIP(`[{"op": "remove", "path": "/metadata/finalizers"}]`)
	if err := c.Objects.Wait(harness.Within(t, harness.Patience), harness.ObjectRef("Project", "absent", "a"),
		manifest.Gone); err != nil {
		t.Fatal(err)
	}
	if routerExists() {
		t.Error("the router is still there")
	}
	item.AddFigure("a Project whose router Kube-OVN does not remove is gone after %.1f s", time.Since(begin).Seconds())
}
