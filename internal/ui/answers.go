package ui

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/explain"
	"github.com/sallyport/sallyport/internal/state"
	"github.com/sallyport/sallyport/internal/survey"
	"github.com/sallyport/sallyport/internal/topology"
	"github.com/sallyport/sallyport/internal/trace"
)

// graph is the whole map, or one VPC of it.
func (s *site) graph(m *scene, r *http.Request) (document, error) {
	name := r.URL.Query().Get("vpc")
	if name == "" {
		return newDocument(m.graph).pack(), nil
	}
	i := slices.IndexFunc(m.graph.Vpcs, func(v topology.Vpc) bool { return v.Name == name })
	if i < 0 {
		return document{}, missing("there is no VPC " + name)
	}
	return newDocument(m.graph.Vpcs[i]), nil
}

// address is the kind of something that is asked about by its address only.
const address = "Address"

// search is objects by any text: an address, a name, a namespace, a kind. An address can be asked about though nobody has it.
func (s *site) search(m *scene, r *http.Request) (document, error) {
	query := strings.TrimSpace(r.URL.Query().Get("q"))
	best, all := m.index.search(query)
	if a, err := netip.ParseAddr(query); err == nil {
		best, all = append(best, entry{Ref: state.Ref{Kind: address, Name: a.String()}, Detail: "who has it, and where it would come from"}), all+1
	}
	return newDocument(struct {
		Results []entry `json:"results"`
		All     int     `json:"all"`
	}{best, all}), nil
}

// explain is one object, or an address, explained.
func (s *site) explain(m *scene, r *http.Request) (document, error) {
	q := r.URL.Query()
	ref := state.Ref{Kind: q.Get("kind"), Namespace: q.Get("namespace"), Name: q.Get("name")}
	about := explain.Subject{Object: ref}
	switch a, err := netip.ParseAddr(ref.Name); {
	case ref.Kind == "" || ref.Name == "":
		return document{}, errors.New("which object? give kind and name, and the namespace if it is in one")
	case ref.Kind == address && err != nil:
		return document{}, fmt.Errorf("%s is no address", ref.Name)
	case ref.Kind == address:
		about = explain.Subject{Address: a}
	case !slices.ContainsFunc(m.index, func(e entry) bool { return e.Ref == ref }):
		return document{}, missing("there is no " + ref.String() + " any more, or there never was")
	}
	return newDocument(about.Explain(s.compared(r.Context(), m.survey, about), m.findings)), nil
}

// compared is a survey with the shards that decide about something as they are now.
func (s *site) compared(ctx context.Context, whole *survey.Survey, about explain.Subject) *survey.Survey {
	names := about.Shards(whole)
	if s.compare == nil || len(names) == 0 {
		return whole
	}
	shards, err := s.compare.shards(ctx, names)
	if err != nil {
		return whole // it tells what was seen before
	}
	now := *whole
	now.Shards = slices.DeleteFunc(slices.Clone(whole.Shards), func(old survey.Shard) bool { return slices.Contains(names, old.Name) })
	now.Shards = append(now.Shards, shards...)
	return &now
}

// trace is the way of a packet.
func (s *site) trace(m *scene, r *http.Request) (document, error) {
	q := r.URL.Query()
	query, err := trace.Ask(q.Get("client"), q.Get("from"), q.Get("to"), q.Get("protocol"))
	if err != nil {
		return document{}, err
	}
	return newDocument(trace.New(m.survey).Trace(query)), nil
}
