package view

import (
	"context"
	"encoding/base64"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sallyport/sallyport/internal/lab/blueprint"
	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// fault is a fault in a lab, its symptom, the one command that a user runs, and the right answer.
type fault struct {
	what   string
	inject func(*faultFixture, *testing.T) // undone at the end of the test
	// from and target are the request that gets no answer. Empty: there never was an answer, so no request is sent.
	from, target string
	// command is the command without "sallyport"; {shop} and others are placeholders.
	command string
	// wantCode is the code of the first finding, and wantAbout its object: "Kind namespace/name"; {holder} is the node
	// of the gateway.
	wantCode, wantAbout string
	// inCI is true for faults that are also tested in CI.
	inCI bool
}

// faultFixture is a lab with Sallyport and its agents, in which faults are injected.
type faultFixture struct {
	*harness.BackendProject
	*harness.Controller
	parent *testing.T // objects created with it outlive the subtest of a fault
}

// The addresses of the targets.
const (
	shopAddress = "91.224.11.50" // of a Service
	deskAddress = "91.224.11.51" // of a floating IP
	mailAddress = "100.65.8.50"  // of an EgressIP
)

// faultTopology is the topology file of the lab.
const faultTopology = "shared.yaml"

func newFaultFixture(t *testing.T) *faultFixture {
	t.Helper()
	c := harness.StartLab(t, "ward", harness.LoadTopology(t, faultTopology))
	c.InstallSallyport(t)
	w := &faultFixture{parent: t, Controller: c.NewController(t, t.TempDir(),
		"--egressip-reachability-total-timeout=0")}
	w.StartForTest(t)
	installAgents(t, c)
	w.BackendProject = c.NewBackendProject(t, "ward", "10.70.0.0/24")
	w.createTargets(t)
	return w
}

// createTargets creates the targets: a Service, a floating IP, an egress address, and a server on a node itself.
func (w *faultFixture) createTargets(t *testing.T) {
	t.Helper()
	w.CreateEIP(t, w.Namespace, "shop", "{externalNetworkType: public, ipAddress: "+shopAddress+"}")
	w.CreateEIP(t, w.Namespace, "desk", "{externalNetworkType: public, ipAddress: "+deskAddress+"}")
	w.Apply(t, fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: till, namespace: %s, labels: {app: till}}
spec: {nodeName: node1, containers: [{name: main, image: lab/echo, ports: [{containerPort: 80}]}]}`, w.Namespace))
	w.WaitForObject(t, "Pod", w.Namespace, "till", manifest.True("Ready"))
	w.CreateService(t, harness.ServiceSpec{
		Name:        "shop",
		Selector:    "{app: till}",
		Ports:       "[{name: web, port: 80}, {name: flows, port: 80, protocol: UDP}]",
		Annotations: bindToEIP("shop"),
	})
	w.CreateFIP(t, w.Namespace, "desk", "{podTarget: {podName: b2}, eip: desk}")
	w.Apply(t, fmt.Sprintf(`
apiVersion: k8s.ovn.org/v1
kind: EgressIP
metadata: {name: mail}
spec: {egressIPs: [%s], namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %s}}, podSelector: {matchLabels: {app: b3}}}`, mailAddress, w.Namespace))
	w.SetEgressAssignable(t, "node3", true)
	w.WaitForObject(t, "EgressIP", "", "mail", manifest.True("Programmed"))
	w.Apply(t, `
apiVersion: kube-dc.com/v1alpha1
kind: ExternalNetwork
metadata: {name: uplink-b}
spec: {type: uplink-b, nodes: {interface: uplink-b, gateways: [192.0.2.129], nodeSelector: {matchLabels: {kubernetes.io/hostname: node1}}, method: Connection}}
---
apiVersion: v1
kind: Pod
metadata: {name: node-echo, namespace: default}
spec: {nodeName: node1, hostNetwork: true, containers: [{name: main, image: lab/echo}]}`)
	w.WaitForObject(t, "Pod", "default", "node-echo", manifest.True("Ready"))
	w.WaitForObject(t, "ExternalNetwork", "", "uplink-b", manifest.True("Programmed"))
	w.SyncFlows(t)
	w.WaitGatewaysSettled(t)
}

// bindToEIP returns the annotation that binds a Service to an EIp.
func bindToEIP(eip string) string { return "service.nlb.kube-dc.com/bind-on-eip: " + eip }

// placeholders replaces placeholders in commands and clients by addresses. {node} is the address of a node on its
// second uplink, and {peer} a client there.
func placeholders(b blueprint.Blueprint) *strings.Replacer {
	wires := b.Segments()
	second := wires[len(wires)-1]
	return strings.NewReplacer("{shop}", shopAddress, "{desk}", deskAddress, "{out}", harness.InternetAddress,
		"{node}", second.NodeAddresses(b.NodeList()[0])[0].Addr().String(), "{peer}",
		second.ClientSide[0].Peer.Addr().String())
}

// runCommand runs sallyport with the environment of `lab env`, and returns its output.
func runCommand(t *testing.T, c *harness.Cluster, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	defer cancel()
	cmd := newCommand(ctx, t, c, args...)
	var problems strings.Builder
	cmd.Stderr = &problems
	out, err := cmd.Output()
	return string(out) + problems.String(), err
}

// findingPattern matches the first finding in the output of a command: its code and text.
var findingPattern = regexp.MustCompile(`(?mi)^ *(?:Cause|error|warning):? (\w+)\s+(.*)$`)

// firstFinding runs a command and returns the code and text of the first finding, and the whole output.
func (w *faultFixture) firstFinding(t *testing.T, command string) (code, text, all string) {
	t.Helper()
	// the exit code indicates a finding; only the text matters
	all, _ = runCommand(t, w.Cluster, strings.Fields(placeholders(w.Blueprint).Replace(command))...)
	if found := findingPattern.FindStringSubmatch(all); found != nil {
		return found[1], found[2], all
	}
	return "", "", all
}

// faultChapters are the faults by origin. Those that are hardest to repair come last.
var faultChapters = []struct {
	title  string
	faults []fault
}{
	{"What somebody asks for", requestFaults},
	{"Rows that are not as they should be", rowFaults},
	{"Rows of others", foreignRowFaults},
	{"Nodes and wires", nodeFaults},
	{"Who does the work", platformFaults},
}

func allFaults() (out []fault) {
	for _, c := range faultChapters {
		out = append(out, c.faults...)
	}
	return out
}

// TestView1Faults injects one fault after the other, and checks that one command identifies each.
func TestView1Faults(t *testing.T) {
	item := viewItems.Item(t, 1)
	w := newFaultFixture(t)
	w.expectAllHealthy(t)
	w.checkBundle(t)
	tried, named := 0, 0
	var slowest time.Duration
	for _, f := range allFaults() {
		if !show.IsFullSize() && !f.inCI {
			continue
		}
		t.Run(f.what, func(t *testing.T) {
			tried++ // counted here because -run may exclude it
			slowest = max(slowest, w.checkFault(t, f))
			if !t.Failed() {
				named++
			}
		})
	}
	w.expectDoctorClean(t)
	item.AddFigure("%d of %d faults named by one command, the slowest in %s; no alarm before and after", named, tried,
		slowest.Round(100*time.Millisecond))
}

// checkFault injects a fault, checks that it has an effect, runs the command and checks the answer.
func (w *faultFixture) checkFault(t *testing.T, f fault) time.Duration {
	if f.target != "" {
		harness.Eventually(t, f.from+" gets an answer from "+f.target, func() bool { return w.isReachable(f) })
		w.expectNoFinding(t, f.command)
	}
	w.WaitGatewaysSettled(t)
	about := strings.ReplaceAll(f.wantAbout, "{holder}", w.gatewayNode(t))
	f.inject(w, t)
	if f.target != "" {
		harness.Eventually(t, "the fault is felt", func() bool { return !w.isReachable(f) })
	}
	var took time.Duration
	var all string
	for range show.ChooseSize(1, 5) { // on CI's machine the first answer may be that a node is behind
		var code, text string
		begun := time.Now()
		code, text, all = w.firstFinding(t, f.command)
		took = time.Since(begun)
		names := strings.HasPrefix(text, about)
		if f.command == "doctor" { // it prints findings as sentences
			names = strings.Contains(strings.ToLower(text), strings.ToLower(about))
		}
		if code == f.wantCode && names {
			return took
		}
		<-time.After(2 * time.Second)
	}
	t.Errorf("sallyport %s\nwanted: %s %s\n%s", f.command, f.wantCode, about, all)
	return took
}

// isReachable reports whether the target of a fault is reachable.
func (w *faultFixture) isReachable(f fault) bool {
	from := f.from
	if pod, isPod := strings.CutPrefix(from, "pod/"); isPod {
		from = pod + "." + w.Namespace
	}
	_, err := w.Cluster.SendRequest(from, placeholders(w.Blueprint).Replace(f.target))
	return err == nil
}

// expectNoFinding waits until a command reports no finding, and contains the words.
func (w *faultFixture) expectNoFinding(t *testing.T, command string, words ...string) {
	t.Helper()
	var all string
	var err error
	healthy := false
	harness.Eventually(t, command+" raises no alarm", func() bool {
		all, err = runCommand(t, w.Cluster, strings.Fields(placeholders(w.Blueprint).Replace(command))...)
		healthy = err == nil && !findingPattern.MatchString(all) &&
			!slices.ContainsFunc(words, func(wanted string) bool { return !strings.Contains(all, wanted) })
		return healthy
	})
	if !healthy {
		t.Logf("sallyport %s: %v\n%s", command, err, all)
	}
}

// expectAllHealthy fails the test if any command reports a finding although there is no fault.
func (w *faultFixture) expectAllHealthy(t *testing.T) {
	t.Helper()
	for _, command := range []string{
		"trace {out} {shop}:80", "trace {out} {desk}:80", "trace {out} {shop}:80 --proto udp",
		"trace --from pod/b1 -n hall-ward {out}:80",
		"trace --from pod/b3 -n hall-ward {out}:80", "explain svc/shop -n hall-ward", "explain fip/desk -n hall-ward",
		"explain egressip/mail",
		"explain {shop}", "trace {peer} {node}:80",
	} {
		w.expectNoFinding(t, command)
	}
	w.expectDoctorClean(t)
}

// expectDoctorClean fails the test if doctor reports a finding.
func (w *faultFixture) expectDoctorClean(t *testing.T) {
	t.Helper()
	w.expectNoFinding(t, "doctor", "nothing is wrong")
}

// checkBundle checks that a bundle contains the state of the cluster and no secret.
func (w *faultFixture) checkBundle(t *testing.T) {
	t.Helper()
	const marker = "correct-horse-battery"
	w.Apply(t, fmt.Sprintf("{apiVersion: v1, kind: Secret, metadata: {name: vault, namespace: %s}, stringData: {password: %s}}", w.Namespace, marker))
	file := filepath.Join(t.TempDir(), "bundle.tar.gz")
	if said, err := runCommand(t, w.Cluster, "doctor", "--bundle", file); err != nil {
		t.Fatalf("doctor --bundle: %v\n%s", err, said)
	}
	out, err := exec.Command("tar", "-xzOf", file).Output()
	if err != nil {
		t.Fatal(err)
	}
	encoded := base64.StdEncoding.EncodeToString([]byte(marker))
	if text := string(out); strings.Contains(text, marker) || strings.Contains(text, encoded) ||
		!strings.Contains(text, "hall-ward/shop") {
		t.Errorf("a bundle of %d bytes: a secret is in it, or no Service is", len(text))
	}
}

// patchService patches a Service of the lab.
func (w *faultFixture) patchService(t *testing.T, name, text string) {
	t.Helper()
	if _, err := w.Client.CoreV1().Services(w.Namespace).Patch(harness.Within(t, harness.Patience), name,
		types.MergePatchType, []byte(text), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}
