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
		Short: "Write everything that the other commands look at to a file, for later",
		Long: `Write a survey of the cluster: its objects, OVN's logical network, and how it
differs from what is asked for. Secrets and the contents of ConfigMaps are not
in it, and of annotations only those about networks; names, labels and addresses
are.

Other commands take it with --survey, without the cluster.`,
		Example: `  sallyport survey monday.json
  sallyport status --survey monday.json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			done := showProgress(cmd, "taking a survey")
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

// writePrivateFile writes a file, for nobody else to read.
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
