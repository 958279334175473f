package view

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sallyport/sallyport/internal/insight/diagnosis"
	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// labAction sends a command about a process or node to the lab, and the opposite one at the end of the test.
func labAction(order, back, target string) func(*faultFixture, *testing.T) {
	return func(w *faultFixture, t *testing.T) {
		t.Cleanup(func() { w.ControlLab(t, back, target) })
		w.ControlLab(t, order, target)
	}
}

// inSequence runs functions one after the other.
func inSequence(deeds ...func(*faultFixture, *testing.T)) func(*faultFixture, *testing.T) {
	return func(w *faultFixture, t *testing.T) {
		for _, do := range deeds {
			do(w, t)
		}
	}
}

// runAt runs a command in the network namespace of a node or host, and another one at the end of the test.
func runAt(where, command, back string) func(*faultFixture, *testing.T) {
	return func(w *faultFixture, t *testing.T) {
		where := strings.ReplaceAll(where, "{holder}", w.gatewayNode(t))
		w.runShell(t, where, command)
		if back != "" {
			t.Cleanup(func() { w.runShell(t, where, back) })
		}
	}
}

// runShell runs a command in the network namespace of a node or host.
func (w *faultFixture) runShell(t *testing.T, where, command string) {
	t.Helper()
	if err := harness.RunInNetns(w.NS(where), "sh", "-c", command); err != nil {
		t.Fatalf("%s: %s: %v", where, command, err)
	}
}

// gatewayNode returns the node that holds the lab's gateway on the network of its addresses.
func (w *faultFixture) gatewayNode(t *testing.T) string {
	t.Helper()
	return w.ListGateways(t)["cr-hall-ward-ext-public"]
}

// flushMACBindings makes routers resolve addresses again.
func flushMACBindings(w *faultFixture, t *testing.T) {
	w.RunSbctl(t, "--all", "destroy", "mac_binding")
}

// platformFaults are parts of the engine that do not run.
var platformFaults = []fault{
	{
		what: "the controller does not run", command: "explain eip/waits -n hall-ward", wantCode: "ControllerDead",
		wantAbout: "Cluster", inCI: true,
		inject: whileControllerStopped(applyActions(harness.Apply("EIp hall-ward/waits",
			"{externalNetworkType: public}"))),
	},
	{
		what: "Kube-OVN's controller does not run", command: "explain eip/waits -n hall-ward", wantCode: "KubeOVNDead",
		wantAbout: "Cluster",
		inject: inSequence(func(w *faultFixture, t *testing.T) {
			t.Cleanup(func() {
				w.waitKubeOVNRestored(t)
			})
		}, labAction("kill", "start", "kube-ovn-controller"),
			applyActions(harness.Apply("EIp hall-ward/waits", "{externalNetworkType: public}")),
			(*faultFixture).waitLeaseExpired),
	},
	{
		what: "the northbound database can't be reached", command: "trace {out} {shop}:80",
		wantCode: "NorthboundUnreachable", wantAbout: "Cluster",
		inject: labAction("pause", "resume", "ovn-nb1"),
	},
	{
		what: "the southbound database can't be reached", command: "trace {out} {shop}:80",
		wantCode: "SouthboundUnreachable", wantAbout: "Cluster",
		inject: labAction("pause", "resume", "ovn-sb1"),
	},
	{
		what: "northd does not run", command: "trace {out} {shop}:80", wantCode: "NorthdBehind", wantAbout: "Cluster",
		inCI: true, inject: labAction("pause", "resume", "ovn-northd"),
	},
	{
		what: "ovn-controller hangs on the pod's node", command: "trace {out} {shop}:80", wantCode: "ChassisBehind",
		wantAbout: "Node node1",
		inject:    labAction("pause", "resume", "node1-ovn-controller"),
	},
	{
		what: "the switch of the pod's node does not run", from: "internet", target: shopURL,
		command: "trace {out} {shop}:80", wantCode: "SwitchSilent", wantAbout: "Node node1",
		inject: labAction("kill", "start", "node1-vswitchd"),
	},
	{
		what: "the chassis of the pod's node is missing", command: "trace {out} {shop}:80", wantCode: "ChassisMissing",
		wantAbout: "Node node1",
		inject: inSequence(labAction("pause", "resume", "node1-ovn-controller"), func(w *faultFixture, t *testing.T) {
			name := w.RunSbctl(t, "--bare", "--columns=name", "find", "chassis", "hostname=node1")
			w.RunSbctl(t, "chassis-del", name)
		}),
	},
	{
		what: "the agent of a node does not run", command: "doctor", wantCode: "AgentMissing", wantAbout: "Node node1",
		inject: labAction("kill", "start", "node1-sallyport-agent"),
	},
	{
		what: "the pod's node is down", from: "internet", target: shopURL, command: "trace {out} {shop}:80",
		wantCode: "NodeNotReady", wantAbout: "Node node1",
		inject: func(w *faultFixture, t *testing.T) {
			t.Cleanup(func() { w.WaitNodeReady(t, "node1", true); w.ResolveTunnelPeers(t) })
			labAction("cut", "mend", "node1")(w, t)
			w.WaitNodeReady(t, "node1", false)
		},
	},
	{
		what: "the API server can't be reached", command: "explain svc/shop -n hall-ward",
		wantCode: "KubernetesUnreachable", wantAbout: "Cluster",
		inject: (*faultFixture).pauseAPIServer,
	},
}

// nodeFaults are faults of nodes and of the wires outside.
var nodeFaults = []fault{
	{
		what: "the gateway does not answer to ARP", from: "pod/b1", target: internetURL,
		command:  "trace --from pod/b1 -n hall-ward {out}:80",
		wantCode: "GatewaySilent", wantAbout: "Subnet ext-cloud", inCI: true,
		inject: inSequence(runAt("router-ext-cloud", "sysctl -qw net.ipv4.conf.lan.arp_ignore=8",
			"sysctl -qw net.ipv4.conf.lan.arp_ignore=0"), flushMACBindings),
	},
	{
		what: "the gateway has another address", from: "internet", target: shopURL, command: "trace {out} {shop}:80",
		wantCode: "GatewaySilent", wantAbout: "Subnet ext-public",
		inject: inSequence(runAt("router-ext-public",
			"ip addr add 91.224.11.2/24 dev lan; ip addr del 91.224.11.1/24 dev lan",
			"ip addr add 91.224.11.1/24 dev lan; ip addr del 91.224.11.2/24 dev lan; ip route replace 91.224.11.0/24 dev lan"), flushMACBindings),
	},
	{
		what: "somebody on the wire has the address, too", command: "trace {out} {shop}:80",
		wantCode: "AddressDuplicate", wantAbout: "EIp hall-ward/shop", inCI: true,
		// it may have learnt the other owner of the address
		inject: inSequence(runAt("router-ext-public", "true", "ip neigh flush dev lan"),
			runAt("host-ext-public", "ip addr add "+shopAddress+"/32 dev eth0",
				"ip addr del "+shopAddress+"/32 dev eth0")),
	},
	{
		what: "the gateway node's interface is down", from: "internet", target: shopURL,
		command: "trace {out} {shop}:80", wantCode: "LinkDown", wantAbout: "Node {holder}",
		inject: runAt("{holder}", "ip link set ext-public down", "ip link set ext-public up"),
	},
	{
		what: "the wire takes only small packets", command: "trace {out} {shop}:80", wantCode: "MTUTooSmall",
		wantAbout: "Node {holder}",
		inject:    runAt("{holder}", "ip link set ext-public mtu 1300", "ip link set ext-public mtu 1500"),
	},
	{
		what: "tunnels take only small packets", command: "trace {out} {shop}:80", wantCode: "MTUTooSmall",
		wantAbout: "Node node1",
		inject: runAt("node1", "ip link set ul0 mtu 1400; ip link set br-phy mtu 1400",
			"ip link set ul0 mtu 2000; ip link set br-phy mtu 2000"),
	},
	{
		what: "a node answers by another uplink than it was asked on", from: "client-uplink-b",
		target: "http://{node}/", command: "trace {peer} {node}:80",
		wantCode: "AsymmetricRoute", wantAbout: "Node node1", inCI: true,
		inject: runAt("node1", "ip rule add pref 5 lookup main", "ip rule del pref 5 lookup main"),
	},
	{
		what: "a program sets rp_filter of a node's uplink again and again", from: "client-uplink-b",
		target:  "http://{node}/",
		command: "trace {peer} {node}:80", wantCode: "RPFilterStrict", wantAbout: "Node node1",
		inject: (*faultFixture).keepStrictRPFilter,
	},
	{
		what: "the ports of the way out are used up", from: "pod/b1", target: "udp://{out}:80",
		command:  "trace --from pod/b1 -n hall-ward {out}:80 --proto udp",
		wantCode: "SNATExhausted", wantAbout: "EIp hall-ward/default-gw", inject: (*faultFixture).exhaustSNATPorts,
	},
	{
		what: "an old flow goes on to where the address led before", command: "trace {out}:5353 {desk}:80 --proto udp",
		wantCode: "StaleConnection", wantAbout: "FIp hall-ward/desk",
		inject: (*faultFixture).createStaleFlow,
	},
	{
		what: "Open vSwitch of the pod's node tracks no more connections", from: "internet", target: shopURL,
		command: "trace {out} {shop}:80", wantCode: "ConntrackFull", wantAbout: "Node node1",
		inject: func(w *faultFixture, t *testing.T) {
			w.setConntrackLimit(t, "node1", 1)
			t.Cleanup(func() { w.setConntrackLimit(t, "node1", 3_000_000) }) // Open vSwitch's default
		},
	},
}

// setConntrackLimit sets how many connections the Open vSwitch of a node may track.
func (w *faultFixture) setConntrackLimit(t *testing.T, node string, most int) {
	t.Helper()
	w.RunTool(t, "ovs-appctl", "-t", filepath.Join(w.Dir, "data", node, "ovs-vswitchd.ctl"), "dpctl/ct-set-maxconns",
		strconv.Itoa(most))
}

// keepStrictRPFilter sets rp_filter of an uplink again whenever it was corrected.
func (w *faultFixture) keepStrictRPFilter(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	t.Cleanup(func() {
		cancel()
		<-over
		w.runShell(t, "node1", "sysctl -qw net.ipv4.conf.uplink-b.rp_filter=2")
		for _, order := range []string{"kill", "start"} { // otherwise it reports the disturbance for minutes
			w.ControlLab(t, order, "node1-sallyport-agent")
		}
		w.WaitForObject(t, "NodePath", "", "node1", manifest.True("Undisturbed"))
	})
	go func() {
		defer close(over)
		for ; ctx.Err() == nil; <-time.After(20 * time.Millisecond) {
			_ = w.NS("node1").Do(func() error {
				return os.WriteFile("/proc/sys/net/ipv4/conf/uplink-b/rp_filter", []byte("1"), 0)
			})
		}
	}()
}

// waitLeaseExpired waits until the lease of Kube-OVN's controller has expired: before, it may just be slow.
func (w *faultFixture) waitLeaseExpired(t *testing.T) {
	w.waitLease(t, func(l coordinationv1.LeaseSpec) bool {
		lasts := time.Duration(*l.LeaseDurationSeconds) * time.Second
		return time.Since(l.RenewTime.Time) > lasts+lasts/4
	})
}

// waitKubeOVNRestored waits until the restarted controller of Kube-OVN works again.
func (w *faultFixture) waitKubeOVNRestored(t *testing.T) {
	begun := time.Now()
	w.waitLease(t, func(l coordinationv1.LeaseSpec) bool { return l.RenewTime.After(begun) })
}

// waitLease waits until a condition holds for the lease of Kube-OVN's controller. A new holder waits until the previous
// lease has expired.
func (w *faultFixture) waitLease(t *testing.T, holds func(coordinationv1.LeaseSpec) bool) {
	t.Helper()
	for within := time.Now().Add(harness.Patience); time.Now().Before(within); <-time.After(time.Second) {
		l, err := w.Client.CoordinationV1().Leases("kube-system").Get(context.Background(), diagnosis.KubeOVNLease,
			metav1.GetOptions{})
		if err == nil && holds(l.Spec) {
			return
		}
	}
	t.Errorf("the lease of kube-ovn-controller is not as it should be, for %s", harness.Patience)
}

// pauseAPIServer pauses the API server. Controllers that exit because they cannot renew their leases are restarted.
func (w *faultFixture) pauseAPIServer(t *testing.T) {
	t.Cleanup(func() {
		w.ControlLab(t, "resume", "kube-apiserver")
		for _, name := range []string{"kube-controller-manager", "kube-scheduler", "kube-ovn-controller"} {
			_ = w.Order(harness.Within(t, harness.Patience), "kill", name) // it may have exited
			w.ControlLab(t, "start", name)
		}
		w.waitKubeOVNRestored(t)
	})
	w.ControlLab(t, "pause", "kube-apiserver")
}

// exhaustSNATPorts limits the SNAT ports of the default egress, and uses them.
func (w *faultFixture) exhaustSNATPorts(t *testing.T) {
	row := w.RunNbctl(t, "--bare", "--columns=_uuid", "find", "nat", "type=snat", `logical_ip="10.70.0.0/24"`)
	w.RunNbctl(t, "set", "nat", row, "external_port_range=20000-20049")
	t.Cleanup(func() { w.RunNbctl(t, "set", "nat", row, `external_port_range=""`) })
	w.SyncFlows(t)
	for range 60 {
		conn, err := w.NS("b1."+w.Namespace).Dial(harness.Within(t, harness.Patience), "udp", harness.InternetAddress+":80")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if _, err := conn.Write([]byte("hello\n")); err != nil {
			t.Fatal(err)
		}
	}
}

// createStaleFlow lets a client send continuously from one port while the target of the floating IP changes.
func (w *faultFixture) createStaleFlow(t *testing.T) {
	var conn net.Conn
	err := w.NS("internet").Do(func() (err error) {
		from, to := &net.UDPAddr{IP: net.ParseIP(harness.InternetAddress), Port: 5353},
			&net.UDPAddr{IP: net.ParseIP(deskAddress), Port: 80}
		conn, err = net.DialUDP("udp", from, to)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if who := harness.AskBackendName(conn); who != "b2" {
		t.Fatalf("b2 has the address, and %q answers", who)
	}
	w.CreateFIP(w.parent, w.Namespace, "desk", "{podTarget: {podName: b1}, eip: desk}")
	t.Cleanup(func() { w.CreateFIP(w.parent, w.Namespace, "desk", "{podTarget: {podName: b2}, eip: desk}") })
	if who := harness.AskBackendName(conn); who == "b1" {
		t.Fatal("the flow has followed to b1 by itself")
	}
}
