package compile

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// managementEgressFixture returns the management VPC with an EgressIP that selects 10.16.0.2. Pod 10.16.0.3 is not
// selected.
func managementEgressFixture(change func(*snapshot.VpcInput, *snapshot.Selection)) *snapshot.VpcInput {
	w := &snapshot.VpcInput{
		Shard: kubeovn.ManagementVpc,
		Management: &snapshot.Management{
			Prefixes:       []netip.Prefix{netip.MustParsePrefix("10.16.0.0/16")},
			InsidePrefixes: []netip.Prefix{netip.MustParsePrefix("100.64.0.0/16"), netip.MustParsePrefix("172.22.1.1/32")},
		},
		PodAddresses: []netip.Addr{addr("10.16.0.2"), addr("10.16.0.3")},
	}
	w.Config.ClusterPrefixes = snapshot.PrefixList{netip.MustParsePrefix("10.96.0.0/12")}
	w.Engine.Vpc.Exists, w.Engine.RouterPorts = true, map[string]bool{"ovn-cluster-ovn-default": true}
	s := snapshot.Selection{
		EgressIP: "mail", Pods: []netip.Addr{addr("10.16.0.2")}, Addresses: []netip.Addr{addr("198.51.100.7")},
		Links: []snapshot.EgressLink{{
			Address: addr("198.51.100.7"), PeerNetwork: netip.MustParsePrefix("240.0.0.1/30"),
		}},
	}
	if change != nil {
		change(w, &s)
	}
	w.Selections = []snapshot.Selection{s}
	return w
}

// formatPolicies returns the router policies of an intent with the given priorities as "priority action from", where
// from is the address set of the pods.
func formatPolicies(in *intent.Intent, priorities ...int) (out []string) {
	for _, row := range in.Rows {
		if p, is := row.Value.(intent.LogicalRouterPolicy); is && slices.Contains(priorities, p.Priority) {
			_, from, _ := strings.Cut(p.Match, "ip4.src == $")
			out = append(out, strings.TrimSpace(p.Action+" "+p.NextHops)+" "+strings.Fields(from)[0])
		}
	}
	slices.Sort(out)
	return out
}

// A policy redirects selected pods. If their EgressIP fails closed, another one drops their packets in case northd
// ignores the first, and ACLs drop those of pods that are not classified.
func TestManagementEgressPolicies(t *testing.T) {
	const redirect, set = "reroute 240.0.0.1 ", "sallyport.ovn_cluster.egress.mail"
	for name, c := range map[string]struct {
		change func(*snapshot.VpcInput, *snapshot.Selection)
		want   []string
		acls   int
	}{
		"fails closed": {nil, []string{"drop sallyport.ovn_cluster.closed", redirect + set}, 3},
		"fails closed without an address": {func(_ *snapshot.VpcInput, s *snapshot.Selection) {
			s.Links = nil
		}, []string{"drop sallyport.ovn_cluster.closed", "drop " + set}, 3},
		"fails open": {func(_ *snapshot.VpcInput, s *snapshot.Selection) {
			s.FailOpen = true
		}, []string{redirect + set}, 0},
		"fails open without an address": {func(_ *snapshot.VpcInput, s *snapshot.Selection) {
			s.FailOpen, s.Links = true, nil
		}, nil, 0},
		"the router does not exist": {func(w *snapshot.VpcInput, _ *snapshot.Selection) {
			w.Engine.RouterPorts = nil
		}, nil, 0},
	} {
		in, _ := Shard(managementEgressFixture(c.change))
		got := formatPolicies(in, ownership.ManagementEgressIP, ownership.ManagementFailClosed)
		acls := 0
		for _, row := range in.Rows {
			if a, is := row.Value.(intent.ACL); is && a.Tier == 0 {
				acls++
			}
		}
		if !slices.Equal(got, c.want) || acls != c.acls || in.Err() != nil {
			t.Errorf("%s: policies %q and %d ACLs, want %q and %d; %v", name, got, acls, c.want, c.acls, in.Err())
		}
	}
}

// The address sets tell selected pods, classified pods and destinations apart.
func TestManagementEgressSets(t *testing.T) {
	in, _ := Shard(managementEgressFixture(nil))
	sets := map[string]string{}
	for _, row := range in.Rows {
		if s, is := row.Value.(intent.AddressSet); is {
			sets[strings.TrimPrefix(s.Name, "sallyport.ovn_cluster.")] = s.Addresses
		}
	}
	for name, want := range map[string]string{
		"egress.mail": "10.16.0.2", "closed": "10.16.0.2", "redirected": "10.16.0.2", "classified": "10.16.0.2 10.16.0.3",
		"inside": "10.16.0.0/16 10.96.0.0/12 100.64.0.0/16 172.22.1.1 224.0.0.0/4 255.255.255.255",
	} {
		if sets[name] != want {
			t.Errorf("%s is %q, want %q", name, sets[name], want)
		}
	}
	var outside []netip.Prefix
	for text := range strings.FieldsSeq(sets["outside"]) {
		outside = append(outside, netip.MustParsePrefix(text))
	}
	for address, want := range map[string]bool{
		"203.0.113.10": true, "10.15.255.255": true, "10.112.0.0": true, "10.96.0.1": false, "10.16.0.9": false,
	} {
		if got := slices.ContainsFunc(outside, func(p netip.Prefix) bool { return p.Contains(addr(address)) }); got != want {
			t.Errorf("%s is outside: %t", address, got)
		}
	}
}

// Replies to connections through nodes need OVN's labels. Without these the pods are redirected all the same.
func TestNodeReturn(t *testing.T) {
	port := intent.LogicalRouterPort{
		Name: ownership.NodeReturnRouterPort(kubeovn.ManagementVpc, kubeovn.ManagementSubnet),
	}.Key(kubeovn.ManagementVpc)
	for missing, want := range map[string]bool{"": true, "OVN is too old": false} {
		in, _ := Shard(managementEgressFixture(func(w *snapshot.VpcInput, _ *snapshot.Selection) {
			w.Engine.MissingCapabilities = missing
		}))
		if _, got := in.Rows[port]; got != want || len(formatPolicies(in, ownership.ManagementEgressIP)) != 1 {
			t.Errorf("missing %q: a port for replies exists: %t", missing, got)
		}
	}
	in, _ := Shard(managementEgressFixture(func(_ *snapshot.VpcInput, s *snapshot.Selection) { s.Pods = nil }))
	if _, got := in.Rows[port]; !got {
		t.Error("the port for replies goes with the last pod; northd would compute everything again")
	}
}
