package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/sallyport/sallyport/internal/insight/collector"
	"github.com/sallyport/sallyport/internal/insight/usage"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
)

// topOptions is the flags of top.
type topOptions struct {
	clusterAccess
	outputFlags
	skipNodes bool // nodes are not asked
	watch     bool
	interval  time.Duration
}

// The most addresses that are shown beside pools and nodes.
const maxShownAddresses = 15

func topCommand() *cobra.Command {
	var o topOptions
	cmd := &cobra.Command{
		Use:   "top [addresses|pools|nodes]",
		Short: "Show who uses how much: addresses of pools, connections and ports of addresses, nodes",
		Long: `Show who uses how much of the external networks, the most used first.

pools      how many addresses are used and free, and which projects have them
addresses  how many connections use each address, and how many of its ports are
           in use to the destination that most are in use to: when all are, no
           more connections can be made to it
nodes      how many router ports and which egress addresses each node holds

Connections are counted by the agents of the nodes that hold an address; where
there is none, there is a question mark.`,
		Example: `  sallyport top
  sallyport top addresses --watch
  sallyport top pools -o json`,
		Args:      cobra.MatchAll(cobra.MaximumNArgs(1), cobra.OnlyValidArgs),
		ValidArgs: usage.Tables,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.watch {
				return o.showRepeatedly(cmd, args)
			}
			return o.showOnce(cmd, args)
		},
	}
	o.addFlags(cmd)
	o.addFlag(cmd)
	f := cmd.Flags()
	f.BoolVar(&o.skipNodes, "no-nodes", false, "do not ask nodes; connections are not counted")
	f.BoolVarP(&o.watch, "watch", "w", false, "show it again and again")
	f.DurationVar(&o.interval, "every", 5*time.Second, "with --watch: how often")
	return cmd
}

func (o *topOptions) surveyScope() collector.Scope {
	if o.skipNodes {
		return collector.Scope{}
	}
	return collector.Scope{PlanInspections: usage.PlanInspections}
}

func (o *topOptions) showOnce(cmd *cobra.Command, chosen []string) error {
	done := showProgress(cmd, "reading the cluster and asking nodes")
	s, err := o.takeSurvey(cmd.Context(), o.surveyScope())
	done()
	if err != nil {
		return err
	}
	return o.printUsage(cmd, s, chosen)
}

// showRepeatedly shows it until somebody ends it.
func (o *topOptions) showRepeatedly(cmd *cobra.Command, chosen []string) error {
	ctx := cmd.Context()
	look, err := o.openObserver(ctx)
	if err != nil {
		return err
	}
	defer look.Close()
	tick := time.NewTicker(o.interval)
	defer tick.Stop()
	for {
		bounded, cancel := context.WithTimeout(ctx, o.timeout)
		s := look.Collect(bounded, o.surveyScope())
		cancel()
		if ctx.Err() != nil {
			return nil
		}
		newSafeWriter(cmd.OutOrStdout()).clearTerminal()
		if err := o.printUsage(cmd, s, chosen); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (o *topOptions) printUsage(cmd *cobra.Command, s *clusterstate.State, chosen []string) error {
	u := usage.Summarize(s).SelectTables(chosen...)
	return o.printResult(cmd, u, func(w io.Writer, i colorizer) error {
		for _, x := range s.Unread {
			fmt.Fprintf(w, "%s %s: %s\n", i.red("not read:"), x.System, x.Problem)
		}
		most := 0
		if len(chosen) == 0 {
			most = maxShownAddresses
		}
		return u.PrintTables(w, most)
	})
}
