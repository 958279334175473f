package returnpath

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/internal/lab/netns"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// frameAttack is the attempts of a pod against one return port with crafted frames.
type frameAttack struct {
	*attackFixture
	t          *testing.T
	pod        string
	kind       string
	returnPort returnPortInfo
	collected  []attempt
}

// frameAttempts returns the attempts with crafted frames.
func (a *attackFixture) frameAttempts(t *testing.T, pod, kind string) []attempt {
	t.Helper()
	v := &frameAttack{attackFixture: a, t: t, pod: pod, kind: kind, returnPort: a.returnPorts[kind]}
	v.addForwardAttempts()
	v.addReplyAttempts()
	v.addBroadcastAttempts()
	if pod == securedAttacker {
		v.addSelfConnection()
	}
	return v.collected
}

func addrPort(address string, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddr(address), port)
}

func (v *frameAttack) podNetns() netns.NS { return v.NS(v.pod + "." + v.cloud) }

func (v *frameAttack) addFrame(what string, f harness.Frame) {
	ns := v.podNetns()
	v.collected = append(v.collected, attempt{what: what, shieldsVictim: f.To.String() == v.returnPort.mac.String() ||
		f.Target.Addr() == v.victimPod, send: func(word string) error {
		f.Text = word
		return harness.InjectFrame(ns, f.Bytes())
	}})
}

func (v *frameAttack) addToReturnPort(what string, target netip.AddrPort, change func(*harness.Frame)) {
	f := v.newFrame(v.t, v.pod, v.returnPort.mac, target)
	change(&f)
	v.addFrame(what+", to the leg's MAC address", f)
}

func (v *frameAttack) addToRouter(what string, target netip.AddrPort, change func(*harness.Frame)) {
	f := v.newFrame(v.t, v.pod, v.routerMAC, target)
	change(&f)
	v.addFrame(what+", to the router's MAC address", f)
}

// addForwardAttempts adds packets to the return port and to the router, from various sources to various targets.
func (v *frameAttack) addForwardAttempts() {
	x, internet := v.Network(v.t, v.kind), addrPort(harness.InternetAddress, 80)
	as := func(p byte, flags byte) func(*harness.Frame) {
		return func(f *harness.Frame) { f.Protocol, f.Flags = p, flags }
	}
	plain := func(*harness.Frame) {}
	v.addToReturnPort("UDP to the internet", internet, plain)
	v.addToReturnPort("SYN to the internet", internet, as(unix.IPPROTO_TCP, harness.Syn))
	v.addToReturnPort("ping to the internet", internet, as(unix.IPPROTO_ICMP, 0))
	v.addToReturnPort("UDP to a neighbour on the network", addrPort(x.NeighbourAddress, 80), plain)
	v.addToReturnPort("UDP to a client of the network", addrPort(x.ClientAddress, 80), plain)
	v.addToReturnPort("UDP to the victim's floating IP", addrPort(v.victimFIPs[v.kind], 80), plain)
	v.addToReturnPort("SYN to the victim's floating IP", addrPort(v.victimFIPs[v.kind], 80),
		as(unix.IPPROTO_TCP, harness.Syn))
	v.addToReturnPort("UDP to the victim's own address", netip.AddrPortFrom(v.victimPod, 80), plain)
	v.addToReturnPort("UDP to the leg's address", netip.AddrPortFrom(v.returnPort.address, 80), plain)
	v.addToReturnPort("ping to the leg's address", netip.AddrPortFrom(v.returnPort.address, 80),
		as(unix.IPPROTO_ICMP, 0))
	v.addToReturnPort("UDP with a VLAN tag", internet, func(f *harness.Frame) { f.Vlan = 1 })
	v.addToReturnPort("a fragment", internet, func(f *harness.Frame) { f.Fragment = harness.MoreFragments })
	v.addToReturnPort("the router's MAC address as source", internet, func(f *harness.Frame) { f.From = v.routerMAC })
	v.addToReturnPort("UDP from the address of a pod with a floating IP there", internet, func(f *harness.Frame) {
		f.Source = netip.AddrPortFrom(v.webPod, 80)
	})
	v.addToReturnPort("UDP from the floating IP of another pod", internet, func(f *harness.Frame) {
		f.Source = addrPort(v.fips[v.kind], 80)
	})
	v.addToRouter("UDP to the victim's own address", netip.AddrPortFrom(v.victimPod, 80), plain)
	v.addToRouter("UDP to the leg's address", netip.AddrPortFrom(v.returnPort.address, 80), plain)
	v.addToRouter("ping to the leg's address", netip.AddrPortFrom(v.returnPort.address, 80), as(unix.IPPROTO_ICMP, 0))
	v.addToRouter("UDP from the address of a pod with a floating IP there", internet, func(f *harness.Frame) {
		f.Source = netip.AddrPortFrom(v.webPod, 80)
	})
	v.addToRouter("UDP from the floating IP of another pod", internet, func(f *harness.Frame) {
		f.Source = addrPort(v.fips[v.kind], 80)
	})
	v.addToRouter("UDP from the leg's address", internet, func(f *harness.Frame) {
		f.Source = netip.AddrPortFrom(v.returnPort.address, 80)
	})
}

// addReplyAttempts adds packets that look like replies of a server, without a connection.
func (v *frameAttack) addReplyAttempts() {
	client := addrPort(v.Network(v.t, v.kind).ClientAddress, 23000)
	sources := map[string]netip.Addr{
		"its own address":                        v.podAddress(v.t, v.podNetns()),
		"the address of a pod with floating IPs": v.webPod,
	}
	if v.pod == securedAttacker {
		sources["the address of a pod with a floating IP there only"] = v.soloPods[v.kind]
	}
	for _, reply := range []struct {
		what     string
		protocol byte
		flags    byte
	}{
		{"SYN+ACK", unix.IPPROTO_TCP, harness.SynAck},
		{"ACK", unix.IPPROTO_TCP, harness.Ack},
		{"RST", unix.IPPROTO_TCP, harness.Rst},
		{"UDP", unix.IPPROTO_UDP, 0},
	} {
		for whose, source := range sources {
			change := func(f *harness.Frame) {
				f.Protocol, f.Flags, f.Source = reply.protocol, reply.flags, netip.AddrPortFrom(source, 80)
			}
			v.addToReturnPort(fmt.Sprintf("%s from port 80 of %s, without a connection", reply.what, whose), client,
				change)
			v.addToRouter(fmt.Sprintf("%s from port 80 of %s, without a connection", reply.what, whose), client, change)
		}
	}
}

// addBroadcastAttempts adds packets in broadcast frames. The router also receives them through Kube-OVN's port, which
// is allowed, so the taps determine which return port they took.
func (v *frameAttack) addBroadcastAttempts() {
	for what, mac := range map[string]net.HardwareAddr{
		"every host's MAC address":    {0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
		"a group's MAC address":       {0x01, 0x00, 0x5e, 0, 0, 1},
		"an IPv6 group's MAC address": {0x33, 0x33, 0, 0, 0, 1},
	} {
		for _, target := range []netip.AddrPort{
			addrPort(harness.InternetAddress, 80),
			addrPort(v.Network(v.t, v.kind).ClientAddress, 80), addrPort(v.victimFIPs["cloud"], 80),
		} {
			v.addFrame(fmt.Sprintf("UDP to %s, to %s", target.Addr(), what), v.newFrame(v.t, v.pod, mac, target))
		}
	}
}

// addSelfConnection adds an attempt in which one pod plays both sides of a connection.
func (v *frameAttack) addSelfConnection() {
	ns := v.podNetns()
	v.collected = append(v.collected, attempt{what: "a connection of its own making to a pod with a floating IP there, and the reply to it", send: func(word string) error {
		client := addrPort(v.Network(v.t, v.kind).ClientAddress, uint16(24000+v.wordCount))
		f := v.newFrame(v.t, v.pod, v.routerMAC, netip.AddrPortFrom(v.soloPods[v.kind], 80))
		f.Source, f.Text = client, "hello"
		if err := harness.InjectFrame(ns, f.Bytes()); err != nil {
			return err
		}
		f.Source, f.Target, f.Text = f.Target, client, word
		return harness.InjectFrame(ns, f.Bytes())
	}})
}

// socketAttempts returns the attempts with ordinary sockets: a mark, and neighbour entries that the pod sets itself.
func (a *attackFixture) socketAttempts(t *testing.T, ns netns.NS, kind string) []attempt {
	t.Helper()
	rport, x := a.returnPorts[kind], a.Network(t, kind)
	gateway := netip.MustParseAddr("10.43.0.1")
	marked := func(target string) func(string) error {
		return func(word string) error { return sendMarked(ns, rport.label, target, word) }
	}
	byNeighbour := func(mac net.HardwareAddr, mark int, target string) func(string) error {
		return func(word string) error {
			if err := setNeighbour(ns, gateway, mac); err != nil {
				return err
			}
			defer setNeighbour(ns, gateway, nil) //nolint:errcheck // the control would fail
			return sendMarked(ns, mark, target, word)
		}
	}
	return []attempt{
		{what: "the leg's number as mark, to the internet", send: marked(harness.InternetAddress)},
		{what: "the leg's number as mark, to the other project", send: marked(a.victimFIPs[kind])},
		{what: "the leg's number as mark, to a client of the network", send: marked(x.ClientAddress)},
		{
			what: "the leg's MAC address as the gateway's, to the internet",
			send: byNeighbour(rport.mac, 0, harness.InternetAddress),
		},
		{
			what: "the leg's MAC address as the gateway's, to a neighbour",
			send: byNeighbour(rport.mac, 0, x.NeighbourAddress),
		},
		{
			what:          "the leg's MAC address as the gateway's, to the victim",
			shieldsVictim: true,
			send:          byNeighbour(rport.mac, 0, a.victimFIPs[kind]),
		},
		{
			what:          "the leg's MAC address as the gateway's, and its number as mark",
			shieldsVictim: true,
			send:          byNeighbour(rport.mac, rport.label, a.victimFIPs[kind]),
		},
		{
			what: "the router's MAC address as the gateway's, and the leg's number as mark",
			send: byNeighbour(a.routerMAC, rport.label, harness.InternetAddress),
		},
	}
}

// sendMarked sends a datagram with a mark from a namespace.
func sendMarked(ns netns.NS, mark int, target, text string) error {
	d := &net.Dialer{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		if broken := raw.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK, mark)
		}); broken != nil {
			return broken
		}
		return err
	}}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	conn, err := ns.DialFrom(ctx, d, "udp", target+":80")
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // the datagram is sent
	_, err = conn.Write([]byte(text))
	return err
}

// setNeighbour adds a permanent neighbour entry to a namespace, or removes it if mac is nil.
func setNeighbour(ns netns.NS, address netip.Addr, mac net.HardwareAddr) error {
	return ns.Do(func() error {
		link, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		n := &netlink.Neigh{
			LinkIndex:    link.Attrs().Index,
			Family:       netlink.FAMILY_V4,
			State:        netlink.NUD_PERMANENT,
			IP:           address.AsSlice(),
			HardwareAddr: mac,
		}
		if mac == nil {
			return netlink.NeighDel(n)
		}
		return netlink.NeighSet(n)
	})
}

// checkCrossedReplies lets a pod with floating IPs send replies of one network's connections to the return port of
// another network.
func (a *attackFixture) checkCrossedReplies(t *testing.T) {
	t.Helper()
	ns, gateway := a.NS("web."+a.cloud), netip.MustParseAddr("10.43.0.1")
	for _, came := range harness.NetworkTypes {
		for _, leave := range []string{"public", "third"} {
			if came == leave {
				continue
			}
			bad, good := a.newWord("bad"), a.newWord("good")
			if err := setNeighbour(ns, gateway, a.returnPorts[leave].mac); err != nil {
				t.Fatal(err)
			}
			_, badErr := a.echoWord(a.Network(t, came).Client, a.fips[came], bad)
			if err := setNeighbour(ns, gateway, nil); err != nil {
				t.Fatal(err)
			}
			answer, goodErr := a.echoWord(a.Network(t, came).Client, a.fips[came], good)
			if badErr == nil || goodErr != nil {
				t.Errorf("%s asks; the reply sent to the leg of %s: %v; control, sent to the router: %q %v", came,
					leave, badErr, answer, goodErr)
			}
			if n := a.taps["router-"+leave].countWord(bad) + a.taps["neighbour-"+leave].countWord(bad); n > 0 {
				t.Errorf("%d replies to %s left by %s", n, came, leave)
			}
			a.attempts, a.controls = a.attempts+1, a.controls+1
		}
	}
}

// checkARPSpoofing lets a pod claim the addresses of the return port, the router, the pod behind the floating IP, and
// the network's gateway. Requests of a client of the network still arrive at the pod and the replies at the client; the
// attacker sees neither.
func (a *attackFixture) checkARPSpoofing(t *testing.T) {
	t.Helper()
	for _, node := range a.Blueprint.NodeList()[:show.ChooseSize(3, 1)] {
		ns := a.NS("evil-" + node.Name + "." + a.cloud)
		ears, own := newTap(t, a.Cluster, ns.Name, "eth0"), a.newWord("good")
		a.expectEcho(t, "web."+a.cloud, a.podAddress(t, ns).String(), own)
		harness.Eventually(t, "control: "+ns.Name+" hears what is sent to it", func() bool {
			return ears.countWord(own) > 0 // the capture may be behind the answer
		})
		for kind := range a.returnPorts {
			a.spoofARP(t, ns, kind, ears)
		}
	}
}

// spoofARP claims, to the router and to a return port, the addresses that matter to the return port.
func (a *attackFixture) spoofARP(t *testing.T, ns netns.NS, kind string, ears *tap) {
	t.Helper()
	rport, x, mac := a.returnPorts[kind], a.Network(t, kind), harness.HardwareAddress(t, ns)
	// on each wire the router has the first address, the neighbour the second
	gateway := netip.MustParseAddr(x.NeighbourAddress).Prev()
	for what, claimed := range map[string]netip.Addr{
		"the leg": rport.address, "the router": netip.MustParseAddr("10.43.0.1"), "the pod": a.webPod,
		"the network's gateway": gateway, "the client": netip.MustParseAddr(x.ClientAddress),
	} {
		for _, to := range []net.HardwareAddr{rport.mac, a.routerMAC} {
			if err := harness.InjectFrame(ns, arpReply(mac, to, claimed, rport.address)); err != nil {
				t.Fatal(err)
			}
			bad := a.newWord("bad")
			a.expectEcho(t, x.Client, a.fips[kind], bad)
			if n := ears.countWord(bad); n > 0 {
				t.Errorf("%s claimed to be %s (%s) to %s and heard %d packets of a client on %s", ns.Name, what,
					claimed, to, n, kind)
			}
			a.attempts, a.served = a.attempts+1, a.served+1
		}
	}
}

// expectEcho fails the test unless a floating IP answers with a word.
func (a *attackFixture) expectEcho(t *testing.T, where, address, word string) {
	t.Helper()
	var answer string
	var err error
	for range 3 {
		if answer, err = a.echoWord(where, address, word); err == nil {
			return
		}
	}
	t.Errorf("%s → %s: %q %v", where, address, answer, err)
}

// echoWord sends a word by UDP and waits for the echo.
func (a *attackFixture) echoWord(where, address, word string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	conn, err := a.NS(where).Dial(ctx, "udp", address+":80")
	if err != nil {
		return "", err
	}
	defer conn.Close() //nolint:errcheck // nothing is kept in it
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return "", err
	}
	if _, err := conn.Write([]byte("#" + word)); err != nil {
		return "", err
	}
	b := make([]byte, 1500)
	n, err := conn.Read(b)
	return string(b[:n]), err
}
