package ui

import (
	"embed"
	"encoding/json"
	"errors"
	"net/http"
	"path"
	"strings"
)

//go:embed page
var files embed.FS

// site is the page and what it asks for.
type site struct {
	config  Config
	lookout *lookout
	work    *turnstile
	compare *comparer // nil: shards are those of the survey
}

func newSite(config Config, l *lookout) http.Handler {
	s := &site{config: config, lookout: l, work: newTurnstile()}
	if config.Shards != nil {
		s.compare = newComparer(config.Shards)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/status", s.status)
	mux.HandleFunc("GET /api/events", s.events)
	mux.HandleFunc("GET /api/overview", s.told(func(m *scene, _ *http.Request) (document, error) { return m.overview, nil }))
	mux.HandleFunc("GET /api/findings", s.told(func(m *scene, _ *http.Request) (document, error) { return m.found, nil }))
	mux.HandleFunc("GET /api/map", s.told(s.inTurn(s.graph)))
	mux.HandleFunc("GET /api/search", s.told(s.inTurn(s.search)))
	mux.HandleFunc("GET /api/explain", s.told(s.inTurn(s.explain)))
	mux.HandleFunc("GET /api/trace", s.told(s.inTurn(s.trace)))
	mux.HandleFunc("GET /", asset)
	return mux
}

// refuse says in a sentence what is wrong with a request.
func refuse(w http.ResponseWriter, code int, why string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": why}) // he has gone
}

// told answers with a document about the last survey, once there is one.
func (s *site) told(about func(*scene, *http.Request) (document, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		m := s.lookout.first(r.Context())
		if m.seen == nil {
			refuse(w, http.StatusServiceUnavailable, "there is no survey of the cluster yet: "+m.problem)
			return
		}
		d, err := about(m.seen, r)
		if err != nil {
			code := codeOf(err)
			if code == http.StatusTooManyRequests {
				w.Header().Set("Retry-After", "1")
			}
			refuse(w, code, err.Error())
			return
		}
		d.send(w, r)
	}
}

// codeOf is the HTTP status of an error.
func codeOf(err error) int {
	switch {
	case errors.As(err, new(missing)):
		return http.StatusNotFound
	case errors.Is(err, errBusy):
		return http.StatusTooManyRequests
	default:
		return http.StatusBadRequest
	}
}

// inTurn answers requests that take work, few at a time.
func (s *site) inTurn(about func(*scene, *http.Request) (document, error)) func(*scene, *http.Request) (document, error) {
	return func(m *scene, r *http.Request) (document, error) {
		leave, err := s.work.enter(r.Context())
		if err != nil {
			return document{}, err
		}
		defer leave()
		return about(m, r)
	}
}

// missing is something that there is not.
type missing string

func (m missing) Error() string { return string(m) }

// media are the kinds of files that the page consists of. The machine's own table may lack some.
var media = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
}

// asset is a file of the page.
func asset(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	if name == "" {
		name = "index.html"
	}
	body, err := files.ReadFile(path.Join("page", name))
	if err != nil {
		refuse(w, http.StatusNotFound, "the page has no file "+name)
		return
	}
	tag := `"` + digest(body) + `"`
	w.Header().Set("ETag", tag)
	w.Header().Set("Content-Type", media[path.Ext(name)])
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	_, _ = w.Write(body) //nolint:gosec // he has gone
}
