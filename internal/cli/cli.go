// Package cli is the command line: flags in, calls out, text for people.
package cli

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

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
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: displayName(os.Args[0])},
		PersistentPreRun: func(cmd *cobra.Command, _ []string) {
			root := cmd.Root()
			root.SetOut(newSafeWriter(root.OutOrStdout()))
			root.SetErr(newSafeWriter(root.ErrOrStderr()))
		},
	}
	root.AddCommand(
		labCommand(), planCommand(), statusCommand(), surveyCommand(), mapCommand(), explainCommand(), topCommand(),
		doctorCommand(version), uiCommand(version),
		traceCommand(),
	)
	return root
}

// displayName is what the user types: kubectl runs the program as its plugin when it is called kubectl-sallyport.
func displayName(program string) string {
	if strings.HasPrefix(filepath.Base(program), "kubectl-") {
		return "kubectl sallyport"
	}
	return "sallyport"
}

// exitStatus is how a command ends that has said everything already.
type exitStatus int

// Error is empty: all is said.
func (exitStatus) Error() string { return "" }

// ExitCode is what the program ends with for err: what the command says, or that of the program it ran, if it ran one.
func ExitCode(err error) int {
	var said exitStatus
	if errors.As(err, &said) {
		return int(said)
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() > 0 {
		return exit.ExitCode()
	}
	return 1
}
