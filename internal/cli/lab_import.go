package cli

import (
	"path/filepath"

	"github.com/spf13/cobra"
)

func labImportCommand(flags *labFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "import FILE",
		Short: "Import a container image into the containerd of every real node",
		Long: `Imports a container image from an archive (OCI layout or docker save) into the
containerd of every real node that runs. Pods use it with imagePullPolicy
IfNotPresent or Never. Nodes that were killed do not get it.`,
		Example: `  sallyport lab import bin/sallyport-image.tar`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			file, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			l, err := flags.openLab()
			if err != nil {
				return err
			}
			return l.ImportImage(cmd.Context(), file)
		},
	}
}
