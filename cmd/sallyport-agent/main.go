// Command sallyport-agent is Sallyport on a node. For now it does one thing: it answers that the node is there.
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

	"github.com/sallyport/sallyport/internal/mutual"
	"github.com/sallyport/sallyport/internal/reach"
)

// version is set by the build.
var version = "unknown"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	var port int
	var address string
	var files mutual.Files
	cmd := &cobra.Command{
		Use: "sallyport-agent", Short: "Answer on a node for what Sallyport does there", Version: version, Args: cobra.NoArgs,
		Long: `Answers the controller's questions whether this node is there (gRPC, grpc.health.v1, service ` + reach.Service + `).
Give the controller the same --egressip-node-healthcheck-port and, for TLS, certificates of the same authority.`,
		SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if port == 0 {
				return errors.New("there is nothing to do: give --egressip-node-healthcheck-port")
			}
			return serve(cmd.Context(), net.JoinHostPort(address, strconv.Itoa(port)), files)
		},
	}
	f := cmd.Flags()
	f.IntVar(&port, "egressip-node-healthcheck-port", 0, "where to answer, the same as the controller's")
	f.StringVar(&address, "bind-address", "", "which of the node's addresses to answer on; empty: all")
	f.StringVar(&files.Cert, "egressip-healthcheck-cert", "", "our certificate, for TLS; empty: without")
	f.StringVar(&files.Key, "egressip-healthcheck-key", "", "its key")
	f.StringVar(&files.CA, "egressip-healthcheck-ca", "", "certificate of the authority that the controller's certificate is of")
	return cmd
}

func serve(ctx context.Context, address string, files mutual.Files) error {
	var secrets *tls.Config
	if files.Given() {
		var err error
		if secrets, err = files.Server(); err != nil {
			return err
		}
	}
	on, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	slog.Info("answers for this node", "address", on.Addr().String(), "tls", secrets != nil)
	return reach.Serve(ctx, on, secrets)
}
