package loadbalancer

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// comparisonRounds is how often everything is measured: figures of a shared machine differ from minute to minute.
const comparisonRounds = 5

// maxBareRatio is the goal: a changed endpoint takes as long as the API server needs to tell any client, and at most
// this many times as long as a bare transaction.
const maxBareRatio = 1.5

// comparison has the durations of changes of an EndpointSlice, all from the moment when the request is sent: until it is
// accepted, until another client of the API server has the event, until our VIP has the endpoint, and until Kube-OVN's
// own load balancer has it; and those of bare transactions.
type comparison struct{ accepted, event, row, kubeOVN, bare []time.Duration }

// columns returns the durations by name, in order.
func (c *comparison) columns() []comparisonColumn {
	return []comparisonColumn{
		{"accepted", &c.accepted},
		{"event at another client", &c.event},
		{"Sallyport's row", &c.row},
		{"Kube-OVN's own load balancer", &c.kubeOVN},
		{"a bare transaction", &c.bare},
	}
}

type comparisonColumn struct {
	name string
	took *[]time.Duration
}

// compareWithKubeOVN changes endpoints while Kube-OVN's controller makes its own load balancers of the same Services,
// in several rounds, alternating with bare transactions.
func (c *serviceScaleFixture) compareWithKubeOVN(t *testing.T, item *show.Item) (changes int) {
	t.Helper()
	c.events = watchEndpointSlices(t, c)
	chance := rand.New(rand.NewPCG(7, uint64(c.services)))
	var all comparison
	var rounds []comparison
	for range comparisonRounds {
		var one comparison
		for range show.ChooseSize(100, 8) {
			c.compareOnce(t, &one, chance.IntN(c.services), changes)
			changes++
		}
		rounds = append(rounds, one)
		for i, column := range one.columns() {
			slices.Sort(*column.took)
			pooled := all.columns()[i].took
			*pooled = append(*pooled, *column.took...)
		}
	}
	var texts []string
	for i, column := range all.columns() {
		slices.Sort(*column.took)
		texts = append(texts, fmt.Sprintf("%s %s", column.name, formatRounds(*column.took, rounds, i)))
	}
	text := fmt.Sprintf("%d Services in %d projects, Kube-OVN's controller works, %d changes in %d rounds; ms from the "+
		"request, median and 99th percentile (lowest and highest of the rounds): %s", c.services, c.Size, changes,
		comparisonRounds, strings.Join(texts, "; "))
	t.Log(text)
	item.AddFigure("%s", text)
	checkComparison(t, item, all)
	return changes
}

// formatRounds formats the median and the 99th percentile of all rounds, with those of the best and the worst round.
func formatRounds(all []time.Duration, rounds []comparison, column int) string {
	var texts []string
	for _, percent := range []int{50, 99} {
		var each []float64
		for _, r := range rounds {
			each = append(each, harness.PercentileMillis(*r.columns()[column].took, percent))
		}
		texts = append(texts, fmt.Sprintf("%.1f (%.1f to %.1f)", harness.PercentileMillis(all, percent), slices.Min(each),
			slices.Max(each)))
	}
	return strings.Join(texts, ", ")
}

// checkComparison compares with the goals, at full size only: in CI other tests use the machine.
func checkComparison(t *testing.T, item *show.Item, all comparison) {
	t.Helper()
	for _, percent := range []int{50, 99} {
		row, theirs := harness.PercentileMillis(all.row, percent), harness.PercentileMillis(all.kubeOVN, percent)
		limit := harness.PercentileMillis(all.event, percent) + maxBareRatio*harness.PercentileMillis(all.bare, percent)
		item.AddFigure("%d%%: Sallyport %.1f ms, Kube-OVN %.1f ms; the API server and %.1f bare transactions %.1f ms",
			percent, row, theirs, maxBareRatio, limit)
		if show.IsFullSize() && row > theirs {
			t.Errorf("%d%% of the changes take %.1f ms, with Kube-OVN's own load balancer %.1f ms", percent, row, theirs)
		}
	}
}

// compareOnce changes an endpoint of a Service and makes a bare transaction. Which comes first alternates with n.
func (c *serviceScaleFixture) compareOnce(t *testing.T, to *comparison, service, n int) {
	t.Helper()
	if n%2 == 0 {
		to.bare = append(to.bare, c.measureBareTransaction(t, n))
	}
	namespace, name := c.serviceName(service)
	mark := c.nextMarker(service)
	patch, vip := endpointPatch(t, service, mark), c.clusterVIP(t, service)
	ctx := harness.Within(t, harness.Patience)
	theirs := c.waitInBackground(ctx, "vpc-"+namespace+"-tcp-load", func(row harness.LoadBalancerRow) bool {
		return strings.Contains(row.VIPs[vip], mark)
	})
	ours := c.waitInBackground(ctx, c.balancerName(service), harness.HasBackend(mark))
	sent := time.Now()
	_, err := c.Client.DiscoveryV1().EndpointSlices(namespace).Patch(ctx, name, types.MergePatchType, patch,
		metav1.PatchOptions{})
	to.accepted = append(to.accepted, time.Since(sent))
	if err != nil {
		t.Fatal(err)
	}
	for _, wait := range []struct {
		at <-chan time.Time
		to *[]time.Duration
	}{{ours, &to.row}, {theirs, &to.kubeOVN}} {
		at, came := <-wait.at
		if !came {
			t.Fatalf("%s/%s: no load balancer with %s", namespace, name, mark)
		}
		*wait.to = append(*wait.to, at.Sub(sent))
	}
	to.event = append(to.event, c.events.waitFor(t, namespace+"/"+name, mark).Sub(sent))
	if n%2 == 1 {
		to.bare = append(to.bare, c.measureBareTransaction(t, n))
	}
}

// clusterVIP returns the VIP of a Service in Kube-OVN's own load balancer.
func (c *serviceScaleFixture) clusterVIP(t *testing.T, service int) string {
	t.Helper()
	namespace, name := c.serviceName(service)
	s, err := c.Client.CoreV1().Services(namespace).Get(harness.Within(t, harness.Patience), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s:%d", s.Spec.ClusterIP, s.Spec.Ports[0].Port)
}

// waitInBackground sends when a condition held for a load balancer, or closes the channel if it never did.
func (c *serviceScaleFixture) waitInBackground(ctx context.Context, name string,
	holds func(harness.LoadBalancerRow) bool,
) <-chan time.Time {
	out := make(chan time.Time, 1)
	go func() {
		defer close(out)
		if at, err := c.balancers.WaitUntil(ctx, name, holds); err == nil {
			out <- at
		}
	}()
	return out
}

// endpointPatch returns a patch that replaces the last endpoint of a Service.
func endpointPatch(t *testing.T, service int, mark string) []byte {
	t.Helper()
	var endpoints []map[string]any
	for n := range 10 {
		address := endpointAddress(service, n)
		if n == 9 {
			address = mark
		}
		endpoints = append(endpoints, map[string]any{
			"addresses":  []string{strings.TrimSuffix(address, ":8080")},
			"conditions": map[string]bool{"ready": true},
		})
	}
	patch, err := json.Marshal(map[string]any{"endpoints": endpoints})
	if err != nil {
		t.Fatal(err)
	}
	return patch
}

// sliceEvents is when another client of the API server got the EndpointSlices that it watches.
type sliceEvents struct {
	mu      sync.Mutex
	last    map[string]string    // address of the last endpoint, by namespace/name
	at      map[string]time.Time // when it came
	changed *sync.Cond
}

// watchEndpointSlices watches all EndpointSlices until the test ends.
func watchEndpointSlices(t *testing.T, c *serviceScaleFixture) *sliceEvents {
	t.Helper()
	e := &sliceEvents{last: map[string]string{}, at: map[string]time.Time{}}
	e.changed = sync.NewCond(&e.mu)
	source, err := c.Client.DiscoveryV1().EndpointSlices("").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(source.Stop)
	go func() {
		for event := range source.ResultChan() {
			e.record(event)
		}
	}()
	return e
}

func (e *sliceEvents) record(event watch.Event) {
	now := time.Now()
	slice, is := event.Object.(*discoveryv1.EndpointSlice)
	if !is || len(slice.Endpoints) == 0 {
		return
	}
	key := slice.Namespace + "/" + slice.Name
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last[key], e.at[key] = slice.Endpoints[len(slice.Endpoints)-1].Addresses[0]+":8080", now
	e.changed.Broadcast()
}

// waitFor waits until the last endpoint of a slice has an address, and returns when it came.
func (e *sliceEvents) waitFor(t *testing.T, key, mark string) time.Time {
	t.Helper()
	limit := time.AfterFunc(harness.Patience, e.changed.Broadcast)
	defer limit.Stop()
	begun := time.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	for e.last[key] != mark {
		if time.Since(begun) > harness.Patience {
			t.Fatalf("no event of EndpointSlice %s with %s", key, mark)
		}
		e.changed.Wait()
	}
	return e.at[key]
}
