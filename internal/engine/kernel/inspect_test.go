package kernel

import (
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/internal/model/nodepath"
)

func TestInterfaces(t *testing.T) {
	k := openTestKernel(t)
	runIP(t, "link set eth1 mtu 1400 address 02:00:00:00:00:01")
	runIP(t, "link add eth2 type veth peer name far2")
	runIP(t, "link set eth2 up address 02:00:00:00:00:02")
	runIP(t, "link add eth3 type veth peer name far3")
	all, err := k.ListInterfaces()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, i := range all {
		if strings.HasPrefix(i.Name, "eth") {
			i.MAC = strings.Replace(i.MAC, all[slices.IndexFunc(all, func(i Interface) bool {
				return i.Name == "eth3"
			})].MAC, "its own", 1)
			got = append(got, fmt.Sprint(i))
		}
	}
	want := []string{
		"{eth1 02:00:00:00:00:01 true true 1400 [192.0.2.2/24 2001:db8::2/64]}",
		"{eth2 02:00:00:00:00:02 true false 1500 []}", "{eth3 its own false false 1500 []}",
	}
	if !slices.Equal(got, want) {
		t.Errorf("they are\n%s\nwanted\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Packets are sent to pods only on veth pairs that lead to another network namespace: not on one whose other end is on
// the node, like that of the node's own port in a lab, nor on other interfaces.
func TestPodInterfaces(t *testing.T) {
	k := openTestKernel(t)
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
	for _, name := range []string{"pod_h", "addr_h"} {
		runIP(t, fmt.Sprintf("link add %s type veth peer name in_%s netns %d", name, name, cmd.Process.Pid))
	}
	runIP(t, "addr add 192.0.2.77/32 dev addr_h")
	runIP(t, "link add here type veth peer name too")
	runIP(t, "link add bridge0 type bridge")
	got, err := k.ListPodInterfaces()
	if err != nil || len(got) != 1 || !got["pod_h"] {
		t.Errorf("they are %v, %v", got, err)
	}
}

func TestReadings(t *testing.T) {
	k := openTestKernel(t)
	for name, value := range map[nodepath.SysctlKey]string{
		"net.ipv4.conf.eth1.rp_filter": "1", "net.ipv4.conf.all.rp_filter": "2", "net.ipv4.ip_forward": "1",
	} {
		if err := k.sysctl.write(name, value); err != nil {
			t.Fatal(err)
		}
	}
	got, err := k.ReadSysctls([]string{"eth1", "eth1.7"}) // the second does not exist
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"net.ipv4.conf.eth1.rp_filter": "1", "net.ipv4.conf.all.rp_filter": "2", "net.ipv4.ip_forward": "1",
		"net.ipv4.conf.eth1/7.rp_filter": "",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, wanted %q", name, got[name], want)
		}
	}
}

func TestWay(t *testing.T) {
	k := openTestKernel(t)
	for _, command := range []string{
		"link add eth2 type veth peer name far2", "link set eth2 up", "link set far2 up",
		"addr add 198.51.100.2/24 dev eth2", "link set lo up",
		"route add default via 192.0.2.1", "-6 route add default via 2001:db8::1",
		"route add 203.0.113.0/24 via 198.51.100.1 table 77",
		"rule add pref 100 fwmark 7 lookup 77", "rule add pref 101 from 10.0.0.5 lookup 77",
		"route add unreachable 10.9.0.0/16", "route add prohibit 10.8.0.0/16",
		"-6 route add unreachable fd00:9::/32",
	} {
		runIP(t, command)
	}
	for _, name := range []nodepath.SysctlKey{"net.ipv4.ip_forward", "net.ipv4.conf.eth1.rp_filter"} {
		if err := k.sysctl.write(name, "1"); err != nil {
			t.Fatal(err)
		}
	}
	a := netip.MustParseAddr
	for _, c := range []struct {
		packet RouteQuery
		want   string
	}{
		{RouteQuery{To: a("203.0.113.9")}, "eth1 192.0.2.1 192.0.2.2"},
		{RouteQuery{To: a("192.0.2.7")}, "eth1 invalid IP 192.0.2.2"},
		{RouteQuery{To: a("192.0.2.2")}, "lo invalid IP 192.0.2.2"},
		{RouteQuery{To: a("203.0.113.9"), Mark: 7}, "eth2 198.51.100.1 198.51.100.2"},
		{RouteQuery{To: a("2001:db8:9::9")}, "eth1 2001:db8::1 2001:db8::2"},
		{RouteQuery{To: a("203.0.113.9"), From: a("192.0.2.2")}, "eth1 192.0.2.1 192.0.2.2"},
		{RouteQuery{To: a("203.0.113.9"), From: a("10.0.0.5"), Interface: "eth2"}, "eth2 198.51.100.1 10.0.0.5"},
		{
			RouteQuery{To: a("203.0.113.9"), From: a("10.0.0.5")},
			"10.0.0.5 is not an address of this node; specify the interface on which the packet arrives",
		},
		{
			RouteQuery{To: a("192.0.2.7"), From: a("198.51.100.9"), Interface: "eth1"},
			"the kernel drops it (rp_filter): a reply to 198.51.100.9 would not leave by eth1",
		},
		{RouteQuery{To: a("198.51.100.7"), From: a("192.0.2.9"), Interface: "eth1"}, "eth2 invalid IP 192.0.2.9"},
		{
			RouteQuery{To: a("192.0.2.7"), From: a("127.0.0.1"), Interface: "eth2"},
			"the kernel drops it: 127.0.0.1 is not a valid source address on eth2",
		},
		{RouteQuery{To: a("10.9.0.1")}, "no route to host"},
		{RouteQuery{To: a("10.8.0.1")}, "permission denied"},
		{RouteQuery{To: a("fd00:9::1")}, "no route to host"},
		{RouteQuery{To: a("203.0.113.9"), From: a("10.0.0.5"), Interface: "eth9"}, "Link not found"},
	} {
		got := ""
		if way, err := k.LookupRoute(c.packet); err != nil {
			got = err.Error()
		} else {
			got = fmt.Sprint(way.Interface, " ", way.NextHop, " ", way.Source)
		}
		if got != c.want {
			t.Errorf("%+v goes %q, wanted %q", c.packet, got, c.want)
		}
	}
}
