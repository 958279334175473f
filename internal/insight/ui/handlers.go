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

// handleMap returns the whole graph, or one VPC of it.
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

// addressKind is the kind of subjects that are addresses.
const addressKind = "Address"

// handleSearch finds objects by address, name, namespace or kind. For an address, the results include the address
// itself, even if nobody owns it.
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

// handleExplain explains an object or address.
func (s *site) handleExplain(m *viewModel, r *http.Request) (jsonDocument, error) {
	q := r.URL.Query()
	ref := state.Ref{Kind: q.Get("kind"), Namespace: q.Get("namespace"), Name: q.Get("name")}
	about := explain.Subject{Object: ref}
	switch a, err := netip.ParseAddr(ref.Name); {
	case ref.Kind == "" || ref.Name == "":
		return jsonDocument{}, errors.New("set kind and name of the object, and its namespace if it has one")
	case ref.Kind == addressKind && err != nil:
		return jsonDocument{}, fmt.Errorf("%s is not an IP address", ref.Name)
	case ref.Kind == addressKind:
		about = explain.Subject{Address: a}
	case !slices.ContainsFunc(m.index, func(e searchEntry) bool { return e.Ref == ref }):
		return jsonDocument{}, notFoundError("there is no " + ref.String())
	}
	return newJSONDocument(about.Explain(s.withFreshShards(r.Context(), m.survey, about), m.findings)), nil
}

// withFreshShards returns the survey with the shards of a subject compared again.
func (s *site) withFreshShards(ctx context.Context, whole *clusterstate.State, about explain.Subject) *clusterstate.State {
	names := about.Shards(whole)
	if s.comparer == nil || len(names) == 0 {
		return whole
	}
	shards, err := s.comparer.compareShards(ctx, names)
	if err != nil {
		return whole // the explanation uses the last comparison
	}
	now := *whole
	now.Shards = slices.DeleteFunc(slices.Clone(whole.Shards), func(old clusterstate.Shard) bool {
		return slices.Contains(names, old.Name)
	})
	now.Shards = append(now.Shards, shards...)
	return &now
}

// handleTrace traces a packet.
func (s *site) handleTrace(m *viewModel, r *http.Request) (jsonDocument, error) {
	q := r.URL.Query()
	query, err := trace.ParseQuery(q.Get("client"), q.Get("from"), q.Get("to"), q.Get("protocol"))
	if err != nil {
		return jsonDocument{}, err
	}
	return newJSONDocument(trace.New(m.survey).Trace(query)), nil
}
