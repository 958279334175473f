package cli

import (
	"github.com/spf13/cobra"

	"github.com/sallyport/sallyport/internal/lab"
)

// names is what a shell may complete an argument to.
type names func(cmd *cobra.Command) ([]string, error)

// first completes the first argument.
func first(of names) cobra.CompletionFunc {
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

// labs are those of this machine.
func labs(*cobra.Command) (out []string, err error) {
	all, err := lab.List()
	for _, l := range all {
		out = append(out, l.Name)
	}
	return out, err
}

// places are where commands can be run.
func (f *labFlags) places(*cobra.Command) ([]string, error) {
	l, err := f.open()
	if err != nil {
		return nil, err
	}
	return l.Namespaces()
}

// actors are the nodes and processes that orders are about.
func (f *labFlags) actors(cmd *cobra.Command) (out []string, err error) {
	l, err := f.open()
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

// logged are those that have a log.
func (f *labFlags) logged(*cobra.Command) ([]string, error) {
	l, err := f.open()
	if err != nil {
		return nil, err
	}
	return logsOf(l)
}
