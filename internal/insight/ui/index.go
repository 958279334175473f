package ui

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/insight/diagnosis"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/state"
)

// searchIndex holds all objects that can be found. Its order decides between equal scores.
type searchIndex []searchEntry

// searchEntry is an object in the index and in search results.
type searchEntry struct {
	Ref      state.Ref `json:"ref"`
	Detail   string    `json:"detail,omitempty"`
	Severity string    `json:"severity,omitempty"`

	kind, name string   // in lower case; the name is namespace/name
	words      []string // addresses and hosts
	prefixes   []netip.Prefix
}

// maxResults limits the returned results.
const maxResults = 40

func newSearchIndex(c *clusterstate.Cluster, worst map[state.Ref]diagnosis.Severity) searchIndex {
	var x searchIndex
	add := func(ref state.Ref, words ...string) *searchEntry {
		words = slices.DeleteFunc(words, func(w string) bool { return w == "" })
		e := searchEntry{
			Ref:    ref,
			Detail: strings.Join(words, " "),
			kind:   strings.ToLower(ref.Kind),
			name:   strings.ToLower(ref.Name),
		}
		if ref.Namespace != "" {
			e.name = strings.ToLower(ref.Namespace) + "/" + e.name
		}
		for _, w := range words {
			e.words = append(e.words, strings.ToLower(w))
		}
		if s, ill := worst[ref]; ill {
			e.Severity = s.String()
		}
		x = append(x, e)
		return &x[len(x)-1]
	}
	addTenantObjects(c, add)
	addPlatformObjects(c, add)
	for _, p := range c.Pods {
		add(p.Ref, formatStrings(p.Addresses)...)
	}
	return x
}

// addFunc adds an object with words to the index.
type addFunc func(ref state.Ref, words ...string) *searchEntry

// addTenantObjects adds the objects of tenants.
func addTenantObjects(c *clusterstate.Cluster, add addFunc) {
	for _, p := range c.Projects {
		add(p.Ref, formatAddr(p.Address)).prefixes = p.Prefixes
	}
	for _, s := range c.Services {
		add(s.Ref, slices.Concat(formatStrings(s.Ingress), formatStrings(s.ExternalIPs),
			[]string{formatAddr(s.ClusterIP)})...)
	}
	for _, f := range c.FIps {
		add(f.Ref, formatAddr(f.External), formatAddr(f.Target))
	}
	for _, e := range c.EIps {
		add(e.Ref, formatAddr(e.Address))
	}
	for _, e := range c.EgressIPs {
		add(e.Ref, e.Addresses...)
	}
	for _, e := range slices.Concat(c.EgressRoutes, c.EgressServices) {
		add(e.Ref, formatStrings(e.Sources)...)
	}
	for _, g := range c.Gateways {
		add(g.Ref, g.Addresses...)
	}
	for _, r := range c.Routes {
		add(r.Ref, r.Hosts...)
	}
	for _, b := range c.Backends {
		add(b.Ref, b.Endpoints...)
	}
}

// addPlatformObjects adds the objects of operators.
func addPlatformObjects(c *clusterstate.Cluster, add addFunc) {
	of := map[string][]netip.Prefix{} // network → prefixes of its subnets: a search finds the network
	for _, s := range c.Subnets {
		of[s.Network] = append(of[s.Network], s.Prefixes...)
	}
	for _, n := range c.Networks {
		prefixes := slices.Concat(of[n.Name], n.Addresses)
		add(n.Ref, append(formatStrings(prefixes), n.Type)...).prefixes = prefixes
	}
	for _, n := range c.Nodes {
		add(n.Ref, formatStrings(n.Addresses)...)
	}
	for _, s := range c.Subnets {
		if s.Network == "" {
			add(s.Ref, formatStrings(s.Prefixes)...).prefixes = s.Prefixes
		}
	}
	for _, v := range c.Vpcs {
		add(v.Ref)
	}
}

func formatAddr(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

func formatStrings[T interface{ String() string }](all []T) (out []string) {
	for _, a := range all {
		out = append(out, a.String())
	}
	return out
}

// findEntries returns the objects that match every word of a query, best first, and the number of all matches.
func (x searchIndex) findEntries(query string) (best []searchEntry, all int) {
	terms := strings.Fields(strings.ToLower(query))
	if len(terms) == 0 {
		return nil, 0
	}
	type hit struct{ entry, score int }
	var hits []hit
	for i := range x {
		total := 0
		for _, t := range terms {
			s := x[i].scoreTerm(t)
			if s == 0 {
				total = 0
				break
			}
			total += s
		}
		if total > 0 {
			hits = append(hits, hit{i, total})
		}
	}
	slices.SortStableFunc(hits, func(a, b hit) int { return cmp.Compare(b.score, a.score) })
	for _, h := range hits[:min(len(hits), maxResults)] {
		best = append(best, x[h.entry])
	}
	return best, len(hits)
}

// Scores of a match.
const (
	scoreExact     = 100 // an address, or the name
	scorePrefix    = 40
	scoreSubstring = 20
	scoreInSubnet  = 10 // the address is in a prefix of the object
	scoreKind      = 5
)

func (e *searchEntry) scoreTerm(term string) int {
	own := e.name[strings.LastIndex(e.name, "/")+1:]
	some := func(fits func(text, term string) bool) bool {
		return fits(e.name, term) || fits(own, term) || slices.ContainsFunc(e.words, func(w string) bool {
			return fits(w, term)
		})
	}
	switch {
	case slices.Contains(e.words, term) || e.name == term || own == term || e.kind+"/"+own == term:
		return scoreExact
	case some(strings.HasPrefix):
		return scorePrefix
	case some(strings.Contains):
		return scoreSubstring
	case strings.HasPrefix(e.kind, term):
		return scoreKind
	}
	if a, err := netip.ParseAddr(term); err == nil &&
		slices.ContainsFunc(e.prefixes, func(p netip.Prefix) bool { return p.Contains(a) }) {
		return scoreInSubnet
	}
	return 0
}
