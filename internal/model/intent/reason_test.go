package intent

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/test/page"
)

// conditionDocs is the meaning of each condition when it is true. An object has the last one only while it is being
// deleted.
var conditionDocs = []struct{ condition, means string }{
	{"Accepted", "The object is valid and allowed. If false, the object has no effect, and everything that was written for it is deleted."},
	{"ResolvedRefs", "Everything that the object refers to exists. If false, the object has no effect until it does."},
	{"Programmed", "Everything that the object requests was observed in Kubernetes and in the OVN northbound database. A write alone does not make it true."},
	{"HasEndpoints", "Only on Services: an endpoint is ready, or is terminating and still serving. If false, connections are refused."},
	{"ReturnPath", "Only on ExternalNetworks: the return path mode in use, also in `status.returnPath`. If false, it is not the requested one."},
	{"NetworkAllowed", "Present, and false, only while an object has an address of a network that its project may no longer use."},
	{"Event", "Not a condition: reasons of events that do not report a problem of the object itself."},
	{"Undisturbed", "Only on NodePaths: no other program removes Sallyport's configuration on the node."},
	{"Isolated", "Only on Projects. Present, and false, only while a pod is on a network where it does not belong. See [what isolates projects](../concepts/isolation.md)."},
	{"Deletable", "Present, and false, only while a deletion is blocked. The message has the cause."},
}

// conditionsPage renders the reference page.
func conditionsPage() string {
	var out strings.Builder
	out.WriteString("# Conditions and their reasons\n\n" +
		"Project, EIp and FIp have the conditions below; other kinds have those that apply. The message of a false condition\n" +
		"names the cause and the next step. Events have the same reasons. `make golden` generates this page from the list in\n" +
		"`internal/model/intent/reason.go`.\n")
	for _, a := range conditionDocs {
		fmt.Fprintf(&out, "\n## %s\n\n%s\n\n| reason | means | what to do |\n|---|---|---|\n", a.condition, a.means)
		for _, r := range Reasons {
			if r.Condition == a.condition {
				fmt.Fprintf(&out, "| %s`%s` | %s | %s |\n", page.Anchor(r.Reason), r.Reason, r.Meaning, r.Remedy)
			}
		}
	}
	return out.String()
}

func TestReferencePageHasEveryReason(t *testing.T) {
	page.Check(t, "../../../docs/reference/conditions.md", conditionsPage())
}

// A reason is in CamelCase, which the API server checks, and is documented once.
func TestReasonsAreDocumented(t *testing.T) {
	camel := regexp.MustCompile(`^[A-Z][A-Za-z]+$`)
	known := map[string]bool{}
	for _, a := range conditionDocs {
		known[a.condition] = true
	}
	seen := map[string]bool{}
	for _, r := range Reasons {
		if !camel.MatchString(r.Reason) || seen[r.Reason] {
			t.Errorf("%q is no reason, or stands there twice", r.Reason)
		}
		seen[r.Reason] = true
		if !known[r.Condition] || !strings.HasSuffix(r.Meaning, ".") || !strings.HasSuffix(r.Remedy, ".") {
			t.Errorf("%+v: the condition is one of the page, and what it means and what to do are sentences", r)
		}
		if ReasonMeaning(r.Reason) != r.Meaning {
			t.Errorf("%s means %q", r.Reason, ReasonMeaning(r.Reason))
		}
	}
	if ReasonMeaning("NoSuchReason") != "" {
		t.Error("a reason that does not exist means something")
	}
	for name, reason := range reasonConstants(t) {
		if !seen[reason] {
			t.Errorf("%s (%q) is not in Reasons", name, reason)
		}
	}
}

// reasonConstants returns the exported string constants of reason.go.
func reasonConstants(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "reason.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, isSpec := n.(*ast.ValueSpec)
		if !isSpec || len(spec.Values) != 1 || !spec.Names[0].IsExported() {
			return true
		}
		if text, isText := spec.Values[0].(*ast.BasicLit); isText && text.Kind == token.STRING {
			out[spec.Names[0].Name], err = strconv.Unquote(text.Value)
		}
		return err == nil
	})
	if err != nil || len(out) < 20 {
		t.Fatalf("found only %d reasons in reason.go: %v", len(out), err)
	}
	return out
}
