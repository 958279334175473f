package harness

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// Requirement is a behaviour that tests or the documentation of another project require.
type Requirement struct {
	What    string
	ShownBy string // names of what shows it, with commas; empty: nothing
	Why     string // why nothing shows it
}

// Names returns the names of what shows the requirement.
func (r Requirement) Names() []string {
	if r.ShownBy == "" {
		return nil
	}
	return strings.Split(r.ShownBy, ", ")
}

// Conformance counts requirements. Those that are neither shown nor missing do not apply.
type Conformance struct{ All, Shown, Missing int }

// Check counts a requirement, and fails the test unless something that exists shows it or there is a reason why not.
func (c *Conformance) Check(t *testing.T, r Requirement, known map[string]bool) {
	t.Helper()
	c.All++
	if (r.ShownBy == "") == (r.Why == "") {
		t.Errorf("%q: either a test shows it, or there is a reason why not", r.What)
	}
	for _, name := range r.Names() {
		if !known[name] {
			t.Errorf("%q: there is no %s", r.What, name)
		}
	}
	switch {
	case r.ShownBy != "":
		c.Shown++
	case strings.HasPrefix(r.Why, "Not built"), strings.HasPrefix(r.Why, "Not shown"),
		strings.HasPrefix(r.Why, "Different"):
		c.Missing++
	}
}

// TestNames returns the names of the tests in all themes.
func TestNames(t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	forEachTestFunction(t, "../*", func(_ string, f *ast.FuncDecl) {
		if f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
			out[f.Name.Name] = true
		}
	})
	return out
}

// TestFunctionNames returns the functions and methods of the tests in some directories, as "directory/function".
func TestFunctionNames(t *testing.T, dirs ...string) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for _, dir := range dirs {
		forEachTestFunction(t, dir, func(dir string, f *ast.FuncDecl) { out[dir+"/"+f.Name.Name] = true })
	}
	return out
}

// forEachTestFunction calls a function for each function and method in the tests of the directories that match a
// pattern, with the name of the directory.
func forEachTestFunction(t *testing.T, dirs string, do func(dir string, f *ast.FuncDecl)) {
	t.Helper()
	files, err := filepath.Glob(dirs + "/*_test.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no tests in %s: %v", dirs, err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, isFunction := d.(*ast.FuncDecl); isFunction {
				do(filepath.Base(filepath.Dir(name)), f)
			}
		}
	}
}
