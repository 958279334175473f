package kubelet

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestARegisteredNodeIsReadyAndBeats(t *testing.T) {
	l := newLab(t)
	l.register(Node{Node: nodeNamed("node1"), Labels: map[string]string{"ovn.kubernetes.io/external-gw": "true"}})
	node, err := l.client.CoreV1().Nodes().Get(t.Context(), "node1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"kubernetes.io/hostname": "node1", "node-role.kubernetes.io/control-plane": "",
		"ovn.kubernetes.io/external-gw": "true",
	} {
		if got, ok := node.Labels[key]; !ok || got != want {
			t.Errorf("label %s is %q", key, got)
		}
	}
	if node.Annotations["ovn.kubernetes.io/chassis"] != "node1" || node.Status.Addresses[0].Address != "127.0.0.1" {
		t.Errorf("chassis or address is missing: %v %v", node.Annotations, node.Status.Addresses)
	}
	lease, err := l.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(t.Context(), "node1",
		metav1.GetOptions{})
	if err != nil || len(lease.OwnerReferences) != 1 || lease.OwnerReferences[0].Name != "node1" {
		t.Fatalf("lease %v: %v", lease, err)
	}
	beat := lease.Spec.RenewTime.Time
	for range 3 {
		beat = l.awaitBeat("node1", beat)
	}
}

func TestADeadNodeDoesNotBeat(t *testing.T) {
	l := newLab(t)
	l.register(Node{Node: nodeNamed("dead")})
	l.register(Node{Node: nodeNamed("alive")})
	l.awaitBeat("dead", l.awaitBeat("dead", time.Time{}))
	if err := l.Kill("dead"); err != nil {
		t.Fatal(err)
	}
	last := l.awaitBeat("dead", time.Time{})
	beat := last
	for range 4 {
		beat = l.awaitBeat("alive", beat)
	}
	if now := l.awaitBeat("dead", time.Time{}); !now.Equal(last) {
		t.Errorf("a dead node renewed its lease %s after it died", now.Sub(last))
	}
	if err := l.Restart(t.Context(), "dead"); err != nil {
		t.Fatal(err)
	}
	l.awaitBeat("dead", beat)
	if err := l.Restart(t.Context(), "alive"); err == nil {
		t.Error("a node that is up can be booted")
	}
	if err := l.Kill("nobody"); err == nil {
		t.Error("a node that is not there can be killed")
	}
}

func TestAFakePodIsReadyWhenKubeOVNHasAnAddress(t *testing.T) {
	l := newLab(t)
	l.register(Node{Node: nodeNamed("fake1")})
	made := l.pod("fake1", nil)
	other := l.pod("fake1", func(p *corev1.Pod) { // control: it has an address, and comes after
		p.Name, p.Namespace, p.UID, p.Annotations = "web", "other", "other", dual
	})
	pods := l.client.CoreV1().Pods("other")
	got := await(t, "the pod with an address is ready", watchOf(t, pods), getOf(t, pods, other.Name),
		func(p *corev1.Pod, there bool) bool {
			return there && isReady(p)
		})
	if got.Status.PodIP != "10.0.0.10" || len(got.Status.PodIPs) != 2 || got.Status.PodIPs[1].IP != "fd00:1::a" {
		t.Errorf("addresses %v", got.Status.PodIPs)
	}
	if p := l.awaitPod("pod", func(*corev1.Pod) bool { return true }); isReady(p) || p.Status.PodIP != "" {
		t.Errorf("ready without an address: %v", p.Status)
	}
	l.edit(func(p *corev1.Pod) { p.Annotations = v4 })
	l.awaitPod("ready with an address", isReady)
	l.delete()
	l.awaitGone(made.UID)
}

func TestFakePodsOfADeadNodeStayAsTheyAre(t *testing.T) {
	l := newLab(t)
	l.register(Node{Node: nodeNamed("fake1")})
	l.pod("fake1", func(p *corev1.Pod) { p.Annotations = v4 })
	first := l.awaitPod("ready", isReady)
	if err := l.Kill("fake1"); err != nil {
		t.Fatal(err)
	}
	// The node lifecycle controller marks the pods of a lost node.
	l.edit(func(p *corev1.Pod) {
		conditionNamed(p.Status.Conditions, corev1.PodReady).Status = corev1.ConditionFalse
	})
	l.register(Node{Node: nodeNamed("control")})
	l.awaitBeat("control", l.awaitBeat("control", time.Time{}))
	if p := l.awaitPod("pod", func(*corev1.Pod) bool { return true }); isReady(p) {
		t.Error("a dead node reports")
	}
	// Container times are whole seconds: a boot counts for containers that started in an earlier second.
	l.edit(func(p *corev1.Pod) {
		p.Status.ContainerStatuses[0].State.Running.StartedAt = metav1.NewTime(first.Status.StartTime.Add(-time.Minute))
	})
	if err := l.Restart(t.Context(), "fake1"); err != nil {
		t.Fatal(err)
	}
	l.awaitPod("started anew", func(p *corev1.Pod) bool { return isReady(p) && restartsOf(p) == 1 })
}

func TestASilentNodeReportsWhenItIsBack(t *testing.T) {
	l := newLab(t)
	l.register(Node{Node: nodeNamed("fake1")})
	l.pod("fake1", func(p *corev1.Pod) { p.Annotations = v4 })
	l.awaitPod("ready", isReady)
	if err := l.Silence("fake1", true); err != nil {
		t.Fatal(err)
	}
	last := l.awaitBeat("fake1", time.Time{})
	l.edit(func(p *corev1.Pod) {
		conditionNamed(p.Status.Conditions, corev1.PodReady).Status = corev1.ConditionFalse
	})
	l.register(Node{Node: nodeNamed("control")})
	l.awaitBeat("control", l.awaitBeat("control", last))
	if p := l.awaitPod("pod", func(*corev1.Pod) bool { return true }); isReady(p) {
		t.Error("a node without contact reports")
	}
	if now := l.awaitBeat("fake1", time.Time{}); !now.Equal(last) {
		t.Error("a node without contact renews its lease")
	}
	if err := l.Silence("fake1", false); err != nil {
		t.Fatal(err)
	}
	l.awaitBeat("fake1", last)
	l.awaitPod("ready again, and not restarted", func(p *corev1.Pod) bool { return isReady(p) && restartsOf(p) == 0 })
}

func TestANodeJoinsWhenKubeOVNHasAnAddress(t *testing.T) {
	l, panel := newLab(t), newPanel()
	plugged := make(chan string, 1)
	l.register(Node{Node: nodeNamed("node1"), Switch: notifying{panel, plugged}})
	node, err := l.client.CoreV1().Nodes().Get(t.Context(), "node1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// No gateway: the routes would go into the namespace of this test.
	node.Annotations = merged(node.Annotations, network("ovn", "100.64.0.2", "100.64.0.0/16", ""),
		map[string]string{"ovn.kubernetes.io/port_name": "node-node1"})
	if _, err := l.client.CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	select {
	case port := <-plugged:
		if port != "ovn0 node-node1" {
			t.Errorf("plugged %s", port)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("nothing was plugged")
	}
}

func TestFakePodsCostNoGoroutines(t *testing.T) {
	const nodes, pods = 20, 40 // the API of memory takes no more at once
	l := newLab(t)
	for i := range nodes {
		l.register(Node{Node: nodeNamed(fmt.Sprintf("fake%d", i))})
	}
	api := l.client.CoreV1().Pods("shop")
	ready := func(first, end int) {
		var last *corev1.Pod
		for i := first; i < end; i++ {
			last = l.pod(fmt.Sprintf("fake%d", i%nodes), func(p *corev1.Pod) {
				p.Name, p.UID, p.Annotations = fmt.Sprintf("web%d", i), types.UID(fmt.Sprint(i)), v4
			})
		}
		await(t, "all pods are ready", watchOf(t, api), getOf(t, api, last.Name), func(*corev1.Pod, bool) bool {
			list, err := api.List(t.Context(), metav1.ListOptions{})
			return err == nil && !slices.ContainsFunc(list.Items, func(p corev1.Pod) bool { return !isReady(&p) })
		})
	}
	ready(0, 1) // when one is, all workers are there
	before := runtime.NumGoroutine()
	ready(1, pods+1)
	if more := runtime.NumGoroutine() - before; more > pods/2 {
		t.Errorf("%d pods of fake nodes hold %d goroutines", pods, more)
	}
}
