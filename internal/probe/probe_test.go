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

// wired puts the test's thread into a network namespace of its own with an interface eth1 on a wire. The thread ends with the test.
func wired(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
	run(t, "sysctl -qw net.ipv4.conf.all.arp_ignore=1") // the wire is no host
	ip(t, "link add wire type bridge")
	ip(t, "link set wire up")
	ip(t, "link add eth1 type veth peer name to-eth1")
	ip(t, "link set eth1 up")
	ip(t, "link set to-eth1 master wire up")
}

// ip runs ip in the thread's namespace.
func ip(t *testing.T, args string) { run(t, "ip "+args) }

func run(t *testing.T, command string) {
	t.Helper()
	words := strings.Fields(command)
	if out, err := exec.CommandContext(t.Context(), words[0], words[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
}

// host puts a host with addresses on the wire, and returns its MAC address.
func host(t *testing.T, name, mac string, addresses ...string) string {
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
	ip(t, fmt.Sprintf("link add %s type veth peer name eth0 netns %d", name, cmd.Process.Pid))
	ip(t, "link set "+name+" master wire up")
	inside := fmt.Sprintf("nsenter --net --target %d ip ", cmd.Process.Pid)
	run(t, inside+"link set eth0 address "+mac+" up")
	for _, a := range addresses {
		if strings.Contains(a, ":") {
			a += " nodad"
		}
		run(t, inside+"addr add dev eth0 "+a)
	}
	return mac
}

// said is the answers as lines.
func said(answers []Answer) (out []string) {
	for _, a := range answers {
		line := strings.Join(a.MACs, " ")
		if a.Err != nil {
			line = "error: " + a.Err.Error()
		}
		out = append(out, line)
	}
	return out
}

func compare(t *testing.T, questions []Question, want []string) {
	t.Helper()
	begun := time.Now()
	got := said(Neighbours(t.Context(), questions))
	if took := time.Since(begun); took > 2*takes {
		t.Errorf("it took %v", took)
	}
	for i, q := range questions {
		if got[i] != want[i] {
			t.Errorf("who has %s on %s, VLAN %d: %q, wanted %q", q.Address, q.Interface, q.VLAN, got[i], want[i])
		}
	}
}

func TestNeighbours(t *testing.T) {
	wired(t)
	a := host(t, "a-host", "02:00:00:00:00:0a", "192.0.2.1/24", "192.0.2.9/24", "2001:db8::1/64", "2001:db8::9/64")
	b := host(t, "b-host", "02:00:00:00:00:0b", "192.0.2.2/24", "192.0.2.9/24", "2001:db8::9/64")
	ip(t, "link add eth2 type veth peer name far2") // stays down
	ask := func(name, address string) Question {
		return Question{Interface: name, Address: netip.MustParseAddr(address)}
	}
	questions := []Question{
		ask("eth1", "192.0.2.1"), ask("eth1", "192.0.2.2"), ask("eth1", "192.0.2.9"), ask("eth1", "192.0.2.77"),
		ask("eth1", "2001:db8::1"), ask("eth1", "2001:db8::9"), ask("eth1", "2001:db8::77"), ask("eth1", "192.0.2.1"),
		ask("eth7", "192.0.2.1"), ask("eth2", "192.0.2.1"), ask("lo", "127.0.0.1"),
	}
	want := []string{
		a, b, a + " " + b, "", a, a + " " + b, "", a,
		"error: there is no interface eth7 on this node", "error: ask on eth2: it is down", "error: lo is no Ethernet interface",
	}
	compare(t, questions, want)
	ip(t, "link add switch type bridge") // which takes what comes in by its ports, as an Open vSwitch does
	ip(t, "link set switch up")
	ip(t, "link set eth1 master switch")
	compare(t, questions, want)

	ip(t, "addr add 192.0.2.50/24 dev eth1") // the node itself has it, and is not asked
	ip(t, "addr add 192.0.2.2/24 dev eth1")
	compare(t, []Question{ask("eth1", "192.0.2.50"), ask("eth1", "192.0.2.2")}, []string{"", b})
}

// A question with a tag is answered by who is in that VLAN, and a question without by nobody there.
func TestNeighboursInVLANs(t *testing.T) {
	wired(t)
	ip(t, "link add far type veth peer name to-far")
	ip(t, "link set to-far master wire up")
	ip(t, "link set far up")
	far, err := open("far")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(far.close)
	go answer(far, map[key]key{ // what is asked, and what is said then
		{7, netip.MustParseAddr("192.0.2.1")}: {7, netip.MustParseAddr("192.0.2.1")},
		{8, netip.MustParseAddr("192.0.2.1")}: {9, netip.MustParseAddr("192.0.2.1")},
		{7, netip.MustParseAddr("192.0.2.2")}: {0, netip.MustParseAddr("192.0.2.2")},
	})
	var questions []Question
	for _, q := range []struct {
		vlan    uint16
		address string
	}{{7, "192.0.2.1"}, {8, "192.0.2.1"}, {0, "192.0.2.1"}, {7, "192.0.2.2"}, {0, "192.0.2.2"}} {
		questions = append(questions, Question{"eth1", q.vlan, netip.MustParseAddr(q.address)})
	}
	compare(t, questions, []string{far.mac.String(), "", "", "", far.mac.String()})
}

// answer answers ARP requests with a tag by replies with a tag.
func answer(far *socket, says map[key]key) {
	raw, err := far.file.SyscallConn()
	if err != nil {
		return
	}
	frame, oob := make([]byte, longest), make([]byte, 256)
	for {
		var more int
		if raw.Read(func(fd uintptr) bool {
			_, more, _, _, err = unix.Recvmsg(int(fd), frame, oob, 0)
			return err == nil
		}) != nil {
			return
		}
		asked := key{tag(oob[:more]), netip.AddrFrom4([4]byte(frame[38:42]))}
		if reply, known := says[asked]; known && kind(frame) == unix.ETH_P_ARP {
			_ = far.send(replyTo(net.HardwareAddr(frame[6:12]), far.mac, reply))
		}
	}
}

func replyTo(to, from net.HardwareAddr, k key) []byte {
	out := append(append([]byte{}, to...), from...)
	if k.vlan != 0 {
		out = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(out, unix.ETH_P_8021Q), k.vlan)
	}
	out = append(binary.BigEndian.AppendUint16(out, unix.ETH_P_ARP), 0, 1, 8, 0, 6, 4, 0, 2)
	out = append(append(out, from...), k.address.AsSlice()...)
	return append(append(out, to...), 0, 0, 0, 0)
}

// What is no answer is none, however short it is.
func TestClaim(t *testing.T) {
	advertised := frame(net.HardwareAddr{2, 0, 0, 0, 0, 1}, key{0, netip.MustParseAddr("2001:db8::1")})
	advertised[icmpAt] = advertisement
	for cut := range advertised {
		if _, _, ok := claim(advertised[:cut]); ok && cut < optionsAt {
			t.Errorf("%d bytes of an advertisement count", cut)
		}
	}
	if a, mac, ok := claim(advertised); !ok || a.String() != "2001:db8::1" || mac.String() != "02:00:00:00:00:01" {
		t.Errorf("an advertisement without options says %v, %v, %t", a, mac, ok)
	}
	for name, change := range map[string]func(frame []byte){
		"a solicitation": func(f []byte) { f[icmpAt] = solicitation },
		"one from afar":  func(f []byte) { f[hopLimitAt] = 254 },
		"UDP":            func(f []byte) { f[nextAt] = unix.IPPROTO_UDP },
		"IPv4":           func(f []byte) { binary.BigEndian.PutUint16(f[typeAt:], unix.ETH_P_IP) },
	} {
		other := append([]byte{}, advertised...)
		change(other)
		if _, _, ok := claim(other); ok {
			t.Errorf("%s counts", name)
		}
	}
}
