package ui

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sallyport/sallyport/internal/model/clusterstate"
)

// Only requests with the right token get files, responses and the event stream.
func TestTokenIsNeeded(t *testing.T) {
	s := newTestServer(t, Config{})
	for _, path := range []string{
		"/", "/app.js", "/api/status", "/api/events", "/api/overview", "/api/map",
		"/api/findings", "/api/search?q=a", "/api/trace", "/nothing",
	} {
		for kind, cookies := range map[string][]string{
			"none": nil, "another": {"other"}, "empty": {""}, "longer": {testToken + "x"}, "shorter": {testToken[1:]},
		} {
			answer, body := getPath(t, s, path, func(r *http.Request) {
				r.Header.Del("Cookie")
				for _, c := range cookies {
					addCookie(r, c)
				}
			})
			if answer.StatusCode != http.StatusUnauthorized || !strings.Contains(string(body), "sallyport ui printed") {
				t.Errorf("%s with cookie %s: %s %s", path, kind, answer.Status, body)
			}
		}
	}
	if answer, _ := getPath(t, s, "/?token=other", nil); answer.StatusCode != http.StatusForbidden ||
		answer.Header.Get("Set-Cookie") != "" {
		t.Errorf("another token: %s", answer.Status)
	}
	if (guard{}).isValidToken("") {
		t.Error("a server without a token takes an empty one")
	}
}

// The printed URL redirects to the page without the token.
func TestTokenBecomesACookie(t *testing.T) {
	s := newTestServer(t, Config{})
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	var passed []string
	client := &http.Client{Jar: jar, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		passed = append(passed, r.URL.String())
		return nil
	}}
	for _, path := range []string{
		"/?token=" + testToken, "/api/search?q=a&token=" + testToken,
		"//evil.example/?token=" + testToken,
	} {
		passed = nil
		answer, err := client.Get(s.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if len(passed) != 1 || strings.Contains(passed[0], testToken) || !strings.HasPrefix(passed[0], s.URL+"/") ||
			answer.StatusCode == http.StatusUnauthorized {
			t.Errorf("%s led to %v: %s", path, passed, answer.Status)
		}
	}
	answer, err := http.DefaultTransport.RoundTrip(mustRequest(t, s.URL+"/?token="+testToken))
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	cookie := answer.Header.Get("Set-Cookie")
	for _, want := range []string{"HttpOnly", "SameSite=Strict", "Path=/"} {
		if !strings.Contains(cookie, want) {
			t.Errorf("cookie %q has no %s", cookie, want)
		}
	}
	if strings.Contains(cookie, "Domain") || strings.Contains(cookie, "Expires") {
		t.Errorf("cookie %q outlives the browser, or goes to other hosts", cookie)
	}
}

func mustRequest(t *testing.T, address string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestTokensDiffer(t *testing.T) {
	var seen []string
	for range 100 {
		token := NewToken()
		if len(token) < 26 || slices.Contains(seen, token) {
			t.Fatalf("token %q", token)
		}
		seen = append(seen, token)
	}
}

// countingReader counts how often a cluster is read, and fails the test on concurrent reads.
type countingReader struct {
	t                 *testing.T
	total, concurrent atomic.Int32
}

func (r *countingReader) readShards(_ context.Context, names []string) ([]clusterstate.Shard, error) {
	if r.concurrent.Add(1) > 1 {
		r.t.Error("two requests read the cluster at a time")
	}
	defer r.concurrent.Add(-1)
	r.total.Add(1)
	<-time.After(10 * time.Millisecond) // on the fake clock of synctest
	if names[0] == "broken" {
		return nil, errors.New("no database")
	}
	return []clusterstate.Shard{{Name: names[0]}}, nil
}

// compareConcurrently sends this many requests for a shard at the same time.
func compareConcurrently(t *testing.T, c *shardComparer, name string, times int) {
	t.Helper()
	var group sync.WaitGroup
	for range times {
		group.Go(func() {
			got, err := c.compareShards(t.Context(), []string{name})
			if name != "broken" && (err != nil || len(got) != 1 || got[0].Name != name) {
				t.Errorf("%s: %v %v", name, got, err)
			}
		})
	}
	group.Wait()
}

// However many requests there are for the same shard, the cluster is read once a second, by one request at a time.
func TestComparisonsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &countingReader{t: t}
		c := newShardComparer(r.readShards)
		compareConcurrently(t, c, "a", 50)
		if n := r.total.Swap(0); n != 1 {
			t.Errorf("50 requests at a time read the cluster %d times", n)
		}
		<-time.After(2 * comparisonTTL)
		compareConcurrently(t, c, "a", 1)
		compareConcurrently(t, c, "broken", 2)
		if n := r.total.Swap(0); n != 3 {
			t.Errorf("%d readings, want one of what is old, and one for each that failed", n)
		}
		for i := range 100 {
			compareConcurrently(t, c, fmt.Sprint(i), 1)
		}
		if len(c.cache) > maxCachedComparisons {
			t.Errorf("%d answers are kept", len(c.cache))
		}
	})
}

// Most requests of a flood are rejected with errBusy, few run at a time, and a later request succeeds.
func TestFloodIsTurnedAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := newRequestLimiter()
		var busy, working, most atomic.Int32
		var group sync.WaitGroup
		for range 200 {
			group.Go(func() {
				leave, err := gate.acquire(t.Context())
				if err != nil {
					busy.Add(1)
					return
				}
				defer leave()
				if n := working.Add(1); n > most.Load() {
					most.Store(n)
				}
				<-time.After(time.Millisecond)
				working.Add(-1)
			})
		}
		group.Wait()
		if most.Load() > maxConcurrent || busy.Load() != 200-maxConcurrent-maxWaiting {
			t.Errorf("%d at work, %d turned away", most.Load(), busy.Load())
		}
		if leave, err := gate.acquire(t.Context()); err != nil {
			t.Errorf("after the flood: %v", err)
		} else {
			leave()
		}
	})
	if got := statusForError(errBusy); got != http.StatusTooManyRequests {
		t.Errorf("status %d", got)
	}
}
