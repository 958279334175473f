package probe

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// enterTestNetwork moves the test's thread to a new network namespace with an interface eth1 on a link. The thread ends
// with the test.
func enterTestNetwork(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
	runCommand(t, "sysctl -qw net.ipv4.conf.all.arp_ignore=1") // the link itself must not answer
	runIP(t, "link add wire type bridge")
	runIP(t, "link set wire up")
	runIP(t, "link add eth1 type veth peer name to-eth1")
	runIP(t, "link set eth1 up")
	runIP(t, "link set to-eth1 master wire up")
}

// runIP runs ip in the thread's namespace.
func runIP(t *testing.T, args string) { runCommand(t, "ip "+args) }

func runCommand(t *testing.T, command string) {
	t.Helper()
	words := strings.Fields(command)
	if out, err := exec.CommandContext(t.Context(), words[0], words[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
}

// startNamespace starts a process in a new network namespace and returns its number. It ends with the test.
func startNamespace(t *testing.T) int {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "unshare", "--net", "sh", "-c", "echo; exec sleep 60")
	ready, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	if _, err := ready.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}

// addHost adds a host with addresses to the link and returns its MAC address.
func addHost(t *testing.T, name, mac string, addresses ...string) string {
	t.Helper()
	process := startNamespace(t)
	runIP(t, fmt.Sprintf("link add %s type veth peer name eth0 netns %d", name, process))
	runIP(t, "link set "+name+" master wire up")
	inside := fmt.Sprintf("nsenter --net --target %d ip ", process)
	runCommand(t, inside+"link set eth0 address "+mac+" up")
	for _, a := range addresses {
		if strings.Contains(a, ":") {
			a += " nodad"
		}
		runCommand(t, inside+"addr add dev eth0 "+a)
	}
	return mac
}

// formatResults returns the results as lines.
func formatResults(answers []Result) (out []string) {
	for _, a := range answers {
		line := strings.Join(a.MACs, " ")
		if a.Err != nil {
			line = "error: " + a.Err.Error()
		}
		out = append(out, line)
	}
	return out
}

func assertResults(t *testing.T, questions []Query, want []string) {
	t.Helper()
	begun := time.Now()
	got := formatResults(FindNeighbours(t.Context(), questions))
	if took := time.Since(begun); took > 2*probeTimeout {
		t.Errorf("it took %v", took)
	}
	for i, q := range questions {
		if got[i] != want[i] {
			t.Errorf("who has %s on %s, VLAN %d: %q, wanted %q", q.Address, q.Interface, q.VLAN, got[i], want[i])
		}
	}
}

func TestNeighbours(t *testing.T) {
	enterTestNetwork(t)
	a := addHost(t, "a-host", "02:00:00:00:00:0a", "192.0.2.1/24", "192.0.2.9/24", "2001:db8::1/64", "2001:db8::9/64")
	b := addHost(t, "b-host", "02:00:00:00:00:0b", "192.0.2.2/24", "192.0.2.9/24", "2001:db8::9/64")
	runIP(t, "link add eth2 type veth peer name far2") // not set up
	ask := func(name, address string) Query {
		return Query{Interface: name, Address: netip.MustParseAddr(address)}
	}
	questions := []Query{
		ask("eth1", "192.0.2.1"), ask("eth1", "192.0.2.2"), ask("eth1", "192.0.2.9"), ask("eth1", "192.0.2.77"),
		ask("eth1", "2001:db8::1"), ask("eth1", "2001:db8::9"), ask("eth1", "2001:db8::77"), ask("eth1", "192.0.2.1"),
		ask("eth7", "192.0.2.1"), ask("eth2", "192.0.2.1"), ask("lo", "127.0.0.1"),
	}
	want := []string{
		a, b, a + " " + b, "", a, a + " " + b, "", a,
		"error: there is no interface eth7 on this node", "error: send on eth2: the interface is down",
		"error: lo is not an Ethernet interface",
	}
	assertResults(t, questions, want)
	runIP(t, "link add switch type bridge") // takes the packets of its ports, like Open vSwitch
	runIP(t, "link set switch up")
	runIP(t, "link set eth1 master switch")
	assertResults(t, questions, want)

	runIP(t, "addr add 192.0.2.50/24 dev eth1") // an address of the node itself, which gets no request
	runIP(t, "addr add 192.0.2.2/24 dev eth1")
	assertResults(t, []Query{ask("eth1", "192.0.2.50"), ask("eth1", "192.0.2.2")}, []string{"", b})
}

// A tagged request is answered by hosts of that VLAN, an untagged one by none of them.
func TestNeighboursInVLANs(t *testing.T) {
	enterTestNetwork(t)
	runIP(t, "link add far type veth peer name to-far")
	runIP(t, "link set to-far master wire up")
	runIP(t, "link set far up")
	far, err := openSocket("far")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(far.close)
	go answerARP(far, map[claimKey]claimKey{ // request, and the answer
		{7, netip.MustParseAddr("192.0.2.1")}: {7, netip.MustParseAddr("192.0.2.1")},
		{8, netip.MustParseAddr("192.0.2.1")}: {9, netip.MustParseAddr("192.0.2.1")},
		{7, netip.MustParseAddr("192.0.2.2")}: {0, netip.MustParseAddr("192.0.2.2")},
	})
	var questions []Query
	for _, q := range []struct {
		vlan    uint16
		address string
	}{{7, "192.0.2.1"}, {8, "192.0.2.1"}, {0, "192.0.2.1"}, {7, "192.0.2.2"}, {0, "192.0.2.2"}} {
		questions = append(questions, Query{"eth1", q.vlan, netip.MustParseAddr(q.address)})
	}
	assertResults(t, questions, []string{far.mac.String(), "", "", "", far.mac.String()})
}

// answerARP answers tagged ARP requests with tagged replies.
func answerARP(far *packetSocket, says map[claimKey]claimKey) {
	raw, err := far.file.SyscallConn()
	if err != nil {
		return
	}
	frame, oob := make([]byte, maxFrameLength), make([]byte, 256)
	for {
		var more int
		if raw.Read(func(fd uintptr) bool {
			_, more, _, _, err = unix.Recvmsg(int(fd), frame, oob, 0)
			return err == nil
		}) != nil {
			return
		}
		asked := claimKey{parseVLANTag(oob[:more]), netip.AddrFrom4([4]byte(frame[38:42]))}
		if reply, known := says[asked]; known && etherTypeOf(frame) == unix.ETH_P_ARP {
			_ = far.sendFrame(buildARPReply(net.HardwareAddr(frame[6:12]), far.mac, reply))
		}
	}
}

func buildARPReply(to, from net.HardwareAddr, k claimKey) []byte {
	out := append(append([]byte{}, to...), from...)
	if k.vlan != 0 {
		out = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(out, unix.ETH_P_8021Q), k.vlan)
	}
	out = append(binary.BigEndian.AppendUint16(out, unix.ETH_P_ARP), 0, 1, 8, 0, 6, 4, 0, 2)
	out = append(append(out, from...), k.address.AsSlice()...)
	return append(append(out, to...), 0, 0, 0, 0)
}

// Frames that are not an answer are ignored, however short they are.
func TestClaim(t *testing.T) {
	advertised := buildFrame(net.HardwareAddr{2, 0, 0, 0, 0, 1}, claimKey{0, netip.MustParseAddr("2001:db8::1")})
	advertised[icmpOffset] = neighbourAdvertisement
	for cut := range advertised {
		if _, _, ok := parseClaim(advertised[:cut]); ok && cut < ndOptionsOffset {
			t.Errorf("%d bytes of an advertisement count", cut)
		}
	}
	if a, mac, ok := parseClaim(advertised); !ok || a.String() != "2001:db8::1" || mac.String() != "02:00:00:00:00:01" {
		t.Errorf("an advertisement without options says %v, %v, %t", a, mac, ok)
	}
	for name, change := range map[string]func(frame []byte){
		"a solicitation": func(f []byte) { f[icmpOffset] = neighbourSolicitation },
		"one from afar":  func(f []byte) { f[hopLimitOffset] = 254 },
		"UDP":            func(f []byte) { f[nextHeaderOffset] = unix.IPPROTO_UDP },
		"IPv4":           func(f []byte) { binary.BigEndian.PutUint16(f[etherTypeOffset:], unix.ETH_P_IP) },
	} {
		other := append([]byte{}, advertised...)
		change(other)
		if _, _, ok := parseClaim(other); ok {
			t.Errorf("%s counts", name)
		}
	}
}
