package compile

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"

	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/snapshot"
	"github.com/sallyport/sallyport/internal/model/state"
)

// Nodes compiles the NodePath of each node that is attached to an external network, and verdicts on the EgressServices
// and EgressRoutes that use these networks.
func Nodes(w *snapshot.NodePathInput) (*intent.Intent, []intent.Verdict) {
	n := &nodesCompiler{
		w: w, out: intent.New(), attached: map[nodeNetworkKey]bool{}, hosts: map[netip.Addr]bool{},
		claims: map[netip.Addr]egressClaims{}, egress: map[nodeNetworkKey][]kubedcv1alpha1.NodeEgress{},
	}
	for _, a := range w.NodeAddresses {
		n.hosts[a] = true
	}
	for _, u := range sortByAge(w.Uplinks, func(u snapshot.Uplink) snapshot.Meta { return u.Meta }) {
		if !checkUplink(u, w.ClusterPrefixes).OK() || u.Deleting {
			continue
		}
		n.uplinks = append(n.uplinks, &u)
		for _, node := range u.Nodes {
			n.attached[nodeNetworkKey{node, u.Name}] = true
		}
	}
	n.resolveEgressPolicies() // networks, source address and pods of each EgressService and EgressRoute
	n.claimPods()             // the policy for each pod and destination
	n.groupPods()             // egress entries by node and network
	n.emitNodePaths()         // the NodePaths
	return n.out, n.buildVerdicts()
}

// nodesCompiler holds one run.
type nodesCompiler struct {
	w              *snapshot.NodePathInput
	out            *intent.Intent
	uplinks        []*snapshot.Uplink // valid ones, oldest first
	attached       map[nodeNetworkKey]bool
	hosts          map[netip.Addr]bool
	egressPolicies []*nodeEgressPolicy
	claims         map[netip.Addr]egressClaims // by pod address
	egress         map[nodeNetworkKey][]kubedcv1alpha1.NodeEgress
}

// nodeNetworkKey is a network on a node.
type nodeNetworkKey struct{ node, network string }

func (p nodeNetworkKey) compare(o nodeNetworkKey) int {
	return cmp.Or(strings.Compare(p.node, o.node), strings.Compare(p.network, o.network))
}

// emitNodePaths adds the NodePaths.
func (n *nodesCompiler) emitNodePaths() {
	numbers := assignNumbers(n.w.Uplinks)
	paths := map[string]*kubedcv1alpha1.NodePathSpec{}
	for _, u := range slices.SortedFunc(slices.Values(n.uplinks), func(a, b *snapshot.Uplink) int {
		return strings.Compare(a.Name, b.Name)
	}) {
		network := buildNodeNetwork(n.w, *u)
		network.Number = numbers[u.Name]
		for _, node := range u.Nodes {
			if paths[node] == nil {
				paths[node] = &kubedcv1alpha1.NodePathSpec{}
			}
			paths[node].Networks = append(paths[node].Networks, n.addNodeEgress(network, node))
		}
	}
	common := map[string]intent.Object{} // NodePaths without egress of the node's own pods, by their networks
	for _, node := range slices.Sorted(maps.Keys(paths)) {
		networks, isCommon := describeNetworks(paths[node])
		object, isRendered := common[networks]
		if !isCommon || !isRendered {
			object = intent.NewObject(intent.Meta{Labels: ownership.ManagedLabels(ownership.NodesShard)}, paths[node])
		}
		if isCommon {
			common[networks] = object
		}
		n.out.AddObject(intent.ObjectKey{Kind: intent.NodePath, Name: node}, object, nodeRef(node))
	}
}

// describeNetworks returns the names of a NodePath's networks, and whether all nodes on these networks have the same
// NodePath. It lists thousands of Services, so it is rendered once for all of them.
func describeNetworks(path *kubedcv1alpha1.NodePathSpec) (names string, isCommon bool) {
	isCommon = true
	for _, network := range path.Networks {
		names += network.Name + "/"
		isCommon = isCommon && len(network.Egress) == 0
	}
	return names, isCommon
}

// nodeRef is the origin of a NodePath, on which everything depends that leaves through the node.
func nodeRef(node string) state.Ref { return state.Ref{Kind: "Node", Name: node} }

// buildNodeNetwork returns the NodePath entry of a network.
func buildNodeNetwork(w *snapshot.NodePathInput, u snapshot.Uplink) kubedcv1alpha1.NodeNetwork {
	out := kubedcv1alpha1.NodeNetwork{
		Name: u.Name, Interface: u.Interface, MAC: u.MAC, Gateways: sortedStrings(u.Gateways),
		Method: kubedcv1alpha1.NodeMethod(u.Method),
		Legs:   u.UseVethPair, Steering: kubedcv1alpha1.NodeSteering(u.Steering),
	}
	switch out.Method {
	case kubedcv1alpha1.NodeStatic:
		out.Clients = sortedStrings(u.ClientPrefixes)
	case kubedcv1alpha1.NodeSourceRule, kubedcv1alpha1.NodeMark:
		out.Services = clusterIPsReachedBy(w, u)
	case kubedcv1alpha1.NodeVRF:
		out.Inside = sortedStrings(w.ClusterPrefixes)
		if out.Steering != kubedcv1alpha1.SteerByConnection {
			out.Services = clusterIPsReachedBy(w, u)
		}
	case kubedcv1alpha1.NodeConnection:
	}
	return out
}

// checkUplink checks that nodes can serve a network as its spec asks for.
func checkUplink(u snapshot.Uplink, inside []netip.Prefix) intent.Finding {
	if u.Method == string(kubedcv1alpha1.NodeVRF) && len(inside) == 0 {
		return intent.Finding{
			Reason: intent.NeedsClusterPrefixes,
			Message: "method VRF needs the prefixes of the cluster; " +
				"set the controller's --cluster-prefixes (defaults.clusterPrefixes of the chart), or choose another method",
		}
	}
	return checkMalformed(u.Malformed)
}

// clusterIPsReachedBy returns the cluster IPs of the Services that are reachable through a network.
func clusterIPsReachedBy(w *snapshot.NodePathInput, u snapshot.Uplink) []string {
	var out []netip.Addr
	for _, s := range w.ExposedServices {
		if slices.ContainsFunc(s.ExternalIPs, func(a netip.Addr) bool {
			return servesAddress(&u, a)
		}) {
			out = append(out, s.ClusterIPs...)
		}
	}
	return sortedStrings(out)
}

// servesAddress reports whether a Service's external address is reachable through a network.
func servesAddress(u *snapshot.Uplink, a netip.Addr) bool {
	return slices.ContainsFunc(u.ServicePrefixes, func(p netip.Prefix) bool { return p.Contains(a) })
}

// sortedStrings returns a list as text, sorted and without duplicates.
func sortedStrings[T interface {
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

// assignNumbers gives each network a number from 1 to 255. It is derived from the name; of two networks with the same
// number the older one keeps it.
func assignNumbers(uplinks []snapshot.Uplink) map[string]int32 {
	const numbers = 255
	out, taken := map[string]int32{}, map[int32]bool{}
	for _, u := range slices.SortedFunc(slices.Values(uplinks), func(a, b snapshot.Uplink) int {
		if c := a.Created.Compare(b.Created); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	}) {
		n := int32(ownership.HashName(u.Name)%numbers) + 1
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
