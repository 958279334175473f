package harness

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"github.com/sallyport/sallyport/internal/lab/blueprint"
	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/show"
)

// readyLimit is how long a controller that is started may take until it has run every shard.
const readyLimit = 30 * time.Second

// Restart shows that a controller which is started writes nothing when all is as it should be, and is ready soon.
func (f *Fleet) Restart(t *testing.T, item *show.Item) {
	t.Helper()
	f.Quiet(t)
	f.Ctl.Stop(syscall.SIGTERM)
	begin := time.Now()
	f.calm = false
	f.Ctl.Start(t)
	f.await(t, 2*time.Minute, func(now map[string]float64) bool {
		return now["sallyport_shards_waiting"] == 0 && Runs(now) >= float64(f.Size)
	})
	ready, cpu := time.Since(begin), f.Ctl.CPU(t)
	f.Quiet(t)
	now, most := f.Ctl.Memory(t)
	if n := f.Ctl.CountWrites(t); n > 0 {
		t.Errorf("%.0f writes after a restart at which nothing had changed: %v", n, f.Ctl.ReadMetrics(t))
	}
	if ready > readyLimit {
		t.Errorf("a restarted controller is ready after %s; wanted %s", ready, readyLimit)
	}
	f.Make(t, 0) // control: it does write when there is something to write
	if n := f.Ctl.CountWrites(t); n == 0 {
		t.Error("a new FIp is in force and the restarted controller has counted no write")
	}
	f.Unmake(t, 0)
	item.Figure("restart at %d projects: every shard run after %.1f s (%.1f s of CPU), 0 writes; %d MiB, at most %d MiB",
		f.Size, ready.Seconds(), cpu.Seconds(), now, most)
}

// Milliseconds is a duration as a number of milliseconds.
func Milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// Median is the median of durations.
func Median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

// Runs is how many runs of shards are counted.
func Runs(counters map[string]float64) (total float64) {
	for name, n := range counters {
		if strings.HasPrefix(name, "sallyport_shard_runs_total") {
			total += n
		}
	}
	return total
}

// GrewBy is how much counters have grown.
func GrewBy(before, after map[string]float64) map[string]float64 {
	out := map[string]float64{}
	for name, n := range after {
		if n != before[name] && strings.HasPrefix(name, "sallyport_") && strings.Contains(name, "_total") {
			out[name] = n - before[name]
		}
	}
	return out
}

// Visitor is the EIp and the FIp that come and go.
const Visitor = "visitor"

// Make makes an EIp and a FIp in a project, and returns after how long the FIp is in force.
func (f *Fleet) Make(t *testing.T, i int) time.Duration {
	t.Helper()
	begin, ctx := time.Now(), Within(t, time.Minute)
	if err := f.Create(ctx, "EIp", f.Space(f.Chosen(i)), Visitor, "externalNetworkType: cloud"); err != nil {
		t.Fatal(err)
	}
	if err := f.Create(ctx, "FIp", f.Space(f.Chosen(i)), Visitor, "eip: "+Visitor+", ipAddress: 10.0.0.100"); err != nil {
		t.Fatal(err)
	}
	f.Wait(t, "FIp", f.Space(f.Chosen(i)), Visitor, manifest.True("Programmed"))
	return time.Since(begin)
}

// Unmake takes both away again.
func (f *Fleet) Unmake(t *testing.T, i int) {
	t.Helper()
	err := f.Objects.Delete(Within(t, time.Minute), fmt.Sprintf(`
{apiVersion: kube-dc.com/v1, kind: EIp, metadata: {namespace: %[1]s, name: %[2]s}}
---
{apiVersion: kube-dc.com/v1, kind: FIp, metadata: {namespace: %[1]s, name: %[2]s}}`, f.Space(f.Chosen(i)), Visitor))
	if err != nil {
		t.Fatal(err)
	}
}

// Chosen is a project that was there from the beginning.
func (f *Fleet) Chosen(i int) int { return i % 5 }

// Quiet waits until the controller has had nothing to do for longer than it waits before it looks again by itself. After thousands of
// Services that takes minutes: Kube-OVN has a look at each, some forty in a second.
func (f *Fleet) Quiet(t *testing.T) {
	t.Helper()
	const still = 2500 * time.Millisecond
	since := time.Now()
	f.await(t, 15*time.Minute, func(now map[string]float64) bool {
		if done := Runs(now); done != f.done || now["sallyport_shards_waiting"] > 0 {
			f.done, f.calm, since = done, false, time.Now()
		}
		f.calm = f.calm || time.Since(since) > still
		return f.calm // since the last time, if nothing has been run
	})
}

// await asks the controller for its counters until they are as they should be. A controller that has only just started does
// not answer.
func (f *Fleet) await(t *testing.T, limit time.Duration, holds func(map[string]float64) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	ticks := time.NewTicker(500 * time.Millisecond) // each answer costs the controller some milliseconds
	defer ticks.Stop()
	for {
		if now, err := f.Ctl.Scrape(ctx); err == nil && holds(now) {
			return
		}
		select {
		case <-ticks.C:
		case <-ctx.Done():
			t.Fatalf("the controller's counters are not as they should be after %s: %v", limit, f.Ctl.ReadMetrics(t))
		}
	}
}

// kernel reads a file that the kernel has about the controller's process.
func (c *Controller) kernel(t *testing.T, file string) string {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Process == nil {
		t.Fatal("the controller is not running")
	}
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", c.Process.Process.Pid, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// CPU is the processor time that the controller has used, in user and kernel mode. The kernel counts in hundredths of a second.
func (c *Controller) CPU(t *testing.T) time.Duration {
	t.Helper()
	stat := c.kernel(t, "stat")
	fields := strings.Fields(stat[strings.LastIndex(stat, ")")+2:]) // the name of the program may have spaces in it
	var ticks int
	for _, text := range fields[11:13] {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// Memory is what the controller has in memory, and had at most, in MiB.
func (c *Controller) Memory(t *testing.T) (now, most int) {
	t.Helper()
	for line := range strings.Lines(c.kernel(t, "status")) {
		name, value, _ := strings.Cut(line, ":")
		kib, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
		switch name {
		case "VmRSS":
			now = kib / 1024
		case "VmHWM":
			most = kib / 1024
		}
	}
	return now, most
}

const fleetOrganization = "fleet"

// Fleet is many projects in a lab of their own.
type Fleet struct {
	*Cluster
	API    dynamic.Interface
	Ctl    *Controller
	census *census
	Size   int

	done float64 // how many runs the controller had done
	calm bool    // when it had nothing left to do
}

// NewFleet is an empty one. The lab has one node, because nothing is sent, and addresses for thousands of projects.
func NewFleet(t *testing.T, flags ...string) *Fleet {
	t.Helper()
	network := func(name, prefix string) blueprint.Network {
		return blueprint.Network{Name: name, Prefixes: []netip.Prefix{netip.MustParsePrefix(prefix)}, Default: name == "ext-cloud"}
	}
	c := spacious(t, "cost", blueprint.Blueprint{
		Nodes: 1, Gateways: 1, Raft: 1, Networks: []blueprint.Network{network("ext-public", "198.18.0.0/16"), network("ext-cloud", "100.65.0.0/16")},
	})
	c.InstallSallyport(t)
	// After a run, northd pauses as long as the run took. It has no part in what is measured, and would have a core for itself.
	c.RunTool(t, "ovn-nbctl", "--db=unix:"+filepath.Join(c.Dir, "data/ovn/nb1.sock"), "set", "NB_Global", ".", "options:northd-backoff-interval-ms=10000")
	api, err := dynamic.NewForConfig(c.RESTConfig(t))
	if err != nil {
		t.Fatal(err)
	}
	f := &Fleet{Cluster: c, API: api, census: newCensus(t, api), Ctl: c.NewController(t, t.TempDir(), flags...)}
	f.Ctl.StartForTest(t)
	if err := c.Objects.Namespace(Within(t, time.Minute), fleetOrganization); err != nil {
		t.Fatal(err)
	}
	f.Quiet(t)
	return f
}

// spacious is a lab whose programs take more memory and collect garbage less often: the API server's CPU is what limits the
// lab, and a quarter of it goes into that. The controller, which is started later, has Go's own setting.
func spacious(t *testing.T, suffix string, b blueprint.Blueprint) *Cluster {
	t.Helper()
	const setting = "GOGC"
	before, there := os.LookupEnv(setting)
	if err := os.Setenv(setting, "400"); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if there {
			_ = os.Setenv(setting, before)
			return
		}
		_ = os.Unsetenv(setting)
	}()
	return StartLab(t, suffix, b)
}

// ProjectName is the name of the fleet's project i.
func ProjectName(i int) string { return fmt.Sprintf("p%04d", i) }

// Space is the namespace of the fleet's project i.
func (f *Fleet) Space(i int) string { return fleetOrganization + "-" + ProjectName(i) }

// Growth is what it cost to make projects.
type Growth struct {
	Projects           int
	Took, CPU          time.Duration
	Counters           map[string]float64
	Memory, MemoryMost int
}

// Grow makes projects until there are so many, and waits until all are in force.
func (f *Fleet) Grow(t *testing.T, size int) Growth {
	t.Helper()
	ctx := Within(t, show.Size(50*time.Minute, 5*time.Minute))
	before, cpu, begin := f.Ctl.ReadMetrics(t), f.Ctl.CPU(t), time.Now()
	if err := f.populate(ctx, size); err != nil {
		t.Fatal(err)
	}
	if err := f.census.until(ctx, func(c *census) bool { return len(c.inForce) >= size*6 }); err != nil { // with the EIp default-gw
		t.Fatalf("%v; of %d objects in force: %s", err, size*6, f.census)
	}
	g := Growth{Projects: size - f.Size, Took: time.Since(begin), CPU: f.Ctl.CPU(t) - cpu, Counters: GrewBy(before, f.Ctl.ReadMetrics(t))}
	g.Memory, g.MemoryMost = f.Ctl.Memory(t)
	f.Size = size
	return g
}

// populate makes the Projects, and in each as soon as it has its namespace the addresses.
func (f *Fleet) populate(ctx context.Context, size int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for i := f.Size; i < size; i++ {
		group.Go(func() error {
			return f.Create(ctx, "Project", fleetOrganization, ProjectName(i), "cidrBlock: 10.0.0.0/24, egressNetworkType: cloud")
		})
	}
	for i := f.Size; i < size; i++ {
		if err := f.census.until(ctx, func(c *census) bool { return c.there[f.Space(i)] }); err != nil {
			break
		}
		group.Go(func() error { return f.addresses(ctx, i) })
	}
	return group.Wait()
}

// addresses makes two EIps and two FIps. One FIp of ten is on the network that is not the project's default.
func (f *Fleet) addresses(ctx context.Context, i int) error {
	for n := range 2 {
		network := "cloud"
		if (2*i+n)%10 == 9 {
			network = "public"
		}
		name := fmt.Sprintf("a%d", n)
		if err := f.Create(ctx, "EIp", f.Space(i), name, "externalNetworkType: "+network); err != nil {
			return err
		}
		if err := f.Create(ctx, "FIp", f.Space(i), name, fmt.Sprintf("eip: %s, ipAddress: 10.0.0.%d", name, 10+n)); err != nil {
			return err
		}
	}
	return nil
}

// Create creates an object without waiting for anything.
func (f *Fleet) Create(ctx context.Context, kind, namespace, name, spec string) error {
	r := Ref(kind, namespace, name)
	objects, err := manifest.Parse(fmt.Sprintf("{apiVersion: %s, kind: %s, metadata: {namespace: %s, name: %s}, spec: {%s}}",
		r.GVK.GroupVersion(), kind, namespace, name, spec))
	if err != nil {
		return err
	}
	_, err = f.API.Resource(ResourceOf(r)).Namespace(namespace).Create(ctx, objects[0], metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create %s: %w", r, err)
	}
	return nil
}

// census is which objects that stay are in force, and which namespaces there are.
type census struct {
	mu      sync.Mutex
	inForce map[string]bool // by kind, namespace and name
	there   map[string]bool
	kinds   map[string]int
	next    chan struct{} // closed at the next change
}

// newCensus listens until the test ends.
func newCensus(t *testing.T, api dynamic.Interface) *census {
	t.Helper()
	c := &census{inForce: map[string]bool{}, there: map[string]bool{}, kinds: map[string]int{}, next: make(chan struct{})}
	informers := dynamicinformer.NewDynamicSharedInformerFactory(api, 0)
	for _, kind := range []string{"Project", "EIp", "FIp", "Namespace"} {
		heard := func(o any) { c.heard(kind, o) }
		_, err := informers.ForResource(ResourceOf(Ref(kind, "", ""))).Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: heard, UpdateFunc: func(_, o any) { heard(o) },
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	informers.Start(t.Context().Done())
	return c
}

func (c *census) heard(kind string, o any) {
	u, isObject := o.(*unstructured.Unstructured)
	if !isObject || u.GetName() == Visitor {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if kind == "Namespace" {
		c.there[u.GetName()] = true
	} else {
		key := kind + " " + u.GetNamespace() + "/" + u.GetName()
		if c.inForce[key] || !manifest.True("Programmed")(u) {
			return
		}
		c.inForce[key] = true
		c.kinds[kind]++
	}
	close(c.next)
	c.next = make(chan struct{})
}

// until waits until something holds.
func (c *census) until(ctx context.Context, holds func(*census) bool) error {
	for {
		c.mu.Lock()
		held, next := holds(c), c.next
		c.mu.Unlock()
		if held {
			return nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (c *census) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprint(maps.Clone(c.kinds))
}
