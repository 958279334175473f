package harness

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// ExpectContains fails the test unless a text has all of the given words.
func ExpectContains(t *testing.T, out string, words ...string) {
	t.Helper()
	for _, wanted := range words {
		if !strings.Contains(out, wanted) {
			t.Errorf("wanted %q in:\n%s", wanted, out)
		}
	}
}

// ReferenceDir is the directory of the generated pages.
const ReferenceDir = "../../../docs/reference/"

// TestNames are the tests of this package.
func TestNames(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob("../*/*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, isFunction := d.(*ast.FuncDecl); isFunction && f.Recv == nil &&
				strings.HasPrefix(f.Name.Name, "Test") {
				out[f.Name.Name] = true
			}
		}
	}
	return out
}

// LabPage is the how-to of the lab.
const LabPage = "lab.md"

// CodeBlock is a part of a page that a reader types in: YAML to apply, or commands. Text of another kind is only shown.
type CodeBlock struct{ Kind, Text string }

var codeBlockPattern = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```")

// RepositoryRoot is the repository, and pages is where how-tos are.
const (
	RepositoryRoot = "../../.."
	HowtoDir       = RepositoryRoot + "/docs/howto/"
)

// ExecutableBlocks are the blocks of a page that a reader types in.
func ExecutableBlocks(page string) (out []CodeBlock) {
	for _, m := range codeBlockPattern.FindAllStringSubmatch(page, -1) {
		if b := (CodeBlock{m[1], m[2]}); b.Kind == "" || b.Kind == "yaml" {
			out = append(out, b)
		}
	}
	return out
}

// fileBlockPattern is a manifest or topology that is to be kept in a file, as its first line says.
var fileBlockPattern = regexp.MustCompile(`^# (?:topology: )?([-a-z]+\.yaml)\n`)

// ScriptFromBlocks is blocks as commands: what is kept in a file is written, other manifests are applied.
func ScriptFromBlocks(list []CodeBlock) string {
	var out strings.Builder
	for _, b := range list {
		switch file := fileBlockPattern.FindStringSubmatch(b.Text); {
		case b.Kind == "":
			out.WriteString(b.Text)
		case file != nil:
			fmt.Fprintf(&out, "cat >%s <<'END-OF-FILE'\n%sEND-OF-FILE\n", file[1], b.Text)
		default:
			fmt.Fprintf(&out, "kubectl apply -f - <<'END-OF-FILE'\n%sEND-OF-FILE\n", b.Text)
		}
	}
	return out.String()
}

// RunBash runs commands until one fails, and returns what they printed.
func RunBash(t *testing.T, dir string, env []string, commands string) string {
	t.Helper()
	runBesideOthers(t)
	cmd := exec.CommandContext(Within(t, 5*time.Minute), "bash", "-c", "set -euo pipefail\n"+commands)
	cmd.Dir, cmd.Env = dir, env
	cmd.WaitDelay = 5 * time.Second // for what still holds the output
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}
