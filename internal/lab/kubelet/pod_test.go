package kubelet

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/sallyport/sallyport/internal/lab/engine"
	"github.com/sallyport/sallyport/internal/lab/netns"
)

func watchOf(t *testing.T, pods typedcorev1.PodInterface) func(metav1.ListOptions) (watch.Interface, error) {
	return func(o metav1.ListOptions) (watch.Interface, error) { return pods.Watch(t.Context(), o) }
}

func getOf(t *testing.T, pods typedcorev1.PodInterface, name string) func() (*corev1.Pod, error) {
	return func() (*corev1.Pod, error) { return pods.Get(t.Context(), name, metav1.GetOptions{}) }
}

// realNode registers a node whose namespace is that of the test: what runs there opens sockets on loopback only.
func realNode(l *lab) {
	l.t.Helper()
	l.register(Node{Node: nodeNamed("node1"), Switch: newPanel()})
}

func onHost(change func(*corev1.Pod)) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.HostNetwork = true
		if change != nil {
			change(p)
		}
	}
}

func waitingFor(reason string) func(*corev1.Pod) bool {
	return func(p *corev1.Pod) bool {
		s := p.Status.ContainerStatuses
		return len(s) > 0 && s[0].State.Waiting != nil && s[0].State.Waiting.Reason == reason
	}
}

func TestAProgramRunsAndItsPodComesAndGoes(t *testing.T) {
	l := newLab(t)
	realNode(l)
	first := l.pod("node1", onHost(nil))
	p := l.awaitPod("ready", isReady)
	if p.Status.PodIP != "127.0.0.1" || p.Status.HostIP != "127.0.0.1" {
		t.Errorf("addresses %s %s", p.Status.PodIP, p.Status.HostIP)
	}
	if _, ok := l.PodNS("shop", "web"); !ok {
		t.Error("a running pod has no namespace")
	}
	l.delete()
	l.awaitGone(first.UID)
	l.pod("node1", onHost(nil))
	l.awaitPod("the next pod of that name is ready", func(p *corev1.Pod) bool {
		return p.UID != first.UID && isReady(p)
	})
}

func TestACrashIsRepeatedWithBackoff(t *testing.T) {
	l := newLab(t)
	realNode(l)
	l.pod("node1", onHost(func(p *corev1.Pod) { p.Spec.Containers[0].Image = "crash" }))
	p := l.awaitPod("in back-off", waitingFor("CrashLoopBackOff"))
	last := p.Status.ContainerStatuses[0].LastTerminationState.Terminated
	if last == nil || last.ExitCode != crashCode || !strings.Contains(last.Message, "as told") {
		t.Errorf("the crash is not told: %v", last)
	}
	if isReady(p) {
		t.Error("a crashing pod is ready")
	}
	l.awaitPod("started again", func(p *corev1.Pod) bool { return restartsOf(p) >= 1 })
}

func TestAPodThatRunsOnceEnds(t *testing.T) {
	for image, want := range map[string]corev1.PodPhase{"finish": corev1.PodSucceeded, "crash": corev1.PodFailed} {
		l := newLab(t)
		realNode(l)
		l.pod("node1", onHost(func(p *corev1.Pod) {
			p.Spec.RestartPolicy, p.Spec.Containers[0].Image = corev1.RestartPolicyNever, image
		}))
		l.awaitPod(string(want), func(p *corev1.Pod) bool { return p.Status.Phase == want })
		l.delete()
		l.awaitGone("")
	}
}

func TestAnUnknownImageNamesTheOnesThatExist(t *testing.T) {
	l := newLab(t)
	realNode(l)
	l.pod("node1", onHost(func(p *corev1.Pod) { p.Spec.Containers[0].Image = "nginx" }))
	p := l.awaitPod("refused", waitingFor("ErrImagePull"))
	if m := p.Status.ContainerStatuses[0].State.Waiting.Message; !strings.Contains(m, "nginx") ||
		!strings.Contains(m, "crash, serve") {
		t.Errorf("message %q", m)
	}
	l.delete()
	l.awaitGone(p.UID)
}

func TestInitContainersComeFirst(t *testing.T) {
	l := newLab(t)
	realNode(l)
	file := t.TempDir() + "/made"
	l.pod("node1", onHost(func(p *corev1.Pod) {
		p.Spec.InitContainers = []corev1.Container{{
			Name: "init", Command: []string{"sh", "-c", "echo $(WHO) > " + file},
			Env: []corev1.EnvVar{{Name: "WHO", Value: "init"}},
		}}
		p.Spec.Containers[0].Command = []string{"sh", "-c", "cat " + file + " && exec sleep 1000"}
	}))
	p := l.awaitPod("ready", isReady)
	if init := p.Status.InitContainerStatuses[0].State.Terminated; init == nil || init.ExitCode != 0 {
		t.Errorf("init container is %v", p.Status.InitContainerStatuses[0].State)
	}
	if raw, err := os.ReadFile(file); err != nil || string(raw) != "init\n" {
		t.Errorf("init container left %q, %v", raw, err)
	}
	process, err := l.Processes.Get("web.shop.main")
	if err != nil || !process.Running() {
		t.Fatalf("no process of the container: %v", err)
	}
	l.delete()
	l.awaitGone(p.UID)
	if process.Running() {
		t.Error("the pod is gone and its process runs")
	}
}

func TestKilledPodsAreStartedAnewAtBoot(t *testing.T) {
	l := newLab(t)
	realNode(l)
	l.pod("node1", onHost(func(p *corev1.Pod) { p.Spec.Containers[0].Command = []string{"sleep", "1000"} }))
	l.awaitPod("ready", isReady)
	old, err := l.Processes.Get("web.shop.main")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Kill("node1"); err != nil {
		t.Fatal(err)
	}
	if old.Running() {
		t.Error("a process outlives its node")
	}
	if _, ok := l.PodNS("shop", "web"); ok {
		t.Error("a pod of a dead node has a namespace")
	}
	if err := l.Restart(t.Context(), "node1"); err != nil {
		t.Fatal(err)
	}
	l.awaitPod("restarted once", func(p *corev1.Pod) bool { return isReady(p) && restartsOf(p) == 1 })
}

func TestACutOffNodeRunsItsPodUntilItHears(t *testing.T) {
	l := newLab(t)
	realNode(l)
	l.register(Node{Node: nodeNamed("node2"), Switch: newPanel()})
	sleep := onHost(func(p *corev1.Pod) { p.Spec.Containers[0].Command = []string{"sleep", "1000"} })
	first := l.pod("node1", sleep)
	l.awaitPod("ready", isReady)
	old, err := l.Processes.Get("web.shop.main")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Silence("node1", true); err != nil {
		t.Fatal(err)
	}
	if err := l.client.CoreV1().Pods("shop").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	l.pod("node2", sleep)
	l.awaitPod("the pod runs elsewhere", func(p *corev1.Pod) bool { return p.UID != first.UID && isReady(p) })
	if !old.Running() {
		t.Error("a node without contact ended its pod")
	}
	if err := l.Silence("node1", false); err != nil {
		t.Fatal(err)
	}
	select {
	case <-old.Done():
	case <-time.After(20 * time.Second):
		t.Error("a node that is back runs a pod that is gone")
	}
	if now, err := l.Processes.Get("web.shop.node2.main"); err != nil || !now.Running() {
		t.Errorf("the new pod ended with the old one: %v", err)
	}
}

func TestReadinessFollowsTheProbe(t *testing.T) {
	l := newLab(t)
	realNode(l)
	listener, err := netns.Own().Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	port := intstr.Parse(address[strings.LastIndex(address, ":")+1:])
	l.pod("node1", onHost(func(p *corev1.Pod) {
		p.Spec.Containers[0].ReadinessProbe = &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: port}}, PeriodSeconds: 1,
			FailureThreshold: 1,
		}
	}))
	l.awaitPod("ready", isReady)
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	l.awaitPod("running and not ready", func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodRunning && !isReady(p)
	})
}

func TestAPodIsPluggedIntoANamespaceOfItsOwn(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("namespaces need root")
	}
	wall, err := netns.Create("kubelet-test-switch")
	if err != nil {
		t.Skipf("no namespaces here: %v", err)
	}
	t.Cleanup(func() { _ = wall.Delete() })
	panel := newPanel()
	panel.cable = func(ns netns.NS, port engine.Port) error {
		return netns.Veth(netns.End{NS: ns, Name: port.Interface, MAC: port.MAC, Addresses: port.Addresses},
			netns.End{NS: wall, Name: "p0"}, 1500)
	}
	panel.broken = errors.New("the switch is down")
	l := newLab(t)
	l.register(Node{Node: nodeNamed("node1"), Switch: panel})
	l.pod("node1", func(p *corev1.Pod) {
		p.Annotations = dual
		p.Spec.Containers[0].Image, p.Spec.Containers[0].Env = "serve",
			[]corev1.EnvVar{{Name: "LISTEN", Value: "10.0.0.10:80"}}
		p.Spec.Containers[0].ReadinessProbe = &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(80)}},
			PeriodSeconds: 1,
		}
	})
	l.awaitPod("the switch's fault is told", func(p *corev1.Pod) bool {
		c := conditionNamed(p.Status.Conditions, corev1.PodReadyToStartContainers)
		return c != nil && c.Status == corev1.ConditionFalse && strings.Contains(c.Message, "the switch is down")
	})
	panel.setBroken(nil)
	p := l.awaitPod("ready", isReady)
	if p.Status.PodIP != "10.0.0.10" || !panel.has("web.shop") {
		t.Errorf("address %s, plugged %v", p.Status.PodIP, panel.plugged)
	}
	ns, ok := l.PodNS("shop", "web")
	if !ok || ns.Name != "web.shop" {
		t.Fatalf("namespace %v", ns)
	}
	l.delete()
	l.awaitGone(p.UID)
	if panel.has("web.shop") || ns.Exists() {
		t.Errorf("left over: port %v, namespace %v", panel.has("web.shop"), ns.Exists())
	}
}
