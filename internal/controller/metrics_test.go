package controller

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the reference page")

const metricsPage = "../../docs/reference/metrics.md"

func TestReferencePageHasEveryMetric(t *testing.T) {
	var page strings.Builder
	page.WriteString("# Metrics\n\nOn `/metrics` of the controller, port 8080 unless `--metrics-address` says otherwise, besides those of Go and of\n" +
		"controller-runtime. `make golden` writes this page from the list in `internal/controller/metrics.go`.\n\n" +
		"`sallyport-agent` serves none: what it does on its node is in the status of its NodePath, and the controller counts that. So nodes need\n" +
		"no further port. What to be woken up for: [alerts](alerts.md).\n\n" +
		"| name | kind | labels | |\n|---|---|---|---|\n")
	for _, m := range Metrics {
		fmt.Fprintf(&page, "| `%s` | %s | %s | %s |\n", m.Name, m.Kind, m.Labels, m.Help)
	}
	if *update {
		if err := os.WriteFile(metricsPage, []byte(page.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	is, err := os.ReadFile(metricsPage)
	if err != nil {
		t.Fatal(err)
	}
	if string(is) != page.String() {
		t.Errorf("%s is not what the list of metrics gives; run make golden", metricsPage)
	}
}
