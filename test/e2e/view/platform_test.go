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

	"github.com/sallyport/sallyport/internal/diagnosis"
	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// orders gives an order to a process or node, and the opposite one at the end.
func orders(order, back, target string) func(*faultLab, *testing.T) {
	return func(w *faultLab, t *testing.T) {
		t.Cleanup(func() { w.GiveOrder(t, back, target) })
		w.GiveOrder(t, order, target)
	}
}

// then does one thing after the other.
func then(deeds ...func(*faultLab, *testing.T)) func(*faultLab, *testing.T) {
	return func(w *faultLab, t *testing.T) {
		for _, do := range deeds {
			do(w, t)
		}
	}
}

// at runs a command in the network of a node or host, and another at the end.
func at(where, command, back string) func(*faultLab, *testing.T) {
	return func(w *faultLab, t *testing.T) {
		where := strings.ReplaceAll(where, "{holder}", w.holder(t))
		w.inside(t, where, command)
		if back != "" {
			t.Cleanup(func() { w.inside(t, where, back) })
		}
	}
}

// inside runs a command in the network of a node or host.
func (w *faultLab) inside(t *testing.T, where, command string) {
	t.Helper()
	if err := harness.InNamespace(w.NS(where), "sh", "-c", command); err != nil {
		t.Fatalf("%s: %s: %v", where, command, err)
	}
}

// holder is the node that holds the lab's gateway on the network of its addresses.
func (w *faultLab) holder(t *testing.T) string {
	t.Helper()
	chassis := w.RunSbctl(t, "--bare", "--columns=chassis", "find", "port_binding", "logical_port=cr-hall-ward-ext-public")
	return w.RunSbctl(t, "--bare", "--columns=hostname", "list", "chassis", chassis)
}

// forget lets routers ask again for the addresses of others.
func forget(w *faultLab, t *testing.T) { w.RunSbctl(t, "--all", "destroy", "mac_binding") }

// faultsOfPlatform are parts of the engine that do not run.
var faultsOfPlatform = []fault{
	{
		what: "the controller does not run", types: "explain eip/waits -n hall-ward", cause: "ControllerDead", about: "Cluster", sample: true,
		inject: unattended(does(harness.Apply("EIp hall-ward/waits", "{externalNetworkType: public}"))),
	},
	{
		what: "Kube-OVN's controller does not run", types: "explain eip/waits -n hall-ward", cause: "KubeOVNDead", about: "Cluster",
		inject: then(func(w *faultLab, t *testing.T) { t.Cleanup(func() { w.restored(t) }) }, orders("kill", "start", "kube-ovn-controller"),
			does(harness.Apply("EIp hall-ward/waits", "{externalNetworkType: public}")), (*faultLab).leaseEnds),
	},
	{
		what: "the northbound database can't be reached", types: "trace {out} {shop}:80", cause: "NorthboundUnreachable", about: "Cluster",
		inject: orders("pause", "resume", "ovn-nb1"),
	},
	{
		what: "the southbound database can't be reached", types: "trace {out} {shop}:80", cause: "SouthboundUnreachable", about: "Cluster",
		inject: orders("pause", "resume", "ovn-sb1"),
	},
	{
		what: "northd does not run", types: "trace {out} {shop}:80", cause: "NorthdBehind", about: "Cluster", sample: true, inject: orders("pause", "resume", "ovn-northd"),
	},
	{
		what: "ovn-controller hangs on the pod's node", types: "trace {out} {shop}:80", cause: "ChassisBehind", about: "Node node1",
		inject: orders("pause", "resume", "node1-ovn-controller"),
	},
	{
		what: "the switch of the pod's node does not run", from: "internet", asks: pinged, types: "trace {out} {shop}:80", cause: "SwitchSilent", about: "Node node1",
		inject: orders("kill", "start", "node1-vswitchd"),
	},
	{
		what: "the chassis of the pod's node is missing", types: "trace {out} {shop}:80", cause: "ChassisMissing", about: "Node node1",
		inject: then(orders("pause", "resume", "node1-ovn-controller"), func(w *faultLab, t *testing.T) {
			name := w.RunSbctl(t, "--bare", "--columns=name", "find", "chassis", "hostname=node1")
			w.RunSbctl(t, "chassis-del", name)
		}),
	},
	{
		what: "the agent of a node does not run", types: "doctor", cause: "AgentMissing", about: "Node node1",
		inject: orders("kill", "start", "node1-sallyport-agent"),
	},
	{
		what: "the pod's node is down", from: "internet", asks: pinged, types: "trace {out} {shop}:80", cause: "NodeNotReady", about: "Node node1",
		inject: func(w *faultLab, t *testing.T) {
			t.Cleanup(func() { w.WaitNode(t, "node1", true); w.WarmUp(t) })
			orders("cut", "mend", "node1")(w, t)
			w.WaitNode(t, "node1", false)
		},
	},
	{
		what: "the API server can't be reached", types: "explain svc/shop -n hall-ward", cause: "KubernetesUnreachable", about: "Cluster",
		inject: (*faultLab).withoutKubernetes,
	},
}

// faultsOfNodes are what is wrong on nodes, and on the wires outside.
var faultsOfNodes = []fault{
	{
		what: "the gateway does not answer to ARP", from: "pod/b1", asks: calls, types: "trace --from pod/b1 -n hall-ward {out}:80",
		cause: "GatewaySilent", about: "Subnet ext-cloud", sample: true,
		inject: then(at("router-ext-cloud", "sysctl -qw net.ipv4.conf.lan.arp_ignore=8", "sysctl -qw net.ipv4.conf.lan.arp_ignore=0"), forget),
	},
	{
		what: "the gateway has another address", from: "internet", asks: pinged, types: "trace {out} {shop}:80", cause: "GatewaySilent", about: "Subnet ext-public",
		inject: then(at("router-ext-public", "ip addr add 91.224.11.2/24 dev lan; ip addr del 91.224.11.1/24 dev lan",
			"ip addr add 91.224.11.1/24 dev lan; ip addr del 91.224.11.2/24 dev lan; ip route replace 91.224.11.0/24 dev lan"), forget),
	},
	{
		what: "somebody on the wire has the address, too", types: "trace {out} {shop}:80", cause: "AddressDuplicate", about: "EIp hall-ward/shop", sample: true,
		inject: then(at("router-ext-public", "true", "ip neigh flush dev lan"), // it may have learnt who else has the address
			at("host-ext-public", "ip addr add "+shopAddress+"/32 dev eth0", "ip addr del "+shopAddress+"/32 dev eth0")),
	},
	{
		what: "the gateway node's interface is down", from: "internet", asks: pinged, types: "trace {out} {shop}:80", cause: "LinkDown", about: "Node {holder}",
		inject: at("{holder}", "ip link set ext-public down", "ip link set ext-public up"),
	},
	{
		what: "the wire takes only small packets", types: "trace {out} {shop}:80", cause: "MTUTooSmall", about: "Node {holder}",
		inject: at("{holder}", "ip link set ext-public mtu 1300", "ip link set ext-public mtu 1500"),
	},
	{
		what: "tunnels take only small packets", types: "trace {out} {shop}:80", cause: "MTUTooSmall", about: "Node node1",
		inject: at("node1", "ip link set ul0 mtu 1400; ip link set br-phy mtu 1400", "ip link set ul0 mtu 2000; ip link set br-phy mtu 2000"),
	},
	{
		what: "a node answers by another uplink than it was asked on", from: "client-uplink-b", asks: "http://{node}/", types: "trace {peer} {node}:80",
		cause: "AsymmetricRoute", about: "Node node1", sample: true, inject: at("node1", "ip rule add pref 5 lookup main", "ip rule del pref 5 lookup main"),
	},
	{
		what: "a program sets rp_filter of a node's uplink again and again", from: "client-uplink-b", asks: "http://{node}/",
		types: "trace {peer} {node}:80", cause: "RPFilterStrict", about: "Node node1", inject: (*faultLab).keepsStrict,
	},
	{
		what: "the ports of the way out are used up", from: "pod/b1", asks: "udp://{out}:80", types: "trace --from pod/b1 -n hall-ward {out}:80 --proto udp",
		cause: "SNATExhausted", about: "EIp hall-ward/default-gw", inject: (*faultLab).usesUp,
	},
	{
		what: "an old flow goes on to where the address led before", types: "trace {out}:5353 {desk}:80 --proto udp", cause: "StaleConnection", about: "FIp hall-ward/desk",
		inject: (*faultLab).staleFlow,
	},
	{
		what: "Open vSwitch of the pod's node tracks no more connections", from: "internet", asks: pinged, types: "trace {out} {shop}:80", cause: "ConntrackFull", about: "Node node1",
		inject: func(w *faultLab, t *testing.T) {
			w.tracks(t, "node1", 1)
			t.Cleanup(func() { w.tracks(t, "node1", 3_000_000) }) // as Open vSwitch has it by itself
		},
	},
}

// tracks says how many connections the Open vSwitch of a node may track.
func (w *faultLab) tracks(t *testing.T, node string, most int) {
	t.Helper()
	w.RunTool(t, "ovs-appctl", "-t", filepath.Join(w.Dir, "data", node, "ovs-vswitchd.ctl"), "dpctl/ct-set-maxconns", strconv.Itoa(most))
}

// keepsStrict is somebody who sets rp_filter of an uplink again whenever it was put right.
func (w *faultLab) keepsStrict(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	t.Cleanup(func() {
		cancel()
		<-over
		w.inside(t, "node1", "sysctl -qw net.ipv4.conf.uplink-b.rp_filter=2")
		for _, order := range []string{"kill", "start"} { // it says for minutes that it was disturbed
			w.GiveOrder(t, order, "node1-sallyport-agent")
		}
		w.Wait(t, "NodePath", "", "node1", manifest.True("Undisturbed"))
	})
	go func() {
		defer close(over)
		for ; ctx.Err() == nil; <-time.After(20 * time.Millisecond) {
			_ = w.NS("node1").Do(func() error { return os.WriteFile("/proc/sys/net/ipv4/conf/uplink-b/rp_filter", []byte("1"), 0) })
		}
	}()
}

// leaseEnds waits until the lease of Kube-OVN's controller has ended: before, it may just be slow.
func (w *faultLab) leaseEnds(t *testing.T) {
	w.leads(t, func(l coordinationv1.LeaseSpec) bool {
		lasts := time.Duration(*l.LeaseDurationSeconds) * time.Second
		return time.Since(l.RenewTime.Time) > lasts+lasts/4
	})
}

// restored waits until Kube-OVN's controller, started again, does its work.
func (w *faultLab) restored(t *testing.T) {
	begun := time.Now()
	w.leads(t, func(l coordinationv1.LeaseSpec) bool { return l.RenewTime.After(begun) })
}

// leads waits until the lease of Kube-OVN's controller is as it should be. Whoever comes next waits for the end of the former one's.
func (w *faultLab) leads(t *testing.T, holds func(coordinationv1.LeaseSpec) bool) {
	t.Helper()
	for within := time.Now().Add(time.Minute); time.Now().Before(within); <-time.After(time.Second) {
		l, err := w.Client.CoordinationV1().Leases("kube-system").Get(context.Background(), diagnosis.KubeOVNLease, metav1.GetOptions{})
		if err == nil && holds(l.Spec) {
			return
		}
	}
	t.Error("the lease of kube-ovn-controller is not as it should be, for a minute")
}

// withoutKubernetes stops the API server. Controllers end, sooner or later, when they can't renew their leases: they are started anew.
func (w *faultLab) withoutKubernetes(t *testing.T) {
	t.Cleanup(func() {
		w.GiveOrder(t, "resume", "kube-apiserver")
		for _, name := range []string{"kube-controller-manager", "kube-scheduler", "kube-ovn-controller"} {
			_ = w.Order(harness.Within(t, time.Minute), "kill", name) // it may have ended
			w.GiveOrder(t, "start", name)
		}
		w.restored(t)
	})
	w.GiveOrder(t, "pause", "kube-apiserver")
}

// usesUp leaves the way out few ports, and uses them.
func (w *faultLab) usesUp(t *testing.T) {
	row := w.RunNbctl(t, "--bare", "--columns=_uuid", "find", "nat", "type=snat", `logical_ip="10.70.0.0/24"`)
	w.RunNbctl(t, "set", "nat", row, "external_port_range=20000-20049")
	t.Cleanup(func() { w.RunNbctl(t, "set", "nat", row, `external_port_range=""`) })
	w.SyncFlows(t)
	for range 60 {
		conn, err := w.NS("b1."+w.Ns).Dial(harness.Within(t, time.Minute), "udp", harness.InternetAddress+":80")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if _, err := conn.Write([]byte("hello\n")); err != nil {
			t.Fatal(err)
		}
	}
}

// staleFlow lets a client send from one port all the time, while the floating IP gets another target.
func (w *faultLab) staleFlow(t *testing.T) {
	var conn net.Conn
	err := w.NS("internet").Do(func() (err error) {
		from, to := &net.UDPAddr{IP: net.ParseIP(harness.InternetAddress), Port: 5353}, &net.UDPAddr{IP: net.ParseIP(deskAddress), Port: 80}
		conn, err = net.DialUDP("udp", from, to)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if who := harness.WhoAnswers(conn); who != "b2" {
		t.Fatalf("b2 has the address, and %q answers", who)
	}
	w.CreateFIP(w.whole, w.Ns, "desk", "{podTarget: {podName: b1}, eip: desk}")
	t.Cleanup(func() { w.CreateFIP(w.whole, w.Ns, "desk", "{podTarget: {podName: b2}, eip: desk}") })
	if who := harness.WhoAnswers(conn); who == "b1" {
		t.Fatal("the flow has followed to b1 by itself")
	}
}
