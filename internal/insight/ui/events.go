package ui

import (
	"fmt"
	"net/http"
	"time"

	"github.com/sallyport/sallyport/internal/insight/diagnosis"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
)

// heartbeatInterval is the interval of comments that keep an idle event stream alive.
const heartbeatInterval = 15 * time.Second

// status is the state of the poller, as the page receives it.
type status struct {
	Version string `json:"version"` // of the program
	Cluster string `json:"cluster,omitempty"`
	// Taken is the time of the current survey. Revision changes with its content. Both are empty before the first
	// survey.
	Taken    *time.Time `json:"taken,omitempty"`
	Revision string     `json:"revision,omitempty"`
	// Problem is the reason why the survey is out of date, since ProblemSince.
	Problem      string     `json:"problem,omitempty"`
	ProblemSince *time.Time `json:"since,omitempty"`
	// Unread lists the systems that this survey could not read.
	Unread []unreadSource `json:"unread,omitempty"`
	// IntervalSeconds is the time between surveys, or 0 for a survey from a file.
	IntervalSeconds float64        `json:"every"`
	FindingCounts   map[string]int `json:"findings"` // by severity
}

type unreadSource struct {
	System  string `json:"system"`
	Problem string `json:"problem"`
}

func (s *site) buildStatus(m pollState) jsonDocument {
	out := status{
		Version:         s.config.Version,
		Problem:         m.problem,
		IntervalSeconds: s.config.Interval.Seconds(),
		FindingCounts:   map[string]int{},
	}
	if m.problem != "" {
		out.ProblemSince = &m.problemSince
	}
	if m.view != nil {
		out.Cluster, out.Taken, out.Revision = m.view.survey.Cluster.Name, &m.view.survey.Taken, m.view.revision
		out.Unread = listUnread(m.view.survey)
		for _, severity := range []diagnosis.Severity{diagnosis.Info, diagnosis.Warning, diagnosis.Error} {
			out.FindingCounts[severity.String()] = 0
		}
		for _, f := range m.view.findings {
			out.FindingCounts[f.Severity.String()]++
		}
	}
	return newJSONDocument(out)
}

func listUnread(s *clusterstate.State) (out []unreadSource) {
	for _, u := range s.Unread {
		out = append(out, unreadSource{u.System, u.Problem})
	}
	return out
}

func (s *site) handleStatus(w http.ResponseWriter, r *http.Request) {
	s.buildStatus(s.poller.currentState()).writeResponse(w, r)
}

// handleEvents streams the status on each change until the client disconnects.
func (s *site) handleEvents(w http.ResponseWriter, r *http.Request) {
	defer s.poller.registerViewer()()
	w.Header().Set("Content-Type", "text/event-stream")
	out, pulse := http.NewResponseController(w), time.NewTicker(heartbeatInterval)
	defer pulse.Stop()
	m := s.poller.currentState()
	fmt.Fprintf(w, "data: %s\n\n", s.buildStatus(m).body)
	for out.Flush() == nil {
		select {
		case <-r.Context().Done():
			return
		case <-m.changed:
			m = s.poller.currentState()
			fmt.Fprintf(w, "data: %s\n\n", s.buildStatus(m).body)
		case <-pulse.C:
			fmt.Fprint(w, ": nothing new\n\n")
		}
	}
}
