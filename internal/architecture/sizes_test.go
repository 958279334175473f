package architecture

import (
	"cmp"
	"fmt"
	"go/ast"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
)

// The budget. funlen refuses a function over longFunction lines; the rest is about the whole.
const (
	longFunction = 60
	budgetP90    = 40
)

// function is one function with its length from signature to closing brace.
type function struct {
	name  string
	lines int
}

// sizes are the functions and the lengths of the files of some packages.
type sizes struct {
	functions []function
	files     []int
}

func (s *sizes) addFile(f sourceFile) {
	s.files = append(s.files, f.fset.File(f.file.Pos()).LineCount())
	for _, d := range f.file.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		lines := f.fset.Position(fn.End()).Line - f.fset.Position(fn.Pos()).Line + 1
		s.functions = append(s.functions, function{name: fmt.Sprintf("%s %s", f.path, fn.Name.Name), lines: lines})
	}
}

func (s *sizes) functionLengths() []int {
	var out []int
	for _, f := range s.functions {
		out = append(out, f.lines)
	}
	slices.Sort(out)
	return out
}

func (s *sizes) countLongFunctions() int {
	n := 0
	for _, f := range s.functions {
		if f.lines > longFunction {
			n++
		}
	}
	return n
}

// quantile is the value that a share q of the sorted values do not exceed.
func quantile(sorted []int, q float64) int {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// TestSizes prints the sizes (make sizes) and holds the code without its tests to the budget.
func TestSizes(t *testing.T) {
	groups := map[string]*sizes{}
	count := func(group string, f sourceFile) {
		if groups[group] == nil {
			groups[group] = &sizes{}
		}
		groups[group].addFile(f)
	}
	for _, u := range parseTree(t) {
		for _, f := range u.files {
			if f.test {
				count("tests", f)
				continue
			}
			count("all code", f)
			count(areaOf(u.dir), f)
		}
	}
	printSizes(t.Output(), groups)
	if got := quantile(groups["all code"].functionLengths(), 0.9); got > budgetP90 {
		t.Errorf("nine functions of ten should have at most %d lines, they have %d", budgetP90, got)
	}
}

// areaOf is the first two elements of a directory, three below internal/lab.
func areaOf(dir string) string {
	parts := strings.Split(dir, "/")
	depth := 2
	if strings.HasPrefix(dir, "internal/lab/") {
		depth = 3
	}
	return strings.Join(parts[:min(depth, len(parts))], "/")
}

func printSizes(w io.Writer, groups map[string]*sizes) {
	table := tabwriter.NewWriter(w, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "functions\tmedian\tp90\tlongest\tover %d\tfiles\tmedian\tlongest\t \n", longFunction)
	for _, name := range sortedNames(groups) {
		s := groups[name]
		f := s.functionLengths()
		slices.Sort(s.files)
		fmt.Fprintf(table, "%d\t%d\t%d\t%d\t%.1f%%\t%d\t%d\t%d\t  %s\n", len(f), quantile(f, 0.5), quantile(f, 0.9),
			quantile(f, 1),
			100*float64(s.countLongFunctions())/float64(max(1, len(f))), len(s.files), quantile(s.files, 0.5),
			quantile(s.files, 1), name)
	}
	_ = table.Flush()
}

// sortedNames lists directories first, sums last.
func sortedNames(groups map[string]*sizes) []string {
	sum := func(name string) int { return cmp.Compare(0, strings.Count(name, "/")) }
	return slices.SortedFunc(maps.Keys(groups), func(a, b string) int {
		return cmp.Or(sum(a)-sum(b), strings.Compare(a, b))
	})
}
