package compile

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// Pods of a project that is being deleted are redirected until the last one has terminated. Pods that are not known are
// dropped until then.
func TestEgressIPsOfProjectBeingDeleted(t *testing.T) {
	for name, c := range map[string]struct {
		deleting bool
		pods     int
		want     []string
	}{
		"in use":                           {false, 1, []string{"a {10.0.0.2} reroute 240.0.0.1", "free {10.0.0.3}"}},
		"in use, without pods":             {false, 0, []string{"a {10.0.0.2} reroute 240.0.0.1", "free {10.0.0.3}"}},
		"being deleted, with pods":         {true, 1, []string{"a {10.0.0.2} reroute 240.0.0.1", "free {10.0.0.3}"}},
		"being deleted, without more pods": {true, 0, nil},
	} {
		w := &snapshot.VpcInput{
			Shard: testShard, PodAddresses: []netip.Addr{addr("10.0.0.2"), addr("10.0.0.3")},
			Selections: []snapshot.Selection{{EgressIP: "a", Pods: []netip.Addr{addr("10.0.0.2")}, Links: []snapshot.EgressLink{
				{Address: addr("198.51.100.7"), PeerNetwork: netip.MustParsePrefix("240.0.0.1/30")},
			}}},
			Projects: []snapshot.Project{{
				Meta:     snapshot.Meta{Namespace: "acme", Name: "prod", Deleting: c.deleting},
				Prefixes: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}, NetworkType: "public",
			}},
			ExternalSubnets: []snapshot.ExternalSubnet{{
				Subnet: "ext-public", Network: "public", Type: "public", Ready: true, Free: 9,
				Prefix: netip.MustParsePrefix("198.51.100.0/24"), Gateway: addr("198.51.100.1"),
			}},
		}
		w.Engine.Vpc.Exists, w.Engine.RouterPorts = true, map[string]bool{}
		w.Engine.UsedIPs = c.pods
		in, _ := Shard(w)
		if got := summarizeEgress(in, w.Shard); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
