package harness

import (
	"testing"

	"github.com/sallyport/sallyport/internal/lab/world"
)

// CountDrops counts what each router has dropped since the last reset.
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

// ResetDrops sets the counters of dropped packets to zero on all routers outside.
func (c *Cluster) ResetDrops(t *testing.T) {
	t.Helper()
	for _, s := range c.Blueprint.Segments() {
		if err := world.ResetCounters(c.NS(s.Router)); err != nil {
			t.Fatal(err)
		}
	}
}

// ExpectNoDrops fails the test when a router has dropped anything since the last reset.
func (c *Cluster) ExpectNoDrops(t *testing.T) {
	t.Helper()
	for router, n := range c.CountDrops(t) {
		if n > 0 {
			t.Errorf("%s dropped %d packets", router, n)
		}
	}
}
