package egress

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
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
	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/internal/ownership"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// failure is something that takes an egress address away from its node.
type failure struct {
	what         string
	limit        time.Duration // that nothing may come back for
	strike, heal func(y *egressLab, t *testing.T, node string)
}

var misfortunes = []failure{
	{"node killed", time.Second, ordered("kill", ""), moved("start")},
	{"node cut off from the others, not from outside", time.Second, ordered("cut", ""), moved("mend")},
	{"node killed while the controller is dead", time.Second, (*egressLab).both, (*egressLab).neither},
	{"ovn-controller killed", 50 * time.Millisecond, ordered("kill", "-ovn-controller"), ordered("start", "-ovn-controller")},
	{"drained", 50 * time.Millisecond, (*egressLab).drain, (*egressLab).undrain},
}

func ordered(what, part string) func(*egressLab, *testing.T, string) {
	return func(y *egressLab, t *testing.T, node string) { t.Helper(); y.GiveOrder(t, what, node+part) }
}

// moved gives an order when the address is elsewhere.
func moved(what string) func(*egressLab, *testing.T, string) {
	return func(y *egressLab, t *testing.T, node string) {
		t.Helper()
		y.moves(t, "out", node)
		y.GiveOrder(t, what, node)
	}
}

// both kills the controller, and then the node.
func (y *egressLab) both(t *testing.T, node string) {
	t.Helper()
	y.Stop(syscall.SIGKILL)
	y.GiveOrder(t, "kill", node)
}

func (y *egressLab) neither(t *testing.T, node string) {
	t.Helper()
	y.Start(t)
	y.moves(t, "out", node)
	y.GiveOrder(t, "start", node)
}

// TestEgress2Failover: a question every 5 ms from a pod to a host outside, while the node of its egress address is struck.
func TestEgress2Failover(t *testing.T) {
	harness.Alone(t)
	item := egresses.Item(t, 2)
	y := newEgressLab(t, "failover")
	y.goesOut(t)
	for _, m := range misfortunes {
		t.Run(m.what, func(t *testing.T) { y.suffers(t, m, item) })
	}
	// The controller finds a node whose agent is dead by asking it, and so has to run where it can.
	asked := failure{"agent killed", 50 * time.Millisecond, (*egressLab).silence, (*egressLab).speak}
	t.Run(asked.what, func(t *testing.T) {
		// A node that does not answer time and again is trusted later each time: twenty strikes need more of them.
		y := scenarios[1].startLab(t, "agents", show.Size(6, 4))
		y.goesOut(t)
		y.suffers(t, asked, item)
	})
}

// goesOut gives a pod the egress address that is struck.
func (y *egressLab) goesOut(t *testing.T) {
	t.Helper()
	y.request(t, "out", "{egressIPs: [91.224.11.230], "+inProject("one")+", podSelector: {matchLabels: {app: a}}}")
	y.leaves(t, "a."+y.namespaces[0], "91.224.11.230")
}

// suffers lets a misfortune happen several times, and says how long nothing came back.
func (y *egressLab) suffers(t *testing.T, m failure, item *show.Item) {
	t.Helper()
	times := show.Size(20, 1)
	var gaps []time.Duration
	for range times {
		gaps = append(gaps, y.strike(t, m))
	}
	slices.Sort(gaps)
	middle, worst := gaps[len(gaps)/2], gaps[len(gaps)-1]
	item.Figure("%s: nothing came back for %d ms (median), %d ms (worst of %d)", m.what, middle.Milliseconds(), worst.Milliseconds(), times)
	slack := show.Size(0, 100*time.Millisecond) // a single strike, on a machine that does other things as well
	if worst > m.limit+slack {
		t.Errorf("nothing came back for %s, want at most %s", worst, m.limit)
	}
}

// strike lets a misfortune happen and returns how long nothing came back.
func (y *egressLab) strike(t *testing.T, m failure) time.Duration {
	t.Helper()
	node := y.holder(t, "out")
	p := y.probe(t, "a."+y.namespaces[0])
	p.settle(t)
	forgotten := time.After(forgets)
	m.strike(y, t, node)
	gap := p.gap(t, 3*time.Second)
	p.end()
	if seen := p.sources(); len(seen) != 1 || seen["91.224.11.230"] == 0 {
		t.Errorf("the host outside saw %v", seen)
	}
	m.heal(y, t, node)
	y.WaitNode(t, node, true)
	y.settled(t)
	<-forgotten
	return gap
}

// forgets is how long Open vSwitch keeps flows that nobody uses. A node that gets an address back within that time answers for it only
// when it has looked through its flows again, 500 ms later. It is also enough for BFD sessions of a node that came back to become fast.
const forgets = 12 * time.Second

// moves waits until another node holds the address, and the status says so: then the old one does not take it back when it returns.
func (y *egressLab) moves(t *testing.T, name, from string) (to string) {
	t.Helper()
	y.Wait(t, "EgressIP", "", name, heldBy(func(node string) bool { return node != from }))
	return y.holder(t, name)
}

// heldBy holds when the only address of an EgressIP is on a node of some kind, and everything is as it says.
func heldBy(matches func(node string) bool) manifest.Condition {
	return func(o *unstructured.Unstructured) bool {
		items, _, _ := unstructured.NestedSlice(o.Object, "status", "items")
		return len(items) == 1 && matches(fmt.Sprint(items[0].(map[string]any)["node"])) && harness.IsUpToDate(o)
	}
}

// settled waits until every gateway node hears all others.
func (y *egressLab) settled(t *testing.T) {
	t.Helper()
	y.SyncFlows(t)
	y.WarmUp(t)
	for _, n := range y.Blueprint.NodeList()[1:] {
		harness.Eventually(t, n.Name+" hears the others", func() bool {
			return !strings.Contains(y.RunVsctl(t, n.Name, "--bare", "--columns=bfd_status", "find", "Interface", "type=geneve"), "state=down")
		})
	}
}

// drain hands over what a node holds, as a person does before it goes.
func (y *egressLab) drain(t *testing.T, node string) {
	t.Helper()
	y.SetLabel(t, "Node "+node, ovnv1.DrainLabel, "")
	y.cordon(t, node, true)
}

func (y *egressLab) undrain(t *testing.T, node string) {
	t.Helper()
	y.moves(t, "out", node)
	y.cordon(t, node, false)
	y.SetLabel(t, "Node "+node, ovnv1.DrainLabel, "-")
}

func (y *egressLab) cordon(t *testing.T, node string, unschedulable bool) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, unschedulable)
	if _, err := y.Client.CoreV1().Nodes().Patch(harness.Within(t, time.Minute), node, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// probe asks a host outside every 5 ms, and remembers what came back when.
type probe struct {
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu      sync.Mutex
	last    time.Time
	longest time.Duration
	count   int
	seen    map[string]int // addresses that the host saw
}

const probePeriod = 5 * time.Millisecond

// probe starts one.
func (y *egressLab) probe(t *testing.T, pod string) *probe {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	conn, err := y.NS(pod).Dial(ctx, "udp", harness.InternetAddress+":80")
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	p := &probe{cancel: func() { cancel(); _ = conn.Close() }, seen: map[string]int{}, last: time.Now()}
	t.Cleanup(p.cancel)
	p.done.Go(func() {
		ticks := time.NewTicker(probePeriod)
		defer ticks.Stop()
		for ctx.Err() == nil {
			_, _ = conn.Write([]byte("hello\n")) // what is lost is what is measured
			<-ticks.C
		}
	})
	p.done.Go(func() {
		answer := make([]byte, 200)
		for ctx.Err() == nil {
			n, err := conn.Read(answer)
			if err == nil {
				p.heard(string(answer[:n]))
			}
		}
	})
	return p
}

func (p *probe) heard(answer string) {
	_, client, _ := strings.Cut(strings.TrimSpace(answer), " saw ")
	address, _, _ := strings.Cut(client, ":")
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.longest = max(p.longest, now.Sub(p.last))
	p.last = now
	p.count++
	p.seen[address]++
}

// settle waits until answers come, and begins to measure.
func (p *probe) settle(t *testing.T) {
	t.Helper()
	for begun := p.answers(); p.answers() < begun+50; {
		if !p.next(5 * time.Second) {
			t.Fatal("no answer comes from outside")
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.longest = 0
}

// next waits for an answer.
func (p *probe) next(limit time.Duration) bool {
	begun, deadline := p.answers(), time.Now().Add(limit)
	tick := time.NewTicker(probePeriod)
	defer tick.Stop()
	for range tick.C {
		if p.answers() > begun {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
	}
	return false
}

func (p *probe) answers() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count
}

// gap is the longest that nothing came, looked for during some time and until something comes again.
func (p *probe) gap(t *testing.T, length time.Duration) time.Duration {
	t.Helper()
	for begun := time.Now(); time.Since(begun) < length; {
		if !p.next(20 * time.Second) {
			t.Fatal("nothing comes back any more")
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.longest
}

func (p *probe) end() {
	p.cancel()
	p.done.Wait()
}

func (p *probe) sources() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.seen)
}

// fenced: after a move the old node sends nothing with the address, neither while it is cut off nor when it is back; the new one announces it.
func (y *egressLab) fenced(t *testing.T) string {
	address := netip.MustParseAddr("91.224.11.231")
	y.request(t, "fenced", "{egressIPs: ["+address.String()+"], "+inProject("one")+", podSelector: {matchLabels: {app: a}}}")
	y.leaves(t, "a."+y.namespaces[0], address.String())
	mac, err := net.ParseMAC(intent.MAC(ownership.EgressPort(address)))
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	sent := map[string]int{}
	for _, n := range y.Blueprint.NodeList()[1:] {
		y.Capture(t, n.Name, "ext-public", unix.ETH_P_ALL, func(frame []byte, own bool) {
			if own && len(frame) > 12 && bytes.Equal(frame[6:12], mac) {
				mu.Lock()
				defer mu.Unlock()
				sent[n.Name]++
			}
		})
	}
	neighbour := y.Network(t, "public")
	question := harness.ArpRequest(harness.HardwareAddress(t, y.NS(neighbour.Neighbour)), netip.MustParseAddr(neighbour.NeighbourAddress), address)
	during := func() map[string]int {
		mu.Lock()
		clear(sent)
		mu.Unlock()
		for range 20 {
			if err := harness.InjectFrame(y.NS(neighbour.Neighbour), question); err != nil {
				t.Error(err)
			}
			y.ExpectAnswer(t, "a."+y.namespaces[0], "udp://"+harness.InternetAddress+":80", "internet", address.String())
		}
		mu.Lock()
		defer mu.Unlock()
		return maps.Clone(sent)
	}
	old := y.holder(t, "fenced")
	if got := during(); len(got) != 1 || got[old] < 30 { // the control: what it sends is seen
		t.Errorf("%s holds the address, and frames with it came from %v", old, got)
	}
	y.GiveOrder(t, "cut", old)
	t.Cleanup(func() { y.GiveOrder(t, "mend", old) })
	now := y.moves(t, "fenced", old)
	for _, when := range []string{"cut off", "back"} {
		if got := during(); len(got) != 1 || got[now] < 30 {
			t.Errorf("%s is %s and %s holds the address; frames with it came from %v", old, when, now, got)
		}
		if when == "cut off" {
			y.GiveOrder(t, "mend", old)
			y.WaitNode(t, old, true)
			y.settled(t)
		}
	}
	if again := y.holder(t, "fenced"); again != now {
		t.Errorf("the address went from %s to %s because %s came back", now, again, old)
	}
	return fmt.Sprintf("%s was cut off and came back; asked by ARP and used all the time, every frame of the address came from %s", old, now)
}

// TestEgress4Flapping: a node that is cut off and back every second.
func TestEgress4Flapping(t *testing.T) {
	harness.Alone(t)
	item := egresses.Item(t, 4)
	y := newEgressLab(t, "flapping")
	y.request(t, "out", "{egressIPs: [91.224.11.230], "+inProject("one")+", podSelector: {matchLabels: {app: a}}}")
	y.leaves(t, "a."+y.namespaces[0], "91.224.11.230")
	node := y.holder(t, "out")
	y.settled(t)
	<-time.After(forgets) // of BFD sessions that have just begun; see there
	p := y.probe(t, "a."+y.namespaces[0])
	p.settle(t)
	holders := []string{node}
	length := show.Size(time.Minute, 15*time.Second)
	flaps, tick := 0, time.NewTicker(time.Second)
	defer tick.Stop()
	for begun := time.Now(); time.Since(begun) < length; flaps++ {
		y.GiveOrder(t, map[bool]string{true: "cut", false: "mend"}[flaps%2 == 0], node)
		<-tick.C
		if now := y.holder(t, "out"); now != holders[len(holders)-1] {
			holders = append(holders, now)
		}
	}
	y.GiveOrder(t, "mend", node)
	gap := p.gap(t, time.Second)
	p.end()
	if len(holders) != 2 {
		t.Errorf("the address was on %v", holders)
	}
	if gap > time.Second {
		t.Errorf("nothing came back for %s", gap)
	}
	item.Figure("%d times cut off or back in %s: the address was on %s; nothing came back for %d ms (longest)", flaps, length, strings.Join(holders, " to "), gap.Milliseconds())
}
