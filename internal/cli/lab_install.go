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
		Short: "Install Sallyport in a lab: the chart's objects, and the controller",
		Long: `Install Sallyport in a lab: apply the rendered chart, and run the controller
as a process of the lab with the rights of the chart's ServiceAccount and no
others. Installed again, both are replaced.

With --agents, sallyport-agent runs on each node as well: for ExternalNetworks
that nodes are on themselves. Its process there is "NODE-sallyport-agent".

The controller is "sallyport-controller" for lab logs, kill, start, pause and
resume.`,
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
				"Sallyport is installed in lab %q; its log: sallyport lab logs %s --lab %s\n", l.Name, lab.Controller,
				l.Name)
			return nil
		},
	}
	cmd.Flags().StringVar(&what.Manifests, "manifests", "",
		"the rendered chart, from make chart; empty: sallyport.yaml beside this program")
	cmd.Flags().StringVar(&what.Program, "controller", "",
		"the controller, from make build; empty: that beside this program")
	cmd.Flags().BoolVar(&agents, "agents", false, "run the agent on each node, too")
	cmd.Flags().StringVar(&agentManifests, "agent-manifests", "",
		"the rendered chart of the agent, from make chart; empty: that beside this program")
	cmd.Flags().StringVar(&agent, "agent", "", "the agent, from make build; empty: that beside this program")
	return cmd
}

// fileBesideProgram is a file that was given, or one of this name beside the program.
func fileBesideProgram(given, name string) string {
	self, err := os.Executable()
	if given != "" || err != nil {
		return cmp.Or(given, name)
	}
	return filepath.Join(filepath.Dir(self), name)
}
