package explain

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/humanize"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/state"
)

// kindAliases are the names of kinds that users may type: those of kubectl, and some of our own.
var kindAliases = []struct {
	kind  string
	words []string // the first is used in output
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

// KindNames returns one name for each kind.
func KindNames() []string {
	var out []string
	for _, k := range kindAliases {
		out = append(out, k.words[0])
	}
	return out
}

// KindName returns the name of a kind as users type it.
func KindName(kind string) string {
	if kind == string(intent.Subnet) { // a Subnet without an ExternalNetwork is an external network itself
		kind = string(intent.ExternalNetwork)
	}
	for _, k := range kindAliases {
		if k.kind == kind {
			return k.words[0]
		}
	}
	return strings.ToLower(kind)
}

// ParseKind returns the kind with this name, or an empty string.
func ParseKind(word string) string {
	for _, k := range kindAliases {
		if slices.Contains(k.words, strings.ToLower(word)) {
			return k.kind
		}
	}
	return ""
}

// Resolve returns the subject that text names: an address, KIND/NAME or NAME. An empty namespace matches any.
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
			cmp.Or(strings.Join(humanize.NearestNames(word, KindNames()), " or "), strings.Join(KindNames(), ", ")))
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
		return Subject{}, fmt.Errorf("%s is ambiguous; use one of these:\n%s", text, formatCommands(found))
	}
}

// candidate is an object that a name may refer to, with all its names.
type candidate struct {
	ref   state.Ref
	names []string
}

func listCandidates(c *clusterstate.Cluster, kind string) []candidate {
	var out []candidate
	for _, o := range c.Objects() {
		if o.Kind == string(intent.NodePath) {
			continue // the explanation of its node includes it
		}
		network := o.Kind == string(intent.Subnet) // a Subnet that is an external network itself
		if kind == "" && o.Kind != clusterstate.PodKind || kind == o.Kind || network &&
			kind == string(intent.ExternalNetwork) {
			out = append(out, candidate{o.Ref, append([]string{o.Name}, alternativeNames(c, o.Ref)...)})
		}
	}
	return out
}

// alternativeNames returns other names of an object: the namespace of a Project, the Subnets of an ExternalNetwork.
func alternativeNames(c *clusterstate.Cluster, ref state.Ref) []string {
	if p := c.Project(ref); p != nil {
		return []string{p.Shard}
	}
	if ref.Kind == string(intent.ExternalNetwork) {
		return c.Network(ref.Name).Subnets
	}
	return nil
}

// notFoundError returns an error that suggests similar names and the same name in other namespaces.
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
	for _, n := range humanize.NearestNames(name, slices.Sorted(maps.Keys(names))) {
		if len(elsewhere) < humanize.MaxSuggestions {
			elsewhere = append(elsewhere, names[n])
		}
	}
	if len(elsewhere) > 0 {
		return fmt.Errorf("there is no %s%s; did you mean\n%s", text, where, formatCommands(elsewhere))
	}
	return fmt.Errorf("there is no %s%s; list the objects with kubectl get %s -A", text, where,
		strings.Join(KindNames()[:3], ","))
}

// FormatArgument returns an object as an argument of sallyport explain.
func FormatArgument(ref state.Ref) string {
	word := KindName(ref.Kind)
	if ref.Namespace == "" {
		return word + "/" + ref.Name
	}
	return word + "/" + ref.Name + " -n " + ref.Namespace
}
