package scale

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// simulatedProjectsVariable overrides the number of projects of the simulation.
const simulatedProjectsVariable = "SALLYPORT_SIMULATED_PROJECTS"

// maxSimulatedStart is how long the controller may take until every project has run. It is no figure.
const maxSimulatedStart = 20 * time.Minute

// simulation is a cluster of a real API server, a real northbound database and the real controller. Kube-OVN has a
// stand-in, and nothing carries packets. All projects but the first are copies of it.
type simulation struct {
	serviceFixture
	standIn *kubeOVNStandIn

	projects, services, pods, nodes int    // services and pods are for each project
	profiles                        string // address of the controller's profiles
	template                        *projectTemplate
}

// TestScale8Simulation measures start, memory and changes in a cluster that is too large for a lab with packets.
func TestScale8Simulation(t *testing.T) {
	item := scaleItems.Item(t, 8)
	s := &simulation{
		projects: show.ChooseSize(10000, 10), services: show.ChooseSize(10, 4), pods: show.ChooseSize(10, 4),
		nodes: show.ChooseSize(1000, 10),
	}
	if text := os.Getenv(simulatedProjectsVariable); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("%s: %v", simulatedProjectsVariable, err)
		}
		s.projects, s.services, s.pods, s.nodes = n, 10, 10, max(10, n/10)
	}
	begun := time.Now()
	made := s.create(t)
	item.AddFigure("%d projects with %d Services and %d pods each, %d nodes: %s; ready after %.0f s", s.projects,
		s.services, s.pods, s.nodes, made, time.Since(begun).Seconds())
	t.Log(made)
	item.AddFigure("%s", s.measureStart(t))
	for _, text := range s.measureChanges(t) {
		item.AddFigure("%s", text)
	}
	item.AddFigure("at the end: %s", s.describeMemory(t))
}

// create starts a lab, makes one project in it and copies it. The controller is stopped then.
func (s *simulation) create(t *testing.T, flags ...string) string {
	t.Helper()
	s.profiles = harness.FreeAddress(t)
	f := harness.NewScaleFixture(t, append(flags, "--pprof-address", s.profiles)...)
	// Killed, not paused: a database keeps everything that a client which is paused has not read.
	for _, process := range []string{"kube-ovn-controller", "ovn-northd", "node1-ovn-controller"} {
		f.ControlLab(t, "kill", process)
	}
	s.serviceFixture = serviceFixture{f, nil, nil}
	s.standIn = startStandIn(t, f, 0)
	s.Size = 1
	s.populate(t)
	s.WaitIdle(t)
	s.expectProgrammed(t)

	s.Controller.Stop(syscall.SIGTERM)
	s.standIn.stop()
	s.readTemplate(t)
	etcd, api := s.readCommand(t, "etcd"), s.readCommand(t, "kube-apiserver")
	for _, process := range []string{"kube-controller-manager", "kube-scheduler", "kube-apiserver"} {
		f.ControlLab(t, "kill", process)
	}
	// Copies are large transactions, of which etcd keeps 10,000 in memory and on disk unless it is told otherwise.
	s.rerunProcess(t, "etcd", append(etcd, "--snapshot-count=200", "--snapshot-catchup-entries=20"))
	made := s.copyProjects(t)
	// Its cache would need 10 GiB for 10,000 projects. It answers from etcd instead.
	s.rerunProcess(t, "kube-apiserver", append(api, "--watch-cache=false"))
	s.waitAPIReady(t)
	s.continueStandIn(t)
	s.watch = harness.NewLoadBalancerWatch(t, s.Cluster)
	return made
}

// continueStandIn starts another stand-in. The external addresses of all copies are taken.
func (s *simulation) continueStandIn(t *testing.T) {
	t.Helper()
	s.standIn = startStandIn(t, s.ScaleFixture, firstCopied+s.Size*len(s.template.addresses))
}

// startController starts the controller and waits until every project has run.
func (s *simulation) startController(t *testing.T) {
	t.Helper()
	s.Controller.Start(t)
	s.WaitForMetrics(t, maxSimulatedStart, func(now map[string]float64) bool {
		return harness.SumShardRuns(now) >= float64(s.projects) && now["sallyport_shards_waiting"] == 0
	})
}

// waitAPIReady waits until the API server has read all objects.
func (s *simulation) waitAPIReady(t *testing.T) {
	t.Helper()
	ctx, ticks := harness.Within(t, maxSimulatedStart), time.NewTicker(time.Second)
	defer ticks.Stop()
	for s.Client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error() != nil {
		select {
		case <-ticks.C:
		case <-ctx.Done():
			t.Fatal("the API server is not ready")
		}
	}
}

// readCommand returns the program of a process and its arguments.
func (s *simulation) readCommand(t *testing.T, process string) []string {
	t.Helper()
	return strings.Split(strings.TrimSuffix(s.readProcessFile(t, process, "cmdline"), "\x00"), "\x00")
}

// rerunProcess replaces a process of the lab. It collects garbage more often than in a small lab.
func (s *simulation) rerunProcess(t *testing.T, name string, command []string) {
	t.Helper()
	if err := s.Run(harness.Within(t, harness.Patience), name, append([]string{"env", "GOGC=50"}, command...)...); err != nil {
		t.Fatal(err)
	}
}

// populate creates a node and the first project, with an address, Services and pods.
func (s *simulation) populate(t *testing.T) {
	t.Helper()
	ctx := harness.Within(t, harness.Patience)
	if _, err := s.Client.CoreV1().Nodes().Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: simulatedNode(0)},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := s.populateProject(ctx); err != nil {
		t.Fatal(err)
	}
}

func (s *simulation) populateProject(ctx context.Context) error {
	if err := s.CreateObject(ctx, "Project", "fleet", harness.ProjectName(0),
		"cidrBlock: 10.0.0.0/24, egressNetworkType: cloud"); err != nil {
		return err
	}
	namespace := s.NamespaceOf(0)
	// without both no pod is accepted
	if err := s.Objects.Wait(ctx, harness.ObjectRef("Subnet", "", ownership.VPCSubnetName(namespace)),
		harness.IsReady); err != nil {
		return err
	}
	if err := s.Objects.Wait(ctx, harness.ObjectRef("ServiceAccount", namespace, "default"),
		manifest.Exists); err != nil {
		return err
	}
	if err := s.CreateObject(ctx, "EIp", namespace, sharedEIP, "externalNetworkType: cloud"); err != nil {
		return err
	}
	services := memoryFixture{ScaleFixture: s.ScaleFixture}
	for n := range s.services {
		if err := services.createServiceAt(ctx, n, clusterAddress(n).String()); err != nil {
			return err
		}
	}
	for n := range s.pods {
		if err := s.createPod(ctx, namespace, n, simulatedNode(n%s.nodes)); err != nil {
			return err
		}
	}
	return s.standIn.createPodPorts(ctx, namespace, 0, s.pods)
}

// createPod creates a pod that runs on a node without a kubelet.
func (s *simulation) createPod(ctx context.Context, namespace string, n int, node string) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: simulatedPod(n), Labels: map[string]string{"app": simulatedPod(n)}}}
	pod.Spec = corev1.PodSpec{
		NodeName: node, Containers: []corev1.Container{{Name: "main", Image: "none"}},
		Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}, // the node is never Ready
	}
	pods := s.Client.CoreV1().Pods(namespace)
	if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return err
	}
	_, err := pods.Patch(ctx, pod.Name, types.MergePatchType, fmt.Appendf(nil,
		`{"status": {"phase": "Running", "podIP": %[1]q, "podIPs": [{"ip": %[1]q}]}}`, simulatedPodAddress(n)),
		metav1.PatchOptions{}, "status")
	return err
}

const simulatedNodePrefix = "simulated-"

func simulatedNode(i int) string { return fmt.Sprintf(simulatedNodePrefix+"%04d", i) }

func simulatedPod(n int) string { return fmt.Sprintf("pod-%d", n) }

func simulatedPodAddress(n int) string { return fmt.Sprintf("10.0.0.%d", 150+n) }

// expectProgrammed fails the test unless the Services of the only project have their address and it is in force. Copies
// are too, if the controller finds nothing to write.
func (s *simulation) expectProgrammed(t *testing.T) {
	t.Helper()
	for n := range s.services {
		s.WaitForObject(t, "Service", s.NamespaceOf(0), fmt.Sprintf("s%05d", n), manifest.True("Programmed"))
	}
	s.WaitForObject(t, "Project", "fleet", harness.ProjectName(0), manifest.True("Programmed"))
}

// readProcessFile reads a file in the /proc directory of a process of the lab.
func (s *simulation) readProcessFile(t *testing.T, name, file string) string {
	t.Helper()
	status, err := s.Status(harness.Within(t, harness.Patience))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range status.Processes {
		if p.Name == name {
			return harness.ReadFile(t, s.Inside(fmt.Sprintf("/proc/%d/%s", p.PID, file)))
		}
	}
	t.Fatalf("the lab has no process %s", name)
	return ""
}

// describeMemory returns the resident memory of everything large.
func (s *simulation) describeMemory(t *testing.T) string {
	t.Helper()
	resident, peak := s.Controller.MemoryUsage(t)
	texts := []string{fmt.Sprintf("controller %d MiB, at most %d MiB", resident, peak)}
	for _, name := range []string{"ovn-nb1", "kube-apiserver", "etcd"} {
		for line := range strings.Lines(s.readProcessFile(t, name, "status")) {
			var kib int
			if _, err := fmt.Sscanf(line, "VmRSS: %d kB", &kib); err == nil {
				texts = append(texts, fmt.Sprintf("%s %d MiB", name, kib/1024))
			}
		}
	}
	return strings.Join(texts, ", ")
}

// measureStart starts the controller, which writes nothing, because nothing has changed.
func (s *simulation) measureStart(t *testing.T) string {
	t.Helper()
	begin := time.Now()
	s.startController(t)
	run := time.Since(begin)
	s.WaitIdle(t)
	use := memoryFixture{s.ScaleFixture, s.profiles}.readMemory(t)
	now := s.Controller.ReadMetrics(t)
	writes := harness.SumWrites(now)
	if writes > 0 {
		t.Errorf("%.0f writes after a restart at which nothing had changed: %v", writes,
			harness.CounterIncreases(map[string]float64{}, now))
	}
	text := fmt.Sprintf("start: every project run after %.0f s, %.1f s of CPU, %.0f runs of shards, %.0f writes; live heap "+
		"%.0f MiB; %s", run.Seconds(), s.Controller.CPUTime(t).Seconds(), harness.SumShardRuns(now), writes,
		(use.heap-reservedHeap)/(1<<20), s.describeMemory(t))
	t.Log(text)
	return text
}

// simulatedChange is a change of one kind.
type simulatedChange struct {
	what    string
	prepare func(i int) // before the time starts; may be nil
	do      func(i int) // returns when the change is in force
}

// changes are the changes that are measured, in order. They are in the first projects.
func (s *simulation) changes(t *testing.T) []simulatedChange {
	create := func(kind, namespace, name, spec string) {
		if err := s.CreateObject(harness.Within(t, harness.Patience), kind, namespace, name, spec); err != nil {
			t.Fatal(err)
		}
	}
	createAndWait := func(kind, namespace, name, spec string) {
		create(kind, namespace, name, spec)
		s.WaitForObject(t, kind, namespace, name, manifest.True("Programmed"))
	}
	name := func(i int) string { return fmt.Sprintf("one%d", i) }
	const podsBefore = 20 // more than any project has
	namespace := s.NamespaceOf(0)
	return []simulatedChange{
		{"a Service created", nil, func(i int) { s.applyService(t, i, "10.0.0.8") }},
		{"an EndpointSlice changed", nil, func(i int) { s.applyService(t, i, "10.0.0.9") }},
		{"a Service deleted", nil, func(i int) {
			s.manage(t, s.Objects.Delete, s.manifests(name(i), 2000+i, "10.0.0.9"))
			s.waitForVIP(t, name(i), harness.HasNoVIP)
		}},
		{"an EIp created", nil, func(i int) { createAndWait("EIp", namespace, name(i), "externalNetworkType: cloud") }},
		{"a FIp created", nil, func(i int) {
			createAndWait("FIp", namespace, name(i), fmt.Sprintf("eip: %s, ipAddress: 10.0.0.%d", name(i), 120+i))
		}},
		{"a pod created, for which a FIp waits", func(i int) {
			create("FIp", namespace, "pod-"+name(i), fmt.Sprintf("podTarget: {podName: %s}, externalNetworkType: cloud",
				simulatedPod(podsBefore+i)))
		}, func(i int) {
			ctx := harness.Within(t, harness.Patience)
			if err := errors.Join(s.standIn.createPodPorts(ctx, namespace, podsBefore+i, 1),
				s.createPod(ctx, namespace, podsBefore+i, simulatedNode(0))); err != nil {
				t.Fatal(err)
			}
			s.WaitForObject(t, "FIp", namespace, "pod-"+name(i), manifest.True("Programmed"))
		}},
		{"an EgressIP created, until its first status (no node can hold it)", nil, func(i int) {
			create("EgressIP", "", name(i), fmt.Sprintf("egressIPs: [100.65.254.%d], namespaceSelector: "+
				"{matchLabels: {kubernetes.io/metadata.name: %s}}", 100+i, namespace))
			s.WaitForObject(t, "EgressIP", "", name(i), func(o *unstructured.Unstructured) bool {
				return o != nil && harness.FindCondition(o, "Programmed") != nil
			})
		}},
		{"a Project created", nil, func(i int) {
			createAndWait("Project", "fleet", "new-"+name(i), "cidrBlock: 10.0.0.0/24, egressNetworkType: cloud")
		}},
	}
}

// measureChanges makes some changes of each kind, and returns the time until each was in force and the controller's
// CPU.
func (s *simulation) measureChanges(t *testing.T) (out []string) {
	t.Helper()
	const count = 3
	for _, change := range s.changes(t) {
		for i := range count {
			if change.prepare != nil {
				change.prepare(i)
			}
		}
		s.WaitIdle(t)
		before := s.Controller.CPUTime(t)
		var took []time.Duration
		for i := range count {
			begin := time.Now()
			change.do(i)
			took = append(took, time.Since(begin))
		}
		s.WaitIdle(t)
		cpu := (s.Controller.CPUTime(t) - before) / count
		out = append(out, fmt.Sprintf("%s: %.0f ms (median of %d), %.0f ms of CPU", change.what,
			harness.Milliseconds(harness.MedianDuration(took)), count, harness.Milliseconds(cpu)))
		t.Log(out[len(out)-1])
	}
	return append(out, "the CPU of a change includes seconds of idleness around it: "+strings.TrimSpace(s.measureIdle(t)))
}

// measureIdle returns the controller's CPU while nothing changes.
func (s *simulation) measureIdle(t *testing.T) string {
	t.Helper()
	s.WaitIdle(t)
	before, cpu := s.Controller.CountWrites(t), s.Controller.CPUTime(t)
	const pause = 5 * time.Second
	<-time.After(pause) // no event to wait for: nothing should happen
	if n := s.Controller.CountWrites(t) - before; n > 0 {
		t.Errorf("%.0f writes at rest", n)
	}
	return fmt.Sprintf("%.0f ms of CPU in %.0f s at rest, 0 writes", harness.Milliseconds(s.Controller.CPUTime(t)-cpu),
		pause.Seconds())
}

// applyService writes a Service with one endpoint in the first project, and waits for the row.
func (s *simulation) applyService(t *testing.T, i int, endpoint string) {
	t.Helper()
	name := fmt.Sprintf("one%d", i)
	s.manage(t, s.Objects.Apply, s.manifests(name, 2000+i, endpoint))
	s.waitForVIP(t, name, harness.HasBackend(endpoint))
}
