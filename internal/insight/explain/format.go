package explain

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/humanize"
)

// joinFew are the first of things of which there are seldom more than two, one of each family.
func joinFew[T fmt.Stringer](list []T) string { return humanize.JoinLimited(humanize.Strings(list), 2) }

// withPrefix is a word after another, or nothing.
func withPrefix(prefix, word string) string {
	if word == "" {
		return ""
	}
	return prefix + word
}

func addressOrNone(a netip.Addr) string {
	if !a.IsValid() {
		return "no address yet"
	}
	return a.String()
}

// formatPrefix is a prefix, of a single address without its length.
func formatPrefix(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}

func formatNetwork(name string) string {
	if name == "" {
		return "the default network"
	}
	return "network " + name
}

func formatSelector(labels map[string]string) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		out = append(out, k+"="+labels[k])
	}
	return humanize.JoinLimited(out, 4)
}

func formatVLAN(n *clusterstate.Subnet) string {
	if n.Tag == 0 {
		return ""
	}
	return fmt.Sprintf(", VLAN %d", n.Tag)
}

// formatPodState is how a pod is doing.
func formatPodState(p *clusterstate.Pod) string {
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
