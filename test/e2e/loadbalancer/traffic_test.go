package loadbalancer

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// showWithoutEndpoints shows that a connection is refused at once without endpoints, and works when there is one.
func showWithoutEndpoints(t *testing.T, h *harness.BackendProject) string {
	address := h.CreateService(t, harness.ServiceSpec{Name: "empty", Selector: "{app: late}"})
	begun := time.Now()
	_, err := h.SendRequest("internet", "http://"+address)
	took := time.Since(begun)
	if err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("without endpoints: %v; wanted a refusal", err)
	}
	h.RunPod(t, harness.Pod{Namespace: h.Namespace, Name: "late", Node: "node2"})
	t.Cleanup(func() { h.DeleteAndWait(t, "Pod", h.Namespace, "late") })
	harness.Eventually(t, "an endpoint", func() bool {
		return strings.Contains(balancerVIPs(t, h, "empty-tcp"), "=10.")
	})
	h.SyncFlows(t)
	h.ExpectAnswer(t, "internet", "http://"+address, "late", harness.InternetAddress)
	return fmt.Sprintf("refused after %s; answered when there was a pod", took.Round(time.Millisecond))
}

// showAffinity shows that with session affinity a client always reaches the same backend, also with new connections,
// and all backends without it.
func showAffinity(t *testing.T, h *harness.BackendProject) string {
	sticky := h.CreateService(t, harness.ServiceSpec{
		Name:        "sticky",
		ExtraFields: ", sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 3}}",
	})
	plain := h.CreateService(t, harness.ServiceSpec{Name: "loose"})
	first, err := h.SendRequest("internet", "http://"+sticky)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		h.ExpectAnswer(t, "internet", "http://"+sticky, first.Name, harness.InternetAddress)
	}
	h.ExpectBackends(t, "internet", "http://"+plain, harness.InternetAddress, "b1", "b2", "b3")
	seen := map[string]bool{}
	for range 6 { // after each timeout a new backend is chosen
		<-time.After(4 * time.Second)
		if a, err := h.SendRequest("internet", "http://"+sticky); err == nil {
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

// showTrafficPolicy shows that the server sees the client's address with either policy, and that packets go directly
// from the gateway to the backend's node.
func showTrafficPolicy(t *testing.T, h *harness.BackendProject) string {
	asked := 0
	for _, policy := range []string{"Local", "Cluster"} {
		address := h.CreateService(t, harness.ServiceSpec{
			Name:        "policy-" + strings.ToLower(policy),
			ExtraFields: ", externalTrafficPolicy: " + policy,
		})
		asked += h.ExpectBackends(t, "internet", "http://"+address, harness.InternetAddress, "b1", "b2", "b3")
	}
	return fmt.Sprintf("%d requests; backends on all nodes, client's address seen with both policies", asked)
}

// showSourceRanges shows that a client in the range gets an answer and another client none, outside and inside, and
// that all clients do without ranges.
func showSourceRanges(t *testing.T, h *harness.BackendProject) string {
	x := h.Network(t, "public")
	ranges := fmt.Sprintf(", loadBalancerSourceRanges: [%s/32, %s/32]", x.ClientAddress, h.Pods["cli"])
	w := harness.ServiceSpec{
		Name:        "ranged",
		Annotations: "network.kube-dc.com/external-network-type: public",
		ExtraFields: ranges,
	}
	address := h.CreateService(t, w)
	h.ExpectBackends(t, x.Client, "http://"+address, x.ClientAddress, "b1", "b2", "b3")
	h.ExpectBackends(t, "cli."+h.Namespace, "http://"+address, h.Pods["cli"], "b1", "b2", "b3")
	h.ExpectSilence(t, "internet", "http://"+address)
	h.ExpectSilence(t, x.Neighbour, "http://"+address)
	h.ExpectSilence(t, "b1."+h.Namespace, "http://"+address)
	w.ExtraFields = ", loadBalancerSourceRanges: []"
	h.ApplyService(t, w)
	harness.Eventually(t, "no rules", func() bool {
		return h.RunNbctl(t, "--bare", "--columns=_uuid", "find", "ACL",
			`external_ids:sallyport-owner="Service/`+h.Namespace+`/ranged"`) == ""
	})
	h.SyncFlows(t)
	h.ExpectBackends(t, "internet", "http://"+address, harness.InternetAddress, "b1", "b2", "b3")
	return "two answered, three were dropped, and all answered without ranges"
}

// showHealthChecks uses two ready pods of which one listens. Without a health check half of the connections fail; with
// it none.
func showHealthChecks(t *testing.T, h *harness.BackendProject) string {
	both := map[string]string{"pair": "yes"}
	h.RunPod(t, harness.Pod{Namespace: h.Namespace, Name: "good", Node: "node1", Labels: both})
	h.RunPod(t, harness.Pod{Namespace: h.Namespace, Name: "deaf", Node: "node3", Labels: both, Image: "lab/idle"})
	t.Cleanup(func() {
		h.DeleteAndWait(t, "Pod", h.Namespace, "good")
		h.DeleteAndWait(t, "Pod", h.Namespace, "deaf")
	})
	w := harness.ServiceSpec{Name: "checked", Selector: "{pair: 'yes'}"}
	address := h.CreateService(t, w)
	if failed := countFailures(h, address, 20); failed == 0 {
		t.Error("one of two backends does not listen, and every connection worked without a check")
	}
	w.Annotations = `service.nlb.kube-dc.com/health-check: "interval=1,timeout=1,failures=1,successes=1"`
	h.ApplyService(t, w)
	took := harness.Eventually(t, "OVN has found out", func() bool {
		return strings.Contains(h.RunSbctl(t, "--columns=status", "find", "Service_Monitor",
			"logical_port=deaf."+h.Namespace), "offline")
	})
	h.SyncFlows(t)
	failed := countFailures(h, address, 20)
	if failed > 0 {
		t.Errorf("with checks %d of 20 connections failed", failed)
	}
	return fmt.Sprintf("left out after %s; then 20 of 20 connections worked", took.Round(100*time.Millisecond))
}

func countFailures(h *harness.BackendProject, address string, n int) (failed int) {
	for range n {
		if _, err := h.SendRequest("internet", "http://"+address); err != nil {
			failed++
		}
	}
	return failed
}

// showTerminating deletes the only pod, which terminates slowly. It serves until it is gone.
func showTerminating(t *testing.T, h *harness.BackendProject) string {
	h.Apply(t, fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: slow, namespace: %s, labels: {app: slow}}, spec: {nodeName: node1,
  terminationGracePeriodSeconds: 6, containers: [{name: main, image: lab/echo, lifecycle: {preStop: {sleep: {seconds: 4}}}}]}}`, h.Namespace))
	h.WaitForObject(t, "Pod", h.Namespace, "slow", manifest.True("Ready"))
	address := h.CreateService(t, harness.ServiceSpec{Name: "ends", Selector: "{app: slow}"})
	h.ExpectAnswer(t, "internet", "http://"+address, "slow", harness.InternetAddress)
	begun := time.Now()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		h.DeleteAndWait(t, "Pod", h.Namespace, "slow")
	}()
	served, failed := 0, 0
	for time.Since(begun) < 3*time.Second {
		if _, err := h.SendRequest("internet", "http://"+address); err != nil {
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

// showStale shows that a UDP client that keeps sending from one port reaches another backend when its own is gone.
func showStale(t *testing.T, h *harness.BackendProject) string {
	role := map[string]string{"udp": "yes"}
	for name, node := range map[string]string{"u1": "node1", "u2": "node3"} {
		h.RunPod(t, harness.Pod{Namespace: h.Namespace, Name: name, Node: node, Labels: role})
		t.Cleanup(func() { h.DeleteAndWait(t, "Pod", h.Namespace, name) })
	}
	address := h.CreateService(t, harness.ServiceSpec{
		Name:     "flows",
		Selector: "{udp: 'yes'}",
		Ports:    "[{port: 80, protocol: UDP}]",
	})
	conn, err := h.NS("internet").Dial(harness.Within(t, harness.Patience), "udp", address+":80")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // the test is over
	first := harness.AskBackendName(conn)
	if first == "" {
		t.Fatal("nobody answers")
	}
	h.DeleteAndWait(t, "Pod", h.Namespace, first)
	begun, next := time.Now(), ""
	for time.Since(begun) < harness.Patience && (next == "" || next == first) {
		next = harness.AskBackendName(conn)
	}
	if next == "" || next == first {
		t.Errorf("after the end of %s the client hears %q", first, next)
	}
	return fmt.Sprintf("the same socket reaches %s %s after the end of %s", next,
		time.Since(begun).Round(10*time.Millisecond), first)
}

// showFromInside shows that pods reach the external address on every network, including the backend itself.
func showFromInside(t *testing.T, h *harness.BackendProject) string {
	asked := 0
	for _, kind := range harness.NetworkTypes {
		address := h.CreateService(t, harness.ServiceSpec{
			Name:        "inside-" + kind,
			Annotations: "network.kube-dc.com/external-network-type: " + kind,
		})
		for _, from := range []string{"cli", "b1", "b2", "b3"} {
			asked += h.ExpectBackends(t, from+"."+h.Namespace, "http://"+address, "", "b1", "b2", "b3")
		}
	}
	return fmt.Sprintf("%d requests of four pods to three networks", asked)
}
