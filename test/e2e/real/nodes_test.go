package real

import (
	"bytes"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sallyport/sallyport/internal/lab/boot"
	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

const (
	readyLimit  = 15 * time.Second // from the start of the lab until two real nodes are Ready
	memoryLimit = 2 << 30          // of a node: eight of them and a control plane fit in 24 GiB
)

func TestReal1Nodes(t *testing.T) {
	item := realItems.Item(t, 1)
	c := harness.StartSallyport(t, "real", harness.LoadTopology(t, "real.yaml"))
	checkStart(t, c, item)

	c.CreateOrganization(t, "real")
	ns := c.CreateProject(t, "real", "web", "10.90.0.0/24", "cloud")
	for _, node := range []string{"node1", "node2"} {
		runProbedPod(t, c, harness.Pod{Namespace: ns, Name: "on-" + node, Node: node}, "exec: {command: [/cat, /proc/self/status]}")
	}
	c.CreateNamespace(t, "real-probes", "") // in Kube-OVN's default VPC, where the kubelet reaches pods
	runProbedPod(t, c, harness.Pod{Namespace: "real-probes", Name: "by-http", Node: "node2"}, "httpGet: {port: 80, path: /}")
	address := c.CreateFIP(t, ns, "web", "{podTarget: {podName: on-node1}, externalNetworkType: public}")
	public := c.Network(t, "public")
	c.ResetDrops(t)
	expectAnswers(t, c, public.Client, address, public.ClientAddress)
	c.ExpectNoDrops(t)
	checkStreams(t, c, ns, "on-node1")
	checkProbes(t, c, ns)
	reportMemory(t, c, item)
	checkPowerCut(t, c, item, func() {
		c.ExpectSilence(t, public.Client, "http://"+address)
	})
	c.WaitForObject(t, "Pod", ns, "on-node1", isRestarted)
	c.SyncFlows(t)
	expectAnswers(t, c, public.Client, address, public.ClientAddress)
}

// containerProtocols are the protocols that lab/echo answers. A container without CAP_NET_RAW can't speak SCTP in user
// space.
var containerProtocols = []string{"http", "tcp", "udp"}

// expectAnswers expects answers of pod on-node1 by each protocol that containers speak.
func expectAnswers(t *testing.T, c *harness.Cluster, where, address, saw string) {
	t.Helper()
	for _, protocol := range containerProtocols {
		c.ExpectAnswer(t, where, protocol+"://"+address+":80", "on-node1", saw)
	}
}

// checkStart looks at what the nodes say of themselves, and how long they took.
func checkStart(t *testing.T, c *harness.Cluster, item *show.Item) {
	t.Helper()
	status, err := c.Status(harness.Within(t, harness.Patience))
	if err != nil {
		t.Fatal(err)
	}
	took := map[string]boot.Timing{}
	for _, s := range status.Steps {
		took[s.Name] = s
	}
	ready := took["real nodes"].End
	item.AddFigure("two real nodes Ready %.1f s after the start of the lab", ready.Seconds())
	if ready == 0 || (show.IsFullSize() && ready > readyLimit) {
		t.Errorf("the real nodes were Ready after %s, allowed are %s", ready, readyLimit)
	}
	nodes, err := c.Client.CoreV1().Nodes().List(harness.Within(t, harness.Patience), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes.Items {
		if runtime := n.Status.NodeInfo.ContainerRuntimeVersion; !strings.HasPrefix(runtime, "containerd://") {
			t.Errorf("%s runs its containers with %q", n.Name, runtime)
		}
	}
}

// runProbedPod starts a pod and waits until its readiness probe has succeeded.
func runProbedPod(t *testing.T, c *harness.Cluster, p harness.Pod, probe string) {
	t.Helper()
	c.Apply(t, fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %[2]s, namespace: %[1]s, labels: {app: %[2]s}}
spec:
  nodeName: %[3]s
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: lab/echo
    imagePullPolicy: IfNotPresent
    readinessProbe: {periodSeconds: 1, %[4]s}`, p.Namespace, p.Name, p.Node, probe))
	c.WaitForObject(t, "Pod", p.Namespace, p.Name, manifest.True("Ready"))
}

// checkStreams reads the log of a container and runs a program in it: the token of its ServiceAccount is good.
func checkStreams(t *testing.T, c *harness.Cluster, ns, pod string) {
	t.Helper()
	if out := kubectl(t, c, "logs", "-n", ns, pod); !strings.Contains(out, pod+" answers on ports") {
		t.Errorf("the log of the container is %q", out)
	}
	token := kubectl(t, c, "exec", "-n", ns, pod, "--", "/cat", "/var/run/secrets/kubernetes.io/serviceaccount/token")
	for text, want := range map[string]bool{token: true, token + "x": false} {
		review, err := c.Client.AuthenticationV1().TokenReviews().Create(harness.Within(t, harness.Patience),
			&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: text}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		who := review.Status.User.Username
		if review.Status.Authenticated != want || (want && who != "system:serviceaccount:"+ns+":default") {
			t.Errorf("a token of %d characters is good: %t, want %t; it is that of %q", len(text),
				review.Status.Authenticated, want, who)
		}
	}
}

func kubectl(t *testing.T, c *harness.Cluster, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(harness.Within(t, harness.Patience), c.Parts.Program("kubectl"),
		append([]string{"--kubeconfig", c.Kubeconfig()}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("kubectl %s: %v: %s", strings.Join(args, " "), err, stderr.String())
	}
	return string(out)
}

// checkProbes runs a pod whose containers are not ready and not alive; those of runProbedPod are the control.
func checkProbes(t *testing.T, c *harness.Cluster, ns string) {
	t.Helper()
	c.Apply(t, fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: sick, namespace: %s}
spec:
  nodeName: node2
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: lab/echo
    imagePullPolicy: IfNotPresent
    readinessProbe: {exec: {command: [/cat, /nothing]}, periodSeconds: 1}
    livenessProbe: {exec: {command: [/cat, /nothing]}, periodSeconds: 1, failureThreshold: 1}`, ns))
	c.WaitForObject(t, "Pod", ns, "sick", isRestarted)
	pod, err := c.Client.CoreV1().Pods(ns).Get(harness.Within(t, harness.Patience), "sick", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
			t.Error("a pod is Ready although its readiness probe fails")
		}
	}
}

// isRestarted reports whether the container of a pod runs and has ended before.
func isRestarted(o *unstructured.Unstructured) bool {
	if o == nil {
		return false
	}
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "containerStatuses")
	for _, entry := range list {
		container, ok := entry.(map[string]any)
		if !ok {
			continue
		}
		count, _, _ := unstructured.NestedInt64(container, "restartCount")
		_, running, _ := unstructured.NestedMap(container, "state", "running")
		if count > 0 && running {
			return true
		}
	}
	return false
}

func reportMemory(t *testing.T, c *harness.Cluster, item *show.Item) {
	t.Helper()
	status, err := c.Status(harness.Within(t, harness.Patience))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range status.Nodes {
		item.AddFigure("%s: %d MiB of processes, %d MiB of disk in memory", n.Name, n.Memory>>20, n.Disk>>20)
		if n.Memory == 0 || n.Memory+n.Disk > memoryLimit {
			t.Errorf("%s uses %d bytes, and %d of disk; allowed are %d", n.Name, n.Memory, n.Disk, memoryLimit)
		}
	}
}

// checkPowerCut cuts the power of node1 and lets it return.
func checkPowerCut(t *testing.T, c *harness.Cluster, item *show.Item, whileDown func()) {
	t.Helper()
	begun := time.Now()
	if err := c.Order(harness.Within(t, harness.Patience), "kill", "node1"); err != nil {
		t.Fatal(err)
	}
	dead := time.Since(begun)
	whileDown()
	c.WaitForObject(t, "Node", "", "node1", func(o *unstructured.Unstructured) bool {
		return o != nil && !manifest.True("Ready")(o)
	})
	noticed := time.Since(begun)
	begun = time.Now()
	if err := c.Order(harness.Within(t, 2*time.Minute), "start", "node1"); err != nil {
		t.Fatal(err)
	}
	item.AddFigure("power cut in %.1f s, NotReady after %.1f s, Ready %.1f s after its return", dead.Seconds(),
		noticed.Seconds(), time.Since(begun).Seconds())
}
