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

// doctorOptions is the flags of doctor.
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
		Short: "Find out what is wrong with the cluster, and what to do about it",
		Long: `Find out what is wrong with the cluster, and what to do about it.

Everything is read once: Kubernetes, OVN's databases, what differs from what is
asked for. Northd and all chassis are asked for a sign of life, and every node,
through sallyport-agent, for its interfaces, settings, and who answers on its
wires. What each finding means: docs/reference/findings.md.

It ends with 0 when nothing is wrong, with 1 when there are warnings, with 2
when there are errors. Infos do not count.

With --bundle, what was read and found is written to an archive for somebody
else to look at, who can give it to every command with --survey. There are no
Secrets, tokens or keys in it; there are names and addresses.`,
		Example: `  sallyport doctor                          everything
  sallyport doctor --severity error         only what does not work
  sallyport doctor --bundle support.tar.gz  for somebody else`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.runDoctor(cmd, version) },
	}
	o.addFlags(cmd)
	o.addFlag(cmd)
	cmd.Flags().TextVar(&o.minSeverity, "severity", diagnosis.Info,
		"print what is at least so bad: info, warning or error")
	cmd.Flags().StringVar(&o.bundlePath, "bundle", "", "file for an archive (tar.gz) of what was read and found")
	return cmd
}

func (o *doctorOptions) runDoctor(cmd *cobra.Command, version string) error {
	done := showProgress(cmd, "reading the cluster and asking its nodes")
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

// questionsToAllNodes are the questions of a doctor: to all nodes, about everything.
func questionsToAllNodes(s *clusterstate.State) []kubedcv1alpha1.InspectionSpec {
	return diagnosis.PlanInspections(s, diagnosis.InspectionScope{})
}

// doctorReport is what a doctor says.
type doctorReport struct {
	Cluster  string              `json:"cluster"`
	Taken    time.Time           `json:"taken"`
	Checked  checkSummary        `json:"checked"`
	Findings []diagnosis.Finding `json:"findings"`
}

// checkSummary is what was looked at.
type checkSummary struct {
	Sallyport     string `json:"sallyport"`
	Kubernetes    string `json:"kubernetes,omitempty"`
	KubeOVN       string `json:"kubeOVN,omitempty"`
	OVN           string `json:"ovn,omitempty"`
	FindingCodes  int    `json:"kinds"` // of findings
	Projects      int    `json:"projects"`
	Objects       int    `json:"objects"`
	Nodes         int    `json:"nodes"`
	AnsweredNodes int    `json:"answered"`
}

func newDoctorReport(s *clusterstate.State, version string) doctorReport {
	c := s.Cluster
	r := doctorReport{Cluster: c.Name, Taken: s.Taken, Findings: diagnosis.CheckCluster(s), Checked: checkSummary{
		Sallyport: version, Kubernetes: c.Version, KubeOVN: c.KubeOVN, OVN: s.Logical.Options["northd_internal_version"],
		FindingCodes: len(diagnosis.Codes),
		Projects:     len(c.Projects), Objects: len(c.EIps) + len(c.FIps) + len(c.Services) + len(c.EgressIPs) +
			len(c.EgressServices) + len(c.EgressRoutes),
		Nodes: len(c.Nodes),
	}}
	for _, i := range s.Inspected {
		if i.Problem == "" {
			r.Checked.AnsweredNodes++
		}
	}
	return r
}

// countSeverity is how many findings are of a severity.
func (r doctorReport) countSeverity(s diagnosis.Severity) (n int) {
	for _, f := range r.Findings {
		if f.Severity == s {
			n++
		}
	}
	return n
}

// exitError is with what a doctor ends.
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

// maxFindingsPerCode is how many findings of one code are printed.
const maxFindingsPerCode = 10

// printText prints the findings, those of one code together, and what was looked at.
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

// summarize is how it went, and what was looked at.
func (r doctorReport) summarize() string {
	var found []string
	for _, s := range []diagnosis.Severity{diagnosis.Error, diagnosis.Warning, diagnosis.Info} {
		if n := r.countSeverity(s); n > 0 {
			found = append(found, fmt.Sprintf("%d %s", n, pluralize(s.String(), n)))
		}
	}
	said := "nothing is wrong"
	if len(found) > 0 {
		said = strings.Join(found, ", ")
	}
	k := r.Checked
	looked := fmt.Sprintf("looked for %d kinds of faults in %d projects, %d addresses and Services, and %d nodes, of which %d answered",
		k.FindingCodes, k.Projects, k.Objects, k.Nodes, k.AnsweredNodes)
	for _, v := range []struct {
		name, version string
	}{{"Kubernetes", strings.TrimPrefix(k.Kubernetes, "v")}, {"Kube-OVN", k.KubeOVN}, {"OVN", k.OVN}} {
		if v.version != "" {
			looked += "; " + v.name + " " + v.version
		}
	}
	return said + ": " + looked
}

func pluralize(word string, n int) string {
	if n == 1 {
		return word
	}
	return word + "s"
}
