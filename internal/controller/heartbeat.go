package controller

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
)

// leaseName is the Lease of the controller: of the leader, or of the only replica.
const leaseName = "sallyport-controller"

// How long the Lease is valid, and how often it is renewed: as often as a leader renews it.
const (
	leaseDuration = 8 * time.Second
	renewInterval = 2 * time.Second
)

// heartbeat renews the controller's Lease when there is no leader election, so that the Lease always shows whether the
// controller runs. It decides nothing: it takes over the Lease of another holder.
type heartbeat struct {
	leases coordination.LeaseInterface
	holder string
	log    *slog.Logger
}

func newHeartbeat(config *rest.Config, namespace string, logger *slog.Logger) (*heartbeat, error) {
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect to Kubernetes: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("read the host name: %w", err)
	}
	return &heartbeat{
		leases: api.CoordinationV1().Leases(namespace),
		holder: fmt.Sprintf("%s_%d", host, os.Getpid()),
		log:    logger,
	}, nil
}

// Start renews the Lease until the context ends, then releases it.
func (h *heartbeat) Start(ctx context.Context) error {
	tick := time.NewTicker(renewInterval)
	defer tick.Stop()
	for {
		if err := h.renewLease(ctx, h.holder); err != nil && ctx.Err() == nil {
			h.log.Warn("failed to renew the Lease", "error", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			return h.renewLease(last, "")
		}
	}
}

// renewLease writes the holder of the Lease.
func (h *heartbeat) renewLease(ctx context.Context, holder string) error {
	ctx, cancel := context.WithTimeout(ctx, renewInterval)
	defer cancel()
	now, lasts := metav1.NowMicro(), int32(leaseDuration/time.Second)
	spec := coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &lasts, RenewTime: &now}
	lease, err := h.leases.Get(ctx, leaseName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = h.leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: leaseName}, Spec: spec},
			metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	lease.Spec = spec
	_, err = h.leases.Update(ctx, lease, metav1.UpdateOptions{})
	return err
}
