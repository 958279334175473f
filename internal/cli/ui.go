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
		Short: "Show the cluster as a web page on this machine: map, search, explanations, traces",
		Long: `Show the cluster as a web page: a live map of projects and networks, search by
address or name, what is wrong with its cure, and the way of a packet there and
back. The page is only read, and loads nothing from anywhere else.

Surveys are taken while somebody looks. The server listens on loopback. The
address that it prints has a token, which the browser keeps as a cookie: who has
not seen it can't read the page, and who has can, until the server ends.`,
		Example: `  sallyport ui                              on a free port; it prints the address
  sallyport ui --address 127.0.0.1:8080     always the same, so that links work after a restart
  sallyport ui --survey monday.json         a survey that was taken before`,
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
			fmt.Fprintf(cmd.OutOrStdout(), "%s (Ctrl+C ends it)\n", ui.URL(l, config.Token))
			return ui.Serve(cmd.Context(), l, config, remote)
		},
	}
	a.addFlags(cmd)
	cmd.Flags().StringVar(&address, "address", "127.0.0.1:0", "where to listen; port 0: a free one")
	cmd.Flags().BoolVar(&remote, "allow-remote", false, "listen on an address that others can reach, too")
	cmd.Flags().DurationVar(&every, "every", 5*time.Second, "how long to wait between surveys")
	return cmd
}

// configureUI fills in where the page's surveys come from: the cluster, or a file. The returned function ends it.
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
