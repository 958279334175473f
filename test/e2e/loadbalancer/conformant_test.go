package loadbalancer

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/sallyport/sallyport/internal/lab/program"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// changeService changes a Service and waits until the change is effective everywhere.
func changeService(t *testing.T, h *harness.BackendProject, w harness.ServiceSpec) {
	t.Helper()
	h.ApplyService(t, w)
	waitServicesSynced(t, h)
}

// waitServicesSynced waits until earlier changes of Services are effective. Services have no generation that a status
// could refer to, so it changes another Service afterwards and waits for that change.
func waitServicesSynced(t *testing.T, h *harness.BackendProject) {
	t.Helper()
	h.SyncMarks++
	port := 1000 + h.SyncMarks
	h.ApplyService(t, harness.ServiceSpec{
		Name:        "mark",
		Annotations: `service.nlb.kube-dc.com/bind-on-default-gw-eip: "true"`,
		Ports:       fmt.Sprintf("[{port: %d}]", port),
	})
	harness.Eventually(t, "a mark", func() bool {
		return strings.Contains(balancerVIPs(t, h, "mark-tcp"), fmt.Sprintf(":%d=", port))
	})
	h.SyncFlows(t)
}

// applyOtherService applies a Service with an arbitrary spec, which need not be a load balancer.
func applyOtherService(t *testing.T, h *harness.BackendProject, name, spec string) {
	t.Helper()
	h.Apply(t, fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: {name: %s, namespace: %s}, spec: %s}", name,
		h.Namespace, spec))
}

// waitBackends waits until a load balancer with one port has n backends and every node has the flows.
func waitBackends(t *testing.T, h *harness.BackendProject, balancer string, n int) {
	t.Helper()
	harness.Eventually(t, fmt.Sprintf("%s has %d backends", balancer, n), func() bool {
		return strings.Count(balancerVIPs(t, h, balancer), ":") == n+1
	})
	h.SyncFlows(t)
}

// showChanges shows that a Service of another type becomes a load balancer and that its ports change. The address is
// kept; removed ports are closed.
func showChanges(t *testing.T, h *harness.BackendProject) string {
	for _, kind := range []string{"ClusterIP", "NodePort"} {
		applyOtherService(t, h, "changes",
			fmt.Sprintf("{type: %s, selector: %s, ports: %s}", kind, harness.BackendSelector, harness.HTTPPort))
	}
	address := h.CreateService(t, harness.ServiceSpec{Name: "changes"})
	open := ""
	for _, step := range []struct{ ports, open, closed string }{
		{"[{name: t, port: 80}, {name: u, port: 80, protocol: UDP}]", "http 80, udp 80", ""},
		{
			"[{name: t, port: 80, nodePort: 31080}, {name: u, port: 80, protocol: UDP, nodePort: 31081}]",
			"http 80, udp 80", "",
		},
		{
			"[{name: t, port: 81, targetPort: 80}, {name: u, port: 81, targetPort: 80, protocol: UDP}]",
			"http 81, udp 81",
			"http 80, udp 80",
		},
		{
			"[{name: t, port: 81, targetPort: 80}, {name: more, port: 82, targetPort: 8080}]", "http 81, http 82",
			"udp 81",
		},
		{"[{name: u, port: 80, protocol: UDP}]", "udp 80", "http 81, http 82"},
	} {
		changeService(t, h, harness.ServiceSpec{Name: "changes", Ports: step.ports})
		if now := h.ServiceAddress(t, "changes"); now != address {
			t.Errorf("with the ports %s the address is %s; it was %s", step.ports, now, address)
		}
		for _, target := range targetURLs(address, step.open) {
			h.ExpectBackends(t, "internet", target, harness.InternetAddress, "b1", "b2", "b3")
		}
		expectAllSilent(t, h, []string{"internet"}, targetURLs(address, step.closed))
		open = step.open
	}
	applyOtherService(t, h, "changes", "{type: ExternalName, externalName: example.com}")
	harness.Eventually(t, "nothing is left of it", func() bool {
		return balancerVIPs(t, h, "changes-tcp")+balancerVIPs(t, h, "changes-udp") == ""
	})
	h.SyncFlows(t)
	expectAllSilent(t, h, []string{"internet"}, targetURLs(address, open))
	return "ClusterIP, NodePort, five sets of ports at one address, ExternalName"
}

// targetURLs converts a list such as "http 80, udp 80" to URLs of an address.
func targetURLs(address, list string) (out []string) {
	for item := range strings.SplitSeq(list, ", ") {
		if protocol, port, found := strings.Cut(item, " "); found {
			out = append(out, protocol+"://"+address+":"+port)
		}
	}
	return out
}

// expectAllSilent sends requests to several targets from several places in parallel; none may be answered.
func expectAllSilent(t *testing.T, h *harness.BackendProject, places, targets []string) {
	t.Helper()
	var asking sync.WaitGroup // in parallel, because each request waits for its timeout
	for _, where := range places {
		for _, target := range targets {
			asking.Go(func() { h.ExpectSilence(t, where, target) })
		}
	}
	asking.Wait()
}

// showRangesChange shows changes of the source ranges of a Service, for clients outside and inside.
func showRangesChange(t *testing.T, h *harness.BackendProject) string {
	w := harness.ServiceSpec{Name: "doors"}
	address := h.CreateService(t, w)
	cli, other := "cli."+h.Namespace, "b1."+h.Namespace
	all := []string{"internet", cli, other}
	for _, step := range []struct {
		ranges      string
		may, mayNot []string
	}{
		{"", all, nil},
		{h.Pods["cli"] + "/32", []string{cli}, []string{"internet", other}},
		{"0.0.0.0/1, 128.0.0.0/1", all, nil},
		{"255.0.0.0/32", nil, all},
		{"", all, nil},
	} {
		w.ExtraFields = ", loadBalancerSourceRanges: [" + step.ranges + "]"
		changeService(t, h, w)
		for _, where := range step.may {
			h.ExpectBackends(t, where, "http://"+address, "", "b1", "b2", "b3")
		}
		expectAllSilent(t, h, step.mayNot, []string{"http://" + address})
	}
	return "none, one pod, everybody in two halves, nobody, none"
}

// showAffinitySwitched shows that session affinity can be enabled and disabled, with either traffic policy.
func showAffinitySwitched(t *testing.T, h *harness.BackendProject) string {
	for _, policy := range []string{"Local", "Cluster"} {
		w := harness.ServiceSpec{
			Name:  "switch-" + strings.ToLower(policy),
			Ports: "[{name: t, port: 80}, {name: u, port: 80, protocol: UDP}]",
		}
		with := func(affinity string) {
			w.ExtraFields = ", externalTrafficPolicy: " + policy + ", sessionAffinity: " + affinity
		}
		with("None")
		at := targetURLs(h.CreateService(t, w), "http 80, udp 80")
		for range 2 {
			for _, target := range at {
				h.ExpectBackends(t, "internet", target, harness.InternetAddress, "b1", "b2", "b3")
			}
			with("ClientIP")
			changeService(t, h, w)
			for _, target := range at {
				expectAffinity(t, h, target, 15)
			}
			with("None")
			changeService(t, h, w)
		}
		h.ExpectBackends(t, "internet", at[0], harness.InternetAddress, "b1", "b2", "b3")
	}
	return "on and off twice, with each policy, by TCP and UDP: one backend, and all three"
}

// expectAffinity fails the test unless one backend answers all n requests. With UDP, a request from a port that was
// used before belongs to a flow that conntrack still has, which keeps its own backend.
func expectAffinity(t *testing.T, h *harness.BackendProject, target string, n int) {
	t.Helper()
	first, again, err := h.SendTrackedRequest("internet", target)
	// OVN learns a new client from its first packet and drops that packet
	for i := 0; i < 5 && (again || err != nil && i < 2); i++ {
		first, again, err = h.SendTrackedRequest("internet", target)
	}
	for range n {
		if err != nil {
			t.Errorf("%s: %v", target, err)
			return
		}
		var a program.Answer
		a, again, err = h.SendTrackedRequest("internet", target)
		switch {
		case err != nil || a.Name == first.Name:
		case again && strings.HasPrefix(target, "udp"):
			t.Logf("%s: %s, from a port that it has answered before", target, a.Text)
		default:
			t.Errorf("%s: got %q; wanted %s to answer", target, a.Text, first.Name)
		}
	}
}

// showNodesUnused shows that changes of node ports and traffic policies do not change the row of the load balancer.
func showNodesUnused(t *testing.T, h *harness.BackendProject) string {
	w := harness.ServiceSpec{Name: "ported", ExtraFields: ", allocateLoadBalancerNodePorts: false"}
	address := h.CreateService(t, w)
	if ports := h.ReadField(t, "Service", h.Namespace, "ported", "spec", "ports"); strings.Contains(ports, "nodePort") {
		t.Errorf("without node ports it has %s", ports)
	}
	row := func() string {
		return balancerVIPs(t, h, "ported-tcp") + h.RunNbctl(t, "--bare", "--columns=_uuid,options", "find",
			"Load_Balancer", "name="+sharedBalancer(h))
	}
	first, health := row(), ""
	for _, more := range []string{
		", allocateLoadBalancerNodePorts: true", ", externalTrafficPolicy: Local", ", externalTrafficPolicy: Cluster",
		", internalTrafficPolicy: Local",
	} {
		w.ExtraFields = more
		changeService(t, h, w)
		health += h.ReadField(t, "Service", h.Namespace, "ported", "spec", "healthCheckNodePort")
		if now := row(); now != first || h.ServiceAddress(t, "ported") != address {
			t.Errorf("with%s the row is\n%s\nit was\n%s", more, now, first)
		}
		h.ExpectBackends(t, "internet", "http://"+address, harness.InternetAddress, "b1", "b2", "b3")
	}
	if ports := h.ReadField(t, "Service", h.Namespace, "ported", "spec", "ports"); !strings.Contains(ports,
		"nodePort") || health == "" {
		t.Errorf("Kubernetes gave the ports %s and for health checks %q", ports, health)
	}
	return "node ports and both policies changed; the row is the same"
}

// showLocalMoves moves the only endpoint of a Service with policy Local from node to node. It is reachable each time
// and sees the client's address.
func showLocalMoves(t *testing.T, h *harness.BackendProject) string {
	address := h.CreateService(t, harness.ServiceSpec{
		Name: "local", Selector: "{app: mover}", ExtraFields: ", externalTrafficPolicy: Local",
		Ports: "[{name: t, port: 80}, {name: u, port: 80, protocol: UDP}, {name: s, port: 80, protocol: SCTP}]",
	})
	asked := 0
	for _, node := range []string{"node1", "node2", "node3"} {
		h.RunPod(t, harness.Pod{Namespace: h.Namespace, Name: "mover", Node: node})
		for _, protocol := range []string{"tcp", "udp", "sctp"} {
			waitBackends(t, h, "local-"+protocol, 1)
		}
		for where, saw := range map[string]string{
			"internet":             harness.InternetAddress,
			"cli." + h.Namespace:   h.Pods["cli"],
			"mover." + h.Namespace: "",
		} {
			asked += h.ExpectAnswers(t, where, address, "mover", saw)
		}
		h.DeleteAndWait(t, "Pod", h.Namespace, "mover")
		waitBackends(t, h, "local-tcp", 0)
	}
	return fmt.Sprintf("%d ways to it on three nodes, from outside, from a pod and from itself; who asks is seen",
		asked)
}
