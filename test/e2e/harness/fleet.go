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

// restartLimit is the maximum time until a restarted controller has run every shard.
const restartLimit = 30 * time.Second

// MeasureRestart checks that a restarted controller runs every shard within the limit and writes nothing if nothing has
// changed.
func (f *ScaleFixture) MeasureRestart(t *testing.T, item *show.Item) {
	t.Helper()
	f.WaitIdle(t)
	f.Controller.Stop(syscall.SIGTERM)
	begin := time.Now()
	f.idle = false
	f.Controller.Start(t)
	f.WaitForMetrics(t, 2*time.Minute, func(now map[string]float64) bool {
		return now["sallyport_shards_waiting"] == 0 && SumShardRuns(now) >= float64(f.Size)
	})
	ready, cpu := time.Since(begin), f.Controller.CPUTime(t)
	f.WaitIdle(t)
	now, most := f.Controller.MemoryUsage(t)
	if n := f.Controller.CountWrites(t); n > 0 {
		t.Errorf("%.0f writes after a restart at which nothing had changed: %v", n, f.Controller.ReadMetrics(t))
	}
	if ready > restartLimit {
		t.Errorf("a restarted controller is ready after %s; wanted %s", ready, restartLimit)
	}
	f.CreateProbeFIP(t, 0) // positive control: it does write if something has changed
	if n := f.Controller.CountWrites(t); n == 0 {
		t.Error("a new FIp is in force and the restarted controller has counted no write")
	}
	f.DeleteProbeFIP(t, 0)
	item.AddFigure("restart at %d projects: every shard run after %.1f s (%.1f s of CPU), 0 writes; %d MiB, at most %d MiB",
		f.Size, ready.Seconds(), cpu.Seconds(), now, most)
}

// Milliseconds returns a duration in milliseconds.
func Milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// MedianDuration returns the median of durations.
func MedianDuration(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

// SumShardRuns returns the number of shard runs in the counters.
func SumShardRuns(counters map[string]float64) (total float64) {
	for name, n := range counters {
		if strings.HasPrefix(name, "sallyport_shard_runs_total") {
			total += n
		}
	}
	return total
}

// CounterIncreases returns the increase of each counter.
func CounterIncreases(before, after map[string]float64) map[string]float64 {
	out := map[string]float64{}
	for name, n := range after {
		if n != before[name] && strings.HasPrefix(name, "sallyport_") && strings.Contains(name, "_total") {
			out[name] = n - before[name]
		}
	}
	return out
}

// ProbeName is the name of the EIp and the FIp that are created and deleted for measurements.
const ProbeName = "visitor"

// CreateProbeFIP creates an EIp and a FIp in a project, and returns the time until the FIp is Programmed.
func (f *ScaleFixture) CreateProbeFIP(t *testing.T, i int) time.Duration {
	t.Helper()
	begin, ctx := time.Now(), Within(t, Patience)
	if err := f.CreateObject(ctx, "EIp", f.NamespaceOf(f.ProbeProject(i)), ProbeName,
		"externalNetworkType: cloud"); err != nil {
		t.Fatal(err)
	}
	if err := f.CreateObject(ctx, "FIp", f.NamespaceOf(f.ProbeProject(i)), ProbeName,
		"eip: "+ProbeName+", ipAddress: 10.0.0.100"); err != nil {
		t.Fatal(err)
	}
	f.WaitForObject(t, "FIp", f.NamespaceOf(f.ProbeProject(i)), ProbeName, manifest.True("Programmed"))
	return time.Since(begin)
}

// DeleteProbeFIP deletes both again.
func (f *ScaleFixture) DeleteProbeFIP(t *testing.T, i int) {
	t.Helper()
	err := f.Objects.Delete(Within(t, Patience), fmt.Sprintf(`
{apiVersion: kube-dc.com/v1, kind: EIp, metadata: {namespace: %[1]s, name: %[2]s}}
---
{apiVersion: kube-dc.com/v1, kind: FIp, metadata: {namespace: %[1]s, name: %[2]s}}`, f.NamespaceOf(f.ProbeProject(i)), ProbeName))
	if err != nil {
		t.Fatal(err)
	}
}

// ProbeProject returns the number of a project that has existed since the beginning.
func (f *ScaleFixture) ProbeProject(i int) int { return i % 5 }

// WaitIdle waits until the controller has been idle for longer than its own periodic checks are apart. After thousands
// of Services this takes minutes, because Kube-OVN processes each of them, about forty in a second.
func (f *ScaleFixture) WaitIdle(t *testing.T) {
	t.Helper()
	const still = 2500 * time.Millisecond
	since := time.Now()
	f.WaitForMetrics(t, 15*time.Minute, func(now map[string]float64) bool {
		if done := SumShardRuns(now); done != f.runsDone || now["sallyport_shards_waiting"] > 0 {
			f.runsDone, f.idle, since = done, false, time.Now()
		}
		f.idle = f.idle || time.Since(since) > still
		return f.idle // also true if there was no run since the last call
	})
}

// WaitForMetrics polls the controller's metrics until the condition holds. A controller that has just started does not
// answer.
func (f *ScaleFixture) WaitForMetrics(t *testing.T, limit time.Duration, holds func(map[string]float64) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	ticks := time.NewTicker(500 * time.Millisecond) // each answer costs the controller some milliseconds
	defer ticks.Stop()
	for {
		if now, err := f.Controller.ScrapeMetrics(ctx); err == nil && holds(now) {
			return
		}
		select {
		case <-ticks.C:
		case <-ctx.Done():
			t.Fatalf("the controller's counters are not as they should be after %s: %v", limit,
				f.Controller.ReadMetrics(t))
		}
	}
}

// procFile returns the path of a file in the /proc directory of the controller's process.
func (c *Controller) procFile(t *testing.T, file string) string {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Process == nil {
		t.Fatal("the controller is not running")
	}
	return fmt.Sprintf("/proc/%d/%s", c.Process.Process.Pid, file)
}

func (c *Controller) readProcFile(t *testing.T, file string) string {
	t.Helper()
	raw, err := os.ReadFile(c.procFile(t, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// CPUTime returns the processor time that the controller has used, in user and kernel mode. The kernel's resolution is
// a hundredth of a second.
func (c *Controller) CPUTime(t *testing.T) time.Duration {
	t.Helper()
	return ParseCPUTime(t, c.readProcFile(t, "stat"))
}

// ParseCPUTime returns the processor time of a process from its file /proc/PID/stat.
func ParseCPUTime(t *testing.T, stat string) time.Duration {
	t.Helper()
	fields := strings.Fields(stat[strings.LastIndex(stat, ")")+2:]) // the program name may contain spaces
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

// ResetPeakMemory makes MemoryUsage return the peak from now on.
func (c *Controller) ResetPeakMemory(t *testing.T) {
	t.Helper()
	// 5: reset VmHWM, see proc(5)
	if err := os.WriteFile(c.procFile(t, "clear_refs"), []byte("5"), 0); err != nil {
		t.Fatal(err)
	}
}

// MemoryUsage returns the current and the peak memory usage of the controller in MiB.
func (c *Controller) MemoryUsage(t *testing.T) (now, most int) {
	t.Helper()
	for line := range strings.Lines(c.readProcFile(t, "status")) {
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

const scaleOrganization = "fleet"

// ScaleFixture is a separate lab with many projects.
type ScaleFixture struct {
	*Cluster
	API        dynamic.Interface
	Controller *Controller
	tracker    *objectTracker
	Size       int

	runsDone float64 // number of runs at the last call of WaitIdle
	idle     bool    // whether the controller was idle then
}

// NewScaleFixture starts a lab without projects. It has one node, because no packets are sent, and addresses for
// thousands of projects.
func NewScaleFixture(t *testing.T, flags ...string) *ScaleFixture {
	t.Helper()
	return NewGatewayScaleFixture(t, 1, flags...)
}

// NewGatewayScaleFixture starts such a lab with several nodes, which all may hold gateways.
func NewGatewayScaleFixture(t *testing.T, nodes int, flags ...string) *ScaleFixture {
	t.Helper()
	network := func(name, prefix string) blueprint.Network {
		return blueprint.Network{
			Name:     name,
			Prefixes: []netip.Prefix{netip.MustParsePrefix(prefix)},
			Default:  name == "ext-cloud",
		}
	}
	c := startLabWithLazyGC(t, "cost", blueprint.Blueprint{
		Nodes: nodes, Gateways: nodes, Raft: 1, Networks: []blueprint.Network{
			network("ext-public", "198.18.0.0/16"),
			network("ext-cloud", "100.65.0.0/16"),
		},
	})
	c.InstallSallyport(t)
	// Make northd pause after each run for as long as the run took. It is not part of the measurement and would
	// otherwise use a whole core.
	c.RunTool(t, "ovn-nbctl", "--db=unix:"+filepath.Join(c.Dir, "data/ovn/nb1.sock"), "set", "NB_Global", ".",
		"options:northd-backoff-interval-ms=10000")
	api, err := dynamic.NewForConfig(c.RESTConfig(t))
	if err != nil {
		t.Fatal(err)
	}
	f := &ScaleFixture{
		Cluster:    c,
		API:        api,
		tracker:    newObjectTracker(t, api),
		Controller: c.NewController(t, t.TempDir(), flags...),
	}
	f.Controller.StartForTest(t)
	if err := c.Objects.Namespace(Within(t, Patience), scaleOrganization); err != nil {
		t.Fatal(err)
	}
	f.WaitIdle(t)
	return f
}

// startLabWithLazyGC starts a lab whose programs use more memory and collect garbage less often: the CPU of the API
// server limits the lab, and garbage collection takes a quarter of it. The controller, which is started later, uses
// Go's default.
func startLabWithLazyGC(t *testing.T, suffix string, b blueprint.Blueprint) *Cluster {
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

// ProjectName returns the name of project i.
func ProjectName(i int) string { return fmt.Sprintf("p%04d", i) }

// NamespaceOf returns the namespace of project i.
func (f *ScaleFixture) NamespaceOf(i int) string { return scaleOrganization + "-" + ProjectName(i) }

// Growth is the cost of creating projects.
type Growth struct {
	Projects           int
	Took, CPU          time.Duration
	Counters           map[string]float64
	Memory, MemoryPeak int
}

// GrowTo creates projects up to the given number and waits until all are Programmed.
func (f *ScaleFixture) GrowTo(t *testing.T, size int) Growth {
	t.Helper()
	ctx := Within(t, show.ChooseSize(50*time.Minute, 5*time.Minute))
	before, cpu, begin := f.Controller.ReadMetrics(t), f.Controller.CPUTime(t), time.Now()
	if err := f.createProjects(ctx, size); err != nil {
		t.Fatal(err)
	}
	// six objects for each project: the Project, three EIps including default-gw, two FIps
	if err := f.tracker.waitUntil(ctx, func(c *objectTracker) bool { return len(c.programmed) >= size*6 }); err != nil {
		t.Fatalf("%v; of %d objects in force: %s", err, size*6, f.tracker)
	}
	g := Growth{
		Projects: size - f.Size,
		Took:     time.Since(begin),
		CPU:      f.Controller.CPUTime(t) - cpu,
		Counters: CounterIncreases(before, f.Controller.ReadMetrics(t)),
	}
	g.Memory, g.MemoryPeak = f.Controller.MemoryUsage(t)
	f.Size = size
	return g
}

// createProjects creates the Projects, and the addresses of each as soon as its namespace exists.
func (f *ScaleFixture) createProjects(ctx context.Context, size int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for i := f.Size; i < size; i++ {
		group.Go(func() error {
			return f.CreateObject(ctx, "Project", scaleOrganization, ProjectName(i),
				"cidrBlock: 10.0.0.0/24, egressNetworkType: cloud")
		})
	}
	for i := f.Size; i < size; i++ {
		if err := f.tracker.waitUntil(ctx, func(c *objectTracker) bool {
			return c.namespaces[f.NamespaceOf(i)]
		}); err != nil {
			break
		}
		group.Go(func() error { return f.createAddresses(ctx, i) })
	}
	return group.Wait()
}

// createAddresses creates two EIps and two FIps. One FIp in ten is on the project's secondary network.
func (f *ScaleFixture) createAddresses(ctx context.Context, i int) error {
	for n := range 2 {
		network := "cloud"
		if (2*i+n)%10 == 9 {
			network = "public"
		}
		name := fmt.Sprintf("a%d", n)
		if err := f.CreateObject(ctx, "EIp", f.NamespaceOf(i), name, "externalNetworkType: "+network); err != nil {
			return err
		}
		if err := f.CreateObject(ctx, "FIp", f.NamespaceOf(i), name,
			fmt.Sprintf("eip: %s, ipAddress: 10.0.0.%d", name, 10+n)); err != nil {
			return err
		}
	}
	return nil
}

// CreateObject creates an object without waiting.
func (f *ScaleFixture) CreateObject(ctx context.Context, kind, namespace, name, spec string) error {
	r := ObjectRef(kind, namespace, name)
	objects, err := manifest.Parse(fmt.Sprintf(
		"{apiVersion: %s, kind: %s, metadata: {namespace: %s, name: %s}, spec: {%s}}",
		r.GVK.GroupVersion(), kind, namespace, name, spec))
	if err != nil {
		return err
	}
	_, err = f.API.Resource(ResourceForRef(r)).Namespace(namespace).Create(ctx, objects[0], metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create %s: %w", r, err)
	}
	return nil
}

// objectTracker tracks which permanent objects are Programmed and which namespaces exist.
type objectTracker struct {
	mu               sync.Mutex
	programmed       map[string]bool // by kind, namespace and name
	namespaces       map[string]bool
	programmedByKind map[string]int
	changed          chan struct{} // closed at the next change
}

// newObjectTracker watches objects until the test ends.
func newObjectTracker(t *testing.T, api dynamic.Interface) *objectTracker {
	t.Helper()
	c := &objectTracker{
		programmed:       map[string]bool{},
		namespaces:       map[string]bool{},
		programmedByKind: map[string]int{},
		changed:          make(chan struct{}),
	}
	informers := dynamicinformer.NewDynamicSharedInformerFactory(api, 0)
	for _, kind := range []string{"Project", "EIp", "FIp", "Namespace"} {
		heard := func(o any) { c.recordObject(kind, o) }
		informer := informers.ForResource(ResourceForRef(ObjectRef(kind, "", ""))).Informer()
		if err := informer.SetTransform(TrimObject); err != nil {
			t.Fatal(err)
		}
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: heard, UpdateFunc: func(_, o any) { heard(o) },
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	informers.Start(t.Context().Done())
	return c
}

// TrimObject leaves out what takes most of the memory of a small object.
func TrimObject(o any) (any, error) {
	if u, is := o.(*unstructured.Unstructured); is {
		u.SetManagedFields(nil)
	}
	return o, nil
}

func (c *objectTracker) recordObject(kind string, o any) {
	u, isObject := o.(*unstructured.Unstructured)
	if !isObject || u.GetName() == ProbeName {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if kind == "Namespace" {
		c.namespaces[u.GetName()] = true
	} else {
		key := kind + " " + u.GetNamespace() + "/" + u.GetName()
		if c.programmed[key] || !manifest.True("Programmed")(u) {
			return
		}
		c.programmed[key] = true
		c.programmedByKind[kind]++
	}
	close(c.changed)
	c.changed = make(chan struct{})
}

// waitUntil waits until the condition holds.
func (c *objectTracker) waitUntil(ctx context.Context, holds func(*objectTracker) bool) error {
	for {
		c.mu.Lock()
		held, next := holds(c), c.changed
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

func (c *objectTracker) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprint(maps.Clone(c.programmedByKind))
}
