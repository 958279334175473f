// Package controller is the wiring of the controller: caches, northbound database, runner and leader election.
package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/sallyport/sallyport/internal/controller/nodehealth"
	"github.com/sallyport/sallyport/internal/controller/runner"
	"github.com/sallyport/sallyport/internal/engine/kube"
	"github.com/sallyport/sallyport/internal/engine/kube/event"
	"github.com/sallyport/sallyport/internal/engine/ovn"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/shard"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// shutdownTimeout is how long a stopping controller waits for running shards.
const shutdownTimeout = 10 * time.Second

// Config holds the operator's settings.
type Config struct {
	Kubernetes *rest.Config
	Northbound ovn.Config
	// Southbound may have no endpoints. Then the controller does not see what OVN does by itself.
	Southbound ovn.Config
	Defaults   snapshot.Config
	Probe      nodehealth.Config // of nodes that may hold egress addresses
	Workers    int
	Version    string // of the program, for sallyport_info

	LeaderElect                   bool
	LeaderElectionNamespace       string
	LeaseDuration                 time.Duration // after which a silent leader is replaced
	MetricsAddress, HealthAddress string
	// MetricsSecure serves metrics over TLS and only to users that the cluster authorizes. MetricsCertDir contains
	// tls.crt and tls.key; if it is empty, a self-signed certificate is generated.
	MetricsSecure  bool
	MetricsCertDir string
	ProfileAddress string // of Go's pprof; 0: no profiles
	RelayAddress   string // of the relay to OVN's databases for commands; 0: no relay
}

// Run runs the controller until the context ends. It returns when running shards have finished.
func Run(ctx context.Context, c Config, logger *slog.Logger) error {
	ctrllog.SetLogger(logr.FromSlogHandler(logger.Handler()))
	mgr, err := manager.New(c.Kubernetes, c.managerOptions())
	if err != nil {
		return fmt.Errorf("connect to Kubernetes: %w", err)
	}
	shards, asks, err := buildReconciler(ctx, mgr, c, logger)
	if err != nil {
		return err
	}
	defer shards.NB.Close()
	defer shards.SB.Close()
	queue := runner.New(shards.ReconcileShard, shards.Metrics.countRun, logger)
	asks.forwardTo(queue.Enqueue)
	shards.Metrics.registerAll(shards, c, queue)
	// Every replica keeps its caches synced; only the leader runs shards.
	if err := mgr.Add(leaderRunnable{queue, c.Workers, &shards.Metrics.leading}); err != nil {
		return err
	}
	if err := mgr.Add(manager.RunnableFunc(shards.Prober.Start)); err != nil {
		return err
	}
	if err := mgr.Add(moveFollower{sb: shards.SB, countWrite: shards.Metrics.countSouthboundWrite, log: logger}); err != nil {
		return err
	}
	if err := errors.Join(c.addHeartbeat(mgr, logger), c.addRelay(ctx, mgr, logger)); err != nil {
		return err
	}
	if err := mgr.AddReadyzCheck("northbound", func(*http.Request) error {
		return checkConnected(shards.NB)
	}); err != nil {
		return err
	}
	if err := mgr.AddHealthzCheck("alive", func(*http.Request) error { return nil }); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// addHeartbeat renews the Lease if there is no leader election and a namespace for the Lease is set.
func (c Config) addHeartbeat(mgr manager.Manager, logger *slog.Logger) error {
	if c.LeaderElect || c.LeaderElectionNamespace == "" {
		return nil
	}
	beat, err := newHeartbeat(c.Kubernetes, c.LeaderElectionNamespace, logger)
	if err != nil {
		return err
	}
	return mgr.Add(beat)
}

// The parts of the lease duration after which a leader that can't renew its Lease gives up, and at which replicas try to
// acquire it. client-go adds up to 120 % to the second.
const (
	renewDeadlineShare = 5. / 6
	retryPeriodShare   = 2. / 15
)

func (c Config) managerOptions() manager.Options {
	wait := shutdownTimeout + 5*time.Second
	renew := time.Duration(renewDeadlineShare * float64(c.LeaseDuration))
	retry := time.Duration(retryPeriodShare * float64(c.LeaseDuration))
	return manager.Options{
		Scheme: kube.Scheme(), Cache: kube.CacheOptions(), Metrics: c.metricsOptions(),
		HealthProbeBindAddress: c.HealthAddress, PprofBindAddress: c.ProfileAddress, GracefulShutdownTimeout: &wait,
		LeaderElection: c.LeaderElect, LeaderElectionID: leaseName, LeaderElectionNamespace: c.LeaderElectionNamespace,
		LeaderElectionReleaseOnCancel: true, LeaseDuration: &c.LeaseDuration, RenewDeadline: &renew, RetryPeriod: &retry,
	}
}

func buildReconciler(ctx context.Context, mgr manager.Manager, c Config, logger *slog.Logger) (*Reconciler,
	*triggerForwarder, error,
) {
	asks := &triggerForwarder{metrics: newControllerMetrics()}
	api, err := client.New(c.Kubernetes,
		client.Options{Scheme: kube.Scheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient()})
	if err != nil {
		return nil, nil, fmt.Errorf("connect to Kubernetes: %w", err)
	}
	cluster, err := kube.NewCluster(ctx, kube.NewCountingClient(api, asks.metrics.countWrite), mgr.GetCache())
	if err != nil {
		return nil, nil, err
	}
	if err := cluster.Watch(ctx, mgr.GetCache(), asks.handleEvent); err != nil {
		return nil, nil, err
	}
	c.Northbound.OnWait = runner.Park
	nb, err := ovn.Dial(ctx, c.Northbound, logger)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to the OVN northbound database: %w", err)
	}
	nb.WatchRouters(asks.routerEventHandler(cluster))
	nb.WatchPodPorts(asks.podPortEventHandler(cluster))
	sb, err := ovn.WatchSouthbound(ctx, c.Southbound, logger, ownership.EgressVpc, func() {
		asks.triggerShard(shard.Egress, sourceSouthbound)
	})
	if err != nil {
		return nil, nil, fmt.Errorf("read the OVN southbound database: %w", err)
	}
	prober := nodehealth.New(c.Probe, func() { asks.triggerShard(shard.Egress, sourceProbe) })
	record := newRecorder(event.New(mgr.GetEventRecorder("sallyport"), mgr.GetScheme(), time.Now))
	return &Reconciler{
		Cluster: cluster, NB: nb, SB: sb, Prober: prober, Config: c.Defaults, Clock: time.Now, Record: record,
		Metrics: asks.metrics, Logger: logger, changes: &asks.changes,
	}, asks, nil
}

func checkConnected(nb *ovn.Client) error {
	if !nb.IsConnected() {
		return errors.New("not connected to the OVN northbound database")
	}
	return nil
}

// newRecorder returns a function that records Events on objects.
func newRecorder(events *event.Recorder) kube.RecordFunc {
	return func(about client.Object, warning bool, reason, message string) {
		if intent.IsTransientReason(reason) {
			return
		}
		kind := "Normal"
		if warning {
			kind = "Warning"
		}
		events.Record(about, kind, reason, "Reconcile", message)
	}
}

// leaderRunnable runs shards while this replica is the leader.
type leaderRunnable struct {
	queue   *runner.Runner
	workers int
	leading *atomic.Bool
}

// Start runs shards until the context ends.
func (l leaderRunnable) Start(ctx context.Context) error {
	l.leading.Store(true)
	defer l.leading.Store(false)
	l.queue.Start(ctx, l.workers, shutdownTimeout)
	return nil
}
