// Package show is a list of claims, each shown by tests and printed with its figures at the end.
package show

import (
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"testing"
)

// List is a numbered list of claims.
type List struct {
	name   string
	titles map[int]string

	mu      sync.Mutex
	results map[int]*result
}

// result is the outcome of an item. If several tests show it, all have to pass.
type result struct {
	tests, passed int
	figures       []string
}

// IsFullSize reports whether the tests run at full size. Otherwise they run at a smaller size for CI and print it.
func IsFullSize() bool { return os.Getenv("SALLYPORT_SIZE") == "full" }

// ChooseSize returns the value for the full size or for CI.
func ChooseSize[T any](full, ci T) T {
	if IsFullSize() {
		return full
	}
	return ci
}

var failOnMissingItems = flag.Bool("show", false, "fail when an item of the list did not run")

// Finish prints the lists of which an item ran, and returns the exit code of the tests: with -show, an item that did not
// pass fails them. TestMain calls it last.
func Finish(code int, lists ...*List) int {
	for _, l := range lists {
		if l.HasRun() && !l.Print(os.Stdout) && *failOnMissingItems {
			code = 1
		}
	}
	return code
}

// New returns a list. Titles are numbered from 1. Items without a title are shown by another package.
func New(name string, titles ...string) *List {
	l := &List{name: name, titles: map[int]string{}, results: map[int]*result{}}
	for i, t := range titles {
		if t != "" {
			l.titles[i+1] = t
		}
	}
	return l
}

// Item registers the running test for an item. The item passes if all registered tests end without failure.
func (l *List) Item(t *testing.T, number int) *Item {
	t.Helper()
	if l.titles[number] == "" {
		t.Fatalf("the list %s has no item %d", l.name, number)
	}
	l.mu.Lock()
	if l.results[number] == nil {
		l.results[number] = &result{}
	}
	l.results[number].tests++
	l.mu.Unlock()
	t.Cleanup(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if !t.Failed() && !t.Skipped() {
			l.results[number].passed++
		}
	})
	return &Item{list: l, number: number}
}

// Item is one claim of a list.
type Item struct {
	list   *List
	number int
}

// AddFigure adds a measurement to the item's line.
func (i *Item) AddFigure(format string, args ...any) {
	i.list.mu.Lock()
	defer i.list.mu.Unlock()
	r := i.list.results[i.number]
	r.figures = append(r.figures, fmt.Sprintf(format, args...))
}

// Print prints a line for each item and reports whether all passed. Items that did not run count as failed.
func (l *List) Print(w io.Writer) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	numbers := make([]int, 0, len(l.titles))
	for n := range l.titles {
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	all := true
	fmt.Fprintf(w, "\n%s (%s size)\n", l.name, ChooseSize("full", "CI"))
	for _, n := range numbers {
		verdict, r := "NOT RUN", l.results[n]
		if r != nil {
			verdict = map[bool]string{true: "PASS", false: "FAIL"}[r.passed == r.tests]
		}
		all = all && r != nil && r.passed == r.tests
		fmt.Fprintf(w, "%2d  %-7s  %s\n", n, verdict, l.titles[n])
		if r == nil {
			continue
		}
		for _, f := range r.figures {
			fmt.Fprintf(w, "             %s\n", f)
		}
	}
	return all
}

// HasRun reports whether any item of the list ran.
func (l *List) HasRun() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.results) > 0
}
