package platform

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	ovnv1 "github.com/sallyport/sallyport/api/ovn/v1"
	"github.com/sallyport/sallyport/internal/lab/program"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// sources counts the source addresses that the internet host saw.
type sources struct {
	mu       sync.Mutex
	counts   map[netip.Addr]int
	attempts atomic.Int64
}

// askRepeatedly sends requests from a pod until the number of attempts is reached, each over a flow of its own.
func (p *platformFixture) askRepeatedly(ctx context.Context, pod string, limit int64, seen *sources) {
	for seen.attempts.Add(1) <= limit && ctx.Err() == nil {
		one, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		a, err := program.Ask(one, p.NS(pod), "udp://"+harness.InternetAddress+":80")
		cancel()
		if err == nil {
			seen.mu.Lock()
			seen.counts[a.Saw.Addr()]++
			seen.mu.Unlock()
		}
	}
}

// checkLeaks opens connections from selected pods while other pods, labels, nodes, EgressIPs and the controller change,
// and starts selected pods that send at once. Nothing may be seen with another address, and nothing may pass a node.
func (p *platformFixture) checkLeaks(t *testing.T) string {
	p.redirectPods(t)
	leaks := p.capturePodPackets(t)
	seen := &sources{counts: map[netip.Addr]int{}}
	limit := int64(show.ChooseSize(10_000, 2000))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var asking sync.WaitGroup
	for _, pod := range []string{"s1.mail", "s3.mail", "s1.mail", "s3.mail"} {
		asking.Go(func() { p.askRepeatedly(ctx, pod, limit, seen) })
	}
	watched, changes, asked := []string{"s1", "s3"}, 0, limit
	for i := 0; seen.attempts.Load() < limit || i < 1; i++ {
		pod := fmt.Sprintf("n%d", i)
		p.changeEverything(t, pod, seen)
		watched, changes, asked = append(watched, pod), changes+len(changedThings), asked+newPodRequests
	}
	asking.Wait()
	for _, pod := range watched {
		if got := leaks.count(p.podAddresses[pod]); got > 0 {
			t.Errorf("%d packets of %s passed a node", got, pod)
		}
	}
	p.expectUnchanged(t) // the control: the capture sees pods that are not selected
	if leaks.count(p.podAddresses["u1"]) == 0 {
		t.Error("the capture sees nothing")
	}
	answered := seen.counts[netip.MustParseAddr(egressAddress)]
	if others := slices.Collect(maps.Keys(seen.counts)); len(others) != 1 || answered < int(asked)/2 {
		t.Errorf("of %d connections %v were seen, want most and all as %s", asked, seen.counts, egressAddress)
	}
	return fmt.Sprintf("%d connections during %d changes, %d answered, all as %s; %d pods watched on every node, none passed one",
		asked, changes, answered, egressAddress, len(watched))
}

// newPodRequests is how many requests a new pod sends.
const newPodRequests = 10

// changedThings are what changeEverything changes, in order.
var changedThings = []string{"a new pod", "a pod's label", "a namespace's label", "an EgressIP", "a node", "the controller"}

// changeEverything changes each of changedThings and changes it back. The new pod is selected and sends at once.
func (p *platformFixture) changeEverything(t *testing.T, newPod string, seen *sources) {
	t.Helper()
	p.runPod(t, harness.Pod{Namespace: "mail", Name: newPod, Node: "node1", Labels: map[string]string{"role": "out"}})
	one := &sources{counts: map[netip.Addr]int{}}
	p.askRepeatedly(t.Context(), newPod+".mail", newPodRequests, one)
	seen.mu.Lock()
	for source, n := range one.counts {
		seen.counts[source] += n
	}
	seen.mu.Unlock()
	p.SetLabel(t, "Pod mail u1", "role", "out")
	p.SetLabel(t, "Pod mail u1", "role", "-")
	p.SetLabel(t, "Namespace plain", "egress", "mail")
	p.SetLabel(t, "Namespace plain", "egress", "-")
	p.Apply(t, "{apiVersion: k8s.ovn.org/v1, kind: EgressIP, metadata: {name: "+newPod+"}, spec: {egressIPs: "+
		"[198.51.100.202], namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: plain}}}}")
	p.DeleteAndWait(t, "EgressIP", "", newPod)
	holder := p.holder(t, "mail")
	p.SetLabel(t, "Node "+holder, ovnv1.AssignableLabel, "-")
	harness.Eventually(t, "the address moves", func() bool { return p.holder(t, "mail") != holder })
	p.SetLabel(t, "Node "+holder, ovnv1.AssignableLabel, "")
	p.Stop(syscall.SIGKILL)
	p.Start(t)
	p.DeleteAndWait(t, "Pod", "mail", newPod)
}
