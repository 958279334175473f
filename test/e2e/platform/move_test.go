package platform

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/internal/lab/program"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// wirePackets counts packets to the internet, by "wire source".
type wirePackets struct {
	mu     sync.Mutex
	counts map[string]int
}

// captureWires counts packets until the test ends: on the wire of every external network and uplink, where the router
// receives them, and on the link of each node to the pods.
func (p *platformFixture) captureWires(t *testing.T) *wirePackets {
	t.Helper()
	out := &wirePackets{counts: map[string]int{}}
	capture := func(place, link, wire string) {
		p.CaptureFrames(t, place, link, unix.ETH_P_IP, func(frame []byte, own bool) {
			if len(frame) < 34 || own && place == wire {
				return
			}
			from, _ := netip.AddrFromSlice(frame[26:30])
			if to, _ := netip.AddrFromSlice(frame[30:34]); to.String() == harness.InternetAddress {
				out.mu.Lock()
				out.counts[wire+" "+from.String()]++
				out.mu.Unlock()
			}
		})
	}
	for _, s := range p.Blueprint.Segments() {
		capture(s.Router, "lan", s.Name)
	}
	for _, n := range p.Blueprint.NodeList() {
		capture(n.Name, "ovn0", n.Name)
	}
	return out
}

// take returns the counts and sets them to 0.
func (w *wirePackets) take() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.counts
	w.counts = map[string]int{}
	return out
}

// expectSeen is the control of a capture: it waits until packets of each kind have been captured.
func (w *wirePackets) expectSeen(t *testing.T, kinds ...string) {
	t.Helper()
	for _, kind := range kinds {
		harness.Eventually(t, "the capture sees "+kind, func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.counts[kind] > 0
		})
	}
}

// expectOnly checks that packets since the last call were on one wire with one source address, and returns their number.
func (w *wirePackets) expectOnly(t *testing.T, what, wire, source string) int {
	t.Helper()
	seen := w.take()
	right := seen[wire+" "+source]
	if right == 0 || len(seen) != 1 {
		t.Errorf("%s: packets by wire and source: %v; want only %s on %s", what, seen, source, wire)
	}
	return right
}

// sender sends requests from a pod, each with a port of its own, until it is stopped. Requests without an answer are not
// repeated.
type sender struct {
	stop           context.CancelFunc
	ended          sync.WaitGroup
	sent, answered atomic.Int64
	mu             sync.Mutex
	sources        map[string]int
}

// A sender sends every sendInterval, also while earlier requests have no answer yet, except when too many have none.
const (
	sendInterval  = 10 * time.Millisecond
	maxUnanswered = 50
)

// startSender starts to send from a pod that may not exist yet or any more.
func (p *platformFixture) startSender(t *testing.T, pod string) *sender {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	s := &sender{stop: stop, sources: map[string]int{}}
	s.ended.Go(func() { p.keepSending(ctx, pod, s) })
	t.Cleanup(s.finish)
	return s
}

// keepSending sends requests until the context ends.
func (p *platformFixture) keepSending(ctx context.Context, pod string, s *sender) {
	tick := time.NewTicker(sendInterval)
	defer tick.Stop()
	unanswered := make(chan struct{}, maxUnanswered)
	for ctx.Err() == nil {
		<-tick.C
		select {
		case unanswered <- struct{}{}:
			s.ended.Go(func() {
				p.sendOnce(ctx, pod, s)
				<-unanswered
			})
		default:
		}
	}
}

// sendOnce sends a request and counts its answer.
func (p *platformFixture) sendOnce(ctx context.Context, pod string, s *sender) {
	ctx, cancel := context.WithTimeout(ctx, harness.AnswerTimeout)
	defer cancel()
	a, err := program.Ask(ctx, p.NS(pod), "udp://"+harness.InternetAddress+":80")
	s.sent.Add(1)
	if err == nil {
		s.answered.Add(1)
		s.mu.Lock()
		s.sources[a.Saw.Addr().String()]++
		s.mu.Unlock()
	}
}

// waitAnswered waits until the sender gets answers from now on.
func (s *sender) waitAnswered(t *testing.T, what string) {
	t.Helper()
	before := s.answered.Load()
	harness.Eventually(t, what, func() bool { return s.answered.Load() > before+5 })
}

// finish stops the sender and waits for its end.
func (s *sender) finish() { s.stop(); s.ended.Wait() }

// movingNamespace is in the default VPC first, then it belongs to Project web of organization shop, and then not any
// more.
const movingNamespace = "shop-web"

// checkNamespaceMove moves a namespace that an EgressIP selects into a Project and back, while its pods send all the
// time, also while they terminate. A Project does not take over a namespace that exists, so each move deletes it.
func (p *platformFixture) checkNamespaceMove(t *testing.T) string {
	p.createEgressIP(t, "moving", "egressIPs: ["+firstAddress+"], namespaceSelector: {matchExpressions: "+
		"[{key: kubernetes.io/metadata.name, operator: In, values: [mail, "+movingNamespace+"]}]}, "+
		"podSelector: {matchLabels: {role: out}}")
	p.CreateOrganization(t, "shop")
	wires := p.captureWires(t)
	packets := 0
	expect := func(what string) { packets += wires.expectOnly(t, what, "ext-public", firstAddress) }

	outside := p.startInNamespace(t, "m1")
	expect("before")
	// the Project waits until the namespace is deleted, and then creates it
	p.Apply(t, "{apiVersion: kube-dc.com/v1, kind: Project, metadata: {name: web, namespace: shop}, "+
		`spec: {cidrBlock: "10.77.0.0/24", egressNetworkType: cloud}}`)
	p.WaitForObject(t, "Project", "shop", "web", func(o *unstructured.Unstructured) bool {
		return o != nil && harness.FalseReason(o, "Accepted") == "NamespaceTaken"
	})
	outside.waitAnswered(t, "m1 goes on while the Project waits")
	p.DeleteAndWait(t, "Namespace", "", movingNamespace)
	p.WaitProgrammed(t, "Project", "shop", "web")
	outside.finish()
	expect("while it moves into the Project")

	p.waitSubnet(t, "shop-web-default")
	inside := p.startPodInNamespace(t, "m2")
	p.expectEgressAs(t, "s1.mail", firstAddress) // of the default VPC, at the same time
	expect("in the Project")
	p.expectProjectEgress(t, wires)
	inside.waitAnswered(t, "m2 goes on")
	p.DeleteAndWait(t, "Project", "shop", "web")
	p.WaitForObject(t, "Namespace", "", movingNamespace, manifest.Gone)
	inside.finish()
	expect("while it moves out of the Project")

	again := p.startInNamespace(t, "m3")
	again.finish()
	expect("after")
	p.expectUnchanged(t) // the control: the capture sees pods that leave through their node
	wires.expectSeen(t, "node1 "+p.podAddresses["u1"], "uplink-a "+p.nodeAddresses["node1"])
	sent, answered := int64(0), int64(0)
	for _, s := range []*sender{outside, inside, again} {
		t.Logf("%d requests, %d answered", s.sent.Load(), s.answered.Load())
		sent, answered = sent+s.sent.Load(), answered+s.answered.Load()
		if len(s.sources) != 1 || s.sources[firstAddress] == 0 {
			t.Errorf("the internet host saw %v", slices.Collect(maps.Keys(s.sources)))
		}
	}
	return fmt.Sprintf("in and out: %d connections, %d answered; %d packets on every wire, all as %s",
		sent, answered, packets, firstAddress)
}

// startInNamespace creates the namespace in the default VPC and starts a pod there that sends.
func (p *platformFixture) startInNamespace(t *testing.T, pod string) *sender {
	t.Helper()
	p.Apply(t, "{apiVersion: v1, kind: Namespace, metadata: {name: "+movingNamespace+"}}")
	p.WaitForObject(t, "ServiceAccount", movingNamespace, "default", manifest.Exists)
	p.waitSubnet(t, "ovn-default")
	return p.startPodInNamespace(t, pod)
}

// waitSubnet waits until Kube-OVN has assigned a subnet to the namespace.
func (p *platformFixture) waitSubnet(t *testing.T, subnet string) {
	t.Helper()
	p.WaitForObject(t, "Namespace", "", movingNamespace, func(o *unstructured.Unstructured) bool {
		return o != nil && strings.Split(o.GetAnnotations()["ovn.kubernetes.io/logical_switch"], ",")[0] == subnet
	})
}

// startPodInNamespace starts a pod that an EgressIP selects and that sends as soon as it has a network, and for two seconds
// after it is deleted. It waits for the first answers.
func (p *platformFixture) startPodInNamespace(t *testing.T, pod string) *sender {
	t.Helper()
	p.WaitForObject(t, "ServiceAccount", movingNamespace, "default", manifest.Exists)
	p.Apply(t, fmt.Sprintf("{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: %s, labels: {role: out}}, "+
		"spec: {nodeName: node1, terminationGracePeriodSeconds: 3, containers: [{name: main, image: lab/echo, "+
		"lifecycle: {preStop: {sleep: {seconds: 2}}}}]}}", pod, movingNamespace))
	s := p.startSender(t, pod+"."+movingNamespace)
	s.waitAnswered(t, pod+" gets answers")
	return s
}

// expectProjectEgress is a control of checkNamespaceMove: the capture sees a pod of the Project that is not selected,
// with the Project's own address on another network.
func (p *platformFixture) expectProjectEgress(t *testing.T, wires *wirePackets) {
	t.Helper()
	p.RunPod(t, harness.Pod{Namespace: movingNamespace, Name: "plain", Node: "node2"})
	own := ""
	harness.Eventually(t, "a pod that is not selected leaves through the Project's network", func() bool {
		a, err := p.SendRequest("plain."+movingNamespace, "udp://"+harness.InternetAddress+":80")
		own = a.Saw.Addr().String()
		return err == nil
	})
	p.DeleteAndWait(t, "Pod", movingNamespace, "plain")
	wires.expectSeen(t, "ext-cloud "+own)
	wires.take()
}
