package ui

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/insight/explain"
	"github.com/sallyport/sallyport/internal/insight/topology"
	"github.com/sallyport/sallyport/internal/insight/trace"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/state"
)

// handleMap is the whole map, or one VPC of it.
func (s *site) handleMap(m *viewModel, r *http.Request) (jsonDocument, error) {
	name := r.URL.Query().Get("vpc")
	if name == "" {
		return newJSONDocument(m.graph).withGzipBody(), nil
	}
	i := slices.IndexFunc(m.graph.Vpcs, func(v topology.Vpc) bool { return v.Name == name })
	if i < 0 {
		return jsonDocument{}, notFoundError("there is no VPC " + name)
	}
	return newJSONDocument(m.graph.Vpcs[i]), nil
}

// addressKind is the kind of something that is asked about by its address only.
const addressKind = "Address"

// handleSearch is objects by any text: an address, a name, a namespace, a kind. An address can be asked about though
// nobody has it.
func (s *site) handleSearch(m *viewModel, r *http.Request) (jsonDocument, error) {
	query := strings.TrimSpace(r.URL.Query().Get("q"))
	best, all := m.index.findEntries(query)
	if a, err := netip.ParseAddr(query); err == nil {
		best, all = append(best, searchEntry{
			Ref:    state.Ref{Kind: addressKind, Name: a.String()},
			Detail: "who has it, and where it would come from",
		}), all+1
	}
	return newJSONDocument(struct {
		Results []searchEntry `json:"results"`
		All     int           `json:"all"`
	}{best, all}), nil
}

// handleExplain is one object, or an address, explained.
func (s *site) handleExplain(m *viewModel, r *http.Request) (jsonDocument, error) {
	q := r.URL.Query()
	ref := state.Ref{Kind: q.Get("kind"), Namespace: q.Get("namespace"), Name: q.Get("name")}
	about := explain.Subject{Object: ref}
	switch a, err := netip.ParseAddr(ref.Name); {
	case ref.Kind == "" || ref.Name == "":
		return jsonDocument{}, errors.New("which object? give kind and name, and the namespace if it is in one")
	case ref.Kind == addressKind && err != nil:
		return jsonDocument{}, fmt.Errorf("%s is no address", ref.Name)
	case ref.Kind == addressKind:
		about = explain.Subject{Address: a}
	case !slices.ContainsFunc(m.index, func(e searchEntry) bool { return e.Ref == ref }):
		return jsonDocument{}, notFoundError("there is no " + ref.String() + " any more, or there never was")
	}
	return newJSONDocument(about.Explain(s.withFreshShards(r.Context(), m.survey, about), m.findings)), nil
}

// withFreshShards is a survey with the shards that decide about something as they are now.
func (s *site) withFreshShards(ctx context.Context, whole *clusterstate.State, about explain.Subject) *clusterstate.State {
	names := about.Shards(whole)
	if s.comparer == nil || len(names) == 0 {
		return whole
	}
	shards, err := s.comparer.compareShards(ctx, names)
	if err != nil {
		return whole // it tells what was seen before
	}
	now := *whole
	now.Shards = slices.DeleteFunc(slices.Clone(whole.Shards), func(old clusterstate.Shard) bool {
		return slices.Contains(names, old.Name)
	})
	now.Shards = append(now.Shards, shards...)
	return &now
}

// handleTrace is the way of a packet.
func (s *site) handleTrace(m *viewModel, r *http.Request) (jsonDocument, error) {
	q := r.URL.Query()
	query, err := trace.ParseQuery(q.Get("client"), q.Get("from"), q.Get("to"), q.Get("protocol"))
	if err != nil {
		return jsonDocument{}, err
	}
	return newJSONDocument(trace.New(m.survey).Trace(query)), nil
}
