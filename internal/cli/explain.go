package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/engine/kube"
	"github.com/sallyport/sallyport/internal/insight/collector"
	"github.com/sallyport/sallyport/internal/insight/diagnosis"
	"github.com/sallyport/sallyport/internal/insight/explain"
	"github.com/sallyport/sallyport/internal/insight/trace"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
)

// errNotWorking is returned for a subject that does not work when --exit-code is set.
var errNotWorking = errors.New("it does not work")

// explainOptions holds the flags of explain.
type explainOptions struct {
	clusterAccess
	outputFlags
	namespace string
	verbose   bool
	skipNodes bool
	exitCode  bool
}

func explainCommand() *cobra.Command {
	var e explainOptions
	cmd := &cobra.Command{
		Use:   "explain KIND/NAME | ADDRESS",
		Short: "Explain the state of an object or address, and what to do about problems",
		Long: `Explain an object: what its spec requests, which path its packets take, whether
everything compiled for it exists in Kubernetes and OVN, its conditions, the
problems of the object and of everything it depends on (pods, router, gateway
node, network), and what to do next.

Given an address, the command finds its owner: an EIp, FIp, Service, EgressIP,
project, gateway, router, node or pod. For an unassigned address it shows the
pool that contains it.

Kinds are named as in kubectl: eip, fip, svc, egressip, egressservice,
egressroute, project, network, node, pod. Without -n, all namespaces are
searched. The kind may be omitted if the name is unique, except for pods.

Nodes on the path are queried through their agents, if installed.`,
		Example: `  sallyport explain svc/web -n acme-prod
  sallyport explain 198.51.100.7          # owner of an address, and its state
  sallyport explain eip/front -v          # every entry, row, node and condition
  sallyport explain egressip/out -o yaml`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: e.completeSubject,
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.runExplain(cmd, strings.Join(args, "/"))
		},
	}
	e.addFlags(cmd)
	e.addFlag(cmd)
	f := cmd.Flags()
	f.StringVarP(&e.namespace, "namespace", "n", "", "namespace of the object (default: search all)")
	f.BoolVarP(&e.verbose, "verbose", "v", false,
		"print all details: compiled objects, rows, nodes, conditions, events")
	f.BoolVar(&e.skipNodes, "no-nodes", false, "do not query nodes")
	f.BoolVar(&e.exitCode, "exit-code", false, "exit with 1 if the object or address does not work")
	return cmd
}

func (e *explainOptions) runExplain(cmd *cobra.Command, text string) error {
	done := showProgress(cmd, "reading the cluster")
	s, err := e.takeSurvey(cmd.Context(), e.surveyScope(text))
	done()
	if err != nil {
		return err
	}
	x, err := e.explainSubject(s, text)
	if err != nil {
		return err
	}
	if err := e.printResult(cmd, x, func(w io.Writer, i colorizer) error {
		return printExplanation(w, i, x.Text(e.verbose), x.Healthy)
	}); err != nil {
		return err
	}
	if e.exitCode && !x.Healthy {
		return errNotWorking
	}
	return nil
}

// surveyScope selects the shards and nodes that the subject depends on.
func (e *explainOptions) surveyScope(text string) collector.Scope {
	out := collector.Scope{Sync: true, SelectShards: func(s *clusterstate.State) []string {
		subject, _ := explain.Resolve(s, text, e.namespace) // explainSubject reports the error
		return subject.Shards(s)
	}}
	if !e.skipNodes {
		out.PlanInspections = func(s *clusterstate.State) []kubedcv1alpha1.InspectionSpec { return e.nodeQuestions(s, text) }
	}
	return out
}

// nodeQuestions returns the inspections of the nodes on the path.
func (e *explainOptions) nodeQuestions(s *clusterstate.State, text string) []kubedcv1alpha1.InspectionSpec {
	subject, err := explain.Resolve(s, text, e.namespace)
	if err != nil {
		return nil
	}
	var specs []kubedcv1alpha1.InspectionSpec
	if nodes := subject.Nodes(s); len(nodes) > 0 {
		specs = diagnosis.PlanInspections(s, diagnosis.InspectionScope{Nodes: nodes})
	}
	return trace.AddPortQuestions(s, specs, subject.Paths(s))
}

// explainSubject explains the subject that text names. When Kubernetes cannot be read, a name cannot be resolved, and
// the explanation says so.
func (e *explainOptions) explainSubject(s *clusterstate.State, text string) (explain.Explanation, error) {
	findings := diagnosis.CheckCluster(s)
	subject, err := explain.Resolve(s, text, e.namespace)
	blind := slices.ContainsFunc(s.Unread, func(u clusterstate.ReadFailure) bool { return u.System == clusterstate.Kubernetes })
	switch {
	case err != nil && blind:
		return explain.Unknown(s, text, findings), nil
	case err != nil:
		return explain.Explanation{}, err
	default:
		return subject.Explain(s, findings), nil
	}
}

// printExplanation prints an explanation, in colour on a terminal.
func printExplanation(w io.Writer, i colorizer, text string, works bool) error {
	headline, rest, _ := strings.Cut(text, "\n")
	if works {
		headline = i.green(headline)
	} else {
		headline = i.red(headline)
	}
	lines := []string{headline}
	for line := range strings.SplitSeq(strings.TrimSuffix(rest, "\n"), "\n") {
		switch trimmed := strings.TrimSpace(line); {
		case strings.HasPrefix(trimmed, "error "), strings.HasPrefix(trimmed, "✗ "):
			line = i.red(line)
		case strings.HasPrefix(trimmed, "warning "):
			line = i.yellow(line)
		case strings.HasPrefix(trimmed, "Do: "):
			line = i.bold(line)
		}
		lines = append(lines, line)
	}
	_, err := fmt.Fprintln(w, strings.Join(lines, "\n"))
	return err
}

// completionTimeout limits how long shell completion waits for the API server.
const completionTimeout = 2 * time.Second

// completeSubject completes kinds and names of objects in the cluster.
func (e *explainOptions) completeSubject(cmd *cobra.Command, args []string, typed string) ([]string,
	cobra.ShellCompDirective,
) {
	word, _, chosen := strings.Cut(typed, "/")
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	if !chosen {
		var out []string
		for _, w := range explain.KindNames() {
			if strings.HasPrefix(w, typed) {
				out = append(out, w+"/")
			}
		}
		return out, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	config, _, err := kube.LoadConfigContext(e.kubeconfig, e.context)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	names, err := kube.ListNames(ctx, config, explain.ParseKind(word), e.namespace)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var out []string
	for _, n := range names {
		if name := word + "/" + n; strings.HasPrefix(name, typed) {
			out = append(out, name)
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
