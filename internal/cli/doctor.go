package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/insight/collector"
	"github.com/sallyport/sallyport/internal/insight/diagnosis"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
)

// doctorOptions holds the flags of doctor.
type doctorOptions struct {
	clusterAccess
	outputFlags
	minSeverity diagnosis.Severity
	bundlePath  string
}

func doctorCommand(version string) *cobra.Command {
	var o doctorOptions
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Find problems of the cluster, and how to fix them",
		Long: `Find problems of the cluster, and how to fix them.

The command reads Kubernetes and both OVN databases, compares the desired state
with the actual state, and checks that northd and all chassis respond. Through
sallyport-agent it queries every node for its interfaces and settings and for the
hosts that answer on its external networks. Findings are described in
docs/reference/findings.md.

Exit codes: 0 no problems; 1 warnings; 2 errors. Findings of severity info do not
count.

--bundle also writes the collected data and the findings to an archive, for
support. Other commands can read the archive with --survey. It contains names and
addresses, but no Secrets, tokens or keys.`,
		Example: `  sallyport doctor
  sallyport doctor --severity error         # print errors only
  sallyport doctor --bundle support.tar.gz`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.runDoctor(cmd, version) },
	}
	o.addFlags(cmd)
	o.addFlag(cmd)
	cmd.Flags().TextVar(&o.minSeverity, "severity", diagnosis.Info,
		"minimum severity to print: info, warning or error")
	cmd.Flags().StringVar(&o.bundlePath, "bundle", "",
		"write the collected data and the findings to this archive (tar.gz)")
	return cmd
}

func (o *doctorOptions) runDoctor(cmd *cobra.Command, version string) error {
	done := showProgress(cmd, "reading the cluster and querying its nodes")
	s, err := o.takeSurvey(cmd.Context(),
		collector.Scope{AllShards: true, Sync: true, PlanInspections: questionsToAllNodes})
	done()
	if err != nil {
		return err
	}
	report := newDoctorReport(s, version)
	if o.bundlePath != "" {
		if err := writeBundle(o.bundlePath, s, report); err != nil {
			return fmt.Errorf("write %s: %w", o.bundlePath, err)
		}
	}
	shown := report
	shown.Findings = slices.DeleteFunc(slices.Clone(report.Findings), func(f diagnosis.Finding) bool {
		return f.Severity < o.minSeverity
	})
	if err := o.printResult(cmd, shown, shown.printText); err != nil {
		return err
	}
	return report.exitError()
}

// questionsToAllNodes returns all inspections of all nodes.
func questionsToAllNodes(s *clusterstate.State) []kubedcv1alpha1.InspectionSpec {
	return diagnosis.PlanInspections(s, diagnosis.InspectionScope{Ports: true})
}

// doctorReport is the output of doctor.
type doctorReport struct {
	Cluster  string              `json:"cluster"`
	Taken    time.Time           `json:"taken"`
	Checked  checkSummary        `json:"checked"`
	Findings []diagnosis.Finding `json:"findings"`
}

// checkSummary counts what was checked.
type checkSummary struct {
	Sallyport     string `json:"sallyport"`
	Kubernetes    string `json:"kubernetes,omitempty"`
	KubeOVN       string `json:"kubeOVN,omitempty"`
	OVN           string `json:"ovn,omitempty"`
	FindingCodes  int    `json:"kinds"` // number of finding codes
	Projects      int    `json:"projects"`
	Objects       int    `json:"objects"`
	Nodes         int    `json:"nodes"`
	AnsweredNodes int    `json:"answered"`
	Unasked       bool   `json:"unasked,omitempty"` // the data has no answers of nodes
}

func newDoctorReport(s *clusterstate.State, version string) doctorReport {
	c := s.Cluster
	r := doctorReport{Cluster: c.Name, Taken: s.Taken, Findings: diagnosis.CheckCluster(s), Checked: checkSummary{
		Sallyport: version, Kubernetes: c.Version, KubeOVN: c.KubeOVN, OVN: s.Logical.NorthdVersion(),
		FindingCodes: len(diagnosis.Codes),
		Projects:     len(c.Projects), Objects: len(c.EIps) + len(c.FIps) + len(c.Services) + len(c.EgressIPs) +
			len(c.EgressServices) + len(c.EgressRoutes),
		Nodes: len(c.Nodes),
	}}
	r.Checked.Unasked = len(s.Inspected) == 0 && len(c.Nodes) > 0
	for _, i := range s.Inspected {
		if i.Problem == "" {
			r.Checked.AnsweredNodes++
		}
	}
	return r
}

func (r doctorReport) countSeverity(s diagnosis.Severity) (n int) {
	for _, f := range r.Findings {
		if f.Severity == s {
			n++
		}
	}
	return n
}

// exitError returns the exit status for the findings: 2 with errors, 1 with warnings, else none.
func (r doctorReport) exitError() error {
	switch {
	case r.countSeverity(diagnosis.Error) > 0:
		return exitStatus(2)
	case r.countSeverity(diagnosis.Warning) > 0:
		return exitStatus(1)
	default:
		return nil
	}
}

// maxFindingsPerCode limits the printed findings of one code.
const maxFindingsPerCode = 10

// printText prints the findings, grouped by code, and a summary.
func (r doctorReport) printText(w io.Writer, c colorizer) error {
	dye := map[diagnosis.Severity]func(string) string{
		diagnosis.Error:   c.red,
		diagnosis.Warning: c.yellow,
		diagnosis.Info:    c.faint,
	}
	for rest := r.Findings; len(rest) > 0; {
		first := rest[0]
		same := func(f diagnosis.Finding) bool {
			return f.Code == first.Code && f.Severity == first.Severity && f.Remediation == first.Remediation
		}
		end := slices.IndexFunc(rest, func(f diagnosis.Finding) bool { return !same(f) })
		if end < 0 {
			end = len(rest)
		}
		fmt.Fprintf(w, "%s %s\n", dye[first.Severity](strings.ToUpper(first.Severity.String())), c.bold(first.Code))
		for i, f := range rest[:end] {
			if i == maxFindingsPerCode {
				fmt.Fprintf(w, "  … and %d more\n", end-maxFindingsPerCode)
				break
			}
			fmt.Fprintf(w, "  %s\n", f.Message)
		}
		fmt.Fprintf(w, "  → %s\n\n", first.Remediation)
		rest = rest[end:]
	}
	_, err := fmt.Fprintln(w, r.summarize())
	return err
}

// summarize returns one line with the number of findings and what was checked.
func (r doctorReport) summarize() string {
	var found []string
	for _, s := range []diagnosis.Severity{diagnosis.Error, diagnosis.Warning, diagnosis.Info} {
		if n := r.countSeverity(s); n > 0 {
			found = append(found, fmt.Sprintf("%d %s", n, pluralize(s.String(), n)))
		}
	}
	result := "nothing is wrong"
	if r.Checked.Unasked {
		result = "nothing is wrong in the data; nodes were not asked"
	}
	if len(found) > 0 {
		result = strings.Join(found, ", ")
	}
	k := r.Checked
	checked := fmt.Sprintf(
		"checked for %d kinds of faults in %d %s, %d addresses and Services, and %d %s, of which %d answered",
		k.FindingCodes, k.Projects, pluralize("project", k.Projects), k.Objects, k.Nodes, pluralize("node", k.Nodes),
		k.AnsweredNodes)
	for _, v := range []struct {
		name, version string
	}{{"Kubernetes", strings.TrimPrefix(k.Kubernetes, "v")}, {"Kube-OVN", k.KubeOVN}, {"OVN", k.OVN}} {
		if v.version != "" {
			checked += "; " + v.name + " " + v.version
		}
	}
	return result + ": " + checked
}

func pluralize(word string, n int) string {
	if n == 1 {
		return word
	}
	return word + "s"
}
