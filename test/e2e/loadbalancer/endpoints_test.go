package loadbalancer

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sallyport/sallyport/test/e2e/harness"
)

// showUnready shows that a pod that is not ready gets connections if the Service publishes such pods, even while the
// pod terminates, and none otherwise.
func showUnready(t *testing.T, h *harness.BackendProject) string {
	h.RunServerPod(t, "raw", "app: raw", ", terminationGracePeriodSeconds: 10",
		", readinessProbe: {tcpSocket: {port: 9}, periodSeconds: 1}, lifecycle: {preStop: {sleep: {seconds: 6}}}")
	w := harness.ServiceSpec{Name: "raw", Selector: "{app: raw}"}
	address := "http://" + h.CreateService(t, w)
	publish := func(yes bool, backends int) {
		w.ExtraFields = fmt.Sprintf(", publishNotReadyAddresses: %t", yes)
		changeService(t, h, w)
		waitBackends(t, h, "raw-tcp", backends)
		if yes {
			h.ExpectAnswer(t, "internet", address, "raw", harness.InternetAddress)
		} else {
			h.ExpectSilence(t, "internet", address)
		}
	}
	publish(false, 0)
	publish(true, 1)
	publish(false, 0)
	if err := h.Client.CoreV1().Pods(h.Namespace).Delete(harness.Within(t, harness.Patience), "raw",
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	publish(true, 1)
	publish(false, 0)
	if h.ReadField(t, "Pod", h.Namespace, "raw", "metadata", "deletionTimestamp") == "" {
		t.Error("the pod has ended too early to show anything")
	}
	return "not ready, and not ready at its end: reached when published, refused otherwise"
}

// setReadinessGate sets the status of a pod's readiness gate.
func setReadinessGate(t *testing.T, h *harness.BackendProject, name, status string) {
	t.Helper()
	patch := fmt.Sprintf(`{"status": {"conditions": [{"type": "example.com/live", "status": %q}]}}`, status)
	_, err := h.Client.CoreV1().Pods(h.Namespace).Patch(harness.Within(t, harness.Patience), name,
		types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	if err != nil {
		t.Fatal(err)
	}
}

// showDrains shows that an endpoint that is no longer ready gets no new connections, while open connections continue,
// from everywhere.
func showDrains(t *testing.T, h *harness.BackendProject) string {
	for _, name := range []string{"old", "new"} {
		h.RunServerPod(t, name, "drained: 'yes'", ", readinessGates: [{conditionType: example.com/live}]", "")
	}
	setReadinessGate(t, h, "old", "True")
	var streams []*harness.Stream
	for _, kind := range []string{"cloud", "public"} {
		name := "drain-" + kind
		address := h.CreateService(t, harness.ServiceSpec{
			Name:        name,
			Selector:    "{drained: 'yes'}",
			Annotations: "network.kube-dc.com/external-network-type: " + kind,
		})
		waitBackends(t, h, name+"-tcp", 1)
		h.ExpectAnswer(t, "internet", "http://"+address, "old", harness.InternetAddress)
		x := h.Network(t, kind)
		for _, where := range []string{"internet", "cli." + h.Namespace, x.Client, x.Neighbour} {
			streams = append(streams, h.StartStream(t, where, address))
		}
	}
	harness.ExpectStreamsContinue(t, "both are in", streams...) // control
	setReadinessGate(t, h, "new", "True")
	waitBackends(t, h, "drain-cloud-tcp", 2)
	setReadinessGate(t, h, "old", "False")
	waitBackends(t, h, "drain-cloud-tcp", 1)
	waitBackends(t, h, "drain-public-tcp", 1)
	silent := harness.ExpectStreamsContinue(t, "the old one is out", streams...)
	return fmt.Sprintf("%d streams go on, silent for %s at most", len(streams), silent.Round(10*time.Millisecond))
}

// showGates shows that readiness gates decide which of two pods serves.
func showGates(t *testing.T, h *harness.BackendProject) string {
	for _, name := range []string{"blue", "green"} {
		h.RunServerPod(t, name, "gated: 'yes'", ", readinessGates: [{conditionType: example.com/live}]", "")
	}
	open := func(name, status string) { setReadinessGate(t, h, name, status) }
	address := "http://" + h.CreateService(t, harness.ServiceSpec{Name: "gated", Selector: "{gated: 'yes'}"})
	waitBackends(t, h, "gated-tcp", 0)
	h.ExpectSilence(t, "internet", address)
	open("blue", "True")
	waitBackends(t, h, "gated-tcp", 1)
	h.ExpectBackends(t, "internet", address, harness.InternetAddress, "blue")
	open("green", "True")
	waitBackends(t, h, "gated-tcp", 2)
	h.ExpectBackends(t, "internet", address, harness.InternetAddress, "blue", "green")
	open("blue", "False")
	waitBackends(t, h, "gated-tcp", 1)
	for range 10 {
		h.ExpectAnswer(t, "internet", address, "green", harness.InternetAddress)
	}
	return "none, blue, both, green"
}

// showNamedPorts shows a port name that has a different number in each pod, and that only some pods have.
func showNamedPorts(t *testing.T, h *harness.BackendProject) string {
	h.RunServerPod(t, "n1", "named: 'yes'", "",
		`, env: [{name: PORTS, value: "8081"}], ports: [{name: web, containerPort: 8081}]`)
	h.RunServerPod(t, "n2", "named: 'yes'", "",
		`, env: [{name: PORTS, value: "8082,8083"}], ports: [{name: web, containerPort: 8082}, {name: rare, containerPort: 8083}]`)
	address := h.CreateService(t, harness.ServiceSpec{
		Name:     "named",
		Selector: "{named: 'yes'}",
		Ports:    "[{name: a, port: 80, targetPort: web}, {name: b, port: 81, targetPort: rare}]",
	})
	harness.Eventually(t, "all endpoints", func() bool {
		return strings.Count(balancerVIPs(t, h, "named-tcp"), ":") == 5
	})
	h.SyncFlows(t)
	h.ExpectBackends(t, "internet", "http://"+address, harness.InternetAddress, "n1", "n2")
	for range 5 {
		h.ExpectAnswer(t, "internet", "http://"+address+":81", "n2", harness.InternetAddress)
	}
	return "web is 8081 in one pod and 8082 in the other, rare is in one of them"
}

// showWrittenByHand shows a Service without a selector, with EndpointSlices that a user writes. An address outside the
// project is ignored.
func showWrittenByHand(t *testing.T, h *harness.BackendProject) string {
	address := h.CreateService(t, harness.ServiceSpec{
		Name:     "hand",
		Selector: "{}",
		Ports:    "[{name: a, port: 80}, {name: b, port: 81}]",
	})
	for i, slice := range []struct{ port, addresses string }{
		{"{name: a, port: 80}", "[{addresses: [" + h.Pods["b1"] + "]}]"},
		{"{name: a, port: 80}", "[{addresses: [" + h.Pods["b2"] + "]}]"},
		{"{name: b, port: 8080}", "[{addresses: [" + h.Pods["b3"] + "]}, {addresses: [" + harness.InternetAddress +
			"]}]"},
	} {
		h.Apply(t, fmt.Sprintf(`
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: hand-%d, namespace: %s, labels: {kubernetes.io/service-name: hand}}
addressType: IPv4
ports: [%s]
endpoints: %s`, i, h.Namespace, slice.port, slice.addresses))
	}
	h.WaitServiceCondition(t, "hand", "Programmed=False EndpointOutsideProject", harness.InternetAddress)
	harness.Eventually(t, "all endpoints", func() bool {
		return strings.Count(balancerVIPs(t, h, "hand-tcp"), ":") == 5
	})
	h.SyncFlows(t)
	h.ExpectBackends(t, "internet", "http://"+address, harness.InternetAddress, "b1", "b2")
	for range 10 {
		h.ExpectAnswer(t, "internet", "http://"+address+":81", "b3", harness.InternetAddress)
	}
	return "three slices, two ports; the address outside is named and gets nothing"
}
