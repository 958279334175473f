package loadbalancer

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// TestBalancer6Abuse lets one tenant request the same port a thousand times, create a Service with thousands of
// endpoints, and add and remove endpoints a hundred times a second. The time for a change of another tenant must not
// exceed twice its usual value.
func TestBalancer6Abuse(t *testing.T) {
	harness.RunQuietly(t)
	item := balancerItems.Item(t, 6)
	c := &serviceScaleFixture{ScaleFixture: harness.NewScaleFixture(t)}
	c.balancers = harness.NewLoadBalancerWatch(t, c.Cluster)
	c.GrowTo(t, 3)
	c.createServices(t, item, show.ChooseSize(30, 6))
	c.measureVictims(t, 1) // warm up
	quiet := c.measureVictims(t, 1)
	for _, abuse := range c.listAbuses() {
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { abuse.do(ctx, t, abuser{}) })
		during := c.measureVictims(t, 1)
		cancel()
		running.Wait()
		c.WaitIdle(t)
		quiet = quiet.merge(c.measureVictims(t, 1))
		item.AddFigure("%s: from Kubernetes' yes to the row others' changes take %.1f ms (median) and %.1f ms (99th percentile); %.1f and %.1f when it is quiet. "+
			"Kubernetes' yes: %.1f and %.1f; %.1f and %.1f. A bare transaction: %.1f and %.1f; %.1f and %.1f",
			abuse.what,
			harness.PercentileMillis(during.row, 50), harness.PercentileMillis(during.row, 99),
			harness.PercentileMillis(quiet.row, 50), harness.PercentileMillis(quiet.row, 99),
			harness.PercentileMillis(during.accepted, 50), harness.PercentileMillis(during.accepted, 99),
			harness.PercentileMillis(quiet.accepted, 50), harness.PercentileMillis(quiet.accepted, 99),
			harness.PercentileMillis(during.bare, 50), harness.PercentileMillis(during.bare, 99),
			harness.PercentileMillis(quiet.bare, 50), harness.PercentileMillis(quiet.bare, 99))
		// The lab's nodes share two cores: work of the engine for the abuser also slows down a bare transaction.
		if slower := harness.PercentileMillis(during.row, 99) / harness.PercentileMillis(quiet.row,
			99); show.IsFullSize() && slower > 2 {
			t.Errorf("%s: the 99th percentile of others is %.1f times that of the quiet run, of a bare transaction %.1f times; the slowest: %v", abuse.what,
				slower, harness.PercentileMillis(during.bare, 99)/harness.PercentileMillis(quiet.bare, 99),
				during.row[len(during.row)-5:])
		}
	}
}

// abuse is something that a tenant does to the cluster.
type abuse struct {
	what string
	do   func(context.Context, *testing.T, abuser)
}

// abuser is a tenant with a project of its own. What it does again differs, or nothing would change.
type abuser struct{ project, pass int }

func (c *serviceScaleFixture) listAbuses() []abuse {
	return []abuse{
		{fmt.Sprintf("%d Services that ask for one port", show.ChooseSize(1000, 50)), c.requestSamePort},
		{fmt.Sprintf("a Service with %d endpoints", show.ChooseSize(5000, 500)), c.createManyEndpoints},
		{"endpoints that come and go 100 times a second", c.flapEndpoints},
	}
}

// latencies are the durations of changes: until Kubernetes has accepted the change, from there to the row, and of a bare
// transaction for comparison.
type latencies struct{ accepted, row, bare []time.Duration }

func (a latencies) merge(b latencies) latencies {
	sorted := func(a, b []time.Duration) []time.Duration { return slices.Sorted(slices.Values(slices.Concat(a, b))) }
	return latencies{sorted(a.accepted, b.accepted), sorted(a.row, b.row), sorted(a.bare, b.bare)}
}

// measureVictims measures changes of well-behaved tenants: those of all projects but the first ones.
func (c *serviceScaleFixture) measureVictims(t *testing.T, abusers int) (took latencies) {
	t.Helper()
	for n := range show.ChooseSize(300, 20) {
		i := n % c.services
		if i%c.Size < abusers {
			continue
		}
		accepted, row := c.changeEndpoint(t, i)
		took.accepted, took.row, took.bare = append(took.accepted, accepted), append(took.row, row),
			append(took.bare, c.measureBareTransaction(t, n))
	}
	return took.merge(latencies{})
}

// requestSamePort requests one port of one address repeatedly.
func (c *serviceScaleFixture) requestSamePort(ctx context.Context, t *testing.T, by abuser) {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for i := range show.ChooseSize(1000, 50) {
		group.Go(func() error {
			return c.Objects.Apply(ctx, fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {namespace: %s, name: same-%d, annotations: {service.nlb.kube-dc.com/bind-on-eip: front}},
  spec: {type: LoadBalancer, allocateLoadBalancerNodePorts: false, ports: [{port: %d}]}}`, c.NamespaceOf(by.project), i, 7+by.pass%2))
		})
	}
	if err := group.Wait(); err != nil && ctx.Err() == nil {
		t.Error(err)
	}
}

// createManyEndpoints creates a Service with very many endpoints, in slices of a hundred, as Kubernetes does.
func (c *serviceScaleFixture) createManyEndpoints(ctx context.Context, t *testing.T, by abuser) {
	text := fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {namespace: %s, name: crowd, annotations: {service.nlb.kube-dc.com/bind-on-eip: front}},
  spec: {type: LoadBalancer, allocateLoadBalancerNodePorts: false, ports: [{port: 9}]}}`, c.NamespaceOf(by.project))
	for n := range show.ChooseSize(50, 5) {
		var hundred []string
		for k := range 100 {
			hundred = append(hundred, fmt.Sprintf("10.0.0.%d:%d", 10+k, 8080))
		}
		one := strings.Replace(endpointSliceManifest(c.NamespaceOf(by.project), "crowd", hundred), "name: crowd,",
			fmt.Sprintf("name: crowd-%d,", n), 1)
		text += "\n---\n" + strings.Replace(one, "port: 8080", fmt.Sprintf("port: %d", 8080+n+50*(by.pass%2)), 1)
	}
	if err := c.Objects.Apply(ctx, text); err != nil && ctx.Err() == nil {
		t.Error(err)
	}
}

// flapEndpoints changes the endpoints of one Service a hundred times a second.
func (c *serviceScaleFixture) flapEndpoints(ctx context.Context, t *testing.T, by abuser) {
	pace := time.NewTicker(10 * time.Millisecond)
	defer pace.Stop()
	namespace, name := c.serviceName(by.project)
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-pace.C:
		}
		objects, err := manifest.Parse(endpointSliceManifest(namespace, name, []string{endpointAddress(by.project, n%10)}))
		if err == nil {
			err = c.Objects.ApplyObject(ctx, objects[0])
		}
		if err != nil && ctx.Err() == nil {
			t.Error(err)
			return
		}
	}
}
