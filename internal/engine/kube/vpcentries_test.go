package kube

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/match"
	"github.com/sallyport/sallyport/internal/model/ownership"
)

var gatewayAddr = netip.MustParseAddr("198.51.100.1")

// parseList parses a list as the API server returns it.
func parseList(t *testing.T, text string) []any {
	t.Helper()
	var out []any
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func putChange(key intent.VpcEntryKey, e intent.VpcEntry) entryChange {
	return entryChange{Key: key, After: &e}
}

func removeChange(key intent.VpcEntryKey, e intent.VpcEntry) entryChange {
	return entryChange{Key: key, Before: &e}
}

func TestElementIsReadAsItIsWritten(t *testing.T) {
	route := intent.DefaultRoute(gatewayAddr)
	policy := intent.ReroutePolicy(ownership.ReturnFIP, fromAddr("10.0.0.7"), gatewayAddr)
	_, wantRoute := route.ToVpcEntry("v")
	_, wantPolicy := policy.ToVpcEntry("v")
	for name, c := range map[string]struct {
		got  listEntry
		want intent.VpcEntry
	}{
		"route": {routeEntry(kubeovn.StaticRoute{
			CIDR:      "0.0.0.0/0",
			NextHopIP: "198.51.100.1",
			Policy:    "policyDst",
		}), wantRoute},
		"route before Kube-OVN saw it": {
			routeEntry(kubeovn.StaticRoute{CIDR: "0.0.0.0/0", NextHopIP: "198.51.100.1"}),
			wantRoute,
		},
		"policy": {policyEntry(kubeovn.PolicyRoute{
			Priority: 30000, Match: "ip4.src == 10.0.0.7", Action: "reroute", NextHopIP: "198.51.100.1",
		}), wantPolicy},
	} {
		if c.got.content != c.want.Content {
			t.Errorf("%s: got %s, want %s", name, c.got.content, c.want.Content)
		}
	}
}

func TestElementsOfOthersAreNotOurs(t *testing.T) {
	for name, e := range map[string]listEntry{
		"a route to a network": routeEntry(kubeovn.StaticRoute{CIDR: "10.1.0.0/16", NextHopIP: "10.0.0.9"}),
		"a default route in another table": routeEntry(kubeovn.StaticRoute{
			CIDR:       "0.0.0.0/0",
			NextHopIP:  "10.0.0.9",
			RouteTable: "blue",
		}),
		"a route that nobody can read": routeEntry(kubeovn.StaticRoute{CIDR: "everything"}),
	} {
		if e.id != "" {
			t.Errorf("%s is taken for ours: %s", name, e.id)
		}
	}
}

// In Kube-OVN's default VPC, the operator owns routes and policies.
func TestElementsByVpc(t *testing.T) {
	spec := kubeovn.VpcSpec{
		StaticRoutes: []kubeovn.StaticRoute{{CIDR: "0.0.0.0/0", NextHopIP: "10.0.0.9"}},
		PolicyRoutes: []kubeovn.PolicyRoute{
			{Priority: 29000, Match: "ip4", Action: "drop"},
			{Priority: ownership.ReturnFIP, Match: "ip4", Action: "drop"},
			{Priority: ownership.ReturnReply, Match: "ip4", Action: "drop"},
		},
	}
	for vpc, want := range map[string]int{"acme-web": 3, kubeovn.ManagementVpc: 1} {
		if got := NewVpcEntries(nil, vpc, nil).ownEntries(spec); len(got) != want {
			t.Errorf("of Vpc %s these are ours: %v", vpc, got)
		}
	}
}

func TestEditKeepsWhatItWasNotAskedToChange(t *testing.T) {
	before := parseList(t, `[
		{"priority": 29000, "match": "ip4.dst == 192.0.2.0/24", "action": "drop", "note": "theirs"},
		{"priority": 30000, "match": "ip4.src == 10.0.0.7", "action": "reroute", "nextHopIP": "203.0.113.1"},
		{"priority": 32000, "match": "ip4", "action": "allow"},
		{"priority": 30000, "match": "ip4.src == 10.0.0.8", "action": "reroute", "nextHopIP": "198.51.100.1"}]`)
	got, changed, err := editList(intent.PolicyRoutes, before, []entryChange{
		putChange(intent.ReroutePolicy(ownership.ReturnFIP, fromAddr("10.0.0.7"), gatewayAddr).ToVpcEntry("v")),
		removeChange(intent.ReroutePolicy(ownership.ReturnFIP, fromAddr("10.0.0.8"), gatewayAddr).ToVpcEntry("v")),
		putChange(intent.ReroutePolicy(ownership.ReturnFIP, fromAddr("10.0.0.9"), gatewayAddr).ToVpcEntry("v")),
		putChange(intent.DefaultRoute(gatewayAddr).ToVpcEntry("v")), // of another list
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"action":"drop","match":"ip4.dst == 192.0.2.0/24","note":"theirs","priority":29000},` +
		`{"action":"reroute","match":"ip4.src == 10.0.0.7","nextHopIP":"198.51.100.1","priority":30000},` +
		`{"action":"allow","match":"ip4","priority":32000},` +
		`{"action":"reroute","match":"ip4.src == 10.0.0.9","nextHopIP":"198.51.100.1","priority":30000}]`
	if text := intent.CanonicalJSON(got); !changed || text != want {
		t.Errorf("changed %t\ngot  %s\nwant %s", changed, text, want)
	}
}

func TestEditThatChangesNothingIsNoWrite(t *testing.T) {
	before := parseList(t, `[{"cidr":"0.0.0.0/0","nextHopIP":"198.51.100.1","policy":"policyDst","ecmpMode":"","bfdId":"","routeTable":""}]`)
	got, changed, err := editList(intent.StaticRoutes, before,
		[]entryChange{putChange(intent.DefaultRoute(gatewayAddr).ToVpcEntry("v"))})
	if err != nil || changed || len(got) != 1 {
		t.Errorf("changed %t to %v, %v; want the route as it was", changed, got, err)
	}
	_, changed, err = editList(intent.StaticRoutes, before,
		[]entryChange{putChange(intent.DefaultRoute(gatewayAddr.Next()).ToVpcEntry("v"))})
	if err != nil || !changed { // control: another gateway is a change
		t.Errorf("changed %t, %v; want a change", changed, err)
	}
}

// With two routes to one prefix, Kube-OVN alternates between them forever.
func TestSecondDefaultRouteGoes(t *testing.T) {
	before := parseList(t, `[{"cidr":"0.0.0.0/0","nextHopIP":"203.0.113.1"},{"cidr":"10.1.0.0/16","nextHopIP":"10.0.0.9"},
		{"cidr":"0.0.0.0/0","nextHopIP":"198.51.100.1"}]`)
	set := intent.VpcEntries{}
	target := &VpcEntries{vpc: "v"}
	for _, item := range before {
		e, err := parseEntry(intent.StaticRoutes, item)
		if err != nil {
			t.Fatal(err)
		}
		target.addEntry(set, intent.StaticRoutes, e)
	}
	key, want := intent.DefaultRoute(gatewayAddr).ToVpcEntry("v")
	if content := set[key].Value.Content; content == want.Content || !strings.Contains(content, " and ") {
		t.Errorf("two routes are observed as %s: nothing would be mended", content)
	}
	got, _, err := editList(intent.StaticRoutes, before, []entryChange{putChange(key, want)})
	if err != nil || len(got) != 2 || intent.CanonicalJSON(got[0]) != want.Content {
		t.Errorf("got %v, %v; want ours in the first place and the other network's", got, err)
	}
}

func fromAddr(a string) match.Expr { return match.From(match.Addr(netip.MustParseAddr(a))) }
