package cli

import (
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/sallyport/sallyport/internal/insight/collector"
)

func surveyCommand() *cobra.Command {
	var a clusterAccess
	cmd := &cobra.Command{
		Use:   "survey [FILE]",
		Short: "Write a dump of the cluster's state to a file",
		Long: `Write a dump of the cluster's state: its objects, OVN's logical network, and the
differences from the desired state. It contains names, labels, addresses and the
annotations about networks. It contains no Secrets, no contents of ConfigMaps and
no other annotations.

Other commands read the file with --survey and need no access to the cluster.`,
		Example: `  sallyport survey monday.json
  sallyport status --survey monday.json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			done := showProgress(cmd, "reading the cluster")
			s, err := a.takeSurvey(cmd.Context(), collector.Scope{AllShards: true, Sync: true})
			done()
			if err != nil {
				return err
			}
			if len(args) == 0 {
				return s.Write(cmd.OutOrStdout())
			}
			return writePrivateFile(args[0], s.Write)
		},
	}
	a.addFlags(cmd)
	return cmd
}

// writePrivateFile writes a file that only this user can read.
func writePrivateFile(name string, write func(io.Writer) error) error {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600) //nolint:gosec // the file that the user names
	if err != nil {
		return err
	}
	if err := write(file); err != nil {
		_ = file.Close()
		return err
	}
	return file.Close()
}
