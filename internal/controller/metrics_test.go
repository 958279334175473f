package controller

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/test/page"
)

func TestReferencePageHasEveryMetric(t *testing.T) {
	var text strings.Builder
	text.WriteString("# Metrics\n\nOn `/metrics` of the controller, port 8080 unless `--metrics-address` says otherwise, besides those of Go and of\n" +
		"controller-runtime. `make golden` writes this page from the list in `internal/controller/metrics.go`.\n\n" +
		"`sallyport-agent` serves none: what it does on its node is in the status of its NodePath, and the controller counts that. So nodes need\n" +
		"no further port. What to be woken up for: [alerts](alerts.md).\n\n" +
		"| name | kind | labels | |\n|---|---|---|---|\n")
	for _, m := range Metrics {
		fmt.Fprintf(&text, "| `%s` | %s | %s | %s |\n", m.Name, m.Kind, m.Labels, m.Help)
	}
	page.Check(t, "../../docs/reference/metrics.md", text.String())
}
