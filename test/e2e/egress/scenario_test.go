package egress

import (
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
	"github.com/sallyport/sallyport/internal/lab"
	"github.com/sallyport/sallyport/internal/lab/blueprint"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// scenario is OVN-Kubernetes' test of readiness and reachability, with one way to ask nodes.
type scenario struct {
	what  string
	flags []string
	// prepare makes nodes answer.
	prepare func(y *egressLab, t *testing.T, node string)
	port    int
}

var scenarios = []scenario{
	{what: "nodes asked on port 9", port: 9, prepare: func(*egressLab, *testing.T, string) {}},
	{what: "nodes asked by gRPC with TLS", port: 9107, flags: []string{"--egressip-node-healthcheck-port=9107"}, prepare: (*egressLab).agent},
}

// The address, and the pod that leaves with it.
const (
	stepAddress = "91.224.11.240"
	stepPod     = "a"
)

// play goes through the steps.
func (s scenario) play(t *testing.T) string {
	t.Helper()
	y := s.startLab(t, fmt.Sprintf("steps-%d", s.port), 3)
	return (&steps{egressLab: y, scenario: s, pod: stepPod + "." + y.namespaces[0]}).all(t)
}

// startLab starts a lab in which the controller runs inside and can ask the nodes. All but the first may hold addresses.
func (s scenario) startLab(t *testing.T, name string, nodes int) *egressLab {
	t.Helper()
	b, err := blueprint.Load("../testdata/egress.yaml")
	if err != nil {
		t.Fatal(err)
	}
	b.Nodes, b.Gateways = nodes, nodes-1
	y := &egressLab{Cluster: harness.StartLab(t, name, b), agents: map[string]*exec.Cmd{}}
	if err := y.Objects.Apply(harness.Within(t, time.Minute), harness.ReadFile(t, "../testdata/kubevirt.yaml")); err != nil {
		t.Fatal(err)
	}
	flags := append([]string{"--egressip-reachability-period=200ms"}, s.flags...)
	if s.port != 9 {
		for flag, file := range map[string]string{"cert": "sallyport-controller.crt", "key": "sallyport-controller.key", "ca": "ca.crt"} {
			flags = append(flags, "--egressip-healthcheck-"+flag+"="+filepath.Join(y.Dir, "pki", file))
		}
	}
	what := lab.Installation{Manifests: "../../../bin/sallyport.yaml", Program: "../../../bin/sallyport-controller", Flags: flags}
	if err := y.Install(harness.Within(t, time.Minute), what); err != nil {
		t.Fatal(err)
	}
	for _, n := range y.Blueprint.NodeList()[1:] {
		s.prepare(y, t, n.Name)
	}
	y.furnish(t)
	return y
}

// agent runs sallyport-agent on a node.
func (y *egressLab) agent(t *testing.T, node string) {
	t.Helper()
	program, err := filepath.Abs("../../../bin/sallyport-agent")
	if err != nil {
		t.Fatal(err)
	}
	pki := func(name string) string { return filepath.Join(y.Dir, "pki", name) }
	cmd, err := y.Command("", node, program, "--egressip-node-healthcheck-port=9107", "--egressip-healthcheck-cert="+pki("sallyport-agent.crt"),
		"--egressip-healthcheck-key="+pki("sallyport-agent.key"), "--egressip-healthcheck-ca="+pki("ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	y.agents[node] = cmd
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
}

// silence ends the agent of a node, which is the child of the program that went into the node.
func (y *egressLab) silence(t *testing.T, node string) {
	t.Helper()
	entered := y.agents[node].Process.Pid
	agent, err := strconv.Atoi(strings.TrimSpace(harness.ReadFile(t, fmt.Sprintf("/proc/%d/task/%d/children", entered, entered))))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(agent, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// speak runs the agent of a node again, once another node holds the address.
func (y *egressLab) speak(t *testing.T, node string) {
	t.Helper()
	y.moves(t, "out", node)
	_ = y.agents[node].Wait() // it was killed
	y.agent(t, node)
}

// steps is one run of the scenario.
type steps struct {
	*egressLab
	scenario
	pod      string
	done     int
	unready  map[string]context.CancelFunc
	watchers sync.WaitGroup
}

// all is the 27 steps. Where OVN-Kubernetes' pods leave with their node's address, ours do not leave.
func (s *steps) all(t *testing.T) string {
	s.unready = map[string]context.CancelFunc{}
	defer s.watchers.Wait()
	for _, node := range []string{"node1", "node2", "node3"} {
		s.SetLabel(t, "Node "+node, ovnv1.AssignableLabel, map[string]string{"node1": "-", "node2": "", "node3": ""}[node]) // 1
	}
	s.request(t, "steps", "{egressIPs: ["+stepAddress+"], "+inProject("one")+", podSelector: {matchLabels: {app: "+stepPod+"}}}") // 2
	first := s.holder(t, "steps")                                                                                                 // 3
	second := map[string]string{"node2": "node3", "node3": "node2"}[first]
	s.done = 4 // the pod is there
	s.out(t)   // 5
	s.reach(t, first, false)
	s.on(t, second)
	s.out(t)
	s.inside(t)
	s.reach(t, second, false)
	s.on(t, "")
	s.shut(t)
	s.reach(t, first, true)
	s.on(t, first)
	s.out(t)
	s.reach(t, second, true) // 15: it stays where it is
	s.stays(t, first)
	s.out(t)
	s.ready(t, first, false)
	s.on(t, second)
	s.out(t)
	s.reach(t, first, false)
	s.ready(t, second, false)
	s.on(t, "")
	s.shut(t)
	s.reach(t, first, true)
	s.ready(t, first, true)
	s.on(t, first)
	s.out(t)
	s.ready(t, second, true)
	return "unreachable, NotReady, both, and back; the address stays when the other node returns, and the pod is silent without one"
}

// reach lets a node answer, or not.
func (s *steps) reach(t *testing.T, node string, answers bool) {
	t.Helper()
	s.done++
	rules := fmt.Sprintf("table inet silence { chain input { type filter hook input priority -10; tcp dport %d drop; }; }", s.port)
	command := []string{"nft", rules}
	if answers {
		command = []string{"nft", "delete table inet silence"}
	}
	if err := harness.InNamespace(s.NS(node), command...); err != nil {
		t.Fatal(err)
	}
}

// ready makes Kubernetes call a node Ready, or not: again and again, because its kubelet says otherwise.
func (s *steps) ready(t *testing.T, node string, ready bool) {
	t.Helper()
	s.done++
	if ready {
		s.unready[node]()
		s.WaitNode(t, node, true)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	s.unready[node] = cancel
	patch := []byte(`{"status":{"conditions":[{"type":"Ready","status":"False","reason":"Test","message":"made so by a test"}]}}`)
	s.watchers.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			_, _ = s.Client.CoreV1().Nodes().Patch(ctx, node, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
	})
}

// on waits until a node holds the address, or none does.
func (s *steps) on(t *testing.T, node string) {
	t.Helper()
	s.done++
	harness.Eventually(t, fmt.Sprintf("step %d: the address is on %q", s.done, node), func() bool {
		items := s.items(t, "steps")
		if node == "" {
			return len(items) == 0
		}
		return len(items) == 1 && strings.HasSuffix(items[0], " "+node)
	})
}

// stays fails the test when the address leaves its node within a time in which it would.
func (s *steps) stays(t *testing.T, node string) {
	t.Helper()
	s.done++
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for range 16 { // a node is believed again after five seconds
		<-tick.C
		if now := s.holder(t, "steps"); now != node {
			t.Fatalf("step %d: the address went from %s to %s", s.done, node, now)
		}
	}
}

// out: the pod leaves with the address.
func (s *steps) out(t *testing.T) {
	t.Helper()
	s.done++
	s.leaves(t, s.pod, stepAddress)
}

// shut: it does not leave. A node that is not to be Ready is so for a moment when its kubelet says so.
func (s *steps) shut(t *testing.T) {
	t.Helper()
	s.done++
	harness.Eventually(t, fmt.Sprintf("step %d: the pod stays inside", s.done), func() bool {
		for range 3 {
			if _, err := s.Ask(s.pod, "udp://"+harness.InternetAddress+":80"); err == nil {
				return false
			}
		}
		return true
	})
}

// inside: it reaches others inside as ever.
func (s *steps) inside(t *testing.T) {
	t.Helper()
	s.done++
	s.ExpectAnswer(t, s.pod, "http://"+s.ReadField(t, "Pod", s.namespaces[0], "b", "status", "podIP"), "b", "")
}
