package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sallyport/sallyport/internal/lab"
	"github.com/sallyport/sallyport/internal/lab/daemon"
	"github.com/sallyport/sallyport/internal/lab/parts"
)

func labStatusCommand(flags *labFlags) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show nodes, network namespaces, processes and the duration of each start-up step",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := flags.openLab()
			if err != nil {
				return err
			}
			status, err := l.Status(cmd.Context())
			if err != nil {
				return err
			}
			if output == "json" {
				encoder := json.NewEncoder(cmd.OutOrStdout())
				encoder.SetIndent("", "  ")
				return encoder.Encode(status)
			}
			names, err := l.Namespaces()
			if err != nil {
				return err
			}
			return printLabStatus(cmd.OutOrStdout(), status, names)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "output format: text or json")
	return cmd
}

func printLabStatus(w io.Writer, s daemon.Status, namespaces []string) error {
	fmt.Fprintf(w, "lab %s: %d processes, %d MiB\n\n", s.Name, s.Usage.Processes, s.Usage.Memory>>20)
	table := tabwriter.NewWriter(w, 0, 4, 3, ' ', 0)
	fmt.Fprintln(table, "NODE\tSTATE\tMEMORY")
	for _, n := range s.Nodes {
		memory := ""
		if n.Memory > 0 {
			memory = fmt.Sprintf("%d MiB, and %d MiB on its disk", n.Memory>>20, n.Disk>>20)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", n.Name, n.State, memory)
	}
	fmt.Fprintln(table, "\nPROCESS\tSTATE\tPID\t")
	for _, p := range s.Processes {
		fmt.Fprintf(table, "%s\t%s\t%d\t%s\n", p.Name, p.State, p.PID, p.Detail)
	}
	fmt.Fprintln(table, "\nSTEP\tBEGAN\tTOOK")
	for _, t := range s.Steps {
		fmt.Fprintf(table, "%s\t%.2fs\t%.2fs\n", t.Name, t.Begin.Seconds(), (t.End - t.Begin).Seconds())
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nnamespaces: %s\n", strings.Join(namespaces, " "))
	return nil
}

func labKubeconfigCommand(flags *labFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "kubeconfig",
		Short: "Print the path of the lab's kubeconfig",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := flags.openLab()
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), l.Kubeconfig())
			return nil
		},
	}
}

func labEnvCommand(flags *labFlags) *cobra.Command {
	return &cobra.Command{
		Use:     "env",
		Short:   "Print shell variables that make kubectl, ovn-nbctl and ovn-sbctl use the lab",
		Example: `  eval "$(sallyport lab env)"`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := flags.openLab()
			if err != nil {
				return err
			}
			set, err := parts.Ensure(cmd.Context(), func(string) {})
			if err != nil {
				return err
			}
			status, err := l.Status(cmd.Context())
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			fmt.Fprintf(out, "export SALLYPORT_LAB=%s\nexport KUBECONFIG=%s\nexport PATH=%s:$PATH\n", l.Name,
				l.Kubeconfig(), set.Bin())
			fmt.Fprintf(out, "export OVN_NB_DB=%s\nexport OVN_SB_DB=%s\n", l.Database("nb", status.Blueprint.Raft),
				l.Database("sb", status.Blueprint.Raft))
			return nil
		},
	}
}

func labLogsCommand(flags *labFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "logs [PROCESS|POD.NAMESPACE]",
		Short: "Print the log of a process or a pod; without a name, list the logs",
		Args:  cobra.MaximumNArgs(1), ValidArgsFunction: completeFirstArg(flags.completeLogs),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := flags.openLab()
			if err != nil {
				return err
			}
			if len(args) == 0 {
				names, err := listLabLogs(l)
				for _, name := range names {
					fmt.Fprintln(cmd.OutOrStdout(), name)
				}
				return err
			}
			file, err := os.Open(l.Log(args[0]))
			if err != nil {
				return fmt.Errorf("no log of %q; list the logs with: sallyport lab logs", args[0])
			}
			defer file.Close()
			_, err = io.Copy(cmd.OutOrStdout(), file)
			return err
		},
	}
}

// listLabLogs returns the names of a lab's logs.
func listLabLogs(l *lab.Lab) (out []string, err error) {
	files, err := filepath.Glob(l.Log("*"))
	for _, f := range files {
		out = append(out, strings.TrimSuffix(filepath.Base(f), ".log"))
	}
	return out, err
}
