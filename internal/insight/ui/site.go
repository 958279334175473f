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
var pageFiles embed.FS

// site serves the files of the page and its API.
type site struct {
	config   Config
	poller   *poller
	limiter  *requestLimiter
	comparer *shardComparer // nil for a survey from a file
}

func newSite(config Config, l *poller) http.Handler {
	s := &site{config: config, poller: l, limiter: newRequestLimiter()}
	if config.CompareShards != nil {
		s.comparer = newShardComparer(config.CompareShards)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/status", s.handleStatus)
	mux.HandleFunc("GET /api/events", s.handleEvents)
	mux.HandleFunc("GET /api/overview", s.serveDocument(func(m *viewModel, _ *http.Request) (jsonDocument, error) {
		return m.overviewDoc, nil
	}))
	mux.HandleFunc("GET /api/findings", s.serveDocument(func(m *viewModel, _ *http.Request) (jsonDocument, error) {
		return m.findingsDoc, nil
	}))
	mux.HandleFunc("GET /api/map", s.serveDocument(s.limitConcurrency(s.handleMap)))
	mux.HandleFunc("GET /api/search", s.serveDocument(s.limitConcurrency(s.handleSearch)))
	mux.HandleFunc("GET /api/explain", s.serveDocument(s.limitConcurrency(s.handleExplain)))
	mux.HandleFunc("GET /api/trace", s.serveDocument(s.limitConcurrency(s.handleTrace)))
	mux.HandleFunc("GET /", serveAsset)
	return mux
}

// writeError writes an error as JSON.
func writeError(w http.ResponseWriter, code int, why string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": why}) // fails only if the client is gone
}

// serveDocument waits for the first survey and responds with a document about the current one.
func (s *site) serveDocument(about func(*viewModel, *http.Request) (jsonDocument, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		m := s.poller.waitForState(r.Context())
		if m.view == nil {
			writeError(w, http.StatusServiceUnavailable, "the cluster has not been read yet: "+m.problem)
			return
		}
		d, err := about(m.view, r)
		if err != nil {
			code := statusForError(err)
			if code == http.StatusTooManyRequests {
				w.Header().Set("Retry-After", "1")
			}
			writeError(w, code, err.Error())
			return
		}
		d.writeResponse(w, r)
	}
}

func statusForError(err error) int {
	switch {
	case errors.As(err, new(notFoundError)):
		return http.StatusNotFound
	case errors.Is(err, errBusy):
		return http.StatusTooManyRequests
	default:
		return http.StatusBadRequest
	}
}

// limitConcurrency limits the expensive requests that run at a time.
func (s *site) limitConcurrency(about func(*viewModel, *http.Request) (jsonDocument, error)) func(*viewModel,
	*http.Request) (jsonDocument, error) {
	return func(m *viewModel, r *http.Request) (jsonDocument, error) {
		leave, err := s.limiter.acquire(r.Context())
		if err != nil {
			return jsonDocument{}, err
		}
		defer leave()
		return about(m, r)
	}
}

// notFoundError is an error with HTTP status 404.
type notFoundError string

func (m notFoundError) Error() string { return string(m) }

// mediaTypes are the media types of the page's files. The table of the operating system may lack some.
var mediaTypes = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".svg": "image/svg+xml",
}

// serveAsset serves a file of the page.
func serveAsset(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	if name == "" {
		name = "index.html"
	}
	body, err := pageFiles.ReadFile(path.Join("page", name))
	if err != nil {
		writeError(w, http.StatusNotFound, "the page has no file "+name)
		return
	}
	tag := `"` + contentDigest(body) + `"`
	w.Header().Set("ETag", tag)
	w.Header().Set("Content-Type", mediaTypes[path.Ext(name)])
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	_, _ = w.Write(body) //nolint:gosec // our own files; fails only if the client is gone
}
