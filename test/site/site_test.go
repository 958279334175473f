// Package site is the tests of the documentation's site: bin/site, as `make site` builds it. `make site-check` runs them.
package site

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"
	"sigs.k8s.io/yaml"

	"github.com/sallyport/sallyport/test/browser"
	"github.com/sallyport/sallyport/test/show"
)

const root = "../.."

// dayItems is the part of the list of `make show-day` that is shown here.
var dayItems = show.New("from day one on", "", "", "", "", "", "", "",
	"a site of the documentation: pages by role, search, versions; links and accessibility are checked")

func TestMain(m *testing.M) { os.Exit(show.Finish(m.Run(), dayItems)) }

// role is a list of pages for one kind of reader.
type role struct {
	Name, About string
	Pages       []string
}

// Every page of the documentation is offered to exactly one kind of reader. Decisions are found through their list.
func TestDay8Roles(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(root, "site/data/roles.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var roles []role
	if err := yaml.UnmarshalStrict(raw, &roles); err != nil {
		t.Fatal(err)
	}
	listed := map[string]int{}
	for _, r := range roles {
		for _, p := range r.Pages {
			listed[p]++
		}
	}
	err = fs.WalkDir(os.DirFS(root), "docs", func(file string, _ fs.DirEntry, err error) error {
		if path.Ext(file) != ".md" || file == "docs/README.md" || strings.HasPrefix(file, "docs/adr/0") {
			return err
		}
		if listed[file] != 1 {
			t.Errorf("%s is listed %d times in site/data/roles.yaml, wanted once", file, listed[file])
		}
		return err
	})
	if err != nil || len(listed) < 40 {
		t.Errorf("%d pages are listed: %v", len(listed), err)
	}
}

// builtSite is a version of the site.
type builtSite struct {
	dir, prefix string // its folder, and where it is served
	ids, links  map[string][]string
}

// readSite parses all pages of the site.
func readSite(t *testing.T) *builtSite {
	t.Helper()
	dir := os.Getenv("SITE")
	if dir == "" {
		t.Skip("SITE is not set; run make site-check")
	}
	s := &builtSite{dir: dir, prefix: "/" + filepath.Base(dir) + "/", ids: map[string][]string{}, links: map[string][]string{}}
	err := filepath.WalkDir(dir, func(file string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(file) != ".html" {
			return err
		}
		name, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		return s.readPage(filepath.ToSlash(name), file)
	})
	if err != nil || len(s.ids) < 90 {
		t.Fatalf("%d pages in %s: %v", len(s.ids), dir, err)
	}
	return s
}

func (s *builtSite) readPage(name, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // read to the end
	doc, err := html.Parse(f)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	s.ids[name] = nil
	for n := range doc.Descendants() {
		for _, a := range n.Attr {
			switch a.Key {
			case "id":
				s.ids[name] = append(s.ids[name], a.Val)
			case "href", "src":
				s.links[name] = append(s.links[name], a.Val)
			}
		}
	}
	return nil
}

// problem says what is wrong with a link of a page, if anything is.
func (s *builtSite) problem(from, link string) string {
	if strings.Contains(link, "://") || strings.HasPrefix(link, "mailto:") {
		return ""
	}
	target, id, _ := strings.Cut(link, "#")
	name := from
	if target != "" {
		inside, found := strings.CutPrefix(target, s.prefix)
		if !found {
			return "leads out of this version"
		}
		name = inside
		if name == "" || strings.HasSuffix(name, "/") {
			name += "index.html"
		}
	}
	if _, err := os.Stat(filepath.Join(s.dir, filepath.FromSlash(name))); err != nil {
		return "leads nowhere"
	}
	if ids, isPage := s.ids[name]; isPage && id != "" && !slices.Contains(ids, id) {
		return "leads to a place that does not exist"
	}
	return ""
}

func TestDay8Links(t *testing.T) {
	item := dayItems.Item(t, 8)
	s := readSite(t)
	n := 0
	for name, links := range s.links {
		for _, link := range links {
			n++
			if wrong := s.problem(name, link); wrong != "" {
				t.Errorf("%s: %s %s", name, link, wrong)
			}
		}
	}
	for link, wrong := range map[string]bool{
		s.prefix: false, s.prefix + "docs/limits/": false, s.prefix + "docs/nowhere/": true, "#nowhere": true, "docs/limits.md": true,
	} {
		if got := s.problem("index.html", link); (got != "") != wrong {
			t.Errorf("control: %s: %q", link, got)
		}
	}
	item.AddFigure("%d pages, %d links", len(s.ids), n)
}

// serve serves all versions on loopback, and returns the URL of this one.
func (s *builtSite) serve(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.FileServer(http.Dir(filepath.Dir(s.dir))))
	t.Cleanup(server.Close)
	return server.URL + s.prefix
}

// questions are what readers type into the search, and the page that must be among the first three.
var questions = map[string]string{
	"PoolExhausted":         "docs/reference/conditions/",
	"address not answer":    "docs/howto/night/",
	"install helm":          "docs/howto/install/",
	"sessionAffinity":       "docs/reference/load-balancers/",
	"drain gateway":         "docs/howto/install/",
	"fixed egress address":  "docs/howto/egress/",
	"return port":           "docs/concepts/return-path/",
	"certificate authority": "docs/reference/certificates/",
}

func TestDay8Search(t *testing.T) {
	item := dayItems.Item(t, 8)
	s := readSite(t)
	b := browser.Start(t)
	url := s.serve(t)
	p := b.OpenPage(t, url, browser.Window{Width: 1280, Height: 800})
	for text, want := range questions {
		p.PressKeys("/")
		p.Evaluate(`document.getElementById("search").value = ""`, nil)
		p.TypeText(text)
		p.WaitUntil(fmt.Sprintf(`document.getElementById("search").value == %q && document.querySelector("#results a, #results p")`, text))
		var hits []string
		p.Evaluate(`[...document.querySelectorAll("#results a")].map(a => a.getAttribute("href"))`, &hits)
		if !slices.ContainsFunc(hits[:min(4, len(hits))], func(hit string) bool {
			return strings.HasPrefix(hit, s.prefix+want)
		}) {
			t.Errorf("%q leads to %q, wanted %s", text, hits, want)
		}
		p.PressKeys("Escape")
	}
	p.PressKeys("/")
	p.TypeText("no such words anywhere")
	p.WaitUntil(`document.getElementById("results").innerText.includes("No page")`)
	var themes [2]string
	for i := range themes {
		p.Click("#theme")
		p.Evaluate("getComputedStyle(document.body).backgroundColor", &themes[i])
	}
	if themes[0] == themes[1] {
		t.Errorf("light and dark are both %s", themes[0])
	}
	if errors := p.ConsoleErrors(); len(errors) > 0 {
		t.Errorf("the console says %q", errors)
	}
	for _, asked := range p.RequestedURLs() {
		if !strings.HasPrefix(asked, strings.TrimSuffix(url, s.prefix)) {
			t.Errorf("the page asks for %s", asked)
		}
	}
	item.AddFigure("%d questions find their page; nothing is loaded from elsewhere", len(questions))
}

// TestVersions checks that a reader stays on the page when choosing another version.
func TestDay8Versions(t *testing.T) {
	s := readSite(t)
	dir := t.TempDir()
	for _, name := range []string{"main", "v9"} {
		if err := os.CopyFS(filepath.Join(dir, name), os.DirFS(s.dir)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "versions.json"), []byte(`["v9", "main"]`), 0o600); err != nil {
		t.Fatal(err)
	}
	if filepath.Base(s.dir) != "main" {
		t.Skip("built as another version than main")
	}
	two := &builtSite{dir: filepath.Join(dir, "main"), prefix: "/main/"}
	p := browser.Start(t).OpenPage(t, two.serve(t)+"docs/limits/", browser.Window{Width: 1280, Height: 800})
	p.WaitUntil(`!document.getElementById("versions").parentElement.hidden`)
	const same = "/v9/docs/limits/" // it is asked whether it exists, and opened
	p.Evaluate(`(() => { const v = document.getElementById("versions"); v.value = "v9"; setTimeout(() => v.dispatchEvent(new Event("change")), 50) })()`, nil)
	// The page goes away meanwhile, and cannot be asked.
	for deadline := time.Now().Add(time.Minute); strings.Count(strings.Join(p.RequestedURLs(), " ")+" ", same+" ") < 2; <-time.After(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the other version is not asked for: %q", p.RequestedURLs())
		}
	}
}

// axeResult is what axe says of a page.
type axeResult struct {
	Passes     int
	Violations []struct {
		ID, Help string
		Nodes    []string
	}
}

// TestAccessibility asks axe about pages of each kind, in light and dark, wide and narrow.
func TestDay8Accessibility(t *testing.T) {
	item := dayItems.Item(t, 8)
	s := readSite(t)
	axe, err := os.ReadFile(os.Getenv("AXE"))
	if err != nil {
		t.Skip("AXE is not set; make site-check sets it if there is npm")
	}
	names := []string{"", "docs/", "docs/howto/install/", "docs/reference/findings/", "docs/reference/cli/", "docs/adr/", "404.html"}
	if show.IsFullSize() {
		for name := range s.ids {
			names = append(names, strings.TrimSuffix(name, "index.html"))
		}
	}
	b, url, passes := browser.Start(t), s.serve(t), 0
	for _, window := range []browser.Window{{Width: 1280, Height: 800}, {Width: 400, Height: 800, Dark: true}} {
		for _, name := range names {
			p := b.OpenPage(t, url+name, window)
			p.Evaluate(string(axe)+"; undefined", nil)
			p.Evaluate(`axe.run().then(r => { window.found = {Passes: r.passes.length, Violations: r.violations.map(v => (
				{ID: v.id, Help: v.help, Nodes: v.nodes.slice(0, 3).map(n => n.html.slice(0, 200))}))} }); undefined`, nil)
			p.WaitUntil("window.found")
			var text string
			p.Evaluate("JSON.stringify(window.found)", &text)
			var got axeResult
			if err := json.Unmarshal([]byte(text), &got); err != nil || got.Passes == 0 {
				t.Fatalf("%s: %s, %v", name, text, err)
			}
			passes += got.Passes
			for _, v := range got.Violations {
				t.Errorf("/%s, dark %t: %s: %s: %q", name, window.Dark, v.ID, v.Help, v.Nodes)
			}
		}
	}
	item.AddFigure("axe, %d pages in light and dark: %d rules passed, none violated", len(names), passes)
}
