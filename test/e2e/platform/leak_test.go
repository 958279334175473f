package platform

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ovnv1 "github.com/sallyport/sallyport/api/ovn/v1"
	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/internal/lab/program"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// connections counts the connections of selected pods, and the source addresses that the internet host saw.
type connections struct {
	mu      sync.Mutex
	counts  map[netip.Addr]int
	started atomic.Int64
}

// openConnection opens a connection with a port of its own. Without an answer it is not repeated.
func (p *platformFixture) openConnection(ctx context.Context, pod string, seen *connections) {
	seen.started.Add(1)
	one, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	if a, err := program.Ask(one, p.NS(pod), "udp://"+harness.InternetAddress+":80"); err == nil {
		seen.mu.Lock()
		defer seen.mu.Unlock()
		seen.counts[a.Saw.Addr()]++
	}
}

// leakFixture is the state of checkLeaks.
type leakFixture struct {
	*platformFixture
	random *rand.Rand
	seen   *connections
	round  int
}

// clusterChanges are what checkLeaks changes. Each is changed back at once.
var clusterChanges = []struct {
	what   string
	change func(*leakFixture, *testing.T)
}{
	{"a new pod", (*leakFixture).startPod},
	{"a pod with the address of another", (*leakFixture).reuseAddress},
	{"a pod's label", func(l *leakFixture, t *testing.T) { l.flipLabel(t, "Pod mail u1", "role", "out") }},
	{"a namespace's label", func(l *leakFixture, t *testing.T) { l.flipLabel(t, "Namespace plain", "egress", "mail") }},
	{"an EgressIP", (*leakFixture).createOther},
	{"a node's label", (*leakFixture).moveAddress},
	{"a drained node", (*leakFixture).drainHolder},
	{"the controller", func(l *leakFixture, t *testing.T) { l.Stop(syscall.SIGKILL); l.Start(t) }},
}

// checkLeaks opens connections from selected pods while pods, labels, nodes, EgressIPs and the controller change at
// random, and starts selected pods that send at once. Only these pods send, so that every packet to the internet has to
// be on the wire of the egress address, with this address as source.
func (p *platformFixture) checkLeaks(t *testing.T) string {
	p.redirectPods(t)
	p.expectEgressAs(t, "s1.mail", egressAddress)
	wires := p.captureWires(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	l := &leakFixture{
		platformFixture: p, random: rand.New(rand.NewPCG(seed, 0)), seen: &connections{counts: map[netip.Addr]int{}},
	}
	limit := int64(show.ChooseSize(10_000, 400))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var asking sync.WaitGroup
	for _, pod := range []string{"s1.mail", "s3.mail", "s1.mail", "s3.mail"} {
		asking.Go(func() { l.keepAsking(ctx, pod) })
	}
	changes := l.changeAtRandom(t, limit)
	stop()
	asking.Wait()
	packets := wires.expectOnly(t, "while everything changes", "ext-public", egressAddress)
	p.expectEgressAs(t, "u1.mail", p.nodeAddresses["node1"]) // the last change may have selected them for a moment
	p.expectEgressAs(t, "u2.plain", p.nodeAddresses["node2"])
	p.expectUnchanged(t) // the control: the capture sees pods that are not selected
	wires.expectSeen(t, "node1 "+p.podAddresses["u1"], "uplink-a "+p.nodeAddresses["node1"])
	started, answered := l.seen.started.Load(), l.seen.counts[netip.MustParseAddr(egressAddress)]
	if others := slices.Collect(maps.Keys(l.seen.counts)); len(others) != 1 || answered < int(started)/2 {
		t.Errorf("of %d connections %v were seen, want most and all as %s", started, l.seen.counts, egressAddress)
	}
	return fmt.Sprintf("%d connections during %d random changes (seed %d), %d answered; on every wire %d packets as %s, "+
		"none with another address", started, changes, seed, answered, packets, egressAddress)
}

// keepAsking opens connections from a pod until the test ends them, about 25 in a second: the changes are slow.
func (l *leakFixture) keepAsking(ctx context.Context, pod string) {
	tick := time.NewTicker(40 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		<-tick.C
		l.openConnection(ctx, pod, l.seen)
	}
}

// changeAtRandom makes each change once in random order, and more until the number of connections is reached. It returns
// the number of changes.
func (l *leakFixture) changeAtRandom(t *testing.T, connections int64) (changes int) {
	t.Helper()
	for l.round == 0 || l.seen.started.Load() < connections {
		for _, i := range l.random.Perm(len(clusterChanges)) {
			l.round++
			clusterChanges[i].change(l, t)
			changes++
		}
	}
	return changes
}

// flipLabel sets a label and removes it.
func (l *leakFixture) flipLabel(t *testing.T, object, key, value string) {
	t.Helper()
	l.SetLabel(t, object, key, value)
	l.SetLabel(t, object, key, "-")
}

// startPod starts a selected pod that sends at once.
func (l *leakFixture) startPod(t *testing.T) { l.runSendingPod(t, "") }

// runSendingPod starts a selected pod, with an address if it is not empty, lets it send at once, and deletes it.
func (l *leakFixture) runSendingPod(t *testing.T, address string) {
	t.Helper()
	name := fmt.Sprintf("n%d", l.round)
	node := []string{"node1", "node2", "node3"}[l.random.IntN(3)]
	l.runPod(t, harness.Pod{
		Namespace: "mail", Name: name, Node: node, Address: address, Labels: map[string]string{"role": "out"},
	})
	for range 10 {
		l.openConnection(t.Context(), name+".mail", l.seen)
	}
	l.deletePod(t, "mail", name)
}

// deletePod deletes a pod and waits until it is gone.
func (l *leakFixture) deletePod(t *testing.T, namespace, name string) {
	t.Helper()
	l.DeleteAndWait(t, "Pod", namespace, name)
	l.WaitForObject(t, "Pod", namespace, name, manifest.Gone)
}

// reuseAddress gives a selected pod the address of a pod that was not selected, right after that one is gone.
func (l *leakFixture) reuseAddress(t *testing.T) {
	t.Helper()
	const address = "10.16.0.250"
	name := fmt.Sprintf("o%d", l.round)
	l.RunPod(t, harness.Pod{Namespace: "plain", Name: name, Node: "node1", Address: address})
	l.deletePod(t, "plain", name)
	l.runSendingPod(t, address)
}

// createOther creates an EgressIP for other pods and deletes it.
func (l *leakFixture) createOther(t *testing.T) {
	t.Helper()
	name := fmt.Sprintf("e%d", l.round)
	l.Apply(t, "{apiVersion: k8s.ovn.org/v1, kind: EgressIP, metadata: {name: "+name+"}, spec: {egressIPs: "+
		"["+secondAddress+"], namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: plain}}}}")
	l.DeleteAndWait(t, "EgressIP", "", name)
}

// moveAddress takes the label away from the node that holds the address, until another node holds it.
func (l *leakFixture) moveAddress(t *testing.T) {
	t.Helper()
	holder := l.holder(t)
	l.SetLabel(t, "Node "+holder, ovnv1.AssignableLabel, "-")
	harness.Eventually(t, "the address moves", func() bool { return l.holder(t) != holder })
	l.SetLabel(t, "Node "+holder, ovnv1.AssignableLabel, "")
}

// drainHolder drains the node that holds the address.
func (l *leakFixture) drainHolder(t *testing.T) {
	t.Helper()
	holder := l.holder(t)
	l.setDrained(t, holder, true)
	harness.Eventually(t, "the address moves", func() bool { return l.holder(t) != holder })
	l.setDrained(t, holder, false)
}

// setDrained makes a node hand over its addresses, as an operator does before a shutdown, or takes that back.
func (p *platformFixture) setDrained(t *testing.T, node string, drained bool) {
	t.Helper()
	p.SetLabel(t, "Node "+node, ovnv1.DrainLabel, map[bool]string{true: "", false: "-"}[drained])
	if _, err := p.Client.CoreV1().Nodes().Patch(harness.Within(t, harness.Patience), node, types.MergePatchType,
		fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, drained), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// drainPause is the time between drains, and the check before them moves no address. A node that gets an address back
// within ten seconds answers for it only after Open vSwitch has revalidated its flows.
const drainPause = 12 * time.Second

// checkDrain measures how long a selected pod gets no answers when the node with its address is drained.
func (p *platformFixture) checkDrain(t *testing.T) string {
	p.redirectPods(t)
	p.expectEgressAs(t, "s1.mail", egressAddress)
	var gaps []time.Duration
	for i := range show.ChooseSize(20, 1) {
		if i > 0 {
			<-time.After(drainPause)
		}
		holder, probe := p.holder(t), p.StartProbe(t, "s1.mail")
		probe.WaitSteady(t)
		p.setDrained(t, holder, true)
		gaps = append(gaps, probe.MeasureLongestGap(t, 2*time.Second))
		probe.Stop()
		if seen := probe.SourceAddresses(); len(seen) != 1 || seen[egressAddress] == 0 {
			t.Errorf("the host outside saw %v", seen)
		}
		if now := p.holder(t); now == holder {
			t.Errorf("the address is still on %s", holder)
		}
		p.setDrained(t, holder, false)
	}
	slices.Sort(gaps)
	median, worst := gaps[len(gaps)/2], gaps[len(gaps)-1]
	// CI runs it beside other themes
	if limit := show.ChooseSize(500*time.Millisecond, 10*time.Second); worst > limit {
		t.Errorf("no answer for %s, want at most %s", worst, limit)
	}
	return fmt.Sprintf("nothing came back for %d ms (median), %d ms (worst of %d)", median.Milliseconds(),
		worst.Milliseconds(), len(gaps))
}
