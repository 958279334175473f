package view

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/internal/insight/diagnosis"
	"github.com/sallyport/sallyport/internal/insight/trace"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/page"
)

// TestViewFaultsPage checks that the page of faults has every fault, and that each has a documented code.
func TestViewFaultsPage(t *testing.T) {
	known := map[string]bool{}
	for _, c := range diagnosis.Codes {
		known[c.Name] = true
	}
	for _, c := range trace.Codes {
		known[c.Name] = true
	}
	for _, r := range intent.Reasons {
		known[r.Reason] = true
	}
	seen := map[string]bool{}
	for _, f := range allFaults() {
		if !known[f.wantCode] || seen[f.what] {
			t.Errorf("%s: %s is no code, or the fault is there twice", f.what, f.wantCode)
		}
		seen[f.what] = true
	}
	if len(seen) < 40 {
		t.Errorf("%d faults are fewer than 40", len(seen))
	}
	page.Check(t, harness.ReferenceDir+"faults.md", faultsPage(t))
}

// faultsPage returns the catalogue as a page.
func faultsPage(t *testing.T) string {
	t.Helper()
	names := placeholders(harness.LoadTopology(t, faultTopology))
	objects := strings.NewReplacer("Cluster", "the cluster", "Node {holder}", "the node that holds the gateway")
	var out strings.Builder
	fmt.Fprintf(&out, `# Faults

%d faults that `+"`make show-view`"+` injects into a lab, one after the other, and for each the one command that somebody types who has noticed it, with what
it names first. Where the address can be asked, packets show before that the fault is felt. The same commands find nothing in the lab as long as
it is well. What the codes mean: [findings](findings.md), [conditions](conditions.md). `+"`make golden`"+` writes this page from
`+"`test/e2e/view`"+`.

There, %s is the address of a Service, %s that of a floating IP, and %s a client outside.
`, len(allFaults()), shopAddress, deskAddress, harness.InternetAddress)
	for _, c := range faultChapters {
		fmt.Fprintf(&out, "\n## %s\n\n| fault | command | names |\n|---|---|---|\n", c.title)
		for _, f := range c.faults {
			fmt.Fprintf(&out, "| %s | `sallyport %s` | `%s` %s |\n", f.what, names.Replace(f.command), f.wantCode,
				objects.Replace(f.wantAbout))
		}
	}
	return out.String()
}
