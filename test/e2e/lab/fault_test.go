package lab

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sallyport/sallyport/internal/lab/blueprint"
	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// TestKilledAndCutNodes shows that a killed node is silent and becomes NotReady, and that its pods answer at the same
// addresses after a restart. A node that is cut off keeps running and is reachable again when it is reconnected. Both
// use one lab that no other test uses.
func TestKilledAndCutNodes(t *testing.T) {
	b := blueprint.Default()
	b.Nodes, b.Gateways = 2, 1
	c := harness.StartLab(t, "fault", b)
	c.CreateNamespace(t, "fault", "")
	asker := c.RunPod(t, harness.Pod{Namespace: "fault", Name: "asker", Node: "node1"})
	target := "http://" + c.RunPod(t, harness.Pod{Namespace: "fault", Name: "target", Node: "node2"})
	c.ExpectAnswer(t, "asker.fault", target, "target", asker)

	for _, fault := range [][2]string{{"cut", "mend"}, {"kill", "start"}} {
		c.ControlLab(t, fault[0], "node2")
		c.ExpectSilence(t, "asker.fault", target)
		c.WaitNodeReady(t, "node2", false)
		c.ControlLab(t, fault[1], "node2")
		c.WaitNodeReady(t, "node2", true)
		c.WaitForObject(t, "Pod", "fault", "target", manifest.True("Ready"))
		c.SyncFlows(t)
		c.ResolveTunnelPeers(t)
		c.ExpectAnswer(t, "asker.fault", target, "target", asker)
	}
}

// TestPausedProcess shows that a paused process does nothing until it is resumed.
func TestPausedProcess(t *testing.T) {
	c := harness.SharedLab(t)
	c.ControlLab(t, "pause", "kube-scheduler")
	resumed := false
	resume := func() {
		if !resumed {
			resumed = true
			c.ControlLab(t, "resume", "kube-scheduler")
		}
	}
	t.Cleanup(resume)
	c.CreateNamespace(t, "paused", "")
	c.Apply(t, `{apiVersion: v1, kind: Pod, metadata: {name: waits, namespace: paused}, spec: {containers: [{name: main, image: lab/idle}]}}`)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := c.Objects.Wait(ctx, harness.ObjectRef("Pod", "paused", "waits"),
		manifest.True("PodScheduled")); err == nil {
		t.Error("the scheduler placed a pod while it was paused")
	}
	resume()
	c.WaitForObject(t, "Pod", "paused", "waits", manifest.True("Ready")) // control: the pause was the cause
}

// TestDeploymentBehaves shows that Deployments roll out, that readiness decides which pods are endpoints, and that a
// deleted pod is replaced.
func TestDeploymentBehaves(t *testing.T) {
	c := harness.SharedLab(t)
	c.CreateNamespace(t, "rollout", "")
	c.Apply(t, harness.ReadFile(t, "../testdata/deployment.yaml"))
	c.WaitForObject(t, "Deployment", "rollout", "web", manifest.Field("3", "status", "readyReplicas"))
	nodes := map[string]bool{}
	for _, p := range listPods(t, c, "rollout") {
		nodes[p.Spec.NodeName] = true
	}
	if len(nodes) != 3 {
		t.Errorf("three replicas are on %d nodes; wanted one on each", len(nodes))
	}
	first := listPods(t, c, "rollout")[0]
	if err := c.Client.CoreV1().Pods("rollout").Delete(harness.Within(t, harness.Patience), first.Name,
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.WaitForObject(t, "Pod", "rollout", first.Name, manifest.Gone)
	if c.NS(first.Name + ".rollout").Exists() {
		t.Error("the namespace of a deleted pod is left")
	}
	c.WaitForObject(t, "Deployment", "rollout", "web", manifest.Field("3", "status", "readyReplicas"))
	expectNotReady(t, c)
}

// expectNotReady runs a pod whose readiness probe uses a closed port.
func expectNotReady(t *testing.T, c *harness.Cluster) {
	t.Helper()
	c.Apply(t, `
apiVersion: v1
kind: Pod
metadata: {name: sick, namespace: rollout, labels: {app: sick}}
spec: {containers: [{name: main, image: lab/echo, readinessProbe: {tcpSocket: {port: 81}, periodSeconds: 1}}]}`)
	c.WaitForObject(t, "Pod", "rollout", "sick", manifest.Field("Running", "status", "phase"))
	ctx, cancel := context.WithTimeout(context.Background(), 2500*time.Millisecond)
	defer cancel()
	if err := c.Objects.Wait(ctx, harness.ObjectRef("Pod", "rollout", "sick"), manifest.True("Ready")); err == nil {
		t.Error("a pod is ready although its readiness probe fails")
	}
}

func listPods(t *testing.T, c *harness.Cluster, namespace string) []corev1.Pod {
	t.Helper()
	pods, err := c.Client.CoreV1().Pods(namespace).List(harness.Within(t, harness.Patience), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pods.Items
}

// TestSecondaryNetwork shows that a pod with a second network has a second interface with the address that Kube-OVN
// allocated there.
func TestSecondaryNetwork(t *testing.T) {
	c := harness.SharedLab(t)
	c.CreateNamespace(t, "second", "")
	c.Apply(t, harness.ReadFile(t, "../testdata/secondary.yaml"))
	c.WaitForObject(t, "Subnet", "", "second-extra", manifest.True("Ready"))
	for _, p := range []harness.Pod{{Name: "a", Node: "node1"}, {Name: "b", Node: "node3"}} {
		p.Namespace, p.Annotations = "second", map[string]string{"k8s.v1.cni.cncf.io/networks": "second/extra"}
		c.RunPod(t, p)
	}
	b, err := c.Objects.Get(harness.Within(t, harness.Patience), harness.ObjectRef("Pod", "second", "b"))
	if err != nil {
		t.Fatal(err)
	}
	address := b.GetAnnotations()["extra.second.ovn.kubernetes.io/ip_address"]
	if address == "" {
		t.Fatalf("Kube-OVN gave the pod no address on its second network: %v", b.GetAnnotations())
	}
	a, err := c.Objects.Get(harness.Within(t, harness.Patience), harness.ObjectRef("Pod", "second", "a"))
	if err != nil {
		t.Fatal(err)
	}
	c.SyncFlows(t) // a pod becomes ready with its first interface
	c.ExpectAnswer(t, "a.second", "http://"+address, "b",
		a.GetAnnotations()["extra.second.ovn.kubernetes.io/ip_address"])
}
