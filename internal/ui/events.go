package ui

import (
	"fmt"
	"net/http"
	"time"

	"github.com/sallyport/sallyport/internal/diagnosis"
	"github.com/sallyport/sallyport/internal/survey"
)

// beat is how often somebody who hears nothing new is told that the connection lives.
const beat = 15 * time.Second

// status is how the view is doing.
type status struct {
	Version string `json:"version"` // of the program
	Cluster string `json:"cluster,omitempty"`
	// Taken is when the survey was taken that is told, and Revision changes with what it says. No survey: there is none yet.
	Taken    *time.Time `json:"taken,omitempty"`
	Revision string     `json:"revision,omitempty"`
	// Problem is why it is not newer, and Since when that began.
	Problem string     `json:"problem,omitempty"`
	Since   *time.Time `json:"since,omitempty"`
	// Unread is what this survey could not read.
	Unread []unread `json:"unread,omitempty"`
	// Seconds between surveys; 0: it is a survey from a file.
	Every  float64        `json:"every"`
	Counts map[string]int `json:"findings"` // by severity
}

type unread struct {
	System  string `json:"system"`
	Problem string `json:"problem"`
}

func (s *site) state(m moment) document {
	out := status{Version: s.config.Version, Problem: m.problem, Every: s.config.Every.Seconds(), Counts: map[string]int{}}
	if m.problem != "" {
		out.Since = &m.since
	}
	if m.seen != nil {
		out.Cluster, out.Taken, out.Revision = m.seen.survey.Cluster.Name, &m.seen.survey.Taken, m.seen.revision
		out.Unread = unreads(m.seen.survey)
		for _, severity := range []diagnosis.Severity{diagnosis.Info, diagnosis.Warning, diagnosis.Error} {
			out.Counts[severity.String()] = 0
		}
		for _, f := range m.seen.findings {
			out.Counts[f.Severity.String()]++
		}
	}
	return newDocument(out)
}

func unreads(s *survey.Survey) (out []unread) {
	for _, u := range s.Unread {
		out = append(out, unread{u.System, u.Problem})
	}
	return out
}

func (s *site) status(w http.ResponseWriter, r *http.Request) {
	s.state(s.lookout.current()).send(w, r)
}

// events is the status whenever something is new, as long as somebody listens.
func (s *site) events(w http.ResponseWriter, r *http.Request) {
	defer s.lookout.come()()
	w.Header().Set("Content-Type", "text/event-stream")
	out, pulse := http.NewResponseController(w), time.NewTicker(beat)
	defer pulse.Stop()
	m := s.lookout.current()
	fmt.Fprintf(w, "data: %s\n\n", s.state(m).body)
	for out.Flush() == nil {
		select {
		case <-r.Context().Done():
			return
		case <-m.news:
			m = s.lookout.current()
			fmt.Fprintf(w, "data: %s\n\n", s.state(m).body)
		case <-pulse.C:
			fmt.Fprint(w, ": nothing new\n\n")
		}
	}
}
