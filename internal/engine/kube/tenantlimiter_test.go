package kube

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/util/flowcontrol"
)

// measureVictim returns how long a request of one tenant waits while another has sent many.
func measureVictim(t *testing.T, l flowcontrol.RateLimiter) (waited time.Duration, flooded int32) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var sent atomic.Int32
		ctx, cancel := context.WithCancel(t.Context())
		for range 5000 {
			go func() {
				if l.Wait(WithTenant(ctx, "flood")) == nil {
					sent.Add(1)
				}
			}()
		}
		synctest.Wait()
		<-time.After(time.Second)
		begun := time.Now()
		for range 10 {
			if err := l.Wait(WithTenant(t.Context(), "victim")); err != nil {
				t.Fatal(err)
			}
		}
		waited, flooded = time.Since(begun), sent.Load()
		cancel()
		synctest.Wait()
	})
	return waited, flooded
}

// The requests of one tenant do not delay those of another. With a limit for all, they do.
func TestTenantsAreLimitedSeparately(t *testing.T) {
	waited, flooded := measureVictim(t, NewTenantLimiter())
	if waited > 0 {
		t.Errorf("another tenant waited for %s", waited)
	}
	if flooded < tenantBurst || flooded > tenantBurst+tenantQPS+1 {
		t.Errorf("a tenant sent %d requests in a second", flooded)
	}
	if shared, _ := measureVictim(t, flowcontrol.NewTokenBucketRateLimiter(ownQPS, ownBurst)); shared < 10*time.Second {
		t.Errorf("with a limit for all, another tenant waited for %s only", shared)
	}
}

// Tenants come and go: those that are idle use no memory.
func TestTenantLimitsAreForgotten(t *testing.T) {
	l, now := NewTenantLimiter(), time.Now()
	busy := l.enter("busy", now)
	for i := range 20 * minTenantSweep {
		b := l.enter(fmt.Sprint("tenant-", i), now.Add(time.Duration(i)*time.Second))
		b.waiting--
	}
	if len(l.buckets) > minTenantSweep {
		t.Errorf("%d tenants are remembered", len(l.buckets))
	}
	if l.buckets["busy"] != busy {
		t.Error("a tenant whose requests wait was forgotten")
	}
}
