package diagnosis_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/internal/insight/diagnosis"
	"github.com/sallyport/sallyport/internal/insight/trace"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/test/page"
)

const findingsPage = "../../../docs/reference/findings.md"

func renderPage() string {
	var out strings.Builder
	out.WriteString("# Findings\n\n" +
		"`sallyport doctor` prints all findings; `explain` and `trace` print those about the object or path in\n" +
		"question. Each finding has a code, the affected objects, a message and a remedy. Failing conditions of\n" +
		"objects are reported under the condition's reason: [conditions](conditions.md).\n\n" +
		"An **error** means that something does not work. A **warning** means that something is going to fail, or\n" +
		"partly fails. An **info** is worth knowing. If one fault causes several findings, the one that explains the\n" +
		"others comes first. `make golden` writes this page from the list in\n" +
		"`internal/insight/diagnosis/codes.go`.\n")
	for _, area := range codeAreas() {
		fmt.Fprintf(&out, "\n## %s\n\n| code | severity | meaning | what to do |\n|---|---|---|---|\n", area)
		for _, c := range diagnosis.Codes {
			if c.Area == area {
				fmt.Fprintf(&out, "| %s`%s` | %s | %s | %s |\n", page.Anchor(c.Name), c.Name, c.Severity, c.Meaning, c.Remediation)
			}
		}
	}
	out.WriteString("\n## Paths of packets\n\nReasons why a path that `sallyport trace` follows fails.\n\n" +
		"| code | severity | meaning | what to do |\n|---|---|---|---|\n")
	for _, c := range trace.Codes {
		fmt.Fprintf(&out, "| %s`%s` | %s | %s | %s |\n", page.Anchor(c.Name), c.Name, diagnosis.Error, c.Meaning, c.Remediation)
	}
	return out.String()
}

func codeAreas() (out []string) {
	for _, c := range diagnosis.Codes {
		if !slices.Contains(out, c.Area) {
			out = append(out, c.Area)
		}
	}
	return out
}

func TestReferencePageHasEveryCode(t *testing.T) {
	page.Check(t, findingsPage, renderPage())
}

// The page explains what a finding links to.
func TestRunbook(t *testing.T) {
	for code, where := range map[string]string{
		diagnosis.LabelOverwritten: "findings.md#labeloverwritten",
		intent.PoolExhausted:       "conditions.md#poolexhausted",
	} {
		raw, err := json.Marshal(diagnosis.Finding{Code: code})
		if err != nil || !strings.Contains(string(raw), `"runbook":"`+page.RepositoryURL+"docs/reference/"+where+`"`) {
			t.Errorf("%s: %s, %v", code, raw, err)
		}
	}
}

// A code is one CamelCase word, is unique, and is not also the reason of a condition.
func TestCodesAreDocumented(t *testing.T) {
	camel := regexp.MustCompile(`^[A-Z][A-Za-z]+$`)
	seen := map[string]bool{}
	for _, c := range diagnosis.Codes {
		if !camel.MatchString(c.Name) || seen[c.Name] || intent.ReasonMeaning(c.Name) != "" {
			t.Errorf("%q is not CamelCase, is listed twice, or is a reason of a condition", c.Name)
		}
		seen[c.Name] = true
		if !strings.HasSuffix(c.Meaning, ".") || !strings.HasSuffix(c.Remediation, ".") &&
			!strings.HasSuffix(c.Remediation, "?") {
			t.Errorf("%s: meaning and remedy must be sentences", c.Name)
		}
	}
	for _, c := range trace.Codes {
		if seen[c.Name] {
			t.Errorf("%s is a code of a check, too", c.Name)
		}
	}
	for name, code := range exportedCodes(t) {
		if !seen[code] {
			t.Errorf("%s (%q) is not in Codes", name, code)
		}
	}
}

// exportedCodes returns the exported string constants of codes.go.
func exportedCodes(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "codes.go", nil, 0)
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
			out[spec.Names[0].Name] = strings.Trim(text.Value, `"`)
		}
		return true
	})
	if len(out) < 40 {
		t.Fatalf("found only %d codes in codes.go", len(out))
	}
	return out
}
