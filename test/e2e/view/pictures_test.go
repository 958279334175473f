package view

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"image"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/insight/ui"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/clusterstate/clusterstatetest"
	"github.com/sallyport/sallyport/test/browser"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/page"
)

const picturesDir = "../../../docs/pictures/"

// laptopWindow is a common window size.
var laptopWindow = browser.Window{Width: 1280, Height: 800}

// newCommand returns the command sallyport; for a lab with the environment of `lab env`.
func newCommand(ctx context.Context, t *testing.T, c *harness.Cluster, args ...string) *exec.Cmd {
	t.Helper()
	program, err := filepath.Abs("../../../bin/sallyport")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = os.Environ()
	if c != nil {
		cmd.Env = append(cmd.Env, "KUBECONFIG="+c.Kubeconfig(), "PATH="+c.Parts.Bin()+":"+os.Getenv("PATH"),
			"OVN_NB_DB="+c.Database("nb", c.Blueprint.Raft), "OVN_SB_DB="+c.Database("sb", c.Blueprint.Raft))
	}
	return cmd
}

// startUI starts `sallyport ui` and returns its URL with the token. The returned function stops the server.
func startUI(t *testing.T, c *harness.Cluster, args ...string) (url string, end func()) {
	t.Helper()
	cmd := newCommand(t.Context(), t, c, append([]string{"ui"}, args...)...)
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	end = func() {
		if !ended {
			_ = cmd.Process.Signal(syscall.SIGTERM)
			_ = cmd.Wait() // the exit status does not matter
		}
		ended = true
	}
	t.Cleanup(end)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		end()
		t.Fatalf("sallyport ui %v: %v: %s", args, err, problems.String())
	}
	return strings.Fields(line)[0], end
}

// writeSurvey writes a survey of a cluster with the given number of projects to a file, because no CI machine can run a
// lab of a thousand.
func writeSurvey(t *testing.T, projects int) string {
	t.Helper()
	var b bytes.Buffer
	if err := clusterstatetest.GenerateCluster(projects).Write(&b); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "survey.json")
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestView4Pictures checks that the pictures of the documentation match the program at 5, 50 and 1,000 projects.
func TestView4Pictures(t *testing.T) {
	item := viewItems.Item(t, 4)
	b := browser.Start(t)
	for _, projects := range []int{5, 50, 1000} {
		t.Run(fmt.Sprint(projects), func(t *testing.T) {
			file := writeSurvey(t, projects)
			svg, took := drawMap(t, file, "-o", "svg")
			page.Check(t, fmt.Sprintf(picturesDir+"map-%d.svg", projects), svg)
			texts := expectLegible(t, b, svg)
			url, _ := startUI(t, nil, "--survey", file)
			first := checkPictures(t, b, url, projects)
			item.AddFigure("%d projects: the SVG map took %d ms and has %d texts, none over another or outside; the page showed its map after %d ms",
				projects, took.Milliseconds(), texts, first)
		})
	}
	svg, _ := drawMap(t, writeSurvey(t, 5), "initech/prod", "-o", "svg")
	page.Check(t, picturesDir+"map-project.svg", svg)
	expectLegible(t, b, svg)
}

// drawMap returns the output of `sallyport map` for a survey, and its duration.
func drawMap(t *testing.T, file string, args ...string) (string, time.Duration) {
	t.Helper()
	begun := time.Now()
	cmd := newCommand(t.Context(), t, nil, append([]string{"map", "--survey", file}, args...)...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v", cmd.Args, err)
	}
	return string(out), time.Since(begun)
}

// checkPictures compares the pictures of a page, and returns the milliseconds until the map was shown.
func checkPictures(t *testing.T, b *browser.Browser, url string, projects int) (first int) {
	t.Helper()
	p := openMap(t, b, url, laptopWindow)
	var at float64
	p.Evaluate("performance.getEntriesByName('first map')[0].startTime", &at)
	expectPicture(t, fmt.Sprintf("ui-%d.png", projects), stableScreenshot(t, p))
	switch projects {
	case 5:
		p.Click(`[data-ref="FIp/globex-prod/bastion"]`)
		p.WaitUntil("document.querySelector('#panel .state')")
		expectPicture(t, "ui-object.png", stableScreenshot(t, p))
		p.Evaluate(`location.hash = "#trace?client=203.0.113.10&to=198.18.0.102:22&protocol=tcp"`, nil)
		p.WaitUntil("document.querySelector('#panel .path .state.well')")
		expectPicture(t, "ui-trace.png", stableScreenshot(t, p))
	case 50:
		p.Resize(browser.Window{Width: laptopWindow.Width, Height: laptopWindow.Height, Dark: true})
		p.PressKeys("f")
		p.WaitUntil("document.querySelector('#panel .finding')")
		expectPicture(t, "ui-findings.png", stableScreenshot(t, p))
	}
	expectCleanConsole(t, p, url)
	return int(at)
}

// stableScreenshot returns a screenshot when the page no longer changes: a map is laid out again when a panel opens.
func stableScreenshot(t *testing.T, p *browser.Page) []byte {
	t.Helper()
	last := p.Screenshot()
	for range 50 {
		now := p.Screenshot()
		if bytes.Equal(last, now) {
			return now
		}
		last = now
	}
	t.Fatal("the page goes on changing")
	return nil
}

// openMap opens a page and waits for its map.
func openMap(t *testing.T, b *browser.Browser, url string, w browser.Window) *browser.Page {
	t.Helper()
	p := b.OpenPage(t, url, w)
	p.WaitUntil("performance.getEntriesByName('first map').length && document.querySelector('.tile')")
	return p
}

// expectCleanConsole checks that the console of a page has no errors, and that the page has contacted only its own
// server.
func expectCleanConsole(t *testing.T, p *browser.Page, url string) {
	t.Helper()
	if c := p.ConsoleErrors(); len(c) > 0 {
		t.Errorf("the console says %q", c)
	}
	asked := p.RequestedURLs()
	if len(asked) == 0 {
		t.Error("the page has asked for nothing at all: what it asks is not seen")
	}
	for _, a := range asked {
		if !strings.HasPrefix(a, browser.URLWithoutQuery(url)) {
			t.Errorf("the page asks for %s", a)
		}
	}
}

// expectLegible checks in a browser that no text of a picture overlaps another or is outside. It returns the number of
// texts.
func expectLegible(t *testing.T, b *browser.Browser, svg string) (texts int) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "map.svg")
	if err := os.WriteFile(file, []byte(svg), 0o600); err != nil {
		t.Fatal(err)
	}
	p := b.OpenPage(t, "file://"+file, browser.Window{Width: 1400, Height: 900})
	var out struct {
		Texts   int
		Overlap []string
		Outside []string
	}
	p.Evaluate(`(() => {
		const paper = document.documentElement.getBoundingClientRect(), texts = [...document.querySelectorAll("text")]
		const all = texts.map(e => ({text: e.textContent, r: e.getBoundingClientRect()})).filter(x => x.text.trim())
		const over = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 6
		const Overlap = [], Outside = []
		all.forEach((a, i) => {
			if (a.r.left < paper.left || a.r.right > paper.right || a.r.bottom > paper.bottom) Outside.push(a.text)
			for (const b of all.slice(i + 1)) if (over(a.r, b.r)) Overlap.push(a.text + " | " + b.text)
		})
		return {Texts: all.length, Overlap, Outside}
	})()`, &out)
	if len(out.Overlap)+len(out.Outside) > 0 || out.Texts == 0 {
		t.Errorf("%d texts; over another: %q; outside: %q", out.Texts, out.Overlap, out.Outside)
	}
	return out.Texts
}

// expectPicture compares a picture with the one in the documentation, with a tolerance for other versions of the
// browser and fonts. With -update it replaces the picture.
func expectPicture(t *testing.T, name string, got []byte) {
	t.Helper()
	file := picturesDir + name
	if flag.Lookup("update").Value.String() == "true" {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; make it with make pictures", err)
	}
	if differs := pixelDifference(decodePNG(t, raw), decodePNG(t, got)); differs > 0.02 {
		t.Errorf("%.1f %% of %s is not what the page shows; look at both, and make it anew with make pictures",
			100*differs, file)
	}
}

func decodePNG(t *testing.T, raw []byte) image.Image {
	t.Helper()
	img, err := png.Decode(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// pixelDifference returns the share of pixels of two pictures that differ visibly.
func pixelDifference(a, b image.Image) float64 {
	if a.Bounds() != b.Bounds() {
		return 1
	}
	far := func(x, y uint32) bool { return max(x, y)-min(x, y) > 0x3000 }
	n, size := 0, a.Bounds().Size()
	for y := range size.Y {
		for x := range size.X {
			r, g, b1, _ := a.At(x, y).RGBA()
			s, h, b2, _ := b.At(x, y).RGBA()
			if far(r, s) || far(g, h) || far(b1, b2) {
				n++
			}
		}
	}
	return float64(n) / float64(size.X*size.Y)
}

// TestView4Keyboard checks that a thousand projects can be found, opened and closed without a mouse.
func TestView4Keyboard(t *testing.T) {
	item := viewItems.Item(t, 4)
	b := browser.Start(t)
	url, _ := startUI(t, nil, "--survey", writeSurvey(t, 1000))
	p := openMap(t, b, url, laptopWindow)
	p.PressKeys("/")
	p.TypeText("globex-data/spare")
	p.WaitUntil(`document.querySelector("#results [aria-selected=true]")?.innerText.includes("spare")`)
	p.PressKeys("Enter")
	p.WaitUntil(`document.querySelector("#panel-title")?.innerText == "spare"`)
	if text := p.ElementText("#panel"); !strings.Contains(text, "PoolExhausted") {
		t.Errorf("the panel of an EIp without an address says %q", text)
	}
	p.PressKeys("Escape")
	p.WaitUntil(`document.querySelector("#panel").hidden`)
	p.PressKeys("m", "ArrowRight", "ArrowDown", "Enter")
	p.WaitUntil(`location.hash.startsWith("#object/Project/")`)
	p.PressKeys("Escape", "?")
	p.WaitUntil(`document.querySelector("#help").open`)
	p.PressKeys("Escape")
	p.WaitUntil(`!document.querySelector("#help").open`)
	var themes [2]string
	for i := range themes {
		p.PressKeys("d")
		p.Evaluate("getComputedStyle(document.body).backgroundColor", &themes[i])
	}
	if themes[0] == themes[1] {
		t.Errorf("light and dark are both %s", themes[0])
	}
	p.Resize(browser.Window{Width: 390, Height: 800})
	p.WaitUntil("document.documentElement.scrollWidth <= innerWidth")
	expectCleanConsole(t, p, url)
	item.AddFigure("1,000 projects by keyboard alone: search, explanation, map, help, light and dark; nothing was loaded from elsewhere")
}

// TestView4FirstSurvey checks what the page says until the cluster is read for the first time, which can take seconds.
func TestView4FirstSurvey(t *testing.T) {
	l, err := ui.Listen("127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	read, ended := make(chan struct{}), make(chan error, 1)
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	config := ui.Config{Token: ui.NewToken(), TakeSurvey: func(ctx context.Context) *clusterstate.State {
		select {
		case <-read:
		case <-ctx.Done():
		}
		return clusterstatetest.GenerateCluster(5)
	}}
	go func() { ended <- ui.Serve(ctx, l, config, false) }()
	url := ui.URL(l, config.Token)
	p := browser.Start(t).OpenPage(t, url, laptopWindow)
	const text = "Reading the cluster…"
	p.WaitUntil(`document.querySelector("#live").innerText == "Reading the cluster"`)
	if got := p.ElementText("#map"); !strings.Contains(got, text) {
		t.Errorf("instead of the map, the page says %q", got)
	}
	close(read)
	p.WaitUntil("document.querySelector('.tile')")
	if got := p.ElementText("#map"); strings.Contains(got, text) {
		t.Errorf("beside the map, the page says %q", got)
	}
	expectCleanConsole(t, p, url)
}

// TestView4Live checks that the page of a running lab follows it, explains what is clicked, and shows when it has lost
// the connection.
func TestView4Live(t *testing.T) {
	harness.RunQuietly(t)
	item := viewItems.Item(t, 4)
	c := harness.SharedSallyport(t)
	h := c.NewBackendProject(t, "page", "10.89.0.0/24")
	address := h.CreateFIP(t, h.Namespace, "door", "{podTarget: {podName: b1}, externalNetworkType: public}")
	b := browser.Start(t)
	url, end := startUI(t, c, "--every", "1s")
	p := openMap(t, b, url, laptopWindow)
	p.WaitUntil(`document.querySelector("#live").innerText == "Live"`)
	p.PressKeys("/")
	p.TypeText(address)
	p.WaitUntil(`document.querySelector("#results [aria-selected=true]")`)
	p.PressKeys("Enter")
	p.WaitUntil(`document.querySelector("#panel .state.well")`)
	t.Run("a packet", func(t *testing.T) {
		p.Evaluate(fmt.Sprintf(`location.hash = "#trace?client=203.0.113.10&to=%s:80&protocol=tcp"`, address), nil)
		p.WaitUntil(`document.querySelector("#panel .path .state")`)
		if text := p.ElementText("#panel .path .state"); !strings.Contains(text, "Delivered") {
			t.Errorf("the page says %q of a packet that arrives: %s", text, p.ElementText("#panel"))
		}
		c.ExpectAnswer(t, "internet", "tcp://"+address+":80", "b1", "203.0.113.10")
	})
	begun := time.Now()
	h.CreateService(t, harness.ServiceSpec{Name: "late"})
	p.Evaluate(`location.hash = "#"`, nil)
	p.PressKeys("0")
	p.WaitUntil(fmt.Sprintf(`[...document.querySelectorAll(".way")].some(e => e.dataset.ref == "Service/%s/late")`,
		h.Namespace))
	follows := time.Since(begun)
	expectCleanConsole(t, p, url)
	end()
	p.WaitUntil(`document.querySelector("#live").innerText == "Not connected"`)
	item.AddFigure("a running lab: search, explanation and trace of a floating IP; a new load balancer was on the map %.1f s after it was asked for", follows.Seconds())
}
