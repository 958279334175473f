// Package architecture is the house rules as tests: who may import whom, how packages are named and described, how long
// functions are.
package architecture

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/sallyport/sallyport"

// sourceFile is one parsed Go file.
type sourceFile struct {
	path string // below the module's root, with slashes
	test bool
	file *ast.File
	fset *token.FileSet
}

// packageDir is one package directory; the package of its external tests belongs to it.
type packageDir struct {
	dir   string // below the module's root: "internal/compile"
	files []sourceFile
}

// moduleRoot is the directory of go.mod.
func moduleRoot(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no go.mod above the test")
		}
		dir = parent
	}
}

// parseTree parses every package of the module. Other modules (tools/) and test data are not part of it.
func parseTree(t *testing.T) []packageDir {
	t.Helper()
	units := map[string]*packageDir{}
	base := moduleRoot(t)
	err := walkFiles(base, func(rel string) error {
		if !strings.HasSuffix(rel, ".go") {
			return nil
		}
		s, err := parseFile(base, rel)
		if err != nil {
			return err
		}
		dir := path.Dir(rel)
		if units[dir] == nil {
			units[dir] = &packageDir{dir: dir}
		}
		units[dir].files = append(units[dir].files, s)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var out []packageDir
	for _, u := range units {
		out = append(out, *u)
	}
	slices.SortFunc(out, func(a, b packageDir) int { return strings.Compare(a.dir, b.dir) })
	return out
}

// walkFiles visits the files of the module that people write. A file that another process removes meanwhile is skipped.
func walkFiles(base string, visit func(rel string) error) error {
	return filepath.WalkDir(base, func(p string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(base, p)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if !d.IsDir() {
			return visit(rel)
		}
		if rel == ".git" || rel == "bin" || rel == "tools" || d.Name() == "testdata" {
			return fs.SkipDir
		}
		return nil
	})
}

func parseFile(base, rel string) (sourceFile, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, filepath.Join(base, rel), nil, parser.ParseComments|parser.SkipObjectResolution)
	return sourceFile{path: rel, test: strings.HasSuffix(rel, "_test.go"), file: file, fset: fset}, err
}

// importPaths are what the package's own code imports; its tests may use more.
func (u packageDir) importPaths() []string {
	var out []string
	for _, s := range u.files {
		if s.test {
			continue
		}
		for _, spec := range s.file.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				name = spec.Path.Value
			}
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
