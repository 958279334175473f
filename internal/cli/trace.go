package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/insight/collector"
	"github.com/sallyport/sallyport/internal/insight/diagnosis"
	"github.com/sallyport/sallyport/internal/insight/trace"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/state"
)

// traceOptions is the flags of trace.
type traceOptions struct {
	clusterAccess
	outputFlags
	from, namespace, protocol string
	live, skipNodes, verbose  bool
}

func traceCommand() *cobra.Command {
	var t traceOptions
	cmd := &cobra.Command{
		Use:   "trace CLIENT[:PORT] ADDRESS:PORT | --from pod/NAME ADDRESS:PORT",
		Short: "Follow a packet from a client to who answers it, and the reply back",
		Long: `Follow a connection's first packet from a client outside to the pod that
answers it, and the reply back to the client: hop by hop, with the addresses
before and after each translation. It ends with a verdict and, where that is not
"Answered", with the cause and what to do.

It is worked out from the rows in OVN's northbound database as they are, in the
order of OVN's own tables, whoever wrote them; nothing is sent. Where connections
are spread over several endpoints, each has a way. With --from, a pod sends: by
which network, from which node and with which address it leaves. What a pod of
Kube-OVN's default VPC sends outside is followed to its node, which forwards it.

Nodes on the way are asked through their agents, where there are any: who answers
on their wires, and by which interface they answer themselves. With --live each
step is checked: the flows that northd has made of the rows are asked with
ovn-trace, and nodes whether they have carried them out. The first hop at which
they do otherwise is marked.

Exit codes: 0 the packet is answered; 1 it is not, or that can't be told.`,
		Example: `  sallyport trace 203.0.113.9 198.51.100.7:443
  sallyport trace 203.0.113.9 198.51.100.7:53 --proto udp
  sallyport trace 203.0.113.9 198.51.100.7 --proto icmp      # a ping
  sallyport trace --from pod/web -n acme-shop 192.0.2.1:443  # how a pod leaves`,
		Args: cobra.RangeArgs(1, 2),
		RunE: t.runTrace,
	}
	t.addFlags(cmd)
	t.addFlag(cmd)
	f := cmd.Flags()
	f.StringVar(&t.protocol, "proto", "tcp", strings.Join(trace.Protocols, ", "))
	f.StringVar(&t.from, "from", "", "pod that sends it, as pod/NAME; then no client is given")
	f.StringVarP(&t.namespace, "namespace", "n", "", "namespace of the pod")
	f.BoolVar(&t.live, "live", false, "check each step against OVN's flows and nodes; needs ovn-trace in the PATH")
	f.BoolVar(&t.skipNodes, "no-nodes", false, "do not ask nodes")
	f.BoolVarP(&t.verbose, "verbose", "v", false, "every way in full, and the rows behind hops")
	_ = cmd.RegisterFlagCompletionFunc("proto",
		cobra.FixedCompletions(trace.Protocols, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (t *traceOptions) runTrace(cmd *cobra.Command, args []string) error {
	query, err := t.parseQuery(args)
	if err != nil {
		return err
	}
	if t.live && t.surveyPath != "" {
		return errors.New("--live asks OVN as it is now: it does not go with --survey")
	}
	done := showProgress(cmd, "reading the cluster")
	s, err := t.takeSurvey(cmd.Context(), t.surveyScope(query))
	done()
	if err != nil {
		return err
	}
	v := newTraceResult(s, query)
	v.verbose = t.verbose
	if t.live {
		v.compareLive(cmd.Context(), t.config.Southbound)
	}
	if err := t.printResult(cmd, v, v.printText); err != nil {
		return err
	}
	if !v.Answered {
		return exitStatus(1)
	}
	return nil
}

// parseQuery is the question as it was typed.
func (t *traceOptions) parseQuery(args []string) (trace.Query, error) {
	if t.from == "" {
		if len(args) != 2 {
			return trace.Query{}, errors.New(
				"give a client and an address with a port; or --from pod/NAME and an address")
		}
		return trace.ParseQuery(args[0], "", args[1], t.protocol)
	}
	if len(args) != 1 {
		return trace.Query{}, errors.New("with --from give one address: where the pod sends to")
	}
	name := strings.TrimPrefix(strings.TrimPrefix(t.from, "pods/"), "pod/")
	if !strings.Contains(name, "/") {
		if t.namespace == "" {
			return trace.Query{}, fmt.Errorf("in which namespace is pod %s? Give -n", name)
		}
		name = t.namespace + "/" + name
	}
	return trace.ParseQuery("", name, args[0], t.protocol)
}

// surveyScope is the shards of routers and the nodes on the way.
func (t *traceOptions) surveyScope(q trace.Query) collector.Scope {
	out := collector.Scope{Sync: true, SelectShards: func(s *clusterstate.State) (names []string) {
		for _, r := range objectsOnPath(s, q) {
			if r.Kind == clusterstate.RouterKind {
				names = append(names, r.Name)
			}
		}
		return names
	}}
	if !t.skipNodes {
		out.PlanInspections = func(s *clusterstate.State) []kubedcv1alpha1.InspectionSpec { return traceQuestions(s, q) }
	}
	return out
}

// objectsOnPath is what a packet passes, by any way; and where it does not arrive, what would have taken it on.
func objectsOnPath(s *clusterstate.State, q trace.Query) (out []state.Ref) {
	for _, p := range trace.New(s).Trace(q).Paths {
		refs := slices.Clone(p.PassedRefs)
		for _, r := range p.About {
			refs = append(refs, s.DependenciesOf(r)...)
		}
		for _, r := range refs {
			if !slices.Contains(out, r) {
				out = append(out, r)
			}
		}
	}
	return out
}

// traceQuestions are those to the nodes on the way, and to one more: who answers on a wire is heard best by who does
// not answer himself.
func traceQuestions(s *clusterstate.State, q trace.Query) []kubedcv1alpha1.InspectionSpec {
	var nodes []string
	for _, r := range objectsOnPath(s, q) {
		if r.Kind == clusterstate.NodeKind {
			nodes = append(nodes, r.Name)
		}
	}
	if q.Pod == "" && s.Cluster.NetworkAt(q.Server.Addr()) == nil {
		// Perhaps a node has the address: all are asked.
		return diagnosis.PlanInspections(s, diagnosis.InspectionScope{Client: q.Client.Addr(), Server: q.Server})
	}
	i := slices.IndexFunc(s.Cluster.Nodes, func(n clusterstate.Node) bool {
		return n.Gateway && n.Ready && !slices.Contains(nodes, n.Name)
	})
	if i >= 0 {
		nodes = append(nodes, s.Cluster.Nodes[i].Name)
	}
	if len(nodes) == 0 {
		return nil
	}
	return diagnosis.PlanInspections(s, diagnosis.InspectionScope{
		Nodes:  nodes,
		Client: q.Client.Addr(),
		Server: q.Server,
	})
}
