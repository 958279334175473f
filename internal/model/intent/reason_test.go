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

// conditionDocs is what each condition says when it is true. An object has the last one only while it is being deleted.
var conditionDocs = []struct{ condition, means string }{
	{"Accepted", "We took the object. When it is false, the object has no effect: what it had written is removed."},
	{"ResolvedRefs", "What the object names exists. When it is false, the object has no effect until that is there."},
	{"Programmed", "Everything that the object asks for was seen in Kubernetes and in the OVN northbound database. It is not set because something was sent."},
	{"HasEndpoints", "Only on a Service: an endpoint is ready, or ends and still serves. When it is false, connections are refused."},
	{"ReturnPath", "Only on an ExternalNetwork: how replies find back to it, in `status.returnPath` as well. When it is false, not as was asked for."},
	{"NetworkAllowed", "Only there, and false, while an object has an address of a network that is not for its project any more."},
	{"Event", "Not a condition: events that say something which is not wrong with the object itself."},
	{"Undisturbed", "Of NodePaths: nobody else takes away what is ours on the node."},
	{"Isolated", "Only on a Project; only there, and false, while a pod is on a network where it does not belong. See [what isolates projects](../concepts/isolation.md)."},
	{"Deletable", "Only there, and false, while a deletion waits. It says for what."},
}

// conditionsPage is the reference page.
func conditionsPage() string {
	var out strings.Builder
	out.WriteString("# Conditions and their reasons\n\n" +
		"Project, EIp and FIp have the conditions below, and ExternalNetwork those of them that apply. The message of a condition that is\n" +
		"false names the cause and the next step; events have the same reasons. `make golden` writes this page from the list in\n" +
		"`internal/model/intent/reason.go`.\n")
	for _, a := range conditionDocs {
		fmt.Fprintf(&out, "\n## %s\n\n%s\n\n| reason | means | what to do |\n|---|---|---|\n", a.condition, a.means)
		for _, r := range Reasons {
			if r.Condition == a.condition {
				fmt.Fprintf(&out, "| `%s` | %s | %s |\n", r.Reason, r.Meaning, r.Remedy)
			}
		}
	}
	return out.String()
}

func TestReferencePageHasEveryReason(t *testing.T) {
	page.Check(t, "../../../docs/reference/conditions.md", conditionsPage())
}

// A reason is a word in CamelCase, which the API server checks, and stands once on the page.
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

// reasonConstants are the exported string constants of reason.go.
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
