// Command sallyport-controller is the controller: it compiles Projects, EIps, FIps and other objects to Kube-OVN
// objects and OVN rows, and reconciles them.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
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

// gcPercent is the default for GOGC: how much the heap may grow before a collection, in percent of the live heap. Every
// change of a project compiles it anew, so nearly all allocations are short-lived; with Go's default of 100, garbage
// collection would be a quarter of the work.
const gcPercent = 200

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
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
		Short: "Make external addresses of Kube-OVN projects answer, and keep them so",
		Long: `Make external addresses of Kube-OVN projects answer, and keep them so.

The controller reads Projects, EIps, FIps, EgressIPs, EgressServices,
EgressRoutes and Services of type LoadBalancer, writes Kube-OVN objects and OVN
rows for them, and reports in their status what is observed. Several replicas
may run: one of them leads, the others have their caches ready.

On SIGTERM it finishes what it is writing, gives up the lead and ends.`,
		Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true, Version: version,
		RunE: func(cmd *cobra.Command, _ []string) error {
			logger, err := newLogger(level)
			if err != nil {
				return err
			}
			if c.Kubernetes, err = kubernetesConfig(kubeconfig); err != nil {
				return err
			}
			if err := asking.applyTo(&c.Probe); err != nil {
				return err
			}
			c.ShareCertificates()
			return controller.Run(cmd.Context(), c, logger)
		},
	}
	f := cmd.Flags()
	f.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig file; empty: $KUBECONFIG, or the pod's own service account")
	c.AddFlags(f)
	f.IntVar(&c.Workers, "workers", 8, "projects that are worked on side by side")
	f.BoolVar(&c.LeaderElect, "leader-elect", true, "let one of several replicas lead")
	f.StringVar(&c.LeaderElectionNamespace, "leader-election-namespace", "",
		"namespace of the lease, which is kept without an election, too; empty: the pod's own")
	f.StringVar(&c.MetricsAddress, "metrics-address", ":8080", "where Prometheus metrics are served; 0: nowhere")
	f.BoolVar(&c.MetricsSecure, "metrics-secure", false,
		"serve metrics by TLS, and only to users that may get /metrics (nonResourceURLs), by their bearer token")
	f.StringVar(&c.MetricsCertDir, "metrics-cert-dir", "",
		"directory with tls.crt and tls.key for that; empty: a certificate that nobody has signed")
	f.StringVar(&c.HealthAddress, "health-address", ":8081", "where /healthz and /readyz are served; 0: nowhere")
	asking.addFlags(f, &c.Probe)
	f.StringVar(&level, "log-level", "info", "debug, info, warn or error")
	return cmd
}

// probeFlags are the flags of the node health check.
type probeFlags struct {
	timeoutSeconds int
	tlsFiles       mtls.Files
}

func (r *probeFlags) addFlags(f *pflag.FlagSet, c *nodehealth.Config) {
	f.IntVar(&r.timeoutSeconds, "egressip-reachability-total-timeout", 1,
		"how many seconds a node that may hold egress addresses may leave questions unanswered; 0: it is not asked")
	f.DurationVar(&c.Period, "egressip-reachability-period", time.Second, "how often such a node is asked")
	f.IntVar(&c.Port, "egressip-node-healthcheck-port", 0,
		"where sallyport-agent answers on nodes, by gRPC; 0: ask their kernels, on port 9")
	f.StringVar(&r.tlsFiles.Cert, "egressip-healthcheck-cert", "",
		"our certificate for sallyport-agent, for TLS; empty: without")
	f.StringVar(&r.tlsFiles.Key, "egressip-healthcheck-key", "", "its key")
	f.StringVar(&r.tlsFiles.CA, "egressip-healthcheck-ca", "",
		"certificate of the authority that the agents' certificates are of")
	f.StringVar(&r.tlsFiles.PeerName, "egressip-healthcheck-peer", nodehealth.AgentName,
		"DNS name that the agents' certificates must have; empty: any certificate of the authority is taken for an agent's")
}

func (r *probeFlags) applyTo(c *nodehealth.Config) (err error) {
	c.Timeout = time.Duration(r.timeoutSeconds) * time.Second
	if c.Period <= 0 {
		return fmt.Errorf("--egressip-reachability-period %s: use a time above zero", c.Period)
	}
	if r.tlsFiles.IsConfigured() {
		c.CertificateFiles = []string{r.tlsFiles.Cert, r.tlsFiles.CA}
		if c.TLS, err = r.tlsFiles.ClientConfig(); err != nil {
			return fmt.Errorf("for sallyport-agent: %w", err)
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
		return nil, fmt.Errorf("find the cluster: %w; give --kubeconfig, or run in a pod", err)
	}
	// These limits cap bursts of one controller, not the load of the cluster: the API server has priority and fairness.
	config.QPS, config.Burst = 200, 400
	config.UserAgent = "sallyport-controller/" + version
	return config, nil
}
