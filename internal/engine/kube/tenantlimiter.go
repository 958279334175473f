package kube

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/util/flowcontrol"
)

// Requests per second to the API server, and how many may be sent at once after a pause: for each tenant, and for
// everything that belongs to no tenant, such as watches and the Lease. There is no limit for all together: the runner's
// workers, each with maxParallelWrites, limit how many requests are under way, and the API server has priority and
// fairness.
const (
	tenantQPS   = 100
	tenantBurst = 200
	ownQPS      = 200
	ownBurst    = 400
)

// minTenantSweep is the smallest number of tenants at which idle ones are dropped.
const minTenantSweep = 1024

type tenantContextKey struct{}

// WithTenant returns a context whose requests count for a tenant.
func WithTenant(ctx context.Context, tenant string) context.Context {
	return context.WithValue(ctx, tenantContextKey{}, tenant)
}

// TenantLimiter limits the requests of each tenant separately, so that one with many does not delay the others.
type TenantLimiter struct {
	mu      sync.Mutex
	buckets map[string]*tenantBucket
	sweepAt int
}

type tenantBucket struct {
	flowcontrol.RateLimiter
	lastUse time.Time
	waiting int // requests that wait for a token
}

// NewTenantLimiter returns a limiter for the client configuration.
func NewTenantLimiter() *TenantLimiter {
	return &TenantLimiter{buckets: map[string]*tenantBucket{}, sweepAt: minTenantSweep}
}

// Wait waits until the tenant of the context may send a request.
func (l *TenantLimiter) Wait(ctx context.Context) error {
	tenant, _ := ctx.Value(tenantContextKey{}).(string)
	b := l.enter(tenant, time.Now())
	defer l.leave(b)
	return b.Wait(ctx)
}

// enter returns the bucket of a tenant, and drops those of tenants that have been idle for so long that they are full.
func (l *TenantLimiter) enter(tenant string, now time.Time) *tenantBucket {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.buckets[tenant]
	if b == nil {
		qps, burst := float32(tenantQPS), tenantBurst
		if tenant == "" {
			qps, burst = ownQPS, ownBurst
		}
		b = &tenantBucket{RateLimiter: flowcontrol.NewTokenBucketRateLimiter(qps, burst)}
		l.buckets[tenant] = b
	}
	b.lastUse = now
	b.waiting++
	if len(l.buckets) >= l.sweepAt {
		for name, other := range l.buckets {
			if other.waiting == 0 && now.Sub(other.lastUse) > tenantBurst/tenantQPS*time.Second {
				delete(l.buckets, name)
			}
		}
		l.sweepAt = max(minTenantSweep, 2*len(l.buckets))
	}
	return b
}

func (l *TenantLimiter) leave(b *tenantBucket) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b.waiting--
	b.lastUse = time.Now()
}

// TryAccept reports whether a request that belongs to no tenant may be sent now.
func (l *TenantLimiter) TryAccept() bool {
	b := l.enter("", time.Now())
	defer l.leave(b)
	return b.TryAccept()
}

// Accept waits until a request that belongs to no tenant may be sent.
func (l *TenantLimiter) Accept() { _ = l.Wait(context.Background()) } // without a deadline it does not fail

// Stop does nothing: there is nothing to stop.
func (l *TenantLimiter) Stop() {}

// QPS returns the rate of a tenant.
func (l *TenantLimiter) QPS() float32 { return tenantQPS }
