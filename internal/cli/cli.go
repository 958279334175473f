// Package cli is the command line: flags in, calls out, text for people.
package cli

import (
	"errors"
	"os/exec"

	"github.com/spf13/cobra"
)

// New is the sallyport command.
func New(version string) *cobra.Command {
	root := &cobra.Command{
		Use:   "sallyport",
		Short: "The gate between a Kubernetes cluster on OVN and the outside world",
		Long: "Sallyport gives tenants external addresses, floating IPs, load balancers and stable egress on any number of external\n" +
			"networks; replies leave by the network the connection came in on.",
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(labCommand(), planCommand(), statusCommand(), surveyCommand(), mapCommand())
	return root
}

// ExitCode is what the program ends with for err: that of the program it ran, if it ran one.
func ExitCode(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() > 0 {
		return exit.ExitCode()
	}
	return 1
}
