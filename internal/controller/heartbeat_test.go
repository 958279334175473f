package controller

import (
	"context"
	"log/slog"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// The Lease exists while the controller runs, is renewed by the running controller, and is released when it stops.
func TestHeartbeat(t *testing.T) {
	leases := fake.NewClientset().CoordinationV1().Leases("kube-system")
	for _, holder := range []string{"first", "second"} {
		ctx, end := context.WithCancel(t.Context())
		h := &heartbeat{leases: leases, holder: holder, log: slog.New(slog.DiscardHandler)}
		if err := h.renewLease(ctx, h.holder); err != nil {
			t.Fatal(err)
		}
		lease, err := leases.Get(ctx, leaseName, metav1.GetOptions{})
		if err != nil || *lease.Spec.HolderIdentity != holder || time.Since(lease.Spec.RenewTime.Time) > time.Minute {
			t.Fatalf("the lease is %+v: %v", lease, err)
		}
		end()
		if err := h.Start(ctx); err != nil {
			t.Fatal(err)
		}
		if lease, err = leases.Get(t.Context(), leaseName, metav1.GetOptions{}); err != nil ||
			*lease.Spec.HolderIdentity != "" {
			t.Fatalf("after the end the lease is %+v: %v", lease, err)
		}
	}
}
