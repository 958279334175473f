// Package docs is what the documentation promises without a cluster: its links lead somewhere, and its lists are
// complete.
package docs

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/sallyport/sallyport/test/page"
)

const (
	root      = "../.."
	indexPage = "docs/README.md"
)

// docPage is a page of documentation.
type docPage struct {
	path    string // from the root
	links   []page.Link
	anchors map[string]bool
}

var (
	fencedBlock    = regexp.MustCompile("(?ms)^```.*?^```")
	headingPattern = regexp.MustCompile(`(?m)^#{1,6} +(.*?)\s*$`)
	linkPattern    = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
	anchorTag      = regexp.MustCompile(`<a (?:id|name)="([^"]+)">`)
)

// parsePage reads a page: what its links mean, seen from the root, and where one can link to.
func parsePage(file, text string) docPage {
	p := docPage{path: file, anchors: map[string]bool{}}
	text = fencedBlock.ReplaceAllString(text, "")
	for _, h := range headingPattern.FindAllStringSubmatch(text, -1) {
		name := headingAnchor(h[1])
		for n := 1; p.anchors[name]; n++ { // the second of its name has a number
			name = fmt.Sprintf("%s-%d", headingAnchor(h[1]), n)
		}
		p.anchors[name] = true
	}
	for _, a := range anchorTag.FindAllStringSubmatch(text, -1) {
		p.anchors[a[1]] = true
	}
	p.links = page.ParseLinks(file, text)
	return p
}

// headingAnchor is what GitHub calls a heading in addresses.
func headingAnchor(heading string) string {
	heading = strings.ReplaceAll(linkPattern.ReplaceAllString(heading, "$1"), "`", "")
	var out strings.Builder
	for _, r := range strings.ToLower(heading) {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			out.WriteRune(r)
		case r == ' ':
			out.WriteRune('-')
		}
	}
	return out.String()
}

// loadPages are all pages of documentation, by path.
func loadPages(t *testing.T) map[string]docPage {
	t.Helper()
	out := map[string]docPage{}
	for _, pattern := range []string{
		"*.md", "docs/*.md", "docs/*/*.md", "examples/*.md", "examples/*/*.md",
		"charts/*/*.md",
	} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			name := filepath.ToSlash(strings.TrimPrefix(file, root+"/"))
			out[name] = parsePage(name, string(raw))
		}
	}
	if len(out) < 30 {
		t.Fatalf("only %d pages were found", len(out))
	}
	return out
}

// Every link leads to a file that there is, and to a place that it has.
func TestLinksLeadSomewhere(t *testing.T) {
	all := loadPages(t)
	n := 0
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, l := range all[name].links {
			n++
			if wrong := checkLink(l, all); wrong != "" {
				t.Errorf("%s: %s", name, wrong)
			}
		}
	}
	t.Logf("%d links on %d pages", n, len(all))
}

// checkLink says what is wrong with a link.
func checkLink(l page.Link, all map[string]docPage) string {
	target, isPage := all[l.Target]
	switch _, err := os.Stat(filepath.Join(root, l.Target)); {
	case err != nil:
		return "there is no " + l.Target
	case l.Anchor == "" || strings.HasPrefix(l.Anchor, "L"): // a line of a program
		return ""
	case !isPage:
		return l.Target + " has no places to link to"
	case !target.anchors[l.Anchor]:
		return fmt.Sprintf("%s has no heading #%s", l.Target, l.Anchor)
	}
	return ""
}

func TestBrokenLinksAreSeen(t *testing.T) {
	text := "# A `plan`, and more\n[good](#a-plan-and-more) [gone](../gone.md) [no place](#nowhere) ![](picture.svg) `[code](no.md)`\n" +
		"```\n# no heading\n[code](no.md)\n```\n[outside](https://example.org/x) [ours](" + page.RepositoryURL + "gone.md#x)"
	p := parsePage(indexPage, text)
	all := map[string]docPage{indexPage: p}
	var wrong []string
	for _, l := range p.links {
		wrong = append(wrong, checkLink(l, all))
	}
	want := []string{"", "there is no gone.md", indexPage + " has no heading #nowhere", "", "there is no gone.md"}
	if !slices.Equal(wrong, want) {
		t.Errorf("got %q\nwant %q", wrong, want)
	}
}

// Whoever begins at the index finds every page.
func TestEveryPageIsFound(t *testing.T) {
	all := loadPages(t)
	if found := reachablePages(all, indexPage); len(found) < len(all) {
		for name := range all {
			if _, ok := found[name]; !ok {
				t.Errorf("no way leads from %s to %s", indexPage, name)
			}
		}
	}
	lonely := map[string]docPage{
		indexPage: {links: []page.Link{{Target: "a.md"}}},
		"a.md":    {},
		"b.md":    {links: []page.Link{{Target: "a.md"}}},
	}
	if found := reachablePages(lonely, indexPage); found["b.md"] != 0 || found["a.md"] != 1 {
		t.Errorf("a page that nobody links to is found: %v", found)
	}
}

// reachablePages are the pages to which links lead, with the number of clicks.
func reachablePages(all map[string]docPage, from string) map[string]int {
	links := map[string][]page.Link{}
	for name, p := range all {
		links[name] = p.links
	}
	return page.CountClicks(links, from)
}
