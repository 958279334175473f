package explain

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/humanize"
)

// joinFew joins lists that seldom have more than two members, one for each address family.
func joinFew[T fmt.Stringer](list []T) string { return humanize.JoinLimited(humanize.Strings(list), 2) }

// withPrefix adds a prefix to word unless it is empty.
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

// formatPrefix omits the length of a prefix with a single address.
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
