// Command sallyport-agent is the node agent: it applies the NodePath of its node, answers Inspections and answers the
// controller's health checks.
package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/sallyport/sallyport/internal/agent"
	"github.com/sallyport/sallyport/internal/controller/nodehealth"
	"github.com/sallyport/sallyport/internal/engine/kernel"
	"github.com/sallyport/sallyport/internal/engine/kube"
	"github.com/sallyport/sallyport/internal/engine/mtls"
	"github.com/sallyport/sallyport/internal/model/nodepath"
	"github.com/sallyport/sallyport/internal/model/state"
)

// version is set by the build.
var version = "unknown"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := newRootCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// options holds the operator's settings.
type options struct {
	kubeconfig    string
	agent         agent.Config
	healthPort    int
	healthAddress string
	tlsFiles      mtls.Files
}

func newRootCommand() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use: "sallyport-agent", Short: "Do on a node what Sallyport has to do there", Version: version,
		Args: cobra.NoArgs,
		Long: `Carries out the NodePath of this node: rules, routes, nftables and settings by which what came in by an external network
leaves by it. When it ends, they stay; "sallyport-agent clean" takes them away. Needs CAP_NET_ADMIN and the program nft.

Answers Inspections, which ask this node about itself: interfaces and settings, who has an address on a wire (needs CAP_NET_RAW), where the kernel
sends a packet, and what Open vSwitch and ovn-controller say (with their sockets; CAP_DAC_OVERRIDE where those run as another user).

Answers the controller's questions whether this node is there (gRPC, grpc.health.v1, service ` + nodehealth.HealthService + `). Give the
controller the same --egressip-node-healthcheck-port and, for TLS, certificates of the same authority, for the DNS names ` + nodehealth.AgentName + ` and
` + nodehealth.ControllerName + `. Certificates that are renewed are read again without a restart.`,
		SilenceUsage: true, SilenceErrors: true, CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		RunE: func(cmd *cobra.Command, _ []string) error { return o.runAgent(cmd.Context()) },
	}
	f := cmd.Flags()
	f.StringVar(&o.agent.Node, "node", os.Getenv("NODE_NAME"),
		"name of this node; empty: $NODE_NAME, and without that it only answers the controller")
	f.StringVar(&o.kubeconfig, "kubeconfig", "",
		"kubeconfig file; empty: $KUBECONFIG, or the pod's own service account")
	f.BoolVar(&o.agent.NodePaths, "node-paths", true, "carry out the NodePath of this node")
	f.BoolVar(&o.agent.Inspections, "inspections", true, "answer Inspections of this node")
	f.StringVar(&o.agent.SwitchDir, "openvswitch-dir", "",
		"where Open vSwitch has its sockets on this node, such as /run/openvswitch; empty: it is not asked")
	f.StringVar(&o.agent.ControllerDir, "ovn-dir", "",
		"where ovn-controller has its socket, such as /run/ovn; empty: it is not asked")
	f.IntVar(&o.healthPort, "egressip-node-healthcheck-port", 0,
		"where to answer, the same as the controller's; 0: nowhere")
	f.StringVar(&o.healthAddress, "bind-address", "", "which of the node's addresses to answer on; empty: all")
	f.StringVar(&o.tlsFiles.Cert, "egressip-healthcheck-cert", "", "our certificate, for TLS; empty: without")
	f.StringVar(&o.tlsFiles.Key, "egressip-healthcheck-key", "", "its key")
	f.StringVar(&o.tlsFiles.CA, "egressip-healthcheck-ca", "",
		"certificate of the authority that the controller's certificate is of")
	f.StringVar(&o.tlsFiles.PeerName, "egressip-healthcheck-peer", nodehealth.ControllerName,
		"DNS name that the controller's certificate must have; empty: any certificate of the authority is taken for the controller's")
	cmd.PersistentFlags().StringVar(&o.agent.StateDir, "state-dir", "/run/sallyport-agent",
		"where settings are written down that were there before us")
	cmd.PersistentFlags().StringVar(&o.agent.SysctlRoot, "sysctl-root", kernel.SysctlRoot,
		"where the node's kernel settings can be written; in a container, a mount of the node's /proc/sys at another place")
	cmd.AddCommand(newCleanCommand(&o))
	return cmd
}

// newCleanCommand returns the command that removes everything of ours from the node.
func newCleanCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use: "clean", Short: "Take away everything that the agent has written on this node, and put settings back",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			carrier, err := agent.NewApplier(o.agent.StateDir, o.agent.SysctlRoot)
			if err != nil {
				return err
			}
			defer carrier.Close()
			report, err := carrier.Apply(cmd.Context(), nodepath.Spec{})
			if err != nil {
				return err
			}
			for _, line := range report.Changes {
				fmt.Fprintln(cmd.OutOrStdout(), line)
			}
			return state.JoinFailures(report.Failures)
		},
	}
}

func (o *options) runAgent(ctx context.Context) error {
	if o.healthPort == 0 && o.agent.Node == "" {
		return errors.New("there is nothing to do: give --node, --egressip-node-healthcheck-port or both")
	}
	group, ctx := errgroup.WithContext(ctx)
	if o.agent.Node != "" {
		var err error
		if o.agent.Kubernetes, err = kube.LoadConfig(o.kubeconfig); err != nil {
			return fmt.Errorf("%w; give --kubeconfig, or run in a pod with a service account", err)
		}
		group.Go(func() error { return agent.Run(ctx, o.agent, slog.Default()) })
	}
	if o.healthPort != 0 {
		group.Go(func() error {
			return serveHealthCheck(ctx, net.JoinHostPort(o.healthAddress, strconv.Itoa(o.healthPort)), o.tlsFiles)
		})
	}
	return group.Wait()
}

func serveHealthCheck(ctx context.Context, address string, files mtls.Files) error {
	var secrets *tls.Config
	if files.IsConfigured() {
		var err error
		if secrets, err = files.ServerConfig(); err != nil {
			return err
		}
	}
	on, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	slog.Info("answers for this node", "address", on.Addr().String(), "tls", secrets != nil)
	return nodehealth.Serve(ctx, on, secrets)
}
