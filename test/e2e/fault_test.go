package e2e

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sallyport/sallyport/internal/lab/blueprint"
	"github.com/sallyport/sallyport/internal/lab/manifest"
)

// A dead node is silent and becomes NotReady; booted again, its pods answer at the addresses they had. A cut node runs on
// and is heard of again when it is mended. One lab for both: nobody else may be in it.
func TestKilledAndCutNodes(t *testing.T) {
	b := blueprint.Default()
	b.Nodes, b.Gateways = 2, 1
	c := own(t, "fault", b)
	c.namespace(t, "fault", "")
	asker := c.run(t, pod{namespace: "fault", name: "asker", node: "node1"})
	target := "http://" + c.run(t, pod{namespace: "fault", name: "target", node: "node2"})
	c.answers(t, "asker.fault", target, "target", asker)

	for _, fault := range [][2]string{{"cut", "mend"}, {"kill", "start"}} {
		c.order(t, fault[0], "node2")
		c.silent(t, "asker.fault", target)
		c.waitNode(t, "node2", false)
		c.order(t, fault[1], "node2")
		c.waitNode(t, "node2", true)
		c.wait(t, "Pod", "fault", "target", manifest.True("Ready"))
		c.sync(t)
		c.warm(t)
		c.answers(t, "asker.fault", target, "target", asker)
	}
}

func (c *cluster) order(t *testing.T, order, target string) {
	t.Helper()
	if err := c.Order(within(t, time.Minute), order, target); err != nil {
		t.Fatalf("%s %s: %v", order, target, err)
	}
}

// waitNode waits until Kubernetes calls a node ready, or not.
func (c *cluster) waitNode(t *testing.T, node string, ready bool) {
	t.Helper()
	c.wait(t, "Node", "", node, func(o *unstructured.Unstructured) bool {
		return o != nil && manifest.True("Ready")(o) == ready
	})
}

// warm lets the nodes find each other's tunnel ends again: Open vSwitch drops the packet that makes it ask.
func (c *cluster) warm(t *testing.T) {
	t.Helper()
	for _, from := range c.blueprint.NodeList() {
		for _, to := range c.blueprint.NodeList() {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			if conn, err := c.NS(from.Name).Dial(ctx, "tcp", to.Tunnel.Addr().String()+":9"); err == nil {
				_ = conn.Close()
			}
			cancel()
		}
	}
}

// A paused process does nothing until it is resumed.
func TestPausedProcess(t *testing.T) {
	c := shared(t)
	c.order(t, "pause", "kube-scheduler")
	resumed := false
	resume := func() {
		if !resumed {
			resumed = true
			c.order(t, "resume", "kube-scheduler")
		}
	}
	t.Cleanup(resume)
	c.namespace(t, "paused", "")
	c.apply(t, `{apiVersion: v1, kind: Pod, metadata: {name: waits, namespace: paused}, spec: {containers: [{name: main, image: lab/idle}]}}`)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := c.objects.Wait(ctx, ref("Pod", "paused", "waits"), manifest.True("PodScheduled")); err == nil {
		t.Error("the scheduler placed a pod while it was paused")
	}
	resume()
	c.wait(t, "Pod", "paused", "waits", manifest.True("Ready")) // control: it was the pause
}

// Deployments roll out, readiness decides who is an endpoint, and a pod that goes is replaced.
func TestDeploymentBehaves(t *testing.T) {
	c := shared(t)
	c.namespace(t, "rollout", "")
	c.apply(t, readFile(t, "testdata/deployment.yaml"))
	c.wait(t, "Deployment", "rollout", "web", manifest.Field("3", "status", "readyReplicas"))
	nodes := map[string]bool{}
	for _, p := range c.pods(t, "rollout") {
		nodes[p.Spec.NodeName] = true
	}
	if len(nodes) != 3 {
		t.Errorf("three replicas are on %d nodes; wanted one on each", len(nodes))
	}
	first := c.pods(t, "rollout")[0]
	if err := c.client.CoreV1().Pods("rollout").Delete(within(t, time.Minute), first.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.wait(t, "Pod", "rollout", first.Name, manifest.Gone)
	if c.NS(first.Name + ".rollout").Exists() {
		t.Error("the namespace of a deleted pod is left")
	}
	c.wait(t, "Deployment", "rollout", "web", manifest.Field("3", "status", "readyReplicas"))
	c.notReadyIsNoEndpoint(t)
}

// notReadyIsNoEndpoint runs a pod whose readiness probe asks a port where nobody listens.
func (c *cluster) notReadyIsNoEndpoint(t *testing.T) {
	t.Helper()
	c.apply(t, `
apiVersion: v1
kind: Pod
metadata: {name: sick, namespace: rollout, labels: {app: sick}}
spec: {containers: [{name: main, image: lab/echo, readinessProbe: {tcpSocket: {port: 81}, periodSeconds: 1}}]}`)
	c.wait(t, "Pod", "rollout", "sick", manifest.Field("Running", "status", "phase"))
	ctx, cancel := context.WithTimeout(context.Background(), 2500*time.Millisecond)
	defer cancel()
	if err := c.objects.Wait(ctx, ref("Pod", "rollout", "sick"), manifest.True("Ready")); err == nil {
		t.Error("a pod is ready although its readiness probe fails")
	}
}

func (c *cluster) pods(t *testing.T, namespace string) []corev1.Pod {
	t.Helper()
	pods, err := c.client.CoreV1().Pods(namespace).List(within(t, time.Minute), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pods.Items
}

// A pod with a second network has a second interface with the address that Kube-OVN gave it there.
func TestSecondaryNetwork(t *testing.T) {
	c := shared(t)
	c.namespace(t, "second", "")
	c.apply(t, readFile(t, "testdata/secondary.yaml"))
	c.wait(t, "Subnet", "", "second-extra", manifest.True("Ready"))
	for _, p := range []pod{{name: "a", node: "node1"}, {name: "b", node: "node3"}} {
		p.namespace, p.annotations = "second", map[string]string{"k8s.v1.cni.cncf.io/networks": "second/extra"}
		c.run(t, p)
	}
	b, err := c.objects.Get(within(t, time.Minute), ref("Pod", "second", "b"))
	if err != nil {
		t.Fatal(err)
	}
	address := b.GetAnnotations()["extra.second.ovn.kubernetes.io/ip_address"]
	if address == "" {
		t.Fatalf("Kube-OVN gave the pod no address on its second network: %v", b.GetAnnotations())
	}
	a, err := c.objects.Get(within(t, time.Minute), ref("Pod", "second", "a"))
	if err != nil {
		t.Fatal(err)
	}
	c.sync(t) // a pod is ready when its first interface is
	c.answers(t, "a.second", "http://"+address, "b", a.GetAnnotations()["extra.second.ovn.kubernetes.io/ip_address"])
}
