// Package monitoring is what the alerts and the dashboard of the chart promise.
package monitoring

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/sallyport/sallyport/internal/cli"
	"github.com/sallyport/sallyport/internal/controller"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/test/page"
)

const (
	alertsFile = "../../charts/sallyport/monitoring/alerts.yaml"
	runbookURL = "https://github.com/sallyport/sallyport/blob/main/docs/reference/alerts.md#"
)

// alert is one rule of the file.
type alert struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for,omitempty"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

func readFile(t *testing.T, file string) string {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func loadAlerts(t *testing.T) []alert {
	t.Helper()
	var file struct {
		Groups []struct {
			Name  string  `json:"name"`
			Rules []alert `json:"rules"`
		} `json:"groups"`
	}
	if err := yaml.UnmarshalStrict([]byte(readFile(t, alertsFile)), &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Groups) != 1 || len(file.Groups[0].Rules) < 15 {
		t.Fatalf("%s has not the alerts that it should have", alertsFile)
	}
	return file.Groups[0].Rules
}

// Whoever is woken up is told what has happened, why, and what to do.
func TestAlertsSayWhatToDo(t *testing.T) {
	seen := map[string]bool{}
	for _, a := range loadAlerts(t) {
		if !strings.HasPrefix(a.Alert, "Sallyport") || seen[a.Alert] {
			t.Errorf("%s: another name", a.Alert)
		}
		seen[a.Alert] = true
		for _, note := range []string{"summary", "cause", "cure"} {
			if said := a.Annotations[note]; !strings.HasSuffix(said, ".") || strings.Contains(said, "\n") {
				t.Errorf("%s: its %s is no sentence: %q", a.Alert, note, said)
			}
		}
		if wrong := checkRemedyCommand(a.Annotations["cure"]); wrong != "" {
			t.Errorf("%s: its cure %s", a.Alert, wrong)
		}
		if want := runbookURL + strings.ToLower(a.Alert); a.Annotations["runbook_url"] != want {
			t.Errorf("%s: runbook_url is %q, want %q", a.Alert, a.Annotations["runbook_url"], want)
		}
		if s := a.Labels["severity"]; s != "critical" && s != "warning" {
			t.Errorf("%s: severity %q", a.Alert, s)
		}
	}
}

var commandPattern = regexp.MustCompile(`\bsallyport ([a-z]+)`)

// checkRemedyCommand says what is wrong with a cure that should name a command to begin with.
func checkRemedyCommand(cure string) string {
	commands := commandPattern.FindAllStringSubmatch(cure, -1)
	if len(commands) == 0 {
		return "names no command of sallyport to begin with"
	}
	for _, c := range commands {
		if cmd, _, err := cli.New("test").Find(c[1:]); err != nil || cmd.Name() != c[1] {
			return "names a command that there is not: " + c[0]
		}
	}
	return ""
}

func TestUncommandedCuresAreSeen(t *testing.T) {
	for cure, ok := range map[string]bool{
		"Look at sallyport status.":  true,
		"Look at sallyport weather.": false,
		"Look at the log.":           false,
	} {
		if wrong := checkRemedyCommand(cure); (wrong == "") != ok {
			t.Errorf("%q: %q", cure, wrong)
		}
	}
}

// An expression over a metric that nobody serves is never true, and nobody notices.
func TestAlertsAskForWhatThereIs(t *testing.T) {
	for _, a := range loadAlerts(t) {
		for _, wrong := range findQueryMistakes(a.Expr) {
			t.Errorf("%s: %s", a.Alert, wrong)
		}
	}
	for expression, word := range map[string]string{
		`sallyport_shards_waitin > 0`:                                     "sallyport_shards_waitin",
		`sallyport_objects{conditions="Programmed"}`:                      "conditions",
		`sallyport_objects{reason=~"PoolExhausted|PoolFull"}`:             "PoolFull",
		`sum by (kinds) (sallyport_objects)`:                              "kinds",
		`sum by (le) (rate(sallyport_shard_runs_total_bucket[5m]))`:       "sallyport_shard_runs_total_bucket",
		`sallyport_pool_addresses{state="free"} / sallyport_pool_address`: "sallyport_pool_address",
	} {
		if found := findQueryMistakes(expression); len(found) != 1 || !strings.Contains(found[0], word) {
			t.Errorf("%s: found %q, wanted one mistake about %s", expression, found, word)
		}
	}
}

var (
	metricName = regexp.MustCompile(`\bsallyport_\w+`)
	selector   = regexp.MustCompile(`(\bsallyport_\w+)\{([^}]*)\}`)
	matcher    = regexp.MustCompile(`(\w+)(?:=~|!~|!=|=)"([^"]*)"`)
	grouping   = regexp.MustCompile(`\b(?:by|on|group_left) \(([^)]*)\)`)
)

// scrapeLabels are the labels that Prometheus itself adds, or that a histogram has.
var scrapeLabels = []string{"instance", "job", "namespace", "pod", "le"}

// findQueryMistakes are the metrics, labels and values of an expression that do not exist.
func findQueryMistakes(expression string) (out []string) {
	labels := slices.Clone(scrapeLabels)
	for _, name := range metricName.FindAllString(expression, -1) {
		m, exists := findMetric(name)
		if !exists {
			out = append(out, "there is no metric "+name)
		}
		labels = append(labels, strings.Split(m.Labels, ", ")...)
	}
	for _, s := range selector.FindAllStringSubmatch(expression, -1) {
		out = append(out, findMatcherMistakes(s[1], s[2])...)
	}
	for _, g := range grouping.FindAllStringSubmatch(expression, -1) {
		for label := range strings.SplitSeq(g[1], ", ") {
			if !slices.Contains(labels, label) {
				out = append(out, "nothing there has a label "+label)
			}
		}
	}
	return out
}

// findMatcherMistakes are the labels and values by which a metric is chosen, and that it can't have.
func findMatcherMistakes(name, chosen string) (out []string) {
	m, _ := findMetric(name)
	for _, l := range matcher.FindAllStringSubmatch(chosen, -1) {
		if !slices.Contains(strings.Split(m.Labels, ", "), l[1]) {
			out = append(out, fmt.Sprintf("%s has no label %s", name, l[1]))
		}
		for value := range strings.SplitSeq(l[2], "|") {
			if known, limited := knownLabelValues(l[1]); limited && !slices.Contains(known, value) {
				out = append(out, fmt.Sprintf("there is no %s %s", l[1], value))
			}
		}
	}
	return out
}

// findMetric is the metric that a name of a series belongs to: a histogram has several.
func findMetric(name string) (controller.Metric, bool) {
	for _, m := range controller.Metrics {
		parts := []string{""}
		if m.Kind == "histogram" {
			parts = []string{"_bucket", "_sum", "_count"}
		}
		for _, part := range parts {
			if m.Name+part == name {
				return m, true
			}
		}
	}
	return controller.Metric{}, false
}

// knownLabelValues are those that a label can have, where that is limited.
func knownLabelValues(label string) (out []string, limited bool) {
	switch label {
	case "reason":
		for _, r := range intent.Reasons {
			out = append(out, r.Reason)
		}
	case "condition":
		for _, r := range intent.Reasons {
			out = append(out, r.Condition)
		}
	case "kind":
		for _, k := range intent.Kinds {
			out = append(out, string(k))
		}
	case "status":
		out = []string{"True", "False"}
	case "state":
		out = []string{"free", "used", "works", "fails", "waits"}
	}
	return out, out != nil
}

// formatAlertReference is the reference of alerts.
func formatAlertReference(list []alert) string {
	var out strings.Builder
	out.WriteString("# Alerts\n\n" +
		"The chart installs these alerts with `metrics.prometheusRule.enabled`. For a Prometheus without the operator, use the file\n" +
		"[charts/sallyport/monitoring/alerts.yaml](../../charts/sallyport/monitoring/alerts.yaml). `make golden` generates this\n" +
		"page from it. `make monitoring-check` checks for each alert that it fires when it should, and only then.\n\n" +
		"A critical alert justifies waking someone up: addresses do not answer, or will not after the next failure. No alert is\n" +
		"about mistakes of tenants; the conditions of their objects report those.\n\n" +
		"| alert | severity | after |\n|---|---|---|\n")
	for _, a := range list {
		after := "immediately"
		if a.For != "" {
			after = a.For
		}
		fmt.Fprintf(&out, "| [%s](#%s) | %s | %s |\n", a.Alert, strings.ToLower(a.Alert), a.Labels["severity"], after)
	}
	for _, a := range list {
		fmt.Fprintf(&out, "\n## %s\n\n%s\n\n**Why:** %s\n\n**What to do:** %s\n\n```promql\n%s\n```\n",
			a.Alert, replacePlaceholders(a.Annotations["summary"]), a.Annotations["cause"], a.Annotations["cure"],
			a.Expr)
	}
	return out.String()
}

var placeholderPattern = regexp.MustCompile(`\{\{ \$(?:labels\.)?(\w+)[^}]*\}\}`)

// replacePlaceholders is a summary with the names of labels in the place of their values.
func replacePlaceholders(summary string) string {
	return placeholderPattern.ReplaceAllStringFunc(summary, func(p string) string {
		name := placeholderPattern.FindStringSubmatch(p)[1]
		if name == "value" {
			return "*N*"
		}
		return "*" + strings.ToUpper(name) + "*"
	})
}

func TestReferencePageHasEveryAlert(t *testing.T) {
	page.Check(t, "../../docs/reference/alerts.md", formatAlertReference(loadAlerts(t)))
}
