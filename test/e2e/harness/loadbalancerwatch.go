package harness

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ovn-kubernetes/libovsdb/cache"
	"github.com/ovn-kubernetes/libovsdb/client"
	"github.com/ovn-kubernetes/libovsdb/model"

	"github.com/sallyport/sallyport/internal/model/ownership"
)

// LoadBalancerRow is a load balancer of the northbound database, with the columns that are measured.
type LoadBalancerRow struct {
	UUID        string            `ovsdb:"_uuid"`
	Name        string            `ovsdb:"name"`
	VIPs        map[string]string `ovsdb:"vips"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
}

// LoadBalancerWatch tracks every load balancer of a northbound database and the time of its last change.
type LoadBalancerWatch struct {
	NB client.Client

	mu        sync.Mutex
	rows      map[string]LoadBalancerRow // by name; for a Service with one VIP, also by namespace/name
	changedAt map[string]time.Time
	changed   chan struct{} // closed at the next change
}

// NewLoadBalancerWatch watches the northbound database until the test ends.
func NewLoadBalancerWatch(t *testing.T, c *Cluster) *LoadBalancerWatch {
	t.Helper()
	nb := c.NewNBClient(t, "Load_Balancer", &LoadBalancerRow{})
	ctx := Within(t, Patience)
	if err := nb.Connect(ctx); err != nil {
		t.Fatal(err)
	}
	r := &LoadBalancerWatch{
		NB:        nb,
		rows:      map[string]LoadBalancerRow{},
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

func (r *LoadBalancerWatch) recordRow(m model.Model) {
	row := *m.(*LoadBalancerRow)
	r.mu.Lock()
	defer r.mu.Unlock()
	for vip := range r.rows[row.Name].VIPs {
		if owner := r.rows[row.Name].ExternalIDs[ownership.RowVIPOwnerPrefix+vip]; row.VIPs[vip] == "" {
			r.recordVIPs(owner, nil)
		}
	}
	r.rows[row.Name], r.changedAt[row.Name] = row, time.Now()
	for vip, backends := range row.VIPs {
		if owner := row.ExternalIDs[ownership.RowVIPOwnerPrefix+vip]; r.rows[owner].VIPs[vip] != backends {
			r.recordVIPs(owner, map[string]string{vip: backends})
		}
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

// recordVIPs records the VIP of a Service.
func (r *LoadBalancerWatch) recordVIPs(owner string, vips map[string]string) {
	if owner != "" {
		r.rows[owner], r.changedAt[owner] = LoadBalancerRow{Name: owner, VIPs: vips}, time.Now()
	}
}

// Row returns a load balancer as it was last seen.
func (r *LoadBalancerWatch) Row(name string) (LoadBalancerRow, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	row, there := r.rows[name]
	return row, there
}

// WaitQuiet waits until no load balancer has changed for a while: Kube-OVN writes its own for the same Services, and is
// slower.
func (r *LoadBalancerWatch) WaitQuiet(ctx context.Context, still time.Duration) error {
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

// WaitUntil waits until a condition holds for a load balancer, and returns the time of the change.
func (r *LoadBalancerWatch) WaitUntil(ctx context.Context, name string, holds func(LoadBalancerRow) bool) (time.Time, error) {
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

// HasBackend returns a condition that holds if a load balancer has a backend.
func HasBackend(backend string) func(LoadBalancerRow) bool {
	return func(row LoadBalancerRow) bool {
		for _, backends := range row.VIPs {
			if strings.Contains(backends, backend) {
				return true
			}
		}
		return false
	}
}

// HasNoVIP is a condition that holds if a load balancer has no VIP.
func HasNoVIP(row LoadBalancerRow) bool { return len(row.VIPs) == 0 }
