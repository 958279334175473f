package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sallyport/sallyport/internal/lab/manifest"
)

// server starts a pod; spec is what it has besides its container, container what that has besides its image.
func (h *hall) server(t *testing.T, name, labels, spec, container string) {
	t.Helper()
	h.apply(t, fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: %s, labels: {%s}}
spec: {nodeName: node2%s, containers: [{name: main, image: lab/echo%s}]}`, name, h.ns, labels, spec, container))
	h.wait(t, "Pod", h.ns, name, manifest.Field("Running", "status", "phase"))
}

// unready: a pod that is not ready gets connections when the Service wants that, even while it ends; otherwise it gets none.
func (h *hall) unready(t *testing.T) string {
	h.server(t, "raw", "app: raw", ", terminationGracePeriodSeconds: 10",
		", readinessProbe: {tcpSocket: {port: 9}, periodSeconds: 1}, lifecycle: {preStop: {sleep: {seconds: 6}}}")
	w := wish{name: "raw", selector: "{app: raw}"}
	address := "http://" + h.serve(t, w)
	publish := func(yes bool, backends int) {
		w.more = fmt.Sprintf(", publishNotReadyAddresses: %t", yes)
		h.becomes(t, w)
		h.backed(t, "raw-tcp", backends)
		if yes {
			h.answers(t, "internet", address, "raw", theInternet)
		} else {
			h.silent(t, "internet", address)
		}
	}
	publish(false, 0)
	publish(true, 1)
	publish(false, 0)
	if err := h.client.CoreV1().Pods(h.ns).Delete(within(t, time.Minute), "raw", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	publish(true, 1)
	publish(false, 0)
	if h.field(t, "Pod", h.ns, "raw", "metadata", "deletionTimestamp") == "" {
		t.Error("the pod has ended too early to show anything")
	}
	return "not ready, and not ready at its end: reached when published, refused otherwise"
}

// gate opens the readiness gate of a pod, or closes it.
func (h *hall) gate(t *testing.T, name, status string) {
	t.Helper()
	patch := fmt.Sprintf(`{"status": {"conditions": [{"type": "example.com/live", "status": %q}]}}`, status)
	_, err := h.client.CoreV1().Pods(h.ns).Patch(within(t, time.Minute), name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	if err != nil {
		t.Fatal(err)
	}
}

// drains: an endpoint that is ready no longer gets no new connections, and those that are open go on, from everywhere.
func (h *hall) drains(t *testing.T) string {
	for _, name := range []string{"old", "new"} {
		h.server(t, name, "drained: 'yes'", ", readinessGates: [{conditionType: example.com/live}]", "")
	}
	h.gate(t, "old", "True")
	var streams []*stream
	for _, kind := range []string{"cloud", "public"} {
		name := "drain-" + kind
		address := h.serve(t, wish{name: name, selector: "{drained: 'yes'}", annotations: "network.kube-dc.com/external-network-type: " + kind})
		h.backed(t, name+"-tcp", 1)
		h.answers(t, "internet", "http://"+address, "old", theInternet)
		x := h.network(t, kind)
		for _, where := range []string{"internet", "cli." + h.ns, x.client, x.neighbour} {
			streams = append(streams, h.stream(t, where, address))
		}
	}
	survive(t, "both are in", 5*time.Second, streams...) // control
	h.gate(t, "new", "True")
	h.backed(t, "drain-cloud-tcp", 2)
	h.gate(t, "old", "False")
	h.backed(t, "drain-cloud-tcp", 1)
	h.backed(t, "drain-public-tcp", 1)
	silent := survive(t, "the old one is out", 5*time.Second, streams...)
	return fmt.Sprintf("%d streams go on, silent for %s at most", len(streams), silent.Round(10*time.Millisecond))
}

// gates: readiness gates decide which of two pods serves.
func (h *hall) gates(t *testing.T) string {
	for _, name := range []string{"blue", "green"} {
		h.server(t, name, "gated: 'yes'", ", readinessGates: [{conditionType: example.com/live}]", "")
	}
	open := func(name, status string) { h.gate(t, name, status) }
	address := "http://" + h.serve(t, wish{name: "gated", selector: "{gated: 'yes'}"})
	h.backed(t, "gated-tcp", 0)
	h.silent(t, "internet", address)
	open("blue", "True")
	h.backed(t, "gated-tcp", 1)
	h.spread(t, "internet", address, theInternet, "blue")
	open("green", "True")
	h.backed(t, "gated-tcp", 2)
	h.spread(t, "internet", address, theInternet, "blue", "green")
	open("blue", "False")
	h.backed(t, "gated-tcp", 1)
	for range 10 {
		h.answers(t, "internet", address, "green", theInternet)
	}
	return "none, blue, both, green"
}

// namedPorts: one name stands for another number in each pod, and only some pods have a name.
func (h *hall) namedPorts(t *testing.T) string {
	h.server(t, "n1", "named: 'yes'", "", `, env: [{name: PORTS, value: "8081"}], ports: [{name: web, containerPort: 8081}]`)
	h.server(t, "n2", "named: 'yes'", "",
		`, env: [{name: PORTS, value: "8082,8083"}], ports: [{name: web, containerPort: 8082}, {name: rare, containerPort: 8083}]`)
	address := h.serve(t, wish{name: "named", selector: "{named: 'yes'}", ports: "[{name: a, port: 80, targetPort: web}, {name: b, port: 81, targetPort: rare}]"})
	eventually(t, "all endpoints", func() bool { return strings.Count(h.vips(t, "named-tcp"), ":") == 5 })
	h.sync(t)
	h.spread(t, "internet", "http://"+address, theInternet, "n1", "n2")
	for range 5 {
		h.answers(t, "internet", "http://"+address+":81", "n2", theInternet)
	}
	return "web is 8081 in one pod and 8082 in the other, rare is in one of them"
}

// writtenByHand: a Service without a selector, with EndpointSlices that a user writes. An address outside the project is left out.
func (h *hall) writtenByHand(t *testing.T) string {
	address := h.serve(t, wish{name: "hand", selector: "{}", ports: "[{name: a, port: 80}, {name: b, port: 81}]"})
	for i, slice := range []struct{ port, addresses string }{
		{"{name: a, port: 80}", "[{addresses: [" + h.pods["b1"] + "]}]"},
		{"{name: a, port: 80}", "[{addresses: [" + h.pods["b2"] + "]}]"},
		{"{name: b, port: 8080}", "[{addresses: [" + h.pods["b3"] + "]}, {addresses: [" + theInternet + "]}]"},
	} {
		h.apply(t, fmt.Sprintf(`
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: hand-%d, namespace: %s, labels: {kubernetes.io/service-name: hand}}
addressType: IPv4
ports: [%s]
endpoints: %s`, i, h.ns, slice.port, slice.addresses))
	}
	h.says(t, "hand", "Programmed=False EndpointOutsideProject", theInternet)
	eventually(t, "all endpoints", func() bool { return strings.Count(h.vips(t, "hand-tcp"), ":") == 5 })
	h.sync(t)
	h.spread(t, "internet", "http://"+address, theInternet, "b1", "b2")
	for range 10 {
		h.answers(t, "internet", "http://"+address+":81", "b3", theInternet)
	}
	return "three slices, two ports; the address outside is named and gets nothing"
}
