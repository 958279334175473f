package ovn

import (
	"slices"
	"testing"

	"github.com/sallyport/sallyport/internal/engine/ovn/nb"
)

func recordNames(records []record) (out []string) {
	for _, r := range records {
		out = append(out, r.key.ID)
	}
	slices.Sort(out)
	return out
}

// What Kube-OVN created for a VPC is leaked once the router is gone, and belongs to Kube-OVN before.
func TestRemainsOfARouter(t *testing.T) {
	made := []string{"acme.prod.u2o_overlay_cidrs.ip4", "vpc-acme-prod-tcp-load", "vpc-acme-prod-udp-sess-load"}
	s := newTestSession(t,
		&nb.LogicalRouter{UUID: "r1", Name: "acme-prod"},
		&nb.LoadBalancer{UUID: "b1", Name: made[1]}, &nb.LoadBalancer{UUID: "b2", Name: made[2]},
		&nb.LoadBalancer{UUID: "b3", Name: "vpc-acme-prod-two-tcp-load"},
		&nb.LoadBalancer{UUID: "b4", Name: "cluster-tcp-loadbalancer"},
		&nb.AddressSet{UUID: "a1", Name: made[0], ExternalIDs: map[string]string{"vpc": "acme-prod"}},
		&nb.AddressSet{
			UUID:        "a2",
			Name:        "acme.prod.u2o_overlay_cidrs.ip6",
			ExternalIDs: map[string]string{"vpc": "acme.prod"},
		},
	)
	acme := &leakedRowTarget{shard: "acme-prod"}
	if got := recordNames(acme.leakedRecords(s)); len(got) != 0 {
		t.Errorf("%q is left of a router that is there", got)
	}
	forgotten := &leakedRowTarget{shard: "acme-prod", isForgotten: true}
	if got := recordNames(forgotten.leakedRecords(s)); !slices.Equal(got, []string{"acme-prod"}) {
		t.Errorf("%q is left of a router that Kube-OVN has forgotten", got)
	}
	if got := recordNames(s.leftoverRecords("acme-prod")); !slices.Equal(got, made) { // control: they are found
		t.Errorf("Kube-OVN made %q, wanted %q", got, made)
	}
	if err := s.tableCache.Table(nb.LogicalRouterTable).Delete("r1"); err != nil {
		t.Fatal(err)
	}
	if got := recordNames(acme.leakedRecords(s)); !slices.Equal(got, made) {
		t.Errorf("%q is left, wanted %q", got, made)
	}
}

// A port of an external switch whose router port is gone blocks Kube-OVN. One with a router port does not.
func TestSwitchPortThatLeadsNowhere(t *testing.T) {
	leads := func(to string) map[string]string { return map[string]string{"router-port": to} }
	s := newTestSession(t,
		&nb.LogicalRouter{UUID: "r1", Name: "acme", Ports: []string{"p1"}},
		&nb.LogicalRouterPort{UUID: "p1", Name: "acme-ext-cloud"},
		&nb.LogicalSwitchPort{UUID: "s1", Name: "ext-cloud-acme", Type: "router", Options: leads("acme-ext-cloud")},
		&nb.LogicalSwitchPort{UUID: "s2", Name: "ext-public-acme", Type: "router", Options: leads("acme-ext-public")},
		&nb.LogicalSwitchPort{UUID: "s3", Name: "ext-third-acme", Type: "router", Options: leads("elsewhere")},
		&nb.LogicalSwitchPort{
			UUID:    "s4",
			Name:    "acme-default-acme",
			Type:    "router",
			Options: leads("acme-acme-default"),
		},
		&nb.LogicalSwitchPort{
			UUID:    "s5",
			Name:    "ext-public-globex",
			Type:    "router",
			Options: leads("globex-ext-public"),
		},
	)
	loose := &leakedRowTarget{shard: "acme", externalSubnets: []string{"ext-cloud", "ext-public", "ext-third"}}
	if got, want := recordNames(loose.leakedRecords(s)), []string{"ext-public-acme"}; !slices.Equal(got, want) {
		t.Errorf("%q lead nowhere, wanted %q", got, want)
	}
}
