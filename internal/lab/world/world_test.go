package world

import (
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/sallyport/sallyport/internal/lab/blueprint"
	"github.com/sallyport/sallyport/internal/lab/netns"
)

func TestClientReachesNeighbourOfItsNetwork(t *testing.T) {
	public, cloud, uplink := segments(t)
	for _, seg := range []blueprint.Segment{public, cloud, uplink} {
		for i, neighbour := range seg.Neighbours {
			sees(t, seg.Client, serve(t, seg.Neighbour, neighbour.Addr()), seg.ClientSide[i].Peer.Addr())
		}
		if counted(t, seg.Router, In) == 0 || counted(t, seg.Router, Out) == 0 {
			t.Errorf("%s counted nothing that passed to the wire or from it", seg.Router)
		}
	}
	nothingDropped(t)
}

func TestNeighbourReachesClientOfItsNetwork(t *testing.T) {
	public, _, _ := segments(t)
	for i, neighbour := range public.Neighbours {
		sees(t, public.Neighbour, serve(t, public.Client, public.ClientSide[i].Peer.Addr()), neighbour.Addr())
	}
	nothingDropped(t)
}

func TestInternetHostComesInByEveryNetworkWithOneAddress(t *testing.T) {
	public, cloud, uplink := segments(t)
	for _, seg := range []blueprint.Segment{public, cloud, uplink} {
		for _, neighbour := range seg.Neighbours {
			sees(t, Internet, serve(t, seg.Neighbour, neighbour.Addr()), internetAddress(neighbour))
		}
	}
	nothingDropped(t)
}

func TestNeighbourReachesInternetHost(t *testing.T) {
	public, cloud, _ := segments(t)
	for _, seg := range []blueprint.Segment{public, cloud} {
		for _, neighbour := range seg.Neighbours {
			sees(t, seg.Neighbour, serve(t, Internet, internetAddress(neighbour)), neighbour.Addr())
		}
	}
	nothingDropped(t)
}

func TestClientReachesAnotherNetwork(t *testing.T) {
	public, cloud, _ := segments(t)
	sees(t, public.Client, serve(t, cloud.Neighbour, cloud.Neighbours[0].Addr()), public.ClientSide[0].Peer.Addr())
	sees(t, cloud.Client, serve(t, public.Neighbour, public.Neighbours[0].Addr()), cloud.ClientSide[0].Peer.Addr())
	if n := counted(t, public.Router, In); n == 0 {
		t.Error("the packets to the public neighbour did not pass its router")
	}
	nothingDropped(t)
}

func TestPulledCableCutsNeighbourOff(t *testing.T) {
	public, _, _ := segments(t)
	address := serve(t, public.Neighbour, public.Neighbours[0].Addr())
	want := public.ClientSide[0].Peer.Addr()
	port := PortName(public.Name, public.Neighbour)

	sees(t, public.Client, address, want)
	if err := netns.Own().LinkDown(port); err != nil {
		t.Fatal(err)
	}
	_, err := ask(t, public.Client, address, moment)
	if err == nil {
		t.Error("the client reached a neighbour whose cable was out")
	}
	if err := netns.Own().LinkUp(port); err != nil {
		t.Fatal(err)
	}
	sees(t, public.Client, address, want)
}

// A bridge or a port with an address of its own would be a host that nobody asked for.
func TestWiresAreNoHosts(t *testing.T) {
	segments(t)
	links, err := netns.Own().Links()
	if err != nil {
		t.Fatal(err)
	}
	if len(links) != 1+3+2*3 {
		t.Errorf("%d links in the lab's own namespace, want lo, 3 wires and 6 ports", len(links))
	}
	for _, link := range links {
		addresses, err := netlink.AddrList(link, netlink.FAMILY_ALL)
		if err != nil {
			t.Fatal(err)
		}
		if link.Attrs().Name != "lo" && len(addresses) != 0 {
			t.Errorf("%s has addresses %v", link.Attrs().Name, addresses)
		}
	}
}

func TestNamesOfLinksFitLinux(t *testing.T) {
	names := map[string]string{}
	for _, segment := range []string{"a", "ext-public", "ext-cloud", "twelve-chars"} {
		if got := BridgeName(segment); len(got) > 15 {
			t.Errorf("bridge %s has %d characters", got, len(got))
		}
		for _, namespace := range []string{
			"n", "node1", "node2", "node101", "node102", "router-" + segment,
			"host-" + segment,
		} {
			got := PortName(segment, namespace)
			if len(got) > 15 || got != PortName(segment, namespace) {
				t.Errorf("port %s is too long, or another each time", got)
			}
			if other, taken := names[got]; taken {
				t.Errorf("port %s: both for %s and %s/%s", got, other, segment, namespace)
			}
			names[got] = segment + "/" + namespace
		}
	}
}

func TestSettingsAreOfTheFamiliesThatAHostHas(t *testing.T) {
	v4 := netip.MustParsePrefix("192.0.2.0/24")
	v6 := netip.MustParsePrefix("2001:db8::/64")
	const forward4, forward6, off6 = "ipv4/ip_forward", "ipv6/conf/all/forwarding", "ipv6/conf/all/disable_ipv6"
	for _, c := range []struct {
		prefixes []netip.Prefix
		part     part
		want     [3]string
	}{
		{[]netip.Prefix{v4}, forwards, [3]string{"1", "", "1"}},
		{[]netip.Prefix{v6}, forwards, [3]string{"", "1", "0"}},
		{[]netip.Prefix{v4, v6}, forwards, [3]string{"1", "1", "0"}},
		{[]netip.Prefix{v4, v6}, ends, [3]string{"", "", "0"}},
	} {
		s := settings(familiesOf(c.prefixes), c.part, true)
		if got := [3]string{s[forward4], s[forward6], s[off6]}; got != c.want {
			t.Errorf("%v, forwards %v: %v, want %v", c.prefixes, c.part, got, c.want)
		}
	}
	if _, ok := settings(familiesOf([]netip.Prefix{v4}), ends, false)[off6]; ok {
		t.Error("IPv6 is switched off on a kernel that has none")
	}
}
