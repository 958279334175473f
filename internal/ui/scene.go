package ui

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/sallyport/sallyport/internal/diagnosis"
	"github.com/sallyport/sallyport/internal/state"
	"github.com/sallyport/sallyport/internal/survey"
	"github.com/sallyport/sallyport/internal/topology"
)

// scene is a survey and what is told of it, worked out once for everybody.
type scene struct {
	survey   *survey.Survey
	findings []diagnosis.Finding
	graph    *topology.Graph
	index    index
	// overview is the map as the page draws it.
	overview document
	found    document
	// revision changes when something that is told does. The time of the survey is no news.
	revision string
}

func newScene(s *survey.Survey) *scene {
	out := &scene{survey: s, findings: diagnosis.Examine(s)}
	out.graph = topology.Of(s, out.findings)
	out.index = newIndex(&s.Cluster, worstOf(out.findings))
	out.overview = newDocument(newOverview(out.graph)).pack()
	out.found = newDocument(out.findings).pack()
	timeless := *out.graph
	timeless.Taken = time.Time{}
	out.revision = digest(newDocument(timeless).body, out.found.body, newDocument(s.Unread).body)
	return out
}

// worstOf is the worst that was found about each object.
func worstOf(findings []diagnosis.Finding) map[state.Ref]diagnosis.Severity {
	worst := map[state.Ref]diagnosis.Severity{}
	for _, f := range findings {
		if len(f.About) > 0 { // the others are only told about
			worst[f.About[0]] = max(worst[f.About[0]], f.Severity)
		}
	}
	return worst
}

// document is a body of JSON as it is sent: packed and named by what is in it.
type document struct {
	body, packed []byte
	tag          string
}

func newDocument(value any) document {
	body, err := json.Marshal(value)
	if err != nil {
		panic("what is told can't be written as JSON: " + err.Error()) // all of it is our own types
	}
	return document{body: body, tag: `"` + digest(body) + `"`}
}

func digest(parts ...[]byte) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write(p)
		h.Write([]byte{0})
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// pack is the document for many readers.
func (d document) pack() document {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(d.body) // into memory
	_ = z.Close()
	d.packed = b.Bytes()
	return d
}

// send writes the document, unless the reader has it.
func (d document) send(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("ETag", d.tag)
	h.Set("Vary", "Accept-Encoding")
	if r.Header.Get("If-None-Match") == d.tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", "application/json")
	body := d.body
	if len(d.packed) > 0 && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		body = d.packed
	}
	_, _ = w.Write(body) // he has gone
}
