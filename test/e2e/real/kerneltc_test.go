package real

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/test/e2e/harness"
)

// Why Open vSwitch does not give a flow to tc. It looks at the match, then at each action, and at last whether kernel
// and tc share recirculation IDs: a flow that it refuses for the last reason has a match and actions that tc can have.
const (
	noSharedRecirculation = "flow_put: recirc_id sharing not supported"
	slowPath              = "unsupported put action type: 2" // userspace: ARP and what ovn-controller answers
	hashAction            = "unsupported put action type: 8" // hash: OVN chooses a backend
	hashMatch             = "offloading attribute dp_hash isn't supported"
)

// acceptedRefusals are reasons that have nothing to do with Sallyport's rows.
var acceptedRefusals = map[string]string{
	noSharedRecirculation: "kernel without CONFIG_NET_TC_SKB_EXT",
	slowPath:              "packets for vswitchd itself",
	hashAction:            "OVN's choice of a backend, for the first packet of a connection",
	hashMatch:             "OVN's choice of a backend, for the first packet of a connection",
}

// showOffload lets Open vSwitch give its flows to tc, as on a node with a network card that forwards by itself, sends
// packets through every kind of address, and asks why flows were refused. Debian's kernels refuse all flows with
// connection tracking, so nothing here shows that a card takes them.
func (l *kernelLab) showOffload(t *testing.T) {
	l.vsctl(t, "set", "open", ".", "other_config:hw-offload=true")
	if err := l.vm.RestartSwitch(harness.Within(t, harness.Patience)); err != nil {
		t.Fatal(err)
	}
	l.appctl(t, "vlog/set", "netdev_offload_tc:console:dbg")
	l.appctl(t, "vlog/disable-rate-limit", "netdev_offload_tc")
	l.SyncFlows(t)
	before := len(l.inMachine(t, "cat", l.vm.Log("vswitchd")))
	l.sendEverywhere(t)
	forwarded := map[string]int{}
	for line := range strings.Lines(l.appctl(t, "dpctl/dump-flows", "-m")) {
		for _, by := range []string{"dp:tc", "dp:ovs"} {
			if strings.Contains(line, by) {
				forwarded[by]++
			}
		}
		if strings.Contains(line, "set(skb_mark") {
			t.Errorf("a flow leaves a mark on its packets, which tc can't set: %s", line)
		}
		if state := conntrackState.FindStringSubmatch(line); hashed.MatchString(line) &&
			(state == nil || !isNew(state[1])) {
			t.Errorf("a flow of an established connection needs a hash, which tc does not have: %s", line)
		}
	}
	refused := countRefusals(l.inMachine(t, "cat", l.vm.Log("vswitchd"))[before:])
	if forwarded["dp:tc"] == 0 || refused[noSharedRecirculation] == 0 {
		t.Errorf("offload is not on, or nothing was asked: flows %v, refused %v", forwarded, refused)
	}
	for _, why := range slices.Sorted(maps.Keys(refused)) {
		if acceptedRefusals[why] == "" {
			t.Errorf("%d flows were refused: %s", refused[why], why)
		}
		l.item.AddFigure("kernel %s: %d times a flow was refused for tc: %s (%s)", l.vm.Kernel, refused[why], why,
			acceptedRefusals[why])
	}
	l.item.AddFigure("kernel %s: with hw-offload %d flows in tc, %d in the kernel's datapath", l.vm.Kernel,
		forwarded["dp:tc"], forwarded["dp:ovs"])
}

// hashed finds flows that compute a hash, in the form of `dpctl/dump-flows -m`. Others match on it after a recirculation.
var (
	hashed         = regexp.MustCompile(`\bhash\(`)
	conntrackState = regexp.MustCompile(`ct_state\(0x([0-9a-f]+)/`)
)

// isNew reports whether a flow is for connections that are not established. In the state that it matches on, bit 0 is
// new and bit 1 established.
func isNew(state string) bool {
	bits, err := strconv.ParseUint(state, 16, 32)
	return err == nil && bits&3 == 1
}

// sendEverywhere sends packets through every kind of address that earlier parts have made.
func (l *kernelLab) sendEverywhere(t *testing.T) {
	t.Helper()
	for _, to := range []struct{ ns, pod, kind string }{
		{l.bare, "bare", "public"},
		{l.project, "inside", "cloud"},
		{l.project, "inside", "public"},
		{l.project, "outside", "public"},
	} {
		network := l.Network(t, to.kind)
		address := l.createFIP(t, to.ns, to.pod, to.kind)
		l.ExpectAnswers(t, network.Client, address, to.pod, network.ClientAddress)
	}
	l.showLoadBalancers(t)
	l.showEgressIP(t)
}

// countRefusals counts the messages of Open vSwitch about flows that tc can't have.
func countRefusals(log string) map[string]int {
	out := map[string]int{}
	for line := range strings.Lines(log) {
		_, message, found := strings.Cut(strings.TrimSpace(line), "|netdev_offload_tc")
		_, message, debug := strings.Cut(message, "|DBG|")
		if found && debug && (strings.Contains(message, "support") || strings.Contains(message, "failed")) {
			out[message]++
		}
	}
	return out
}
