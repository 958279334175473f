package harness

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/lab/parts"
)

// ExpectContains fails the test unless a text contains all given words.
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

// LabPage is the file name of the how-to of the lab.
const LabPage = "lab.md"

// CodeBlock is a code block of a page that readers execute: YAML to apply, or commands. Blocks of other kinds are only
// displayed.
type CodeBlock struct{ Kind, Text string }

var codeBlockPattern = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```")

// RepositoryRoot is the root of the repository, and pages is the directory of the how-tos.
const (
	RepositoryRoot = "../../.."
	HowtoDir       = RepositoryRoot + "/docs/howto/"
)

// ExecutableBlocks returns the blocks of a page that readers execute.
func ExecutableBlocks(page string) (out []CodeBlock) {
	for _, m := range codeBlockPattern.FindAllStringSubmatch(page, -1) {
		if b := (CodeBlock{m[1], m[2]}); b.Kind == "" || b.Kind == "yaml" {
			out = append(out, b)
		}
	}
	return out
}

// SectionBlocks returns all code blocks of a section of a page, also those that are only displayed.
func SectionBlocks(t *testing.T, page, heading string) (out []string) {
	t.Helper()
	_, section, found := strings.Cut(page, "\n## "+heading+"\n")
	if !found {
		t.Fatalf("the page has no section %q", heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	for _, m := range codeBlockPattern.FindAllStringSubmatch(section, -1) {
		out = append(out, m[2])
	}
	return out
}

// HelmDir returns the directory of the helm that `make chart` has built.
func HelmDir(t *testing.T) string {
	t.Helper()
	cache, err := parts.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	built, err := filepath.Glob(filepath.Join(cache, "helm-*/helm"))
	if err != nil || len(built) == 0 {
		t.Fatalf("there is no helm; run make chart (%v)", err)
	}
	return filepath.Dir(built[len(built)-1])
}

// fileBlockPattern matches the first line of a manifest or topology that belongs in a file; it contains the file name.
var fileBlockPattern = regexp.MustCompile(`^# (?:topology: )?([-a-z]+\.yaml)\n`)

// ScriptFromBlocks converts blocks to commands: blocks with a file name are written to that file, other manifests are
// applied.
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

// ShellEnv returns the environment of somebody who types commands for a lab, with the directories before PATH.
func (c *Cluster) ShellEnv(t *testing.T, dirs ...string) []string {
	t.Helper()
	bin, err := filepath.Abs(RepositoryRoot + "/bin")
	if err != nil {
		t.Fatal(err)
	}
	cache, err := parts.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	path := strings.Join(append([]string{bin}, append(dirs, os.Getenv("PATH"))...), ":")
	return append(os.Environ(), "SALLYPORT_LAB="+c.Name, "SALLYPORT_CACHE="+cache, "PATH="+path)
}

// RunBash runs commands until one fails, and returns their output.
func RunBash(t *testing.T, dir string, env []string, commands string) string {
	t.Helper()
	runBesideOthers(t)
	cmd := exec.CommandContext(Within(t, 5*time.Minute), "bash", "-c", "set -euo pipefail\n"+commands)
	cmd.Dir, cmd.Env = dir, env
	cmd.WaitDelay = 5 * time.Second // for child processes that still hold the output open
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}
