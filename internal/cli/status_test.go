package cli

import (
	"path/filepath"
	"regexp"
	"testing"

	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/clusterstate/clusterstatetest"
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
		`(?m)^node1 .* running$`, `(?m)^node2 .* agent: CrashLoopBackOff$`,
		`(?m)^node3 .* -$`,
	} {
		if !regexp.MustCompile(line).MatchString(out) {
			t.Errorf("no line %s in\n%s", line, out)
		}
	}
}
