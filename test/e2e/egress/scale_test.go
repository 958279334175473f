package egress

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ovn-kubernetes/libovsdb/client"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// egressScaleFixture has many projects with EgressIPs, and pods that do not run: only the control plane is tested.
type egressScaleFixture struct {
	*harness.ScaleFixture
	addressSets   client.Client
	egressIPCount int // EgressIPs, distributed over the projects
}

// podsPerEgressIP is the number of pods that an EgressIP selects.
const podsPerEgressIP = 20

// addressSetRow is an address set of the northbound database.
type addressSetRow struct {
	UUID      string   `ovsdb:"_uuid"`
	Name      string   `ovsdb:"name"`
	Addresses []string `ovsdb:"addresses"`
}

// TestEgress3Scale creates many EgressIPs and the pods that they select, and measures the cost of a change of one pod.
func TestEgress3Scale(t *testing.T) {
	harness.RunQuietly(t)
	item := egressItems.Item(t, 3)
	c := &egressScaleFixture{
		ScaleFixture:  harness.NewScaleFixture(t, "--egressip-reachability-total-timeout=0"),
		egressIPCount: show.ChooseSize(1000, 20),
	}
	c.GrowTo(t, show.ChooseSize(100, 2))
	c.addressSets = c.NewNBClient(t, "Address_Set", &addressSetRow{})
	if err := c.addressSets.Connect(harness.Within(t, harness.Patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.addressSets.MonitorAll(harness.Within(t, harness.Patience)); err != nil {
		t.Fatal(err)
	}
	c.SetEgressAssignable(t, "node1", true)
	c.createEgressIPs(t, item)
	c.ControlLab(t, "kill", "kube-ovn-controller") // it would allocate an address for each pod, a few per second
	c.createPods(t, item)
	c.measurePodChange(t, item)
}

// createEgressIPs creates the EgressIPs and waits until all are Programmed.
func (c *egressScaleFixture) createEgressIPs(t *testing.T, item *show.Item) {
	t.Helper()
	ctx, before, cpu, begun := harness.Within(t, show.ChooseSize(30*time.Minute, 5*time.Minute)),
		c.Controller.ReadMetrics(t), c.Controller.CPUTime(t), time.Now()
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for i := range c.egressIPCount {
		group.Go(func() error {
			return c.CreateObject(inner, "EgressIP", "", fmt.Sprintf("e%04d", i), fmt.Sprintf(
				"egressIPs: [100.65.%d.%d], namespaceSelector: {matchLabels: {kube-dc.com/project: %s}}, podSelector: {matchLabels: {out: e%d}}",
				200+i/250, 1+i%250, harness.ProjectName(i%c.Size), i/c.Size))
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	c.waitAllProgrammed(ctx, t)
	took, counters := time.Since(begun), harness.CounterIncreases(before, c.Controller.ReadMetrics(t))
	memory, _ := c.Controller.MemoryUsage(t)
	item.AddFigure("%d EgressIPs in %d projects in force after %.1f s, with %.0f transactions and %d rows of the controller's, which took %.1f s of CPU and has %d MiB",
		c.egressIPCount, c.Size, took.Seconds(), counters["sallyport_northbound_transactions_total"], c.countOwnRows(t),
		(c.Controller.CPUTime(t) - cpu).Seconds(), memory)
}

// waitAllProgrammed waits until all EgressIPs are Programmed.
func (c *egressScaleFixture) waitAllProgrammed(ctx context.Context, t *testing.T) {
	t.Helper()
	for n := 0; n < c.egressIPCount; {
		list, err := c.API.Resource(harness.ResourceForRef(harness.ObjectRef("EgressIP", "", ""))).List(ctx,
			metav1.ListOptions{})
		if err != nil {
			t.Fatalf("of %d EgressIPs %d are in force: %v", c.egressIPCount, n, err)
		}
		n = 0
		for i := range list.Items {
			if harness.IsUpToDate(&list.Items[i]) {
				n++
			}
		}
		<-time.After(200 * time.Millisecond)
	}
}

// countOwnRows returns the number of northbound rows that are marked as the controller's.
func (c *egressScaleFixture) countOwnRows(t *testing.T) int {
	t.Helper()
	dump := c.RunTool(t, "ovsdb-client", "--format=csv", "--data=bare", "dump", "unix:"+c.Dir+"/data/ovn/nb1.sock",
		"OVN_Northbound")
	return strings.Count(dump, ownership.RowShardKey+"=")
}

// createPods creates the pods and waits until all are selected.
func (c *egressScaleFixture) createPods(t *testing.T, item *show.Item) {
	t.Helper()
	ctx, before, cpu, begun := harness.Within(t, show.ChooseSize(20*time.Minute, 5*time.Minute)),
		c.Controller.ReadMetrics(t), c.Controller.CPUTime(t), time.Now()
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(16)
	pods := c.egressIPCount * podsPerEgressIP
	for i := range pods {
		group.Go(func() error { return c.createPod(inner, i) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	wrote := time.Since(begun)
	harness.Eventually(t, "all pods are in the sets", func() bool { return c.countSelected() == pods })
	took, counters := time.Since(begun), harness.CounterIncreases(before, c.Controller.ReadMetrics(t))
	item.AddFigure("%d pods, written in %.1f s, are all selected %.1f s after the last, with %.0f transactions and %.1f s of CPU",
		pods, wrote.Seconds(), (took - wrote).Seconds(), counters["sallyport_northbound_transactions_total"],
		(c.Controller.CPUTime(t) - cpu).Seconds())
}

// createPod creates a pod with an address, which is never scheduled.
func (c *egressScaleFixture) createPod(ctx context.Context, i int) error {
	within := i / c.Size
	_, err := c.Client.CoreV1().Pods(c.NamespaceOf(i%c.Size)).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:        fmt.Sprintf("p%03d", within),
			Labels:      map[string]string{"out": fmt.Sprintf("e%d", within/podsPerEgressIP)},
			Annotations: map[string]string{kubeovn.IPAddressAnnotation: fmt.Sprintf("10.0.0.%d", 20+within)},
		},
		Spec: corev1.PodSpec{
			SchedulerName: "nobody",
			Containers:    []corev1.Container{{Name: "main", Image: "lab/echo"}},
		},
	}, metav1.CreateOptions{})
	return err
}

// countSelected returns the number of addresses in the address sets of EgressIPs.
func (c *egressScaleFixture) countSelected() (n int) {
	for _, m := range c.addressSets.Cache().Table("Address_Set").RowsShallow() {
		if row := m.(*addressSetRow); strings.Contains(row.Name, ".egress.") {
			n += len(row.Addresses)
		}
	}
	return n
}

// measurePodChange removes one pod after the other from its EgressIP and adds it again: each is one transaction.
func (c *egressScaleFixture) measurePodChange(t *testing.T, item *show.Item) {
	t.Helper()
	c.WaitIdle(t)
	pods := c.egressIPCount * podsPerEgressIP
	var took []time.Duration
	before := c.Controller.ReadMetrics(t)
	changes := show.ChooseSize(40, 6)
	for n := range changes {
		label, want := `"nobody"`, pods-1
		if n%2 == 1 {
			label, want = `"e0"`, pods
		}
		begun := time.Now()
		_, err := c.Client.CoreV1().Pods(c.NamespaceOf(0)).Patch(harness.Within(t, harness.Patience), "p000",
			types.MergePatchType,
			[]byte(`{"metadata":{"labels":{"out":`+label+`}}}`), metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		harness.Eventually(t, "the set has changed", func() bool { return c.countSelected() == want })
		took = append(took, time.Since(begun))
		c.WaitIdle(t)
	}
	counters := harness.CounterIncreases(before, c.Controller.ReadMetrics(t))
	if n := counters["sallyport_northbound_transactions_total"]; n != float64(changes) ||
		harness.SumWrites(counters) != n {
		t.Errorf("%d pods have changed, one after the other, with %.0f transactions and %.0f writes to Kubernetes",
			changes, n, harness.SumWrites(counters)-n)
	}
	item.AddFigure("one pod changes: one transaction and no write to Kubernetes, in its set after %s",
		harness.FormatMedianAndP99(slices.Sorted(slices.Values(took))))
}
