package nodes

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/internal/lab/blueprint"
	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/internal/lab/world"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// hasBGPRoute reports whether a router's kernel has a BGP route to the prefix.
func hasBGPRoute(t *testing.T, c *harness.Cluster, router string, prefix netip.Prefix) bool {
	t.Helper()
	var routes []netlink.Route
	err := c.NS(router).Do(func() (err error) {
		filter := &netlink.Route{Protocol: unix.RTPROT_BGP}
		routes, err = netlink.RouteListFiltered(netlink.FAMILY_ALL, filter, netlink.RT_FILTER_PROTOCOL)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(routes, func(r netlink.Route) bool {
		return r.Dst != nil && r.Dst.String() == prefix.String()
	})
}

// announceAndWait makes node1 announce one of its addresses, and waits until the routers of the uplinks have learnt it.
func announceAndWait(t *testing.T, c *harness.Cluster, prefix netip.Prefix, uplinks ...string) {
	t.Helper()
	if err := c.NS("node1").AddAddresses("lo", prefix); err != nil {
		t.Fatal(err)
	}
	if err := c.Announce(harness.Within(t, harness.Patience), "node1", prefix, uplinks...); err != nil {
		t.Fatal(err)
	}
	took := harness.Eventually(t, fmt.Sprintf("%v have a route to %s", uplinks, prefix), func() bool {
		return !slices.ContainsFunc(uplinks, func(u string) bool { return !hasBGPRoute(t, c, "router-"+u, prefix) })
	})
	t.Logf("%s is known at %s after %d ms", prefix, strings.Join(uplinks, " and "), took.Milliseconds())
}

func httpURL(p netip.Prefix) string { return "http://" + netip.AddrPortFrom(p.Addr(), 80).String() }

// TestUplinkBGP shows that addresses that a node announces, as MetalLB does, are reached through the uplinks they are
// announced on, and that replies leave through the default uplink.
func TestUplinkBGP(t *testing.T) {
	b, err := blueprint.Load("../testdata/uplinks.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c := harness.StartLab(t, "bgp", b)
	c.CreateNamespace(t, "uplink", "")
	c.Apply(t, `
apiVersion: v1
kind: Pod
metadata: {name: node-echo, namespace: uplink}
spec: {nodeName: node1, hostNetwork: true, containers: [{name: main, image: lab/echo}]}`)
	c.WaitForObject(t, "Pod", "uplink", "node-echo", manifest.True("Ready"))
	uplinks := b.BGP()
	first, second := uplinks[0], uplinks[1]
	onSecond, onFirst, six := netip.MustParsePrefix("198.18.10.1/32"), netip.MustParsePrefix("198.18.10.2/32"),
		netip.MustParsePrefix("2001:db8:99::1/128")
	client := func(s blueprint.Segment, family int) string { return s.ClientSide[family].Peer.Addr().String() }

	announceAndWait(t, c, onSecond, second.Name)
	announceAndWait(t, c, onFirst, first.Name)
	if hasBGPRoute(t, c, first.Router, onSecond) || hasBGPRoute(t, c, second.Router, onFirst) {
		t.Error("a router learnt an address that is not for its uplink")
	}
	c.ResetDrops(t)
	c.ExpectAnswer(t, first.Client, httpURL(onFirst), "node-echo", client(first, 0))
	c.ExpectNoDrops(t)
	c.ExpectSilence(t, second.Client, httpURL(onSecond))
	expectDropsOnlyAt(t, c, first.Router, world.Spoofed)

	// If replies leave through the uplink of the request, the same client receives them: its router accepts the
	// announced source.
	c.RunOnNode1(t, "ip", "route", "add", "default", "via", second.Gateways[0].Addr().String(), "dev", second.Name,
		"table", "100")
	c.RunOnNode1(t, "ip", "rule", "add", "from", onSecond.Addr().String(), "lookup", "100")
	c.ResetDrops(t)
	c.ExpectAnswer(t, second.Client, httpURL(onSecond), "node-echo", client(second, 0))
	c.ExpectNoDrops(t)

	announceAndWait(t, c, six, first.Name)
	c.ExpectAnswer(t, first.Client, httpURL(six), "node-echo", client(first, 1))

	announceAndWait(t, c, onSecond, first.Name) // on another uplink than before
	harness.Eventually(t, second.Router+" has forgotten what is not for it any more", func() bool {
		return !hasBGPRoute(t, c, second.Router, onSecond)
	})
	if err := c.Withdraw(harness.Within(t, harness.Patience), "node1", onSecond); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "a withdrawn address is forgotten", func() bool {
		return !hasBGPRoute(t, c, first.Router, onSecond)
	})
	if !hasBGPRoute(t, c, first.Router, onFirst) {
		t.Error("the other address is forgotten, too")
	}
}

// expectDropsOnlyAt fails the test unless one router has dropped packets for the given reason and no other router has
// dropped any.
func expectDropsOnlyAt(t *testing.T, c *harness.Cluster, router, reason string) {
	t.Helper()
	counters, err := world.Counters(c.NS(router))
	if err != nil {
		t.Fatal(err)
	}
	if counters[reason].Packets == 0 {
		t.Errorf("%s dropped nothing as %s: %v", router, reason, counters)
	}
	for other, n := range c.CountDrops(t) {
		if other != router && n > 0 {
			t.Errorf("%s dropped %d packets", other, n)
		}
	}
}
