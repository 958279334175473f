package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/sallyport/sallyport/internal/lab"
)

func labInstallCommand(flags *labFlags) *cobra.Command {
	var what lab.Installation
	var agents bool
	var agentManifests, agent string
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Install Sallyport in a lab: the objects of the chart, and the controller",
		Long: `Install Sallyport in a lab: apply the rendered chart, and run the controller as a
process of the lab with only the permissions of the chart's ServiceAccount. An
existing installation is replaced.

With --agents, sallyport-agent also runs on each node, for ExternalNetworks that
nodes are attached to. Its process on a node is called "NODE-sallyport-agent".

The process of the controller is called "sallyport-controller" in lab logs, kill,
start, pause and resume.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := flags.openLab()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), time.Minute)
			defer cancel()
			what.Manifests, what.Program = fileBesideProgram(what.Manifests, "sallyport.yaml"),
				fileBesideProgram(what.Program, lab.Controller)
			if err := l.Install(ctx, what); err != nil {
				return err
			}
			if agents {
				if err := l.InstallAgents(ctx, fileBesideProgram(agentManifests, lab.Agent+".yaml"),
					fileBesideProgram(agent, lab.Agent)); err != nil {
					return err
				}
			}
			fmt.Fprintf(cmd.OutOrStdout(),
				"Sallyport is installed in lab %q; show its log with: sallyport lab logs %s --lab %s\n",
				l.Name, lab.Controller, l.Name)
			return nil
		},
	}
	cmd.Flags().StringVar(&what.Manifests, "manifests", "",
		"rendered chart, from make chart (default: sallyport.yaml in the directory of this program)")
	cmd.Flags().StringVar(&what.Program, "controller", "",
		"controller program, from make build (default: the one in the directory of this program)")
	cmd.Flags().BoolVar(&agents, "agents", false, "also run the agent on each node")
	cmd.Flags().StringVar(&agentManifests, "agent-manifests", "",
		"rendered chart of the agent, from make chart (default: the one in the directory of this program)")
	cmd.Flags().StringVar(&agent, "agent", "",
		"agent program, from make build (default: the one in the directory of this program)")
	return cmd
}

// fileBesideProgram returns the given file, or the file of this name in the directory of the program.
func fileBesideProgram(given, name string) string {
	self, err := os.Executable()
	if given != "" || err != nil {
		return cmp.Or(given, name)
	}
	return filepath.Join(filepath.Dir(self), name)
}
