package loadbalancer

import (
	"fmt"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/page"
)

// TestBalancer2Conformance checks that each behaviour that Kubernetes' own tests require of Services is shown by one of
// our tests or has a reason why not.
func TestBalancer2Conformance(t *testing.T) {
	item := balancerItems.Item(t, 2)
	known := harness.TestNames(t)
	for name := range featureNames() {
		known[name] = true
	}
	var found harness.Conformance
	for _, group := range behaviours {
		for _, b := range group.list {
			found.Check(t, b.requirement(), known)
		}
	}
	page.Check(t, harness.ReferenceDir+"service-conformance.md", conformancePage())
	item.AddFigure("%d behaviours of %d files: %d shown by tests, %d do not apply, %d are not built or not shown, with the reason",
		found.All, len(behaviours), found.Shown, found.All-found.Shown-found.Missing, found.Missing)
}

// TestBalancerDocs checks that the page of load balancers contains every feature.
func TestBalancerDocs(t *testing.T) {
	names := featureNames()
	if len(names) != len(features)+len(managementFeatures) {
		t.Errorf("%d features have %d names", len(features)+len(managementFeatures), len(names))
	}
	page.Check(t, harness.ReferenceDir+"load-balancers.md", featuresPage())
}

func (b behaviour) requirement() harness.Requirement {
	return harness.Requirement{What: b.what, ShownBy: b.shownBy, Why: b.why}
}

// functionAndFile returns the function that shows a feature, and its file.
func (f feature) functionAndFile() (name, file string) {
	function := runtime.FuncForPC(reflect.ValueOf(f.run).Pointer())
	full := function.Name()
	file, _ = function.FileLine(function.Entry())
	return full[strings.LastIndex(full, ".")+1:], filepath.Base(file)
}

func featureNames() map[string]bool {
	out := map[string]bool{}
	for _, f := range slices.Concat(features, managementFeatures) {
		name, _ := f.functionAndFile()
		out[name] = true
	}
	return out
}

// conformancePage returns the page of behaviours. The page of load balancers explains the names.
func conformancePage() string {
	var out strings.Builder
	out.WriteString(conformanceIntro)
	for _, group := range behaviours {
		fmt.Fprintf(&out, "\n## %s\n\n| behaviour | shown by | or why not |\n|---|---|---|\n", group.file)
		for _, b := range group.list {
			var names []string
			for _, name := range b.requirement().Names() {
				names = append(names, "`"+name+"`")
			}
			fmt.Fprintf(&out, "| %s | %s | %s |\n", b.what, strings.Join(names, ", "), b.why)
		}
	}
	return out.String()
}

// featuresPage returns the page of load balancers.
func featuresPage() string {
	var out strings.Builder
	out.WriteString(balancersIntro)
	for _, f := range slices.Concat(features, managementFeatures) {
		name, file := f.functionAndFile()
		fmt.Fprintf(&out, "| %s | %s | [`%s`](../../test/e2e/loadbalancer/%s) |\n", f.what, f.how, name, file)
	}
	return out.String()
}
