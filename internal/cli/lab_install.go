package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/sallyport/sallyport/internal/lab"
)

func labInstall(flags *labFlags) *cobra.Command {
	var what lab.Installation
	var agents bool
	var agentManifests, agent string
	beside := "."
	if self, err := os.Executable(); err == nil {
		beside = filepath.Dir(self)
	}
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
			l, err := flags.open()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), time.Minute)
			defer cancel()
			if err := l.Install(ctx, what); err != nil {
				return err
			}
			if agents {
				if err := l.InstallAgents(ctx, agentManifests, agent); err != nil {
					return err
				}
			}
			fmt.Fprintf(cmd.OutOrStdout(), "Sallyport is installed in lab %q; its log: sallyport lab logs %s --lab %s\n", l.Name, lab.Controller, l.Name)
			return nil
		},
	}
	cmd.Flags().StringVar(&what.Manifests, "manifests", filepath.Join(beside, "sallyport.yaml"), "the rendered chart, from make chart")
	cmd.Flags().StringVar(&what.Program, "controller", filepath.Join(beside, lab.Controller), "the controller, from make build")
	cmd.Flags().BoolVar(&agents, "agents", false, "run the agent on each node, too")
	cmd.Flags().StringVar(&agentManifests, "agent-manifests", filepath.Join(beside, lab.Agent+".yaml"), "the rendered chart of the agent, from make chart")
	cmd.Flags().StringVar(&agent, "agent", filepath.Join(beside, lab.Agent), "the agent, from make build")
	return cmd
}
