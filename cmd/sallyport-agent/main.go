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
	"github.com/sallyport/sallyport/internal/insight/selftest/peer"
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
	configFile    string
	healthPort    int
	healthAddress string
	tlsFiles      mtls.Files
}

func newRootCommand() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use: "sallyport-agent", Short: "Run Sallyport's agent on a node", Version: version,
		Args: cobra.NoArgs,
		Long: `Run Sallyport's agent on a node. It has three tasks:

It applies the NodePath of this node: ip rules, routes, nftables and sysctls that send replies out through the external
network on which the connection came in. They remain when the agent stops; "sallyport-agent clean" removes them.
This needs CAP_NET_ADMIN and the program nft.

It answers Inspections, which are queries about this node: interfaces and sysctls, the neighbour with an address on a
link (needs CAP_NET_RAW), route lookups, and the state of Open vSwitch and ovn-controller (needs their sockets, and
CAP_DAC_OVERRIDE if they run as another user).

It answers the controller's health checks (gRPC, grpc.health.v1, service ` + nodehealth.HealthService + `). Set the same
--egressip-node-healthcheck-port on the controller. For TLS, both need certificates of the same CA with the DNS names
` + nodehealth.AgentName + ` and ` + nodehealth.ControllerName + `. Renewed certificates are loaded without a restart.`,
		SilenceUsage: true, SilenceErrors: true, CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := nodehealth.ApplyConfigFile(o.configFile, cmd.Flags()); err != nil {
				return err
			}
			return o.runAgent(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.agent.Node, "node", os.Getenv("NODE_NAME"),
		"name of this node (default: $NODE_NAME); if empty, the agent only answers health checks")
	f.StringVar(&o.kubeconfig, "kubeconfig", "",
		"kubeconfig file (default: $KUBECONFIG, or the service account of the pod)")
	f.BoolVar(&o.agent.NodePaths, "node-paths", true, "apply the NodePath of this node")
	f.BoolVar(&o.agent.Inspections, "inspections", true, "answer Inspections of this node")
	f.StringVar(&o.agent.SwitchDir, "openvswitch-dir", "",
		"directory with the sockets of Open vSwitch, such as /run/openvswitch; if empty, it is not queried")
	f.StringVar(&o.agent.ControllerDir, "ovn-dir", "",
		"directory with the socket of ovn-controller, such as /run/ovn; if empty, it is not queried")
	nodehealth.AddConfigFileFlag(f, &o.configFile)
	f.IntVar(&o.healthPort, "egressip-node-healthcheck-port", 0,
		"port for health checks, the same as on the controller; 0: do not serve them")
	f.StringVar(&o.healthAddress, "bind-address", "", "address of the node to serve health checks on (default: all)")
	f.StringVar(&o.tlsFiles.Cert, "egressip-healthcheck-cert", "", "file with the server certificate; if empty, no TLS")
	f.StringVar(&o.tlsFiles.Key, "egressip-healthcheck-key", "", "file with the key of the server certificate")
	f.StringVar(&o.tlsFiles.CA, "egressip-healthcheck-ca", "",
		"file with the CA certificate of the controller's certificate")
	f.StringVar(&o.tlsFiles.PeerName, "egressip-healthcheck-peer", nodehealth.ControllerName,
		"DNS name that the controller's certificate must have; if empty, any certificate of the CA is accepted")
	cmd.PersistentFlags().StringVar(&o.agent.StateDir, "state-dir", "/run/sallyport-agent",
		"directory to store the previous settings of the node in")
	cmd.PersistentFlags().StringVar(&o.agent.SysctlRoot, "sysctl-root", kernel.SysctlRoot,
		"writable /proc/sys of the node; in a container, the node's /proc/sys mounted at another path")
	cmd.PersistentFlags().StringVar(&o.agent.TableNamesDir, "table-names-dir", "",
		"directory in which to name the routing tables for iproute2, such as "+kernel.TableNamesDir+
			"; if empty, they have no names")
	cmd.AddCommand(newCleanCommand(&o), newPeerCommand())
	return cmd
}

// newPeerCommand returns the program of the pods of `sallyport check --run`.
func newPeerCommand() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use: "peer", Short: "Answer HTTP requests, and send some: the pods of sallyport check --run",
		Long: fmt.Sprintf(`Answer HTTP requests on port %d with the name of this pod and the address of the client. Port %d on
loopback requests the URL of its query; "sallyport check --run" reaches it by port-forward. Needs no permissions.`,
			peer.ServerPort, peer.ClientPort),
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return peer.Serve(cmd.Context(), name) },
	}
	cmd.Flags().StringVar(&name, "name", "", "name to answer with")
	return cmd
}

// newCleanCommand returns the command that removes everything that the agent wrote on the node.
func newCleanCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use: "clean", Short: "Remove everything that the agent wrote on this node, and restore sysctls",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			applier, err := agent.NewApplier(o.agent.StateDir, o.agent.SysctlRoot, o.agent.TableNamesDir)
			if err != nil {
				return err
			}
			defer applier.Close()
			report, err := applier.Apply(cmd.Context(), nodepath.Spec{})
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
		return errors.New("nothing to do: set --node, --egressip-node-healthcheck-port or both")
	}
	group, ctx := errgroup.WithContext(ctx)
	if o.agent.Node != "" {
		var err error
		if o.agent.Kubernetes, err = kube.LoadConfig(o.kubeconfig); err != nil {
			return fmt.Errorf("%w; set --kubeconfig, or run in a pod with a service account", err)
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
	slog.Info("serving health checks", "address", on.Addr().String(), "tls", secrets != nil)
	return nodehealth.Serve(ctx, on, secrets)
}
