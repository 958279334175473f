// Package vrf is what TestAgent2VRF and TestPlatform4VRFWithMarks run in virtual machines: method VRF of the node agent,
// by packets.
package vrf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/lab/netns"
)

// The world: client — router — eth1 of node; uplink — eth0 of node, which is its default; cluster — inner of node; pod
// behind cluster. The uplink has an address of a client of its own. Services 10 and 11 are reached by their outside
// addresses: 10 by eth1, 11 by eth0.
const (
	clientAddress, clientAddress6 = "203.0.113.10", "2001:db8:113::10"
	uplinkAddress, uplinkAddress6 = "192.0.2.10", "2001:db8:192::10"
	eth1Address, eth1Address6     = "172.16.1.2", "2001:db8:1::2"
	outside, outside6             = "198.18.10.1", "2001:db8:10::1"
	other, other6                 = "198.18.10.2", "2001:db8:10::2"
	cluster, cluster6             = "10.96.0.10", "fd00:96::10"
	podAddress, podAddress6       = "10.16.0.5", "fd00:16::5"
	egressAddress, egressAddress6 = "198.18.20.1", "2001:db8:20::1"
	servicePort, podPort          = "80", "8080"
)

type world struct{ client, router, node, uplink, inside, pod netns.NS }

// ip runs ip in a namespace, a command a line.
func ip(t *testing.T, ns netns.NS, commands string) (out string) {
	t.Helper()
	for c := range strings.Lines(commands) {
		out += run(t, ns, "ip", strings.Fields(c)...)
	}
	return out
}

func run(t *testing.T, ns netns.NS, program string, args ...string) string {
	t.Helper()
	var out []byte
	err := ns.Do(func() (err error) {
		out, err = exec.CommandContext(t.Context(), program, args...).CombinedOutput()
		return err
	})
	if err != nil {
		t.Fatalf("%s: %s %s: %v\n%s", ns.Name, program, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func space(t *testing.T, name string) netns.NS {
	t.Helper()
	ns, err := netns.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	err = ns.Sysctl(map[string]string{
		"ipv4/ip_forward": "1", "ipv6/conf/all/forwarding": "1",
		"ipv4/conf/all/rp_filter": "0", "ipv4/conf/default/rp_filter": "0",
		"ipv6/conf/default/accept_dad": "0", "ipv6/conf/default/keep_addr_on_down": "0",
	})
	if err != nil {
		t.Fatal(err)
	}
	return ns
}

func wire(t *testing.T, a, b netns.End) {
	t.Helper()
	if err := netns.Veth(a, b, 1500); err != nil {
		t.Fatal(err)
	}
}

func end(ns netns.NS, name string, addresses ...string) netns.End {
	out := netns.End{NS: ns, Name: name}
	for _, a := range addresses {
		out.Addresses = append(out.Addresses, netip.MustParsePrefix(a))
	}
	return out
}

func build(t *testing.T) *world {
	t.Helper()
	nameForeign(t)
	w := &world{
		client: space(t, "client"), router: space(t, "router"), node: space(t, "node"),
		uplink: space(t, "uplink"), inside: space(t, "cluster"), pod: space(t, "pod"),
	}
	wire(t, end(w.client, "eth0", clientAddress+"/24", clientAddress6+"/64"),
		end(w.router, "down", "203.0.113.1/24", "2001:db8:113::1/64"))
	wire(t, end(w.node, "eth1", eth1Address+"/24", eth1Address6+"/64"),
		end(w.router, "up", "172.16.1.1/24", "2001:db8:1::1/64"))
	wire(t, end(w.node, "eth0", "172.16.0.2/24", "2001:db8:a::2/64"),
		end(w.uplink, "up", "172.16.0.1/24", "2001:db8:a::1/64", uplinkAddress+"/32", uplinkAddress6+"/128"))
	wire(t, end(w.node, "inner", "100.64.0.2/24", "fd00:64::2/64"),
		end(w.inside, "node", "100.64.0.1/24", "fd00:64::1/64"))
	wire(t, end(w.pod, "eth0", podAddress+"/24", podAddress6+"/64"),
		end(w.inside, "pod", "10.16.0.1/24", "fd00:16::1/64"))
	for ns, routes := range map[netns.NS]string{
		w.client: "default via 203.0.113.1, default via 2001:db8:113::1",
		w.router: "198.18.0.0/16 via 172.16.1.2, 2001:db8:10::/48 via 2001:db8:1::2, 2001:db8:20::/48 via 2001:db8:1::2",
		w.node: "default via 172.16.0.1, default via 2001:db8:a::1, 10.96.0.0/12 via 100.64.0.1, fd00:96::/112 via fd00:64::1, " +
			"10.16.0.0/16 via 100.64.0.1, fd00:16::/64 via fd00:64::1",
		w.uplink: "198.18.0.0/16 via 172.16.0.2, 2001:db8:10::/48 via 2001:db8:a::2, 10.16.0.0/16 via 172.16.0.2, fd00:16::/64 via 2001:db8:a::2",
		w.inside: "default via 100.64.0.2, default via fd00:64::2",
		w.pod:    "default via 10.16.0.1, default via fd00:16::1",
	} {
		for r := range strings.SplitSeq(routes, ", ") {
			ip(t, ns, "route add "+r)
		}
	}
	w.translate(t)
	w.count(t)
	for _, ns := range []netns.NS{w.client, w.node, w.pod} {
		serve(t, ns, "")
	}
	serve(t, w.uplink, uplinkAddress) // of several addresses a datagram's reply would have another
	serve(t, w.uplink, uplinkAddress6)
	return w
}

// translate is what the node does with outside addresses, and OVN with those of the cluster.
func (w *world) translate(t *testing.T) {
	t.Helper()
	for ns, pairs := range map[netns.NS][]string{
		w.node: {"ip", outside, cluster, "ip", other, "10.96.0.11", "ip6", outside6, "[" + cluster6 + "]", "ip6",
			other6, "[fd00:96::11]"},
		w.inside: {"ip", "10.96.0.0/12", podAddress + ":" + podPort, "ip6", "fd00:96::/112",
			"[" + podAddress6 + "]:" + podPort},
	} {
		rules := "add table inet test\nadd chain inet test there { type nat hook prerouting priority dstnat; }\n"
		for i := 0; i < len(pairs); i += 3 {
			rules += fmt.Sprintf("add rule inet test there meta l4proto { tcp, udp } th dport %s %s daddr %s dnat %s to %s\n",
				servicePort, pairs[i], pairs[i+1], pairs[i], pairs[i+2])
		}
		run(t, ns, "nft", rules)
	}
}

// count counts what arrives at the default router and is meant for the client.
func (w *world) count(t *testing.T) {
	t.Helper()
	run(t, w.uplink, "nft", "add table inet test\nadd chain inet test strayed { type filter hook prerouting priority -300; }\n"+
		"add rule inet test strayed ip daddr "+clientAddress+" counter drop\nadd rule inet test strayed ip6 daddr "+
		clientAddress6+" counter drop\n")
}

var packets = regexp.MustCompile(`counter packets (\d+)`)

// strayed is how many packets arrived at the default router by mistake until now, by family.
func (w *world) strayed(t *testing.T) (out [2]int) {
	t.Helper()
	for i, m := range packets.FindAllStringSubmatch(run(t, w.uplink, "nft", "list", "chain", "inet", "test", "strayed"),
		2) {
		out[i], _ = strconv.Atoi(m[1])
	}
	return out
}

// serve answers everybody with the address and port that they have, on one or all addresses of a namespace.
func serve(t *testing.T, ns netns.NS, address string) {
	t.Helper()
	streams, err := ns.Listen(t.Context(), "tcp", net.JoinHostPort(address, podPort))
	if err != nil {
		t.Fatal(err)
	}
	datagrams, err := ns.ListenPacket(t.Context(), "udp", net.JoinHostPort(address, podPort))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = streams.Close(), datagrams.Close() })
	go func() {
		for {
			c, err := streams.Accept()
			if err != nil {
				return
			}
			go answer(c)
		}
	}()
	go func() {
		for b := make([]byte, 100); ; {
			_, from, err := datagrams.ReadFrom(b)
			if err != nil {
				return
			}
			_, _ = datagrams.WriteTo([]byte(plain(from)), from)
		}
	}()
}

// answer tells a client who it is, and gives back what it says after that.
func answer(c net.Conn) {
	defer c.Close()
	if _, err := c.Write([]byte(plain(c.RemoteAddr()))); err == nil {
		_, _ = io.Copy(c, c)
	}
}

// plain is an address without the IPv6 form of IPv4.
func plain(a net.Addr) string {
	p := netip.MustParseAddrPort(a.String())
	return netip.AddrPortFrom(p.Addr().Unmap(), p.Port()).String()
}

// ask asks a server who one is, from an address of one's own, and returns the address and port that one has oneself,
// and the answer. It asks again and again: IPv6 of an interface that was taken down and up works after a moment only.
func ask(ctx context.Context, ns netns.NS, network, from, to string) (self, answer string, err error) {
	for {
		if self, answer, err = askOnce(ctx, ns, network, from, to); err == nil || ctx.Err() != nil {
			return self, answer, err
		}
	}
}

func askOnce(ctx context.Context, ns netns.NS, network, from, to string) (self, answer string, err error) {
	once, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	dialer := &net.Dialer{}
	switch ip := net.ParseIP(from); {
	case ip == nil:
	case network == "tcp":
		dialer.LocalAddr = &net.TCPAddr{IP: ip}
	default:
		dialer.LocalAddr = &net.UDPAddr{IP: ip}
	}
	c, err := ns.DialFrom(once, dialer, network, to)
	if err != nil {
		<-once.Done() // a refusal comes at once
		return "", "", err
	}
	defer c.Close()
	if network == "udp" {
		if _, err := c.Write([]byte("who am I?")); err != nil {
			return "", "", err
		}
	}
	until, _ := once.Deadline()
	_ = c.SetReadDeadline(until)
	b := make([]byte, 100)
	n, err := c.Read(b)
	return plain(c.LocalAddr()), string(b[:n]), err
}

var errAnother = errors.New("the server saw another")

// reaches fails unless the server answers, and saw the client as it is; or, where seen is not empty, saw that address.
func reaches(t *testing.T, what string, ns netns.NS, path [3]string, seen string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
	defer cancel()
	self, answer, err := ask(ctx, ns, path[0], path[1], path[2])
	saw, _ := netip.ParseAddrPort(answer)
	if err == nil && (seen == "" && answer != self || seen != "" && saw.Addr().String() != seen) {
		err = fmt.Errorf("%w: %s is %s, and was seen as %s", errAnother, ns.Name, self, answer)
	}
	if err != nil {
		t.Errorf("%s: %s from %s to %s over %s: %v", what, ns.Name, path[1], path[2], path[0], err)
	}
}
