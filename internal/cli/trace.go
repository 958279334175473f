package cli

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/diagnosis"
	"github.com/sallyport/sallyport/internal/observer"
	"github.com/sallyport/sallyport/internal/state"
	"github.com/sallyport/sallyport/internal/survey"
	"github.com/sallyport/sallyport/internal/trace"
)

// errUnanswered is the end of a trace of something that gets no answer.
var errUnanswered = errors.New("it gets no answer")

// tracing is the flags of trace.
type tracing struct {
	access
	output
	namespace, from, protocol string
	unasked                   bool // nodes are not asked
}

// traced is what trace prints.
type traced struct {
	trace.Trace
	// Findings are what explains it, the cause first, and of what is on the way.
	Findings []diagnosis.Finding `json:"findings"`
}

func traceCommand() *cobra.Command {
	var t tracing
	cmd := &cobra.Command{
		Use:   "trace CLIENT[:PORT] ADDRESS:PORT | --from pod/NAME ADDRESS:PORT",
		Short: "Follow a packet from a client to whoever answers, and the reply back",
		Long: `Follow a packet from a client outside to the pod that gets it, and its reply back
to the client, hop by hop: network, gateway node, address, load balancer, policies,
pod, and the network by which the reply leaves. With --from, from a pod to the
outside.

It is worked out from the rows of OVN's northbound database as they are, whoever
wrote them. Where connections are spread over several backends, each way is told.
When there is no answer, the cause comes first, with what to do. Nodes on the way
are asked through their agents, where there are any.

It ends with 1 when there is no answer.`,
		Example: `  sallyport trace 203.0.113.9 198.51.100.7:443
  sallyport trace 203.0.113.9 198.51.100.7:53 --proto udp
  sallyport trace --from pod/web-1 -n acme-prod 203.0.113.9:443`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error { return t.run(cmd, args) },
	}
	t.access.add(cmd)
	t.output.add(cmd)
	f := cmd.Flags()
	f.StringVar(&t.protocol, "proto", "tcp", "tcp, udp, sctp or icmp")
	f.StringVar(&t.from, "from", "", "pod that sends it: pod/NAME, or NAME; in the namespace of -n")
	f.StringVarP(&t.namespace, "namespace", "n", "default", "namespace of the pod that sends it")
	f.BoolVar(&t.unasked, "no-nodes", false, "do not ask nodes")
	return cmd
}

func (t *tracing) run(cmd *cobra.Command, args []string) error {
	q, err := t.query(args)
	if err != nil {
		return err
	}
	done := busy(cmd, "reading the cluster")
	s, err := t.survey(cmd.Context(), t.scope(q))
	done()
	if err != nil {
		return err
	}
	out := examine(s, q)
	if err := t.print(cmd, out, func(w io.Writer, i ink) error { return out.text(w, i) }); err != nil {
		return err
	}
	if !out.answered() {
		return errUnanswered
	}
	return nil
}

// query is what is asked.
func (t *tracing) query(args []string) (trace.Query, error) {
	q := trace.Query{Protocol: strings.ToLower(t.protocol)}
	if !slices.Contains([]string{"tcp", "udp", "sctp", "icmp"}, q.Protocol) {
		return q, fmt.Errorf("--proto %s: use tcp, udp, sctp or icmp", t.protocol)
	}
	var err error
	if q.Server, err = end(args[len(args)-1]); err != nil {
		return q, err
	}
	if q.Server.Port() == 0 && q.Protocol != "icmp" {
		return q, fmt.Errorf("%s: which port? write %s:443, say, or --proto icmp", args[len(args)-1], args[len(args)-1])
	}
	switch {
	case t.from != "" && len(args) > 1:
		return q, errors.New("a client and --from: give one of them")
	case t.from != "":
		q.Pod = t.namespace + "/" + strings.TrimPrefix(t.from, "pod/")
	case len(args) < 2:
		return q, errors.New("who asks? give the client's address first, or --from pod/NAME")
	default:
		q.Client, err = end(args[0])
	}
	return q, err
}

// end is an address with a port, or without.
func end(text string) (netip.AddrPort, error) {
	if address, err := netip.ParseAddr(text); err == nil {
		return netip.AddrPortFrom(address, 0), nil
	}
	out, err := netip.ParseAddrPort(text)
	if err != nil {
		return out, fmt.Errorf("%q is no address: write 198.51.100.7:443, or [2001:db8::7]:443", text)
	}
	return out, nil
}

// scope is the shards and the nodes on the way.
func (t *tracing) scope(q trace.Query) observer.Scope {
	out := observer.Scope{Sync: true, About: func(s *survey.Survey) (shards []string) {
		for _, r := range way(s, trace.New(s).Trace(q)) {
			if r.Kind == "Router" { // it has the name of its VPC, which is the shard's
				shards = append(shards, r.Name)
			}
		}
		slices.Sort(shards)
		return slices.Compact(shards)
	}}
	if !t.unasked {
		out.Questions = func(s *survey.Survey) []kubedcv1alpha1.InspectionSpec {
			var nodes []string
			for _, r := range way(s, trace.New(s).Trace(q)) {
				if r.Kind == "Node" {
					nodes = append(nodes, r.Name)
				}
			}
			if len(nodes) == 0 {
				return nil
			}
			slices.Sort(nodes)
			return diagnosis.Questions(s, diagnosis.Case{Nodes: slices.Compact(nodes), Client: q.Client.Addr(), Server: q.Server})
		}
	}
	return out
}

// way is what a packet meets on all its ways, and what that hangs on.
func way(s *survey.Survey, t trace.Trace) (out []state.Ref) {
	add := func(r state.Ref) {
		if r.Kind != "" && !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	for _, p := range t.Paths {
		for _, h := range slices.Concat(p.There, p.Back) {
			add(h.About)
			if h.Node != "" {
				add(state.Ref{Kind: "Node", Name: h.Node})
			}
		}
		for _, r := range p.About {
			add(r)
		}
	}
	for _, r := range slices.Clone(out) {
		for _, on := range s.HangsOn(r) {
			add(on)
		}
	}
	return out
}

// examine follows the packet and finds out what explains its fate.
func examine(s *survey.Survey, q trace.Query) traced {
	out := traced{Trace: trace.New(s).Trace(q)}
	found := diagnosis.Touching(diagnosis.Examine(s), way(s, out.Trace)...)
	if !out.answered() {
		for _, p := range out.Paths {
			if f, bad := p.Finding(); bad {
				found = append(found, f)
				break
			}
		}
	}
	diagnosis.Sort(found)
	out.Findings = slices.DeleteFunc(found, func(f diagnosis.Finding) bool { return f.Severity == diagnosis.Info })
	return out
}

// answered says whether every way is answered.
func (t *traced) answered() bool {
	return !slices.ContainsFunc(t.Paths, func(p trace.Path) bool { return p.Verdict != trace.Answered })
}

// text prints it for a person.
func (t *traced) text(w io.Writer, i ink) error {
	from := t.Query.Pod
	if from == "" {
		from = t.Query.Client.Addr().String()
	}
	fmt.Fprintf(w, "%s → %s %s\n", from, t.Query.Server, t.Query.Protocol)
	for n, p := range t.Paths {
		if len(t.Paths) > 1 {
			fmt.Fprintf(w, "\nWay %d of %d\n", n+1, len(t.Paths))
		}
		hops(w, i, "There", p.There)
		hops(w, i, "Back", p.Back)
		verdict := i.green(p.Verdict)
		if p.Verdict != trace.Answered {
			verdict = i.red(p.Verdict)
		}
		fmt.Fprintln(w, strings.TrimSpace("  "+verdict+"  "+p.Reason))
	}
	for n, f := range t.Findings {
		heading := f.Severity.String()
		if n == 0 && !t.answered() {
			heading = "Cause"
		}
		fmt.Fprintf(w, "%s: %s %s: %s\n    Do: %s\n", heading, f.Code, f.About[0], f.Message, i.bold(f.Cure))
	}
	return nil
}

// hops prints the steps of one direction.
func hops(w io.Writer, i ink, direction string, list []trace.Hop) {
	for n, h := range list {
		heading := ""
		if n == 0 {
			heading = direction
		}
		fmt.Fprintf(w, "  %-6s %s: %s %s\n", heading, h.About, h.Text, i.faint(h.Packet))
	}
}
