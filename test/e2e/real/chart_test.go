package real

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sallyport/sallyport/test/e2e/harness"
)

// The namespaces of the how-to's section on Pod Security.
const (
	controllerNamespace = "sallyport"
	agentNamespace      = "sallyport-agents"
)

// imageFile is Sallyport's image for a lab, written by `make lab-images`.
const imageFile = "../../../bin/sallyport-lab-image.tar"

// release is the chart in a lab with real nodes, installed as docs/howto/install.md says.
type release struct {
	*harness.Cluster
	env    []string
	page   string // the how-to
	values string // file with what is different in a lab
}

func TestReal2Chart(t *testing.T) {
	item := realItems.Item(t, 2)
	c := harness.StartLab(t, "chart", harness.LoadTopology(t, "real.yaml"))
	r := newRelease(t, c, "")
	item.AddFigure("image imported on two nodes in %.1f s", r.importImage(t).Seconds())
	item.AddFigure("two controllers and two agents Ready %.1f s after helm install", r.install(t).Seconds())
	r.checkPodSecurity(t)
	r.expectHealthy(t)

	w := r.createWorkload(t)
	sent := w.checkPackets(t)
	r.expectHealthy(t)
	item.AddFigure("%d kinds of addresses by packets, no drops; doctor clean, and not clean without a node for an EgressIP", sent)
	item.AddFigure("sallyport check --run: %s", r.checkSelftest(t))
	r.reportContainers(t, item)
	w.checkUpgrade(t, item)
	r.remove(t)
	item.AddFigure("installed, upgraded, rolled back and removed with the commands of the how-to; PodSecurity restricted refuses the agent's pod next to the controller")
}

// newRelease prepares the commands of the how-to. values is YAML that is added to what is different in a lab. If the test
// fails, it logs the pods and the controllers' last lines.
func newRelease(t *testing.T, c *harness.Cluster, values string) *release {
	t.Helper()
	r := &release{
		Cluster: c, page: harness.ReadFile(t, harness.HowtoDir+"install.md"), values: filepath.Join(t.TempDir(), "lab.yaml"),
		env: append(c.ShellEnv(t, harness.HelmDir(t)), "HOME="+t.TempDir()),
	}
	server := c.Blueprint.ServerAddresses()[0].Addr().String()
	// A lab has no DNS, and this image is not the one of a release.
	text := fmt.Sprintf("image: {tag: lab}\novn: {nbAddress: %q, sbAddress: %q}\nagent: {nodePaths: true}\n%s",
		"ssl:"+server+":6641", "ssl:"+server+":6642", values)
	if err := os.WriteFile(r.values, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("pods:\n%s", r.tryRun("kubectl get pods -A -o wide; kubectl -n sallyport logs --tail=20 --prefix -l app.kubernetes.io/name=sallyport"))
		}
	})
	return r
}

// run runs commands of a page in the root of the repository, with the release of this test.
func (r *release) run(t *testing.T, commands string) string {
	t.Helper()
	return harness.RunBash(t, harness.RepositoryRoot, r.env, r.adapt(commands))
}

func (r *release) adapt(commands string) string {
	commands = strings.ReplaceAll(commands, "--namespace kube-system", "--namespace "+controllerNamespace)
	commands = strings.ReplaceAll(commands, "helm install sallyport charts/sallyport",
		"helm install sallyport charts/sallyport --values "+r.values)
	return "eval \"$(sallyport lab env)\"\n" + commands
}

// importImage loads Sallyport's image on both nodes, and returns how long that took.
func (r *release) importImage(t *testing.T) time.Duration {
	t.Helper()
	file, err := filepath.Abs(imageFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, other := range []string{"/nothing.tar", "/etc/hostname"} { // no file, and no image
		if err := r.ImportImage(harness.Within(t, harness.Patience), other); err == nil {
			t.Errorf("%s was imported", other)
		}
	}
	begun := time.Now()
	if err := r.ImportImage(harness.Within(t, 2*time.Minute), file); err != nil {
		t.Fatalf("%v; run make lab-images", err)
	}
	return time.Since(begun)
}

// install makes the namespaces and Secrets as the pages say, installs the chart, and returns how long it took until its
// pods were ready.
func (r *release) install(t *testing.T) time.Duration {
	t.Helper()
	// Kube-OVN with ENABLE_SSL=true has made this one.
	pki := filepath.Join(r.Dir, "pki")
	r.run(t, fmt.Sprintf("kubectl -n kube-system create secret generic kube-ovn-tls --from-file=cacert=%[1]s/ca.crt --from-file=cert=%[1]s/ovn.crt --from-file=key=%[1]s/ovn.key", pki))
	steps := harness.SectionBlocks(t, r.page, "Pod Security")
	if len(steps) != 3 {
		t.Fatalf("the section has %d blocks, wanted namespaces, Secret and installation", len(steps))
	}
	r.run(t, steps[0])
	r.run(t, steps[1])
	r.createCertificates(t)
	begun := time.Now()
	r.run(t, steps[2])
	return time.Since(begun)
}

// createCertificates makes those of the agents and of the controller by hand, each in its namespace.
func (r *release) createCertificates(t *testing.T) {
	t.Helper()
	page := harness.ReadFile(t, harness.ReferenceDir+"certificates.md")
	commands := strings.ReplaceAll(harness.SectionBlocks(t, page, "By hand")[0], "-n kube-system",
		"-n $([ $name = sallyport-agent ] && echo "+agentNamespace+" || echo "+controllerNamespace+")")
	harness.RunBash(t, t.TempDir(), r.env, r.adapt(commands))
}

// checkPodSecurity tries the pods of both programs in both namespaces.
func (r *release) checkPodSecurity(t *testing.T) {
	t.Helper()
	ctx := harness.Within(t, harness.Patience)
	deployment, err := r.Client.AppsV1().Deployments(controllerNamespace).Get(ctx, "sallyport-controller", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	agents, err := r.Client.AppsV1().DaemonSets(agentNamespace).Get(ctx, "sallyport-agent", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if n := deployment.Status.ReadyReplicas; n != 2 || agents.Status.NumberReady != 2 {
		t.Errorf("%d controllers and %d agents are ready, wanted two of each", n, agents.Status.NumberReady)
	}
	if err := r.tryPod(t, controllerNamespace, "sallyport-controller", deployment.Spec.Template); err != nil {
		t.Errorf("the controller's pod is refused: %v", err)
	}
	if err := r.tryPod(t, agentNamespace, "sallyport-agent", agents.Spec.Template); err != nil {
		t.Errorf("the agent's pod is refused in the namespace of agents: %v", err)
	}
	account := agents.Spec.Template.DeepCopy()
	account.Spec.ServiceAccountName = "sallyport-controller" // that of agents does not exist here
	err = r.tryPod(t, controllerNamespace, "sallyport-agent", *account)
	if err == nil || !strings.Contains(err.Error(), `violates PodSecurity "restricted:latest"`) {
		t.Errorf("the agent's pod next to the controller: %v; wanted a refusal", err)
	}
}

// tryPod asks the API server whether it would take a pod.
func (r *release) tryPod(t *testing.T, namespace, name string, template corev1.PodTemplateSpec) error {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Spec: template.Spec}
	_, err := r.Client.CoreV1().Pods(namespace).Create(harness.Within(t, harness.Patience), pod,
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// where tells the commands of `sallyport` where the chart is.
const where = " --controller-namespace " + controllerNamespace + " --agent-namespace " + agentNamespace

// expectHealthy asks `sallyport doctor` and `sallyport status`.
func (r *release) expectHealthy(t *testing.T) {
	t.Helper()
	harness.ExpectContains(t, r.run(t, "sallyport doctor"+where), "nothing is wrong", "2 nodes, of which 2 answered")
	state := r.run(t, "sallyport status"+where)
	for _, node := range []string{"node1", "node2"} {
		if !regexp.MustCompile(`(?m)^` + node + ` .* (running|serves 1 networks)$`).MatchString(state) {
			t.Errorf("the agent of %s does not run:\n%s", node, state)
		}
	}
}

// checkSelftest runs the self-test with the image of the release, and returns its last line.
func (r *release) checkSelftest(t *testing.T) string {
	t.Helper()
	said := strings.TrimSpace(r.run(t, "sallyport check --run"+where))
	t.Log(said)
	return said[strings.LastIndex(said, "\n")+1:]
}

// tryRun runs commands for the log of a test that has failed.
func (r *release) tryRun(commands string) string {
	cmd := exec.Command("bash", "-c", r.adapt(commands))
	cmd.Dir, cmd.Env = harness.RepositoryRoot, r.env
	out, _ := cmd.CombinedOutput()
	return string(out)
}

// controllerArgs returns the arguments of the Deployment.
func (r *release) controllerArgs(t *testing.T) []string {
	t.Helper()
	d, err := r.Client.AppsV1().Deployments(controllerNamespace).Get(harness.Within(t, harness.Patience),
		"sallyport-controller", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return d.Spec.Template.Spec.Containers[0].Args
}
