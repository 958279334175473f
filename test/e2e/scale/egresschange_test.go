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
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	ovnv1 "github.com/sallyport/sallyport/api/ovn/v1"
	"github.com/sallyport/sallyport/internal/compile"
	"github.com/sallyport/sallyport/internal/engine/kube"
	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/shard"
	"github.com/sallyport/sallyport/internal/model/snapshot"
	"github.com/sallyport/sallyport/internal/model/state"
	"github.com/sallyport/sallyport/internal/model/status"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// egressSize is the size of a cluster with EgressIPs.
type egressSize struct{ egressIPs, projects, pods, nodes int }

// egressCluster is a cluster in which each EgressIP selects some pods of one project, in steady state.
type egressCluster struct {
	*costShard
	size     egressSize
	networks map[string]netip.Prefix            // as observed: of the ports of the egress router
	groups   map[string]snapshot.HAChassisGroup // the same: its chassis groups
	rows     intent.Rows                        // of the egress router
	memo     *compile.EgressMemo                // of the last run
}

// newEgressCluster returns a cluster with the project of the golden cases and others that only have a namespace.
func newEgressCluster(t testing.TB, size egressSize) *egressCluster {
	t.Helper()
	c := &egressCluster{
		costShard: newCostShard(t, 10), size: size,
		networks: map[string]netip.Prefix{}, groups: map[string]snapshot.HAChassisGroup{},
	}
	for i := range size.projects {
		name := projectName(i)
		c.put(t, newProjectNamespace(name))
		if i > 0 {
			organization, project, _ := strings.Cut(name, "-")
			c.put(t, &kubedcv1.Project{ObjectMeta: metav1.ObjectMeta{Namespace: organization, Name: project}})
		}
	}
	for i := range size.nodes {
		c.put(t, newGatewayNode(i))
	}
	for i := range size.pods {
		c.put(t, c.newPod(i, podAddress(i/size.projects)))
	}
	for i := range size.egressIPs {
		c.send(t, newEgressIP(i, size.projects))
		c.put(t, newEgressOvnEip(i))
	}
	c.takeShards(t, map[shard.Shard]int{shard.Egress: size.egressIPs})
	for range 3 {
		c.runEgress(t)
	}
	if changed := c.runEgress(t); changed != 0 || len(c.rows) < 8*size.egressIPs {
		t.Fatalf("the egress router is not in steady state: %d rows, %d of them change", len(c.rows), changed)
	}
	if !c.memo.Settle() {
		t.Fatal("there is no memo of the egress router")
	}
	return c
}

// newProjectNamespace returns the namespace of a project.
func newProjectNamespace(name string) *corev1.Namespace {
	out := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID(name), Labels: namespaceLabels(name),
		Annotations: map[string]string{kubeovn.LogicalSwitchAnnotation: name + "-default"},
	}}
	kube.AdoptByLabels(out)
	return out
}

// projectName returns the name of the namespace of a project. The first is the one of the golden cases.
func projectName(i int) string {
	if i == 0 {
		return costVPC
	}
	return fmt.Sprintf("org-p%05d", i)
}

// namespaceLabels returns labels of which one is common, one is shared by few, and one is unique.
func namespaceLabels(name string) map[string]string {
	out := ownership.ManagedLabels(name)
	out[corev1.LabelMetadataName], out["env"], out["team"] = name, "prod", "team-"+name
	return out
}

func newGatewayNode(i int) *corev1.Node {
	name := fmt.Sprintf("gateway%03d", i)
	out := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID(name), Labels: map[string]string{ovnv1.AssignableLabel: ""},
		Annotations: map[string]string{kubeovn.ChassisAnnotation: "chassis-" + name},
	}}
	out.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return out
}

// newPod returns a pod of one of the projects, which are served in turn.
func (c *egressCluster) newPod(i int, address string) *corev1.Pod {
	out := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: projectName(i % c.size.projects), Name: fmt.Sprintf("pod%06d", i),
		Labels: map[string]string{"app": appName(i / c.size.projects)},
	}}
	out.Status.PodIPs = []corev1.PodIP{{IP: address}}
	return out
}

// appName returns one of the apps of a project by the number of a pod or EgressIP.
func appName(i int) string { return fmt.Sprintf("app%d", i%10) }

// podAddress returns the address of a pod by its number in its project.
func podAddress(i int) string { return fmt.Sprintf("10.0.0.%d", 10+i%200) }

// egressAddress returns the address of an EgressIP.
func egressAddress(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{100, 65, byte(16 + i/250), byte(1 + i%250)})
}

// newEgressIP returns an EgressIP that selects the pods of an app in one project. A third each requires a common and a
// unique label, the unique label with an operator, and the name.
func newEgressIP(i, projects int) *ovnv1.EgressIP {
	name := projectName(i % projects)
	out := &ovnv1.EgressIP{ObjectMeta: metav1.ObjectMeta{
		Name: fmt.Sprintf("e%05d", i), UID: types.UID(fmt.Sprint(i)), CreationTimestamp: metav1.Unix(int64(i), 0),
	}}
	out.Spec.EgressIPs = []string{egressAddress(i).String()}
	out.Spec.PodSelector.MatchLabels = map[string]string{"app": appName(i / projects)}
	switch s := &out.Spec.NamespaceSelector; i % 3 {
	case 0:
		s.MatchLabels = map[string]string{"env": "prod", "team": "team-" + name}
	case 1:
		s.MatchExpressions = []metav1.LabelSelectorRequirement{
			{Key: "team", Operator: metav1.LabelSelectorOpIn, Values: []string{"team-" + name, "team-none"}},
			{Key: "quarantined", Operator: metav1.LabelSelectorOpDoesNotExist},
		}
	default:
		s.MatchLabels = map[string]string{corev1.LabelMetadataName: name}
	}
	return out
}

// newEgressOvnEip returns the OvnEip that reserves the address of an EgressIP, as Kube-OVN has processed it.
func newEgressOvnEip(i int) *kube.OvnEip {
	out := &kube.OvnEip{}
	out.Name, out.Labels = ownership.EgressOvnEipName(egressAddress(i)), ownership.ManagedLabels(ownership.EgressVpc)
	out.Spec.ExternalSubnet, out.Spec.Type = "ext-cloud", "nat"
	out.Spec.Addresses = kubeovn.NewAddresses(egressAddress(i))
	out.Status.Ready, out.Status.V4Ip, out.Status.MacAddress = true, egressAddress(i).String(), "00:00:00:00:00:03"
	kube.AdoptByLabels(out)
	return out
}

// send sends an event of an object to the controller.
func (c *memoryCluster) send(t testing.TB, o client.Object) {
	t.Helper()
	c.versions++
	o.SetResourceVersion(fmt.Sprint(c.versions))
	key, err := kube.KeyOf(o)
	if err != nil {
		t.Fatal(err)
	}
	c.events[string(key.Kind)].Modify(o)
}

// enqueue records a shard that an event enqueues.
func (c *memoryCluster) enqueue(e kube.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.enqueued[e.Shard] = append(c.enqueued[e.Shard], e.Object)
	c.changed.Broadcast()
}

// takeShards waits until events have enqueued shards, each as often as wanted, and forgets all that are enqueued. It
// returns what the shard of egress addresses has to read anew.
func (c *memoryCluster) takeShards(t testing.TB, wanted map[shard.Shard]int) []intent.ObjectKey {
	t.Helper()
	return c.takeEnqueued(t, wanted)[shard.Egress]
}

// takeObjects does the same for one shard and event.
func (c *memoryCluster) takeObjects(t testing.TB, of shard.Shard) []intent.ObjectKey {
	t.Helper()
	return c.takeEnqueued(t, map[shard.Shard]int{of: 1})[of]
}

func (c *memoryCluster) takeEnqueued(t testing.TB, wanted map[shard.Shard]int) map[shard.Shard][]intent.ObjectKey {
	t.Helper()
	deadline := time.Now().Add(harness.Patience)
	defer time.AfterFunc(harness.Patience, c.changed.Broadcast).Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	for of, count := range wanted {
		for len(c.enqueued[of]) < count {
			if time.Now().After(deadline) {
				t.Fatalf("events have enqueued %v, not %d times %s", c.enqueued, count, of)
			}
			c.changed.Wait()
		}
	}
	out := maps.Clone(c.enqueued)
	clear(c.enqueued)
	return out
}

// runEgress does what a run of the egress shard does in Kubernetes and in compile, and returns how many rows change.
func (c *egressCluster) runEgress(t testing.TB) int {
	t.Helper()
	ctx := context.Background()
	inputs, world, err := c.GatherEgress(ctx)
	if err != nil {
		t.Fatal(err)
	}
	world.PortNetworks, world.ChassisGroups, world.PeerPorts = c.networks, c.groups, map[string]bool{}
	for _, r := range world.EgressIPs {
		for _, a := range kube.ParseAddresses(r.Addresses) {
			for _, vpc := range r.Vpcs {
				world.PeerPorts[ownership.VPCEgressLinkPort(vpc, a)] = true
			}
		}
	}
	want, verdicts, memo := compile.EgressWithMemo(world)
	objects, err := state.PreparePlan(ctx, kube.NewObjects(c.Cluster, ownership.EgressVpc), want.Objects)
	if err != nil {
		t.Fatal(err)
	}
	c.prepareStatuses(t, inputs.EgressIPObjects(), verdicts, []state.Plan{objects})
	changed := state.Diff(want.Rows, c.rows)
	c.rows, c.memo = want.Rows, memo
	for _, change := range changed {
		c.observe(change)
	}
	return len(changed)
}

// prepareStatuses does what a run does for the status of objects, without writing it.
func (c *egressCluster) prepareStatuses(t testing.TB, of []client.Object, verdicts []intent.Verdict, plans []state.Plan) {
	t.Helper()
	statuses := status.RenderStatuses(verdicts, status.NewOutcome(plans, nil))
	target, err := kube.NewStatuses(c.Cluster, of, time.Now, nil)
	if err == nil {
		_, err = state.PreparePlan(context.Background(), target, statuses, state.SkipRemovals)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// updateEgress does what a run of the egress shard does if only these EgressIPs have changed.
func (c *egressCluster) updateEgress(t testing.TB, changed []intent.ObjectKey) {
	t.Helper()
	objects, requests, ok := c.GatherEgressIPs(context.Background(), changed)
	if !ok {
		t.Fatalf("not all of %v are read", changed)
	}
	update, ok := c.memo.Update(requests)
	if !ok {
		t.Fatalf("the change of %v needs a run of all egress addresses", changed)
	}
	c.prepareStatuses(t, objects, update.Verdicts, nil)
}

// observe puts a changed row into what the next run observes.
func (c *egressCluster) observe(change state.Change[intent.RowKey, intent.Row]) {
	if change.IsRemoval() {
		return
	}
	switch row := (*change.After).(type) {
	case intent.LogicalRouterPort:
		c.networks[row.Name] = row.Network
	case intent.HAChassisGroup:
		c.groups[row.Name] = snapshot.HAChassisGroup{
			Chassis: strings.Fields(row.Chassis), EgressIP: c.rowOrigin(change),
		}
	}
}

func (c *egressCluster) rowOrigin(change state.Change[intent.RowKey, intent.Row]) string {
	return c.rows[change.Key].Origin.Name
}

// changePod sends the event of a pod whose address changed, and runs what it enqueues.
func (c *egressCluster) changePod(t testing.TB, n int) {
	t.Helper()
	c.send(t, c.newPod(0, podAddress(150+n%2)))
	c.takeShards(t, map[shard.Shard]int{shard.Named(costVPC): 1})
	want, _ := c.compile(t)
	if changed := len(state.Diff(want.Rows, c.costShard.rows)); changed == 0 {
		t.Fatal("the changed pod changes no rows")
	}
	c.costShard.rows = want.Rows
}

// changeEgressIP sends the event of an EgressIP that selects another app, and runs what it enqueues.
func (c *egressCluster) changeEgressIP(t testing.TB, n int) {
	t.Helper()
	changed := newEgressIP(0, c.size.projects)
	changed.Generation = int64(n + 1)
	changed.Spec.PodSelector.MatchLabels["app"] = appName(20 + n%2)
	c.send(t, changed)
	c.updateEgress(t, c.takeShards(t, map[shard.Shard]int{shard.Egress: 1, shard.Named(costVPC): 1}))
	want, _ := c.compile(t)
	c.costShard.rows = want.Rows
}

// changeNamespace sends the event of a namespace with another label, and runs what it enqueues: its EgressIPs, and its
// project.
func (c *egressCluster) changeNamespace(t testing.TB, n int) {
	t.Helper()
	changed := newProjectNamespace(costVPC)
	changed.Labels["note"] = fmt.Sprint(n % 2)
	c.send(t, changed)
	selecting := c.size.egressIPs / c.size.projects
	keys := c.takeShards(t, map[shard.Shard]int{shard.Egress: 2 * selecting, shard.Named(costVPC): 1})
	slices.SortFunc(keys, intent.ObjectKey.Compare)
	if keys = slices.Compact(keys); len(keys) != selecting {
		t.Fatalf("%d EgressIPs are enqueued, wanted %d", len(keys), selecting)
	}
	c.updateEgress(t, keys)
	want, _ := c.compile(t)
	c.costShard.rows = want.Rows
}

// checkReleasedAddresses checks that of released addresses only the one that an EgressIP requests runs all egress
// addresses. The last one belongs to a project that nothing else has run, so its run shows that all events are handled.
func (c *egressCluster) checkReleasedAddresses(t *testing.T) {
	t.Helper()
	none := c.size.egressIPs // no EgressIP has this number
	last := projectName(1)
	for n, address := range []int{none, 0, none + 1} {
		released := newEgressOvnEip(address)
		released.Name, released.Labels = fmt.Sprintf("released-%d", n), nil
		if n == 2 {
			released.Labels = ownership.ManagedLabels(last)
		}
		c.put(t, released)
		c.events[string(intent.OvnEip)].Delete(released)
	}
	got := c.takeShards(t, map[shard.Shard]int{shard.Named(last): 1})
	if len(got) != 1 || got[0] != (intent.ObjectKey{}) {
		t.Errorf("released addresses have run the egress addresses for %v, wanted once", got)
	}
}

// The most processor time that a change may need. It does not depend on the number of EgressIPs, unless it adds or
// removes an address or a link: then all egress addresses are compiled, which costs their number, but not that of the
// cluster.
const (
	maxEgressChange       = 20 * time.Millisecond
	maxEgressRunPerEgress = 400 * time.Microsecond
)

// TestScale5EgressChange measures what the controller does for one changed pod, namespace and EgressIP, from the event
// on, in Kubernetes' caches and in compile, without the northbound database.
func TestScale5EgressChange(t *testing.T) {
	item := scaleItems.Item(t, 5)
	size := show.ChooseSize(egressSize{10_000, 1000, 100_000, 10}, egressSize{300, 100, 2000, 10})
	c := newEgressCluster(t, size)
	figure := fmt.Sprintf("%d EgressIPs, %d projects, %d pods, without the northbound database:", size.egressIPs,
		size.projects, size.pods)
	for _, m := range []struct {
		what    string
		changes int
		change  func(testing.TB, int)
		limit   time.Duration
	}{
		{"a changed pod", 200, c.changePod, maxEgressChange},
		{"a changed namespace", 200, c.changeNamespace, maxEgressChange},
		{"a changed EgressIP", 200, c.changeEgressIP, maxEgressChange},
		{
			"a run of all, for a new or deleted address or link,", 5, func(t testing.TB, _ int) { c.runEgress(t) },
			50*time.Millisecond + time.Duration(size.egressIPs)*maxEgressRunPerEgress,
		},
	} {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		begin := processCPUTime(t)
		for n := range m.changes {
			m.change(t, n)
		}
		cpu := (processCPUTime(t) - begin) / time.Duration(m.changes)
		runtime.ReadMemStats(&after)
		figure += fmt.Sprintf(" %s needs %.2f ms of CPU and allocates %d KB;", m.what, harness.Milliseconds(cpu),
			(after.TotalAlloc-before.TotalAlloc)/uint64(m.changes)>>10)
		if cpu > m.limit {
			t.Errorf("%s needs %s of CPU, wanted at most %s", m.what, cpu, m.limit)
		}
	}
	c.checkReleasedAddresses(t)
	item.AddFigure("%s", strings.TrimSuffix(figure, ";"))
}

// BenchmarkEgressChange is the same for profiles.
func BenchmarkEgressChange(b *testing.B) {
	c := newEgressCluster(b, egressSize{10_000, 1000, 100_000, 10})
	for name, change := range map[string]func(testing.TB, int){
		"pod": c.changePod, "namespace": c.changeNamespace, "EgressIP": c.changeEgressIP,
		"all": func(t testing.TB, _ int) { c.runEgress(t) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for n := range b.N {
				change(b, n)
			}
		})
	}
}
