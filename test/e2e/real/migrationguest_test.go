package real

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sallyport/sallyport/internal/lab/kubelet"
	vm "github.com/sallyport/sallyport/internal/lab/machine"
	"github.com/sallyport/sallyport/internal/lab/netns"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// hypervisor is a QEMU process in the namespace of a pod, as in KubeVirt's virt-launcher.
type hypervisor struct {
	pod, process, dir string
}

const (
	guestBridge, guestTap = "k6t-eth0", "tap0" // KubeVirt's names
	guestMTU              = 1400
	guestMemory           = "160M"
)

// startHypervisor connects a pod's interface to a tap device by a bridge, as KubeVirt's bridge binding does, and starts QEMU
// there: it boots the guest, or waits for one that is sent to its socket.
func (f *migrationFixture) startHypervisor(t *testing.T, pod string, incoming bool) *hypervisor {
	t.Helper()
	ctx := harness.Within(t, harness.Patience)
	p, err := f.Client.CoreV1().Pods(f.namespace).Get(ctx, pod, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	attached, err := kubelet.Attachments(p)
	if err != nil {
		t.Fatal(err)
	}
	name := pod + "." + f.namespace
	f.bridgeInterface(t, name)
	h := &hypervisor{pod: pod, process: "qemu-" + pod, dir: shortDir(t)}
	job := vm.Job{
		Kernel: vm.Kernels()[1], Program: f.guest, Modules: []string{"virtio_pci", "virtio_net"}, Memory: guestMemory,
		Args:       []string{attached[0].Addresses[0].String(), attached[0].Routes[0].Via.String(), fmt.Sprint(guestMTU), harness.InternetAddress},
		Interfaces: []vm.Interface{{Tap: guestTap, MAC: attached[0].MAC}},
	}
	argv, err := f.kit.Command(ctx, h.dir, job)
	if err != nil {
		t.Fatal(err)
	}
	argv = append(argv, "-monitor", "unix:"+h.monitor()+",server=on,wait=off")
	if incoming {
		argv = append(argv, "-incoming", "unix:"+h.socket())
	}
	argv = append([]string{"nsenter", "--net=" + filepath.Join(netns.Dir, name)}, argv...)
	if err := f.Run(ctx, h.process, argv...); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "QEMU of "+pod+" answers", func() bool {
		_, err := h.tell("info status")
		return err == nil
	})
	return h
}

// shortDir makes a directory whose path leaves room for the name of a socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "vm")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// bridgeInterface moves the pod's address to whoever is behind the tap device.
func (f *migrationFixture) bridgeInterface(t *testing.T, name string) {
	t.Helper()
	ns := f.NS(name)
	if err := ns.Bridge(guestBridge, guestMTU); err != nil {
		t.Fatal(err)
	}
	for _, argv := range [][]string{
		{"ip", "address", "flush", "dev", "eth0"},
		{"ip", "link", "set", "eth0", "down"},
		{"ip", "link", "set", "eth0", "address", "02:00:00:00:00:01"},
		{"ip", "link", "set", "eth0", "master", guestBridge},
		{"ip", "link", "set", "eth0", "up"},
	} {
		if err := harness.RunInNetns(ns, argv...); err != nil {
			t.Fatal(err)
		}
	}
	if err := ns.Tap(guestTap, guestBridge, guestMTU); err != nil {
		t.Fatal(err)
	}
}

func (h *hypervisor) monitor() string { return filepath.Join(h.dir, "monitor") }
func (h *hypervisor) socket() string  { return filepath.Join(h.dir, "incoming") }

// tell sends a command to QEMU's monitor and returns its answer.
func (h *hypervisor) tell(command string) (string, error) {
	conn, err := net.DialTimeout("unix", h.monitor(), 5*time.Second)
	if err != nil {
		return "", err
	}
	defer conn.Close() //nolint:errcheck // everything was read
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		return "", err
	}
	const prompt = "(qemu) "
	in := bufio.NewReader(conn)
	if _, err := readUntil(in, prompt); err != nil {
		return "", err
	}
	if _, err := fmt.Fprintln(conn, command); err != nil {
		return "", err
	}
	return readUntil(in, prompt)
}

func readUntil(in *bufio.Reader, end string) (string, error) {
	var out strings.Builder
	for !strings.HasSuffix(out.String(), end) {
		b, err := in.ReadByte()
		if err != nil {
			return out.String(), err
		}
		out.WriteByte(b)
	}
	return out.String(), nil
}

// receiver is the host outside that the guest sends to.
type receiver struct {
	mu          sync.Mutex
	connections int
	from        netip.Addr
	last        time.Time
	longest     time.Duration
	opened      int // by the guest, besides
	failed      int
}

// startReceiver accepts the guest's connection on the internet host.
func (f *migrationFixture) startReceiver(t *testing.T) *receiver {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	l, err := f.NS("internet").Listen(ctx, "tcp", net.JoinHostPort(harness.InternetAddress, "9500"))
	if err != nil {
		t.Fatal(err)
	}
	context.AfterFunc(ctx, func() { _ = l.Close() })
	r := &receiver{}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go r.read(conn)
		}
	}()
	return r
}

func (r *receiver) read(conn net.Conn) {
	defer conn.Close() //nolint:errcheck // it is only read
	r.mu.Lock()
	r.connections++
	r.from = netip.MustParseAddrPort(conn.RemoteAddr().String()).Addr()
	r.mu.Unlock()
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		r.mu.Lock()
		if now := time.Now(); !r.last.IsZero() {
			r.longest, r.last = max(r.longest, now.Sub(r.last)), now
		} else {
			r.last = now
		}
		_, _ = fmt.Sscan(lines.Text(), &r.opened, &r.failed)
		r.mu.Unlock()
	}
}

// received is what a receiver has seen.
type received struct {
	connections, opened, failed int
	from                        netip.Addr
	longest                     time.Duration
}

// read returns what was seen since the last reset.
func (r *receiver) seen() received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return received{r.connections, r.opened, r.failed, r.from, max(r.longest, time.Since(r.last))}
}

func (r *receiver) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.longest = 0
}

func (r *receiver) hasLines() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.last.IsZero() && time.Since(r.last) < time.Second
}
