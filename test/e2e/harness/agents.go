package harness

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sallyport/sallyport/internal/lab/blueprint"
	"github.com/sallyport/sallyport/internal/lab/manifest"
)

// parseFile reads a manifest.
func parseFile(t *testing.T, file string) []*unstructured.Unstructured {
	t.Helper()
	objects, err := manifest.Parse(ReadFile(t, file))
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// RunAgent runs the agent of a node until the test ends, with the rights of the chart's ServiceAccount as a pod on that
// node has them, and with the chart's capabilities only. Its log goes to a file.
func (c *Cluster) RunAgent(t *testing.T, node, file string) *exec.Cmd {
	t.Helper()
	program, err := filepath.Abs("../../../bin/sallyport-agent")
	if err != nil {
		t.Fatal(err)
	}
	const few = "=-all,+net_admin,+net_raw,+dac_override"
	agent, err := c.Command("", node, append([]string{
		"setpriv", "--bounding-set" + few, "--inh-caps" + few,
		"--no-new-privs", "--", program,
	},
		c.AgentFlags(node, c.AgentKubeconfig(t, node))...)...)
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	agent.Stdout, agent.Stderr = log, log
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = agent.Process.Kill(); _ = agent.Wait(); _ = log.Close() })
	return agent
}

// ApplyAgent applies what the chart has for agents, but the agents: the lab's kubelet runs images of its own only.
func (c *Cluster) ApplyAgent(t *testing.T) {
	t.Helper()
	for _, o := range parseFile(t, "../../../bin/sallyport-agent.yaml") {
		if o.GetKind() == "DaemonSet" {
			continue
		}
		if err := c.Objects.ApplyObject(Within(t, time.Minute), o); err != nil {
			t.Fatal(err)
		}
	}
}

// AgentKubeconfig is that of the agent on a node.
func (c *Cluster) AgentKubeconfig(t *testing.T, node string) string {
	t.Helper()
	path, err := c.AgentConfig(Within(t, time.Minute), c.Client, ChartNamespace, node)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Segment is an external network or an uplink.
func (c *Cluster) Segment(t *testing.T, name string) blueprint.Segment {
	t.Helper()
	all := c.Blueprint.Segments()
	i := slices.IndexFunc(all, func(s blueprint.Segment) bool { return s.Name == name })
	if i < 0 {
		t.Fatalf("the lab has no network %s", name)
	}
	return all[i]
}

// KubeconfigForHost is a kubeconfig that was made for a node, for use here.
func (c *Cluster) KubeconfigForHost(t *testing.T, path string) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	here, err := clientcmd.LoadFromFile(c.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range config.Clusters {
		c.Server = here.Clusters[name].Server
	}
	out := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// RunOnNode1 runs a command of the machine in the network of node1.
func (c *Cluster) RunOnNode1(t *testing.T, argv ...string) {
	t.Helper()
	c.RunInNetns(t, "node1", argv...)
}

// RunInNetns runs a command of the machine in the network of a node or host.
func (c *Cluster) RunInNetns(t *testing.T, place string, argv ...string) {
	t.Helper()
	cmd, err := c.Command("", place, argv...)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %v: %s", place, argv, err, out)
	}
}
