package cli

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/sallyport/sallyport/internal/insight/collector"
	"github.com/sallyport/sallyport/internal/insight/usage"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/humanize"
)

// topOptions holds the flags of top.
type topOptions struct {
	clusterAccess
	outputFlags
	skipNodes bool
	watch     bool
	interval  time.Duration
}

// maxShownAddresses limits the addresses that are shown when pools and nodes are shown too.
const maxShownAddresses = 15

func topCommand() *cobra.Command {
	var o topOptions
	cmd := &cobra.Command{
		Use:   "top [addresses|pools|nodes]",
		Short: "Show the usage of address pools, addresses and nodes",
		Long: `Show the usage of the external networks, most used first.

pools      used and free addresses, and the projects that use them
addresses  connections of each address, and the number of its source ports in use
           towards its busiest destination; if all ports are in use, no new
           connections to that destination are possible
nodes      router ports and egress addresses on each node

The agents of the nodes that hold an address count its connections. Without an
agent, the count is shown as a question mark.`,
		Example: `  sallyport top
  sallyport top addresses --watch
  sallyport top pools -o json`,
		Args:      cobra.MatchAll(cobra.MaximumNArgs(1), checkTable),
		ValidArgs: usage.Tables,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.watch {
				return o.watchRepeatedly(cmd, o.interval, o.surveyScope(), func(s *clusterstate.State) error {
					return o.printUsage(cmd, s, args)
				})
			}
			return o.showOnce(cmd, args)
		},
	}
	o.addFlags(cmd)
	o.addFlag(cmd)
	f := cmd.Flags()
	f.BoolVar(&o.skipNodes, "no-nodes", false, "do not query nodes; connections are not counted")
	f.BoolVarP(&o.watch, "watch", "w", false, "refresh until interrupted")
	f.DurationVar(&o.interval, "every", 5*time.Second, "refresh interval of --watch")
	return cmd
}

// checkTable returns an error for a table that does not exist.
func checkTable(_ *cobra.Command, args []string) error {
	for _, arg := range args {
		if !slices.Contains(usage.Tables, arg) {
			return fmt.Errorf("there is no table %s%s", humanize.QuoteName(arg), humanize.SuggestName(arg, usage.Tables))
		}
	}
	return nil
}

func (o *topOptions) surveyScope() collector.Scope {
	if o.skipNodes {
		return collector.Scope{}
	}
	return collector.Scope{PlanInspections: usage.PlanInspections}
}

func (o *topOptions) showOnce(cmd *cobra.Command, chosen []string) error {
	done := showProgress(cmd, "reading the cluster and querying its nodes")
	s, err := o.takeSurvey(cmd.Context(), o.surveyScope())
	done()
	if err != nil {
		return err
	}
	return o.printUsage(cmd, s, chosen)
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
