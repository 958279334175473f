package probe

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// testPod is a network namespace behind a veth pair, like that of a pod.
type testPod struct {
	name, process string // the node's end of the pair, and the number of a process in the namespace
	mac           net.HardwareAddr
}

// addPod adds a pod with a gateway that its packets can be sent to.
func addPod(t *testing.T, name string) testPod {
	t.Helper()
	p := testPod{name: name, process: fmt.Sprint(startNamespace(t)), mac: net.HardwareAddr{2, 0, 0, 0, 0, 7}}
	runIP(t, fmt.Sprintf("link add %s type veth peer name eth0 netns %s", name, p.process))
	runIP(t, "link set "+name+" up")
	p.run(t, "ip link set eth0 address "+p.mac.String()+" up")
	p.run(t, "ip addr add 10.0.0.7/24 dev eth0")
	p.run(t, "ip addr add fd00::7/64 dev eth0 nodad")
	p.run(t, "ip neigh add 10.0.0.1 lladdr 02:00:00:00:00:01 dev eth0 nud permanent")
	p.run(t, "ip neigh add fd00::1 lladdr 02:00:00:00:00:01 dev eth0 nud permanent")
	return p
}

// run runs a command in the pod.
func (p testPod) run(t *testing.T, command string) {
	t.Helper()
	runCommand(t, "nsenter --net --target "+p.process+" "+command)
}

// listen opens a TCP and a UDP socket in the pod, on all its addresses. The UDP socket answers.
func (p testPod) listen(t *testing.T, tcp, udp string) {
	t.Helper()
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine, because it changed its namespace
		failed <- func() error {
			ns, err := os.Open("/proc/" + p.process + "/ns/net")
			if err != nil {
				return err
			}
			defer ns.Close()
			if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
				return err
			}
			for _, family := range []string{"4", "6"} {
				if err := listenOn(t, family, tcp, udp); err != nil {
					return err
				}
			}
			return nil
		}()
	}()
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
}

// listenOn opens the sockets of one family in the thread's namespace.
func listenOn(t *testing.T, family, tcp, udp string) error {
	l, err := net.Listen("tcp"+family, tcp)
	if err != nil {
		return err
	}
	t.Cleanup(func() { _ = l.Close() })
	u, err := net.ListenPacket("udp"+family, udp)
	if err != nil {
		return err
	}
	t.Cleanup(func() { _ = u.Close() })
	go func() {
		for {
			_, from, err := u.ReadFrom(make([]byte, 1))
			if err != nil {
				return
			}
			_, _ = u.WriteTo([]byte("here"), from)
		}
	}()
	return nil
}

// query is a question to the pod, from its gateway.
func (p testPod) query(protocol, to string) PortQuery {
	q := PortQuery{
		Interface: p.name, MAC: p.mac, To: netip.MustParseAddrPort(to), Protocol: protocol,
		From: netip.MustParseAddr("10.0.0.1"),
	}
	if q.To.Addr().Is6() {
		q.From = netip.MustParseAddr("fd00::1")
	}
	return q
}

// enterNodeNetwork moves the test's thread to a new network namespace.
func enterNodeNetwork(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
}

func assertPorts(t *testing.T, questions []PortQuery, want []string) {
	t.Helper()
	begun := time.Now()
	got := FindOpenPorts(t.Context(), questions)
	if took := time.Since(begun); took > 2*probeTimeout {
		t.Errorf("it took %v", took)
	}
	for i, q := range questions {
		if got[i].Result != want[i] || got[i].Err != nil {
			t.Errorf("%s to %s: %q, %v, wanted %q", q.Protocol, q.To, got[i].Result, got[i].Err, want[i])
		}
	}
}

// A pod that listens, one that does not, and a firewall in the pod, which drops or rejects.
func TestPorts(t *testing.T) {
	enterNodeNetwork(t)
	p := addPod(t, "pod_h")
	p.listen(t, ":80", ":53")
	var questions []PortQuery
	var want []string
	ask := func(protocol, port, result string) {
		questions = append(questions, p.query(protocol, "10.0.0.7:"+port), p.query(protocol, "[fd00::7]:"+port))
		want = append(want, result, result)
	}
	ask("tcp", "80", PortOpen)
	ask("tcp", "81", PortClosed)
	ask("udp", "53", PortOpen)
	ask("udp", "54", PortClosed)
	ask("icmp", "0", PortOpen)
	assertPorts(t, questions, want)

	p.run(t, "nft add table inet filter")
	p.run(t, "nft add chain inet filter in {type filter hook input priority 0;}")
	p.run(t, "nft add rule inet filter in tcp dport 80 drop")
	p.run(t, "nft add rule inet filter in tcp dport 81 reject with icmpx admin-prohibited")
	questions, want = nil, nil
	ask("tcp", "80", PortSilent)
	ask("tcp", "81", PortRejected)
	ask("udp", "53", PortOpen)
	ask("tcp", "82", PortClosed)
	assertPorts(t, questions, want)
}

// A pod that accepted the connection of a query forgets it at once: it does not repeat its answer.
func TestPortsLeaveNoConnection(t *testing.T) {
	enterNodeNetwork(t)
	p := addPod(t, "pod_h")
	p.listen(t, ":80", ":53")
	assertPorts(t, []PortQuery{p.query("tcp", "10.0.0.7:80")}, []string{PortOpen})
	deadline := time.Now().Add(2 * time.Second)
	for {
		raw, err := os.ReadFile("/proc/" + p.process + "/net/tcp")
		if err != nil {
			t.Fatal(err)
		}
		if left := strings.Count(string(raw), " 03 "); left == 0 { // SYN_RECV
			return
		} else if time.Now().After(deadline) {
			t.Fatalf("%d connections are left\n%s", left, raw)
		}
	}
}

// What is not a packet to a pod is refused before a socket is opened.
func TestPortsThatMakeNoSense(t *testing.T) {
	good := PortQuery{
		Interface: "no-such", MAC: net.HardwareAddr{2, 0, 0, 0, 0, 7}, Protocol: "tcp",
		To: netip.MustParseAddrPort("10.0.0.7:80"), From: netip.MustParseAddr("10.0.0.1"),
	}
	for what, c := range map[string]struct {
		change func(*PortQuery)
		says   string
	}{
		"good, but for the interface": {func(*PortQuery) {}, "there is no interface no-such"},
		"two families":                {func(q *PortQuery) { q.From = netip.MustParseAddr("fd00::1") }, "one family"},
		"no source":                   {func(q *PortQuery) { q.From = netip.Addr{} }, "one family"},
		"itself":                      {func(q *PortQuery) { q.From = q.To.Addr() }, "not allowed"},
		"from everybody":              {func(q *PortQuery) { q.From = netip.MustParseAddr("224.0.0.1") }, "not allowed"},
		"from itself":                 {func(q *PortQuery) { q.From = netip.MustParseAddr("127.0.0.1") }, "not allowed"},
		"to everybody":                {func(q *PortQuery) { q.To = netip.MustParseAddrPort("224.0.0.1:80") }, "not allowed"},
		"a broadcast":                 {func(q *PortQuery) { q.MAC = broadcastMAC }, "not the MAC address"},
		"no MAC address":              {func(q *PortQuery) { q.MAC = nil }, "not the MAC address"},
		"another protocol":            {func(q *PortQuery) { q.Protocol = "gre" }, "is not tcp"},
	} {
		q := good
		c.change(&q)
		got := FindOpenPorts(t.Context(), []PortQuery{q})
		if got[0].Err == nil || !strings.Contains(got[0].Err.Error(), c.says) || got[0].Result != "" {
			t.Errorf("%s: %+v, wanted %q", what, got[0], c.says)
		}
	}
}

// FuzzPortReply: any frame is an answer of the pod to this packet, or none. A frame that answers, sent from elsewhere
// or to another port, is none.
func FuzzPortReply(f *testing.F) {
	for _, protocol := range []string{"tcp", "udp", "sctp", "icmp"} {
		for _, to := range []string{"10.0.0.7:80", "[fd00::7]:80"} {
			f.Add(firstPacket{PortQuery: testPod{mac: broadcastMAC}.query(protocol, to), mac: broadcastMAC, port: 80}.build())
		}
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		for protocol := range probes {
			for _, to := range []string{"10.0.0.7:80", "[fd00::7]:80"} {
				checkReplyTo(t, firstPacket{PortQuery: testPod{}.query(protocol, to), port: 0x1234}, data)
			}
		}
	})
}

// checkReplyTo checks that a frame that is a reply to a packet is from the pod, and not a reply to another one.
func checkReplyTo(t *testing.T, p firstPacket, data []byte) {
	t.Helper()
	if _, found := p.parseReply(data); !found {
		return
	}
	if got, ok := parsePacket(data[ipOffset:]); !ok || got.source != p.To.Addr() || got.destination != p.From {
		t.Errorf("%s: a reply of %s to %s", p.Protocol, got.source, got.destination)
	}
	p.port = 0x4321
	if _, found := p.parseReply(data); found {
		t.Errorf("%s: a reply to two ports", p.Protocol)
	}
}

// SCTP is not in the kernel of every machine, so its packets are checked by their bytes.
func TestSCTPReplies(t *testing.T) {
	p := firstPacket{PortQuery: testPod{mac: broadcastMAC}.query("sctp", "10.0.0.7:80"), mac: broadcastMAC, port: 0x1234}
	sent := p.build()
	if got := len(sent) - ipOffset - ipv4HeaderLength; got != sctpHeaderLength+20 || sent[ipOffset+ipv4HeaderLength+sctpHeaderLength] != sctpInit {
		t.Fatalf("it sends % x", sent)
	}
	back := firstPacket{PortQuery: PortQuery{
		MAC: broadcastMAC, From: p.To.Addr(), To: netip.AddrPortFrom(p.From, p.port), Protocol: "sctp",
	}, mac: broadcastMAC, port: p.To.Port()}.build()
	for kind, want := range map[byte]string{sctpInitAck: PortOpen, sctpAbort: PortClosed, 99: ""} {
		back[ipOffset+ipv4HeaderLength+sctpHeaderLength] = kind
		if got, _ := p.parseReply(back); got != want {
			t.Errorf("chunk %d: %q, wanted %q", kind, got, want)
		}
	}
	binary.BigEndian.PutUint16(back[ipOffset+ipv4HeaderLength:], 81)
	back[ipOffset+ipv4HeaderLength+sctpHeaderLength] = sctpInitAck
	if got, found := p.parseReply(back); found {
		t.Errorf("another port: %q", got)
	}
}
