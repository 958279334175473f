package ui

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/diagnosis"
	"github.com/sallyport/sallyport/internal/state"
	"github.com/sallyport/sallyport/internal/survey"
)

// index is everything that can be searched for, in the order in which equals are told.
type index []entry

// entry is an object as it is found.
type entry struct {
	Ref      state.Ref `json:"ref"`
	Detail   string    `json:"detail,omitempty"`
	Severity string    `json:"severity,omitempty"`

	kind, name string   // in lower case; the name is namespace/name
	words      []string // addresses and hosts
	prefixes   []netip.Prefix
}

// found is how many results are told.
const found = 40

func newIndex(c *survey.Cluster, worst map[state.Ref]diagnosis.Severity) index {
	var x index
	add := func(ref state.Ref, words ...string) *entry {
		words = slices.DeleteFunc(words, func(w string) bool { return w == "" })
		e := entry{Ref: ref, Detail: strings.Join(words, " "), kind: strings.ToLower(ref.Kind), name: strings.ToLower(ref.Name)}
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
	addRequests(c, add)
	addPlatform(c, add)
	for _, p := range c.Pods {
		add(p.Ref, texts(p.Addresses)...)
	}
	return x
}

// adder adds an object with words to the index.
type adder func(ref state.Ref, words ...string) *entry

// addRequests adds what tenants ask for.
func addRequests(c *survey.Cluster, add adder) {
	for _, p := range c.Projects {
		add(p.Ref, text(p.Address)).prefixes = p.Prefixes
	}
	for _, s := range c.Services {
		add(s.Ref, slices.Concat(texts(s.Ingress), texts(s.ExternalIPs), []string{text(s.ClusterIP)})...)
	}
	for _, f := range c.FIps {
		add(f.Ref, text(f.External), text(f.Target))
	}
	for _, e := range c.EIps {
		add(e.Ref, text(e.Address))
	}
	for _, e := range c.EgressIPs {
		add(e.Ref, e.Addresses...)
	}
	for _, e := range slices.Concat(c.EgressRoutes, c.EgressServices) {
		add(e.Ref, texts(e.Sources)...)
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

// addPlatform adds what is the operator's.
func addPlatform(c *survey.Cluster, add adder) {
	of := map[string][]netip.Prefix{} // network → its subnets: people ask about the network
	for _, s := range c.Subnets {
		of[s.Network] = append(of[s.Network], s.Prefixes...)
	}
	for _, n := range c.Networks {
		prefixes := slices.Concat(of[n.Name], n.Addresses)
		add(n.Ref, append(texts(prefixes), n.Type)...).prefixes = prefixes
	}
	for _, n := range c.Nodes {
		add(n.Ref, texts(n.Addresses)...)
	}
	for _, s := range c.Subnets {
		if s.Network == "" {
			add(s.Ref, texts(s.Prefixes)...).prefixes = s.Prefixes
		}
	}
	for _, v := range c.Vpcs {
		add(v.Ref)
	}
}

func text(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

func texts[T interface{ String() string }](all []T) (out []string) {
	for _, a := range all {
		out = append(out, a.String())
	}
	return out
}

// search is the objects that every word of a query is about, the best first, and how many there are.
func (x index) search(query string) (best []entry, all int) {
	terms := strings.Fields(strings.ToLower(query))
	if len(terms) == 0 {
		return nil, 0
	}
	type hit struct{ entry, score int }
	var hits []hit
	for i := range x {
		total := 0
		for _, t := range terms {
			s := x[i].score(t)
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
	for _, h := range hits[:min(len(hits), found)] {
		best = append(best, x[h.entry])
	}
	return best, len(hits)
}

// How well a word fits.
const (
	isIt     = 100 // an address, or the name
	begins   = 40
	contains = 20
	holds    = 10 // a prefix that the address is in
	ofKind   = 5
)

func (e *entry) score(term string) int {
	own := e.name[strings.LastIndex(e.name, "/")+1:]
	some := func(fits func(text, term string) bool) bool {
		return fits(e.name, term) || fits(own, term) || slices.ContainsFunc(e.words, func(w string) bool { return fits(w, term) })
	}
	switch {
	case slices.Contains(e.words, term) || e.name == term || own == term || e.kind+"/"+own == term:
		return isIt
	case some(strings.HasPrefix):
		return begins
	case some(strings.Contains):
		return contains
	case strings.HasPrefix(e.kind, term):
		return ofKind
	}
	if a, err := netip.ParseAddr(term); err == nil && slices.ContainsFunc(e.prefixes, func(p netip.Prefix) bool { return p.Contains(a) }) {
		return holds
	}
	return 0
}
