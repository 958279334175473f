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

// Output formats of map, in addition to text and JSON.
const (
	formatSVG      = "svg"
	formatMarkdown = "md"
)

func mapCommand() *cobra.Command {
	var a clusterAccess
	var format, theme string
	cmd := &cobra.Command{
		Use:   "map [PROJECT]",
		Short: "Draw the networks, gateways and addresses of the cluster, and their backends",
		Long: `Draw the external connectivity of the cluster: networks, the nodes that hold
gateways, routers, addresses and their backends. Objects with a problem are
marked.

With the name of a project (its namespace, or ORGANIZATION/PROJECT), the map
shows this project in full, with the paths of requests and replies.

-o svg draws a picture. -o md writes a document about the whole cluster, for
which nodes are queried for their interfaces and routes. -o json prints the
graph. If there are many projects, each is reduced to one line or tile, and those
with the most problems come first.`,
		Example: `  sallyport map                        # the cluster as a tree
  sallyport map acme-production        # one project, with packet paths
  sallyport map -o svg > cluster.svg   # picture; follows the viewer's light or dark theme
  sallyport map -o md > NETWORK.md     # document about the running cluster`,
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
	cmd.Flags().StringVarP(&format, "output", "o", formatText, "output format: text, svg, md or json")
	cmd.Flags().StringVar(&theme, "theme", string(drawing.Auto), "theme of -o svg: auto, light or dark")
	a.addFlags(cmd)
	return cmd
}

// renderMap renders a map of the whole cluster or of one project.
func renderMap(s *clusterstate.State, project []string, format string, theme drawing.Theme) (string, error) {
	findings := diagnosis.CheckCluster(s)
	g := topology.BuildGraph(s, findings)
	if len(project) > 0 {
		var err error
		if g, err = g.FocusProject(project[0]); err != nil {
			if incomplete := newIncompleteError(s.Unread); incomplete != nil {
				return "", fmt.Errorf("project %s is not among what could be read: %w", project[0], incomplete)
			}
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
			return "", fmt.Errorf("-o %s always covers the whole cluster; omit the project, or use -o %s",
				formatMarkdown, formatText)
		}
		return g.TraceConnections().RenderMarkdown(findings), nil
	case formatJSON:
		raw, err := json.MarshalIndent(g.TraceConnections(), "", "  ")
		return string(raw) + "\n", err
	default:
		return "", fmt.Errorf("-o %s: use %s, %s, %s or %s", format, formatText, formatSVG, formatMarkdown, formatJSON)
	}
}
