package vrf

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/internal/agent"
	"github.com/sallyport/sallyport/internal/engine/kernel"
	"github.com/sallyport/sallyport/internal/lab/machine"
	"github.com/sallyport/sallyport/internal/model/nodepath"
)

// spec is a network with a VRF, by which the pod reaches the client's network.
func spec(legs bool) nodepath.Spec {
	return nodepath.Spec{Networks: []nodepath.NetworkSpec{{
		Name: "ext", Number: 7, Interface: "eth1", Gateways: []string{"2001:db8:1::1", "172.16.1.1"}, Method: "VRF",
		Legs:     legs,
		Services: []string{cluster, cluster6},
		Inside:   []string{"10.96.0.0/12", "10.16.0.0/16", "fd00:96::/112", "fd00:16::/64"},
		Egress: []nodepath.EgressSpec{
			{Pods: []string{podAddress}, Destinations: []string{"203.0.113.0/24"}, Address: egressAddress},
			{Pods: []string{podAddress6}, Destinations: []string{"2001:db8:113::/64"}, Address: egressAddress6},
		},
	}}}
}

// carry brings the node's kernel to a spec, as an agent does that has just started.
func carry(t *testing.T, w *world, dir string, spec nodepath.Spec) (report *agent.Report) {
	t.Helper()
	err := w.node.Do(func() error {
		carrier, err := agent.NewApplier(dir, kernel.SysctlRoot, kernel.TableNamesDir)
		if err != nil {
			return err
		}
		defer carrier.Close()
		report, err = carrier.Apply(t.Context(), spec)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range report.Networks {
		if n.Problem != "" {
			t.Errorf("network %s: %s", n.Name, n.Problem)
		}
	}
	return report
}

// carried is carry without any failure.
func carried(t *testing.T, w *world, dir string, spec nodepath.Spec) []string {
	t.Helper()
	report := carry(t, w, dir, spec)
	for _, f := range report.Failures {
		t.Error(f)
	}
	return report.Changes
}

// each calls back for TCP and UDP of each family.
func each(do func(network string, v6 bool)) {
	for _, network := range []string{"tcp", "udp"} {
		for _, v6 := range []bool{false, true} {
			do(network, v6)
		}
	}
}

// by is the one of a family.
func by(v6 bool, four, six string) string {
	if v6 {
		return six
	}
	return four
}

func port(address, port string) string { return net.JoinHostPort(address, port) }

// TestVRF is one after the other: the module is there only after it was shown what is without it.
func TestVRF(t *testing.T) {
	w := build(t)
	foreign(t, w)
	t.Run("without anything", func(t *testing.T) { w.without(t) })
	t.Run("without the module", func(t *testing.T) { w.missing(t) })
	t.Run("what the kernel leaves", onlyOnce)
	t.Run("contract of links", contract)
	w.filter(t, "1")
	before, dir := found(t, w), filepath.Join(t.TempDir(), "run")
	for _, legs := range []bool{false, true} {
		t.Run(fmt.Sprintf("legs %v", legs), func(t *testing.T) {
			w.carries(t, dir, spec(legs))
			w.with(t)
			w.drift(t, dir, spec(legs))
			w.carries(t, dir, nodepath.Spec{})
			same(t, before, found(t, w))
			if left, _ := os.ReadDir(dir); len(left) > 0 {
				t.Errorf("there is still written down: %v", left)
			}
		})
	}
	t.Run("legs come and go", func(t *testing.T) {
		for _, legs := range []bool{true, false} {
			w.carries(t, dir, spec(legs))
			w.clients(t)
		}
		w.carries(t, dir, nodepath.Spec{})
		same(t, before, found(t, w))
	})
	t.Run("switched", func(t *testing.T) {
		w.switched(t, dir)
		same(t, before, found(t, w))
	})
	w.filter(t, "0")
	t.Run("without it again", func(t *testing.T) { w.without(t) })
}

// carries carries a spec out; a second time changes nothing.
func (w *world) carries(t *testing.T, dir string, spec nodepath.Spec) {
	t.Helper()
	begun := time.Now()
	if len(carried(t, w, dir, spec)) == 0 {
		t.Error("nothing had to be done")
	}
	took := time.Since(begun)
	if again := carried(t, w, dir, spec); len(again) > 0 {
		t.Errorf("a second time has to change:\n%s", strings.Join(again, "\n"))
	}
	t.Logf("carried out in %s, and looked at again in %s", took.Round(time.Millisecond),
		(time.Since(begun) - took).Round(time.Millisecond))
}

// filter sets whether every interface of the node refuses sources that it would not be the way to, and those to come.
// Where they do, a client's first packet is lost by that already, and nothing strays.
func (w *world) filter(t *testing.T, value string) {
	t.Helper()
	settings := map[string]string{}
	for _, name := range []string{"all", "default", "eth0", "eth1", "inner"} {
		settings["ipv4/conf/"+name+"/rp_filter"] = value
	}
	if err := w.node.Sysctl(settings); err != nil {
		t.Fatal(err)
	}
}

// foreign makes routes by eth1 that are none of our business. One is reached by another.
func foreign(t *testing.T, w *world) {
	t.Helper()
	ip(t, w.node, `route add 192.168.78.0/24 via 172.16.1.9 dev eth1 src 172.16.1.2 metric 50 mtu 1400
		route add 192.168.77.1 dev eth1 scope link
		route add 192.168.79.0/24 via 192.168.77.1 dev eth1 table main proto static
		route add default via 172.16.1.1 dev eth1 table 77
		route add 192.168.80.0/24 via 10.9.9.9 dev eth1 onlink table 78
		-6 route add 2001:db8:77::/48 via 2001:db8:1::9 dev eth1 src 2001:db8:1::2
		-6 route add default via 2001:db8:1::1 dev eth1 table 77 metric 7
		-6 route add 2001:db8:78::/48 dev eth1 table 78`)
}

// without shows what is wrong, and that nothing else is.
func (w *world) without(t *testing.T) {
	t.Helper()
	each(func(network string, v6 bool) {
		reaches(t, "control", w.node, [3]string{network, "", port(by(v6, cluster, cluster6), servicePort)}, "")
		reaches(t, "control", w.uplink, [3]string{network, by(v6, uplinkAddress, uplinkAddress6),
			port(by(v6, outside, outside6), servicePort)}, "")
		strayed := w.strayed(t)
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		if _, answer, err := ask(ctx, w.client, network, "", port(by(v6, outside, outside6), servicePort)); err == nil {
			t.Errorf("the client got the answer %q over %s without our doing", answer, network)
		}
		i := map[bool]int{true: 1}[v6]
		if now := w.strayed(t); now[i] <= strayed[i] {
			t.Errorf("no reply over %s to %s arrived at the default router, so this shows nothing", network,
				by(v6, clientAddress, clientAddress6))
		}
	})
}

// clients shows that the client gets its answers, and none goes wrong.
func (w *world) clients(t *testing.T) {
	t.Helper()
	strayed := w.strayed(t)
	each(func(network string, v6 bool) {
		reaches(t, "client", w.client, [3]string{network, "", port(by(v6, outside, outside6), servicePort)}, "")
	})
	if now := w.strayed(t); now != strayed {
		t.Errorf("packets to the client arrived at the default router: %v, and before %v", now, strayed)
	}
}

// with shows everything that has to work in a VRF.
func (w *world) with(t *testing.T) {
	t.Helper()
	w.clients(t)
	strayed := w.strayed(t)
	each(func(network string, v6 bool) {
		reaches(t, "node to a cluster address", w.node,
			[3]string{network, "", port(by(v6, cluster, cluster6), servicePort)}, "")
		uplink := by(v6, uplinkAddress, uplinkAddress6)
		reaches(t, "service of the default uplink", w.uplink,
			[3]string{network, uplink, port(by(v6, other, other6), servicePort)}, "")
		reaches(t, "egress", w.pod, [3]string{network, "", port(by(v6, clientAddress, clientAddress6), podPort)},
			by(v6, egressAddress, egressAddress6))
		reaches(t, "other egress", w.pod, [3]string{network, "", port(uplink, podPort)}, "")
		reaches(t, "node by its default", w.node, [3]string{network, "", port(uplink, podPort)}, "")
	})
	for _, address := range []string{eth1Address, eth1Address6} {
		reaches(t, "what listens on all addresses of the node", w.client, [3]string{"tcp", "", port(address, podPort)},
			"")
	}
	if now := w.strayed(t); now != strayed {
		t.Errorf("packets to the client arrived at the default router: %v, and before %v", now, strayed)
	}
	if out := ip(t, w.node, "-6 addr show dev eth1 scope global"); !strings.Contains(out, eth1Address6+"/64") {
		t.Errorf("eth1 has lost its IPv6 address:\n%s", out)
	}
}

// drift takes away what is ours; it comes back.
func (w *world) drift(t *testing.T, dir string, spec nodepath.Spec) {
	t.Helper()
	for _, command := range []string{"link set eth1 nomaster", "link del sp-vrf-7", "route flush table 9107 proto 91",
		"rule del pref 1120"} {
		ip(t, w.node, command)
		w.carries(t, dir, spec)
	}
	w.clients(t)
}

// missing shows what is said on a kernel without VRFs, and that it helps.
func (w *world) missing(t *testing.T) {
	t.Helper()
	dir, before := t.TempDir(), found(t, w)
	for _, legs := range []bool{false, true} {
		report := carry(t, w, dir, spec(legs))
		if len(report.Failures) == 0 {
			t.Fatal("no failure is reported, though there is no VRF")
		}
		first := report.Failures[0].Error()
		for _, words := range []string{"link sp-vrf-7: ", "load the kernel module vrf", "choose another method"} {
			if !strings.Contains(first, words) {
				t.Errorf("%q is missing in %s", words, first)
			}
		}
		if rules := ip(t, w.node, "rule show"); strings.Contains(rules, "9107") || strings.Contains(rules, "9407") || strings.Contains(rules, "sp-") {
			t.Errorf("there are rules without a VRF:\n%s", rules)
		}
		carried(t, w, dir, nodepath.Spec{})
		same(t, before, found(t, w))
	}
	load(t, "vrf")
	w.carries(t, dir, spec(false))
	w.clients(t)
	if routes := ip(t, w.node, "route show table all"); strings.Contains(routes, "192.168.79.0/24") {
		t.Errorf("the kernel has left the routes of others, so this shows nothing of them:\n%s", routes)
	}
	w.carries(t, dir, nodepath.Spec{})
	same(t, before, found(t, w))
}

func load(t *testing.T, module string) {
	t.Helper()
	f, err := os.Open(filepath.Join(machine.ModuleDir, module+".ko"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.FinitModule(int(f.Fd()), "", 0); err != nil {
		t.Fatalf("load module %s: %v", module, err)
	}
}

// found is everything that a node has before us and should have after.
func found(t *testing.T, w *world) []string {
	t.Helper()
	out := ip(t, w.node, `-o link show
		-o addr show
		rule show
		-6 rule show
		route show table all
		-6 route show table all`)
	out += run(t, w.node, "nft", "list", "ruleset") + nameFiles(t)
	err := w.node.Do(func() error {
		files, err := filepath.Glob("/proc/sys/net/ipv[46]/conf/*/*")
		files = append(files, "/proc/sys/net/ipv4/tcp_l3mdev_accept", "/proc/sys/net/ipv4/udp_l3mdev_accept",
			"/proc/sys/net/ipv4/ip_forward")
		for _, f := range files {
			if text, err := os.ReadFile(f); err == nil { // some can't be read
				out += f + " " + string(text)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out, "\n")
	// The kernel makes this rule for the first VRF of a namespace, and never again: see onlyOnce.
	lines = slices.DeleteFunc(lines, func(l string) bool { return strings.Contains(l, "l3mdev-table") })
	slices.Sort(lines)
	return lines
}

// same fails with the lines that are in one only.
func same(t *testing.T, before, after []string) {
	t.Helper()
	var out []string
	for _, l := range before {
		if !slices.Contains(after, l) {
			out = append(out, "- "+l)
		}
	}
	for _, l := range after {
		if !slices.Contains(before, l) {
			out = append(out, "+ "+l)
		}
	}
	if len(out) > 0 {
		t.Errorf("the node is not as it was found:\n%s", strings.Join(out, "\n"))
	}
}
