// Command sallyport-controller is the controller: it compiles Projects, EIps, FIps and other objects to Kube-OVN
// objects and OVN rows, and reconciles them.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"github.com/sallyport/sallyport/internal/controller"
	"github.com/sallyport/sallyport/internal/controller/nodehealth"
	"github.com/sallyport/sallyport/internal/engine/kube"
	"github.com/sallyport/sallyport/internal/engine/mtls"
)

// version is set by the build.
var version = "unknown"

// When the garbage collector starts, unless GOGC is set: the heap has grown by gcPercent of the live heap and of
// heapReserve. Every change of a project compiles it anew, so nearly all allocations are short-lived. In a small
// cluster the reserve makes collections rare; in a large one the memory is mostly the live heap.
const (
	gcPercent   = 50
	heapReserve = 64 << 20
)

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
		// counted by the garbage collector, but never touched, so the kernel has no memory for it
		defer runtime.KeepAlive(make([]byte, heapReserve))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := newRootCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "sallyport-controller:", err)
		os.Exit(1)
	}
}

func newRootCommand() *cobra.Command {
	c := controller.Config{Version: version}
	var kubeconfig, level string
	var asking probeFlags
	cmd := &cobra.Command{
		Use:   "sallyport-controller --nb-address ssl:HOST:6641 --nb-cert F --nb-key F --nb-ca F",
		Short: "Provide external addresses for Kube-OVN projects",
		Long: `Provide external addresses for Kube-OVN projects.

The controller reads Projects, EIps, FIps, EgressIPs, EgressServices,
EgressRoutes and Services of type LoadBalancer, writes Kube-OVN objects and OVN
rows for them, and reports the observed state in their status. Several replicas
may run: one is the leader, the others keep their caches synced.

On SIGTERM the controller finishes running writes, releases the Lease and exits.`,
		Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true, Version: version,
		RunE: func(cmd *cobra.Command, _ []string) error {
			logger, err := newLogger(level)
			if err != nil {
				return err
			}
			if c.Kubernetes, err = kubernetesConfig(kubeconfig); err != nil {
				return err
			}
			if err := nodehealth.ApplyConfigFile(asking.configFile, cmd.Flags()); err != nil {
				return err
			}
			if err := asking.applyTo(&c.Probe); err != nil {
				return err
			}
			c.ShareCertificates()
			logger.Info("the controller starts and connects to the API server", "version", version, "server", c.Kubernetes.Host)
			return controller.Run(cmd.Context(), c, logger)
		},
	}
	f := cmd.Flags()
	f.StringVar(&kubeconfig, "kubeconfig", "",
		"kubeconfig file (default: $KUBECONFIG, or the service account of the pod)")
	c.AddFlags(f)
	addRunFlags(f, &c)
	f.BoolVar(&c.LeaderElect, "leader-elect", true, "elect a leader among the replicas")
	f.DurationVar(&c.LeaseDuration, "leader-elect-lease-duration", 3*time.Second,
		"time after which another replica replaces a leader that does not renew its Lease; "+
			"a leader that can't renew it for five sixths of this time exits")
	f.StringVar(&c.LeaderElectionNamespace, "leader-election-namespace", "",
		"namespace of the Lease, which is renewed even without leader election (default: the namespace of the pod)")
	f.StringVar(&c.MetricsAddress, "metrics-address", ":8080",
		"address to serve Prometheus metrics on; 0: do not serve them")
	f.BoolVar(&c.MetricsSecure, "metrics-secure", false,
		"serve metrics over TLS, and only to bearer tokens of users who may get /metrics (nonResourceURLs)")
	f.StringVar(&c.MetricsCertDir, "metrics-cert-dir", "",
		"directory with tls.crt and tls.key for --metrics-secure (default: a self-signed certificate)")
	f.StringVar(&c.HealthAddress, "health-address", ":8081",
		"address to serve /healthz and /readyz on; 0: do not serve them")
	f.StringVar(&c.ProfileAddress, "pprof-address", "0",
		"address to serve profiles of Go's pprof on, without authentication, such as 127.0.0.1:6060; 0: do not serve them")
	asking.addFlags(f, &c.Probe)
	f.StringVar(&level, "log-level", "info", "log level: debug, info, warn or error")
	return cmd
}

// addRunFlags adds the flags that decide how shards run, and the one of the relay.
func addRunFlags(f *pflag.FlagSet, c *controller.Config) {
	f.StringVar(&c.RelayAddress, "relay-address", "0",
		"address to serve the read-only relay to OVN's databases for sallyport's commands on, without TLS: a loopback "+
			"address, which port-forward reaches, such as 127.0.0.1:8082; 0: do not serve it")
	f.IntVar(&c.Workers, "workers", 8, "number of shards (projects) to run in parallel")
	f.DurationVar(&c.Northbound.RecomputeInterval, "northd-recompute-interval", 0,
		"minimum time between two transactions after which ovn-northd computes everything again; such changes of all "+
			"VPCs are collected, except for the nodes of gateways; 0: write them at once")
}

// probeFlags are the flags of the node health check.
type probeFlags struct {
	configFile     string
	timeoutSeconds int
	tlsFiles       mtls.Files
}

func (r *probeFlags) addFlags(f *pflag.FlagSet, c *nodehealth.Config) {
	nodehealth.AddConfigFileFlag(f, &r.configFile)
	f.IntVar(&r.timeoutSeconds, "egressip-reachability-total-timeout", 1,
		"seconds without an answer to health checks after which a node counts as dead and loses its egress addresses; "+
			"0: no health checks")
	f.DurationVar(&c.Period, "egressip-reachability-period", time.Second, "interval between health checks of a node")
	f.IntVar(&c.Port, "egressip-node-healthcheck-port", 0,
		"gRPC port of sallyport-agent on nodes; 0: probe the kernel of the node, on TCP port 9")
	f.StringVar(&r.tlsFiles.Cert, "egressip-healthcheck-cert", "",
		"file with the client certificate for sallyport-agent; if empty, no TLS")
	f.StringVar(&r.tlsFiles.Key, "egressip-healthcheck-key", "", "file with the key of the client certificate")
	f.StringVar(&r.tlsFiles.CA, "egressip-healthcheck-ca", "",
		"file with the CA certificate of the agents' certificates")
	f.StringVar(&r.tlsFiles.PeerName, "egressip-healthcheck-peer", nodehealth.AgentName,
		"DNS name that the agents' certificates must have; if empty, any certificate of the CA is accepted")
}

func (r *probeFlags) applyTo(c *nodehealth.Config) (err error) {
	c.Timeout = time.Duration(r.timeoutSeconds) * time.Second
	if c.Period <= 0 {
		return fmt.Errorf("--egressip-reachability-period %s: use a duration greater than zero", c.Period)
	}
	if r.tlsFiles.IsConfigured() {
		c.CertificateFiles = []string{r.tlsFiles.Cert, r.tlsFiles.CA}
		if c.TLS, err = r.tlsFiles.ClientConfig(); err != nil {
			return fmt.Errorf("TLS for sallyport-agent: %w", err)
		}
	}
	return nil
}

func newLogger(level string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("--log-level %q: use debug, info, warn or error", level)
	}
	return slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: l})), nil
}

func kubernetesConfig(kubeconfig string) (*rest.Config, error) {
	config, err := kube.LoadConfig(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("load the Kubernetes configuration: %w; set --kubeconfig, or run in a pod", err)
	}
	config.RateLimiter = kube.NewTenantLimiter()
	config.UserAgent = "sallyport-controller/" + version
	return config, nil
}
