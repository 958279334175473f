package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sallyport/sallyport/internal/engine/kube"
	"github.com/sallyport/sallyport/internal/engine/ovn"
	"github.com/sallyport/sallyport/internal/model/ownership"
)

// OpenReadOnly opens a cluster and its northbound database for reading, to compute a plan. It is closed when the
// context ends.
func OpenReadOnly(ctx context.Context, c Config, logger *slog.Logger) (*Reconciler, error) {
	api, err := client.New(c.Kubernetes, client.Options{Scheme: kube.Scheme()})
	if err != nil {
		return nil, fmt.Errorf("connect to Kubernetes: %w", err)
	}
	options := kube.CacheOptions()
	options.Scheme, options.Mapper = kube.Scheme(), api.RESTMapper()
	objects, err := cache.New(c.Kubernetes, options)
	if err != nil {
		return nil, fmt.Errorf("connect to Kubernetes: %w", err)
	}
	cluster, err := kube.NewCluster(ctx, api, objects)
	if err != nil {
		return nil, err
	}
	if err := cluster.Watch(ctx, objects, func(kube.Event) {}); err != nil {
		return nil, err
	}
	go func() { _ = objects.Start(ctx) }() // if it fails, WaitForCacheSync fails too
	if !objects.WaitForCacheSync(ctx) {
		return nil, errors.New("could not read the cluster in time; check that you have the " +
			"ClusterRole sallyport-operator, and that Sallyport's CRDs are installed")
	}
	nb, err := ovn.Dial(ctx, c.Northbound, logger)
	if err != nil {
		return nil, fmt.Errorf("connect to the OVN northbound database: %w", err)
	}
	sb, err := ovn.WatchSouthbound(ctx, c.Southbound, logger, ownership.EgressVpc, func() {})
	if err != nil {
		return nil, fmt.Errorf("read the OVN southbound database: %w", err)
	}
	return &Reconciler{Cluster: cluster, NB: nb, SB: sb, Config: c.Defaults, Clock: time.Now}, nil
}
