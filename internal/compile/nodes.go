package compile

import (
	"hash/fnv"
	"maps"
	"net/netip"
	"slices"
	"strings"

	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/ownership"
	"github.com/sallyport/sallyport/internal/snapshot"
	"github.com/sallyport/sallyport/internal/state"
)

// Nodes is the NodePath of each node that is on an external network itself.
func Nodes(w *snapshot.Nodes) *intent.Intent {
	in := intent.New()
	numbers := numbered(w.Uplinks)
	paths := map[string]*kubedcv1alpha1.NodePathSpec{}
	for _, u := range inOrder(w.Uplinks, func(u snapshot.Uplink) snapshot.Meta { return snapshot.Meta{Name: u.Name} }) {
		if u.Malformed != "" || u.Deleting {
			continue
		}
		network := nodeNetwork(w, u)
		network.Number = numbers[u.Name]
		for _, node := range u.Nodes {
			if paths[node] == nil {
				paths[node] = &kubedcv1alpha1.NodePathSpec{}
			}
			paths[node].Networks = append(paths[node].Networks, network)
		}
	}
	for _, node := range slices.Sorted(maps.Keys(paths)) {
		key := intent.ObjectKey{Kind: intent.NodePath, Name: node}
		in.Object(key, intent.NewObject(intent.Meta{Labels: ownership.Labels(ownership.NodesShard)}, paths[node]), state.Ref{Kind: "Node", Name: node})
	}
	return in
}

// nodeNetwork is a network as nodes have to serve it.
func nodeNetwork(w *snapshot.Nodes, u snapshot.Uplink) kubedcv1alpha1.NodeNetwork {
	out := kubedcv1alpha1.NodeNetwork{
		Name: u.Name, Interface: u.Interface, MAC: u.MAC, Gateways: sorted(u.Gateways), Method: kubedcv1alpha1.NodeMethod(u.Method),
		Legs: u.Legs,
	}
	switch out.Method {
	case kubedcv1alpha1.NodeStatic:
		out.Clients = sorted(u.Clients)
	case kubedcv1alpha1.NodeSourceRule, kubedcv1alpha1.NodeMark:
		out.Services = servicesOf(w, u)
	case kubedcv1alpha1.NodeVRF:
		out.Services, out.Inside = servicesOf(w, u), sorted(w.Inside)
	case kubedcv1alpha1.NodeConnection:
	}
	return out
}

// servicesOf are the cluster addresses of the Services that are reached by a network.
func servicesOf(w *snapshot.Nodes, u snapshot.Uplink) []string {
	var out []netip.Addr
	for _, s := range w.Reached {
		if slices.ContainsFunc(s.External, func(a netip.Addr) bool {
			return slices.ContainsFunc(u.Addresses, func(p netip.Prefix) bool { return p.Contains(a) })
		}) {
			out = append(out, s.Cluster...)
		}
	}
	return sorted(out)
}

// sorted is a list as text, each entry once.
func sorted[T interface {
	comparable
	String() string
	Compare(T) int
}](list []T) (out []string) {
	list = slices.Compact(slices.SortedFunc(slices.Values(list), T.Compare))
	for _, v := range list {
		out = append(out, v.String())
	}
	return out
}

// numbered gives each network a number. It follows from the name; where two have the same the older one keeps it.
func numbered(uplinks []snapshot.Uplink) map[string]int32 {
	const numbers = 255
	out, taken := map[string]int32{}, map[int32]bool{}
	for _, u := range slices.SortedFunc(slices.Values(uplinks), func(a, b snapshot.Uplink) int {
		if c := a.Created.Compare(b.Created); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	}) {
		hash := fnv.New32a()
		_, _ = hash.Write([]byte(u.Name)) // never fails
		n := int32(hash.Sum32()%numbers) + 1
		for range numbers {
			if !taken[n] {
				break
			}
			n = n%numbers + 1
		}
		taken[n], out[u.Name] = true, n
	}
	return out
}
