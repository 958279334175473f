package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/sallyport/sallyport/internal/observer"
	"github.com/sallyport/sallyport/internal/survey"
	"github.com/sallyport/sallyport/internal/usage"
)

// topping is the flags of top.
type topping struct {
	access
	output
	unasked bool // nodes are not asked
	watch   bool
	every   time.Duration
}

// The most addresses that are shown beside pools and nodes.
const shownAddresses = 15

func topCommand() *cobra.Command {
	var o topping
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
				return o.again(cmd, args)
			}
			return o.once(cmd, args)
		},
	}
	o.access.add(cmd)
	o.output.add(cmd)
	f := cmd.Flags()
	f.BoolVar(&o.unasked, "no-nodes", false, "do not ask nodes; connections are not counted")
	f.BoolVarP(&o.watch, "watch", "w", false, "show it again and again")
	f.DurationVar(&o.every, "every", 5*time.Second, "with --watch: how often")
	return cmd
}

func (o *topping) scope() observer.Scope {
	if o.unasked {
		return observer.Scope{}
	}
	return observer.Scope{Questions: usage.Questions}
}

func (o *topping) once(cmd *cobra.Command, chosen []string) error {
	done := busy(cmd, "reading the cluster and asking nodes")
	s, err := o.survey(cmd.Context(), o.scope())
	done()
	if err != nil {
		return err
	}
	return o.show(cmd, s, chosen)
}

// again shows it until somebody ends it.
func (o *topping) again(cmd *cobra.Command, chosen []string) error {
	ctx := cmd.Context()
	look, err := o.observer(ctx)
	if err != nil {
		return err
	}
	defer look.Close()
	tick := time.NewTicker(o.every)
	defer tick.Stop()
	for {
		bounded, cancel := context.WithTimeout(ctx, o.timeout)
		s := look.Survey(bounded, o.scope())
		cancel()
		if ctx.Err() != nil {
			return nil
		}
		newScreen(cmd.OutOrStdout()).clear()
		if err := o.show(cmd, s, chosen); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (o *topping) show(cmd *cobra.Command, s *survey.Survey, chosen []string) error {
	u := usage.Count(s).Only(chosen...)
	return o.print(cmd, u, func(w io.Writer, i ink) error {
		for _, x := range s.Unread {
			fmt.Fprintf(w, "%s %s: %s\n", i.red("not read:"), x.System, x.Problem)
		}
		most := 0
		if len(chosen) == 0 {
			most = shownAddresses
		}
		return u.Print(w, most)
	})
}
