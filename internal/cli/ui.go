package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/sallyport/sallyport/internal/insight/collector"
	"github.com/sallyport/sallyport/internal/insight/ui"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
)

func uiCommand(version string) *cobra.Command {
	var a clusterAccess
	var address string
	var remote bool
	var every time.Duration
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "Serve a web page on this machine: map, search, explanations, traces",
		Long: `Serve the cluster as a web page: a live map of projects and networks, search by
address or name, findings with their remedies, and the path of a packet and its
reply. The page is read-only and loads nothing from other servers.

The cluster is polled only while a browser has the page open. The server listens on
loopback. The URL that it prints contains a token, which the browser stores as a
cookie. Everyone with this URL can read the page until the server stops; nobody
else can.`,
		Example: `  sallyport ui                              # on a free port; prints the URL
  sallyport ui --address 127.0.0.1:8080     # fixed port: links survive a restart
  sallyport ui --survey monday.json         # from a survey file`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config := ui.Config{Version: version, Interval: every, Token: ui.NewToken()}
			end, err := a.configureUI(cmd.Context(), &config)
			if err != nil {
				return err
			}
			defer end()
			l, err := ui.Listen(address, remote)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s (stop with Ctrl+C)\n", ui.URL(l, config.Token))
			return ui.Serve(cmd.Context(), l, config, remote)
		},
	}
	a.addFlags(cmd)
	cmd.Flags().StringVar(&address, "address", "127.0.0.1:0", "address to listen on; port 0 selects a free port")
	cmd.Flags().BoolVar(&remote, "allow-remote", false,
		"allow --address to be an address that other machines can reach")
	cmd.Flags().DurationVar(&every, "every", 5*time.Second, "interval between reads of the cluster")
	return cmd
}

// configureUI sets the source of the page's surveys: the cluster, or the survey file. The returned function closes it.
func (a *clusterAccess) configureUI(ctx context.Context, config *ui.Config) (end func(), err error) {
	if a.surveyPath != "" {
		s, err := a.readSurveyFile()
		config.Interval, config.TakeSurvey = 0, func(context.Context) *clusterstate.State { return s }
		return func() {}, err
	}
	limited, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	o, err := a.openObserver(limited)
	if err != nil {
		return nil, err
	}
	config.TakeSurvey = func(ctx context.Context) *clusterstate.State {
		ctx, cancel := context.WithTimeout(ctx, a.timeout)
		defer cancel()
		return o.Collect(ctx, collector.Scope{})
	}
	config.CompareShards = func(ctx context.Context, names []string) ([]clusterstate.Shard, error) {
		return o.CollectShards(ctx, collector.Scope{Shards: names, AllShards: names == nil})
	}
	return o.Close, nil
}
