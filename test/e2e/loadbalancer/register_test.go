package loadbalancer

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ovn-kubernetes/libovsdb/cache"
	"github.com/ovn-kubernetes/libovsdb/client"
	"github.com/ovn-kubernetes/libovsdb/model"

	"github.com/sallyport/sallyport/test/e2e/harness"
)

// balancerRow is a load balancer of the northbound database, with the columns that are measured.
type balancerRow struct {
	UUID string            `ovsdb:"_uuid"`
	Name string            `ovsdb:"name"`
	VIPs map[string]string `ovsdb:"vips"`
}

// balancerWatch tracks every load balancer of a northbound database and the time of its last change.
type balancerWatch struct {
	nb client.Client

	mu        sync.Mutex
	rows      map[string]balancerRow // by name
	changedAt map[string]time.Time
	changed   chan struct{} // closed at the next change
}

// newBalancerWatch watches the northbound database until the test ends.
func newBalancerWatch(t *testing.T, c *harness.Cluster) *balancerWatch {
	t.Helper()
	nb := c.NewNBClient(t, "Load_Balancer", &balancerRow{})
	ctx := harness.Within(t, 30*time.Second)
	if err := nb.Connect(ctx); err != nil {
		t.Fatal(err)
	}
	r := &balancerWatch{
		nb:        nb,
		rows:      map[string]balancerRow{},
		changedAt: map[string]time.Time{},
		changed:   make(chan struct{}),
	}
	nb.Cache().AddEventHandler(&cache.EventHandlerFuncs{
		AddFunc:    func(_ string, m model.Model) { r.recordRow(m) },
		UpdateFunc: func(_ string, _, m model.Model) { r.recordRow(m) },
	})
	if _, err := nb.MonitorAll(ctx); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *balancerWatch) recordRow(m model.Model) {
	row := *m.(*balancerRow)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rows[row.Name], r.changedAt[row.Name] = row, time.Now()
	close(r.changed)
	r.changed = make(chan struct{})
}

// waitQuiet waits until no load balancer has changed for a while: Kube-OVN writes its own for the same Services, and is
// slower.
func (r *balancerWatch) waitQuiet(ctx context.Context, still time.Duration) error {
	for {
		r.mu.Lock()
		next := r.changed
		r.mu.Unlock()
		select {
		case <-next:
		case <-time.After(still):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// waitUntil waits until a condition holds for a load balancer, and returns the time of the change.
func (r *balancerWatch) waitUntil(ctx context.Context, name string, holds func(balancerRow) bool) (time.Time, error) {
	for {
		r.mu.Lock()
		row, at, next := r.rows[name], r.changedAt[name], r.changed
		r.mu.Unlock()
		if row.Name != "" && holds(row) {
			return at, nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return time.Time{}, ctx.Err()
		}
	}
}

// hasBackend returns a condition that holds if a load balancer has a backend.
func hasBackend(backend string) func(balancerRow) bool {
	return func(row balancerRow) bool {
		for _, backends := range row.VIPs {
			if strings.Contains(backends, backend) {
				return true
			}
		}
		return false
	}
}
