package scale

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// simulatedProjectsVariable overrides the number of projects of the simulation.
const simulatedProjectsVariable = "SALLYPORT_SIMULATED_PROJECTS"

// simulation is a cluster of a real API server, a real northbound database and the real controller. Kube-OVN has a
// stand-in, and nothing carries packets.
type simulation struct {
	serviceFixture
	standIn *kubeOVNStandIn

	projects, services, pods, nodes int // services and pods are for each project
}

// TestScale8Simulation measures start, memory and changes in a cluster that is too large for a lab with packets.
func TestScale8Simulation(t *testing.T) {
	item := scaleItems.Item(t, 8)
	s := simulation{
		projects: show.ChooseSize(10000, 10), services: show.ChooseSize(10, 4), pods: show.ChooseSize(10, 4),
		nodes: show.ChooseSize(1000, 10),
	}
	if text := os.Getenv(simulatedProjectsVariable); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("%s: %v", simulatedProjectsVariable, err)
		}
		s.projects, s.services, s.pods, s.nodes = n, 10, 10, max(1, n/10)
	}
	f := harness.NewScaleFixture(t)
	for _, process := range []string{"kube-ovn-controller", "ovn-northd", "node1-ovn-controller"} {
		f.ControlLab(t, "pause", process)
	}
	s.serviceFixture = serviceFixture{f, nil, harness.NewLoadBalancerWatch(t, f.Cluster)}
	s.standIn = startStandIn(t, f, map[string]netip.Addr{
		"ext-cloud": netip.MustParseAddr("100.65.1.0"), "ext-public": netip.MustParseAddr("198.18.1.0"),
	})
	begun := time.Now()
	s.populate(t)
	s.WaitIdle(t)
	s.expectAllProgrammed(t)
	resident, peak := s.Controller.MemoryUsage(t)
	item.AddFigure("%d projects with %d Services and %d pods each, %d nodes: created and in force after %.0f s "+
		"(the lab's API server included), %.1f s of the controller's CPU; %d MiB, at most %d MiB", s.projects, s.services,
		s.pods, s.nodes, time.Since(begun).Seconds(), s.Controller.CPUTime(t).Seconds(), resident, peak)
	item.AddFigure("%s", s.measureStart(t))
	for _, text := range s.measureChanges(t) {
		item.AddFigure("%s", text)
	}
}

// populate creates nodes, and projects with an address, Services and pods.
func (s *simulation) populate(t *testing.T) {
	t.Helper()
	group, ctx := errgroup.WithContext(harness.Within(t, show.ChooseSize(3*time.Hour, 3*time.Minute)))
	group.SetLimit(24)
	for i := range s.nodes {
		group.Go(func() error {
			_, err := s.Client.CoreV1().Nodes().Create(ctx, &corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: simulatedNode(i)},
			}, metav1.CreateOptions{})
			return err
		})
	}
	s.Size = s.projects // NamespaceOf and createService distribute over them
	for i := range s.projects {
		group.Go(func() error { return s.populateProject(ctx, i) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

func (s *simulation) populateProject(ctx context.Context, i int) error {
	if err := s.CreateObject(ctx, "Project", "fleet", harness.ProjectName(i),
		"cidrBlock: 10.0.0.0/24, egressNetworkType: cloud"); err != nil {
		return err
	}
	namespace := s.NamespaceOf(i)
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
		if err := services.createService(ctx, n*s.projects+i); err != nil {
			return err
		}
	}
	for n := range s.pods {
		if err := s.createPod(ctx, namespace, n, simulatedNode((i+n)%s.nodes)); err != nil {
			return err
		}
	}
	return s.standIn.createPodPorts(ctx, namespace, s.pods)
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

func simulatedNode(i int) string { return fmt.Sprintf("simulated-%04d", i) }

func simulatedPod(n int) string { return fmt.Sprintf("pod-%d", n) }

func simulatedPodAddress(n int) string { return fmt.Sprintf("10.0.0.%d", 150+n) }

// expectAllProgrammed fails the test unless all Services have their address and all Projects are in force.
func (s *simulation) expectAllProgrammed(t *testing.T) {
	t.Helper()
	wanted := s.projects * s.services
	harness.Eventually(t, fmt.Sprintf("%d Services are Programmed", wanted), func() bool {
		return s.countProgrammed(t) >= wanted
	})
	for i := range s.projects {
		s.WaitForObject(t, "Project", "fleet", harness.ProjectName(i), manifest.True("Programmed"))
	}
}

// countProgrammed returns the number of Services with the condition Programmed.
func (s *simulation) countProgrammed(t *testing.T) (count int) {
	t.Helper()
	options := metav1.ListOptions{Limit: 5000}
	for {
		list, err := s.Client.CoreV1().Services("").List(harness.Within(t, 5*time.Minute), options)
		if err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			if slices.ContainsFunc(list.Items[i].Status.Conditions, func(c metav1.Condition) bool {
				return c.Type == kubedcv1.ConditionProgrammed && c.Status == metav1.ConditionTrue
			}) {
				count++
			}
		}
		if options.Continue = list.Continue; options.Continue == "" {
			return count
		}
	}
}

// measureStart restarts the controller, which writes nothing if nothing has changed.
func (s *simulation) measureStart(t *testing.T) string {
	t.Helper()
	s.Controller.Stop(syscall.SIGTERM)
	begin := time.Now()
	s.Controller.Start(t)
	s.WaitIdle(t)
	// WaitIdle waits for some seconds of idleness
	text := fmt.Sprintf("restart: idle after at most %.0f s, %.1f s of CPU", time.Since(begin).Seconds(),
		s.Controller.CPUTime(t).Seconds())
	if n := s.Controller.CountWrites(t); n > 0 {
		t.Errorf("%.0f writes after a restart at which nothing had changed", n)
	}
	runs := harness.SumShardRuns(s.Controller.ReadMetrics(t))
	if runs < float64(s.projects) {
		t.Errorf("%.0f shards were run for %d projects", runs, s.projects)
	}
	resident, peak := s.Controller.MemoryUsage(t)
	return fmt.Sprintf("%s, %.0f runs of shards, 0 writes; %d MiB, at most %d MiB", text, runs, resident, peak)
}

// measureChanges makes some changes of each kind, and returns the time until each was in force and the controller's
// CPU.
func (s *simulation) measureChanges(t *testing.T) (out []string) {
	t.Helper()
	const count = 3
	for _, change := range []struct {
		what string
		do   func(i int)
	}{
		{"a Service created", func(i int) { s.applyService(t, i, "10.0.0.8") }},
		{"an endpoint changed", func(i int) { s.applyService(t, i, "10.0.0.9") }},
		{"a Service deleted", func(i int) {
			s.manage(t, s.Objects.Delete, s.manifests(fmt.Sprintf("one%d", i), 2000+i, "10.0.0.9"))
			s.waitForVIP(t, fmt.Sprintf("one%d", i), harness.HasNoVIP)
		}},
		{"an EIp and a FIp created", func(i int) { s.CreateProbeFIP(t, i) }},
		{"a Project created", func(i int) {
			name := harness.ProjectName(s.projects + i)
			if err := s.CreateObject(harness.Within(t, harness.Patience), "Project", "fleet", name,
				"cidrBlock: 10.0.0.0/24, egressNetworkType: cloud"); err != nil {
				t.Fatal(err)
			}
			s.WaitForObject(t, "Project", "fleet", name, manifest.True("Programmed"))
		}},
	} {
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
