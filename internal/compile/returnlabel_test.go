package compile

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// Connections that a pod has opened keep a label of their own where EgressIPs redirect replies to the default network: after
// a move of the pod, the first packet on the new node may be an answer. Without EgressIPs nothing needs it.
func TestOwnConnectionsAreLabelledWithEgressIPs(t *testing.T) {
	for _, withEgressIP := range []bool{false, true} {
		w := &snapshot.VpcInput{
			Shard: testShard,
			Projects: []snapshot.Project{{
				Meta:     snapshot.Meta{Namespace: "acme", Name: "prod"},
				Prefixes: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}, NetworkType: "public",
			}},
			ExternalSubnets: []snapshot.ExternalSubnet{{
				Subnet: "ext-public", Network: "public", Type: "public", Ready: true, Free: 9,
				Prefix: netip.MustParsePrefix("198.51.100.0/24"), Gateway: addr("198.51.100.1"),
			}},
		}
		if withEgressIP {
			w.Selections = []snapshot.Selection{{EgressIP: "a", Pods: []netip.Addr{addr("10.0.0.2")}}}
		}
		c := &compiler{w: w}
		w.Engine.Vpc.Exists = true
		w.Engine.RouterPorts = map[string]bool{
			testShard + "-" + ownership.VPCSubnetName(testShard): true, c.externalPortName("ext-public"): true,
		}
		in, _ := Shard(w)
		own := 0
		for _, row := range in.Rows {
			acl, is := row.Value.(intent.ACL)
			if !is || acl.Label != ownership.OwnConnectionLabel {
				continue
			}
			own++
			if acl.Direction != intent.ToLport || !strings.Contains(acl.Match, "tcp.dst >= 32768 && tcp.flags == 0/2 && (ct.new || ct_label.label == ") {
				t.Errorf("%s of %+v", acl.Match, acl)
			}
		}
		if want := map[bool]int{true: 2}[withEgressIP]; own != want {
			t.Errorf("%d ACLs with an EgressIP: %t, want %d", own, withEgressIP, want)
		}
	}
}
