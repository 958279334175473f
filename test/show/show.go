// Package show is a list of things that must be shown: each a test, and at the end a line with its figure.
package show

import (
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"testing"
)

// List is what must be shown, by number.
type List struct {
	name   string
	titles map[int]string

	mu      sync.Mutex
	results map[int]*result
}

// result is what became of an item. Several tests may show it together: each has to pass.
type result struct {
	tests, passed int
	figures       []string
}

// IsFullSize says whether the tests run at full size; otherwise they run at a size that fits CI and say which.
func IsFullSize() bool { return os.Getenv("SALLYPORT_SIZE") == "full" }

// ChooseSize chooses between the full size and CI's.
func ChooseSize[T any](full, ci T) T {
	if IsFullSize() {
		return full
	}
	return ci
}

// New is a list; titles are numbered from 1.
func New(name string, titles ...string) *List {
	l := &List{name: name, titles: map[int]string{}, results: map[int]*result{}}
	for i, t := range titles {
		l.titles[i+1] = t
	}
	return l
}

// Item marks the running test as one that shows an item. It counts as passed when all such tests have ended without
// failure.
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

// Item is one thing being shown.
type Item struct {
	list   *List
	number int
}

// AddFigure adds what was measured to the item's line.
func (i *Item) AddFigure(format string, args ...any) {
	i.list.mu.Lock()
	defer i.list.mu.Unlock()
	r := i.list.results[i.number]
	r.figures = append(r.figures, fmt.Sprintf(format, args...))
}

// Print writes a line for each item and says whether all of them passed. Items that did not run have not passed.
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

// HasRun says whether any item of the list ran.
func (l *List) HasRun() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.results) > 0
}
