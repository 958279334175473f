package scale

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	ovnv1 "github.com/sallyport/sallyport/api/ovn/v1"
	"github.com/sallyport/sallyport/internal/compile"
	"github.com/sallyport/sallyport/internal/engine/kube"
	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/shard"
	"github.com/sallyport/sallyport/internal/model/snapshot"
	"github.com/sallyport/sallyport/internal/model/state"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// podCluster is the default VPC with EgressIPs that select pods of one namespace, in steady state.
type podCluster struct {
	*memoryCluster
	egressIPs int
	ports     []snapshot.PodPort
	portOf    map[string]int // index of the port by the pod's name
	rows      intent.Rows
	memo      *compile.Memo
	reader    *kube.EgressPodReader
	members   intent.Rows // as changed pods have changed them
}

// crowd is the namespace of the pods, and managementShard the shard of the default VPC.
const crowd = "crowd"

var managementShard = shard.Named(kubeovn.ManagementVpc)

func newPodCluster(t testing.TB, egressIPs, pods int) *podCluster {
	t.Helper()
	c := &podCluster{memoryCluster: newMemoryCluster(t), egressIPs: egressIPs, portOf: map[string]int{}, members: intent.Rows{}}
	vpc, subnet := &kube.Vpc{}, &kube.Subnet{}
	vpc.Name, subnet.Name = kubeovn.ManagementVpc, kubeovn.ManagementSubnet
	subnet.Spec.Vpc, subnet.Spec.CIDRBlock = kubeovn.ManagementVpc, "10.16.0.0/16"
	c.put(t, vpc)
	c.put(t, subnet)
	c.put(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: crowd, UID: crowd, Labels: map[string]string{corev1.LabelMetadataName: crowd},
		Annotations: map[string]string{kubeovn.LogicalSwitchAnnotation: kubeovn.ManagementSubnet},
	}})
	for i := range egressIPs {
		e := &ovnv1.EgressIP{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("e%05d", i), UID: types.UID(fmt.Sprint(i)), CreationTimestamp: metav1.Unix(int64(i), 0),
		}}
		e.Spec.EgressIPs = []string{egressAddress(i).String()}
		e.Spec.NamespaceSelector.MatchLabels = map[string]string{corev1.LabelMetadataName: crowd}
		e.Spec.PodSelector.MatchLabels = map[string]string{"out": e.Name}
		c.send(t, e)
	}
	c.takeShards(t, map[shard.Shard]int{managementShard: egressIPs})
	for i := range pods {
		c.put(t, c.newPod(i, i))
		c.portOf[crowdPod(i)] = i
		c.ports = append(c.ports, snapshot.PodPort{
			Name: kubeovn.PodPort(crowdPod(i), crowd), Namespace: crowd, Pod: crowdPod(i), Subnet: kubeovn.ManagementSubnet,
			Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 16, byte(10 + i/250), byte(1 + i%250)})},
		})
	}
	c.compileAll(t)
	if !c.memo.Settle(nil) || !c.memo.FollowPods() || c.memo.PodCount() != pods {
		t.Fatal("there is no memo of the default VPC")
	}
	return c
}

func crowdPod(i int) string { return fmt.Sprintf("p%05d", i) }

// newPod returns a pod that the EgressIP with a number modulo their count selects.
func (c *podCluster) newPod(i, egressIP int) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: crowd, Name: crowdPod(i), Labels: map[string]string{"out": fmt.Sprintf("e%05d", egressIP%c.egressIPs)},
	}}
}

// compileAll does what a run of the whole VPC does, without the northbound database.
func (c *podCluster) compileAll(t testing.TB) {
	t.Helper()
	ctx := context.Background()
	inputs, err := c.GatherVPC(ctx, kubeovn.ManagementVpc, snapshot.Quotas{}, c.ports)
	if err != nil {
		t.Fatal(err)
	}
	world := inputs.BuildSnapshot(snapshot.Config{}, []string{"ovn-cluster-ovn-default"}, time.Unix(1<<20, 0))
	for i := range world.Selections {
		s := &world.Selections[i]
		address := s.Addresses[0].As4()
		s.Links = []snapshot.EgressLink{{
			Address:     s.Addresses[0],
			PeerNetwork: netip.PrefixFrom(netip.AddrFrom4([4]byte{240, address[2], address[3], 1}), 30),
		}}
	}
	want, _, memo := compile.ShardWithMemo(world)
	if _, err := state.PreparePlan(ctx, kube.NewObjects(c.Cluster, kubeovn.ManagementVpc), want.Objects); err != nil {
		t.Fatal(err)
	}
	if changed := state.Diff(want.Rows, c.rows); c.rows != nil && len(changed) > 2*len(c.members)+5 {
		t.Errorf("the VPC is not in steady state: %d rows change, among them %s", len(changed), changed[0].Key)
	}
	c.rows, c.memo, c.reader = want.Rows, memo, inputs.EgressPodReader(c.Cluster)
}

// changePod sends the event of a pod that another EgressIP selects, and does what a run of that pod does.
func (c *podCluster) changePod(t testing.TB, n int) {
	t.Helper()
	update := c.updatePod(t, n)
	maps.Copy(c.members, update.Rows)
	if len(update.Rows) != 5 { // two sets of EgressIPs, and those of redirected, closed and classified pods
		t.Fatalf("the changed pod concerns %d entries of address sets: %v", len(update.Rows), update.Rows)
	}
}

func (c *podCluster) updatePod(t testing.TB, n int) *compile.PodUpdate {
	t.Helper()
	c.send(t, c.newPod(n, n+1))
	keys := c.takeObjects(t, managementShard)
	changed, ok := c.reader.Read(context.Background(), keys, func(_, pod string) []snapshot.PodPort {
		i := c.portOf[pod]
		return c.ports[i : i+1 : i+1]
	})
	if !ok || len(changed) != 1 {
		t.Fatalf("not only pods are enqueued, or one by one: %v", keys)
	}
	update, ok := c.memo.UpdatePods(changed)
	if !ok {
		t.Fatal("the changed pod needs a run of the whole VPC")
	}
	return update
}

// The most processor time that a changed pod may need, and the part of a run of the whole VPC. In the small VPC of CI
// both are too small to compare precisely.
const (
	maxPodChange      = 20 * time.Millisecond
	maxPodChangeShare = 0.5
)

// TestScale5PodChange measures what the controller does for a changed pod of the default VPC, from the event on, in
// Kubernetes' caches and in compile, without the northbound database; and for comparison what a run of the whole VPC does.
func TestScale5PodChange(t *testing.T) {
	item := scaleItems.Item(t, 5)
	egressIPs := show.ChooseSize(1000, 50)
	pods := 20 * egressIPs
	c := newPodCluster(t, egressIPs, pods)
	measure := func(times int, do func(n int)) (time.Duration, uint64) {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		begin := processCPUTime(t)
		for n := range times {
			do(n)
		}
		cpu := (processCPUTime(t) - begin) / time.Duration(times)
		runtime.ReadMemStats(&after)
		return cpu, (after.TotalAlloc - before.TotalAlloc) / uint64(times) >> 10
	}
	const changes = 200
	pod, podMemory := measure(changes, func(n int) { c.changePod(t, n) })
	if err := c.memo.Check(); err != nil {
		t.Errorf("after %d changes: %v", changes, err)
	}
	whole, wholeMemory := measure(3, func(int) { c.compileAll(t) })
	item.AddFigure("default VPC with %d EgressIPs and %d pods, without the northbound database: a changed pod needs %.2f ms of "+
		"CPU and allocates %d KB; a run of the whole VPC %.0f ms and %d KB", egressIPs, pods, harness.Milliseconds(pod),
		podMemory, harness.Milliseconds(whole), wholeMemory)
	if pod > maxPodChange || float64(pod) > maxPodChangeShare*float64(whole) {
		t.Errorf("a changed pod needs %s of CPU, wanted at most %s, and %.0f %% of the %s of the whole VPC", pod, maxPodChange,
			100*maxPodChangeShare, whole)
	}
	for key, entry := range c.members { // c.rows are now those of a run of the whole VPC
		member := entry.Value.(intent.AddressSetMember)
		set := c.rows[intent.AddressSet{Name: member.Set}.Key(key.Router)].Value.(intent.AddressSet)
		if slices.Contains(strings.Fields(set.Addresses), member.Address.String()) != member.IsIn {
			t.Errorf("%s is written %s, and a run of the whole VPC writes something else", key, member)
		}
	}
}

// BenchmarkPodChange is the same for profiles.
func BenchmarkPodChange(b *testing.B) {
	c := newPodCluster(b, 1000, 20_000)
	b.Run("pod", func(b *testing.B) {
		b.ReportAllocs()
		for n := range b.N {
			c.updatePod(b, n%20_000)
		}
	})
	b.Run("whole", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			c.compileAll(b)
		}
	})
}

// The pods of a namespace are read one by one: an event of a pod reads no other, whatever the size of the VPC.
func TestPodsAreReadOneByOne(t *testing.T) {
	small, large := newPodCluster(t, 5, 50), newPodCluster(t, 5, 5000)
	for _, c := range []*podCluster{small, large} {
		c.updatePod(t, 0) // what is read once
	}
	allocs := func(c *podCluster) float64 {
		n := 0
		return testing.AllocsPerRun(20, func() {
			n++
			key := intent.ObjectKey{Kind: kube.Pod, Namespace: crowd, Name: crowdPod(n)}
			if _, ok := c.reader.Read(context.Background(), []intent.ObjectKey{key},
				func(_, pod string) []snapshot.PodPort { return c.ports[c.portOf[pod]:][:1:1] }); !ok {
				t.Fatal("the pod is not read")
			}
		})
	}
	if few, many := allocs(small), allocs(large); many > few+1 {
		t.Errorf("reading a pod allocates %.0f times among 50 pods and %.0f times among 5,000", few, many)
	}
	unknown := intent.ObjectKey{Kind: kube.Pod, Namespace: strings.ToUpper(crowd), Name: "p"}
	if _, ok := small.reader.Read(context.Background(), []intent.ObjectKey{unknown}, nil); ok {
		t.Error("a pod of an unknown namespace is read")
	}
}
