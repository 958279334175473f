package compile

import (
	"net/netip"
	"testing"

	"github.com/sallyport/sallyport/internal/model/ipfamily"
)

// Hairpin ports of two subnets never have the same network, whatever the names of the subnets are, and each has room for
// the next hops of all return ports.
func TestHairpinNetworks(t *testing.T) {
	for _, f := range []ipfamily.Family{ipfamily.V4, ipfamily.V6} {
		taken, seen := map[netip.Addr]bool{}, map[netip.Prefix]bool{}
		for i := range 2048 {
			network := chooseHairpinNetwork(f, "subnet-"+string(rune('a'+i%26))+string(rune('a'+i/26%26))+string(rune('a'+i/676)), taken)
			if seen[network.Masked()] || !internalByFamily[f].otherNextHops.Contains(network.Addr()) ||
				network.Addr() != network.Masked().Addr().Next() {
				t.Fatalf("subnet %d has %s", i, network)
			}
			seen[network.Masked()] = true
			if last := addressAt(network, 2+maxReturnPorts-1); !network.Contains(last) {
				t.Fatalf("%s is not in %s", last, network)
			}
		}
		chooseHairpinNetwork(f, "one-more", taken) // ends
	}
}
