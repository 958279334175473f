package nodepath

import (
	"net/netip"
	"strings"
	"testing"
)

// Pods with egress for all destinations still reach the cluster and its nodes directly, except what other entries
// redirect.
func TestWhatIsNotLedOut(t *testing.T) {
	node := Node{Interfaces: []Interface{{
		Name:      "eth1",
		Up:        true,
		Addresses: []netip.Prefix{netip.MustParsePrefix("192.168.10.11/24")},
	}}}
	k := Compile(Spec{Networks: []NetworkSpec{{
		Name: "red", Number: 3, Interface: "eth1", Gateways: []string{"192.168.10.1"}, Method: "Connection",
		Inside: []string{"10.16.0.0/16"}, Hosts: []string{"192.0.2.1", "192.0.2.2"},
		Egress: []EgressSpec{
			{Pods: []string{"10.16.0.7"}, Except: []string{"203.0.113.0/24"}, Address: "192.168.10.25"},
			{Pods: []string{"10.16.0.8"}, Destinations: []string{"198.51.0.0/16"}, Except: []string{"198.51.100.0/24"}},
		},
	}}}, node)
	if k.Networks[0].Problem != "" {
		t.Fatal(k.Networks[0].Problem)
	}
	for rule, want := range map[string]string{
		"red egress0ip": "ip saddr @egress0-pods-3-ipv4 ip daddr != @inside-3-ipv4 ip daddr != @egress0-not-3-ipv4 snat ip to 192.168.10.25",
		"red egress1ip": "ip saddr @egress1-pods-3-ipv4 ip daddr @egress1-to-3-ipv4 ip daddr != @egress1-not-3-ipv4 masquerade",
	} {
		if got := k.Nft[NftKey{Kind: NftRule, Parent: "leaves", Name: rule}].Value.Text; !strings.HasSuffix(got, want) {
			t.Errorf("%s: %q, want %q", rule, got, want)
		}
	}
	for _, e := range []string{"10.16.0.0/16", "192.0.2.1", "192.0.2.2"} {
		if _, there := k.Nft[NftKey{Kind: NftElement, Parent: "inside-3-ipv4", Name: e}]; !there {
			t.Errorf("%s would be led out", e)
		}
	}
}
