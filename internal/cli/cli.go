// Package cli is the sallyport command: it parses flags, calls the packages below and prints text.
package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/sallyport/sallyport/internal/model/humanize"
)

// New returns the sallyport command.
func New(version string) *cobra.Command {
	root := &cobra.Command{
		Use:   "sallyport",
		Short: "The gate between a Kubernetes cluster on OVN and the outside world",
		Long: "Sallyport gives tenants external addresses, floating IPs, load balancers and stable egress on any number of external\n" +
			"networks. Replies leave through the network the request arrived on.",
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: displayName(os.Args[0])},
		PersistentPreRun: func(cmd *cobra.Command, _ []string) {
			root := cmd.Root()
			root.SetOut(newSafeWriter(root.OutOrStdout()))
			root.SetErr(newSafeWriter(root.ErrOrStderr()))
			ctrllog.SetLogger(logr.Discard()) // without a logger, it prints a stack trace after 30 s
		},
	}
	root.SetFlagErrorFunc(suggestFlag)
	root.AddCommand(
		labCommand(), planCommand(), adoptCommand(), statusCommand(), surveyCommand(), mapCommand(), explainCommand(), topCommand(),
		doctorCommand(version), uiCommand(version),
		traceCommand(), versionCommand(version), checkCommand(),
	)
	return root
}

// displayName returns the command as the user types it: kubectl runs a program called kubectl-sallyport as a plugin.
func displayName(program string) string {
	if strings.HasPrefix(filepath.Base(program), "kubectl-") {
		return "kubectl sallyport"
	}
	return "sallyport"
}

// suggestFlag adds the nearest flag of a command to the error about an unknown one.
func suggestFlag(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return err
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, "--"+f.Name)
		}
	})
	return fmt.Errorf("%w%s", err, humanize.SuggestName("--"+unknown.GetSpecifiedName(), names))
}

// exitStatus is the error of a command that has already printed everything: it only sets the exit code.
type exitStatus int

// Error returns an empty text: nothing more is to be printed.
func (exitStatus) Error() string { return "" }

// ExitCode returns the exit code of the program for err: the one the command set, else the one of a program that it
// ran, else 1.
func ExitCode(err error) int {
	var status exitStatus
	if errors.As(err, &status) {
		return int(status)
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() > 0 {
		return exit.ExitCode()
	}
	return 1
}
