package cli

import (
	"path/filepath"
	"regexp"
	"testing"

	"github.com/sallyport/sallyport/internal/state"
	"github.com/sallyport/sallyport/internal/survey"
	"github.com/sallyport/sallyport/internal/survey/surveytest"
)

// The agents' pods have the labels that the chart gives them. That the chart does is checked in test/chart.
func TestStatusShowsAgents(t *testing.T) {
	s := surveytest.Cluster(1)
	s.Cluster.NodePaths = nil
	agent := func(node string, ready bool, waiting string) survey.Pod {
		return survey.Pod{
			Object: survey.Object{
				Ref:    state.Ref{Kind: survey.PodKind, Namespace: "kube-system", Name: "sallyport-agent-" + node},
				Labels: map[string]string{"app.kubernetes.io/name": "sallyport-agent", "app.kubernetes.io/instance": "sallyport"},
			},
			Node: node, HostNetwork: true, Ready: ready, Waiting: waiting,
		}
	}
	s.Cluster.Pods = append(s.Cluster.Pods, agent("node1", true, ""), agent("node2", false, "agent: CrashLoopBackOff"))
	file := filepath.Join(t.TempDir(), "survey.json")
	if err := writeFile(file, s.Write); err != nil {
		t.Fatal(err)
	}
	out, err := run(t, "status", "--survey", file)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{`(?m)^node1 .* running$`, `(?m)^node2 .* agent: CrashLoopBackOff$`, `(?m)^node3 .* -$`} {
		if !regexp.MustCompile(line).MatchString(out) {
			t.Errorf("no line %s in\n%s", line, out)
		}
	}
}
