package e2e

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
)

// oneSocket: a UDP socket that sends before there is a backend hears the first one, the one that replaces it on the same node, and
// one that is reached at another port.
func (h *hall) oneSocket(t *testing.T) string {
	w := wish{name: "socket", selector: "{socket: 'yes'}", ports: "[{port: 80, protocol: UDP}]"}
	address := h.serve(t, w)
	conn, err := h.NS("internet").Dial(within(t, time.Minute), "udp", address+":80")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // the test is over
	if who := whoAnswers(conn); who != "" {
		t.Errorf("without a backend %s answers", who)
	}
	h.server(t, "s1", "socket: 'yes'", "", "")
	hears(t, conn, "s1")
	h.server(t, "s2", "socket: 'yes'", "", "")
	h.remove(t, "Pod", h.ns, "s1")
	hears(t, conn, "s2")
	h.server(t, "s3", "socket: 'yes'", "", `, env: [{name: PORTS, value: "8080"}]`)
	h.remove(t, "Pod", h.ns, "s2")
	h.backed(t, "socket-udp", 1)
	for range 3 {
		if who := whoAnswers(conn); who != "" {
			t.Errorf("%s answers on a port that it does not listen on", who)
		}
	}
	w.ports = "[{port: 80, targetPort: 8080, protocol: UDP}]"
	h.becomes(t, w)
	hears(t, conn, "s3")
	return "one socket hears three pods one after the other, the last at another port"
}

// hears waits until a name answers on a socket.
func hears(t *testing.T, conn net.Conn, name string) {
	t.Helper()
	eventually(t, name+" answers", func() bool { return whoAnswers(conn) == name })
}

// large: what does not fit into one packet arrives whole, both ways.
func (h *hall) large(t *testing.T) string {
	const size = 6000
	address := h.serve(t, wish{name: "large"})
	line := strings.Repeat("x", size) + "\n"
	for _, where := range []string{"internet", "cli." + h.ns} {
		h.download(t, where, address, 4)
		conn, err := h.NS(where).Dial(within(t, time.Minute), "tcp", address+":80")
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(patience))
		_, _ = conn.Write([]byte(line))
		if n, err := conn.Read(make([]byte, size)); err != nil {
			t.Errorf("%s → %s: %d bytes came back (%v)", where, address, n, err)
		}
		_ = conn.Close()
	}
	return fmt.Sprintf("lines of %d bytes, answers of 4 MiB, from outside and from inside", size)
}

// again: a Service that is deleted and made again works, others have addresses of their own and notice nothing, and a wrong address
// that somebody writes into the status is put right.
func (h *hall) again(t *testing.T) string {
	other := h.serve(t, wish{name: "other"})
	first := h.serve(t, wish{name: "again"})
	h.spread(t, "internet", "http://"+first, theInternet, "b1", "b2", "b3")
	h.remove(t, "Service", h.ns, "again")
	eventually(t, "its row goes", func() bool { return h.vips(t, "again-tcp") == "" })
	h.sync(t)
	h.silent(t, "internet", "http://"+first)
	second := h.serve(t, wish{name: "again"})
	h.spread(t, "internet", "http://"+second, theInternet, "b1", "b2", "b3")
	h.spread(t, "internet", "http://"+other, theInternet, "b1", "b2", "b3")
	if other == first || other == second {
		t.Errorf("two Services have %s, others %s and %s", other, first, second)
	}
	h.apply(t, fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: again, namespace: %s}
spec: {type: LoadBalancer, selector: %s, ports: %s}
status: {loadBalancer: {ingress: [{ip: 192.0.2.1}]}}`, h.ns, backends, web))
	right := fmt.Sprintf("map[ingress:[map[ip:%s ipMode:VIP]]]", second)
	took := eventually(t, "the status is right again", func() bool { return h.field(t, "Service", h.ns, "again", "status", "loadBalancer") == right })
	return fmt.Sprintf("made twice beside another; a wrong status was right after %s", took.Round(10*time.Millisecond))
}

// whileAway: a Service that is deleted while nobody looks leaves nothing either. It has no finalizer that would keep it.
func (h *hall) whileAway(t *testing.T) string {
	address := h.serve(t, wish{name: "away"})
	h.spread(t, "internet", "http://"+address, theInternet, "b1", "b2", "b3")
	sharedController.stop(syscall.SIGKILL)
	h.remove(t, "Service", h.ns, "away")
	h.spread(t, "internet", "http://"+address, theInternet, "b1", "b2", "b3") // nobody was there to take it away
	sharedController.start(t)
	took := eventually(t, "rows go", func() bool { return h.vips(t, "away-tcp") == "" })
	eventually(t, "objects go", func() bool { return h.field(t, "Service", h.ns, "away-ext", "metadata", "name") == "" })
	h.sync(t)
	h.silent(t, "internet", "http://"+address)
	return fmt.Sprintf("nothing is left %s after the controller's start", took.Round(10*time.Millisecond))
}

// withoutAPI: without an API server load balancers go on, and with it again new ones come.
func (h *hall) withoutAPI(t *testing.T) string {
	address := h.serve(t, wish{name: "lasts"})
	h.order(t, "pause", "kube-controller-manager") // see restartAPI
	h.order(t, "kill", "kube-apiserver")
	h.spread(t, "internet", "http://"+address, theInternet, "b1", "b2", "b3")
	h.order(t, "start", "kube-apiserver")
	eventually(t, "the API server is back", func() bool {
		return h.client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(within(t, time.Second)).Error() == nil
	})
	h.order(t, "resume", "kube-controller-manager")
	next := h.serve(t, wish{name: "comes"})
	h.wait(t, "Service", h.ns, "comes", manifest.True("HasEndpoints")) // whoever finds them has just come back
	h.spread(t, "internet", "http://"+next, theInternet, "b1", "b2", "b3")
	h.spread(t, "internet", "http://"+address, theInternet, "b1", "b2", "b3")
	if next == address {
		t.Errorf("two Services have the address %s", address)
	}
	return "answers while the API server is away; a new one comes after it"
}

// strays: a packet of the server that is outside the connection's window must not reach the client with the server's own address:
// the client would reset the connection.
func (h *hall) strays(t *testing.T) string {
	address := h.serve(t, wish{name: "window", selector: "{app: b1}"})
	b1 := h.NS("b1." + h.ns)
	var resets atomic.Int32
	h.sniff(t, "b1."+h.ns, "eth0", unix.ETH_P_IP, func(b []byte, own bool) {
		if !own && len(b) > 47 && b[23] == unix.IPPROTO_TCP && b[47]&rst != 0 {
			resets.Add(1)
		}
	})
	router, err := net.ParseMAC(h.nbctl(t, "--bare", "--columns=mac", "find", "Logical_Router_Port", "name="+h.ns+"-"+h.ns+"-default"))
	if err != nil {
		t.Fatal(err)
	}
	stray := frame{from: hardware(t, b1), source: netip.MustParseAddrPort(h.pods["b1"] + ":80"), protocol: unix.IPPROTO_TCP, flags: ack, text: "stray"}
	for where, next := range map[string]net.HardwareAddr{"cli." + h.ns: hardware(t, h.NS("cli."+h.ns)), "internet": router} {
		resets.Store(0)
		stray.to = next
		h.disturb(t, where, address, stray)
		if n := resets.Load(); n > 0 {
			t.Errorf("%s has sent %d resets", where, n)
		}
	}
	stray.to, stray.target = hardware(t, h.NS("cli."+h.ns)), netip.MustParseAddrPort(h.pods["cli"]+":9") // where no connection is
	if err := inject(b1, stray.bytes()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "control: a packet of no connection is reset", func() bool { return resets.Load() > 0 })
	return "five packets outside the window, to a pod and to outside; no reset, the connections go on"
}

// disturb makes a connection to b1 behind an address, and sends packets of b1 into it that are not of it.
func (h *hall) disturb(t *testing.T, where, address string, stray frame) {
	t.Helper()
	conn, err := h.NS(where).Dial(within(t, time.Minute), "tcp", address+":80")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // the test is over
	stray.target = netip.MustParseAddrPort(conn.LocalAddr().String())
	for range 5 {
		if who := whoAnswers(conn); who != "b1" {
			t.Errorf("%s: %q answers", where, who)
		}
		if err := inject(h.NS("b1."+h.ns), stray.bytes()); err != nil {
			t.Fatal(err)
		}
	}
	if who := whoAnswers(conn); who != "b1" {
		t.Errorf("%s: after stray packets %q answers", where, who)
	}
}
