package ui

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/insight/explain"
	"github.com/sallyport/sallyport/internal/insight/topology"
	"github.com/sallyport/sallyport/internal/insight/topology/drawing"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/clusterstate/clusterstatetest"
)

// newTestServer serves the page of a survey with the same handlers as Serve.
func newTestServer(t *testing.T, config Config) *httptest.Server {
	t.Helper()
	if config.TakeSurvey == nil {
		config.TakeSurvey = func(context.Context) *clusterstate.State { return clusterstatetest.GenerateCluster(5) }
	}
	l := newPoller(config)
	go l.run(t.Context())
	s := httptest.NewServer(guard{next: newSite(config, l), token: testToken})
	t.Cleanup(s.Close)
	return s
}

const testToken = "a-token"

// addCookie adds the cookie with the token to a request.
func addCookie(r *http.Request, token string) {
	r.Header.Add("Cookie", cookieName(r.URL.Host)+"="+token)
}

// response is a response with its whole body.
type response struct {
	StatusCode int
	Status     string
	Header     http.Header
}

// getPath sends a GET request. The function edit may change it first.
func getPath(t *testing.T, s *httptest.Server, path string, edit func(*http.Request)) (response, []byte) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	addCookie(r, testToken)
	if edit != nil {
		edit(r)
	}
	answer, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response{answer.StatusCode, answer.Status, answer.Header}, body
}

// getJSON decodes the JSON at a path.
func getJSON[T any](t *testing.T, s *httptest.Server, path string) (value T) {
	t.Helper()
	answer, body := getPath(t, s, path, nil)
	if answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") != "application/json" {
		t.Fatalf("%s: %s %s: %s", path, answer.Status, answer.Header.Get("Content-Type"), body)
	}
	if err := json.Unmarshal(body, &value); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return value
}

func TestListenOnLoopbackOnly(t *testing.T) {
	for address, allowed := range map[string]bool{
		"127.0.0.1:0": true, "localhost:0": true, "[::1]:0": true, "0.0.0.0:0": false, ":0": false,
		"192.0.2.1:0": false, "[::]:0": false,
	} {
		l, err := Listen(address, false)
		if err == nil {
			_ = l.Close()
		}
		if refused := err != nil && strings.Contains(err.Error(), "--allow-remote"); refused == allowed {
			t.Errorf("%s: %v; allowed: %t", address, err, allowed)
		}
	}
	l, err := Listen("0.0.0.0:0", true)
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	if _, err := Listen("127.0.0.1", false); err == nil {
		t.Error("an address without a port is taken")
	}
}

func TestGuard(t *testing.T) {
	s := newTestServer(t, Config{})
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(s.URL, "http://"))
	for _, c := range []struct {
		name string
		edit func(*http.Request)
		code int
	}{
		{"as it is", nil, 200},
		{"localhost", func(r *http.Request) { r.Host = "localhost:" + port }, 200},
		{"IPv6", func(r *http.Request) { r.Host = "[::1]:" + port }, 200},
		{"a name that somebody leads here", func(r *http.Request) { r.Host = "evil.example:" + port }, 421},
		{"an address that is not ours", func(r *http.Request) { r.Host = "192.0.2.1:" + port }, 421},
		{"POST", func(r *http.Request) { r.Method = http.MethodPost }, 405},
		{"DELETE", func(r *http.Request) { r.Method = http.MethodDelete }, 405},
		{"another site", func(r *http.Request) {
			r.Header.Set("Sec-Fetch-Site", "cross-site")
			r.Header.Set("Sec-Fetch-Mode", "no-cors")
		}, 403},
		{"a link on another site", func(r *http.Request) {
			r.Header.Set("Sec-Fetch-Site", "cross-site")
			r.Header.Set("Sec-Fetch-Mode", "navigate")
		}, 200},
	} {
		for _, path := range []string{"/", "/api/status"} {
			answer, _ := getPath(t, s, path, c.edit)
			if answer.StatusCode != c.code {
				t.Errorf("%s %s: %s, want %d", c.name, path, answer.Status, c.code)
			}
			if p := answer.Header.Get("Content-Security-Policy"); !strings.HasPrefix(p, "default-src 'none'") ||
				strings.Contains(p, "unsafe") {
				t.Errorf("%s %s: policy %q", c.name, path, p)
			}
		}
	}
	if !(guard{allowRemote: true}).isTrustedHost("192.0.2.1:80") ||
		(guard{allowRemote: true}).isTrustedHost("evil.example") {
		t.Error("with --allow-remote, addresses are known and names are not")
	}
}

// Every file that the page refers to exists, and no file refers to other servers. This finds missing files without a
// browser.
func TestPageIsComplete(t *testing.T) {
	s := newTestServer(t, Config{})
	named := regexp.MustCompile(`(?:src|href)="([^"#]+)"|from "([^"]+)"`)
	err := fs.WalkDir(pageFiles, "page", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		answer, body := getPath(t, s, strings.TrimPrefix(name, "page"), nil)
		if answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") == "" {
			t.Errorf("%s: %s %q", name, answer.Status, answer.Header.Get("Content-Type"))
		}
		for _, found := range named.FindAllStringSubmatch(string(body), -1) {
			if to := path.Join(path.Dir(name), found[1]+found[2]); !pageFileExists(to) {
				t.Errorf("%s names %s, which is not there", name, to)
			}
		}
		if outside := regexp.MustCompile(`https?://[a-z]|@import|\burl\(`).FindString(strings.ReplaceAll(string(body),
			"http://www.w3.org/2000/svg", "")); outside != "" {
			t.Errorf("%s has %q: everything is in the program", name, outside)
		}
		again, _ := getPath(t, s, strings.TrimPrefix(name, "page"), func(r *http.Request) {
			r.Header.Set("If-None-Match", answer.Header.Get("ETag"))
		})
		if again.StatusCode != http.StatusNotModified {
			t.Errorf("%s is sent again: %s", name, again.Status)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if answer, _ := getPath(t, s, "/nothing.js", nil); answer.StatusCode != http.StatusNotFound {
		t.Errorf("a file that is not there: %s", answer.Status)
	}
}

func pageFileExists(name string) bool {
	_, err := fs.Stat(pageFiles, name)
	return err == nil
}

func TestOverviewHasEveryProject(t *testing.T) {
	s := newTestServer(t, Config{})
	o := getJSON[overview](t, s, "/api/overview")
	var names []string
	for _, tile := range o.Tiles {
		if tile.Ref.Kind == "Project" {
			names = append(names, tile.Ref.Namespace+"/"+tile.Ref.Name)
		}
	}
	if want := []string{"acme/prod", "globex/prod", "hooli/prod", "initech/prod", "umbrella/prod"}; !slices.Equal(names,
		want) {
		t.Errorf("projects %q, want %q", names, want)
	}
	hooli := o.Tiles[slices.IndexFunc(o.Tiles, func(t tile) bool { return t.Vpc == "hooli-prod" })]
	i := slices.IndexFunc(hooli.Entries, func(w tileEntry) bool { return w.Ref.Name == "vm-gone" })
	if hooli.Severity != "error" || i < 0 || hooli.Entries[i].Severity != "error" || hooli.Entries[i].Targets != 0 {
		t.Errorf("a FIp without a target is not seen: %+v", hooli)
	}
	whole := getJSON[topology.Graph](t, s, "/api/map")
	if one := getJSON[topology.Vpc](t, s, "/api/map?vpc=hooli-prod"); len(whole.Vpcs) != len(o.Tiles) ||
		one.Name != "hooli-prod" {
		t.Errorf("%d VPCs on the map, %d tiles; one is %s", len(whole.Vpcs), len(o.Tiles), one.Name)
	}
	if answer, _ := getPath(t, s, "/api/map?vpc=none", nil); answer.StatusCode != http.StatusNotFound {
		t.Errorf("a VPC that is not there: %s", answer.Status)
	}
}

func TestWaysWithProblemsHaveARightToBeSeen(t *testing.T) {
	v := topology.Vpc{Name: "x"}
	for range 20 {
		v.FIps = append(v.FIps, topology.FIp{})
	}
	v.FIps[17].Problems = []topology.Problem{{Severity: "error"}}
	v.FIps[17].EIp, v.FIps[17].Ref.Name = "ill", "ill"
	got := newTile(&v)
	if len(got.Entries) != maxTileEntries || got.Omitted != 20-maxTileEntries ||
		got.Entries[maxTileEntries-1].Ref.Name != "ill" || got.Problems != 1 {
		t.Errorf("%d ways and %d more, the last %q", len(got.Entries), got.Omitted,
			got.Entries[maxTileEntries-1].Ref.Name)
	}
}

func TestSearch(t *testing.T) {
	s := newTestServer(t, Config{})
	type results struct {
		Results []searchEntry
		All     int
	}
	for query, first := range map[string]string{
		"100.65.0.103":        "Service acme-prod/web",
		"198.18.0.110":        "FIp hooli-prod/vm-gone",
		"globex/prod":         "Project globex/prod",
		"PROD acme":           "Project acme/prod",
		"pod acme web-1":      "Pod acme-prod/web-1",
		"node2":               "Node node2",
		"fip bastion umb":     "FIp umbrella-prod/bastion",
		"198.18.200.1":        "ExternalNetwork ext-public",
		"acme-prod.example.c": "HTTPRoute acme-prod/web",
	} {
		got := getJSON[results](t, s, "/api/search?q="+url.QueryEscape(query))
		if len(got.Results) == 0 || got.Results[0].Ref.String() != first {
			t.Errorf("%s: %+v, want %s first", query, got.Results[:min(3, len(got.Results))], first)
		}
	}
	if got := getJSON[results](t, s, "/api/search?q=no+such+thing"); got.All != 0 {
		t.Errorf("nothing is found %d times", got.All)
	}
	if got := getJSON[results](t, s, "/api/search?q="); got.All != 0 {
		t.Errorf("no question has %d answers", got.All)
	}
	all := getJSON[results](t, s, "/api/search?q=prod")
	if len(all.Results) != maxResults || all.All <= maxResults {
		t.Errorf("%d results of %d, want %d", len(all.Results), all.All, maxResults)
	}
	ill := getJSON[results](t, s, "/api/search?q=vm-gone")
	if ill.Results[0].Severity != "error" {
		t.Errorf("the result does not say that it is ill: %+v", ill.Results[0])
	}
}

// explanation has the fields of an explanation that the tests check.
type explanation struct {
	Works  bool
	Wrong  []struct{ Code, Severity, Cure string }
	Unread []explain.Fact
}

func TestExplain(t *testing.T) {
	s := newTestServer(t, Config{})
	x := getJSON[explanation](t, s, "/api/explain?kind=FIp&namespace=hooli-prod&name=vm-gone")
	if x.Works || len(x.Wrong) == 0 || x.Wrong[0].Code != "PodNotFound" || x.Wrong[0].Cure == "" {
		t.Errorf("%+v", x)
	}
	if x := getJSON[explanation](t, s, "/api/explain?kind=FIp&namespace=umbrella-prod&name=bastion"); !x.Works {
		t.Errorf("what works is explained as broken: %+v", x)
	}
	for query, code := range map[string]int{
		"kind=FIp&name=x":                404,
		"name=x":                         400,
		"kind=Address&name=x":            400,
		"kind=Address&name=198.18.0.110": 200,
	} {
		if answer, body := getPath(t, s, "/api/explain?"+query, nil); answer.StatusCode != code {
			t.Errorf("%s: %s %s, want %d", query, answer.Status, body, code)
		}
	}
}

// The shards of an object are compared again for each explanation.
func TestExplainComparesShards(t *testing.T) {
	asked := make(chan []string, 10)
	s := newTestServer(t, Config{CompareShards: func(_ context.Context, names []string) ([]clusterstate.Shard, error) {
		asked <- names
		return []clusterstate.Shard{{Name: "hooli-prod", Problem: "told by the test"}}, nil
	}})
	next := func() []string {
		t.Helper()
		select {
		case names := <-asked:
			return names
		case <-time.After(20 * time.Second):
			t.Fatal("nothing is compared")
			return nil
		}
	}
	if all := next(); all != nil {
		t.Fatalf("first, %q are compared, want all", all)
	}
	x := getJSON[explanation](t, s, "/api/explain?kind=FIp&namespace=hooli-prod&name=vm-gone")
	if names := next(); !slices.Contains(names, "hooli-prod") {
		t.Errorf("%q are compared, want that of the object", names)
	}
	if !slices.ContainsFunc(x.Unread, func(f explain.Fact) bool { return f.Text == "told by the test" }) {
		t.Errorf("the explanation does not tell what was compared: %+v", x.Unread)
	}
}

func TestTraceSaysWhatIsMissing(t *testing.T) {
	s := newTestServer(t, Config{})
	for query, want := range map[string]string{
		"":                                      "destination: ",
		"to=nowhere":                            "is not an address",
		"to=100.65.0.103":                       "has no port",
		"to=100.65.0.103:80":                    "client: ",
		"to=100.65.0.103:80&client=x":           "is not an address",
		"to=100.65.0.103:80&protocol=carrier":   "one of tcp",
		"to=100.65.0.103:80&client=203.0.113.9": "",
		"to=100.65.0.103&client=203.0.113.9&protocol=icmp": "",
		"to=203.0.113.9:80&from=acme-prod/web-0":           "",
	} {
		answer, body := getPath(t, s, "/api/trace?"+query, nil)
		if (answer.StatusCode == http.StatusOK) != (want == "") || !strings.Contains(string(body), want) {
			t.Errorf("%q: %s %s, want %q", query, answer.Status, body, want)
		}
	}
}

func TestWhatTheReaderHasIsNotSent(t *testing.T) {
	s := newTestServer(t, Config{})
	for _, path := range []string{
		"/api/overview", "/api/findings", "/api/map", "/api/status", "/api/search?q=acme",
		"/api/explain?kind=Node&name=node1",
	} {
		first, body := getPath(t, s, path, func(r *http.Request) { r.Header.Set("Accept-Encoding", "gzip") })
		second, _ := getPath(t, s, path, func(r *http.Request) {
			r.Header.Set("If-None-Match", first.Header.Get("ETag"))
		})
		if first.StatusCode != http.StatusOK || second.StatusCode != http.StatusNotModified {
			t.Errorf("%s: %s, then %s", path, first.Status, second.Status)
		}
		if first.Header.Get("Content-Encoding") != "gzip" {
			continue
		}
		z, err := gzip.NewReader(strings.NewReader(string(body)))
		if err != nil {
			t.Fatal(err)
		}
		if plain, _ := io.ReadAll(z); !json.Valid(plain) {
			t.Errorf("%s: what was packed is no JSON", path)
		}
	}
}

// streamStatuses returns a channel with the statuses of the event stream, until the test ends.
func streamStatuses(t *testing.T, s *httptest.Server) <-chan status {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/api/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	addCookie(r, testToken)
	answer, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = answer.Body.Close() })
	out := make(chan status, 100)
	go func() {
		lines := bufio.NewScanner(answer.Body)
		for lines.Scan() {
			if data, is := strings.CutPrefix(lines.Text(), "data: "); is {
				var heard status
				if json.Unmarshal([]byte(data), &heard) == nil {
					out <- heard
				}
			}
		}
	}()
	return out
}

func TestEventsTellNewsOnly(t *testing.T) {
	var projects, surveys, down atomic.Int32
	projects.Store(1)
	s := newTestServer(t, Config{Interval: time.Millisecond, TakeSurvey: func(context.Context) *clusterstate.State {
		out := clusterstatetest.GenerateCluster(int(projects.Load()))
		out.Taken = out.Taken.Add(time.Duration(surveys.Add(1)) * time.Millisecond) // does not change the revision
		if down.Load() == 1 {
			out.Unread = []clusterstate.ReadFailure{{System: clusterstate.Kubernetes, Problem: "connection refused"}}
		}
		return out
	}})
	heard := streamStatuses(t, s)
	until := func(what string, is func(status) bool) status {
		t.Helper()
		for {
			select {
			case got := <-heard:
				if is(got) {
					return got
				}
			case <-time.After(20 * time.Second):
				t.Fatalf("not told: %s", what)
			}
		}
	}
	one := until("a survey", func(s status) bool { return s.Revision != "" })
	for at := surveys.Load(); surveys.Load() < at+20; {
		select {
		case news := <-heard:
			t.Fatalf("told though nothing is new: %+v", news)
		case <-time.After(5 * time.Millisecond):
		}
	}
	projects.Store(2)
	two := until("one more project", func(s status) bool { return s.Revision != one.Revision })
	down.Store(1)
	ill := until("the cluster can't be reached", func(s status) bool { return s.Problem != "" })
	if ill.Problem != "connection refused" || ill.ProblemSince == nil || ill.Revision != two.Revision ||
		ill.Taken == nil {
		t.Errorf("the last survey is not kept, or why it is old: %+v", ill)
	}
	if o := getJSON[overview](t, s, "/api/overview"); len(o.Tiles) < 2 {
		t.Errorf("the map is gone with the cluster: %d tiles", len(o.Tiles))
	}
	down.Store(0)
	until("it is back", func(s status) bool { return s.Problem == "" && s.Revision == two.Revision })
}

func TestNoSurveyYet(t *testing.T) {
	s := newTestServer(t, Config{TakeSurvey: func(context.Context) *clusterstate.State {
		return &clusterstate.State{Unread: []clusterstate.ReadFailure{{System: clusterstate.Kubernetes, Problem: "no route to host"}}}
	}})
	answer, body := getPath(t, s, "/api/overview", nil)
	if answer.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(body), "no route to host") {
		t.Errorf("%s %s", answer.Status, body)
	}
	if got := getJSON[status](t, s, "/api/status"); got.Problem != "no route to host" || got.Taken != nil {
		t.Errorf("%+v", got)
	}
}

// Without viewers no survey is taken. A new viewer triggers one immediately.
func TestSurveysAreTakenWhileSomebodyLooks(t *testing.T) {
	var surveys atomic.Int32
	config := Config{Interval: time.Millisecond, TakeSurvey: func(context.Context) *clusterstate.State {
		surveys.Add(1)
		return clusterstatetest.GenerateCluster(1)
	}}
	l := newPoller(config)
	var ahead atomic.Int64
	l.now = func() time.Time { return clusterstatetest.Taken.Add(time.Duration(ahead.Load())) }
	l.lastViewedAt = l.now()
	go l.run(t.Context())
	wait := func(what string, is func() bool) {
		t.Helper()
		for late := time.After(20 * time.Second); !is(); {
			select {
			case <-late:
				t.Fatal(what)
			case <-time.After(time.Millisecond):
			}
		}
	}
	wait("surveys are not taken", func() bool { return surveys.Load() > 5 })
	ahead.Store(int64(2 * idleTimeout))
	var before int32
	wait("surveys go on though nobody looks", func() bool {
		before = surveys.Load()
		<-time.After(50 * time.Millisecond)
		return surveys.Load() == before
	})
	leave := l.registerViewer()
	wait("nobody wakes up", func() bool { return surveys.Load() > before+5 })
	leave()
}

func TestServeEnds(t *testing.T) {
	l, err := Listen("127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- Serve(ctx, l, Config{Token: testToken, TakeSurvey: func(context.Context) *clusterstate.State {
			return clusterstatetest.GenerateCluster(1)
		}}, false)
	}()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := (&http.Client{Jar: jar}).Get(URL(l, testToken))
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	cancel()
	if err := <-ended; err != nil || answer.StatusCode != http.StatusOK {
		t.Errorf("%s; ended with %v", answer.Status, err)
	}
}

// The page and the SVG map use the same colours for networks, in the same order.
func TestColoursAreThoseOfTheDrawing(t *testing.T) {
	style, err := pageFiles.ReadFile("page/style/base.css")
	if err != nil {
		t.Fatal(err)
	}
	picture := topology.BuildGraph(clusterstatetest.GenerateCluster(5), nil).RenderSVG(drawing.Auto)
	colours := regexp.MustCompile(`--net-(\d+): (#[0-9a-f]{6});`).FindAllStringSubmatch(string(style), -1)
	if len(colours) != 3*8 {
		t.Fatalf("the page has %d colours of networks, want 8 for each of light, dark by choice, and dark",
			len(colours))
	}
	for _, c := range colours {
		if !strings.Contains(picture, ".n"+c[1]+" { stroke: "+c[2]+" }") {
			t.Errorf("network %s is %s on the page, and not on a drawn map", c[1], c[2])
		}
	}
}
