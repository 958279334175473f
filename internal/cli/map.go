package cli

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/sallyport/sallyport/internal/insight/collector"
	"github.com/sallyport/sallyport/internal/insight/diagnosis"
	"github.com/sallyport/sallyport/internal/insight/topology"
	"github.com/sallyport/sallyport/internal/insight/topology/drawing"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
)

// The formats of maps, beside text and JSON.
const (
	formatSVG      = "svg"
	formatMarkdown = "md"
)

func mapCommand() *cobra.Command {
	var a clusterAccess
	var format, theme string
	cmd := &cobra.Command{
		Use:   "map [PROJECT]",
		Short: "Draw the cluster's networks, gateways, addresses and what they lead to",
		Long: `Draw how the cluster is connected with the outside: networks, the nodes that
hold gateways, routers, addresses, and what each of them leads to. Objects with
a problem are marked.

With the name of a project (its namespace, or ORGANIZATION/PROJECT), all of it
is shown, with the way of packets there and back.

-o svg is a picture, -o md a document about the whole cluster, for which nodes
are asked for their interfaces and routes, and -o json the graph itself. Many
projects fold to one line or tile each, the worst first.`,
		Example: `  sallyport map                        the cluster as a tree
  sallyport map acme-production        one project, with the way of packets
  sallyport map -o svg > cluster.svg   a picture, light or dark as the viewer is
  sallyport map -o md > NETWORK.md     a document about the running cluster`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains(drawing.Themes, drawing.Theme(theme)) {
				return fmt.Errorf("--theme %s: use auto, light or dark", theme)
			}
			scope := collector.Scope{}
			if format == formatMarkdown {
				scope.PlanInspections = topology.PlanInspections
			}
			done := showProgress(cmd, "reading the cluster")
			s, err := a.takeSurvey(cmd.Context(), scope)
			done()
			if err != nil {
				return err
			}
			text, err := renderMap(s, args, format, drawing.Theme(theme))
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write([]byte(text))
			return err
		},
	}
	cmd.Flags().StringVarP(&format, "output", "o", formatText, "text, svg, md or json")
	cmd.Flags().StringVar(&theme, "theme", string(drawing.Auto), "of -o svg: auto, light or dark")
	a.addFlags(cmd)
	return cmd
}

// renderMap is a survey as a map, of everything or of one project.
func renderMap(s *clusterstate.State, project []string, format string, theme drawing.Theme) (string, error) {
	findings := diagnosis.CheckCluster(s)
	g := topology.BuildGraph(s, findings)
	if len(project) > 0 {
		var err error
		if g, err = g.FocusProject(project[0]); err != nil {
			return "", err
		}
	}
	switch format {
	case formatText:
		return g.RenderText(), nil
	case formatSVG:
		return g.RenderSVG(theme), nil
	case formatMarkdown:
		if len(project) > 0 {
			return "", fmt.Errorf("-o %s is about the whole cluster; leave the project out, or use -o %s",
				formatMarkdown, formatText)
		}
		return g.RenderMarkdown(findings), nil
	case formatJSON:
		raw, err := json.MarshalIndent(g, "", "  ")
		return string(raw) + "\n", err
	default:
		return "", fmt.Errorf("-o %s: use %s, %s, %s or %s", format, formatText, formatSVG, formatMarkdown, formatJSON)
	}
}
