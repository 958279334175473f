package explain

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/sallyport/sallyport/internal/survey"
	"github.com/sallyport/sallyport/internal/words"
)

// few are the first of things of which there are seldom more than two, one of each family.
func few[T fmt.Stringer](list []T) string { return words.Few(words.Of(list), 2) }

// prefixed is a word after another, or nothing.
func prefixed(prefix, word string) string {
	if word == "" {
		return ""
	}
	return prefix + word
}

func text(a netip.Addr) string {
	if !a.IsValid() {
		return "no address yet"
	}
	return a.String()
}

// bare is a prefix, of a single address without its length.
func bare(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}

func network(name string) string {
	if name == "" {
		return "the default network"
	}
	return "network " + name
}

func selector(labels map[string]string) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		out = append(out, k+"="+labels[k])
	}
	return words.Few(out, 4)
}

func vlan(n *survey.Subnet) string {
	if n.Tag == 0 {
		return ""
	}
	return fmt.Sprintf(", VLAN %d", n.Tag)
}

// doing is how a pod is doing.
func doing(p *survey.Pod) string {
	switch {
	case p.Deleting:
		return "is being deleted"
	case p.Waiting != "":
		return "does not run: " + p.Waiting
	case !p.Ready:
		return "is not ready"
	default:
		return "is ready"
	}
}
