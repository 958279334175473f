package view

import (
	"context"
	"encoding/base64"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
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

// fault is something that goes wrong in a lab, what somebody then notices, the one command that they type, and the right answer.
type fault struct {
	what   string
	inject func(*faultLab, *testing.T) // what it does ends with the test
	// from and asks are who asks what, and gets no answer; none: there never was one, and nobody asks.
	from, asks string
	// types is the command without "sallyport"; {shop} and others stand for places.
	types string
	// cause is the code of the first finding, and about what it is about: "Kind namespace/name"; {holder} is the node of the gateway.
	cause, about string
	// sample: it is tried in CI, too.
	sample bool
}

// faultLab is a lab with Sallyport and its agents, in which things go wrong.
type faultLab struct {
	*harness.BackendProject
	*harness.Controller
	whole *testing.T // what is made with it stays when a fault's own test ends
}

// The addresses that are asked for.
const (
	shopAddress = "91.224.11.50" // of a Service
	deskAddress = "91.224.11.51" // of a floating IP
	mailAddress = "100.65.8.50"  // of an EgressIP
)

// wardTopology is where it is.
const wardTopology = "shared.yaml"

func newFaultLab(t *testing.T) *faultLab {
	t.Helper()
	c := harness.StartLab(t, "ward", harness.LoadTopology(t, wardTopology))
	c.InstallSallyport(t)
	w := &faultLab{whole: t, Controller: c.NewController(t, t.TempDir(), "--egressip-reachability-total-timeout=0")}
	w.StartForTest(t)
	startAgents(t, c)
	w.BackendProject = c.NewBackendProject(t, "ward", "10.70.0.0/24")
	w.furnish(t)
	return w
}

// furnish makes what is asked for: a Service, a floating IP, an egress address, and a server on a node itself.
func (w *faultLab) furnish(t *testing.T) {
	t.Helper()
	w.CreateEIP(t, w.Ns, "shop", "{externalNetworkType: public, ipAddress: "+shopAddress+"}")
	w.CreateEIP(t, w.Ns, "desk", "{externalNetworkType: public, ipAddress: "+deskAddress+"}")
	w.Apply(t, fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: till, namespace: %s, labels: {app: till}}
spec: {nodeName: node1, containers: [{name: main, image: lab/echo, ports: [{containerPort: 80}]}]}`, w.Ns))
	w.Wait(t, "Pod", w.Ns, "till", manifest.True("Ready"))
	w.Serve(t, harness.ServiceSpec{Name: "shop", Selector: "{app: till}", Ports: "[{name: web, port: 80}, {name: flows, port: 80, protocol: UDP}]", Annotations: bindTo("shop")})
	w.CreateFIP(t, w.Ns, "desk", "{podTarget: {podName: b2}, eip: desk}")
	w.Apply(t, fmt.Sprintf(`
apiVersion: k8s.ovn.org/v1
kind: EgressIP
metadata: {name: mail}
spec: {egressIPs: [%s], namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %s}}, podSelector: {matchLabels: {app: b3}}}`, mailAddress, w.Ns))
	w.MakeAssignable(t, "node3", true)
	w.Wait(t, "EgressIP", "", "mail", manifest.True("Programmed"))
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
	w.Wait(t, "Pod", "default", "node-echo", manifest.True("Ready"))
	w.Wait(t, "ExternalNetwork", "", "uplink-b", manifest.True("Programmed"))
	w.SyncFlows(t)
}

// bindTo is the annotation by which a Service uses an EIp.
func bindTo(eip string) string { return "service.nlb.kube-dc.com/bind-on-eip: " + eip }

// places puts addresses into what commands and clients name. {node} is a node's on its second uplink, and {peer} a client there.
func places(b blueprint.Blueprint) *strings.Replacer {
	wires := b.Segments()
	second := wires[len(wires)-1]
	return strings.NewReplacer("{shop}", shopAddress, "{desk}", deskAddress, "{out}", harness.InternetAddress,
		"{node}", second.NodeAddresses(b.NodeList()[0])[0].Addr().String(), "{peer}", second.ClientSide[0].Peer.Addr().String())
}

// typeCommand runs sallyport as somebody would who has been given `lab env`, and returns what it prints.
func typeCommand(t *testing.T, c *harness.Cluster, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := atPrompt(ctx, t, c, args...)
	var problems strings.Builder
	cmd.Stderr = &problems
	out, err := cmd.Output()
	return string(out) + problems.String(), err
}

// headline finds the first finding of what a command prints: its code, and what is said of it.
var headline = regexp.MustCompile(`(?mi)^ *(?:Cause|error|warning):? (\w+)\s+(.*)$`)

// says types a command, and returns the first finding: its code, what it says, and all that was printed.
func (w *faultLab) says(t *testing.T, command string) (code, text, all string) {
	t.Helper()
	all, _ = typeCommand(t, w.Cluster, strings.Fields(places(w.Blueprint).Replace(command))...) // its exit code says that something is wrong, and the text what
	if found := headline.FindStringSubmatch(all); found != nil {
		return found[1], found[2], all
	}
	return "", "", all
}

// faultChapters are the faults by where they come from. What is hardest to mend comes last.
var faultChapters = []struct {
	title  string
	faults []fault
}{
	{"What somebody asks for", faultsOfRequests},
	{"Rows that are not as they should be", faultsOfRows},
	{"Rows of others", faultsOfOthers},
	{"Nodes and wires", faultsOfNodes},
	{"Who does the work", faultsOfPlatform},
}

// catalogue is all faults.
func catalogue() (out []fault) {
	for _, c := range faultChapters {
		out = append(out, c.faults...)
	}
	return out
}

// TestView1Faults injects fault after fault, and lets one command name each.
func TestView1Faults(t *testing.T) {
	item := views.Item(t, 1)
	w := newFaultLab(t)
	w.healthy(t)
	w.bundles(t)
	tried, named := 0, 0
	var slowest time.Duration
	for _, f := range catalogue() {
		if !show.Full() && !f.sample {
			continue
		}
		t.Run(f.what, func(t *testing.T) {
			tried++ // here: -run may leave it out
			slowest = max(slowest, w.suffers(t, f))
			if !t.Failed() {
				named++
			}
		})
	}
	w.well(t)
	item.Figure("%d of %d faults named by one command, the slowest in %s; no alarm before and after", named, tried, slowest.Round(100*time.Millisecond))
}

// suffers injects a fault, sees that it is felt, types the command and checks the answer.
func (w *faultLab) suffers(t *testing.T, f fault) time.Duration {
	if f.asks != "" {
		harness.Eventually(t, f.from+" gets an answer from "+f.asks, func() bool { return w.works(f) })
		w.calm(t, f.types)
	}
	about := strings.ReplaceAll(f.about, "{holder}", w.holder(t))
	f.inject(w, t)
	if f.asks != "" {
		harness.Eventually(t, "the fault is felt", func() bool { return !w.works(f) })
	}
	begun := time.Now()
	code, text, all := w.says(t, f.types)
	took := time.Since(begun)
	names := strings.HasPrefix(text, about)
	if f.types == "doctor" { // it tells findings in sentences
		names = strings.Contains(strings.ToLower(text), strings.ToLower(about))
	}
	if code != f.cause || !names {
		t.Errorf("sallyport %s\nwanted: %s %s\n%s", f.types, f.cause, about, all)
	}
	return took
}

// works says whether what a fault breaks works.
func (w *faultLab) works(f fault) bool {
	from := f.from
	if pod, isPod := strings.CutPrefix(from, "pod/"); isPod {
		from = pod + "." + w.Ns
	}
	_, err := w.Cluster.Ask(from, places(w.Blueprint).Replace(f.asks))
	return err == nil
}

// calm fails the test when a command raises an alarm though all is well.
func (w *faultLab) calm(t *testing.T, command string) {
	t.Helper()
	var all string
	var err error
	harness.Eventually(t, command+" raises no alarm", func() bool {
		all, err = typeCommand(t, w.Cluster, strings.Fields(places(w.Blueprint).Replace(command))...)
		return err == nil && !headline.MatchString(all)
	})
	if err != nil || headline.MatchString(all) {
		t.Logf("sallyport %s\n%s", command, all)
	}
}

// healthy fails the test when somebody raises an alarm though all is well.
func (w *faultLab) healthy(t *testing.T) {
	t.Helper()
	for _, command := range []string{
		"trace {out} {shop}:80", "trace {out} {desk}:80", "trace {out} {shop}:80 --proto udp", "trace --from pod/b1 -n hall-ward {out}:80",
		"trace --from pod/b3 -n hall-ward {out}:80", "explain svc/shop -n hall-ward", "explain fip/desk -n hall-ward", "explain egressip/mail",
		"explain {shop}", "trace {peer} {node}:80",
	} {
		w.calm(t, command)
	}
	w.well(t)
}

// well fails the test when the doctor finds anything.
func (w *faultLab) well(t *testing.T) {
	t.Helper()
	w.calm(t, "doctor")
	if said, err := typeCommand(t, w.Cluster, "doctor"); err != nil || !strings.Contains(said, "nothing is wrong") {
		t.Errorf("the doctor finds something though all is well: %v\n%s", err, said)
	}
}

// bundles: what is sent to somebody else has what the cluster is like in it, and no secret.
func (w *faultLab) bundles(t *testing.T) {
	t.Helper()
	const marker = "correct-horse-battery"
	w.Apply(t, fmt.Sprintf("{apiVersion: v1, kind: Secret, metadata: {name: vault, namespace: %s}, stringData: {password: %s}}", w.Ns, marker))
	file := filepath.Join(t.TempDir(), "bundle.tar.gz")
	if said, err := typeCommand(t, w.Cluster, "doctor", "--bundle", file); err != nil {
		t.Fatalf("doctor --bundle: %v\n%s", err, said)
	}
	out, err := exec.Command("tar", "-xzOf", file).Output()
	if err != nil {
		t.Fatal(err)
	}
	encoded := base64.StdEncoding.EncodeToString([]byte(marker))
	if text := string(out); strings.Contains(text, marker) || strings.Contains(text, encoded) || !strings.Contains(text, "hall-ward/shop") {
		t.Errorf("a bundle of %d bytes: a secret is in it, or no Service is", len(text))
	}
}

// patch changes a Service of the lab's.
func (w *faultLab) patch(t *testing.T, name, text string) {
	t.Helper()
	if _, err := w.Client.CoreV1().Services(w.Ns).Patch(harness.Within(t, time.Minute), name, types.MergePatchType, []byte(text), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}
