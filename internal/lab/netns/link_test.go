package netns

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
)

func prefixes(all ...string) (out []netip.Prefix) {
	for _, s := range all {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

// find is a link of the namespace with its global addresses.
func find(t *testing.T, ns NS, name string) (link netlink.Link, addresses []string) {
	t.Helper()
	must(t, ns.with(func(h *netlink.Handle) (err error) {
		if link, err = h.LinkByName(name); err != nil {
			return err
		}
		list, err := h.AddrList(link, netlink.FAMILY_ALL)
		for _, a := range list {
			if a.IP.IsGlobalUnicast() {
				addresses = append(addresses, a.IPNet.String())
			}
		}
		return err
	}))
	return link, addresses
}

func TestVeth(t *testing.T) {
	host, wire := create(t, "host"), create(t, "wire")
	must(t, wire.Bridge("sw", 1600))
	if empty, _ := find(t, wire, "sw"); empty.Attrs().MTU != 1600 {
		t.Errorf("an empty bridge has MTU %d, want 1600", empty.Attrs().MTU) // later it is that of its smallest port
	}
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 7}
	end := End{NS: host, Name: "eth0", MAC: mac, Addresses: prefixes("192.0.2.1/24", "2001:db8::1/64")}
	must(t, Veth(end, End{NS: wire, Name: "port", Bridge: "sw"}, 1450))
	link, addresses := find(t, host, "eth0")
	if a := link.Attrs(); a.HardwareAddr.String() != mac.String() || a.MTU != 1450 || a.Flags&net.FlagUp == 0 {
		t.Errorf("eth0: %s, MTU %d, %s", a.HardwareAddr, a.MTU, a.Flags)
	}
	slices.Sort(addresses)
	if want := []string{"192.0.2.1/24", "2001:db8::1/64"}; !slices.Equal(addresses, want) {
		t.Errorf("eth0 has %v, want %v", addresses, want)
	}
	bridge, _ := find(t, wire, "sw")
	port, addresses := find(t, wire, "port")
	if a := port.Attrs(); a.MasterIndex != bridge.Attrs().Index || a.MTU != 1450 || a.Flags&net.FlagUp == 0 ||
		len(addresses) > 0 {
		t.Errorf("port: master %d, want %d; MTU %d, %s, %v", a.MasterIndex, bridge.Attrs().Index, a.MTU, a.Flags,
			addresses)
	}
	if err := Veth(End{NS: host, Name: "eth1"}, End{NS: wire, Name: "port1", Bridge: "none"}, 1450); err == nil {
		t.Error("a bridge that is not there is taken")
	}
	must(t, host.SetMTU("eth0", 1400))
	if link, _ := find(t, host, "eth0"); link.Attrs().MTU != 1400 {
		t.Errorf("MTU is %d after it was set to 1400", link.Attrs().MTU)
	}
	must(t, wire.DeleteLink("port"), wire.DeleteLink("port")) // what is gone already is no error
	if err := host.LinkUp("eth0"); err == nil {
		t.Error("eth0 is there after the other end was deleted")
	}
}

func TestTap(t *testing.T) {
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		t.Skip("the kernel has no tap devices: ", err)
	}
	wire := create(t, "wire")
	must(t, wire.Bridge("sw", 1600), wire.Tap("vm0", "sw", 1450))
	bridge, _ := find(t, wire, "sw")
	tap, addresses := find(t, wire, "vm0")
	if a := tap.Attrs(); a.MasterIndex != bridge.Attrs().Index || a.MTU != 1450 || a.Flags&net.FlagUp == 0 ||
		len(addresses) > 0 || tap.Type() != "tuntap" {
		t.Errorf("tap: %s, master %d, want %d; MTU %d, %s, %v", tap.Type(), a.MasterIndex, bridge.Attrs().Index, a.MTU,
			a.Flags, addresses)
	}
	if err := wire.Tap("vm1", "none", 1450); err == nil {
		t.Error("a bridge that is not there is taken")
	}
	if links, err := Own().Links(); err != nil || slices.ContainsFunc(links, func(l netlink.Link) bool {
		return l.Attrs().Name == "vm0"
	}) {
		t.Errorf("the tap is in another namespace: %v", err)
	}
}

// greet answers each connection with a line until the test ends.
func greet(t *testing.T, ns NS, address string) {
	t.Helper()
	l, err := ns.Listen(t.Context(), "tcp", address)
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprintln(conn, "hello")
			_ = conn.Close()
		}
	}()
}

func hear(t *testing.T, ns NS, address string, patience time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	conn, err := ns.Dial(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	must(t, conn.SetDeadline(time.Now().Add(patience)))
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err == nil && line != "hello\n" {
		return fmt.Errorf("heard %q", line)
	}
	return err
}

// A cable that is out loses packets of both families, and what the hosts have configured is still there when it is
// back.
func TestCableOutAndIn(t *testing.T) {
	wire, near, far := create(t, "wire"), create(t, "near"), create(t, "far")
	must(t, wire.Bridge("sw", 1500),
		Veth(End{NS: near, Name: "eth0", Addresses: prefixes("192.0.2.1/24", "2001:db8::1/64")},
			End{NS: wire, Name: "p1", Bridge: "sw"}, 1500),
		Veth(End{NS: far, Name: "eth0", Addresses: prefixes("192.0.2.2/24", "2001:db8::2/64")},
			End{NS: wire, Name: "p2", Bridge: "sw"}, 1500),
		far.AddAddresses("lo", prefixes("198.51.100.1/32")...),
		near.AddRoutes(Route{
			Dst: netip.MustParsePrefix("198.51.100.0/24"),
			Via: netip.MustParseAddr("192.0.2.2"),
			Dev: "eth0",
		}))
	targets := []string{"192.0.2.2:80", "[2001:db8::2]:80", "198.51.100.1:80"}
	for _, target := range targets {
		greet(t, far, target)
		if err := hear(t, near, target, 10*time.Second); err != nil {
			t.Fatalf("before: %s: %v", target, err)
		}
	}
	must(t, wire.LinkDown("p2"))
	for _, target := range targets {
		if err := hear(t, near, target, 200*time.Millisecond); err == nil {
			t.Errorf("%s answers though the cable is out", target)
		}
	}
	must(t, wire.LinkUp("p2"))
	for _, target := range targets {
		if err := hear(t, near, target, 10*time.Second); err != nil {
			t.Errorf("after: %s: %v", target, err)
		}
	}
}

func TestSocketsAreInside(t *testing.T) {
	ns, other := create(t, "one"), create(t, "other")
	greet(t, ns, "127.0.0.1:80")
	if err := hear(t, ns, "127.0.0.1:80", 10*time.Second); err != nil {
		t.Errorf("inside: %v", err)
	}
	for _, outside := range []NS{other, Own()} {
		if err := hear(t, outside, "127.0.0.1:80", 10*time.Second); err == nil {
			t.Errorf("the listener of one answers in %q", outside.Name)
		}
	}
	for _, where := range []NS{ns, other} { // the same port twice: they are two loopbacks
		p, err := where.ListenPacket(t.Context(), "udp", "127.0.0.1:53")
		must(t, err)
		defer p.Close()
		conn, err := where.Dial(t.Context(), "udp", "127.0.0.1:53")
		must(t, err)
		defer conn.Close()
		_, err = conn.Write([]byte(where.Name))
		must(t, err, p.SetReadDeadline(time.Now().Add(10*time.Second)))
		b := make([]byte, 16)
		if n, from, err := p.ReadFrom(b); err != nil || string(b[:n]) != where.Name ||
			from.String() != conn.LocalAddr().String() {
			t.Errorf("%s: %q from %v, %v", where.Name, b[:n], from, err)
		}
	}
}
