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

// frameAttack is the attempts of a pod against one leg with frames that it makes itself.
type frameAttack struct {
	*attackLab
	t    *testing.T
	pod  string
	kind string
	leg  foothold
	out  []try
}

// frames are the attempts with frames that a pod makes itself.
func (a *attackLab) frames(t *testing.T, pod, kind string) []try {
	t.Helper()
	v := &frameAttack{attackLab: a, t: t, pod: pod, kind: kind, leg: a.legs[kind]}
	v.straight()
	v.replies()
	v.toAll()
	if pod == secured {
		v.conversation()
	}
	return v.out
}

func port(address string, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddr(address), port)
}

func (v *frameAttack) ns() netns.NS { return v.NS(v.pod + "." + v.cloud) }

func (v *frameAttack) add(what string, f harness.Frame) {
	ns := v.ns()
	v.out = append(v.out, try{what: what, victim: f.To.String() == v.leg.mac.String() || f.Target.Addr() == v.victim, send: func(word string) error {
		f.Text = word
		return harness.InjectFrame(ns, f.Bytes())
	}})
}

func (v *frameAttack) toLeg(what string, target netip.AddrPort, change func(*harness.Frame)) {
	f := v.frame(v.t, v.pod, v.leg.mac, target)
	change(&f)
	v.add(what+", to the leg's MAC address", f)
}

func (v *frameAttack) toRouter(what string, target netip.AddrPort, change func(*harness.Frame)) {
	f := v.frame(v.t, v.pod, v.router, target)
	change(&f)
	v.add(what+", to the router's MAC address", f)
}

// straight: packets to the leg and to the router, from various sources to various targets.
func (v *frameAttack) straight() {
	x, internet := v.Network(v.t, v.kind), port(harness.InternetAddress, 80)
	as := func(p byte, flags byte) func(*harness.Frame) {
		return func(f *harness.Frame) { f.Protocol, f.Flags = p, flags }
	}
	plain := func(*harness.Frame) {}
	v.toLeg("UDP to the internet", internet, plain)
	v.toLeg("SYN to the internet", internet, as(unix.IPPROTO_TCP, harness.Syn))
	v.toLeg("ping to the internet", internet, as(unix.IPPROTO_ICMP, 0))
	v.toLeg("UDP to a neighbour on the network", port(x.NeighbourAddress, 80), plain)
	v.toLeg("UDP to a client of the network", port(x.ClientAddress, 80), plain)
	v.toLeg("UDP to the victim's floating IP", port(v.victims[v.kind], 80), plain)
	v.toLeg("SYN to the victim's floating IP", port(v.victims[v.kind], 80), as(unix.IPPROTO_TCP, harness.Syn))
	v.toLeg("UDP to the victim's own address", netip.AddrPortFrom(v.victim, 80), plain)
	v.toLeg("UDP to the leg's address", netip.AddrPortFrom(v.leg.address, 80), plain)
	v.toLeg("ping to the leg's address", netip.AddrPortFrom(v.leg.address, 80), as(unix.IPPROTO_ICMP, 0))
	v.toLeg("UDP with a VLAN tag", internet, func(f *harness.Frame) { f.Vlan = 1 })
	v.toLeg("a fragment", internet, func(f *harness.Frame) { f.Fragment = harness.MoreFragments })
	v.toLeg("the router's MAC address as source", internet, func(f *harness.Frame) { f.From = v.router })
	v.toLeg("UDP from the address of a pod with a floating IP there", internet, func(f *harness.Frame) { f.Source = netip.AddrPortFrom(v.web, 80) })
	v.toLeg("UDP from the floating IP of another pod", internet, func(f *harness.Frame) { f.Source = port(v.fips[v.kind], 80) })
	v.toRouter("UDP to the victim's own address", netip.AddrPortFrom(v.victim, 80), plain)
	v.toRouter("UDP to the leg's address", netip.AddrPortFrom(v.leg.address, 80), plain)
	v.toRouter("ping to the leg's address", netip.AddrPortFrom(v.leg.address, 80), as(unix.IPPROTO_ICMP, 0))
	v.toRouter("UDP from the address of a pod with a floating IP there", internet, func(f *harness.Frame) { f.Source = netip.AddrPortFrom(v.web, 80) })
	v.toRouter("UDP from the floating IP of another pod", internet, func(f *harness.Frame) { f.Source = port(v.fips[v.kind], 80) })
	v.toRouter("UDP from the leg's address", internet, func(f *harness.Frame) { f.Source = netip.AddrPortFrom(v.leg.address, 80) })
}

// replies: what looks like a server's answer, without a connection.
func (v *frameAttack) replies() {
	client := port(v.Network(v.t, v.kind).ClientAddress, 23000)
	sources := map[string]netip.Addr{"its own address": v.addressOf(v.t, v.ns()), "the address of a pod with floating IPs": v.web}
	if v.pod == secured {
		sources["the address of a pod with a floating IP there only"] = v.solo[v.kind]
	}
	for _, reply := range []struct {
		what     string
		protocol byte
		flags    byte
	}{{"SYN+ACK", unix.IPPROTO_TCP, harness.SynAck}, {"ACK", unix.IPPROTO_TCP, harness.Ack}, {"RST", unix.IPPROTO_TCP, harness.Rst}, {"UDP", unix.IPPROTO_UDP, 0}} {
		for whose, source := range sources {
			change := func(f *harness.Frame) {
				f.Protocol, f.Flags, f.Source = reply.protocol, reply.flags, netip.AddrPortFrom(source, 80)
			}
			v.toLeg(fmt.Sprintf("%s from port 80 of %s, without a connection", reply.what, whose), client, change)
			v.toRouter(fmt.Sprintf("%s from port 80 of %s, without a connection", reply.what, whose), client, change)
		}
	}
}

// toAll: packets in frames for everybody. The router takes them by Kube-OVN's port, too, and that is the allowed way; so the taps tell
// which leg they took.
func (v *frameAttack) toAll() {
	for what, mac := range map[string]net.HardwareAddr{
		"every host's MAC address": {0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, "a group's MAC address": {0x01, 0x00, 0x5e, 0, 0, 1},
		"an IPv6 group's MAC address": {0x33, 0x33, 0, 0, 0, 1},
	} {
		for _, target := range []netip.AddrPort{port(harness.InternetAddress, 80), port(v.Network(v.t, v.kind).ClientAddress, 80), port(v.victims["cloud"], 80)} {
			v.add(fmt.Sprintf("UDP to %s, to %s", target.Addr(), what), v.frame(v.t, v.pod, mac, target))
		}
	}
}

// conversation: both sides of a connection by one pod.
func (v *frameAttack) conversation() {
	ns := v.ns()
	v.out = append(v.out, try{what: "a connection of its own making to a pod with a floating IP there, and the reply to it", send: func(word string) error {
		client := port(v.Network(v.t, v.kind).ClientAddress, uint16(24000+v.words))
		f := v.frame(v.t, v.pod, v.router, netip.AddrPortFrom(v.solo[v.kind], 80))
		f.Source, f.Text = client, "hello"
		if err := harness.InjectFrame(ns, f.Bytes()); err != nil {
			return err
		}
		f.Source, f.Target, f.Text = f.Target, client, word
		return harness.InjectFrame(ns, f.Bytes())
	}})
}

// sockets are the attempts with ordinary sockets: a mark, and neighbours that the pod sets itself.
func (a *attackLab) sockets(t *testing.T, ns netns.NS, kind string) []try {
	t.Helper()
	leg, x := a.legs[kind], a.Network(t, kind)
	gateway := netip.MustParseAddr("10.43.0.1")
	marked := func(target string) func(string) error {
		return func(word string) error { return say(ns, leg.number, target, word) }
	}
	byNeighbour := func(mac net.HardwareAddr, mark int, target string) func(string) error {
		return func(word string) error {
			if err := neighbour(ns, gateway, mac); err != nil {
				return err
			}
			defer neighbour(ns, gateway, nil) //nolint:errcheck // the control would tell
			return say(ns, mark, target, word)
		}
	}
	return []try{
		{what: "the leg's number as mark, to the internet", send: marked(harness.InternetAddress)},
		{what: "the leg's number as mark, to the other project", send: marked(a.victims[kind])},
		{what: "the leg's number as mark, to a client of the network", send: marked(x.ClientAddress)},
		{what: "the leg's MAC address as the gateway's, to the internet", send: byNeighbour(leg.mac, 0, harness.InternetAddress)},
		{what: "the leg's MAC address as the gateway's, to a neighbour", send: byNeighbour(leg.mac, 0, x.NeighbourAddress)},
		{what: "the leg's MAC address as the gateway's, to the victim", victim: true, send: byNeighbour(leg.mac, 0, a.victims[kind])},
		{what: "the leg's MAC address as the gateway's, and its number as mark", victim: true, send: byNeighbour(leg.mac, leg.number, a.victims[kind])},
		{what: "the router's MAC address as the gateway's, and the leg's number as mark", send: byNeighbour(a.router, leg.number, harness.InternetAddress)},
	}
}

// say sends a datagram from a namespace, with a mark.
func say(ns netns.NS, mark int, target, text string) error {
	d := &net.Dialer{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		if broken := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK, mark) }); broken != nil {
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
	defer conn.Close() //nolint:errcheck // the datagram is away
	_, err = conn.Write([]byte(text))
	return err
}

// neighbour gives a namespace a neighbour that stays, or (nil) takes it away.
func neighbour(ns netns.NS, address netip.Addr, mac net.HardwareAddr) error {
	return ns.Do(func() error {
		link, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		n := &netlink.Neigh{LinkIndex: link.Attrs().Index, Family: netlink.FAMILY_V4, State: netlink.NUD_PERMANENT, IP: address.AsSlice(), HardwareAddr: mac}
		if mac == nil {
			return netlink.NeighDel(n)
		}
		return netlink.NeighSet(n)
	})
}

// colludes: a pod with floating IPs sends the replies of one network's connections to the leg of another.
func (a *attackLab) colludes(t *testing.T) {
	t.Helper()
	ns, gateway := a.NS("web."+a.cloud), netip.MustParseAddr("10.43.0.1")
	for _, came := range harness.NetworkTypes {
		for _, leave := range []string{"public", "third"} {
			if came == leave {
				continue
			}
			bad, good := a.word("bad"), a.word("good")
			if err := neighbour(ns, gateway, a.legs[leave].mac); err != nil {
				t.Fatal(err)
			}
			_, badErr := a.echo(a.Network(t, came).Client, a.fips[came], bad)
			if err := neighbour(ns, gateway, nil); err != nil {
				t.Fatal(err)
			}
			answer, goodErr := a.echo(a.Network(t, came).Client, a.fips[came], good)
			if badErr == nil || goodErr != nil {
				t.Errorf("%s asks; the reply sent to the leg of %s: %v; control, sent to the router: %q %v", came, leave, badErr, answer, goodErr)
			}
			if n := a.taps["router-"+leave].heard(bad) + a.taps["neighbour-"+leave].heard(bad); n > 0 {
				t.Errorf("%d replies to %s left by %s", n, came, leave)
			}
			a.attempts, a.controls = a.attempts+1, a.controls+1
		}
	}
}

// poisons: a pod claims to be the leg, the router, the pod behind the floating IP, and the network's gateway. What a client
// of the network asks arrives at the pod, and the reply at the client; the attacker sees neither.
func (a *attackLab) poisons(t *testing.T) {
	t.Helper()
	for _, node := range a.Blueprint.NodeList()[:show.Size(3, 1)] {
		ns := a.NS("evil-" + node.Name + "." + a.cloud)
		ears, own := newTap(t, a.Cluster, ns.Name, "eth0"), a.word("good")
		a.answersWord(t, "web."+a.cloud, a.addressOf(t, ns).String(), own) // control: the tap hears what is for it
		if ears.heard(own) == 0 {
			t.Errorf("control: %s did not hear what was sent to it", ns.Name)
		}
		for kind := range a.legs {
			a.claims(t, ns, kind, ears)
		}
	}
}

// claims says to the router and to a leg that addresses which matter to the leg are here.
func (a *attackLab) claims(t *testing.T, ns netns.NS, kind string, ears *tap) {
	t.Helper()
	leg, x, mac := a.legs[kind], a.Network(t, kind), harness.HardwareAddress(t, ns)
	gateway := netip.MustParseAddr(x.NeighbourAddress).Prev() // the router is the first on each wire, the neighbour the second
	for what, claimed := range map[string]netip.Addr{
		"the leg": leg.address, "the router": netip.MustParseAddr("10.43.0.1"), "the pod": a.web,
		"the network's gateway": gateway, "the client": netip.MustParseAddr(x.ClientAddress),
	} {
		for _, to := range []net.HardwareAddr{leg.mac, a.router} {
			if err := harness.InjectFrame(ns, arpReply(mac, to, claimed, leg.address)); err != nil {
				t.Fatal(err)
			}
			bad := a.word("bad")
			a.answersWord(t, x.Client, a.fips[kind], bad)
			if n := ears.heard(bad); n > 0 {
				t.Errorf("%s claimed to be %s (%s) to %s and heard %d packets of a client on %s", ns.Name, what, claimed, to, n, kind)
			}
			a.attempts, a.served = a.attempts+1, a.served+1
		}
	}
}

// answersWord fails the test unless a floating IP answers with a word.
func (a *attackLab) answersWord(t *testing.T, where, address, word string) {
	t.Helper()
	var answer string
	var err error
	for range 3 {
		if answer, err = a.echo(where, address, word); err == nil {
			return
		}
	}
	t.Errorf("%s → %s: %q %v", where, address, answer, err)
}

// echo sends a word by UDP and waits for it to come back.
func (a *attackLab) echo(where, address, word string) (string, error) {
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
