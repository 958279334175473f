package compile

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// newEgressIP returns an EgressIP for pods of one VPC.
func newEgressIP(name string, age int, addresses ...string) snapshot.EgressIP {
	return snapshot.EgressIP{
		Meta: snapshot.Meta{Name: name, Created: time.Unix(int64(1000-age), 0)}, Addresses: addresses,
		Vpcs: []string{"acme-prod"},
	}
}

// egressFixture returns a snapshot with three nodes and a network, in which Kube-OVN has applied the requested
// addresses.
func egressFixture(requests ...snapshot.EgressIP) *snapshot.EgressInput {
	w := &snapshot.EgressInput{
		EgressIPs: requests,
		ExternalSubnets: []snapshot.ExternalSubnet{{
			Subnet:  "ext-public",
			Network: "public",
			Prefix:  netip.MustParsePrefix("198.51.100.0/24"),
			Gateway: addr("198.51.100.1"),
		}},
		PortNetworks: map[string]netip.Prefix{}, ChassisGroups: map[string]snapshot.HAChassisGroup{},
		PeerPorts: map[string]bool{}, GlobalOptions: map[string]bool{},
		Engine:        snapshot.Engine{OvnEips: map[string]snapshot.OvnEip{}},
		AddressOwners: map[netip.Addr]snapshot.AddressOwner{},
	}
	for i := range 3 {
		w.Nodes = append(w.Nodes, snapshot.Node{
			Name: fmt.Sprintf("node%d", i+1), Chassis: fmt.Sprintf("chassis%d", i+1), Ready: true,
			Addresses: []netip.Addr{addr(fmt.Sprintf("192.0.2.%d", i+1))},
		})
	}
	for _, r := range requests {
		for _, text := range r.Addresses {
			if a, err := netip.ParseAddr(text); err == nil {
				w.Engine.OvnEips[ownership.EgressOvnEipName(a)] = snapshot.OvnEip{ObjectState: snapshot.ObjectState{Exists: true, Ready: true}, Address: a}
				w.AddressOwners[a] = snapshot.AddressOwner{
					OvnEip: ownership.EgressOvnEipName(a),
					Shard:  ownership.EgressVpc,
				}
				for _, vpc := range r.Vpcs {
					w.PeerPorts[ownership.VPCEgressLinkPort(vpc, a)] = true
				}
			}
		}
	}
	return w
}

// All selected namespaces of the management VPC share a link, so all have to be admitted to the network.
func TestManagementNamespacesAreAdmittedTogether(t *testing.T) {
	r := newEgressIP("web", 1, "198.51.100.9")
	r.Vpcs, r.ManagementNamespaces = []string{kubeovn.ManagementVpc}, []string{"mail", "plain"}
	for _, c := range []struct {
		admitted snapshot.Admitted
		linked   bool
	}{
		{nil, true},
		{snapshot.Admitted{"mail": true, "plain": true}, true},
		{snapshot.Admitted{"mail": true, "plain": false}, false},
	} {
		w := egressFixture(r)
		w.ExternalSubnets[0].Admitted = c.admitted
		in, verdicts := Egress(w)
		_, linked := in.Rows[intent.LogicalRouterPort{
			Name: ownership.EgressLinkPort(addr("198.51.100.9"), kubeovn.ManagementVpc),
		}.Key(ownership.EgressVpc)]
		if linked != c.linked || verdicts[0].Partly.OK() != c.linked {
			t.Errorf("admitted %v: linked is %t, and the EgressIP says %v", c.admitted, linked, verdicts[0].Partly)
		}
	}
}

// An EgressIP does not redirect pods to a network that is not available to their project.
func TestEgressIPKeepsToTheNetworksGuests(t *testing.T) {
	r := newEgressIP("web", 1, "198.51.100.9")
	r.Vpcs = []string{"acme-prod", "evil-x"}
	for _, admitted := range []snapshot.Admitted{nil, {"acme-prod": true, "evil-x": false}} {
		w := egressFixture(r)
		w.ExternalSubnets[0].Admitted = admitted
		in, verdicts := Egress(w)
		linked := func(vpc string) bool {
			for key := range in.Rows {
				if strings.Contains(key.String(), ownership.EgressLinkPort(addr("198.51.100.9"), vpc)) {
					return true
				}
			}
			return false
		}
		if !linked("acme-prod") || linked("evil-x") != (admitted == nil) {
			t.Errorf("admitted %v: acme-prod linked %t, evil-x linked %t", admitted, linked("acme-prod"),
				linked("evil-x"))
		}
		if got := verdicts[0].Partly.Reason; (got == intent.NetworkNotAllowed) != (admitted != nil) {
			t.Errorf("admitted %v: the EgressIP says %q", admitted, got)
		}
	}
}

func addr(text string) netip.Addr { return netip.MustParseAddr(text) }

// summarizeVerdict formats the verdict on an EgressIP: the first problem, and its items.
func summarizeVerdict(verdicts []intent.Verdict, name string) (reason, items string) {
	for _, v := range verdicts {
		if v.Object.Name != name {
			continue
		}
		var list []string
		for _, i := range v.Facts.(intent.EgressIPFacts).Items {
			list = append(list, i.Address.String()+"@"+i.Node)
		}
		return firstProblem(v.Accepted, v.Resolved, v.Waiting, v.Partly).Reason, strings.Join(list, " ")
	}
	return "no verdict", ""
}

func TestEgressVerdicts(t *testing.T) {
	for name, c := range map[string]struct {
		world         *snapshot.EgressInput
		about         string
		reason, items string
	}{
		"in force": {
			egressFixture(newEgressIP("a", 0, "198.51.100.7")), "a", "",
			"198.51.100.7@node1",
		},
		"no address": {
			egressFixture(newEgressIP("a", 0, "198.51.100.7", "x")), "a",
			intent.InvalidEgressIP, "",
		},
		"of no network": {
			egressFixture(newEgressIP("a", 0, "203.0.113.7")), "a",
			intent.AddressOutsideNetwork, "",
		},
		"the gateway's": {
			egressFixture(newEgressIP("a", 0, "198.51.100.1")), "a", intent.EgressIPConflict,
			"",
		},
		"another's": {withHeldAddress("198.51.100.7", "eip-x"), "a", intent.EgressIPConflict, ""},
		"the older one's": {egressFixture(newEgressIP("new", 0, "198.51.100.7"),
			newEgressIP("old", 9, "198.51.100.7")), "new", intent.UnsupportedRequest, ""},
		"the older one has it": {egressFixture(newEgressIP("new", 0, "198.51.100.7"),
			newEgressIP("old", 9, "198.51.100.7")), "old", "", "198.51.100.7@node1"},
		"one address for each node": {
			egressFixture(newEgressIP("a", 0, "198.51.100.7", "198.51.100.8")), "a", "",
			"198.51.100.7@node1 198.51.100.8@node2",
		},
		"more addresses than nodes": {
			egressFixture(newEgressIP("a", 0, "198.51.100.4", "198.51.100.5", "198.51.100.6", "198.51.100.7")), "a",
			intent.UnassignedRequest,
			"198.51.100.4@node1 198.51.100.5@node2 198.51.100.6@node3",
		},
		"no node is ready": {changeNodes(egressFixture(newEgressIP("a", 0, "198.51.100.7")), func(n *snapshot.Node) {
			n.Ready = false
		}), "a", intent.NoMatchingNodeFound, ""},
		"every node leaves": {changeNodes(egressFixture(newEgressIP("a", 0, "198.51.100.7")), func(n *snapshot.Node) {
			n.Draining = true
		}), "a", intent.NoMatchingNodeFound, ""},
		"the router is not there": {
			withoutRouter(egressFixture(newEgressIP("a", 0, "198.51.100.7"))), "a",
			intent.WaitingForEngine, "198.51.100.7@node1",
		},
		"the VPC is not linked": {
			withoutLinkEnds(egressFixture(newEgressIP("a", 0, "198.51.100.7"))), "a",
			intent.Programming, "198.51.100.7@node1",
		},
		"pods that are not served": {
			addUnservedPods(egressFixture(newEgressIP("a", 0, "198.51.100.7")), 1), "a",
			intent.PodsNotServed, "198.51.100.7@node1",
		},
		"not accepted either": {
			addUnservedPods(egressFixture(newEgressIP("a", 0, "203.0.113.7")), 1), "a",
			intent.AddressOutsideNetwork, "",
		},
		"the selector is nonsense": {
			withBadSelector(egressFixture(newEgressIP("a", 0, "198.51.100.7"))), "a",
			intent.InvalidEgressIP, "",
		},
	} {
		_, verdicts := Egress(c.world)
		if reason, items := summarizeVerdict(verdicts, c.about); reason != c.reason || items != c.items {
			t.Errorf("%s: %q with %q, want %q with %q", name, reason, items, c.reason, c.items)
		}
	}
}

func addUnservedPods(w *snapshot.EgressInput, pods int) *snapshot.EgressInput {
	for i := range pods {
		w.EgressIPs[0].UnservedPods.AddPod(fmt.Sprintf("kube-system/dns-%05d", pods-i))
	}
	return w
}

// The message names the first few pods that are not served, and says whether others are.
func TestUnservedPods(t *testing.T) {
	for name, c := range map[string]struct {
		pods int
		vpcs []string
		want string
	}{
		"one": {1, nil, "1 selected pod is neither of a project nor on an overlay Subnet of VPC ovn-cluster and can't use the addresses " +
			"(it leaves as if not selected, regardless of failurePolicy): " +
			"kube-system/dns-00001; restrict the selectors to namespaces of projects and of such Subnets"},
		"many, beside a project": {
			20000,
			[]string{"acme-prod"},
			"20000 selected pods are neither of a project nor on an overlay Subnet of VPC ovn-cluster and can't use the addresses " +
				"(they leave as if not selected, regardless of failurePolicy): kube-system/dns-00001, kube-system/dns-00002, kube-system/dns-00003 " +
				"and 19997 more; " +
				"selected pods of acme-prod are served; restrict the selectors to namespaces of projects and of such Subnets",
		},
		"beside many projects": {
			2,
			[]string{"a", "b", "c", "d", "e"},
			"2 selected pods are neither of a project nor on an overlay Subnet of VPC ovn-cluster and can't use the addresses " +
				"(they leave as if not selected, regardless of failurePolicy): kube-system/dns-00001, kube-system/dns-00002; " +
				"selected pods of a, b, c and 2 more are served; " +
				"restrict the selectors to namespaces of projects and of such Subnets",
		},
	} {
		r := newEgressIP("a", 0, "198.51.100.7")
		r.Vpcs = c.vpcs
		_, verdicts := Egress(addUnservedPods(egressFixture(r), c.pods))
		if got := verdicts[0].Partly; got.Reason != intent.PodsNotServed || got.Message != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got.Message, c.want)
		}
		if !verdicts[0].Waiting.OK() {
			t.Errorf("%s: it waits for %v", name, verdicts[0].Waiting)
		}
	}
}

func withHeldAddress(address, by string) *snapshot.EgressInput {
	w := egressFixture(newEgressIP("a", 0, address))
	w.AddressOwners[addr(address)] = snapshot.AddressOwner{OvnEip: by}
	return w
}

func changeNodes(w *snapshot.EgressInput, change func(*snapshot.Node)) *snapshot.EgressInput {
	for i := range w.Nodes {
		change(&w.Nodes[i])
	}
	return w
}

func withoutRouter(w *snapshot.EgressInput) *snapshot.EgressInput { w.PortNetworks = nil; return w }

func withoutLinkEnds(w *snapshot.EgressInput) *snapshot.EgressInput { w.PeerPorts = nil; return w }

func withBadSelector(w *snapshot.EgressInput) *snapshot.EgressInput {
	w.EgressIPs[0].Malformed = "podSelector: nonsense"
	return w
}

// An address stays with its holder, moves to the first standby when the holder dies, and leaves a draining node.
func TestEgressHolders(t *testing.T) {
	port := ownership.EgressRouterPort(addr("198.51.100.7"))
	for name, c := range map[string]struct {
		held   []string
		change func(*snapshot.EgressInput)
		want   string
	}{
		"nobody holds it": {nil, nil, "chassis1 chassis2 chassis3"},
		"the engine moved": {
			[]string{"chassis3", "chassis2", "chassis1"},
			failoverTo("chassis2"),
			"chassis2 chassis1 chassis3",
		},
		"it moved farther": {
			[]string{"chassis3", "chassis2", "chassis1"},
			failoverTo("chassis1"),
			"chassis1 chassis3 chassis2",
		},
		"to nobody we know": {
			[]string{"chassis3", "chassis2", "chassis1"},
			failoverTo("chassis9"),
			"chassis3 chassis2 chassis1",
		},
		"it stays": {[]string{"chassis3", "chassis2", "chassis1"}, nil, "chassis3 chassis2 chassis1"},
		"its node is dead": {[]string{"chassis3", "chassis2", "chassis1"}, changeEachNode(func(n *snapshot.Node) {
			n.Ready = n.Name != "node3"
		}), "chassis2 chassis1"},
		"its node is gone": {[]string{"chassis9", "chassis3"}, nil, "chassis3 chassis1 chassis2"},
		"its node leaves": {[]string{"chassis3", "chassis2"}, changeEachNode(func(n *snapshot.Node) {
			n.Draining = n.Name == "node3"
		}), "chassis1 chassis2"},
		"another node dies": {[]string{"chassis3", "chassis2"}, changeEachNode(func(n *snapshot.Node) {
			n.Ready = n.Name != "node2"
		}), "chassis3 chassis1"},
	} {
		w := egressFixture(newEgressIP("a", 0, "198.51.100.7"))
		w.ChassisGroups[port], w.FailedOverTo = snapshot.HAChassisGroup{Chassis: c.held, EgressIP: "a"},
			map[string]string{}
		if c.change != nil {
			c.change(w)
		}
		in, _ := Egress(w)
		row := intent.HAChassisGroup{Name: port}
		got := in.Rows[row.Key(ownership.EgressVpc)].Value
		if want := (intent.HAChassisGroup{Name: port, Chassis: c.want}); got == nil || !got.Equal(want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

func failoverTo(to string) func(*snapshot.EgressInput) {
	return func(w *snapshot.EgressInput) { w.FailedOverTo[ownership.EgressRouterPort(addr("198.51.100.7"))] = to }
}

func changeEachNode(change func(*snapshot.Node)) func(*snapshot.EgressInput) {
	return func(w *snapshot.EgressInput) { changeNodes(w, change) }
}

// Of two EgressIPs that were created in the same second, the holder keeps the address.
func TestWhoHasAnAddressKeepsIt(t *testing.T) {
	w := egressFixture(newEgressIP("again", 0, "198.51.100.7"), newEgressIP("first", 0, "198.51.100.7"))
	w.ChassisGroups[ownership.EgressRouterPort(addr("198.51.100.7"))] = snapshot.HAChassisGroup{Chassis: []string{"chassis2"}, EgressIP: "first"}
	_, verdicts := Egress(w)
	if reason, items := summarizeVerdict(verdicts, "first"); reason != "" || items != "198.51.100.7@node2" {
		t.Errorf("who had it: %q with %q", reason, items)
	}
	if reason, _ := summarizeVerdict(verdicts, "again"); reason != intent.UnsupportedRequest {
		t.Errorf("who came later: %q", reason)
	}
}

// Links keep their networks, and no two have the same, including those derived from names.
func TestEgressLinks(t *testing.T) {
	r := newEgressIP("a", 0, "198.51.100.7")
	r.Vpcs = nil
	for i := range 300 {
		r.Vpcs = append(r.Vpcs, fmt.Sprintf("acme-%d", i))
	}
	w := egressFixture(r)
	links := func() map[string]netip.Prefix {
		out := map[string]netip.Prefix{}
		in, _ := Egress(w)
		for _, entry := range in.Rows {
			if p, is := entry.Value.(intent.LogicalRouterPort); is && p.Peer != "" {
				out[p.Name] = p.Network
			}
		}
		return out
	}
	before, seen := links(), map[netip.Prefix]bool{}
	for _, n := range before {
		seen[n.Masked()] = true
	}
	if len(before) != 300 || len(seen) != 300 {
		t.Fatalf("%d links have %d networks", len(before), len(seen))
	}
	// A link whose derived network is already used by another.
	here, other := ownership.EgressLinkPort(addr("198.51.100.7"), "acme-1"),
		ownership.EgressLinkPort(addr("198.51.100.7"), "acme-2")
	w.PortNetworks = map[string]netip.Prefix{other: before[here]}
	after := links()
	if after[other] != before[here] || after[here] == before[here] {
		t.Errorf("%s had %s and has %s; %s has %s", other, before[here], after[other], here, after[here])
	}
}

// An ACL of each network with egress addresses drops packets with the address of a link.
func TestLinkSourcesAreDropped(t *testing.T) {
	w := egressFixture(newEgressIP("a", 0, "198.51.100.7"), newEgressIP("b", 1, "198.51.100.6"))
	in, _ := Egress(w)
	group := ownership.EgressPortGroup("ext-public")
	want := []intent.Row{
		intent.PortGroup{Name: group, Ports: ownership.EgressSwitchPort("ext-public", addr("198.51.100.6")) + " " +
			ownership.EgressSwitchPort("ext-public", addr("198.51.100.7"))},
		intent.ACL{
			PortGroup: group, Direction: intent.FromLport, Priority: ownership.LinkSourcePriority,
			Match: "ip4.src == 240.0.0.0/4", Action: "drop",
		},
	}
	for _, r := range want {
		if got := in.Rows[r.Key(ownership.EgressVpc)]; got.Value == nil || !got.Value.Equal(r) {
			t.Errorf("got %v, want %v", got.Value, r)
		}
	}
	if in, _ := Egress(egressFixture()); len(in.Rows) > 0 {
		t.Errorf("rows without an egress address: %v", in.Rows)
	}
}

// Packets to hosts on another external network leave with the EgressIP's own address: that network's prefix is routed to
// the gateway, in halves, because the connected route of another egress address would be preferred to the default route.
func TestOtherNetworksAreRoutedToTheGateway(t *testing.T) {
	w := egressFixture(newEgressIP("a", 0, "198.51.100.7"))
	w.ExternalSubnets = append(w.ExternalSubnets,
		snapshot.ExternalSubnet{Subnet: "ext-cloud", Prefix: netip.MustParsePrefix("100.65.0.0/16"), Gateway: addr("100.65.0.1")},
		snapshot.ExternalSubnet{Subnet: "ext-twin", Prefix: netip.MustParsePrefix("198.51.100.0/24"), Gateway: addr("198.51.100.2")})
	in, _ := Egress(w)
	got := map[string]netip.Addr{}
	for _, entry := range in.Rows {
		if r, is := entry.Value.(intent.LogicalRouterStaticRoute); is {
			got[r.Prefix.String()] = r.NextHop
		}
	}
	want := map[string]netip.Addr{
		"0.0.0.0/0": addr("198.51.100.1"), "100.65.0.0/17": addr("198.51.100.1"), "100.65.128.0/17": addr("198.51.100.1"),
		"198.51.100.0/25": {}, "198.51.100.128/25": {},
	}
	if !maps.Equal(got, want) {
		t.Errorf("routes %v, want %v", got, want)
	}
}

// A pod that several EgressIPs select uses the addresses of the oldest. Without an address its packets are dropped, or
// it uses the default egress.
func TestSelections(t *testing.T) {
	link := []snapshot.EgressLink{{Address: addr("198.51.100.7"), PeerNetwork: netip.MustParsePrefix("240.0.0.1/30")}}
	pod := func(last ...byte) (out []netip.Addr) {
		for _, b := range last {
			out = append(out, netip.AddrFrom4([4]byte{10, 0, 0, b}))
		}
		return out
	}
	for name, c := range map[string]struct {
		selections []snapshot.Selection
		want       []string
	}{
		"one": {
			[]snapshot.Selection{{EgressIP: "a", Pods: pod(2), Links: link}},
			[]string{"a {10.0.0.2} reroute 240.0.0.1", "free {10.0.0.3 10.0.0.4}"},
		},
		"two": {
			[]snapshot.Selection{
				{EgressIP: "b", Pods: pod(2, 3), Links: link, Created: time.Unix(2, 0)},
				{EgressIP: "a", Pods: pod(2), Created: time.Unix(1, 0)},
			},
			[]string{"a {10.0.0.2} drop", "b {10.0.0.3} reroute 240.0.0.1", "free {10.0.0.4}"},
		},
		"open, with an address": {
			[]snapshot.Selection{{EgressIP: "a", FailOpen: true, Pods: pod(2), Links: link}},
			[]string{"a {10.0.0.2} reroute 240.0.0.1"},
		},
		"open, without an address": {[]snapshot.Selection{{EgressIP: "a", FailOpen: true, Pods: pod(2)}}, nil},
		"open, beside a closed one": {
			[]snapshot.Selection{
				{EgressIP: "a", FailOpen: true, Pods: pod(2)},
				{EgressIP: "b", Pods: pod(3), Links: link},
			},
			[]string{"b {10.0.0.3} reroute 240.0.0.1", "free {10.0.0.2 10.0.0.4}"},
		},
	} {
		w := snapshot.VpcInput{
			Shard: testShard, Selections: c.selections, PodAddresses: pod(2, 3, 4),
			Projects: []snapshot.Project{{
				Meta:     snapshot.Meta{Namespace: "acme", Name: "prod"},
				Prefixes: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}, NetworkType: "public",
			}},
			ExternalSubnets: []snapshot.ExternalSubnet{{
				Subnet: "ext-public", Network: "public", Type: "public", Ready: true, Free: 9,
				Prefix: netip.MustParsePrefix("198.51.100.0/24"), Gateway: addr("198.51.100.1"),
			}},
		}
		in, _ := Simulate(w)
		if got := summarizeEgress(in, w.Shard); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// EgressIPs have IPv4 addresses. In a project with one that fails closed, pods open no IPv6 connections to the outside.
func TestFailClosedEgressIPStopsTheOtherFamily(t *testing.T) {
	x := snapshot.ExternalSubnet{
		Subnet: "ext-public", Network: "public", Type: "public", Ready: true, Free: 9,
		Prefix: netip.MustParsePrefix("198.51.100.0/24"), Gateway: addr("198.51.100.1"),
	}
	if err := x.AddSecond(snapshot.SecondPrefix{
		Prefix: netip.MustParsePrefix("2001:db8:51::/64"), Gateway: addr("2001:db8:51::1"),
	}); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		selections []snapshot.Selection
		want       []string
	}{
		"no EgressIP": {nil, nil},
		"open":        {[]snapshot.Selection{{EgressIP: "a", FailOpen: true}}, nil},
		"closed":      {[]snapshot.Selection{{EgressIP: "a"}}, []string{"from-lport drop ip6"}},
	} {
		in, _ := Simulate(snapshot.VpcInput{
			Shard: testShard, Selections: c.selections, ExternalSubnets: []snapshot.ExternalSubnet{x},
			Projects: []snapshot.Project{{
				Meta: snapshot.Meta{Namespace: "acme", Name: "prod"}, NetworkType: "public",
				Prefixes: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24"), netip.MustParsePrefix("fd00:10::/64")},
			}},
		})
		var got []string
		for _, entry := range in.Rows {
			if r, is := entry.Value.(intent.ACL); is && r.Action == "drop" {
				got = append(got, strings.Join([]string{string(r.Direction), r.Action, r.Match}, " "))
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: ACLs that drop are %q, want %q", name, got, c.want)
		}
	}
}

// summarizeEgress formats which pods use which egress addresses.
func summarizeEgress(in *intent.Intent, vpc string) (out []string) {
	set := func(name string) string {
		if s, is := in.Rows[(intent.AddressSet{Name: name}).Key(vpc)].Value.(intent.AddressSet); is {
			return s.String()
		}
		return "no set"
	}
	for _, entry := range in.Rows {
		p, is := entry.Value.(intent.LogicalRouterPolicy)
		if !is || !ownership.IsRowOnlyPriority(p.Priority) {
			continue
		}
		switch p.Priority {
		case ownership.EgressIPSelected:
			out = append(out, fmt.Sprintf("%s %s %s", entry.Origin.Name,
				set(ownership.EgressIPPodSet(vpc, entry.Origin.Name)), p))
		case ownership.EgressUnselected:
			out = append(out, "free "+set(ownership.UnselectedPodSet(vpc)))
		}
	}
	slices.Sort(out)
	return out
}
