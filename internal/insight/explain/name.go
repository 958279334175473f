package explain

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/state"
)

// kindAliases are the words for kinds, as kubectl has them, and our own for what it has none for.
var kindAliases = []struct {
	kind  string
	words []string // the first is the one that we use
}{
	{string(intent.EIp), []string{"eip", "eips"}},
	{string(intent.FIp), []string{"fip", "fips"}},
	{string(intent.Service), []string{"svc", "service", "services"}},
	{string(intent.EgressIP), []string{"egressip", "egressips"}},
	{string(intent.EgressService), []string{"egressservice", "egressservices"}},
	{string(intent.EgressRoute), []string{"egressroute", "egressroutes"}},
	{string(intent.Project), []string{"project", "projects"}},
	{string(intent.ExternalNetwork), []string{
		"network", "networks", "externalnetwork", "externalnetworks", "extnet",
		"subnet", "subnets",
	}},
	{clusterstate.NodeKind, []string{"node", "nodes", "no", "nodepath", "nodepaths"}},
	{clusterstate.PodKind, []string{"pod", "pods", "po"}},
}

// KindNames are the words for kinds, one for each.
func KindNames() []string {
	var out []string
	for _, k := range kindAliases {
		out = append(out, k.words[0])
	}
	return out
}

// KindName is the word for a kind.
func KindName(kind string) string {
	if kind == string(intent.Subnet) { // people ask about it because it is a network
		kind = string(intent.ExternalNetwork)
	}
	for _, k := range kindAliases {
		if k.kind == kind {
			return k.words[0]
		}
	}
	return strings.ToLower(kind)
}

// ParseKind is the kind that a word stands for; empty: none.
func ParseKind(word string) string {
	for _, k := range kindAliases {
		if slices.Contains(k.words, strings.ToLower(word)) {
			return k.kind
		}
	}
	return ""
}

// Resolve is what somebody means by an address, kind/name or only a name, in a namespace or in any.
func Resolve(s *clusterstate.State, text, namespace string) (Subject, error) {
	if a, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil {
		return Subject{Address: a}, nil
	}
	word, name, typed := strings.Cut(text, "/")
	kind := ParseKind(word)
	switch {
	case !typed:
		kind, name = "", word
	case kind == "":
		return Subject{}, fmt.Errorf("there is no kind %q; use %s", word,
			cmp.Or(strings.Join(nearestNames(word, KindNames()), " or "), strings.Join(KindNames(), ", ")))
	}
	all := listCandidates(&s.Cluster, kind)
	var found []state.Ref
	for _, c := range all {
		if slices.Contains(c.names, name) &&
			(namespace == "" || c.ref.Namespace == "" || c.ref.Namespace == namespace) {
			found = append(found, c.ref)
		}
	}
	switch len(found) {
	case 0:
		return Subject{}, notFoundError(all, text, name, namespace)
	case 1:
		return Subject{Object: found[0]}, nil
	default:
		return Subject{}, fmt.Errorf("%s may be any of these; say which:\n%s", text, formatCommands(found))
	}
}

// candidate is an object that somebody may mean, and the names that it may be called by.
type candidate struct {
	ref   state.Ref
	names []string
}

func listCandidates(c *clusterstate.Cluster, kind string) []candidate {
	var out []candidate
	for _, o := range c.Objects() {
		if o.Kind == string(intent.NodePath) {
			continue // it is told with its node
		}
		network := o.Kind == string(intent.Subnet) // one that is an external network itself
		if kind == "" && o.Kind != clusterstate.PodKind || kind == o.Kind || network &&
			kind == string(intent.ExternalNetwork) {
			out = append(out, candidate{o.Ref, append([]string{o.Name}, alternativeNames(c, o.Ref)...)})
		}
	}
	return out
}

// alternativeNames are other names of an object: the namespace of a Project, the Subnets of a network.
func alternativeNames(c *clusterstate.Cluster, ref state.Ref) []string {
	if p := c.Project(ref); p != nil {
		return []string{p.Shard}
	}
	if ref.Kind == string(intent.ExternalNetwork) {
		return c.Network(ref.Name).Subnets
	}
	return nil
}

// notFoundError says that nothing has the name, and what somebody may have meant.
func notFoundError(all []candidate, text, name, namespace string) error {
	where := ""
	if namespace != "" {
		where = " in namespace " + namespace
	}
	var elsewhere []state.Ref
	names := map[string]state.Ref{}
	for _, c := range all {
		if slices.Contains(c.names, name) {
			elsewhere = append(elsewhere, c.ref)
		}
		for _, n := range c.names {
			names[n] = c.ref
		}
	}
	for _, n := range nearestNames(name, slices.Sorted(maps.Keys(names))) {
		if len(elsewhere) < maxSuggestions {
			elsewhere = append(elsewhere, names[n])
		}
	}
	if len(elsewhere) > 0 {
		return fmt.Errorf("there is no %s%s; do you mean\n%s", text, where, formatCommands(elsewhere))
	}
	return fmt.Errorf("there is no %s%s; kubectl get %s -A lists what there is", text, where,
		strings.Join(KindNames()[:3], ","))
}

// FormatArgument is an object as it is given to explain.
func FormatArgument(ref state.Ref) string {
	word := KindName(ref.Kind)
	if ref.Namespace == "" {
		return word + "/" + ref.Name
	}
	return word + "/" + ref.Name + " -n " + ref.Namespace
}
