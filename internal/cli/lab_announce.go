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
		Short: "Announce a prefix from a node to the routers of its uplinks by BGP, or withdraw it",
		Long: `Announces a prefix from a node to the routers of its uplinks by BGP, or withdraws it.

Uplinks have BGP if the topology file sets "bgp: true" for them. If the prefix is already announced, it is announced to
the given uplinks and withdrawn from all others. The command does not add an address to the node.`,
		Example: `  sallyport lab announce node1 198.18.10.1/32
  sallyport lab announce node1 198.18.10.1/32 --uplink uplink-b
  sallyport lab announce node1 198.18.10.1/32 --withdraw`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			prefix, err := netip.ParsePrefix(args[1])
			if err != nil {
				return fmt.Errorf("%q is not a prefix, such as 198.18.10.1/32: %w", args[1], err)
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
		"announce only to the router of this uplink; repeatable (default: all uplinks with BGP)")
	cmd.Flags().BoolVar(&withdraw, "withdraw", false, "withdraw the prefix from all uplinks")
	cmd.MarkFlagsMutuallyExclusive("uplink", "withdraw")
	return cmd
}
