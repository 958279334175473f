package world

import (
	"context"
	"net/netip"
	"os"
	"sync"
	"testing"

	"github.com/sallyport/sallyport/internal/lab/blueprint"
	"github.com/sallyport/sallyport/internal/lab/netns"
	"github.com/sallyport/sallyport/internal/lab/netns/netnstest"
)

func TestMain(m *testing.M) {
	os.Exit(netnstest.Run(m, func() error { return netns.Own().LinkUp("lo") }))
}

// testBlueprint has a dual-stack network, an IPv4 network and an uplink with a name of the greatest length.
func testBlueprint() blueprint.Blueprint {
	return blueprint.Blueprint{
		Raft: 1,
		Networks: []blueprint.Network{
			{Name: "public", Prefixes: []netip.Prefix{
				netip.MustParsePrefix("198.51.100.0/24"),
				netip.MustParsePrefix("2001:db8:51::/64"),
			}},
			{Name: "cloud", Prefixes: []netip.Prefix{netip.MustParsePrefix("100.65.0.0/16")}},
		},
		Uplinks: []blueprint.Uplink{{
			Name:     "uplink-north",
			Prefixes: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/25")},
		}},
	}
}

var buildOnce = sync.OnceValue(func() error { return Build(context.Background(), testBlueprint()) })

// segments builds the test's world at its first call, and gives its segments with all counters at zero.
func segments(t *testing.T) (public, cloud, uplink blueprint.Segment) {
	t.Helper()
	netnstest.Need(t)
	b := testBlueprint()
	if err := b.Check(); err != nil {
		t.Fatal(err)
	}
	if err := buildOnce(); err != nil {
		t.Fatal(err)
	}
	all := b.Segments()
	for _, s := range all {
		if err := ResetCounters(netns.Named(s.Router)); err != nil {
			t.Fatal(err)
		}
	}
	return all[0], all[1], all[2]
}
