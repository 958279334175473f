package egress

import (
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	ovnv1 "github.com/sallyport/sallyport/api/ovn/v1"
	"github.com/sallyport/sallyport/internal/controller/nodehealth"
	"github.com/sallyport/sallyport/internal/lab"
	"github.com/sallyport/sallyport/internal/lab/blueprint"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// scenario is OVN-Kubernetes' test of readiness and reachability, with one kind of health check.
type scenario struct {
	what  string
	flags []string
	// prepareNode makes a node answer health checks.
	prepareNode func(y *egressFixture, t *testing.T, node string)
	healthPort  int
}

var scenarios = []scenario{
	{what: "nodes asked on port 9", healthPort: 9, prepareNode: func(*egressFixture, *testing.T, string) {}},
	{
		what:        "nodes asked by gRPC with TLS",
		healthPort:  9107,
		flags:       []string{"--egressip-node-healthcheck-port=9107"},
		prepareNode: (*egressFixture).startAgent,
	},
}

// The egress address, and the pod that uses it.
const (
	stepAddress = "91.224.11.240"
	stepPod     = "a"
)

// runScenario starts the lab and runs the steps.
func (s scenario) runScenario(t *testing.T) string {
	t.Helper()
	y := s.startFixture(t, fmt.Sprintf("steps-%d", s.healthPort), 3)
	return (&scenarioRun{egressFixture: y, scenario: s, pod: stepPod + "." + y.namespaces[0]}).runSteps(t)
}

// startFixture starts a lab in which the controller runs inside and can reach the nodes. All nodes but the first may
// hold addresses.
func (s scenario) startFixture(t *testing.T, name string, nodes int) *egressFixture {
	t.Helper()
	y := startScenarioLab(t, name, nodes)
	s.install(t, y)
	return y
}

// startScenarioLab starts the lab of a scenario, without Sallyport.
func startScenarioLab(t *testing.T, name string, nodes int) *egressFixture {
	t.Helper()
	b, err := blueprint.Load("../testdata/egress.yaml")
	if err != nil {
		t.Fatal(err)
	}
	b.Nodes, b.Gateways = nodes, nodes-1
	y := &egressFixture{Cluster: harness.StartLab(t, name, b), agents: map[string]*exec.Cmd{}}
	if err := y.Objects.Apply(harness.Within(t, harness.Patience),
		harness.ReadFile(t, "../testdata/kubevirt.yaml")); err != nil {
		t.Fatal(err)
	}
	return y
}

// install installs the controller, prepares the nodes and creates projects.
func (s scenario) install(t *testing.T, y *egressFixture) {
	t.Helper()
	flags := append([]string{"--egressip-reachability-period=200ms"}, s.flags...)
	if s.healthPort != 9 {
		flags = append(flags, y.certificateFlags(nodehealth.ControllerName)...)
	}
	what := lab.Installation{
		Manifests: "../../../bin/sallyport.yaml",
		Program:   "../../../bin/sallyport-controller",
		Flags:     flags,
	}
	if err := y.Install(harness.Within(t, harness.Patience), what); err != nil {
		t.Fatal(err)
	}
	for _, n := range y.Blueprint.NodeList()[1:] {
		s.prepareNode(y, t, n.Name)
	}
	y.createProjects(t)
}

// certificateFlags returns the flags of the controller or of an agent for the certificate of its role.
func (y *egressFixture) certificateFlags(role string) []string {
	return harness.HealthCheckFlags(cmp.Or(y.mounted, filepath.Join(y.Dir, "pki")), role)
}

// startAgent runs sallyport-agent on a node.
func (y *egressFixture) startAgent(t *testing.T, node string) {
	t.Helper()
	program, err := filepath.Abs("../../../bin/sallyport-agent")
	if err != nil {
		t.Fatal(err)
	}
	cmd, err := y.Command("", node, append([]string{program, "--egressip-node-healthcheck-port=9107"},
		y.certificateFlags(nodehealth.AgentName)...)...)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	y.agents[node] = cmd
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
}

// killAgent kills the agent of a node, which is the child of the program that entered the node's namespaces.
func (y *egressFixture) killAgent(t *testing.T, node string) {
	t.Helper()
	entered := y.agents[node].Process.Pid
	agent, err := strconv.Atoi(strings.TrimSpace(harness.ReadFile(t,
		fmt.Sprintf("/proc/%d/task/%d/children", entered, entered))))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(agent, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// restartAgent starts the agent of a node again when another node holds the address.
func (y *egressFixture) restartAgent(t *testing.T, node string) {
	t.Helper()
	y.waitMoved(t, "out", node)
	_ = y.agents[node].Wait() // it was killed
	y.startAgent(t, node)
}

// scenarioRun is one run of the scenario.
type scenarioRun struct {
	*egressFixture
	scenario
	pod      string
	step     int
	notReady map[string]context.CancelFunc
	watchers sync.WaitGroup
}

// runSteps runs the 27 steps. Where pods of OVN-Kubernetes leave with their node's address, ours do not leave.
func (s *scenarioRun) runSteps(t *testing.T) string {
	s.notReady = map[string]context.CancelFunc{}
	defer s.watchers.Wait()
	for _, node := range []string{"node1", "node2", "node3"} {
		// 1
		s.SetLabel(t, "Node "+node, ovnv1.AssignableLabel,
			map[string]string{"node1": "-", "node2": "", "node3": ""}[node])
	}
	// 2
	s.createEgressIP(t, "steps", "{egressIPs: ["+stepAddress+"], "+projectSelector("one")+
		", podSelector: {matchLabels: {app: "+stepPod+"}}}")
	// 3
	first := s.assignedNode(t, "steps")
	second := map[string]string{"node2": "node3", "node3": "node2"}[first]
	s.step = 4        // the pod exists
	s.expectEgress(t) // 5
	s.setReachable(t, first, false)
	s.expectAssigned(t, second)
	s.expectEgress(t)
	s.expectInternalAccess(t)
	s.setReachable(t, second, false)
	s.expectAssigned(t, "")
	s.expectBlocked(t)
	s.setReachable(t, first, true)
	s.expectAssigned(t, first)
	s.expectEgress(t)
	s.setReachable(t, second, true) // 15: the address does not move
	s.expectAddressStays(t, first)
	s.expectEgress(t)
	s.setReady(t, first, false)
	s.expectAssigned(t, second)
	s.expectEgress(t)
	s.setReachable(t, first, false)
	s.setReady(t, second, false)
	s.expectAssigned(t, "")
	s.expectBlocked(t)
	s.setReachable(t, first, true)
	s.setReady(t, first, true)
	s.expectAssigned(t, first)
	s.expectEgress(t)
	s.setReady(t, second, true)
	return "unreachable, NotReady, both, and back; the address stays when the other node returns, and the pod is silent without one"
}

// setReachable makes a node answer health checks, or not.
func (s *scenarioRun) setReachable(t *testing.T, node string, answers bool) {
	t.Helper()
	s.step++
	rules := fmt.Sprintf("table inet silence { chain input { type filter hook input priority -10; tcp dport %d drop; }; }", s.healthPort)
	command := []string{"nft", rules}
	if answers {
		command = []string{"nft", "delete table inet silence"}
	}
	if err := harness.RunInNetns(s.NS(node), command...); err != nil {
		t.Fatal(err)
	}
}

// setReady sets the condition Ready of a node repeatedly, because its kubelet reports otherwise.
func (s *scenarioRun) setReady(t *testing.T, node string, ready bool) {
	t.Helper()
	s.step++
	if ready {
		s.notReady[node]()
		s.WaitNodeReady(t, node, true)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	s.notReady[node] = cancel
	patch := []byte(`{"status":{"conditions":[{"type":"Ready","status":"False","reason":"Test","message":"made so by a test"}]}}`)
	s.watchers.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			_, _ = s.Client.CoreV1().Nodes().Patch(ctx, node, types.StrategicMergePatchType, patch,
				metav1.PatchOptions{}, "status")
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
	})
}

// expectAssigned waits until a node holds the address or, with an empty name, until none does.
func (s *scenarioRun) expectAssigned(t *testing.T, node string) {
	t.Helper()
	s.step++
	harness.Eventually(t, fmt.Sprintf("step %d: the address is on %q", s.step, node), func() bool {
		items := s.assignments(t, "steps")
		if node == "" {
			return len(items) == 0
		}
		return len(items) == 1 && strings.HasSuffix(items[0], " "+node)
	})
}

// expectAddressStays fails the test if the address leaves its node within the time in which it would move.
func (s *scenarioRun) expectAddressStays(t *testing.T, node string) {
	t.Helper()
	s.step++
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for range 16 { // a node is trusted again after five seconds
		<-tick.C
		if now := s.assignedNode(t, "steps"); now != node {
			t.Fatalf("step %d: the address went from %s to %s", s.step, node, now)
		}
	}
}

// expectEgress checks that the pod leaves with the address.
func (s *scenarioRun) expectEgress(t *testing.T) {
	t.Helper()
	s.step++
	s.expectEgressAs(t, s.pod, stepAddress)
}

// expectBlocked checks that the pod cannot leave. A node that should be not Ready is briefly Ready whenever its kubelet
// reports.
func (s *scenarioRun) expectBlocked(t *testing.T) {
	t.Helper()
	s.step++
	harness.Eventually(t, fmt.Sprintf("step %d: the pod stays inside", s.step), func() bool {
		for range 3 {
			if _, err := s.SendRequest(s.pod, "udp://"+harness.InternetAddress+":80"); err == nil {
				return false
			}
		}
		return true
	})
}

// expectInternalAccess checks that the pod still reaches other pods.
func (s *scenarioRun) expectInternalAccess(t *testing.T) {
	t.Helper()
	s.step++
	s.ExpectAnswer(t, s.pod, "http://"+s.ReadField(t, "Pod", s.namespaces[0], "b", "status", "podIP"), "b", "")
}
