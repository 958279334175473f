package e2e

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/lab/manifest"
)

// withoutEndpoints: a connection is refused at once, and works when there is an endpoint.
func (h *hall) withoutEndpoints(t *testing.T) string {
	address := h.serve(t, wish{name: "empty", selector: "{app: late}"})
	begun := time.Now()
	_, err := h.ask("internet", "http://"+address)
	took := time.Since(begun)
	if err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("without endpoints: %v; wanted a refusal", err)
	}
	h.run(t, pod{namespace: h.ns, name: "late", node: "node2"})
	t.Cleanup(func() { h.remove(t, "Pod", h.ns, "late") })
	eventually(t, "an endpoint", func() bool { return strings.Contains(h.vips(t, "empty-tcp"), "=10.") })
	h.sync(t)
	h.answers(t, "internet", "http://"+address, "late", theInternet)
	return fmt.Sprintf("refused after %s; answered when there was a pod", took.Round(time.Millisecond))
}

// affinity: with it a client always reaches the same backend, also by new connections; without it, all.
func (h *hall) affinity(t *testing.T) string {
	sticky := h.serve(t, wish{name: "sticky", more: ", sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 3}}"})
	plain := h.serve(t, wish{name: "loose"})
	first, err := h.ask("internet", "http://"+sticky)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		h.answers(t, "internet", "http://"+sticky, first.Name, theInternet)
	}
	h.spread(t, "internet", "http://"+plain, theInternet, "b1", "b2", "b3")
	seen := map[string]bool{}
	for range 6 { // after each timeout it is balanced anew
		<-time.After(4 * time.Second)
		if a, err := h.ask("internet", "http://"+sticky); err == nil {
			seen[a.Name] = true
		}
		if len(seen) > 1 {
			break
		}
	}
	if len(seen) < 2 {
		t.Errorf("after the timeout the client still reaches %v only", seen)
	}
	return "20 connections to one backend; another one after the timeout; all three without affinity"
}

// trafficPolicy: the server sees the client with either policy, and the packet goes from the gateway to the backend's node at once.
func (h *hall) trafficPolicy(t *testing.T) string {
	asked := 0
	for _, policy := range []string{"Local", "Cluster"} {
		address := h.serve(t, wish{name: "policy-" + strings.ToLower(policy), more: ", externalTrafficPolicy: " + policy})
		asked += h.spread(t, "internet", "http://"+address, theInternet, "b1", "b2", "b3")
	}
	return fmt.Sprintf("%d requests; backends on all nodes, client's address seen with both policies", asked)
}

// sourceRanges: a client of the range gets an answer, another none; the same inside; and all when there is no range.
func (h *hall) sourceRanges(t *testing.T) string {
	x := h.network(t, "public")
	ranges := fmt.Sprintf(", loadBalancerSourceRanges: [%s/32, %s/32]", x.clientAddress, h.pods["cli"])
	w := wish{name: "ranged", annotations: "network.kube-dc.com/external-network-type: public", more: ranges}
	address := h.serve(t, w)
	h.spread(t, x.client, "http://"+address, x.clientAddress, "b1", "b2", "b3")
	h.spread(t, "cli."+h.ns, "http://"+address, h.pods["cli"], "b1", "b2", "b3")
	h.silent(t, "internet", "http://"+address)
	h.silent(t, x.neighbour, "http://"+address)
	h.silent(t, "b1."+h.ns, "http://"+address)
	w.more = ", loadBalancerSourceRanges: []"
	h.ask4(t, w)
	eventually(t, "no rules", func() bool {
		return h.nbctl(t, "--bare", "--columns=_uuid", "find", "ACL", `external_ids:sallyport-owner="Service/`+h.ns+`/ranged"`) == ""
	})
	h.sync(t)
	h.spread(t, "internet", "http://"+address, theInternet, "b1", "b2", "b3")
	return "two answered, three were dropped, and all answered without ranges"
}

// healthChecks: of two ready pods one listens. Without a check half of the connections fail; with it none.
func (h *hall) healthChecks(t *testing.T) string {
	both := map[string]string{"pair": "yes"}
	h.run(t, pod{namespace: h.ns, name: "good", node: "node1", labels: both})
	h.run(t, pod{namespace: h.ns, name: "deaf", node: "node3", labels: both, image: "lab/idle"})
	t.Cleanup(func() {
		h.remove(t, "Pod", h.ns, "good")
		h.remove(t, "Pod", h.ns, "deaf")
	})
	w := wish{name: "checked", selector: "{pair: 'yes'}"}
	address := h.serve(t, w)
	if failed := h.failures(address, 20); failed == 0 {
		t.Error("one of two backends does not listen, and every connection worked without a check")
	}
	w.annotations = `service.nlb.kube-dc.com/health-check: "interval=1,timeout=1,failures=1,successes=1"`
	h.ask4(t, w)
	took := eventually(t, "OVN has found out", func() bool {
		return strings.Contains(h.sbctl(t, "--columns=status", "find", "Service_Monitor", "logical_port=deaf."+h.ns), "offline")
	})
	h.sync(t)
	failed := h.failures(address, 20)
	if failed > 0 {
		t.Errorf("with checks %d of 20 connections failed", failed)
	}
	return fmt.Sprintf("left out after %s; then 20 of 20 connections worked", took.Round(100*time.Millisecond))
}

func (h *hall) failures(address string, n int) (failed int) {
	for range n {
		if _, err := h.ask("internet", "http://"+address); err != nil {
			failed++
		}
	}
	return failed
}

// terminating: the only pod is deleted and takes its time. It serves until it is gone.
func (h *hall) terminating(t *testing.T) string {
	h.apply(t, fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: slow, namespace: %s, labels: {app: slow}}, spec: {nodeName: node1,
  terminationGracePeriodSeconds: 6, containers: [{name: main, image: lab/echo, lifecycle: {preStop: {sleep: {seconds: 4}}}}]}}`, h.ns))
	h.wait(t, "Pod", h.ns, "slow", manifest.True("Ready"))
	address := h.serve(t, wish{name: "ends", selector: "{app: slow}"})
	h.answers(t, "internet", "http://"+address, "slow", theInternet)
	begun := time.Now()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		h.remove(t, "Pod", h.ns, "slow")
	}()
	served, failed := 0, 0
	for time.Since(begun) < 3*time.Second {
		if _, err := h.ask("internet", "http://"+address); err != nil {
			failed++
		}
		served++
	}
	<-gone
	if failed > 0 {
		t.Errorf("%d of %d connections failed while the only pod was ending", failed, served)
	}
	return fmt.Sprintf("%d connections while it was ending, none failed", served)
}

// stale: a UDP client that goes on sending from one port reaches another backend when its own is gone.
func (h *hall) stale(t *testing.T) string {
	role := map[string]string{"udp": "yes"}
	for name, node := range map[string]string{"u1": "node1", "u2": "node3"} {
		h.run(t, pod{namespace: h.ns, name: name, node: node, labels: role})
		t.Cleanup(func() { h.remove(t, "Pod", h.ns, name) })
	}
	address := h.serve(t, wish{name: "flows", selector: "{udp: 'yes'}", ports: "[{port: 80, protocol: UDP}]"})
	conn, err := h.NS("internet").Dial(within(t, time.Minute), "udp", address+":80")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // the test is over
	first := whoAnswers(conn)
	if first == "" {
		t.Fatal("nobody answers")
	}
	h.remove(t, "Pod", h.ns, first)
	begun, next := time.Now(), ""
	for time.Since(begun) < 5*time.Second && (next == "" || next == first) {
		next = whoAnswers(conn)
	}
	if next == "" || next == first {
		t.Errorf("after the end of %s the client hears %q", first, next)
	}
	return fmt.Sprintf("the same socket reaches %s %s after the end of %s", next, time.Since(begun).Round(10*time.Millisecond), first)
}

// whoAnswers says a line on a socket and returns who answers; nobody: empty.
func whoAnswers(conn net.Conn) string {
	if err := conn.SetDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
		return ""
	}
	if _, err := conn.Write([]byte("hello\n")); err != nil {
		return ""
	}
	buffer := make([]byte, 1500)
	n, err := conn.Read(buffer)
	if err != nil {
		return ""
	}
	name, _, _ := strings.Cut(string(buffer[:n]), " saw ")
	return name
}

// fromInside: pods reach the external address, also the backend that it leads to, on every network.
func (h *hall) fromInside(t *testing.T) string {
	asked := 0
	for _, kind := range kindsOfNetwork {
		address := h.serve(t, wish{name: "inside-" + kind, annotations: "network.kube-dc.com/external-network-type: " + kind})
		for _, from := range []string{"cli", "b1", "b2", "b3"} {
			asked += h.spread(t, from+"."+h.ns, "http://"+address, "", "b1", "b2", "b3")
		}
	}
	return fmt.Sprintf("%d requests of four pods to three networks", asked)
}
