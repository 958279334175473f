package egress

import (
	"bytes"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	ovnv1 "github.com/sallyport/sallyport/api/ovn/v1"
	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// faultCase is a fault that moves an egress address away from its node.
type faultCase struct {
	what            string
	maxGap          time.Duration // longest time without an answer
	inject, recover func(y *egressFixture, t *testing.T, node string)
}

// plannedGap is the longest gap of a move that no detection precedes, which would take half a second.
const plannedGap = 50 * time.Millisecond

var faultCases = []faultCase{
	{"node killed", time.Second, labAction("kill", ""), afterMove("start")},
	{"node cut off from the others, not from outside", time.Second, labAction("cut", ""), afterMove("mend")},
	{
		"node killed while the controller is dead", time.Second, (*egressFixture).killControllerAndNode,
		(*egressFixture).restoreControllerAndNode,
	},
	{
		"ovn-controller killed", plannedGap, labAction("kill", "-ovn-controller"),
		labAction("start", "-ovn-controller"),
	},
	{"drained", plannedGap, (*egressFixture).drainNode, (*egressFixture).undrainNode},
}

func labAction(what, part string) func(*egressFixture, *testing.T, string) {
	return func(y *egressFixture, t *testing.T, node string) { t.Helper(); y.ControlLab(t, what, node+part) }
}

// afterMove returns a recovery that sends a command to the lab when the address has moved.
func afterMove(what string) func(*egressFixture, *testing.T, string) {
	return func(y *egressFixture, t *testing.T, node string) {
		t.Helper()
		y.waitMoved(t, "out", node)
		y.ControlLab(t, what, node)
	}
}

// killControllerAndNode kills the controller, and then the node.
func (y *egressFixture) killControllerAndNode(t *testing.T, node string) {
	t.Helper()
	y.Stop(syscall.SIGKILL)
	y.ControlLab(t, "kill", node)
}

func (y *egressFixture) restoreControllerAndNode(t *testing.T, node string) {
	t.Helper()
	y.Start(t)
	y.waitMoved(t, "out", node)
	y.ControlLab(t, "start", node)
}

// TestEgress2Failover sends a request every 5 ms from a pod to a host outside while the node that holds its egress
// address fails.
func TestEgress2Failover(t *testing.T) {
	harness.RunAlone(t)
	item := egressItems.Item(t, 2)
	y := newEgressFixture(t, "failover")
	y.createProbedEgressIP(t)
	t.Run("moved while nobody sends", func(t *testing.T) { y.checkQuietMove(t, item) })
	for _, m := range faultCases {
		t.Run(m.what, func(t *testing.T) { y.measureFault(t, m, item) })
	}
	// The controller detects a dead agent by a health check, so it has to run where it can reach the node.
	asked := faultCase{"agent killed", plannedGap, (*egressFixture).killAgent, (*egressFixture).restartAgent}
	t.Run(asked.what, func(t *testing.T) {
		// A node that fails repeatedly is trusted later each time, so twenty faults need more nodes.
		y := scenarios[1].startFixture(t, "agents", show.ChooseSize(6, 4))
		y.createProbedEgressIP(t)
		y.measureFault(t, asked, item)
	})
}

// createProbedEgressIP creates the EgressIP of the pod that is probed.
func (y *egressFixture) createProbedEgressIP(t *testing.T) {
	t.Helper()
	y.createEgressIP(t, "out", "{egressIPs: [91.224.11.230], "+projectSelector("one")+
		", podSelector: {matchLabels: {app: a}}}")
	y.expectEgressAs(t, "a."+y.namespaces[0], "91.224.11.230")
}

// measureFault injects a fault several times and reports how long no answers arrived.
func (y *egressFixture) measureFault(t *testing.T, m faultCase, item *show.Item) {
	t.Helper()
	times := show.ChooseSize(20, 1)
	var gaps []time.Duration
	for range times {
		gaps = append(gaps, y.measureGap(t, m))
	}
	slices.Sort(gaps)
	middle, worst := gaps[len(gaps)/2], gaps[len(gaps)-1]
	item.AddFigure("%s: nothing came back for %d ms (median), %d ms (worst of %d)", m.what, middle.Milliseconds(),
		worst.Milliseconds(), times)
	if limit := harness.TimeLimit(m.maxGap); worst > limit {
		t.Errorf("nothing came back for %s, want at most %s", worst, limit)
	}
}

// measureGap injects a fault and returns how long no answers arrived.
func (y *egressFixture) measureGap(t *testing.T, m faultCase) time.Duration {
	t.Helper()
	node := y.assignedNode(t, "out")
	p := y.StartProbe(t, "a."+y.namespaces[0])
	p.WaitSteady(t)
	forgotten := time.After(show.ChooseSize(flowIdleTimeout, 0))
	m.inject(y, t, node)
	gap := p.MeasureLongestGap(t, 3*time.Second)
	p.Stop()
	if seen := p.SourceAddresses(); len(seen) != 1 || seen["91.224.11.230"] == 0 {
		t.Errorf("the host outside saw %v", seen)
	}
	m.recover(y, t, node)
	y.WaitNodeReady(t, node, true)
	y.waitBFDUp(t)
	y.waitBFDFast(t)
	<-forgotten
	return gap
}

// flowIdleTimeout is how long Open vSwitch keeps idle flows. A node that gets an address back within that time answers
// for it only after it has revalidated its flows, 500 ms later, which limits in CI allow for.
const flowIdleTimeout = 12 * time.Second

// waitMoved waits until another node holds the address and the status shows it. From then on the old node does not take
// the address back when it recovers.
func (y *egressFixture) waitMoved(t *testing.T, name, from string) (to string) {
	t.Helper()
	y.WaitForObject(t, "EgressIP", "", name, isHeldBy(func(node string) bool { return node != from }))
	return y.assignedNode(t, name)
}

// isHeldBy returns a condition that holds if a matching node holds the only address of an EgressIP, which is up to
// date.
func isHeldBy(matches func(node string) bool) manifest.Condition {
	return func(o *unstructured.Unstructured) bool {
		items, _, _ := unstructured.NestedSlice(o.Object, "status", "items")
		return len(items) == 1 && matches(fmt.Sprint(items[0].(map[string]any)["node"])) && harness.IsUpToDate(o)
	}
}

// waitBFDUp waits until the BFD sessions between all gateway nodes are up.
func (y *egressFixture) waitBFDUp(t *testing.T) {
	t.Helper()
	y.SyncFlows(t)
	y.ResolveTunnelPeers(t)
	for _, n := range y.Blueprint.NodeList()[1:] {
		harness.Eventually(t, n.Name+" hears the others", func() bool {
			return !strings.Contains(y.RunVsctl(t, n.Name, "--bare", "--columns=bfd_status", "find", "Interface",
				"type=geneve"), "state=down")
		})
	}
}

// bfdInterval is a line of ovs-appctl bfd/show about one direction of a session.
var bfdInterval = regexp.MustCompile(`([RT]X) Interval: Approx (\d+)ms`)

// waitBFDFast waits until the BFD sessions between all gateway nodes have their short interval. A session that is new, or
// whose node was away, has one of a second until both ends have agreed on less.
func (y *egressFixture) waitBFDFast(t *testing.T) {
	t.Helper()
	for _, n := range y.Blueprint.NodeList()[1:] {
		harness.Eventually(t, n.Name+" has agreed on short intervals", func() bool {
			sessions := y.RunTool(t, "ovs-appctl", "-t", filepath.Join(y.Dir, "data", n.Name, "ovs-vswitchd.ctl"), "bfd/show")
			intervals := bfdInterval.FindAllStringSubmatch(sessions, -1)
			slow := slices.ContainsFunc(intervals, func(m []string) bool {
				length, err := strconv.Atoi(m[2])
				return err != nil || length >= 1000
			})
			return len(intervals) > 0 && !slow
		})
	}
}

// drainNode hands over the addresses of a node, as an operator does before a shutdown.
func (y *egressFixture) drainNode(t *testing.T, node string) {
	t.Helper()
	y.SetLabel(t, "Node "+node, ovnv1.DrainLabel, "")
	y.setCordoned(t, node, true)
}

func (y *egressFixture) undrainNode(t *testing.T, node string) {
	t.Helper()
	y.waitMoved(t, "out", node)
	y.setCordoned(t, node, false)
	y.SetLabel(t, "Node "+node, ovnv1.DrainLabel, "-")
}

func (y *egressFixture) setCordoned(t *testing.T, node string, unschedulable bool) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, unschedulable)
	if _, err := y.Client.CoreV1().Nodes().Patch(harness.Within(t, harness.Patience), node, types.MergePatchType, patch,
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// checkFencing shows that after a move the old node sends nothing with the address, neither while it is cut off nor
// when it is back, and that the new node announces the address.
func (y *egressFixture) checkFencing(t *testing.T) string {
	address := netip.MustParseAddr("91.224.11.231")
	y.createEgressIP(t, "fenced", "{egressIPs: ["+address.String()+"], "+projectSelector("one")+
		", podSelector: {matchLabels: {app: a}}}")
	y.expectEgressAs(t, "a."+y.namespaces[0], address.String())
	mac, err := net.ParseMAC(intent.DeriveMAC(ownership.EgressRouterPort(address)))
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	sent := map[string]int{}
	for _, n := range y.Blueprint.NodeList()[1:] {
		y.CaptureFrames(t, n.Name, "ext-public", unix.ETH_P_ALL, func(frame []byte, own bool) {
			if own && len(frame) > 12 && bytes.Equal(frame[6:12], mac) {
				mu.Lock()
				defer mu.Unlock()
				sent[n.Name]++
			}
		})
	}
	neighbour := y.Network(t, "public")
	question := harness.ArpRequest(harness.HardwareAddress(t, y.NS(neighbour.Neighbour)),
		netip.MustParseAddr(neighbour.NeighbourAddress), address)
	during := func() map[string]int {
		mu.Lock()
		clear(sent)
		mu.Unlock()
		for range 20 {
			if err := harness.InjectFrame(y.NS(neighbour.Neighbour), question); err != nil {
				t.Error(err)
			}
			y.ExpectAnswer(t, "a."+y.namespaces[0], "udp://"+harness.InternetAddress+":80", "internet",
				address.String())
		}
		mu.Lock()
		defer mu.Unlock()
		return maps.Clone(sent)
	}
	old := y.assignedNode(t, "fenced")
	if got := during(); len(got) != 1 || got[old] < 30 { // control: packets of the old node are seen
		t.Errorf("%s holds the address, and frames with it came from %v", old, got)
	}
	y.ControlLab(t, "cut", old)
	t.Cleanup(func() { y.ControlLab(t, "mend", old) })
	now := y.waitMoved(t, "fenced", old)
	for _, when := range []string{"cut off", "back"} {
		if got := during(); len(got) != 1 || got[now] < 30 {
			t.Errorf("%s is %s and %s holds the address; frames with it came from %v", old, when, now, got)
		}
		if when == "cut off" {
			y.ControlLab(t, "mend", old)
			y.WaitNodeReady(t, old, true)
			y.waitBFDUp(t)
		}
	}
	if again := y.assignedNode(t, "fenced"); again != now {
		t.Errorf("the address went from %s to %s because %s came back", now, again, old)
	}
	return fmt.Sprintf("%s was cut off and came back; asked by ARP and used all the time, every frame of the address came from %s", old, now)
}

// TestEgress4Flapping disconnects and reconnects a node every second.
func TestEgress4Flapping(t *testing.T) {
	harness.RunAlone(t)
	item := egressItems.Item(t, 4)
	y := newEgressFixture(t, "flapping")
	y.createEgressIP(t, "out", "{egressIPs: [91.224.11.230], "+projectSelector("one")+
		", podSelector: {matchLabels: {app: a}}}")
	y.expectEgressAs(t, "a."+y.namespaces[0], "91.224.11.230")
	node := y.assignedNode(t, "out")
	y.waitBFDUp(t)
	y.waitBFDFast(t)
	p := y.StartProbe(t, "a."+y.namespaces[0])
	p.WaitSteady(t)
	holders := []string{node}
	length := show.ChooseSize(time.Minute, 15*time.Second)
	flaps, tick := 0, time.NewTicker(time.Second)
	defer tick.Stop()
	for begun := time.Now(); time.Since(begun) < length; flaps++ {
		y.ControlLab(t, map[bool]string{true: "cut", false: "mend"}[flaps%2 == 0], node)
		<-tick.C
		if now := y.assignedNode(t, "out"); now != holders[len(holders)-1] {
			holders = append(holders, now)
		}
	}
	y.ControlLab(t, "mend", node)
	gap := p.MeasureLongestGap(t, time.Second)
	p.Stop()
	if len(holders) != 2 {
		t.Errorf("the address was on %v", holders)
	}
	if gap > harness.TimeLimit(time.Second) {
		t.Errorf("nothing came back for %s", gap)
	}
	item.AddFigure("%d times cut off or back in %s: the address was on %s; nothing came back for %d ms (longest)",
		flaps, length, strings.Join(holders, " to "), gap.Milliseconds())
}
