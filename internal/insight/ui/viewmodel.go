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

	"github.com/sallyport/sallyport/internal/insight/diagnosis"
	"github.com/sallyport/sallyport/internal/insight/topology"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/state"
)

// viewModel is a survey with everything derived from it, computed once for all viewers.
type viewModel struct {
	survey   *clusterstate.State
	findings []diagnosis.Finding
	graph    *topology.Graph
	index    searchIndex
	// overviewDoc is the data of the map.
	overviewDoc jsonDocument
	findingsDoc jsonDocument
	// revision changes with the content, except for the time of the survey.
	revision string
}

func newViewModel(s *clusterstate.State) *viewModel {
	out := &viewModel{survey: s, findings: diagnosis.CheckCluster(s)}
	out.graph = topology.BuildGraph(s, out.findings).TraceConnections()
	out.index = newSearchIndex(&s.Cluster, worstSeverityByRef(out.findings))
	out.overviewDoc = newJSONDocument(newOverview(out.graph)).withGzipBody()
	out.findingsDoc = newJSONDocument(out.findings).withGzipBody()
	timeless := *out.graph
	timeless.Taken = time.Time{}
	out.revision = contentDigest(newJSONDocument(timeless).body, out.findingsDoc.body, newJSONDocument(s.Unread).body)
	return out
}

// worstSeverityByRef returns the highest severity of the findings of each object.
func worstSeverityByRef(findings []diagnosis.Finding) map[state.Ref]diagnosis.Severity {
	worst := map[state.Ref]diagnosis.Severity{}
	for _, f := range findings {
		if len(f.About) > 0 { // the other objects are only mentioned
			worst[f.About[0]] = max(worst[f.About[0]], f.Severity)
		}
	}
	return worst
}

// jsonDocument is a JSON response with its ETag, and optionally compressed.
type jsonDocument struct {
	body, gzipBody []byte
	etag           string
}

func newJSONDocument(value any) jsonDocument {
	body, err := json.Marshal(value)
	if err != nil {
		panic("encoding JSON: " + err.Error()) // cannot happen with our own types
	}
	return jsonDocument{body: body, etag: `"` + contentDigest(body) + `"`}
}

func contentDigest(parts ...[]byte) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write(p)
		h.Write([]byte{0})
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// withGzipBody returns the document with a compressed body, for documents that are served often.
func (d jsonDocument) withGzipBody() jsonDocument {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(d.body) // writes to memory do not fail
	_ = z.Close()
	d.gzipBody = b.Bytes()
	return d
}

// writeResponse writes the document, or 304 if the client already has it.
func (d jsonDocument) writeResponse(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("ETag", d.etag)
	h.Set("Vary", "Accept-Encoding")
	if r.Header.Get("If-None-Match") == d.etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", "application/json")
	body := d.body
	if len(d.gzipBody) > 0 && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		body = d.gzipBody
	}
	_, _ = w.Write(body) // fails only if the client is gone
}
