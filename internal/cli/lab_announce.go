package cli

import (
	"fmt"
	"net/netip"

	"github.com/spf13/cobra"
)

func labAnnounceCommand(flags *labFlags) *cobra.Command {
	var uplinks []string
	var withdraw bool
	cmd := &cobra.Command{
		Use:   "announce NODE PREFIX",
		Short: "Let a node announce an address to the routers of its uplinks by BGP, or withdraw it",
		Long: `Lets a node announce an address to the routers of its uplinks by BGP, or withdraw it.

Uplinks have BGP when the topology file says "bgp: true" for them. Announced again, the address goes to the uplinks that
are named now and is withdrawn from the others. The node gets no address by this: that is for you to add.`,
		Example: `  sallyport lab announce node1 198.18.10.1/32
  sallyport lab announce node1 198.18.10.1/32 --uplink uplink-b
  sallyport lab announce node1 198.18.10.1/32 --withdraw`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			prefix, err := netip.ParsePrefix(args[1])
			if err != nil {
				return fmt.Errorf("%q is no prefix, such as 198.18.10.1/32: %w", args[1], err)
			}
			l, err := flags.openLab()
			if err != nil {
				return err
			}
			if withdraw {
				return l.Withdraw(cmd.Context(), args[0], prefix)
			}
			return l.Announce(cmd.Context(), args[0], prefix, uplinks...)
		},
	}
	cmd.Flags().StringSliceVar(&uplinks, "uplink", nil,
		"announce to the router of this uplink only; may be given several times (default all with BGP)")
	cmd.Flags().BoolVar(&withdraw, "withdraw", false, "announce it no longer, by any uplink")
	cmd.MarkFlagsMutuallyExclusive("uplink", "withdraw")
	return cmd
}
