package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sallyport/sallyport/internal/lab/daemon"
	"github.com/sallyport/sallyport/internal/lab/parts"
)

// labReplaceCommand returns the command that upgrades OVN in a running lab.
func labReplaceCommand(flags *labFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "replace-ovn " + daemon.Central + "|NODE...",
		Short: "Replace the programs of OVN by those of another version, as an upgrade does",
		Long: `Replaces the programs of OVN in a running lab. "central" is the databases, which
are converted to the new schemas, and northd; it comes first. The nodes then
keep their flows and ignore what northd writes, until their ovn-controller is
replaced too (ovn-match-northd-version). Open vSwitch is not replaced: its
datapath in user space would forget all connections.

The programs are fetched from Debian if they are not in the cache.`,
		Example: "  sallyport lab replace-ovn central node1 node2 node3",
		Args:    cobra.MinimumNArgs(1), ValidArgsFunction: completeFirstArg(flags.completeTargets),
	}
	version := cmd.Flags().String("to", parts.NextOVNVersion, "version, one of "+strings.Join(parts.OVNVersions(), ", "))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		l, err := flags.openLab()
		if err != nil {
			return err
		}
		report := func(line string) { fmt.Fprintln(cmd.ErrOrStderr(), line) }
		for _, target := range args {
			if err := l.ReplaceOVN(cmd.Context(), target, *version, report); err != nil {
				return err
			}
		}
		return nil
	}
	return cmd
}
