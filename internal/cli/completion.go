package cli

import (
	"github.com/spf13/cobra"

	"github.com/sallyport/sallyport/internal/lab"
)

// nameLister returns the values that shell completion offers for an argument.
type nameLister func(cmd *cobra.Command) ([]string, error)

// completeFirstArg completes the first argument of a command.
func completeFirstArg(of nameLister) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		out, err := of(cmd)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeLabs returns the labs of this machine.
func completeLabs(*cobra.Command) (out []string, err error) {
	all, err := lab.List()
	for _, l := range all {
		out = append(out, l.Name)
	}
	return out, err
}

// completeNamespaces returns the network namespaces of the lab in which commands can run.
func (f *labFlags) completeNamespaces(*cobra.Command) ([]string, error) {
	l, err := f.openLab()
	if err != nil {
		return nil, err
	}
	return l.Namespaces()
}

// completeTargets returns the nodes and processes of the lab.
func (f *labFlags) completeTargets(cmd *cobra.Command) (out []string, err error) {
	l, err := f.openLab()
	if err != nil {
		return nil, err
	}
	status, err := l.Status(cmd.Context())
	for _, n := range status.Nodes {
		out = append(out, n.Name)
	}
	for _, p := range status.Processes {
		out = append(out, p.Name)
	}
	return out, err
}

// completeLogs returns the names of the lab's logs.
func (f *labFlags) completeLogs(*cobra.Command) ([]string, error) {
	l, err := f.openLab()
	if err != nil {
		return nil, err
	}
	return listLabLogs(l)
}
