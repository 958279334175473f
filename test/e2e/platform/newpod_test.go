package platform

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// checkNewPods measures how long after its first packet a new pod gets its first answer from outside: a selected pod
// with the egress address, and for comparison one that is not selected.
func (p *platformFixture) checkNewPods(t *testing.T) string {
	p.redirectPods(t)
	p.expectEgressAs(t, "s1.mail", egressAddress)
	var selected, other []time.Duration
	for i := range show.ChooseSize(20, 3) {
		selected = append(selected, p.measureFirstAnswer(t, "mail", fmt.Sprintf("f%d", i), egressAddress))
		other = append(other, p.measureFirstAnswer(t, "plain", fmt.Sprintf("g%d", i), p.nodeAddresses["node1"]))
	}
	return fmt.Sprintf("first answer after the first packet: %s as %s, %s through its node if not selected",
		describeDelays(selected), egressAddress, describeDelays(other))
}

// describeDelays returns the median and the worst.
func describeDelays(of []time.Duration) string {
	slices.Sort(of)
	return fmt.Sprintf("%d ms (median), %d ms (worst of %d)", of[len(of)/2].Milliseconds(), of[len(of)-1].Milliseconds(),
		len(of))
}

// measureFirstAnswer starts a pod that sends as soon as it has a network, and returns the time from the first packet to
// the first answer, which the source address has to be right in.
func (p *platformFixture) measureFirstAnswer(t *testing.T, namespace, name, source string) time.Duration {
	t.Helper()
	p.Apply(t, fmt.Sprintf("{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: %s, labels: {role: out}}, "+
		"spec: {nodeName: node1, containers: [{name: main, image: lab/echo}]}}", name, namespace))
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	conn := p.dialWhenReady(ctx, t, name+"."+namespace)
	defer conn.Close() //nolint:errcheck // nothing is kept in it
	first := time.Now()
	go func() {
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			_, _ = conn.Write([]byte("hello\n")) // losses are what is measured
			<-tick.C
		}
	}()
	answer := make([]byte, 200)
	_ = conn.SetReadDeadline(first.Add(time.Minute))
	n, err := conn.Read(answer)
	took := time.Since(first)
	if text := string(answer[:n]); err != nil || !strings.Contains(text, " saw "+source+":") {
		t.Errorf("%s: the first answer is %q (%v), want that %s was seen", name, text, err, source)
	}
	cancel()
	p.DeleteAndWait(t, "Pod", namespace, name)
	p.WaitForObject(t, "Pod", namespace, name, manifest.Gone)
	return took
}

// dialWhenReady returns a socket of a pod as soon as the pod has a route to the internet.
func (p *platformFixture) dialWhenReady(ctx context.Context, t *testing.T, pod string) net.Conn {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := p.NS(pod).Dial(ctx, "udp", harness.InternetAddress+":80")
		if err == nil {
			return conn
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s gets no network: %v", pod, err)
		}
	}
}
