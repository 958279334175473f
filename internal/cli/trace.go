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

// traceOptions holds the flags of trace.
type traceOptions struct {
	clusterAccess
	outputFlags
	from, namespace, protocol string
	live, skipNodes, verbose  bool
	send                      bool
}

// traceHelp is the long help of trace.
const traceHelp = `Trace the first packet of a connection from an external client to the pod that
answers it, and the reply back to the client, hop by hop, with the addresses
before and after each translation. The output ends with a verdict:

Delivered  the packet reaches the pod, and a reply would reach the client
Answered   also, the pod was asked on its node, and answered
Refused    a rule rejects the packet, or nothing listens on the pod's port
Dropped    a rule drops the packet, or the pod does not answer
Lost       the reply does not reach the client
Unknown    the rows are not enough to decide

Unless the packet is delivered, the cause and the remedy follow.

The trace is computed from all rows of the OVN northbound database, including
those that Sallyport did not write, in the order of OVN's tables. If a load balancer has several endpoints, each endpoint has its own path.
With --from, the trace starts at a pod and shows through which network, from
which node and with which source address its packets leave. Packets from a pod
of Kube-OVN's default VPC are traced to its node, which forwards them, unless an
EgressIP selects the pod. With --from node/NAME it starts at a node, to addresses
of Kube-OVN's default VPC; other packets of a node do not pass OVN.

Nodes on the path are queried through their agents, if installed: which hosts
answer on their external networks, through which interface the node itself
replies, and whether the pod answers. For that the agent sends one packet from
the pod's gateway directly to the pod: a TCP SYN, an empty UDP datagram, an SCTP
INIT or a ping. With --no-nodes no packet is sent. With --live, each step is compared with the logical flows that northd
computed (using ovn-trace) and with the state of the nodes. The first hop that
differs is marked.

With --send, a real packet follows the trace: the agent of the node where packets
of the client enter puts it into OVN, with the client's address as its source and
a mark, and the agents of all nodes on the path count it and its reply where they
enter and leave Open vSwitch: at tunnels, at the pod and at the external network.
The packet is the first one of a connection: a TCP SYN, which is followed by a
RST, an SCTP INIT, a ping, or a UDP datagram of 12 bytes, which the program in
the pod receives. The pod's reply leaves to the client. If the packet is lost,
one more is sent, because the first packet to a host may be lost while its MAC
address is resolved. Packets from pods and nodes can't be sent yet.

Exit codes: 0 the packet is delivered or answered; 1 it is not, or the result is
unknown, or the packet that was sent did something else.`

func traceCommand() *cobra.Command {
	var t traceOptions
	cmd := &cobra.Command{
		Use:   "trace CLIENT[:PORT] ADDRESS:PORT | --from pod/NAME|node/NAME ADDRESS:PORT",
		Short: "Trace a packet from a client to its backend, and the reply back",
		Long:  traceHelp,
		Example: `  sallyport trace 203.0.113.9 198.51.100.7:443
  sallyport trace 203.0.113.9 198.51.100.7:53 --proto udp
  sallyport trace 203.0.113.9 198.51.100.7 --proto icmp      # a ping
  sallyport trace 203.0.113.9 198.51.100.7:443 --send        # and send a packet
  sallyport trace --from pod/web -n acme-shop 192.0.2.1:443  # egress of a pod`,
		Args: cobra.RangeArgs(1, 2),
		RunE: t.runTrace,
	}
	t.addFlags(cmd)
	t.addFlag(cmd)
	f := cmd.Flags()
	f.StringVar(&t.protocol, "proto", "tcp", "protocol: "+strings.Join(trace.Protocols, ", "))
	f.StringVar(&t.from, "from", "", "sender of the packet, as pod/NAME or node/NAME; replaces CLIENT")
	f.StringVarP(&t.namespace, "namespace", "n", "", "namespace of the pod")
	f.BoolVar(&t.live, "live", false, "compare each step with OVN's flows and the nodes; requires ovn-trace in PATH")
	f.BoolVar(&t.send, "send", false, "also send a marked packet, and count it where it passes; requires agents")
	f.BoolVar(&t.skipNodes, "no-nodes", false, "do not query nodes")
	f.BoolVarP(&t.verbose, "verbose", "v", false, "print every path in full, and the row of each hop")
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
		return errors.New("--live queries the running OVN and cannot be combined with --survey")
	}
	if err := t.checkSend(query); err != nil {
		return err
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
	if t.send {
		done := showProgress(cmd, "sending a packet")
		err := t.sendPacket(cmd.Context(), v)
		done()
		if err != nil {
			return err
		}
	}
	if err := t.printResult(cmd, v, v.printText); err != nil {
		return err
	}
	if !v.Delivered || v.Sent != nil && !v.Sent.Agrees {
		return exitStatus(1)
	}
	return nil
}

// parseQuery parses the arguments.
func (t *traceOptions) parseQuery(args []string) (trace.Query, error) {
	if t.from == "" {
		if len(args) != 2 {
			return trace.Query{}, errors.New(
				"want two arguments, CLIENT and ADDRESS:PORT, or --from pod/NAME or node/NAME and one argument, ADDRESS:PORT")
		}
		return trace.ParseQuery(args[0], "", args[1], t.protocol)
	}
	if len(args) != 1 {
		return trace.Query{}, errors.New("with --from, want one argument: the destination ADDRESS:PORT")
	}
	for _, kind := range []string{"node/", "nodes/"} {
		if node, is := strings.CutPrefix(t.from, kind); is {
			return trace.ParseNodeQuery(node, args[0], t.protocol)
		}
	}
	name := strings.TrimPrefix(strings.TrimPrefix(t.from, "pods/"), "pod/")
	if !strings.Contains(name, "/") {
		if t.namespace == "" {
			return trace.Query{}, fmt.Errorf("the namespace of pod %s is not set; add -n NAMESPACE", name)
		}
		name = t.namespace + "/" + name
	}
	return trace.ParseQuery("", name, args[0], t.protocol)
}

// surveyScope selects the shards of the routers and the nodes on the path.
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
		out.PlanInspections = func(s *clusterstate.State) []kubedcv1alpha1.InspectionSpec {
			return trace.AddPortQuestions(s, traceQuestions(s, q), trace.New(s).Trace(q).Paths)
		}
	}
	return out
}

// objectsOnPath returns the objects that the packet passes on any path. For a packet that does not arrive, it includes
// the dependencies of the object where the packet stopped.
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

// traceQuestions returns the inspections of the nodes on the path and of one more gateway node: a node that does not
// answer itself sees best which hosts answer on a wire.
func traceQuestions(s *clusterstate.State, q trace.Query) []kubedcv1alpha1.InspectionSpec {
	var nodes []string
	for _, r := range objectsOnPath(s, q) {
		if r.Kind == clusterstate.NodeKind {
			nodes = append(nodes, r.Name)
		}
	}
	if q.Pod == "" && q.Node == "" && s.Cluster.NetworkAt(q.Server.Addr()) == nil {
		// A node may have the address, so all nodes are queried.
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
