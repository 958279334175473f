package architecture

import (
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A package that is named after nothing in particular collects everything.
var vagueName = regexp.MustCompile(`^(utils?|commons?|helpers?|misc|types?|shared)(_test)?$`)

func TestPackagesAreNouns(t *testing.T) {
	for _, u := range parseTree(t) {
		name := u.files[0].file.Name.Name
		if vagueName.MatchString(name) || vagueName.MatchString(path.Base(u.dir)) {
			t.Errorf("%s: package %s says nothing about what is in it; name the noun", u.dir, name)
		}
	}
}

func TestPackagesAreDescribed(t *testing.T) {
	for _, u := range parseTree(t) {
		if err := checkDescription(u); err != nil {
			t.Errorf("%s: %v", u.dir, err)
		}
	}
}

// checkDescription checks the sentence that every package begins with: "Package x reads …." or "Command x runs ….".
func checkDescription(u packageDir) error {
	var docs []string
	name := u.files[0].file.Name.Name
	for _, s := range u.files {
		if text := s.file.Doc.Text(); text != "" {
			docs = append(docs, text)
		}
	}
	name = strings.TrimSuffix(name, "_test")
	want := "Package " + name + " "
	if name == "main" {
		want = "Command " + path.Base(u.dir) + " "
	}
	if len(docs) != 1 {
		return fmt.Errorf("%d files have a package comment, one should, beginning %q", len(docs), want)
	}
	first, _, _ := strings.Cut(docs[0], "\n\n")
	verb, _, _ := strings.Cut(strings.TrimPrefix(first, want), " ")
	if !strings.HasPrefix(first, want) || !strings.HasSuffix(verb, "s") ||
		!strings.HasSuffix(strings.TrimSpace(first), ".") {
		return fmt.Errorf("the package comment should be a sentence beginning %q and a verb, it is %q", want, first)
	}
	return nil
}

// subnetName is how the name of a project's Subnet is put together.
var subnetName = regexp.MustCompile(`^["\x60](.*%[a-z])?-default["\x60]$`)

// Names of what we write are claims: whoever needs one asks ownership, so that it can't be made in two ways.
func TestSubnetNamesComeFromOwnership(t *testing.T) {
	found := 0
	for _, u := range parseTree(t) {
		for _, s := range u.files {
			if s.test {
				continue
			}
			ast.Inspect(s.file, func(n ast.Node) bool {
				if text, ok := n.(*ast.BasicLit); ok && text.Kind == token.STRING &&
					subnetName.MatchString(text.Value) {
					found++
					if u.dir != "internal/model/ownership" {
						t.Errorf("%s: %s makes the name of a Subnet; use ownership.VPCSubnetName",
							s.fset.Position(text.Pos()),
							text.Value)
					}
				}
				return true
			})
		}
	}
	if found == 0 {
		t.Error("ownership.Subnet does not make names as this test expects; correct its pattern")
	}
}

// Somebody who looks for the right package begins with ARCHITECTURE.md.
func TestPackagesAreOnTheMap(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(moduleRoot(t), "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range parseTree(t) {
		if !strings.HasPrefix(u.dir, "internal/") && !strings.HasPrefix(u.dir, "test/") ||
			strings.Contains(u.dir, "testdata") {
			continue
		}
		if !isListed(string(page), u.dir) {
			t.Errorf("ARCHITECTURE.md does not say what %s is", u.dir)
		}
	}
}

// isListed says whether a page names a directory: in full, or after the one above it.
func isListed(page, dir string) bool {
	parts := strings.Split(dir, "/")
	names := []string{dir, "…/" + parts[len(parts)-1], "…/" + strings.Join(parts[max(1, len(parts)-2):], "/")}
	for _, name := range names {
		if regexp.MustCompile("(?m)(`|^)" + regexp.QuoteMeta(name) + "(`| )").MatchString(page) {
			return true
		}
	}
	return false
}

func TestOnTheMap(t *testing.T) {
	const page = "| `internal/insight/ui`, `…/kernel` | … |\ntest/docs   links\n| `ovn`, `…/ovn/nb` |"
	for dir, named := range map[string]bool{
		"internal/insight/ui": true, "internal/lab/kernel": true, "test/docs": true, "internal/engine/ovn/nb": true,
		"internal/engine/ovn/sb": false, "internal/u": false, "test/page": false,
	} {
		if isListed(page, dir) != named {
			t.Errorf("%s is named: %t", dir, !named)
		}
	}
}

func TestDescriptionIsDemanded(t *testing.T) {
	for text, good := range map[string]bool{
		"// Package x is a noun.\npackage x":                                true,
		"// Package x is a noun\n// on two lines.\n//\n// More.\npackage x": true,
		"package x":                                      false,
		"// Package x does things.\npackage x":           true,
		"// Package x\npackage x":                        false,
		"// Package x of things.\npackage x":             false,
		"// Package x is not a sentence\npackage x":      false,
		"// Command d is a program.\npackage main":       true,
		"// Package main is the program.\npackage main":  false,
		"// Package x is a noun.\npackage x_test":        true,
		"// Package y is something else.\npackage x\n\n": false,
	} {
		file := filepath.Join(t.TempDir(), "x.go")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := parseFile(filepath.Dir(file), "x.go")
		if err != nil {
			t.Fatal(err)
		}
		if err := checkDescription(packageDir{dir: "internal/d", files: []sourceFile{s}}); (err == nil) != good {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// machinePath is an absolute path into a directory that only its writer has. The pieces keep this file from matching
// itself.
var machinePath = regexp.MustCompile(`(^|[^\w./%~-])/(` + strings.Join([]string{"home", "root", "work", "Users"}, "|") +
	`)/[\w.]`)

func TestNoPathsOfOneMachine(t *testing.T) {
	base := moduleRoot(t)
	err := walkFiles(base, func(rel string) error {
		if strings.HasSuffix(rel, ".sum") { // hashes may spell anything
			return nil
		}
		raw, err := os.ReadFile(filepath.Join(base, rel))
		if err != nil {
			return nil //nolint:nilerr // removed since it was listed
		}
		for i, line := range strings.Split(string(raw), "\n") {
			if machinePath.MatchString(line) {
				t.Errorf("%s:%d has a path of one machine: %s", rel, i+1, strings.TrimSpace(line))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestPathsOfOneMachineAreSeen(t *testing.T) {
	for line, bad := range map[string]bool{
		"cd " + "/home" + "/ada/sallyport":     true,
		`open("` + "/root" + `/.kube/config")`: true,
		"/work" + "/main/go.mod":               true,
		`fmt.Sprintf("/proc/%d/root/etc")`:     false,
		"https://example.org/work/item":        false,
		"/run/sallyport/lab":                   false,
	} {
		if machinePath.MatchString(line) != bad {
			t.Errorf("%q: seen %t, want %t", line, !bad, bad)
		}
	}
}

// outsideCI are the themes that only a make target of their own runs. Those of real nodes need parts that take ten
// minutes to build (make show-real).
var outsideCI = []string{"real"}

// CI runs the themes that test/e2e/run names: one that is forgotten there would never run.
func TestThemesAreRun(t *testing.T) {
	script, err := os.ReadFile(filepath.Join(moduleRoot(t), "test/e2e/run"))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^themes=\((.*)\)$`).FindStringSubmatch(string(script))
	if m == nil {
		t.Fatal("test/e2e/run has no line with the themes")
	}
	named := append(strings.Fields(m[1]), outsideCI...)
	for _, u := range parseTree(t) {
		theme, found := strings.CutPrefix(u.dir, "test/e2e/")
		if found && theme != "harness" && !strings.Contains(theme, "/") && !slices.Contains(named, theme) {
			t.Errorf("test/e2e/run does not run the theme %s", theme)
		}
	}
}
