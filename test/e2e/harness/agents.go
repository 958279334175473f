package harness

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sallyport/sallyport/internal/lab/blueprint"
	"github.com/sallyport/sallyport/internal/lab/manifest"
)

func parseFile(t *testing.T, file string) []*unstructured.Unstructured {
	t.Helper()
	objects, err := manifest.Parse(ReadFile(t, file))
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// RunAgent runs the agent of a node until the test ends, with the permissions that the chart's ServiceAccount has for a
// pod on that node and with the chart's capabilities only. It appends the agent's log to the file.
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

// HealthCheckFlags returns the flags of the controller or of an agent for health checks with TLS: the certificate of its
// role and the authority, in a directory.
func HealthCheckFlags(dir, role string) []string {
	return []string{
		"--egressip-healthcheck-cert=" + filepath.Join(dir, role+".crt"),
		"--egressip-healthcheck-key=" + filepath.Join(dir, role+".key"),
		"--egressip-healthcheck-ca=" + filepath.Join(dir, "ca.crt"),
	}
}

// ApplyAgent applies the chart's objects for agents except the DaemonSet, because the lab's kubelet runs only built-in
// images.
func (c *Cluster) ApplyAgent(t *testing.T) {
	t.Helper()
	for _, o := range parseFile(t, "../../../bin/sallyport-agent.yaml") {
		if o.GetKind() == "DaemonSet" {
			continue
		}
		if err := c.Objects.ApplyObject(Within(t, Patience), o); err != nil {
			t.Fatal(err)
		}
	}
}

// AgentKubeconfig returns the path of the kubeconfig of the agent on a node.
func (c *Cluster) AgentKubeconfig(t *testing.T, node string) string {
	t.Helper()
	path, err := c.AgentConfig(Within(t, Patience), c.Client, ChartNamespace, node)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Segment returns an external network or uplink by name.
func (c *Cluster) Segment(t *testing.T, name string) blueprint.Segment {
	t.Helper()
	all := c.Blueprint.Segments()
	i := slices.IndexFunc(all, func(s blueprint.Segment) bool { return s.Name == name })
	if i < 0 {
		t.Fatalf("the lab has no network %s", name)
	}
	return all[i]
}

// KubeconfigForHost converts a kubeconfig for a node to one that works outside the lab, and returns its path.
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

// RunOnNode1 runs a command of the machine in the network namespace of node1.
func (c *Cluster) RunOnNode1(t *testing.T, argv ...string) {
	t.Helper()
	c.RunInNetns(t, "node1", argv...)
}

// RunInNetns runs a command of the machine in the network namespace of a node or host.
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
