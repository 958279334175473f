package cli

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/clusterstate/clusterstatetest"
	"github.com/sallyport/sallyport/internal/model/logical"
	"github.com/sallyport/sallyport/internal/model/state"
)

// The pods of the agents' DaemonSet count; a tenant's pod with their labels does not.
func TestStatusShowsAgents(t *testing.T) {
	s := clusterstatetest.GenerateCluster(1)
	s.Cluster.NodePaths = nil
	pod := func(node string, agent, ready bool, waiting string) clusterstate.Pod {
		return clusterstate.Pod{
			Object: clusterstate.Object{
				Ref: state.Ref{Kind: clusterstate.PodKind, Namespace: "kube-system", Name: "sallyport-agent-" + node},
				Labels: map[string]string{
					"app.kubernetes.io/name":     "sallyport-agent",
					"app.kubernetes.io/instance": "sallyport",
				},
			},
			Node: node, HostNetwork: true, Agent: agent, Ready: ready, Waiting: waiting,
		}
	}
	s.Cluster.Pods = append(s.Cluster.Pods,
		pod("node1", true, true, ""), pod("node2", true, false, "agent: CrashLoopBackOff"),
		pod("node3", false, true, ""))
	file := filepath.Join(t.TempDir(), "survey.json")
	if err := writePrivateFile(file, s.Write); err != nil {
		t.Fatal(err)
	}
	out, err := runCommand(t, "status", "--survey", file)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`(?m)^node1 .* running( .*)?$`, `(?m)^node2 .* agent: CrashLoopBackOff( .*)?$`,
		`(?m)^node3 .* -( .*)?$`,
	} {
		if !regexp.MustCompile(line).MatchString(out) {
			t.Errorf("no line %s in\n%s", line, out)
		}
	}
}

// runStatus runs the command on a state, and returns the exit code.
func runStatus(t *testing.T, s *clusterstate.State, args ...string) (string, int) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "survey.json")
	if err := writePrivateFile(file, s.Write); err != nil {
		t.Fatal(err)
	}
	out, err := runCommand(t, append([]string{"status", "--survey", file}, args...)...)
	if err != nil {
		return out, ExitCode(err)
	}
	return out, 0
}

// statusState has a programmed project and a node, and nothing is wrong with them.
func statusState() *clusterstate.State {
	s := emptySurvey()
	s.Cluster.Version = "v1.35.4"
	s.Cluster.Projects = []clusterstate.Project{{Object: clusterstate.Object{
		Ref:        state.Ref{Kind: "Project", Namespace: "acme", Name: "prod"},
		Conditions: []clusterstate.Condition{{Type: "Programmed", Status: "True", Reason: "Programmed"}},
	}, Shard: "acme-prod"}}
	s.Cluster.Nodes = []clusterstate.Node{{
		Object: clusterstate.Object{Ref: clusterstate.NodeRef("node1")}, Ready: true, Gateway: true, Chassis: "c1",
	}}
	s.Logical.Chassis = []logical.Chassis{{Name: "c1", Host: "node1", Seen: 7}}
	s.Logical.Progress = logical.ConfigProgress{Asked: 7, Translated: 7, Done: 7}
	return s
}

// The first line is the verdict, and nothing reads "all" while a node, ovn-controller or the controller is dead.
func TestStatusVerdict(t *testing.T) {
	for _, c := range []struct {
		what   string
		change func(*clusterstate.State)
		code   int
		first  string
		says   []string
	}{
		{"well", func(*clusterstate.State) {}, 0, "Nothing is wrong", []string{"Projects  1      1           all"}},
		{
			"a dead node", func(s *clusterstate.State) { s.Cluster.Nodes[0].Ready = false }, 2,
			"1 error: NodeNotReady Node node1. Run sallyport doctor",
			[]string{"written, but there are errors", "node1  no     c1", "NodeNotReady\n"},
		},
		{
			"a paused ovn-controller", func(s *clusterstate.State) { s.Logical.Chassis[0].Seen = 6 }, 2,
			"1 error: ChassisBehind Node node1. Run sallyport doctor",
			[]string{"written, but there are errors", "ChassisBehind\n"},
		},
		{"a dead controller", func(s *clusterstate.State) {
			s.Cluster.Leases[0].Renewed = s.Taken.Add(-time.Hour)
		}, 2, "1 error: ControllerDead. Run sallyport doctor", []string{"as last reported: the controller does not run"}},
		{
			"an old Kubernetes", func(s *clusterstate.State) { s.Cluster.Version = "v1.20.0" }, 1,
			"1 warning: KubernetesTooOld. Run sallyport doctor",
			[]string{"Projects  1      1           all"},
		},
	} {
		s := statusState()
		c.change(s)
		out, code := runStatus(t, s, "--exit-code")
		if first, _, _ := strings.Cut(out, "\n"); first != c.first || code != c.code {
			t.Errorf("%s: exit code %d, first line %q, wanted %q", c.what, code, first, c.first)
		}
		for _, words := range c.says {
			if !strings.Contains(out, words) {
				t.Errorf("%s: want %q in\n%s", c.what, words, out)
			}
		}
		if c.code == 2 && strings.Contains(out, " all\n") {
			t.Errorf("%s: it reads all\n%s", c.what, out)
		}
		if _, code := runStatus(t, s); code != 0 {
			t.Errorf("%s: exit code %d without --exit-code", c.what, code)
		}
	}
}
