package e2e

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
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

const fleetOrganization = "fleet"

// fleet is many projects in a lab of their own.
type fleet struct {
	*cluster
	api    dynamic.Interface
	ctl    *controller
	census *census
	size   int

	done float64 // how many runs the controller had done
	calm bool    // when it had nothing left to do
}

// newFleet is an empty one. The lab has one node, because nothing is sent, and addresses for thousands of projects.
func newFleet(t *testing.T, flags ...string) *fleet {
	t.Helper()
	network := func(name, prefix string) blueprint.Network {
		return blueprint.Network{Name: name, Prefixes: []netip.Prefix{netip.MustParsePrefix(prefix)}, Default: name == "ext-cloud"}
	}
	c := spacious(t, "cost", blueprint.Blueprint{
		Nodes: 1, Gateways: 1, Raft: 1, Networks: []blueprint.Network{network("ext-public", "198.18.0.0/16"), network("ext-cloud", "100.65.0.0/16")},
	})
	c.equip(t)
	// After a run, northd pauses as long as the run took. It has no part in what is measured, and would have a core for itself.
	c.tool(t, "ovn-nbctl", "--db=unix:"+filepath.Join(c.Dir, "data/ovn/nb1.sock"), "set", "NB_Global", ".", "options:northd-backoff-interval-ms=10000")
	api, err := dynamic.NewForConfig(c.config(t))
	if err != nil {
		t.Fatal(err)
	}
	f := &fleet{cluster: c, api: api, census: newCensus(t, api), ctl: c.controller(t, t.TempDir(), flags...)}
	f.ctl.attend(t)
	if err := c.objects.Namespace(within(t, time.Minute), fleetOrganization); err != nil {
		t.Fatal(err)
	}
	f.quiet(t)
	return f
}

// spacious is a lab whose programs take more memory and collect garbage less often: the API server's CPU is what limits the
// lab, and a quarter of it goes into that. The controller, which is started later, has Go's own setting.
func spacious(t *testing.T, suffix string, b blueprint.Blueprint) *cluster {
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
	return own(t, suffix, b)
}

func projectName(i int) string      { return fmt.Sprintf("p%04d", i) }
func (f *fleet) space(i int) string { return fleetOrganization + "-" + projectName(i) }

// growth is what it cost to make projects.
type growth struct {
	projects           int
	took, cpu          time.Duration
	counters           map[string]float64
	memory, memoryMost int
}

// grow makes projects until there are so many, and waits until all are in force.
func (f *fleet) grow(t *testing.T, size int) growth {
	t.Helper()
	ctx := within(t, show.Size(50*time.Minute, 5*time.Minute))
	before, cpu, begin := f.ctl.counters(t), f.ctl.cpu(t), time.Now()
	if err := f.populate(ctx, size); err != nil {
		t.Fatal(err)
	}
	if err := f.census.until(ctx, func(c *census) bool { return len(c.inForce) >= size*6 }); err != nil { // with the EIp default-gw
		t.Fatalf("%v; of %d objects in force: %s", err, size*6, f.census)
	}
	g := growth{projects: size - f.size, took: time.Since(begin), cpu: f.ctl.cpu(t) - cpu, counters: grown(before, f.ctl.counters(t))}
	g.memory, g.memoryMost = f.ctl.memory(t)
	f.size = size
	return g
}

// populate makes the Projects, and in each as soon as it has its namespace the addresses.
func (f *fleet) populate(ctx context.Context, size int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for i := f.size; i < size; i++ {
		group.Go(func() error {
			return f.create(ctx, "Project", fleetOrganization, projectName(i), "cidrBlock: 10.0.0.0/24, egressNetworkType: cloud")
		})
	}
	for i := f.size; i < size; i++ {
		if err := f.census.until(ctx, func(c *census) bool { return c.there[f.space(i)] }); err != nil {
			break
		}
		group.Go(func() error { return f.addresses(ctx, i) })
	}
	return group.Wait()
}

// addresses makes two EIps and two FIps. One FIp of ten is on the network that is not the project's default.
func (f *fleet) addresses(ctx context.Context, i int) error {
	for n := range 2 {
		network := "cloud"
		if (2*i+n)%10 == 9 {
			network = "public"
		}
		name := fmt.Sprintf("a%d", n)
		if err := f.create(ctx, "EIp", f.space(i), name, "externalNetworkType: "+network); err != nil {
			return err
		}
		if err := f.create(ctx, "FIp", f.space(i), name, fmt.Sprintf("eip: %s, ipAddress: 10.0.0.%d", name, 10+n)); err != nil {
			return err
		}
	}
	return nil
}

func (f *fleet) create(ctx context.Context, kind, namespace, name, spec string) error {
	r := ref(kind, namespace, name)
	objects, err := manifest.Parse(fmt.Sprintf("{apiVersion: %s, kind: %s, metadata: {namespace: %s, name: %s}, spec: {%s}}",
		r.GVK.GroupVersion(), kind, namespace, name, spec))
	if err != nil {
		return err
	}
	_, err = f.api.Resource(resourceOf(r)).Namespace(namespace).Create(ctx, objects[0], metav1.CreateOptions{})
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
		_, err := informers.ForResource(resourceOf(ref(kind, "", ""))).Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
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
	if !isObject || u.GetName() == visitor {
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

// String is how many are in force.
func (c *census) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprint(maps.Clone(c.kinds))
}
