package compile

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// nodeEgressFixture returns a snapshot with two networks: red on nodes a and b, blue on a only. A Service has a pod on
// each node.
func nodeEgressFixture(change func(*snapshot.NodePathInput)) *snapshot.NodePathInput {
	uplink := func(name string, third int, nodes ...string) snapshot.Uplink {
		return snapshot.Uplink{
			Meta: snapshot.Meta{Name: name}, Type: name, Interface: name, Method: "Connection", Nodes: nodes,
			Gateways:        []netip.Addr{addr(fmt.Sprintf("192.168.%d.1", third))},
			ServicePrefixes: []netip.Prefix{netip.MustParsePrefix(fmt.Sprintf("192.168.%d.0/24", third))},
		}
	}
	mail := snapshot.Meta{Namespace: "gate", Name: "mail"}
	w := &snapshot.NodePathInput{
		Uplinks:        []snapshot.Uplink{uplink("red", 10, "a", "b"), uplink("blue", 20, "a")},
		EgressServices: []snapshot.EgressService{{Meta: mail}},
		LoadBalancers: []snapshot.LoadBalancerService{{
			Meta: mail, ExternalIPs: []netip.Addr{addr("192.168.10.25")},
			Pods: []snapshot.PodPlacement{
				{Address: addr("10.0.0.1"), Node: "a"}, {Address: addr("10.0.0.2"), Node: "b"},
			},
		}},
	}
	change(w)
	if w.AddressNamespaces == nil {
		w.AddressNamespaces = map[netip.Addr]string{}
		for _, b := range w.LoadBalancers {
			for _, a := range b.ExternalIPs {
				w.AddressNamespaces[a] = b.Namespace
			}
		}
	}
	return w
}

func TestNodeEgressVerdicts(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*snapshot.NodePathInput)
		reason string
	}{
		"in force": {func(*snapshot.NodePathInput) {}, ""},
		"a pod leaves with a floating IP": {func(w *snapshot.NodePathInput) {
			w.OutboundFIps = map[netip.Addr]string{addr("10.0.0.2"): "front"}
		}, intent.OverriddenByFIp},
		"a pod of nobody does": {func(w *snapshot.NodePathInput) {
			w.OutboundFIps = map[netip.Addr]string{addr("10.0.0.9"): "front"}
		}, ""},
		"a node is not on it": {func(w *snapshot.NodePathInput) {
			w.LoadBalancers[0].ExternalIPs = []netip.Addr{addr("192.168.20.25")}
		}, intent.NodeNotOnNetwork},
		"it is dropped there": {func(w *snapshot.NodePathInput) {
			w.EgressServices[0].Network = "blue"
		}, intent.AddressOfAnotherNetwork},
		"by the interface's": {func(w *snapshot.NodePathInput) {
			w.EgressServices[0].Network, w.EgressServices[0].ByNetwork = "red", true
		}, ""},
		"of no network": {func(w *snapshot.NodePathInput) {
			w.EgressServices[0].Network = "moon"
		}, intent.NetworkNotFound},
		"no address": {func(w *snapshot.NodePathInput) {
			w.LoadBalancers[0].ExternalIPs = nil
		}, intent.TargetHasNoAddress},
		"another's address": {func(w *snapshot.NodePathInput) {
			w.AddressNamespaces = map[netip.Addr]string{addr("192.168.10.25"): "other"}
		}, intent.AddressTaken},
		"an address of nobody": {func(w *snapshot.NodePathInput) {
			w.AddressNamespaces = map[netip.Addr]string{}
		}, intent.AddressTaken},
		"no Service": {func(w *snapshot.NodePathInput) { w.LoadBalancers = nil }, intent.ServiceNotFound},
		"routes know not whose": {func(w *snapshot.NodePathInput) {
			w.Uplinks[0].Method = "Static"
		}, intent.NeedsAnotherMethod},
		"it goes": {func(w *snapshot.NodePathInput) {
			w.EgressServices[0].Deleting = true
		}, intent.Deleting},
		"the network goes": {func(w *snapshot.NodePathInput) {
			w.Uplinks[0].Deleting = true
		}, intent.AddressOutsideNetwork},
		"nobody has reported": {func(w *snapshot.NodePathInput) {
			w.NodePaths = map[string]snapshot.NodePathStatus{"b": {}}
		}, intent.WaitingForAgent},
		"another's problem": {func(w *snapshot.NodePathInput) {
			w.NodePaths = map[string]snapshot.NodePathStatus{"a": {
				IsCurrent:       true,
				NetworkProblems: map[string]string{"red": "", "blue": "no eth2"},
			}}
		}, ""},
		"a problem": {func(w *snapshot.NodePathInput) {
			w.NodePaths = map[string]snapshot.NodePathStatus{"a": {
				IsCurrent:       true,
				NetworkProblems: map[string]string{"red": "no eth1"},
			}}
		}, intent.WaitingForAgent},
	} {
		_, verdicts := Nodes(nodeEgressFixture(c.change))
		if v := verdicts[0]; firstProblem(v.Accepted, v.Resolved, v.Waiting, v.Partly).Reason != c.reason {
			t.Errorf("%s: %v %v %v %v, want %q", name, v.Accepted, v.Resolved, v.Waiting, v.Partly, c.reason)
		}
	}
}

// A Service with the annotation gets its conditions from the controller that serves it; an event reports problems.
func TestAnnotatedNodeEgress(t *testing.T) {
	for address, want := range map[string]string{"192.168.10.25": "", "192.168.30.25": intent.NoEgress} {
		in, verdicts := Nodes(nodeEgressFixture(func(w *snapshot.NodePathInput) {
			w.EgressServices, w.LoadBalancers[0].EgressByLBIP, w.LoadBalancers[0].ExternalIPs = nil, true,
				[]netip.Addr{addr(address)}
		}))
		var got string
		for _, n := range in.Notes {
			got += n.Finding.Reason
		}
		if led := actualPaths(t, in, snapshot.PodPlacement{Address: addr("10.0.0.1"), Node: "a"},
			addr("12.1.1.1")); got != want || len(verdicts) > 0 || len(led) == 1 != (want == "") {
			t.Errorf("%s: told %q, led by %v, verdicts %v", address, got, led, verdicts)
		}
	}
}

// At most one entry applies to each packet of a pod: the route with the longest prefix, of those the oldest, or else
// the oldest Service. The kernel's order of rules does not matter.
func TestNodeEgressIsDisjoint(t *testing.T) {
	chance := rand.New(rand.NewPCG(1, 2))
	prefixes := []string{"0.0.0.0/0", "10.0.0.0/8", "10.1.0.0/16", "10.1.2.0/24", "10.1.2.3/32", "11.0.0.0/8"}
	targets := []string{"10.1.2.3", "10.1.2.4", "10.1.3.1", "10.2.0.1", "11.1.1.1", "12.1.1.1"}
	pod := snapshot.PodPlacement{Address: addr("10.0.0.1"), Node: "a"}
	for range 500 {
		w := nodeEgressFixture(func(w *snapshot.NodePathInput) { w.EgressServices = w.EgressServices[:chance.IntN(2)] })
		for i := range chance.IntN(5) {
			r := snapshot.EgressRoute{
				Meta: snapshot.Meta{
					Namespace: "gate",
					Name:      fmt.Sprintf("r%d", i),
					Created:   time.Unix(int64(chance.IntN(3)), 0),
				},
				Network: []string{"red", "blue"}[chance.IntN(2)], Pods: []snapshot.PodPlacement{pod},
			}
			for _, n := range chance.Perm(len(prefixes))[:1+chance.IntN(3)] {
				r.Destinations = append(r.Destinations, netip.MustParsePrefix(prefixes[n]))
			}
			w.EgressRoutes = append(w.EgressRoutes, r)
		}
		in, _ := Nodes(w)
		for _, to := range targets {
			if got, want := actualPaths(t, in, pod, addr(to)), expectedPaths(w, addr(to)); !slices.Equal(got, want) {
				t.Fatalf("to %s: led by %v, want %v, of %+v", to, got, want, w.EgressRoutes)
			}
		}
	}
}

// actualPaths returns the paths of a pod's packet according to all entries that match it.
func actualPaths(t *testing.T, in *intent.Intent, pod snapshot.PodPlacement, to netip.Addr) (out []string) {
	t.Helper()
	var body struct{ Spec kubedcv1alpha1.NodePathSpec }
	if err := json.Unmarshal([]byte(in.Objects[intent.ObjectKey{Kind: intent.NodePath, Name: pod.Node}].Value.Content),
		&body); err != nil {
		t.Fatal(err)
	}
	within := func(list []string) bool {
		return slices.ContainsFunc(list, func(p string) bool { return netip.MustParsePrefix(p).Contains(to) })
	}
	for _, n := range body.Spec.Networks {
		for _, e := range n.Egress {
			if slices.Contains(e.Pods, pod.Address.String()) && (len(e.Destinations) == 0 || within(e.Destinations)) &&
				!within(e.Except) {
				out = append(out, n.Name+" "+e.Address)
			}
		}
	}
	return slices.Compact(out) // entries with the same effect count once
}

// expectedPaths returns the path that a packet should take.
func expectedPaths(w *snapshot.NodePathInput, to netip.Addr) []string {
	best, by := -1, ""
	for _, r := range sortByAge(w.EgressRoutes, func(r snapshot.EgressRoute) snapshot.Meta { return r.Meta }) {
		for _, p := range r.Destinations {
			if p.Contains(to) && p.Bits() > best {
				best, by = p.Bits(), r.Network+" "
			}
		}
	}
	switch {
	case best >= 0:
		return []string{by}
	case len(w.EgressServices) > 0:
		return []string{"red 192.168.10.25"}
	default:
		return nil
	}
}

// Nodes on the same networks have the same NodePath, unless pods on one of them have egress.
func TestNodePathsOfEqualNodes(t *testing.T) {
	fixture := func(pods ...snapshot.PodPlacement) *intent.Intent {
		out, _ := Nodes(nodeEgressFixture(func(w *snapshot.NodePathInput) {
			w.Uplinks[0].Nodes = []string{"a", "b", "c", "d"} // a is on blue too
			w.LoadBalancers[0].Pods = pods
		}))
		return out
	}
	content := func(of *intent.Intent, node string) string {
		return of.Objects[intent.ObjectKey{Kind: intent.NodePath, Name: node}].Value.Content
	}
	plain, egress := fixture(), fixture(snapshot.PodPlacement{Address: addr("10.0.0.2"), Node: "b"})
	if content(plain, "b") != content(plain, "c") || content(plain, "a") == content(plain, "b") {
		t.Errorf("without egress: a %s, b %s, c %s", content(plain, "a"), content(plain, "b"), content(plain, "c"))
	}
	if content(egress, "b") == content(egress, "c") || content(egress, "c") != content(plain, "c") ||
		content(egress, "c") != content(egress, "d") {
		t.Errorf("with egress on b: b %s, c %s", content(egress, "b"), content(egress, "c"))
	}
}
