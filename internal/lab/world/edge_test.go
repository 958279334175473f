package world

import (
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/lab/blueprint"
	"github.com/sallyport/sallyport/internal/lab/netns"
	"github.com/sallyport/sallyport/internal/lab/netns/netnstest"
)

func TestRules(t *testing.T) {
	want, err := os.ReadFile("testdata/rules.nft")
	if err != nil {
		t.Fatal(err)
	}
	if got := rules(); got != string(want) {
		t.Errorf("rules are\n%s\nwant\n%s", got, want)
	}
	netnstest.Need(t)
	if _, err := nft(t.Context(), netns.Own(), rules(), "--check", "-f", "-"); err != nil {
		t.Error(err)
	}
	if _, err := nft(t.Context(), netns.Own(), rules()+"nonsense", "--check", "-f", "-"); err == nil {
		t.Error("nft --check has nothing against nonsense")
	}
}

func TestMissingNftSaysWhatToInstall(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := Counters(netns.Own())
	if err == nil || !strings.Contains(err.Error(), "apt-get install nftables") {
		t.Errorf("without nft: %v, want the package to install", err)
	}
}

func TestRouterDropsForeignSource(t *testing.T) {
	public, cloud, _ := segments(t)
	for i, neighbour := range public.Neighbours {
		inbox := hear(t, Internet, internetAddress(neighbour))
		foreign := public.ClientSide[i].Peer.Addr() // a real host of the lab, but of the other side of the router
		send(t, public.Neighbour, foreign, inbox.LocalAddr(), "spoofed")
		send(t, public.Neighbour, neighbour.Addr(), inbox.LocalAddr(), "honest")
		if got := next(t, inbox, patience); got != "honest" {
			t.Errorf("from %s the internet host heard %q first, want only the honest datagram", neighbour, got)
		}
		counts(t, public.Router, Spoofed, uint64(i+1))
		dropped, err := DroppedFlows(netns.Named(public.Router))
		if err != nil || !slices.ContainsFunc(dropped, func(f DroppedFlow) bool {
			return f.Source.Addr() == foreign && f.Destination.String() == inbox.LocalAddr().String() &&
				f.Protocol == "udp" && f.Age < time.Minute
		}) {
			t.Errorf("dropped flows are %v (%v), want one from %s to %s", dropped, err, foreign, inbox.LocalAddr())
		}
	}
	inbox := hear(t, Internet, internetAddress(cloud.Prefixes[0]))
	send(t, cloud.Neighbour, public.Neighbours[0].Addr(), inbox.LocalAddr(), "from another network")
	send(t, cloud.Neighbour, cloud.Neighbours[0].Addr(), inbox.LocalAddr(), "honest")
	if got := next(t, inbox, patience); got != "honest" {
		t.Errorf("the internet host heard %q first, want only the honest datagram", got)
	}
	counts(t, cloud.Router, Spoofed, 1)
	counts(t, public.Router, OutOfState, 0)
	counts(t, cloud.Router, OutOfState, 0)
}

// A source that the router itself would send to by the wire is not foreign: so do addresses that nodes announce pass.
func TestRouterPassesSourceThatItHasARouteTo(t *testing.T) {
	_, _, uplink := segments(t)
	service := netip.MustParseAddr("198.18.10.1")
	inbox := hear(t, Internet, internetAddress(uplink.Prefixes[0]))
	send(t, uplink.Neighbour, service, inbox.LocalAddr(), "without a route")
	counts(t, uplink.Router, Spoofed, 1)
	route := netns.Route{Dst: netip.PrefixFrom(service, 32), Via: uplink.Neighbours[0].Addr(), Dev: lanSide}
	if err := netns.Named(uplink.Router).AddRoutes(route); err != nil {
		t.Fatal(err)
	}
	send(t, uplink.Neighbour, service, inbox.LocalAddr(), "with a route")
	if got := next(t, inbox, patience); got != "with a route" {
		t.Errorf("the internet host heard %q first, want only what the router has a route back for", got)
	}
	counts(t, uplink.Router, Spoofed, 1)
}

// shortcut gives the client of one segment a second cable, to another segment's wire: its packets to the neighbour
// there pass by that segment's router, and the neighbour's replies, sent to its gateway, don't.
func shortcut(t *testing.T, client string, to blueprint.Segment) {
	t.Helper()
	ns := netns.Named(client)
	if err := Attach(to, netns.End{NS: ns, Name: "shortcut"}, blueprint.WireMTU); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { removeShortcut(t, client) })
	neighbour := to.Neighbours[0].Addr()
	if err := ns.AddRoutes(netns.Route{
		Dst: netip.PrefixFrom(neighbour, neighbour.BitLen()),
		Dev: "shortcut",
	}); err != nil {
		t.Fatal(err)
	}
}

func removeShortcut(t *testing.T, client string) {
	t.Helper()
	if err := netns.Named(client).DeleteLink("shortcut"); err != nil {
		t.Error(err)
	}
}

func TestRouterDropsReplyToConnectionItNeverSaw(t *testing.T) {
	public, cloud, _ := segments(t)
	address := serve(t, cloud.Neighbour, cloud.Neighbours[0].Addr())
	client := public.ClientSide[0].Peer.Addr()

	sees(t, public.Client, address, client)
	nothingDropped(t)

	shortcut(t, public.Client, cloud)
	_, err := ask(t, public.Client, address, moment)
	if !isTimeout(err) {
		t.Errorf("connect, when the SYN+ACK enters by a router that saw no SYN: %v, want a timeout", err)
	}
	if await(t, cloud.Router, OutOfState, 1) == 0 {
		t.Errorf("%s counted no packet out of state", cloud.Router)
	}
	counts(t, cloud.Router, Spoofed, 0) // the source is its segment's

	removeShortcut(t, public.Client)
	sees(t, public.Client, address, client)
}

// A connection that moves to another router in its middle is as unknown there as one that begins there with a reply.
func TestRouterDropsMiddleOfConnection(t *testing.T) {
	public, cloud, _ := segments(t)
	client := netip.PrefixFrom(public.ClientSide[0].Peer.Addr(), 32)
	shortcut(t, public.Client, cloud)
	neighbour := netns.Named(cloud.Neighbour)
	if err := neighbour.AddRoutes(netns.Route{Dst: client, Dev: "eth0"}); err != nil {
		t.Fatal(err)
	}
	near, far := connect(t, public.Client, cloud)
	pass := func(text string, d time.Duration) string {
		if _, err := far.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		_ = near.SetReadDeadline(time.Now().Add(d))
		buf := make([]byte, 100)
		n, _ := near.Read(buf)
		return string(buf[:n])
	}
	if got := pass("past the router", patience); got != "past the router" {
		t.Fatalf("the client read %q over the shortcut", got)
	}
	nothingDropped(t)

	if err := neighbour.AddRoutes(netns.Route{Dst: client, Via: cloud.Gateways[0].Addr(), Dev: "eth0"}); err != nil {
		t.Fatal(err)
	}
	if got := pass("by the router", moment); got != "" {
		t.Errorf("the client read %q through a router that did not see the connection begin", got)
	}
	if await(t, cloud.Router, OutOfState, 1) == 0 {
		t.Errorf("%s counted no packet out of state", cloud.Router)
	}
}

// connect is both ends of a TCP connection from a client to a segment's neighbour.
func connect(t *testing.T, client string, seg blueprint.Segment) (near, far net.Conn) {
	t.Helper()
	ctx := withTimeout(t, patience)
	l, err := netns.Named(seg.Neighbour).Listen(ctx, "tcp", netip.AddrPortFrom(seg.Neighbours[0].Addr(), 0).String())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	near, err = netns.Named(client).Dial(ctx, "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	far, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	for _, end := range []net.Conn{near, far} {
		_ = end.(*net.TCPConn).SetLinger(0) // an orphan that repeats its last words would count in the next test
		t.Cleanup(func() { _ = end.Close() })
	}
	return near, far
}

func TestRouterDropsEchoReplyWithoutRequest(t *testing.T) {
	public, _, _ := segments(t)
	for i, neighbour := range public.Neighbours {
		internet := internetAddress(neighbour)
		uncalledFor(t, public.Neighbour, neighbour.Addr(), internet)
		counts(t, public.Router, OutOfState, uint64(2*i+1))
		uncalledFor(t, Internet, internet, neighbour.Addr())
		counts(t, public.Router, OutOfState, uint64(2*i+2))
	}
}

// uncalledFor sends an echo reply that nobody asked for, then an echo request, and waits for its reply.
func uncalledFor(t *testing.T, from string, src, dst netip.Addr) {
	t.Helper()
	network, request, reply := "ip4:icmp", byte(8), byte(0)
	if src.Is6() {
		network, request, reply = "ip6:ipv6-icmp", 128, 129
	}
	socket, err := netns.Named(from).ListenPacket(t.Context(), network, src.String())
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	for _, kind := range []byte{reply, request} {
		if _, err := socket.WriteTo(echo(kind), &net.IPAddr{IP: dst.AsSlice()}); err != nil {
			t.Fatal(err)
		}
	}
	awaitMessage(t, socket, reply)
}

// echoes numbers echo messages: a second reply to one request is in state.
var echoes uint16

// echo is an ICMP echo message with its IPv4 checksum; of IPv6 the kernel computes it.
func echo(kind byte) []byte {
	echoes++
	sum := ^(uint16(kind)<<8 + echoes)
	return []byte{kind, 0, byte(sum >> 8), byte(sum), byte(echoes >> 8), byte(echoes), 0, 0}
}

// awaitMessage waits for an ICMP message; others, such as neighbour discovery's, come by as well.
func awaitMessage(t *testing.T, socket net.PacketConn, kind byte) {
	t.Helper()
	_ = socket.SetReadDeadline(time.Now().Add(patience))
	buf := make([]byte, 1500)
	for {
		n, _, err := socket.ReadFrom(buf)
		if err != nil {
			t.Fatalf("wait for ICMP message %d: %v", kind, err)
		}
		if n > 0 && buf[0] == kind {
			return
		}
	}
}
