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

// viewModel is a survey and what is told of it, worked out once for everybody.
type viewModel struct {
	survey   *clusterstate.State
	findings []diagnosis.Finding
	graph    *topology.Graph
	index    searchIndex
	// overviewDoc is the map as the page draws it.
	overviewDoc jsonDocument
	findingsDoc jsonDocument
	// revision changes when something that is told does. The time of the survey is no news.
	revision string
}

func newViewModel(s *clusterstate.State) *viewModel {
	out := &viewModel{survey: s, findings: diagnosis.CheckCluster(s)}
	out.graph = topology.BuildGraph(s, out.findings)
	out.index = newSearchIndex(&s.Cluster, worstSeverityByRef(out.findings))
	out.overviewDoc = newJSONDocument(newOverview(out.graph)).withGzipBody()
	out.findingsDoc = newJSONDocument(out.findings).withGzipBody()
	timeless := *out.graph
	timeless.Taken = time.Time{}
	out.revision = contentDigest(newJSONDocument(timeless).body, out.findingsDoc.body, newJSONDocument(s.Unread).body)
	return out
}

// worstSeverityByRef is the worst that was found about each object.
func worstSeverityByRef(findings []diagnosis.Finding) map[state.Ref]diagnosis.Severity {
	worst := map[state.Ref]diagnosis.Severity{}
	for _, f := range findings {
		if len(f.About) > 0 { // the others are only told about
			worst[f.About[0]] = max(worst[f.About[0]], f.Severity)
		}
	}
	return worst
}

// jsonDocument is a body of JSON as it is sent: packed and named by what is in it.
type jsonDocument struct {
	body, gzipBody []byte
	etag           string
}

func newJSONDocument(value any) jsonDocument {
	body, err := json.Marshal(value)
	if err != nil {
		panic("what is told can't be written as JSON: " + err.Error()) // all of it is our own types
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

// withGzipBody is the document for many readers.
func (d jsonDocument) withGzipBody() jsonDocument {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(d.body) // into memory
	_ = z.Close()
	d.gzipBody = b.Bytes()
	return d
}

// writeResponse writes the document, unless the reader has it.
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
	_, _ = w.Write(body) // he has gone
}
