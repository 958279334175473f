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

// TestBalancer6Abuse: one tenant asks for the same port a thousand times, has a Service with thousands of endpoints, and lets
// endpoints come and go a hundred times a second. How long a change of another tenant takes stays within twice of what it was.
func TestBalancer6Abuse(t *testing.T) {
	harness.Alone(t)
	item := balancers.Item(t, 6)
	c := &serviceFleet{Fleet: harness.NewFleet(t)}
	c.rows = newRegister(t, c.Cluster)
	c.Grow(t, 3)
	c.fill(t, item, show.Size(30, 6))
	c.victims(t) // what is done for the first time takes longer
	quiet := c.victims(t)
	for _, abuse := range []struct {
		what string
		do   func(context.Context, *testing.T)
	}{
		{fmt.Sprintf("%d Services that ask for one port", show.Size(1000, 50)), c.samePort},
		{fmt.Sprintf("a Service with %d endpoints", show.Size(5000, 500)), c.crowd},
		{"endpoints that come and go 100 times a second", c.flapping},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		var abuser sync.WaitGroup
		abuser.Go(func() { abuse.do(ctx, t) })
		during := c.victims(t)
		cancel()
		abuser.Wait()
		c.Quiet(t)
		quiet = quiet.and(c.victims(t))
		item.Figure("%s: from Kubernetes' yes to the row others' changes take %.1f ms (median) and %.1f ms (99th percentile); %.1f and %.1f when it is quiet. "+
			"Kubernetes' yes: %.1f and %.1f; %.1f and %.1f. A bare transaction: %.1f and %.1f; %.1f and %.1f", abuse.what,
			harness.P(during.row, 50), harness.P(during.row, 99), harness.P(quiet.row, 50), harness.P(quiet.row, 99),
			harness.P(during.accepted, 50), harness.P(during.accepted, 99), harness.P(quiet.accepted, 50), harness.P(quiet.accepted, 99),
			harness.P(during.bare, 50), harness.P(during.bare, 99), harness.P(quiet.bare, 50), harness.P(quiet.bare, 99))
		// The lab's nodes have the same two cores: what the engine does for the abuser slows down a bare transaction, too.
		if slower := harness.P(during.row, 99) / harness.P(quiet.row, 99); show.Full() && slower > 2 {
			t.Errorf("%s: the 99th percentile of others is %.1f times that of the quiet run, of a bare transaction %.1f times; the slowest: %v", abuse.what,
				slower, harness.P(during.bare, 99)/harness.P(quiet.bare, 99), during.row[len(during.row)-5:])
		}
	}
}

// latencies is how long changes have taken: until Kubernetes has said yes, from there to the row, and to Kube-OVN's own load balancer, and
// beside each a bare transaction.
type latencies struct{ accepted, row, theirs, bare []time.Duration }

func (a latencies) and(b latencies) latencies {
	sorted := func(a, b []time.Duration) []time.Duration { return slices.Sorted(slices.Values(slices.Concat(a, b))) }
	return latencies{sorted(a.accepted, b.accepted), sorted(a.row, b.row), sorted(a.theirs, b.theirs), sorted(a.bare, b.bare)}
}

// victims are changes of tenants who do nothing wrong: those of all projects but the first.
func (c *serviceFleet) victims(t *testing.T) (took latencies) {
	t.Helper()
	for n := range show.Size(300, 20) {
		i := n % c.services
		if i%c.Size == 0 {
			continue
		}
		accepted, row := c.change(t, i, n)
		took.accepted, took.row, took.bare = append(took.accepted, accepted), append(took.row, row), append(took.bare, c.bare(t, n))
	}
	return took.and(latencies{})
}

// samePort asks for one port of one address again and again.
func (c *serviceFleet) samePort(ctx context.Context, t *testing.T) {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for i := range show.Size(1000, 50) {
		group.Go(func() error {
			return c.Objects.Apply(ctx, fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {namespace: %s, name: same-%d, annotations: {service.nlb.kube-dc.com/bind-on-eip: front}},
  spec: {type: LoadBalancer, allocateLoadBalancerNodePorts: false, ports: [{port: 7}]}}`, c.Space(0), i))
		})
	}
	if err := group.Wait(); err != nil && ctx.Err() == nil {
		t.Error(err)
	}
}

// crowd is a Service with very many endpoints, in slices of a hundred, which is what Kubernetes makes.
func (c *serviceFleet) crowd(ctx context.Context, t *testing.T) {
	text := fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {namespace: %s, name: crowd, annotations: {service.nlb.kube-dc.com/bind-on-eip: front}},
  spec: {type: LoadBalancer, allocateLoadBalancerNodePorts: false, ports: [{port: 9}]}}`, c.Space(0))
	for n := range show.Size(50, 5) {
		var hundred []string
		for k := range 100 {
			hundred = append(hundred, fmt.Sprintf("10.0.0.%d:%d", 10+k, 8080))
		}
		one := strings.Replace(slice(c.Space(0), "crowd", hundred), "name: crowd,", fmt.Sprintf("name: crowd-%d,", n), 1)
		text += "\n---\n" + strings.Replace(one, "port: 8080", fmt.Sprintf("port: %d", 8080+n), 1)
	}
	if err := c.Objects.Apply(ctx, text); err != nil && ctx.Err() == nil {
		t.Error(err)
	}
}

// flapping changes the endpoints of one Service a hundred times a second.
func (c *serviceFleet) flapping(ctx context.Context, t *testing.T) {
	pace := time.NewTicker(10 * time.Millisecond)
	defer pace.Stop()
	namespace, name := c.name(0)
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-pace.C:
		}
		objects, err := manifest.Parse(slice(namespace, name, []string{endpoint(0, n%10)}))
		if err == nil {
			err = c.Objects.ApplyObject(ctx, objects[0])
		}
		if err != nil && ctx.Err() == nil {
			t.Error(err)
			return
		}
	}
}
