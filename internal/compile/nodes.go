package compile

import (
	"cmp"
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

// Nodes is the NodePath of each node that is on an external network itself, and what we think of those who ask for ways out by it.
func Nodes(w *snapshot.Nodes) (*intent.Intent, []intent.Verdict) {
	n := &nodes{
		w: w, in: intent.New(), on: map[place]bool{}, hosts: map[netip.Addr]bool{},
		claims: map[netip.Addr]claims{}, egress: map[place][]kubedcv1alpha1.NodeEgress{},
	}
	for _, a := range w.Hosts {
		n.hosts[a] = true
	}
	for _, u := range inOrder(w.Uplinks, func(u snapshot.Uplink) snapshot.Meta { return u.Meta }) {
		if !servable(u, w.Inside).OK() || u.Deleting {
			continue
		}
		n.uplinks = append(n.uplinks, &u)
		for _, node := range u.Nodes {
			n.on[place{node, u.Name}] = true
		}
	}
	n.resolveDepartures() // each EgressService and EgressRoute gets a network and pods
	n.claimPods()         // who leads what each pod sends
	n.groupPods()         // and by which network of which node
	n.lay()               // what each node has to do
	return n.in, n.verdicts()
}

// nodes is one run.
type nodes struct {
	w          *snapshot.Nodes
	in         *intent.Intent
	uplinks    []*snapshot.Uplink // that can be used, the oldest first
	on         map[place]bool
	hosts      map[netip.Addr]bool
	departures []*departure
	claims     map[netip.Addr]claims // by pod
	egress     map[place][]kubedcv1alpha1.NodeEgress
}

// place is a network on a node.
type place struct{ node, network string }

func (p place) compare(o place) int {
	return cmp.Or(strings.Compare(p.node, o.node), strings.Compare(p.network, o.network))
}

// lay wants the NodePaths.
func (n *nodes) lay() {
	numbers := numbered(n.w.Uplinks)
	paths := map[string]*kubedcv1alpha1.NodePathSpec{}
	for _, u := range slices.SortedFunc(slices.Values(n.uplinks), func(a, b *snapshot.Uplink) int { return strings.Compare(a.Name, b.Name) }) {
		network := nodeNetwork(n.w, *u)
		network.Number = numbers[u.Name]
		for _, node := range u.Nodes {
			if paths[node] == nil {
				paths[node] = &kubedcv1alpha1.NodePathSpec{}
			}
			paths[node].Networks = append(paths[node].Networks, n.withEgress(network, node))
		}
	}
	for _, node := range slices.Sorted(maps.Keys(paths)) {
		key := intent.ObjectKey{Kind: intent.NodePath, Name: node}
		n.in.Object(key, intent.NewObject(intent.Meta{Labels: ownership.Labels(ownership.NodesShard)}, paths[node]), nodeRef(node))
	}
}

// nodeRef is what all who leave by a node need.
func nodeRef(node string) state.Ref { return state.Ref{Kind: "Node", Name: node} }

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

// servable says whether nodes can be on a network as they are asked to.
func servable(u snapshot.Uplink, inside []netip.Prefix) intent.Finding {
	if u.Method == string(kubedcv1alpha1.NodeVRF) && len(inside) == 0 {
		return intent.Finding{Reason: intent.NeedsPrefixes, Message: "method VRF has to know what is inside the cluster; " +
			"give the controller --cluster-prefixes (defaults.clusterPrefixes of the chart), or choose another method"}
	}
	return malformed(u.Malformed)
}

// servicesOf are the cluster addresses of the Services that are reached by a network.
func servicesOf(w *snapshot.Nodes, u snapshot.Uplink) []string {
	var out []netip.Addr
	for _, s := range w.Reached {
		if slices.ContainsFunc(s.External, func(a netip.Addr) bool {
			return reachedBy(&u, a)
		}) {
			out = append(out, s.Cluster...)
		}
	}
	return sorted(out)
}

// reachedBy says whether an address of a Service is reached by a network.
func reachedBy(u *snapshot.Uplink, a netip.Addr) bool {
	return slices.ContainsFunc(u.Addresses, func(p netip.Prefix) bool { return p.Contains(a) })
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
		n := int32(ownership.Sum(u.Name)%numbers) + 1
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
