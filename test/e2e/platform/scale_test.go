package platform

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	ovsdb "github.com/ovn-kubernetes/libovsdb/client"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// platformScaleFixture is the default VPC with many EgressIPs, and pods that do not run but have switch ports: only the
// control plane is tested.
type platformScaleFixture struct {
	*harness.ScaleFixture
	addressSets ovsdb.Client
	pods        int
	newPods     int // of these, pods of the first EgressIP beyond the usual number
}

// addressSetRow is an address set of the northbound database.
type addressSetRow struct {
	UUID      string   `ovsdb:"_uuid"`
	Name      string   `ovsdb:"name"`
	Addresses []string `ovsdb:"addresses"`
}

// scaleNamespace contains all pods. podsPerEgressIP is the number of pods that an EgressIP selects.
const scaleNamespace, podsPerEgressIP = "crowd", 20

// TestPlatform8Scale counts rows and logical flows with many EgressIPs and pods in the default VPC, and measures the time
// until a new pod is in its address set. EgressIPs are created while there are no pods, and then deleted step by step,
// because Kube-OVN would give each pod an address, a few per second.
func TestPlatform8Scale(t *testing.T) {
	if show.IsFullSize() {
		harness.RunQuietly(t)
	}
	item := platformItems.Item(t, 8)
	sizes := show.ChooseSize([]int{1000, 100, 1}, []int{2, 1})
	c := &platformScaleFixture{ScaleFixture: harness.NewScaleFixture(t, "--egressip-reachability-total-timeout=0",
		"--cluster-prefixes=10.96.0.0/12")}
	c.watchAddressSets(t)
	c.CreateNamespace(t, scaleNamespace, "")
	c.SetEgressAssignable(t, "node1", true)
	c.createEgressIPs(t, sizes[0])
	c.ControlLab(t, "kill", "kube-ovn-controller")
	c.createPods(t, sizes[0]*podsPerEgressIP)
	for i, size := range sizes {
		if i > 0 {
			c.deleteEgressIPs(t, size, sizes[i-1])
		}
		harness.Eventually(t, "all pods are in the sets", func() bool { return c.countSelected() == size*podsPerEgressIP+c.newPods })
		c.WaitIdle(t)
		item.AddFigure("%d EgressIPs of 20 pods each, %d pods: %d rows of the controller's, %d logical flows", size, c.pods,
			c.countRows(t), c.countLogicalFlows(t))
		if i == 0 {
			item.AddFigure("with %d EgressIPs, a new pod is in its set %s after its switch port is written", size,
				c.measureNewPods(t))
		}
	}
	c.deleteEgressIPs(t, 0, 1)
	harness.Eventually(t, "no pod is in a set", func() bool { return c.countSelected() == 0 })
	c.WaitIdle(t)
	item.AddFigure("without EgressIPs: %d logical flows", c.countLogicalFlows(t))
}

// watchAddressSets keeps a copy of the address sets.
func (c *platformScaleFixture) watchAddressSets(t *testing.T) {
	t.Helper()
	c.addressSets = c.NewNBClient(t, "Address_Set", &addressSetRow{})
	if err := c.addressSets.Connect(harness.Within(t, harness.Patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.addressSets.MonitorAll(harness.Within(t, harness.Patience)); err != nil {
		t.Fatal(err)
	}
}

// countSelected returns the number of addresses in the address sets of EgressIPs.
func (c *platformScaleFixture) countSelected() (n int) {
	for _, m := range c.addressSets.Cache().Table("Address_Set").RowsShallow() {
		if row := m.(*addressSetRow); strings.Contains(row.Name, ".egress.") {
			n += len(row.Addresses)
		}
	}
	return n
}

// runParallel calls a function for each number from first to last.
func runParallel(t *testing.T, first, last int, do func(ctx context.Context, i int) error) {
	t.Helper()
	group, ctx := errgroup.WithContext(harness.Within(t, 20*time.Minute))
	group.SetLimit(16)
	for i := first; i < last; i++ {
		group.Go(func() error { return do(ctx, i) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

// scaleEgressIPName returns the name of EgressIP i.
func scaleEgressIPName(i int) string { return fmt.Sprintf("e%04d", i) }

// createEgressIPs creates EgressIPs and waits until all are Programmed.
func (c *platformScaleFixture) createEgressIPs(t *testing.T, count int) {
	t.Helper()
	runParallel(t, 0, count, func(ctx context.Context, i int) error {
		return c.CreateObject(ctx, "EgressIP", "", scaleEgressIPName(i), fmt.Sprintf(
			"egressIPs: [100.65.%d.%d], namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %s}}, "+
				"podSelector: {matchLabels: {out: %s}}", 200+i/250, 1+i%250, scaleNamespace, scaleEgressIPName(i)))
	})
	for i := range count {
		if err := c.Objects.Wait(harness.Within(t, 20*time.Minute), harness.ObjectRef("EgressIP", "", scaleEgressIPName(i)),
			manifest.True("Programmed")); err != nil {
			t.Fatal(err)
		}
	}
}

// deleteEgressIPs deletes the EgressIPs from first to last.
func (c *platformScaleFixture) deleteEgressIPs(t *testing.T, first, last int) {
	t.Helper()
	runParallel(t, first, last, func(ctx context.Context, i int) error {
		return c.API.Resource(harness.ResourceForRef(harness.ObjectRef("EgressIP", "", ""))).Delete(ctx,
			scaleEgressIPName(i), metav1.DeleteOptions{})
	})
}

// createPods creates pods, which are never scheduled, and their switch ports, as Kube-OVN writes them.
func (c *platformScaleFixture) createPods(t *testing.T, count int) {
	t.Helper()
	runParallel(t, c.pods, c.pods+count, c.createPod)
	const batch = 1000
	for first := c.pods; first < c.pods+count; first += batch {
		var args []string
		for i := first; i < min(first+batch, c.pods+count); i++ {
			args = append(args, portArguments(i)...)
		}
		c.RunNbctl(t, args...)
	}
	c.pods += count
}

// portArguments returns the arguments of ovn-nbctl that create the switch port of pod i. lsp-add and lsp-set-addresses
// would compare it with all other ports of the switch.
func portArguments(i int) []string {
	pod := fmt.Sprintf("p%05d", i)
	id := "@" + pod
	return []string{
		"--", "--id=" + id, "create", "Logical_Switch_Port", "name=" + kubeovn.PodPort(pod, scaleNamespace),
		fmt.Sprintf(`addresses="02:00:00:00:%02x:%02x 10.16.%d.%d"`, i/250, i%250, 10+i/250, 1+i%250),
		"external_ids:pod=" + scaleNamespace + "/" + pod, "external_ids:ls=" + kubeovn.ManagementSubnet,
		"--", "add", "Logical_Switch", kubeovn.ManagementSubnet, "ports", id,
	}
}

// createPod creates pod i, which EgressIP i/20 selects.
func (c *platformScaleFixture) createPod(ctx context.Context, i int) error {
	return c.createPodOf(ctx, i, i/podsPerEgressIP)
}

// createPodOf creates pod i, which the given EgressIP selects.
func (c *platformScaleFixture) createPodOf(ctx context.Context, i, egressIP int) error {
	_, err := c.Client.CoreV1().Pods(scaleNamespace).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("p%05d", i), Labels: map[string]string{"out": scaleEgressIPName(egressIP)},
		},
		Spec: corev1.PodSpec{
			SchedulerName: "nobody", Containers: []corev1.Container{{Name: "main", Image: "lab/echo"}},
		},
	}, metav1.CreateOptions{})
	return err
}

// countRows returns the number of northbound rows that are marked as the controller's.
func (c *platformScaleFixture) countRows(t *testing.T) int {
	t.Helper()
	dump := c.RunTool(t, "ovsdb-client", "--format=csv", "--data=bare", "dump", "unix:"+c.Dir+"/data/ovn/nb1.sock",
		"OVN_Northbound")
	return strings.Count(dump, ownership.RowShardKey+"=")
}

// countLogicalFlows returns the number of logical flows, when northd has processed everything.
func (c *platformScaleFixture) countLogicalFlows(t *testing.T) int {
	t.Helper()
	c.RunNbctl(t, "--timeout=120", "--wait=sb", "sync")
	return len(strings.Fields(c.RunSbctl(t, "--bare", "--columns=_uuid", "list", "Logical_Flow")))
}

// measureNewPods adds pods one after the other, and returns how long after the switch port each is in its set.
func (c *platformScaleFixture) measureNewPods(t *testing.T) string {
	t.Helper()
	var took []time.Duration
	for range show.ChooseSize(20, 1) {
		i, before := c.pods, c.countSelected()
		if err := c.createPodOf(harness.Within(t, harness.Patience), i, 0); err != nil {
			t.Fatal(err)
		}
		c.WaitIdle(t)
		c.RunNbctl(t, portArguments(i)...)
		c.pods, c.newPods = c.pods+1, c.newPods+1
		took = append(took, harness.Eventually(t, "the pod is in its set", func() bool { return c.countSelected() > before }))
	}
	return harness.FormatMedianAndP99(slices.Sorted(slices.Values(took)))
}
