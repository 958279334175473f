package tenancy

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// Annotations of Kube-OVN and Multus that select the networks of a pod.
const (
	podSwitchKey        = "ovn.kubernetes.io/logical_switch"
	podNetworksKey      = "k8s.v1.cni.cncf.io/networks"
	attachmentSwitchKey = "default.acme-web.ovn.kubernetes.io/logical_switch"
)

const victimSwitch = "acme-web-default"

// noAdmissionFixture is a lab without admission policies: a victim, an attacker with a project, and one without.
type noAdmissionFixture struct {
	*harness.Cluster
	controller              *harness.Controller
	public                  harness.ExternalNetwork
	shopAddress, dnsAddress string // addresses of the victim's pod and of the platform's
	streams                 []*harness.Stream
}

func newNoAdmissionFixture(t *testing.T) *noAdmissionFixture {
	t.Helper()
	c := harness.StartLab(t, "wall", harness.LoadTopology(t, "shared.yaml"))
	c.InstallSallyport(t)
	policies := c.Client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	if err := policies.DeleteCollection(harness.Within(t, harness.Patience), metav1.DeleteOptions{},
		metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	w := &noAdmissionFixture{
		Cluster:    c,
		public:     c.Network(t, "public"),
		controller: c.NewController(t, t.TempDir(), "--isolation=Report", "--trusted-namespaces=kube-system"),
	}
	w.controller.StartForTest(t)
	c.CreateOrganization(t, "acme")
	c.CreateOrganization(t, "evil")
	c.CreateProject(t, "acme", "web", "10.30.0.0/24", "cloud")
	c.CreateProject(t, "evil", "x", "10.66.0.0/24", "cloud")
	c.CreateNamespace(t, "mgmt-b", "")
	w.shopAddress = c.RunPod(t, harness.Pod{Namespace: "acme-web", Name: "shop", Node: "node2"})
	c.RunPod(t, harness.Pod{Namespace: "acme-web", Name: "mate", Node: "node1"})
	c.RunPod(t, harness.Pod{Namespace: "evil-x", Name: "mallory", Node: "node2"})
	w.dnsAddress = c.RunPod(t, harness.Pod{Namespace: "mgmt-b", Name: "dns", Node: "node2"})
	fip := c.CreateFIP(t, "acme-web", "shop", "{podTarget: {podName: shop}, externalNetworkType: public}")
	w.streams = []*harness.Stream{
		w.StartStream(t, w.public.Client, fip),
		w.StartStream(t, "mate.acme-web", w.shopAddress),
	}
	return w
}

// restartController restarts the controller with other settings.
func (w *noAdmissionFixture) restartController(t *testing.T, settings ...string) {
	t.Helper()
	w.controller.Stop(syscall.SIGTERM)
	w.controller.Args = append(w.controller.Args[:len(w.controller.Args)-2], settings...)
	w.controller.Start(t)
}

// runPod starts a pod of an attacker.
func (w *noAdmissionFixture) runPod(t *testing.T, namespace, name string, annotations map[string]string) string {
	t.Helper()
	return w.RunPod(t, harness.Pod{Namespace: namespace, Name: name, Node: "node1", Annotations: annotations})
}

// expectIsolated waits until the condition Isolated of a Project has a reason and message, or is absent if the reason
// is empty.
func (w *noAdmissionFixture) expectIsolated(t *testing.T, organization, project, reason, says string) {
	t.Helper()
	w.WaitForObject(t, "Project", organization, project, func(o *unstructured.Unstructured) bool {
		message, _ := harness.FindCondition(o, "Isolated")["message"].(string)
		return o != nil && harness.FalseReason(o, "Isolated") == reason && strings.Contains(message, says)
	})
}

// expectMisplaced waits until the metric of misplaced pods has a value.
func (w *noAdmissionFixture) expectMisplaced(t *testing.T, isolation string, want float64) {
	t.Helper()
	w.PollUntil(t, fmt.Sprintf("%v misplaced pods with %s", want, isolation), func() bool {
		got, err := w.controller.ScrapeMetrics(harness.Within(t, harness.Patience))
		return err == nil && got[fmt.Sprintf("sallyport_misplaced_pods{isolation=%q}", isolation)] == want
	})
}

// isolationPortGroups returns the port groups that drop packets of misplaced pods.
func (w *noAdmissionFixture) isolationPortGroups(t *testing.T) (out []string) {
	t.Helper()
	for _, row := range w.ReadNBTable(t, "port_group", "name") {
		if name := fmt.Sprint(row["name"]); strings.HasPrefix(name, "sallyport_isolation.") {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// countSwitchFlows returns the number of logical flows of the victim's switch.
func (w *noAdmissionFixture) countSwitchFlows(t *testing.T) int {
	t.Helper()
	w.SyncFlows(t)
	list := w.RunTool(t, "ovn-sbctl", "--no-leader-only", harness.ToolTimeout,
		"--db=unix:"+filepath.Join(w.Dir, "data/ovn/sb1.sock"), "lflow-list", victimSwitch)
	return strings.Count(list, "\n")
}

// runDoctor returns the output of sallyport doctor.
func (w *noAdmissionFixture) runDoctor(t *testing.T) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	north, south := w.DatabaseConfig(t, "nb"), w.DatabaseConfig(t, "sb")
	cmd := exec.CommandContext(ctx, "../../../bin/sallyport", "doctor", "--kubeconfig", w.Kubeconfig(),
		"--nb-address", strings.Join(north.Endpoints, ","), "--sb-address", strings.Join(south.Endpoints, ","),
		"--nb-cert", north.CertFile, "--nb-key", north.KeyFile, "--nb-ca", north.CAFile)
	out, _ := cmd.CombinedOutput() // the exit code is not 0 because there are findings
	return string(out)
}

// expectEvent waits for an Event of a Project.
func (w *noAdmissionFixture) expectEvent(t *testing.T, organization, project, reason string) {
	t.Helper()
	w.PollUntil(t, "Event "+reason, func() bool {
		list, err := w.Client.CoreV1().Events(organization).List(harness.Within(t, harness.Patience), metav1.ListOptions{})
		return err == nil && slices.ContainsFunc(list.Items, func(e corev1.Event) bool {
			return e.InvolvedObject.Kind == "Project" && e.InvolvedObject.Name == project && e.Reason == reason
		})
	})
}

// TestTenancyWall puts pods on networks where they do not belong, as a user who bypasses admission could. With Report
// they have access; with Enforce no packet passes in either direction, and the victim's connections continue.
func TestTenancyWall(t *testing.T) {
	item := tenancyItems.Item(t, 5)
	w := newNoAdmissionFixture(t)
	spy := w.runPod(t, "evil-x", "spy", map[string]string{podSwitchKey: victimSwitch})

	t.Run("Report", func(t *testing.T) { // the positive control
		w.ExpectAnswer(t, "spy.evil-x", "http://"+w.shopAddress, "shop", spy)
		w.ExpectAnswer(t, "shop.acme-web", "http://"+spy, "spy", w.shopAddress)
		w.expectIsolated(t, "acme", "web", "ForeignPod", "NOT dropped")
		w.expectEvent(t, "acme", "web", "ForeignPod")
		w.expectMisplaced(t, "Report", 1)
		if got := w.isolationPortGroups(t); len(got) != 0 {
			t.Errorf("rows are written: %q", got)
		}
	})
	before := w.countSwitchFlows(t)
	open := w.StartStream(t, "spy.evil-x", w.shopAddress)
	harness.ExpectStreamsContinue(t, "the attacker's connection, with Report", open)
	harness.ResetGaps(w.streams...)
	w.restartController(t, "--isolation=Enforce", "--trusted-namespaces=kube-system")
	w.expectIsolated(t, "acme", "web", "ForeignPod", "packets of such pods are dropped")

	t.Run("Enforce", func(t *testing.T) {
		w.SyncFlows(t)
		w.PollUntil(t, "Open vSwitch has revalidated its flows", func() bool {
			_, err := w.SendRequest("spy.evil-x", "http://"+w.shopAddress)
			return err != nil
		})
		for _, protocol := range harness.Protocols {
			w.ExpectSilence(t, "spy.evil-x", protocol+"://"+w.shopAddress+":80")
			w.ExpectSilence(t, "shop.acme-web", protocol+"://"+spy+":80")
		}
		w.ExpectSilence(t, "spy.evil-x", "http://"+harness.InternetAddress)
		w.expectMisplaced(t, "Enforce", 1)
		if said := w.runDoctor(t); !strings.Contains(said, "ForeignPod") || !strings.Contains(said, "evil-x/spy") {
			t.Errorf("doctor says\n%s", said)
		}
		w.PollUntil(t, "the end of a connection that is older than the rules", func() bool {
			return open.LongestGap() > 3*time.Second
		})
		w.ExpectAnswer(t, "mate.acme-web", "http://"+w.shopAddress, "shop", "")
		item.AddFigure("second wall: a project without misplaced pods has no rows and no flows for it; with any number of them %d port group with two ACLs, and %d logical flows",
			len(w.isolationPortGroups(t)), w.countSwitchFlows(t)-before)
	})
	t.Run("Trusted", func(t *testing.T) { // control: only the rules blocked the pods
		w.restartController(t, "--isolation=Enforce", "--trusted-namespaces=kube-system,evil-x")
		w.expectIsolated(t, "acme", "web", "", "")
		w.PollUntil(t, "no rows", func() bool { return len(w.isolationPortGroups(t)) == 0 })
		w.SyncFlows(t)
		w.ExpectAnswer(t, "spy.evil-x", "http://"+w.shopAddress, "shop", spy)
		w.restartController(t, "--isolation=Enforce", "--trusted-namespaces=kube-system")
		w.expectIsolated(t, "acme", "web", "ForeignPod", "are dropped")
	})
	w.DeleteAndWait(t, "Pod", "evil-x", "spy")
	w.expectIsolated(t, "acme", "web", "", "")
	t.Run("WaysIn", w.checkMisplacedPods)
	t.Run("Window", w.measureWindow)

	w.expectIsolated(t, "acme", "web", "", "")
	w.expectIsolated(t, "evil", "x", "", "")
	w.expectMisplaced(t, "Enforce", 0)
	w.PollUntil(t, "no rows", func() bool { return len(w.isolationPortGroups(t)) == 0 })
	silence := harness.ExpectStreamsContinue(t, "the victim's streams", w.streams...)
	t.Logf("the victim's streams were never silent for longer than %v", silence.Round(time.Millisecond))
	if said := w.runDoctor(t); strings.Contains(said, "ForeignPod") || strings.Contains(said, "StrayPod") {
		t.Errorf("doctor still says\n%s", said)
	}
}

// misplacedPod is a pod on a network where it does not belong.
type misplacedPod struct {
	what, namespace, pod string
	annotations          map[string]string
	target, targetName   string // address and name that it must not reach
	project              string // the Project that reports it, as ORGANIZATION/NAME
	reason               string
}

// checkMisplacedPods tries each kind of misplaced pod with Enforce. The control is the same pod with Report.
func (w *noAdmissionFixture) checkMisplacedPods(t *testing.T) {
	for _, way := range []misplacedPod{
		{
			what: "a second interface", namespace: "evil-x", pod: "two",
			annotations: map[string]string{podNetworksKey: "acme-web/default", attachmentSwitchKey: victimSwitch},
			target:      w.shopAddress, targetName: "shop", project: "acme/web", reason: "ForeignPod",
		},
		{
			what: "a pod that is called after one of the victim's", namespace: "evil-x", pod: "shop.acme-web",
			annotations: map[string]string{podSwitchKey: victimSwitch},
			target:      w.shopAddress, targetName: "shop", project: "acme/web", reason: "ForeignPod",
		},
		{
			what: "a pod of a namespace without a project", namespace: "mgmt-b", pod: "spy",
			annotations: map[string]string{podSwitchKey: victimSwitch},
			target:      w.shopAddress, targetName: "shop", project: "acme/web", reason: "ForeignPod",
		},
		{
			what: "straight on the external network", namespace: "evil-x", pod: "wire",
			annotations: map[string]string{podSwitchKey: "ext-public"},
			target:      w.public.NeighbourAddress, targetName: w.public.Neighbour, project: "evil/x",
			reason: "StrayPod",
		},
		{
			what: "on the platform's network", namespace: "evil-x", pod: "platform",
			annotations: map[string]string{podSwitchKey: "ovn-default"},
			target:      w.dnsAddress, targetName: "dns", project: "evil/x", reason: "StrayPod",
		},
	} {
		t.Run(way.what, func(t *testing.T) { w.checkMisplacedPod(t, way) })
	}
}

func (w *noAdmissionFixture) checkMisplacedPod(t *testing.T, way misplacedPod) {
	t.Helper()
	organization, project, _ := strings.Cut(way.project, "/")
	own := w.runPod(t, way.namespace, way.pod, way.annotations)
	from, target := way.pod+"."+way.namespace, "http://"+way.target
	w.expectIsolated(t, organization, project, way.reason, way.namespace+"/"+way.pod)
	w.expectIsolated(t, organization, project, way.reason, "packets of such pods are dropped")
	w.SyncFlows(t)
	w.ExpectSilence(t, from, target)
	if way.annotations[podNetworksKey] != "" { // on its own network it is not restricted
		w.ExpectAnswer(t, "mallory.evil-x", "http://"+own, way.pod, "")
	}
	w.restartController(t, "--isolation=Report", "--trusted-namespaces=kube-system")
	w.expectIsolated(t, organization, project, way.reason, "NOT dropped")
	w.SyncFlows(t)
	w.ExpectAnswer(t, from, target, way.targetName, "")
	w.restartController(t, "--isolation=Enforce", "--trusted-namespaces=kube-system")
	w.expectIsolated(t, organization, project, way.reason, "are dropped")
	w.DeleteAndWait(t, "Pod", way.namespace, way.pod)
	w.expectIsolated(t, organization, project, "", "")
}

// measureWindow sends requests as soon as a misplaced pod runs: the rules are written together with its port, so they
// should be effective before the pod.
func (w *noAdmissionFixture) measureWindow(t *testing.T) {
	pods, through := show.ChooseSize(20, 5), 0
	for i := range pods {
		name := fmt.Sprintf("fast%d", i)
		w.runPod(t, "evil-x", name, map[string]string{podSwitchKey: victimSwitch})
		if _, err := w.SendRequest(name+".evil-x", "http://"+w.shopAddress); err == nil {
			through++
		}
		w.DeleteAndWait(t, "Pod", "evil-x", name)
	}
	t.Logf("%d of %d foreign pods were answered right after they were ready", through, pods)
}
