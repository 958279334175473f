package loadbalancer

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// showOneSocket shows that a UDP socket that sends before there is a backend gets answers from the first one, from the
// one that replaces it on the same node, and from one at another port.
func showOneSocket(t *testing.T, h *harness.BackendProject) string {
	w := harness.ServiceSpec{Name: "socket", Selector: "{socket: 'yes'}", Ports: "[{port: 80, protocol: UDP}]"}
	address := h.CreateService(t, w)
	conn, err := h.NS("internet").Dial(harness.Within(t, harness.Patience), "udp", address+":80")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // the test is over
	if who := harness.AskBackendName(conn); who != "" {
		t.Errorf("without a backend %s answers", who)
	}
	h.RunServerPod(t, "s1", "socket: 'yes'", "", "")
	waitAnswerFrom(t, conn, "s1")
	h.RunServerPod(t, "s2", "socket: 'yes'", "", "")
	h.DeleteAndWait(t, "Pod", h.Namespace, "s1")
	waitAnswerFrom(t, conn, "s2")
	h.RunServerPod(t, "s3", "socket: 'yes'", "", `, env: [{name: PORTS, value: "8080"}]`)
	h.DeleteAndWait(t, "Pod", h.Namespace, "s2")
	waitBackends(t, h, "socket-udp", 1)
	for range 3 {
		if who := harness.AskBackendName(conn); who != "" {
			t.Errorf("%s answers on a port that it does not listen on", who)
		}
	}
	w.Ports = "[{port: 80, targetPort: 8080, protocol: UDP}]"
	changeService(t, h, w)
	waitAnswerFrom(t, conn, "s3")
	return "one socket hears three pods one after the other, the last at another port"
}

// waitAnswerFrom waits until the named backend answers on a socket.
func waitAnswerFrom(t *testing.T, conn net.Conn, name string) {
	t.Helper()
	harness.Eventually(t, name+" answers", func() bool { return harness.AskBackendName(conn) == name })
}

// showLarge shows that messages larger than one packet arrive complete, in both directions.
func showLarge(t *testing.T, h *harness.BackendProject) string {
	const size = 6000
	address := h.CreateService(t, harness.ServiceSpec{Name: "large"})
	line := strings.Repeat("x", size) + "\n"
	for _, where := range []string{"internet", "cli." + h.Namespace} {
		h.Download(t, where, address, 4)
		conn, err := h.NS(where).Dial(harness.Within(t, harness.Patience), "tcp", address+":80")
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(harness.AnswerTimeout))
		_, _ = conn.Write([]byte(line))
		if n, err := conn.Read(make([]byte, size)); err != nil {
			t.Errorf("%s → %s: %d bytes came back (%v)", where, address, n, err)
		}
		_ = conn.Close()
	}
	return fmt.Sprintf("lines of %d bytes, answers of 4 MiB, from outside and from inside", size)
}

// showAgain shows that a recreated Service works, that other Services with their own addresses are not affected, and
// that a wrong address in the status is corrected.
func showAgain(t *testing.T, h *harness.BackendProject) string {
	other := h.CreateService(t, harness.ServiceSpec{Name: "other"})
	first := h.CreateService(t, harness.ServiceSpec{Name: "again"})
	h.ExpectBackends(t, "internet", "http://"+first, harness.InternetAddress, "b1", "b2", "b3")
	h.DeleteAndWait(t, "Service", h.Namespace, "again")
	harness.Eventually(t, "its row goes", func() bool { return balancerVIPs(t, h, "again-tcp") == "" })
	h.SyncFlows(t)
	h.ExpectSilence(t, "internet", "http://"+first)
	second := h.CreateService(t, harness.ServiceSpec{Name: "again"})
	h.ExpectBackends(t, "internet", "http://"+second, harness.InternetAddress, "b1", "b2", "b3")
	h.ExpectBackends(t, "internet", "http://"+other, harness.InternetAddress, "b1", "b2", "b3")
	if other == first || other == second {
		t.Errorf("two Services have %s, others %s and %s", other, first, second)
	}
	h.Apply(t, fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: again, namespace: %s}
spec: {type: LoadBalancer, selector: %s, ports: %s}
status: {loadBalancer: {ingress: [{ip: 192.0.2.1}]}}`, h.Namespace, harness.BackendSelector, harness.HTTPPort))
	right := fmt.Sprintf("map[ingress:[map[ip:%s ipMode:VIP]]]", second)
	took := harness.Eventually(t, "the status is right again", func() bool {
		return h.ReadField(t, "Service", h.Namespace, "again", "status", "loadBalancer") == right
	})
	return fmt.Sprintf("made twice beside another; a wrong status was right after %s", took.Round(10*time.Millisecond))
}

// showWhileAway shows that a Service that is deleted while the controller is down leaves nothing behind. No finalizer
// blocks its deletion.
func showWhileAway(t *testing.T, h *harness.BackendProject) string {
	address := h.CreateService(t, harness.ServiceSpec{Name: "away"})
	h.ExpectBackends(t, "internet", "http://"+address, harness.InternetAddress, "b1", "b2", "b3")
	harness.SharedController.Stop(syscall.SIGKILL)
	h.DeleteAndWait(t, "Service", h.Namespace, "away")
	// the controller was not running to delete the row
	h.ExpectBackends(t, "internet", "http://"+address, harness.InternetAddress, "b1", "b2", "b3")
	harness.SharedController.Start(t)
	took := harness.Eventually(t, "rows go", func() bool { return balancerVIPs(t, h, "away-tcp") == "" })
	harness.Eventually(t, "objects go", func() bool {
		return h.ReadField(t, "Service", h.Namespace, "away-ext", "metadata", "name") == ""
	})
	h.SyncFlows(t)
	h.ExpectSilence(t, "internet", "http://"+address)
	return fmt.Sprintf("nothing is left %s after the controller's start", took.Round(10*time.Millisecond))
}

// showWithoutAPI shows that load balancers continue without an API server, and that new ones work when it is back.
func showWithoutAPI(t *testing.T, h *harness.BackendProject) string {
	address := h.CreateService(t, harness.ServiceSpec{Name: "lasts"})
	h.ControlLab(t, "pause", "kube-controller-manager") // see restartAPI
	h.ControlLab(t, "kill", "kube-apiserver")
	h.ExpectBackends(t, "internet", "http://"+address, harness.InternetAddress, "b1", "b2", "b3")
	h.ControlLab(t, "start", "kube-apiserver")
	harness.Eventually(t, "the API server is back", func() bool {
		return h.Client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(harness.Within(t,
			time.Second)).Error() == nil
	})
	h.ControlLab(t, "resume", "kube-controller-manager")
	next := h.CreateService(t, harness.ServiceSpec{Name: "comes"})
	// the endpoint controller has only just been resumed
	h.WaitForObject(t, "Service", h.Namespace, "comes", manifest.True("HasEndpoints"))
	h.ExpectBackends(t, "internet", "http://"+next, harness.InternetAddress, "b1", "b2", "b3")
	h.ExpectBackends(t, "internet", "http://"+address, harness.InternetAddress, "b1", "b2", "b3")
	if next == address {
		t.Errorf("two Services have the address %s", address)
	}
	return "answers while the API server is away; a new one comes after it"
}

// showStrays shows that a packet of the server outside the connection's window does not reach the client with the
// server's own address: the client would reset the connection.
func showStrays(t *testing.T, h *harness.BackendProject) string {
	address := h.CreateService(t, harness.ServiceSpec{Name: "window", Selector: "{app: b1}"})
	b1 := h.NS("b1." + h.Namespace)
	var resets atomic.Int32
	h.CaptureFrames(t, "b1."+h.Namespace, "eth0", unix.ETH_P_IP, func(b []byte, own bool) {
		if !own && len(b) > 47 && b[23] == unix.IPPROTO_TCP && b[47]&harness.Rst != 0 {
			resets.Add(1)
		}
	})
	router, err := net.ParseMAC(h.RunNbctl(t, "--bare", "--columns=mac", "find", "Logical_Router_Port",
		"name="+h.Namespace+"-"+h.Namespace+"-default"))
	if err != nil {
		t.Fatal(err)
	}
	stray := harness.Frame{
		From:     harness.HardwareAddress(t, b1),
		Source:   netip.MustParseAddrPort(h.Pods["b1"] + ":80"),
		Protocol: unix.IPPROTO_TCP,
		Flags:    harness.Ack,
		Text:     "stray",
	}
	for where, next := range map[string]net.HardwareAddr{"cli." + h.Namespace: harness.HardwareAddress(t,
		h.NS("cli."+h.Namespace)), "internet": router} {
		resets.Store(0)
		stray.To = next
		injectStrays(t, h, where, address, stray)
		if n := resets.Load(); n > 0 {
			t.Errorf("%s has sent %d resets", where, n)
		}
	}
	// to a host without a connection
	stray.To, stray.Target = harness.HardwareAddress(t, h.NS("cli."+h.Namespace)),
		netip.MustParseAddrPort(h.Pods["cli"]+":9")
	if err := harness.InjectFrame(b1, stray.Bytes()); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "control: a packet of no connection is reset", func() bool { return resets.Load() > 0 })
	return "five packets outside the window, to a pod and to outside; no reset, the connections go on"
}

// injectStrays opens a connection to b1 behind an address and injects packets of b1 that do not belong to it.
func injectStrays(t *testing.T, h *harness.BackendProject, where, address string, stray harness.Frame) {
	t.Helper()
	conn, err := h.NS(where).Dial(harness.Within(t, harness.Patience), "tcp", address+":80")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // the test is over
	stray.Target = netip.MustParseAddrPort(conn.LocalAddr().String())
	for range 5 {
		if who := harness.AskBackendName(conn); who != "b1" {
			t.Errorf("%s: %q answers", where, who)
		}
		if err := harness.InjectFrame(h.NS("b1."+h.Namespace), stray.Bytes()); err != nil {
			t.Fatal(err)
		}
	}
	if who := harness.AskBackendName(conn); who != "b1" {
		t.Errorf("%s: after stray packets %q answers", where, who)
	}
}
