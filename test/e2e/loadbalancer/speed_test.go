package loadbalancer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// serviceScaleFixture has many projects whose Services have endpoints that do not exist: only the control plane is
// tested.
type serviceScaleFixture struct {
	*harness.ScaleFixture
	balancers *harness.LoadBalancerWatch
	services  int
	markers   map[int]int // how many markers each Service has had
	events    *sliceEvents
}

// TestBalancer5Speed measures the time from an EndpointSlice to the row, compared with a bare transaction and with
// Kube-OVN's own load balancers for the same Services; the creation of all Services; and a restart. The comparison is
// also part of what `make show-scale` shows.
func TestBalancer5Speed(t *testing.T) {
	harness.RunQuietly(t)
	item, comparisons := balancerItems.Item(t, 5), scaleItems.Item(t, 4)
	c := &serviceScaleFixture{ScaleFixture: harness.NewScaleFixture(t)}
	c.balancers = harness.NewLoadBalancerWatch(t, c.Cluster)
	c.GrowTo(t, show.ChooseSize(100, 4))
	for _, size := range show.ChooseSize([]int{1000, 10000}, []int{80}) {
		c.createServices(t, item, size)
		c.measureChanges(t, item, comparisons)
		c.MeasureRestart(t, item)
	}
}

// serviceStatusWrites is the metric of writes of the status of Services.
const serviceStatusWrites = `sallyport_kubernetes_writes_total{kind="Service/status",verb="apply"}`

// maxStatusWrites is how often the status of a new Service may be written on average: while it waits for its EIp, if that
// takes longer than a second or two, or while it has no endpoints; and when it works. 1.00 and 1.02 were measured.
const maxStatusWrites = 2

// serviceName returns the name of Service i. Services are distributed over the projects.
func (c *serviceScaleFixture) serviceName(i int) (namespace, name string) {
	return c.NamespaceOf(i % c.Size), fmt.Sprintf("s%05d", i)
}

// balancerName returns the name under which the VIP of a Service is watched.
func (c *serviceScaleFixture) balancerName(i int) string {
	namespace, name := c.serviceName(i)
	return namespace + "/" + name
}

// createServices creates Services with ten endpoints each, up to the given number. Those of a project share one
// address.
func (c *serviceScaleFixture) createServices(t *testing.T, item *show.Item, size int) {
	t.Helper()
	writes := c.Controller.ReadMetrics(t)[serviceStatusWrites]
	ctx, cpu, begun := harness.Within(t, show.ChooseSize(40*time.Minute, 3*time.Minute)), c.Controller.CPUTime(t),
		time.Now()
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(16)
	if c.services == 0 {
		for i := range c.Size {
			group.Go(func() error {
				return c.CreateObject(inner, "EIp", c.NamespaceOf(i), "front", "externalNetworkType: cloud")
			})
		}
	}
	for i := c.services; i < size; i++ {
		group.Go(func() error { return c.createService(inner, i) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	wrote := time.Since(begun)
	for i := c.services; i < size; i++ {
		if _, err := c.balancers.WaitUntil(ctx, c.balancerName(i), harness.HasBackend(endpointAddress(i, 9))); err != nil {
			t.Fatalf("load balancer %s: %v", c.balancerName(i), err)
		}
	}
	took, n := time.Since(begun), size-c.services
	c.services = size
	now, most := c.Controller.MemoryUsage(t)
	item.AddFigure("%d Services of 10 endpoints in %d projects: %d more from nothing in %.1f s, %.1f s of them to write them to Kubernetes; "+
		"the controller: %.1f ms of CPU each, %d MiB, at most %d MiB", size, c.Size, n, took.Seconds(), wrote.Seconds(),
		harness.Milliseconds(c.Controller.CPUTime(t)-cpu)/float64(n), now, most)
	c.waitQuiet(t)
	each := (c.Controller.ReadMetrics(t)[serviceStatusWrites] - writes) / float64(n)
	item.AddFigure("%.2f writes of the status for each new Service", each)
	if each == 0 || each > maxStatusWrites {
		t.Errorf("the status of a new Service was written %.2f times, wanted at most %d", each, maxStatusWrites)
	}
}

// endpointAddress returns one of a Service's ten endpoints, as OVN writes it.
func endpointAddress(i, n int) string { return fmt.Sprintf("10.0.0.%d:8080", 100+(i*7+n)%140) }

func endpointSliceManifest(namespace, name string, addresses []string) string {
	var endpoints []string
	for _, a := range addresses {
		endpoints = append(endpoints, fmt.Sprintf("{addresses: [%s], conditions: {ready: true}}",
			strings.TrimSuffix(a, ":8080")))
	}
	return fmt.Sprintf(`{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {namespace: %s, name: %s, labels: {kubernetes.io/service-name: %s}},
  addressType: IPv4, ports: [{name: "", port: 8080, protocol: TCP}], endpoints: [%s]}`, namespace, name, name, strings.Join(endpoints, ", "))
}

func (c *serviceScaleFixture) createService(ctx context.Context, i int) error {
	namespace, name := c.serviceName(i)
	// The second annotation is for Kube-OVN, which otherwise derives the VPC from pods.
	text := fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {namespace: %[1]s, name: %[2]s,
  annotations: {service.nlb.kube-dc.com/bind-on-eip: front, ovn.kubernetes.io/vpc: %[1]s}},
  spec: {type: LoadBalancer, allocateLoadBalancerNodePorts: false, ports: [{port: %[3]d, targetPort: 8080}]}}`, namespace, name, 1000+i/c.Size)
	var ten []string
	for n := range 10 {
		ten = append(ten, endpointAddress(i, n))
	}
	objects, err := manifest.Parse(text + "\n---\n" + endpointSliceManifest(namespace, name, ten))
	if err != nil {
		return err
	}
	for _, o := range objects {
		_, err := c.API.Resource(harness.ResourceForRef(harness.ObjectRef(o.GetKind(), "",
			""))).Namespace(namespace).Create(ctx, o, metav1.CreateOptions{})
		if err != nil {
			return err
		}
	}
	return nil
}

// measureChanges measures changes one at a time: an endpoint of a Service is replaced.
func (c *serviceScaleFixture) measureChanges(t *testing.T, item, comparisons *show.Item) {
	t.Helper()
	c.waitQuiet(t)
	before := c.Controller.ReadMetrics(t)
	changes := c.compareWithKubeOVN(t, comparisons)
	// it also processes each of these changes, and there are only two cores
	c.ControlLab(t, "pause", "kube-ovn-controller")
	alone := c.measureLatencies(t)
	c.ControlLab(t, "resume", "kube-ovn-controller")
	c.waitQuiet(t)
	item.AddFigure("%d Services, %d changes while Kube-OVN's controller is paused, which Kubernetes accepts in %s; from "+
		"there to the row: %s; a bare transaction %s", c.services, len(alone.row),
		harness.FormatMedianAndP99(alone.accepted), harness.FormatMedianAndP99(alone.row),
		harness.FormatMedianAndP99(alone.bare))
	c.checkEndpointRuns(t, item, before, len(alone.row)+changes)
	if limit := 2*harness.PercentileMillis(alone.bare, 99) + 20; show.IsFullSize() &&
		harness.PercentileMillis(alone.row, 99) > limit {
		t.Errorf("%d Services, while Kube-OVN is paused: the 99th percentile is %.1f ms, wanted %.1f ms", c.services,
			harness.PercentileMillis(alone.row, 99), limit)
	}
}

// checkEndpointRuns checks that most changes were compiled as Services: the first of a project is not, nor is one that
// comes together with another event.
func (c *serviceScaleFixture) checkEndpointRuns(t *testing.T, item *show.Item, before map[string]float64, changes int) {
	t.Helper()
	now := c.Controller.ReadMetrics(t)
	count := func(metric string) float64 { return now[metric] - before[metric] }
	services := count(`sallyport_endpoint_runs_total{compiled="services"}`)
	item.AddFigure("%d changed endpoints: %.0f runs compiled their Services only, %.0f their project; %.0f checks of memos",
		changes, services, count(`sallyport_endpoint_runs_total{compiled="vpc"}`),
		count(`sallyport_memo_checks_total{result="same"}`))
	if services < float64(changes)/2 || now[`sallyport_memo_checks_total{result="different"}`] > 0 {
		t.Errorf("of %d changes %.0f were compiled as Services; checks that found a difference: %.0f", changes, services,
			now[`sallyport_memo_checks_total{result="different"}`])
	}
}

// waitQuiet waits until all components are idle.
func (c *serviceScaleFixture) waitQuiet(t *testing.T) {
	t.Helper()
	if err := c.balancers.WaitQuiet(harness.Within(t, 20*time.Minute),
		show.ChooseSize(10*time.Second, time.Second)); err != nil {
		t.Fatal(err)
	}
	c.WaitIdle(t)
}

// measureLatencies changes Services at random, one at a time.
func (c *serviceScaleFixture) measureLatencies(t *testing.T) (took latencies) {
	t.Helper()
	chance := rand.New(rand.NewPCG(5, uint64(c.services)))
	for n := range show.ChooseSize(300, 30) {
		accepted, row := c.changeEndpoint(t, chance.IntN(c.services))
		took.accepted, took.row, took.bare = append(took.accepted, accepted), append(took.row, row),
			append(took.bare, c.measureBareTransaction(t, n))
	}
	return took.merge(latencies{})
}

// nextMarker returns an endpoint that the Service does not have yet and that identifies its next change.
func (c *serviceScaleFixture) nextMarker(i int) string {
	if c.markers == nil {
		c.markers = map[int]int{}
	}
	c.markers[i]++
	return fmt.Sprintf("10.0.0.%d:8080", 10+c.markers[i]%80)
}

// changeEndpoint replaces an endpoint of a Service. It returns how long Kubernetes took to accept the change, and how
// long after that the row had it.
func (c *serviceScaleFixture) changeEndpoint(t *testing.T, i int) (accepted, row time.Duration) {
	t.Helper()
	namespace, name := c.serviceName(i)
	marker := c.nextMarker(i)
	var ten []string
	for k := range 9 {
		ten = append(ten, endpointAddress(i, k))
	}
	begun := time.Now()
	if err := c.Objects.Apply(harness.Within(t, harness.Patience),
		endpointSliceManifest(namespace, name, append(ten, marker))); err != nil {
		t.Fatal(err)
	}
	written := time.Now()
	return written.Sub(begun), c.timeUntilBackend(t, written, c.balancerName(i), marker)
}

// timeUntilBackend returns the time from a moment until a load balancer had a backend.
func (c *serviceScaleFixture) timeUntilBackend(t *testing.T, begun time.Time, balancer, backend string) time.Duration {
	t.Helper()
	at, err := c.balancers.WaitUntil(harness.Within(t, harness.Patience), balancer, harness.HasBackend(backend))
	if err != nil {
		t.Fatalf("%s does not lead to %s: %v", balancer, backend, err)
	}
	return max(at.Sub(begun), 0)
}

// measureBareTransaction changes an unowned load balancer of the same size directly, and returns the time until the
// change is observed.
func (c *serviceScaleFixture) measureBareTransaction(t *testing.T, n int) time.Duration {
	t.Helper()
	ctx, row := harness.Within(t, harness.Patience), &harness.LoadBalancerRow{Name: "bare", VIPs: map[string]string{}}
	var ten []string
	for k := range 9 {
		ten = append(ten, endpointAddress(0, k))
	}
	mark := fmt.Sprintf("10.0.1.%d:8080", n%250)
	row.VIPs["192.0.2.1:80"] = strings.Join(append(ten, mark), ",")
	have, there := c.balancers.Row(row.Name)
	operations, err := c.balancers.NB.Create(row)
	if there {
		row.UUID = have.UUID
		operations, err = c.balancers.NB.Where(row).Update(row, &row.VIPs)
	}
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	if _, err := c.balancers.NB.Transact(ctx, operations...); err != nil {
		t.Fatal(err)
	}
	return c.timeUntilBackend(t, begun, row.Name, mark)
}
