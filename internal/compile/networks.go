package compile

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/snapshot"
	"github.com/sallyport/sallyport/internal/model/state"
)

// Networks returns a verdict on each ExternalNetwork. A subnet belongs to the first network, sorted by name, that lists
// it.
func Networks(w *snapshot.NetworkInput) []intent.Verdict {
	var out []intent.Verdict
	owner := map[string]string{}
	for _, n := range sortByAge(lastingNetworks(w), func(n snapshot.ExternalNetwork) snapshot.Meta {
		return snapshot.Meta{Name: n.Name}
	}) {
		v := intent.Verdict{
			Object:     intent.ObjectKey{Kind: intent.ExternalNetwork, Name: n.Name},
			Generation: n.Generation,
		}
		v.Accepted = checkMalformed(n.Malformed)
		var facts intent.NetworkFacts
		for _, name := range n.Subnets {
			x, exists := w.ExternalSubnets[name]
			if other := owner[name]; other != "" {
				v.Accepted = firstProblem(v.Accepted, intent.Finding{Reason: intent.SubnetTaken, Message: fmt.Sprintf(
					"Subnet %s already belongs to ExternalNetwork %s; remove it from one of the two", name, other)})
				continue
			}
			if !exists {
				v.Resolved = firstProblem(v.Resolved,
					intent.Finding{Reason: intent.SubnetNotFound, Message: fmt.Sprintf(
						"Subnet %s does not exist, or has no %s prefix and gateway; create or correct it", name,
						kubeovn.ExternalFamily)})
				continue
			}
			owner[name] = n.Name
			if x.Unsupported {
				v.Resolved = firstProblem(v.Resolved, networkNotSupported(&x))
			}
			if !x.Ready {
				v.Waiting = firstProblem(v.Waiting,
					intent.Finding{Reason: intent.WaitingForEngine, Message: fmt.Sprintf(
						"Subnet %s is not ready yet", name)})
			}
			facts.Subnets = append(facts.Subnets,
				intent.SubnetFacts{Name: name, Prefix: x.Prefix, Gateway: x.Gateway, Free: x.Free, Used: x.Used})
		}
		v.Accepted = firstProblem(v.Accepted, checkSecondPrefix(w, n))
		v.Resolved = firstProblem(v.Resolved, checkSharedReserved(w, n))
		if n.Uplink != nil {
			v.Accepted = firstProblem(v.Accepted, checkUplink(*n.Uplink, w.ClusterPrefixes))
			for _, node := range n.Uplink.Nodes {
				v.Waiting = firstProblem(v.Waiting, checkAgentReport(w.NodePaths, node, n.Name))
			}
		}
		facts.Return, facts.Obsolete = resolveReturnPath(w, n)
		v.Facts = facts
		out = append(out, v)
	}
	return out
}

// checkSecondPrefix returns the finding on the IPv6 prefix of a network.
func checkSecondPrefix(w *snapshot.NetworkInput, n snapshot.ExternalNetwork) intent.Finding {
	if n.Second == nil {
		return intent.Finding{}
	}
	if len(n.Subnets) != 1 {
		return intent.Finding{Reason: intent.Malformed, Message: fmt.Sprintf(
			"spec.ipv6 is the prefix of one wire, and the network has %d Subnets; make an ExternalNetwork of each", len(n.Subnets))}
	}
	x, exists := w.ExternalSubnets[n.Subnets[0]]
	if !exists {
		return intent.Finding{} // reported already
	}
	if err := x.AddSecond(*n.Second); err != nil {
		return intent.Finding{Reason: intent.Malformed, Message: err.Error()}
	}
	return intent.Finding{}
}

// checkSharedReserved returns the finding that a shared address is not shared, because Kube-OVN could assign it to
// anybody.
func checkSharedReserved(w *snapshot.NetworkInput, n snapshot.ExternalNetwork) intent.Finding {
	for _, a := range slices.SortedFunc(maps.Keys(n.SharedAddresses), netip.Addr.Compare) {
		reserves := func(name string) bool {
			x := w.ExternalSubnets[name]
			return x.Prefix.Contains(a) && x.IsReserved(a)
		}
		if !slices.ContainsFunc(n.Subnets, reserves) {
			return intent.Finding{Reason: intent.SharedAddressNotReserved, Message: fmt.Sprintf(
				"shared address %s is not shared: any project could get it; "+
					"add it to excludeIps of the network's Subnet", a)}
		}
	}
	return intent.Finding{}
}

// resolveReturnPath returns the return path mode of a network, and why it is not the requested one.
func resolveReturnPath(w *snapshot.NetworkInput, n snapshot.ExternalNetwork) (string, intent.Finding) {
	want := cmp.Or(n.ReturnPath, w.DefaultReturnPath, snapshot.ReturnByConnection)
	if want == snapshot.ReturnBySource || w.MissingCapabilities == "" {
		return string(want), intent.Finding{}
	}
	return string(snapshot.ReturnBySource), intent.Finding{Reason: intent.EngineTooOld, Message: fmt.Sprintf(
		"OVN can't route replies by connection: %s; they are routed by the pod's address, as with returnPath: Source. "+
			"Upgrade OVN to 24.09 or later", w.MissingCapabilities)}
}

// maxNetworkSubnet is the maximum length of the name of a Subnet in an ExternalNetwork.
const maxNetworkSubnet = 63

// lastingNetworks returns the networks without generated ones that are about to be deleted.
func lastingNetworks(w *snapshot.NetworkInput) []snapshot.ExternalNetwork {
	wanted := GeneratedNetworks(w).Objects
	return slices.DeleteFunc(slices.Clone(w.ExternalNetworks), func(n snapshot.ExternalNetwork) bool {
		_, stays := wanted[intent.ObjectKey{Kind: intent.ExternalNetwork, Name: n.Name}]
		return n.Generated && !stays
	})
}

// GeneratedNetworks returns an ExternalNetwork for each Subnet that is an external network only by its label, so that
// tenants, who can't read Subnets, see which networks exist. It says what the label says; nothing else is decided by it.
// An operator's ExternalNetwork with the Subnet, or with its name, takes precedence.
func GeneratedNetworks(w *snapshot.NetworkInput) *intent.Intent {
	out := intent.New()
	taken, used := map[string]bool{}, map[string]bool{}
	for _, n := range w.ExternalNetworks {
		if n.Generated {
			continue
		}
		used[n.Name] = true
		for _, s := range n.Subnets {
			taken[s] = true
		}
	}
	for _, s := range w.LabelledSubnets {
		if taken[s.Name] || used[s.Name] || len(s.Name) > maxNetworkSubnet {
			continue
		}
		out.AddObject(intent.ObjectKey{Kind: intent.ExternalNetwork, Name: s.Name},
			intent.NewObject(intent.Meta{Labels: ownership.ManagedLabels(ownership.NetworksShard)},
				&kubedcv1alpha1.ExternalNetworkSpec{
					Type: kubedcv1.NetworkType(s.Type), Default: s.Default, Subnets: []string{s.Name},
					Isolation: kubedcv1alpha1.IsolateNone,
				}), state.Ref{Kind: string(intent.Subnet), Name: s.Name})
	}
	return out
}
