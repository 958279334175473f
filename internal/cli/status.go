package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/insight/collector"
	"github.com/sallyport/sallyport/internal/insight/diagnosis"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/humanize"
	"github.com/sallyport/sallyport/internal/model/logical"
	"github.com/sallyport/sallyport/internal/model/state"
)

// statusOptions holds the flags of status.
type statusOptions struct {
	clusterAccess
	outputFlags
	skipNodes bool
	exitCode  bool
	watch     bool
	interval  time.Duration
}

func statusCommand() *cobra.Command {
	var o statusOptions
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show an overview of the cluster: networks, objects, nodes and problems",
		Long: `Show an overview of the cluster: a verdict with the number of problems, external
networks with their used and free addresses, the number of programmed objects and
why others are not programmed, nodes, the leaders of the controllers, and data
sources that could not be read.

The verdict is that of sallyport doctor, which explains the problems. Like it, the
command waits until northd and all nodes have answered, and queries nodes through
their agents, but it does not ask pods.

Exit codes with --exit-code: 0 no problems; 1 warnings; 2 errors.`,
		Example: `  sallyport status
  sallyport status --watch
  sallyport status --exit-code > /dev/null || sallyport doctor`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.watch {
				return o.watchRepeatedly(cmd, o.interval, o.surveyScope(), func(s *clusterstate.State) error {
					_, err := o.printOverview(cmd, s)
					return err
				})
			}
			return o.showOnce(cmd)
		},
	}
	o.addFlags(cmd)
	o.addFlag(cmd)
	f := cmd.Flags()
	f.BoolVar(&o.skipNodes, "no-nodes", false, "do not query nodes")
	f.BoolVar(&o.exitCode, "exit-code", false, "exit with 1 if there are warnings, with 2 if there are errors")
	f.BoolVarP(&o.watch, "watch", "w", false, "refresh until interrupted")
	f.DurationVar(&o.interval, "every", 5*time.Second, "refresh interval of --watch")
	cmd.MarkFlagsMutuallyExclusive("watch", "exit-code")
	return cmd
}

// surveyScope selects what doctor reads, but for the ports of pods.
func (o *statusOptions) surveyScope() collector.Scope {
	out := collector.Scope{AllShards: true, Sync: true}
	if !o.skipNodes {
		out.PlanInspections = func(s *clusterstate.State) []kubedcv1alpha1.InspectionSpec {
			return diagnosis.PlanInspections(s, diagnosis.InspectionScope{})
		}
	}
	return out
}

func (o *statusOptions) showOnce(cmd *cobra.Command) error {
	done := showProgress(cmd, "reading the cluster and querying its nodes")
	s, err := o.takeSurvey(cmd.Context(), o.surveyScope())
	done()
	if err != nil {
		return err
	}
	v, err := o.printOverview(cmd, s)
	switch {
	case err != nil || !o.exitCode:
		return err
	case v.Errors > 0:
		return exitStatus(2)
	case v.Warnings > 0:
		return exitStatus(1)
	default:
		return nil
	}
}

func (o *statusOptions) printOverview(cmd *cobra.Command, s *clusterstate.State) (overview, error) {
	v := newOverview(s)
	return v, o.printResult(cmd, v, v.printText)
}

// overview is the output of status.
type overview struct {
	// Verdict is one line: whether something is wrong. Errors and Warnings count what sallyport doctor reports.
	Verdict  string                     `json:"verdict"`
	Errors   int                        `json:"errors"`
	Warnings int                        `json:"warnings"`
	Cluster  string                     `json:"cluster"`
	Version  string                     `json:"version"`
	Engine   engineStatus               `json:"engine"`
	Taken    time.Time                  `json:"taken"`
	Unread   []clusterstate.ReadFailure `json:"unread,omitempty"`
	Networks []pool                     `json:"networks"`
	Objects  []kindCount                `json:"objects"`
	Nodes    []nodeStatus               `json:"nodes"`
	Leaders  []leader                   `json:"leaders"`

	controllerDead bool // what objects report may be out of date
}

// engineStatus is the engine under Sallyport: its version, and the behaviour of Kube-OVN that Sallyport works around.
type engineStatus struct {
	KubeOVN string   `json:"kubeOVN,omitempty"`
	Tested  bool     `json:"tested"`
	OVN     string   `json:"ovn,omitempty"`
	Quirks  []string `json:"quirks"`
}

func newEngineStatus(s *clusterstate.State) engineStatus {
	out := engineStatus{KubeOVN: s.Cluster.KubeOVN, OVN: s.Logical.NorthdVersion()}
	version, _ := kubeovn.ParseVersion(s.Cluster.KubeOVN)
	out.Tested = version.IsTested()
	for _, q := range kubeovn.QuirksOf(version) {
		out.Quirks = append(out.Quirks, q.ID)
	}
	return out
}

// String prints the versions on one line.
func (e engineStatus) String() string {
	text := "Kube-OVN " + cmp.Or(e.KubeOVN, "of unknown version")
	if e.KubeOVN != "" && !e.Tested {
		text += " (not tested; tests run " + kubeovn.TestedVersion.String() + ")"
	}
	if e.OVN != "" {
		text += "  OVN " + e.OVN
	}
	return text
}

// pool is a subnet of an external network.
type pool struct {
	Network string `json:"network"`
	Type    string `json:"type"`
	Default bool   `json:"default,omitempty"`
	Subnet  string `json:"subnet,omitempty"`
	Prefix  string `json:"prefix,omitempty"`
	Gateway string `json:"gateway,omitempty"`
	Nodes   string `json:"nodes,omitempty"` // the interface of nodes on this network, and on how many
	Used    int    `json:"used"`
	Free    int    `json:"free"`
	Ready   bool   `json:"ready"`
}

// kindCount counts the objects of a kind and those that are programmed.
type kindCount struct {
	Kind          string          `json:"kind"`
	Total         int             `json:"total"`
	Programmed    int             `json:"programmed"`
	NotProgrammed []failingObject `json:"others,omitempty"`
}

// failingObject is an object that is not programmed, with the reason.
type failingObject struct {
	Object  string `json:"object"`
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
}

// nodeStatus is the state of a node.
type nodeStatus struct {
	Name         string `json:"name"`
	Ready        bool   `json:"ready"`
	Chassis      string `json:"chassis,omitempty"`
	ChassisKnown bool   `json:"known"` // the chassis is in the OVN southbound database
	Gateway      bool   `json:"gateway"`
	Egress       bool   `json:"egress"`
	Agent        string `json:"agent,omitempty"`
	// Problems are the codes of errors of the node.
	Problems []string `json:"problems,omitempty"`
}

// leader is the lease of a controller's leader.
type leader struct {
	Name    string    `json:"name"`
	Holder  string    `json:"holder"`
	Renewed time.Time `json:"renewed"`
	Expired bool      `json:"expired,omitempty"`
}

func newOverview(s *clusterstate.State) overview {
	out := overview{
		Cluster: s.Cluster.Name, Version: s.Cluster.Version, Engine: newEngineStatus(s), Taken: s.Taken, Unread: s.Unread,
		Networks: listPools(&s.Cluster), Objects: countObjects(&s.Cluster),
	}
	findings := diagnosis.CheckCluster(s)
	out.summarizeFindings(findings)
	for _, n := range s.Cluster.Nodes {
		out.Nodes = append(out.Nodes, nodeStatus{
			Name: n.Name, Problems: errorCodesOf(findings, n.Ref), Ready: n.Ready, Chassis: n.Chassis, Gateway: n.Gateway, Egress: n.Assignable,
			Agent: agentState(&s.Cluster, n.Name),
			ChassisKnown: slices.ContainsFunc(s.Logical.Chassis, func(c logical.Chassis) bool {
				return c.Name == n.Chassis
			}),
		})
	}
	for _, l := range s.Cluster.Leases {
		out.Leaders = append(out.Leaders, leader{
			Name: l.Name, Holder: l.Holder, Renewed: l.Renewed, Expired: l.Lasts > 0 &&
				s.Taken.Sub(l.Renewed) > l.Lasts,
		})
	}
	return out
}

// summarizeFindings counts the findings and names the first ones.
func (v *overview) summarizeFindings(findings []diagnosis.Finding) {
	var first []string
	for _, f := range findings {
		switch f.Severity {
		case diagnosis.Error:
			v.Errors++
		case diagnosis.Warning:
			v.Warnings++
		default:
			continue
		}
		v.controllerDead = v.controllerDead || f.Code == diagnosis.ControllerDead
		if name := strings.TrimSpace(strings.TrimPrefix(f.Headline(), f.Code+" ")); name != diagnosis.ClusterRef.Kind {
			first = append(first, f.Code+" "+name)
		} else {
			first = append(first, f.Code)
		}
	}
	var counts []string
	if v.Errors > 0 {
		counts = append(counts, humanize.Pluralize(v.Errors, "error", "errors"))
	}
	if v.Warnings > 0 {
		counts = append(counts, humanize.Pluralize(v.Warnings, "warning", "warnings"))
	}
	if v.Verdict = "Nothing is wrong"; len(counts) > 0 {
		v.Verdict = fmt.Sprintf("%s: %s. Run sallyport doctor", strings.Join(counts, ", "),
			humanize.JoinLimited(slices.Compact(first), maxNamedFindings))
	}
}

// maxNamedFindings limits the findings that the verdict names.
const maxNamedFindings = 3

// errorCodesOf returns the codes of errors that are mainly about an object.
func errorCodesOf(findings []diagnosis.Finding, ref state.Ref) (out []string) {
	for _, f := range findings {
		if f.Severity == diagnosis.Error && len(f.About) > 0 && f.About[0] == ref && !slices.Contains(out, f.Code) {
			out = append(out, f.Code)
		}
	}
	return out
}

// listPools returns one pool for each subnet of each external network.
func listPools(c *clusterstate.Cluster) (out []pool) {
	for _, n := range c.Networks {
		p := pool{Network: n.Name, Type: n.Type, Default: n.Default}
		if n.Interface != "" {
			p.Nodes = fmt.Sprintf("%s on %d nodes", n.Interface, len(n.OnNodes))
		}
		if len(n.Subnets) == 0 {
			p.Ready = n.Condition(kubedcv1.ConditionProgrammed).Status == "True"
			out = append(out, p)
		}
		for _, name := range n.Subnets {
			of := p
			of.Subnet = name
			if i := slices.IndexFunc(c.Subnets, func(s clusterstate.Subnet) bool { return s.Name == name }); i >= 0 {
				s := c.Subnets[i]
				of.Prefix, of.Gateway, of.Used, of.Free, of.Ready = joinStringers(s.Prefixes),
					joinStringers(s.Gateways), s.Used, s.Free, s.Ready
			}
			out = append(out, of)
		}
	}
	return out
}

func joinStringers[S fmt.Stringer](list []S) string {
	var out []string
	for _, s := range list {
		out = append(out, s.String())
	}
	return strings.Join(out, ",")
}

// countObjects counts the objects of each kind that Sallyport handles.
func countObjects(c *clusterstate.Cluster) []kindCount {
	ours := slices.DeleteFunc(slices.Clone(c.Services), func(s clusterstate.Service) bool { return !s.Ours })
	return []kindCount{
		countProgrammed("Projects", c.Projects, func(o clusterstate.Project) clusterstate.Object { return o.Object }),
		countProgrammed("EIps", c.EIps, func(o clusterstate.EIp) clusterstate.Object { return o.Object }),
		countProgrammed("FIps", c.FIps, func(o clusterstate.FIp) clusterstate.Object { return o.Object }),
		countProgrammed("Services", ours, func(o clusterstate.Service) clusterstate.Object { return o.Object }),
		countProgrammed("EgressIPs", c.EgressIPs, func(o clusterstate.EgressIP) clusterstate.Object { return o.Object }),
		countProgrammed("EgressServices", c.EgressServices, func(o clusterstate.EgressPolicy) clusterstate.Object {
			return o.Object
		}),
		countProgrammed("EgressRoutes", c.EgressRoutes, func(o clusterstate.EgressPolicy) clusterstate.Object { return o.Object }),
		countProgrammed("NodePaths", c.NodePaths, func(o clusterstate.NodePath) clusterstate.Object { return o.Object }),
	}
}

func countProgrammed[V any](kind string, list []V, object func(V) clusterstate.Object) kindCount {
	out := kindCount{Kind: kind, Total: len(list)}
	for _, v := range list {
		o := object(v)
		if o.Condition(kubedcv1.ConditionProgrammed).Status == "True" {
			out.Programmed++
			continue
		}
		why := firstFalseCondition(o)
		out.NotProgrammed = append(out.NotProgrammed,
			failingObject{
				Object:  strings.TrimPrefix(o.Namespace+"/"+o.Name, "/"),
				Reason:  why.Reason,
				Message: why.Message,
			})
	}
	return out
}

// firstFalseCondition returns the condition that explains why an object is not programmed: the first one that is not
// true, in the order in which they depend on each other.
func firstFalseCondition(o clusterstate.Object) clusterstate.Condition {
	for _, kind := range []string{
		kubedcv1.ConditionAccepted, kubedcv1.ConditionResolvedRefs,
		kubedcv1.ConditionProgrammed,
	} {
		if c := o.Condition(kind); c.Type != "" && c.Status != "True" {
			return c
		}
	}
	return clusterstate.Condition{
		Reason:  "NotSeen",
		Message: "the object has no conditions; check that the controller is running",
	}
}

// agentState returns the state of a node's agent: that of its NodePath if there is one, else that of its pod.
func agentState(c *clusterstate.Cluster, node string) string {
	out := ""
	for _, p := range c.Pods {
		if p.Node != node || !p.Agent {
			continue
		}
		if out = "running"; !p.Ready {
			out = cmp.Or(p.Waiting, "not ready")
		}
	}
	for _, p := range c.NodePaths {
		if p.Name != node {
			continue
		}
		if done := p.Condition(kubedcv1.ConditionProgrammed); done.Status != "True" {
			return cmp.Or(done.Reason, "has not answered")
		}
		return fmt.Sprintf("serves %d networks", len(p.Networks))
	}
	return out
}

// colorVerdict returns the verdict in the colour of the worst problem.
func (v overview) colorVerdict(i colorizer) string {
	switch {
	case v.Errors > 0:
		return i.red(v.Verdict)
	case v.Warnings > 0:
		return i.yellow(v.Verdict)
	default:
		return i.green(v.Verdict)
	}
}

func (v overview) printText(w io.Writer, i colorizer) error {
	fmt.Fprintln(w, v.colorVerdict(i))
	fmt.Fprintf(w, "%s  Kubernetes %s  %s  %s\n", i.bold(v.Cluster), v.Version, v.Engine,
		i.faint(v.Taken.Local().Format(time.DateTime)))
	for _, u := range v.Unread {
		fmt.Fprintf(w, "%s %s: %s\n", i.red("not read:"), u.System, u.Problem)
	}
	t := newTable(w)
	fmt.Fprintln(t, "\nNETWORK\tTYPE\tSUBNET\tADDRESSES\tGATEWAY\tUSED\tFREE\t")
	for _, p := range v.Networks {
		notes := []string{p.Nodes}
		if p.Default {
			notes = append(notes, "default")
		}
		if !p.Ready {
			notes = append(notes, i.red("not ready"))
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%d\t%d\t%s\n", p.Network, p.Type, orDash(p.Subnet), orDash(p.Prefix),
			orDash(p.Gateway), p.Used, p.Free,
			strings.Join(slices.DeleteFunc(notes, func(n string) bool { return n == "" }), ", "))
	}
	fmt.Fprintln(t, "\nKIND\tTOTAL\tPROGRAMMED\t")
	for _, k := range v.Objects {
		if k.Total > 0 {
			fmt.Fprintf(t, "%s\t%d\t%d\t%s\n", k.Kind, k.Total, k.Programmed, v.programmedSummary(i, k))
		}
	}
	v.printNodes(t, i)
	fmt.Fprintln(t, "\nLEADS\tHOLDER\tRENEWED")
	for _, l := range v.Leaders {
		renewed := v.Taken.Sub(l.Renewed).Round(time.Second).String() + " ago"
		if l.Expired {
			renewed = i.red(renewed + ", expired")
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", l.Name, orDash(l.Holder), renewed)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	v.printNotProgrammed(w, i)
	return nil
}

// printNodes prints the nodes, with their problems if any node has some.
func (v overview) printNodes(t io.Writer, i colorizer) {
	faulty := slices.ContainsFunc(v.Nodes, func(n nodeStatus) bool { return len(n.Problems) > 0 })
	heading := "\nNODE\tREADY\tCHASSIS\tGATEWAY\tEGRESS\tAGENT"
	if faulty {
		heading += "\tPROBLEMS"
	}
	fmt.Fprintln(t, heading)
	for _, n := range v.Nodes {
		chassis, ready := orDash(n.Chassis), "yes"
		if n.Chassis != "" && !n.ChassisKnown && !v.isUnread(clusterstate.Southbound) {
			chassis += " (missing)"
		}
		if !n.Ready {
			ready = "no"
		}
		line := strings.Join([]string{
			n.Name, ready, chassis, yesOrDash(n.Gateway), yesOrDash(n.Egress),
			orDash(n.Agent),
		}, "\t")
		if faulty {
			line += "\t" + i.red(strings.Join(n.Problems, ", "))
		}
		fmt.Fprintln(t, line)
	}
}

// printNotProgrammed prints the objects that are not programmed, with the reason.
func (v overview) printNotProgrammed(w io.Writer, i colorizer) {
	for _, k := range v.Objects {
		for n, f := range k.NotProgrammed {
			if n == 0 {
				fmt.Fprintf(w, "\n%s that are not programmed\n", k.Kind)
			}
			if n == maxShownObjects {
				fmt.Fprintf(w, "  and %d more; use -o yaml to see all\n", len(k.NotProgrammed)-n)
				break
			}
			fmt.Fprintf(w, "  %s  %s  %s\n", f.Object, i.red(f.Reason), f.Message)
		}
	}
}

// maxShownObjects limits the printed objects of a kind that are not programmed.
const maxShownObjects = 10

func (v overview) isUnread(system string) bool {
	return slices.ContainsFunc(v.Unread, func(u clusterstate.ReadFailure) bool { return u.System == system })
}

// programmedSummary says what the count means. Objects report that their rows exist, not that nodes apply them; and if
// the controller does not run, they report what was.
func (v overview) programmedSummary(i colorizer, k kindCount) string {
	switch {
	case k.Programmed < k.Total:
		return i.red(fmt.Sprintf("%d not", k.Total-k.Programmed))
	case v.controllerDead:
		return i.yellow("as last reported: the controller does not run")
	case v.Errors > 0:
		return i.yellow("written, but there are errors")
	default:
		return i.green("all")
	}
}

func orDash(text string) string { return cmp.Or(text, "-") }

func yesOrDash(b bool) string { return map[bool]string{true: "yes", false: "-"}[b] }
