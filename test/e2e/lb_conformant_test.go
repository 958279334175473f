package e2e

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/sallyport/sallyport/internal/lab/program"
)

// becomes changes a Service and waits until the change is seen everywhere.
func (h *hall) becomes(t *testing.T, w wish) {
	t.Helper()
	h.ask4(t, w)
	h.seen(t)
}

// seen waits until what was written to Services has had its effect. They have no generation that a status could name, so it changes
// another one afterwards and waits for that.
func (h *hall) seen(t *testing.T) {
	t.Helper()
	h.marks++
	port := 1000 + h.marks
	h.ask4(t, wish{name: "mark", annotations: `service.nlb.kube-dc.com/bind-on-default-gw-eip: "true"`, ports: fmt.Sprintf("[{port: %d}]", port)})
	eventually(t, "a mark", func() bool { return strings.Contains(h.vips(t, "mark-tcp"), fmt.Sprintf(":%d=", port)) })
	h.sync(t)
}

// becomesNone makes a Service that is no load balancer, or makes it such a one.
func (h *hall) becomesNone(t *testing.T, name, spec string) {
	t.Helper()
	h.apply(t, fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: {name: %s, namespace: %s}, spec: %s}", name, h.ns, spec))
}

// backed waits until a load balancer with one port has so many backends, and every node knows it.
func (h *hall) backed(t *testing.T, balancer string, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%s has %d backends", balancer, n), func() bool { return strings.Count(h.vips(t, balancer), ":") == n+1 })
	h.sync(t)
}

// changes: a Service that had another type becomes a load balancer, and its ports change. The address stays; what it no longer has
// is closed.
func (h *hall) changes(t *testing.T) string {
	for _, kind := range []string{"ClusterIP", "NodePort"} {
		h.becomesNone(t, "changes", fmt.Sprintf("{type: %s, selector: %s, ports: %s}", kind, backends, web))
	}
	address := h.serve(t, wish{name: "changes"})
	open := ""
	for _, step := range []struct{ ports, open, closed string }{
		{"[{name: t, port: 80}, {name: u, port: 80, protocol: UDP}]", "http 80, udp 80", ""},
		{"[{name: t, port: 80, nodePort: 31080}, {name: u, port: 80, protocol: UDP, nodePort: 31081}]", "http 80, udp 80", ""},
		{"[{name: t, port: 81, targetPort: 80}, {name: u, port: 81, targetPort: 80, protocol: UDP}]", "http 81, udp 81", "http 80, udp 80"},
		{"[{name: t, port: 81, targetPort: 80}, {name: more, port: 82, targetPort: 8080}]", "http 81, http 82", "udp 81"},
		{"[{name: u, port: 80, protocol: UDP}]", "udp 80", "http 81, http 82"},
	} {
		h.becomes(t, wish{name: "changes", ports: step.ports})
		if now := h.addressOf(t, "changes"); now != address {
			t.Errorf("with the ports %s the address is %s; it was %s", step.ports, now, address)
		}
		for _, target := range targets(address, step.open) {
			h.spread(t, "internet", target, theInternet, "b1", "b2", "b3")
		}
		h.allSilent(t, []string{"internet"}, targets(address, step.closed))
		open = step.open
	}
	h.becomesNone(t, "changes", "{type: ExternalName, externalName: example.com}")
	eventually(t, "nothing is left of it", func() bool { return h.vips(t, "changes-tcp")+h.vips(t, "changes-udp") == "" })
	h.sync(t)
	h.allSilent(t, []string{"internet"}, targets(address, open))
	return "ClusterIP, NodePort, five sets of ports at one address, ExternalName"
}

// targets are what is written as "http 80, udp 80", at an address.
func targets(address, list string) (out []string) {
	for item := range strings.SplitSeq(list, ", ") {
		if protocol, port, found := strings.Cut(item, " "); found {
			out = append(out, protocol+"://"+address+":"+port)
		}
	}
	return out
}

// allSilent asks several targets from several places at once, and none may answer.
func (h *hall) allSilent(t *testing.T, places, targets []string) {
	t.Helper()
	var asking sync.WaitGroup // each waits for an answer that does not come
	for _, where := range places {
		for _, target := range targets {
			asking.Go(func() { h.silent(t, where, target) })
		}
	}
	asking.Wait()
}

// rangesChange: who may reach a Service is changed while it is there, from outside and from inside.
func (h *hall) rangesChange(t *testing.T) string {
	w := wish{name: "doors"}
	address := h.serve(t, w)
	cli, other := "cli."+h.ns, "b1."+h.ns
	all := []string{"internet", cli, other}
	for _, step := range []struct {
		ranges      string
		may, mayNot []string
	}{
		{"", all, nil},
		{h.pods["cli"] + "/32", []string{cli}, []string{"internet", other}},
		{"0.0.0.0/1, 128.0.0.0/1", all, nil},
		{"255.0.0.0/32", nil, all},
		{"", all, nil},
	} {
		w.more = ", loadBalancerSourceRanges: [" + step.ranges + "]"
		h.becomes(t, w)
		for _, where := range step.may {
			h.spread(t, where, "http://"+address, "", "b1", "b2", "b3")
		}
		h.allSilent(t, step.mayNot, []string{"http://" + address})
	}
	return "none, one pod, everybody in two halves, nobody, none"
}

// affinitySwitched: affinity comes and goes while the Service is there, with either traffic policy.
func (h *hall) affinitySwitched(t *testing.T) string {
	for _, policy := range []string{"Local", "Cluster"} {
		w := wish{name: "switch-" + strings.ToLower(policy), ports: "[{name: t, port: 80}, {name: u, port: 80, protocol: UDP}]"}
		with := func(affinity string) {
			w.more = ", externalTrafficPolicy: " + policy + ", sessionAffinity: " + affinity
		}
		with("None")
		at := targets(h.serve(t, w), "http 80, udp 80")
		for range 2 {
			for _, target := range at {
				h.spread(t, "internet", target, theInternet, "b1", "b2", "b3")
			}
			with("ClientIP")
			h.becomes(t, w)
			for _, target := range at {
				h.sticks(t, target, 15)
			}
			with("None")
			h.becomes(t, w)
		}
		h.spread(t, "internet", at[0], theInternet, "b1", "b2", "b3")
	}
	return "on and off twice, with each policy, by TCP and UDP: one backend, and all three"
}

// sticks fails the test unless one backend answers all of so many questions. By UDP, a question from a port that was used before belongs to
// the flow that conntrack remembers, which keeps its own backend.
func (h *hall) sticks(t *testing.T, target string, n int) {
	t.Helper()
	first, again, err := h.asks("internet", target)
	for i := 0; i < 5 && (again || err != nil && i < 2); i++ { // OVN learns a new client from its first packet, and drops that
		first, again, err = h.asks("internet", target)
	}
	for range n {
		if err != nil {
			t.Errorf("%s: %v", target, err)
			return
		}
		var a program.Answer
		a, again, err = h.asks("internet", target)
		switch {
		case err != nil || a.Name == first.Name:
		case again && strings.HasPrefix(target, "udp"):
			t.Logf("%s: %s, from a port that it has answered before", target, a.Text)
		default:
			t.Errorf("%s: got %q; wanted %s to answer", target, a.Text, first.Name)
		}
	}
}

// nodesUnused: node ports and traffic policies may change as they like. The load balancer's row stays as it is.
func (h *hall) nodesUnused(t *testing.T) string {
	w := wish{name: "ported", more: ", allocateLoadBalancerNodePorts: false"}
	address := h.serve(t, w)
	if ports := h.field(t, "Service", h.ns, "ported", "spec", "ports"); strings.Contains(ports, "nodePort") {
		t.Errorf("without node ports it has %s", ports)
	}
	row := func() string {
		return h.nbctl(t, "--bare", "find", "Load_Balancer", "name="+h.ns+"-ported-tcp")
	}
	first, health := row(), ""
	for _, more := range []string{
		", allocateLoadBalancerNodePorts: true", ", externalTrafficPolicy: Local", ", externalTrafficPolicy: Cluster", ", internalTrafficPolicy: Local",
	} {
		w.more = more
		h.becomes(t, w)
		health += h.field(t, "Service", h.ns, "ported", "spec", "healthCheckNodePort")
		if now := row(); now != first || h.addressOf(t, "ported") != address {
			t.Errorf("with%s the row is\n%s\nit was\n%s", more, now, first)
		}
		h.spread(t, "internet", "http://"+address, theInternet, "b1", "b2", "b3")
	}
	if ports := h.field(t, "Service", h.ns, "ported", "spec", "ports"); !strings.Contains(ports, "nodePort") || health == "" {
		t.Errorf("Kubernetes gave the ports %s and for health checks %q", ports, health)
	}
	return "node ports and both policies changed; the row is the same"
}

// localMoves: with policy Local the only endpoint is on one node after the other. Each time it is reached, and sees who asks.
func (h *hall) localMoves(t *testing.T) string {
	address := h.serve(t, wish{
		name: "local", selector: "{app: mover}", more: ", externalTrafficPolicy: Local",
		ports: "[{name: t, port: 80}, {name: u, port: 80, protocol: UDP}, {name: s, port: 80, protocol: SCTP}]",
	})
	asked := 0
	for _, node := range []string{"node1", "node2", "node3"} {
		h.run(t, pod{namespace: h.ns, name: "mover", node: node})
		for _, protocol := range []string{"tcp", "udp", "sctp"} {
			h.backed(t, "local-"+protocol, 1)
		}
		for where, saw := range map[string]string{"internet": theInternet, "cli." + h.ns: h.pods["cli"], "mover." + h.ns: ""} {
			asked += h.everyWay(t, where, address, "mover", saw)
		}
		h.remove(t, "Pod", h.ns, "mover")
		h.backed(t, "local-tcp", 0)
	}
	return fmt.Sprintf("%d ways to it on three nodes, from outside, from a pod and from itself; who asks is seen", asked)
}
