package compile

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/snapshot"
)

// Networks is what we think of each ExternalNetwork. A subnet belongs to the first that names it, by name.
func Networks(w *snapshot.Networks) []intent.Verdict {
	var out []intent.Verdict
	owner := map[string]string{}
	for _, n := range inOrder(w.Networks, func(n snapshot.Network) snapshot.Meta { return snapshot.Meta{Name: n.Name} }) {
		v := intent.Verdict{Object: intent.ObjectKey{Kind: intent.ExternalNetwork, Name: n.Name}, Generation: n.Generation}
		v.Accepted = malformed(n.Malformed)
		var facts intent.NetworkFacts
		for _, name := range n.Subnets {
			x, exists := w.Subnets[name]
			if other := owner[name]; other != "" {
				v.Accepted = first(v.Accepted, intent.Finding{Reason: intent.SubnetTaken, Message: fmt.Sprintf(
					"Subnet %s belongs to ExternalNetwork %s; take it out of one of the two", name, other)})
				continue
			}
			if !exists {
				v.Resolved = first(v.Resolved, intent.Finding{Reason: intent.SubnetNotFound, Message: fmt.Sprintf(
					"there is no Subnet %s with an IPv4 prefix and gateway", name)})
				continue
			}
			owner[name] = n.Name
			if x.Dual {
				v.Resolved = first(v.Resolved, dual(&x))
			}
			if !x.Ready {
				v.Waiting = first(v.Waiting, intent.Finding{Reason: intent.WaitForEngine, Message: fmt.Sprintf(
					"Kube-OVN has not made Subnet %s ready yet", name)})
			}
			facts.Subnets = append(facts.Subnets, intent.SubnetFacts{Name: name, Prefix: x.Prefix, Gateway: x.Gateway, Free: x.Free, Used: x.Used})
		}
		v.Resolved = first(v.Resolved, unreserved(w, n))
		if n.Uplink != nil {
			v.Accepted = first(v.Accepted, servable(*n.Uplink, w.Inside))
			for _, node := range n.Uplink.Nodes {
				v.Waiting = first(v.Waiting, doneBy(w.Paths, node, n.Name))
			}
		}
		facts.Return, facts.Obsolete = wayBack(w, n)
		v.Facts = facts
		out = append(out, v)
	}
	return out
}

// unreserved is which of a network's shared addresses is not shared, because Kube-OVN could give it to anybody.
func unreserved(w *snapshot.Networks, n snapshot.Network) intent.Finding {
	for _, a := range slices.SortedFunc(maps.Keys(n.Shared), netip.Addr.Compare) {
		reserves := func(name string) bool { x := w.Subnets[name]; return x.Prefix.Contains(a) && x.Reserves(a) }
		if !slices.ContainsFunc(n.Subnets, reserves) {
			return intent.Finding{Reason: intent.SharedNotReserved, Message: fmt.Sprintf(
				"shared address %s is not shared: it is in excludeIps of none of the network's Subnets, and so anybody could get it; add it there", a)}
		}
	}
	return intent.Finding{}
}

// wayBack is how replies find back to a network, and why not as somebody asked for.
func wayBack(w *snapshot.Networks, n snapshot.Network) (string, intent.Finding) {
	want := cmp.Or(n.Return, w.Return, snapshot.ByConnection)
	if want == snapshot.BySource || w.Lacks == "" {
		return string(want), intent.Finding{}
	}
	return string(snapshot.BySource), intent.Finding{Reason: intent.EngineTooOld, Message: fmt.Sprintf(
		"OVN can't lead replies back by their connection: %s; they follow the pod's address, as with returnPath: Source. "+
			"Upgrade OVN to 24.09 or later", w.Lacks)}
}
