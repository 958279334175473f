package egress

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sallyport/sallyport/internal/controller/nodehealth"
	"github.com/sallyport/sallyport/internal/engine/mtls"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// trustLimit is how long an agent may be silent before its node counts as dead. An agent that is restarted is silent for
// less.
const trustLimit = 5 * time.Second

// TestDay7Certificates replaces the certificates of the agents and the controller, and their authority, with the
// commands of the page. Agents are restarted after each step, so that every pair of old and new meets.
func TestDay7Certificates(t *testing.T) {
	item := dayItems.Item(t, 7)
	y := startScenarioLab(t, "rotation", 3)
	page := harness.ReadFile(t, harness.RepositoryRoot+"/docs/reference/certificates.md")
	env, work := y.ShellEnv(t), t.TempDir()
	run := func(commands string) {
		t.Helper()
		harness.RunBash(t, work, env, "eval \"$(sallyport lab env)\"\n"+commands)
	}
	run(harness.SectionBlocks(t, page, "By hand")[0])
	y.mountCertificates(t, t.TempDir())
	s := scenarios[1]
	s.flags = append(s.flags, fmt.Sprintf("--egressip-reachability-total-timeout=%.0f", trustLimit.Seconds()))
	s.install(t, y)
	y.createEgressIP(t, "steps", "{egressIPs: ["+stepAddress+"], "+projectSelector("one")+
		", podSelector: {matchLabels: {app: "+stepPod+"}}}")
	pod, node := stepPod+"."+y.namespaces[0], y.assignedNode(t, "steps")
	y.expectEgressAs(t, pod, stepAddress)
	current, old := y.mounted, t.TempDir()
	y.mountCertificates(t, old)

	steps := harness.SectionBlocks(t, page, "Replace the authority")
	for i, step := range steps[1:] {
		run(steps[0] + step)
		y.mountCertificates(t, current)
		for agent := range y.agents {
			y.killAndStartAgent(t, agent)
		}
		for begun := time.Now(); time.Since(begun) < 2*trustLimit; <-time.After(trustLimit / 10) {
			if now := y.assignedNode(t, "steps"); now != node {
				t.Fatalf("after step %d the address went from %s to %s: an agent was refused", i+1, node, now)
			}
		}
		y.expectEgressAs(t, pod, stepAddress)
	}
	y.expectCertificate(t, node)

	// control: a certificate of the old authority is refused
	y.mounted = old
	y.killAndStartAgent(t, node)
	harness.Eventually(t, "an agent with its old certificate counts as dead", func() bool {
		items := y.assignments(t, "steps")
		return len(items) == 1 && !strings.HasSuffix(items[0], " "+node)
	})
	item.AddFigure("the authority of the health checks replaced in %d steps, agents restarted after each: the egress address stayed; "+
		"then an agent with its old certificate lost it", len(steps)-1)
}

// mountCertificates writes the Secrets of both roles to a directory, as kubelet does, and uses it from now on. Both
// trust the same authorities.
func (y *egressFixture) mountCertificates(t *testing.T, dir string) {
	t.Helper()
	for _, role := range []string{nodehealth.AgentName, nodehealth.ControllerName} {
		secret, err := y.Client.CoreV1().Secrets("kube-system").Get(harness.Within(t, harness.Patience), role+"-tls",
			metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for key, file := range map[string]string{"tls.crt": role + ".crt", "tls.key": role + ".key", "ca.crt": "ca.crt"} {
			path := filepath.Join(dir, file)
			if err := os.WriteFile(path+".new", secret.Data[key], 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(path+".new", path); err != nil {
				t.Fatal(err)
			}
		}
	}
	y.mounted = dir
}

// killAndStartAgent restarts the agent of a node at once.
func (y *egressFixture) killAndStartAgent(t *testing.T, node string) {
	t.Helper()
	y.killAgent(t, node)
	_ = y.agents[node].Wait() // it was killed
	y.startAgent(t, node)
}

// expectCertificate waits until the controller has seen the agent's present certificate.
func (y *egressFixture) expectCertificate(t *testing.T, node string) {
	t.Helper()
	ends, err := mtls.EarliestExpiry(filepath.Join(y.mounted, nodehealth.AgentName+".crt"))
	if err != nil {
		t.Fatal(err)
	}
	series := fmt.Sprintf("sallyport_agent_certificate_expires_seconds{node=%q} ", node)
	harness.Eventually(t, "the controller's metric shows the new certificate", func() bool {
		cmd, err := y.Command("", "lab", "curl", "-s", "http://127.0.0.1:8080/metrics")
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.Output()
		_, value, found := strings.Cut(string(out), series)
		value, _, _ = strings.Cut(value, "\n")
		seen, notNumber := strconv.ParseFloat(value, 64)
		return err == nil && found && notNumber == nil && int64(seen) == ends.Unix()
	})
}
