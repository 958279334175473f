package tenancy

import (
	"net/netip"
	"testing"

	"github.com/sallyport/sallyport/internal/lab/world"
)

func TestDropsOfVictimsAreRecognized(t *testing.T) {
	f := &attackFixture{victims: []victim{{pod: "10.30.0.2", fip: "198.18.0.7", lb: "198.18.0.8"}}}
	flow := func(from, to string) world.DroppedFlow {
		return world.DroppedFlow{Source: netip.MustParseAddrPort(from), Destination: netip.MustParseAddrPort(to)}
	}
	for _, of := range []world.DroppedFlow{
		flow("10.30.0.2:80", "203.0.113.9:4000"), flow("198.18.0.7:80", "203.0.113.9:4000"),
		flow("203.0.113.9:4000", "198.18.0.8:80"),
	} {
		if !f.concernsVictim(of) {
			t.Errorf("%s is a victim's", of)
		}
	}
	if f.concernsVictim(flow("10.66.0.2:80", "203.0.113.9:4000")) {
		t.Error("a packet of the attacker's is a victim's")
	}
}
