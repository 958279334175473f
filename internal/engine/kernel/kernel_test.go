package kernel

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/internal/model/ipfamily"
	"github.com/sallyport/sallyport/internal/model/nodepath"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/state"
	"github.com/sallyport/sallyport/internal/model/state/statetest"
)

// openTestKernel opens the kernel of a new network namespace, with an interface eth1 that has 192.0.2.2/24 and
// 2001:db8::2/64. The thread ends with the test.
func openTestKernel(t *testing.T) *Kernel {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
	k, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	runIP(t, "link set lo up")
	runIP(t, "link add eth1 type veth peer name far1")
	runIP(t, "link set eth1 up")
	runIP(t, "link set far1 up")
	runIP(t, "addr add 192.0.2.2/24 dev eth1")
	runIP(t, "addr add 2001:db8::2/64 dev eth1 nodad")
	return k
}

// runIP runs ip in the thread's namespace.
func runIP(t *testing.T, args string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "ip", strings.Fields(args)...).CombinedOutput()
	if err != nil {
		t.Fatalf("ip %s: %v\n%s", args, err, out)
	}
	return string(out)
}

var networkRef = nodepath.NetworkRef("net")

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

// foreignState returns a function with the output of ip without our lines.
func foreignState(t *testing.T, mine string, commands ...string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		var out []string
		for _, c := range commands {
			for line := range strings.Lines(runIP(t, c)) {
				if !regexp.MustCompile(mine).MatchString(line) {
					out = append(out, strings.TrimSpace(line))
				}
			}
		}
		return strings.Join(out, "\n"), nil
	}
}

func TestRulesKeepTheContract(t *testing.T) {
	k := openTestKernel(t)
	runIP(t, "rule add pref 1120 from 10.0.0.9 lookup 77") // our preference, but not our protocol
	runIP(t, "rule add pref 4000 from 10.0.0.9 lookup 77 protocol 91")
	set := func(pairs ...any) nodepath.Rules {
		out := nodepath.Rules{}
		for i := 0; i < len(pairs); i += 2 {
			out[pairs[i].(nodepath.RuleKey)] = state.Entry[nodepath.Rule]{
				Value:  nodepath.Rule{Table: pairs[i+1].(int)},
				Origin: networkRef,
			}
		}
		return out
	}
	source := nodepath.RuleKey{Pref: ownership.NodeRuleSource, From: prefix("10.96.0.1/32"), Family: ipfamily.V4}
	source6 := nodepath.RuleKey{Pref: ownership.NodeRuleSource, From: prefix("fd00::1/128"), Family: ipfamily.V6}
	marked := nodepath.RuleKey{Pref: ownership.NodeRuleMark, Mark: 5 << ownership.NodeMarkShift, Family: ipfamily.V4}
	inside := nodepath.RuleKey{Pref: ownership.NodeRuleToCluster, To: prefix("10.96.0.0/12"), Family: ipfamily.V4}
	statetest.CheckContract(t, statetest.Case[nodepath.RuleKey, nodepath.Rule]{
		Target:      k.Rules(),
		First:       set(source, 9101, source6, 9101, marked, 9101),
		Second:      set(source, 9102, inside, nodepath.MainTable, marked, 9101),
		DumpForeign: foreignState(t, `lookup 910|^990:`, "-N rule", "-N -6 rule"),
	})
}

func TestRoutesKeepTheContract(t *testing.T) {
	k := openTestKernel(t)
	runIP(t, "route add 203.0.113.0/24 via 192.0.2.1 table 9101")
	set := func(routes ...nodepath.Route) nodepath.Routes {
		out := nodepath.Routes{}
		for _, r := range routes {
			out[r.Key()] = state.Entry[nodepath.Route]{Value: r, Origin: networkRef}
		}
		return out
	}
	all, all6 := prefix("0.0.0.0/0"), prefix("::/0")
	gateway, other := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.3")
	statetest.CheckContract(t, statetest.Case[nodepath.RouteKey, nodepath.Route]{
		Target: k.Routes(),
		First: set(nodepath.Route{Table: 9101, To: all, Via: gateway, Dev: "eth1"},
			nodepath.Route{Table: 9101, To: prefix("192.0.2.0/24"), Dev: "eth1"},
			nodepath.Route{Table: 9101, To: all6, Via: netip.MustParseAddr("2001:db8::1"), Dev: "eth1"},
			nodepath.Route{Table: 9101, To: all, Metric: 4278198272},
			nodepath.Route{Table: 9101, To: all6, Metric: 4278198272}),
		Second: set(nodepath.Route{Table: 9101, To: all, Via: other, Dev: "eth1"},
			nodepath.Route{Table: nodepath.MainTable, To: prefix("198.51.100.0/24"), Via: gateway, Dev: "eth1"},
			nodepath.Route{Table: 9101, To: all6, Via: netip.MustParseAddr("2001:db8::3"), Dev: "eth1"}),
		DumpForeign: foreignState(t, "proto 91|fe80|ff00|table 255", "-N route show table all",
			"-N -6 route show table all"),
	})
}

func TestNftKeepsTheContract(t *testing.T) {
	openTestKernel(t)
	runNFT(t, "add table inet other")
	runNFT(t, "add chain inet other c { type filter hook input priority 0; }")
	runNFT(t, "add rule inet other c accept")
	target, err := OpenNft()
	if err != nil {
		t.Fatal(err)
	}
	spec := connectionSpec()
	statetest.CheckContract(t, statetest.Case[nodepath.NftKey, nodepath.NftValue]{
		Target: target,
		First:  nodepath.Compile(spec, testNode()).Nft,
		Second: func() nodepath.Nft {
			other := connectionSpec()
			other.Networks[0].Method, other.Networks[0].Services = "Mark", []string{"10.96.0.1", "10.96.0.2", "fd00::1"}
			other.Networks[0].Egress[0].Address = "192.168.10.2"
			return nodepath.Compile(other, testNode()).Nft
		}(),
		DumpForeign: func(context.Context) (string, error) { return runNFT(t, "list table inet other"), nil },
	})
	if out := runNFT(t, "list ruleset"); strings.Contains(out, ownership.NodeNFTTable) {
		t.Errorf("the table is left, though nothing is in it:\n%s", out)
	}
}

// A removed rule, and a foreign rule in our chain, are detected.
func TestNftSeesWhatOthersDo(t *testing.T) {
	openTestKernel(t)
	target, err := OpenNft()
	if err != nil {
		t.Fatal(err)
	}
	want := nodepath.Compile(connectionSpec(), testNode()).Nft
	plan := func() string {
		p, err := state.PreparePlan(t.Context(), target, want)
		if err != nil {
			t.Fatal(err)
		}
		if failures := state.Run(t.Context(), p); len(failures) > 0 {
			t.Fatal(failures)
		}
		return state.FormatPlans(p)
	}
	plan()
	for what, command := range map[string]string{
		"a rule that is not ours":       "add rule inet sallyport marks drop",
		"no rules":                      "flush chain inet sallyport marks",
		"nothing at all":                "flush ruleset",
		"an element that is not wanted": "add element inet sallyport egress0-to-1-ipv4 { 10.0.0.0/8 }",
		"a range that is not wanted":    "add element inet sallyport egress0-to-1-ipv4 { 10.1.0.3-10.1.0.9 }",
		"an element with a remark":      `add element inet sallyport egress0-to-1-ipv4 { 10.2.0.1 comment "why" }`,
		"a set of numbers":              "add set inet sallyport ports { type inet_service; elements = { 80, 443 }; }",
		"a set of pairs":                "add set inet sallyport pairs { type ipv4_addr . inet_service; elements = { 10.0.0.1 . 80 }; }",
	} {
		runNFT(t, command)
		if plan() == "" {
			t.Errorf("%s: it was not noticed", what)
		}
		if again := plan(); again != "" {
			t.Errorf("%s: it was not put right:\n%s", what, again)
		}
	}
}

func runNFT(t *testing.T, command string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "nft", command).CombinedOutput()
	if err != nil {
		t.Fatalf("nft %s: %v\n%s", command, err, out)
	}
	return string(out)
}

func TestSettingsKeepTheContract(t *testing.T) {
	k := openTestKernel(t)
	set := func(pairs ...string) nodepath.Sysctls {
		out := nodepath.Sysctls{}
		for i := 0; i < len(pairs); i += 2 {
			out[nodepath.SysctlKey(pairs[i])] = state.Entry[nodepath.Sysctl]{
				Value:  nodepath.Sysctl{Text: pairs[i+1]},
				Origin: networkRef,
			}
		}
		return out
	}
	const filter, forwards, keeps = "net.ipv4.conf.eth1.rp_filter", "net.ipv4.conf.eth1.forwarding",
		"net.ipv6.conf.eth1.keep_addr_on_down"
	first, second := set(filter, "2", forwards, "1"), set(filter, "0", keeps, "1")
	if err := k.sysctl.write(filter, "1"); err != nil {
		t.Fatal(err)
	}
	all := func(context.Context) (string, error) {
		text, err := k.sysctl.read("net.ipv4.conf.all.rp_filter")
		return text, err
	}
	dir := t.TempDir()
	statetest.CheckContract(t, statetest.Case[nodepath.SysctlKey, nodepath.Sysctl]{
		Target: k.Sysctls(dir, nil), First: first, Second: second, DumpForeign: all,
	})
	if is, err := k.sysctl.read(filter); err != nil || is != "1" {
		t.Errorf("it was 1 before us and is %q after (%v)", is, err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("the directory still has %v", left)
	}
}

// In a container, the node's sysctls can be written only where they are mounted.
func TestSettingsAreBelowTheRoot(t *testing.T) {
	root := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	mine := file("net/ipv4/conf/eth1.100/rp_filter", "1")
	file("net/ipv4/conf/all/rp_filter", "1")
	k, err := OpenAt(root)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if is, err := k.ReadNode(); err != nil || !is.StrictRPFilter {
		t.Errorf("the node is not read there: %+v, %v", is, err)
	}
	const filter, gone = "net.ipv4.conf.eth1/100.rp_filter", "net.ipv4.conf.eth2.rp_filter"
	want := nodepath.Sysctls{filter: {Value: nodepath.Sysctl{Text: "2"}}, gone: {Value: nodepath.Sysctl{Text: "2"}}}
	target := k.Sysctls(t.TempDir(), want)
	if want = target.FilterExisting(want); len(want) != 1 {
		t.Errorf("known are %v", want)
	}
	for _, c := range []struct {
		wanted nodepath.Sysctls
		is     string
	}{{want, "2"}, {nil, "1"}} {
		p, err := state.PreparePlan(t.Context(), target, c.wanted)
		if err != nil {
			t.Fatal(err)
		}
		if failures := state.Run(t.Context(), p); len(failures) > 0 {
			t.Fatal(failures)
		}
		if is, err := os.ReadFile(mine); err != nil || strings.TrimSpace(string(is)) != c.is {
			t.Errorf("it is %q instead of %s (%v)", is, c.is, err)
		}
	}
}

// A value with the same effect is not changed.
func TestSettingThatDoesIsLeft(t *testing.T) {
	k := openTestKernel(t)
	const filter = "net.ipv4.conf.eth1.rp_filter"
	want := nodepath.Sysctls{filter: {Value: nodepath.Sysctl{Text: "2", Acceptable: "0"}}}
	for _, was := range []string{"0", "1"} {
		if err := k.sysctl.write(filter, was); err != nil {
			t.Fatal(err)
		}
		p, err := state.PreparePlan(t.Context(), k.Sysctls(t.TempDir(), want), want)
		if err != nil {
			t.Fatal(err)
		}
		if changed := len(p.ChangeLines()) > 0; changed != (was == "1") {
			t.Errorf("where it is %s, the plan is\n%s", was, state.FormatPlans(p))
		}
	}
}

func TestNodeIsSeen(t *testing.T) {
	k := openTestKernel(t)
	is, err := k.ReadNode()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range is.Interfaces {
		if i.Name == "eth1" {
			if !i.Up || len(i.MAC) != 17 || fmt.Sprint(i.Addresses) != "[192.0.2.2/24 2001:db8::2/64]" {
				t.Errorf("eth1 is seen as %+v", i)
			}
			return
		}
	}
	t.Errorf("eth1 is not seen among %+v", is.Interfaces)
}

func TestNodeSaysHowSourcesAreChecked(t *testing.T) {
	k := openTestKernel(t)
	for text, want := range map[string]bool{"0": false, "1": true, "2": false} {
		if err := k.sysctl.write("net.ipv4.conf.all.rp_filter", text); err != nil {
			t.Fatal(err)
		}
		if is, err := k.ReadNode(); err != nil || is.StrictRPFilter != want {
			t.Errorf("with %s for all interfaces, the node is strict: %v (%v)", text, is.StrictRPFilter, err)
		}
	}
}

func TestWatchTells(t *testing.T) {
	k := openTestKernel(t)
	told := make(chan struct{}, 1000)
	if err := k.Watch(t.Context(), func() { told <- struct{}{} }); err != nil {
		t.Fatal(err)
	}
	for _, do := range []func(){
		func() { runIP(t, "rule add pref 1120 from 10.0.0.1 lookup 9101") },
		func() { runIP(t, "-6 rule add pref 1120 from fd00::1 lookup 9101") },
		func() { runIP(t, "route add 203.0.113.0/24 via 192.0.2.1 table 9101") },
		func() { runNFT(t, "add table inet sallyport") },
		func() { runNFT(t, "flush ruleset") },
		func() { runIP(t, "addr add 192.0.2.9/24 dev eth1") },
		func() { runIP(t, "link set eth1 down") },
		func() { runIP(t, "link add eth2 type veth peer name far2") },
		func() { _ = k.sysctl.write("net.ipv4.conf.eth1.rp_filter", "1") },
	} {
		for len(told) > 0 {
			<-told
		}
		do()
		select {
		case <-told:
		case <-t.Context().Done():
		}
	}
}

// connectionSpec returns a network with all features, for a node that has them.
func connectionSpec() nodepath.Spec {
	return nodepath.Spec{Networks: []nodepath.NetworkSpec{{
		Name: "net", Number: 1, Interface: "eth1", Gateways: []string{"192.0.2.1", "2001:db8::1"}, Method: "Connection",
		Egress: []nodepath.EgressSpec{
			{Pods: []string{"10.0.0.5", "fd01::5"}, Destinations: []string{
				"203.0.113.0/24", "198.51.100.7/32",
				"2001:db8:9::/48",
			}, Address: "192.168.10.1"},
			{Pods: []string{"10.0.0.6", "::1.2.3.4"}},
		},
		Inside: []string{"10.96.0.0/12", "10.0.0.0/16"},
	}}}
}

func testNode() nodepath.Node {
	return nodepath.Node{ForwardsIPv6: true, Interfaces: []nodepath.Interface{
		{Name: "eth1", Up: true, Addresses: []netip.Prefix{prefix("192.0.2.2/24"), prefix("2001:db8::2/64")}},
	}}
}
