package harness

import (
	"testing"

	"github.com/sallyport/sallyport/internal/lab/world"
)

// CountDrops returns the number of packets that each router has dropped since the last reset.
func (c *Cluster) CountDrops(t *testing.T) map[string]uint64 {
	t.Helper()
	out := map[string]uint64{}
	for _, s := range c.Blueprint.Segments() {
		dropped, err := world.Dropped(c.NS(s.Router))
		if err != nil {
			t.Fatal(err)
		}
		out[s.Router] = dropped
	}
	return out
}

// ReadDroppedFlows returns the flows of which a router has dropped packets since the last reset.
func (c *Cluster) ReadDroppedFlows(t *testing.T, router string) []world.DroppedFlow {
	t.Helper()
	flows, err := world.DroppedFlows(c.NS(router))
	if err != nil {
		t.Fatal(err)
	}
	return flows
}

// ResetDrops resets the drop counters of all routers outside the cluster.
func (c *Cluster) ResetDrops(t *testing.T) {
	t.Helper()
	for _, s := range c.Blueprint.Segments() {
		if err := world.ResetCounters(c.NS(s.Router)); err != nil {
			t.Fatal(err)
		}
	}
}

// ExpectNoDrops fails the test if a router has dropped a packet since the last reset, and says which flows.
func (c *Cluster) ExpectNoDrops(t *testing.T) {
	t.Helper()
	for _, s := range c.Blueprint.Segments() {
		counters, err := world.Counters(c.NS(s.Router))
		if err != nil {
			t.Fatal(err)
		}
		for _, rule := range []string{world.Spoofed, world.OutOfState} {
			if n := counters[rule].Packets; n > 0 {
				t.Errorf("%s dropped %d packets: %s; flows %v", s.Router, n, rule, c.ReadDroppedFlows(t, s.Router))
			}
		}
	}
}
