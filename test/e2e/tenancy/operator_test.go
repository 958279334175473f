package tenancy

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"unicode"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sallyport/sallyport/test/e2e/harness"
)

// escapeSequences is a name that clears the screen, sets the title, reverses text and forges a line; as JSON, which
// YAML reads as well. It contains only characters that the API server's YAML parser accepts; unit tests cover C1
// control characters.
const escapeSequences = `"x\u001b[2J\u001b[H\u001b]0;pwned\u0007\u202e\r\n0 errors"`

// operatorAttacks are the attacks on the operator's programs: the command line, the page of sallyport ui, and bundles.
var operatorAttacks = []attack{
	{
		finding: "H3", by: tenantEditor, what: "Deployment kube-ovn-controller that names other databases",
		stoppedBy: "`--kube-ovn-namespace` of the CLI",
		run: func(t *testing.T, f *attackFixture, who actor) {
			who.MustApply(t, f, deploymentManifest("kube-ovn-controller", "kube-ovn-controller",
				"env: [{name: OVN_DB_IPS, value: 127.9.9.9}]"))
			out, _ := f.runCLI(t, nil, "status")
			expectText(t, out, "ignored", "evil-x/kube-ovn-controller")
			expectNoText(t, out, "127.9.9.9")
			out, _ = f.runCLI(t, nil, "status", "--kube-ovn-namespace", "evil-x")
			expectText(t, out, "127.9.9.9")
		},
	},
	{
		finding: "H3", by: tenantEditor,
		what:      "Deployment kube-ovn-controller with ENABLE_SSL and a Secret kube-ovn-tls beside it",
		stoppedBy: "`--kube-ovn-namespace` of the CLI",
		run: func(t *testing.T, f *attackFixture, who actor) {
			who.MustApply(t, f, deploymentManifest("kube-ovn-controller", "kube-ovn-controller", "env: [{name: OVN_DB_IPS, value: 127.9.9.8}, {name: ENABLE_SSL, value: 'true'}]")+`
---
{apiVersion: v1, kind: Secret, metadata: {name: kube-ovn-tls, namespace: evil-x}, stringData: {cert: x, key: x, cacert: x}}`)
			out, _ := f.runCLI(t, nil, "status")
			expectNoText(t, out, "127.9.9.8")
			out, _ = f.runCLI(t, nil, "status", "--kube-ovn-namespace", "evil-x")
			expectText(t, out, "PEM")
		},
	},
	{
		finding: "H3", by: tenantEditor, what: "Deployment sallyport-controller with an argument that is none",
		stoppedBy: "`--controller-namespace` of the CLI",
		run: func(t *testing.T, f *attackFixture, who actor) {
			who.MustApply(t, f, deploymentManifest("sallyport-controller", "controller",
				"args: [--egress-liveness=never]"))
			out, err := f.runCLI(t, f.operatorEnv(), "status")
			if err != nil {
				t.Errorf("status fails: %v\n%s", err, out)
			}
			expectText(t, out, "ignored", "evil-x/sallyport-controller")
			expectNoText(t, out, "egress-liveness")
			out, err = f.runCLI(t, f.operatorEnv(), "status", "--controller-namespace", "evil-x")
			if err != nil {
				t.Errorf("an argument that is none ends the command: %v\n%s", err, out)
			}
			expectText(t, out, "--egress-liveness=")
		},
	},
	{
		finding: "H3", by: tenantOwner, what: "Lease sallyport-controller that expired long ago",
		stoppedBy: "`--controller-namespace` of the CLI",
		run: func(t *testing.T, f *attackFixture, who actor) {
			who.MustApply(t, f, `{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: sallyport-controller, namespace: evil-x},
  spec: {holderIdentity: mallory, leaseDurationSeconds: 1, renewTime: "2020-01-01T00:00:00.000000Z"}}`)
			out, _ := f.runCLI(t, f.operatorEnv(), "status")
			expectNoText(t, out, "mallory  ")
			out, _ = f.runCLI(t, f.operatorEnv(), "status", "--controller-namespace", "evil-x")
			expectText(t, out, "mallory", "expired")
		},
	},
	{
		finding: "H3", by: tenantEditor, what: "pod with the labels of the agent",
		stoppedBy: "owner reference of the agents' pods",
		run: func(t *testing.T, f *attackFixture, who actor) {
			who.MustApply(t, f, `{apiVersion: v1, kind: Pod, metadata: {name: agent, namespace: evil-x, labels: {app.kubernetes.io/name: sallyport-agent}},
  spec: {nodeName: node3, containers: [{name: agent, image: lab/idle}]}}`)
			f.WaitForObject(t, "Pod", "evil-x", "agent", harness.IsReady)
			out, _ := f.runCLI(t, f.operatorEnv(), "status")
			if node := findLine(out, "node3"); node == "" || strings.HasSuffix(node, "running") {
				t.Errorf("the node of a tenant's pod: %q", node)
			}
			out, _ = f.runCLI(t, f.operatorEnv(), "survey")
			expectText(t, out, `"kind":"Pod","namespace":"evil-x","name":"agent"`)
		},
	},
	{
		finding: "H3", by: tenantEditor, what: "Event about another tenant's object", stoppedBy: "the API server",
		run: func(t *testing.T, f *attackFixture, who actor) {
			err := who.Apply(t, f, warningEvent("forged", f.victims[0].namespace, "deleted by the operator"))
			if err == nil || !strings.Contains(err.Error(), "does not match event.namespace") {
				t.Errorf("%v", err)
			}
			who.MustApply(t, f, warningEvent("own", "evil-x", "harmless"))
		},
	},
	hostileTextAttack("annotation bind-on-eip with escape sequences and a forged line", `{apiVersion: v1, kind: Service, metadata: {name: loud, namespace: evil-x,
  annotations: {service.nlb.kube-dc.com/bind-on-eip: %s}}, spec: {type: LoadBalancer, ports: [{port: 80}]}}`, "Service/loud"),
	hostileTextAttack("annotation external-network-type with escape sequences", `{apiVersion: v1, kind: Service, metadata: {name: loud, namespace: evil-x,
  annotations: {network.kube-dc.com/external-network-type: %s}}, spec: {type: LoadBalancer, ports: [{port: 80}]}}`, "Service/loud"),
	hostileTextAttack("EIp on a network type with escape sequences", `{apiVersion: kube-dc.com/v1, kind: EIp, metadata: {name: loud, namespace: evil-x},
  spec: {externalNetworkType: %s}}`, "EIp/loud"),
	hostileTextAttack("FIp to a pod whose name has escape sequences", `{apiVersion: kube-dc.com/v1, kind: FIp, metadata: {name: loud, namespace: evil-x},
  spec: {externalNetworkType: public, podTarget: {podName: %s}}}`, "FIp/loud"),
	hostileTextAttack("annotation health-check with escape sequences", `{apiVersion: v1, kind: Service, metadata: {name: loud, namespace: evil-x,
  annotations: {service.nlb.kube-dc.com/health-check: %s}}, spec: {type: LoadBalancer, ports: [{port: 80}]}}`, "Service/loud"),
	{
		finding: "M1", by: tenantEditor, what: "Event with escape sequences about its own Service",
		stoppedBy: "the CLI spells control characters out",
		run: func(t *testing.T, f *attackFixture, who actor) {
			who.MustApply(t, f, `{apiVersion: v1, kind: Service, metadata: {name: own, namespace: evil-x}, spec: {type: LoadBalancer, ports: [{port: 80}]}}`)
			who.MustApply(t, f, warningEvent("loud", "evil-x", "y\x1b[2J\n0 errors"))
			out, _ := f.runCLI(t, f.operatorEnv(), "explain", "Service/own", "-n", "evil-x", "-v", "--no-nodes")
			expectNoControlChars(t, "explain", out)
			expectText(t, out, `y\u001b[2J`)
		},
	},
	{
		finding: "L5", by: workstation, what: "read the page of sallyport ui without its token",
		stoppedBy: "token of `sallyport ui`",
		run: func(t *testing.T, f *attackFixture, _ actor) {
			page := f.startUI(t)
			place, _, _ := strings.Cut(page, "?")
			for _, path := range []string{
				"", "api/overview", "api/map", "api/findings", "api/search?q=10.",
				"api/explain?kind=Node&name=node1", "api/events",
			} {
				if code := getHTTPStatus(t, http.DefaultClient, place+path, nil); code != http.StatusUnauthorized {
					t.Errorf("%s without a token: %d", path, code)
				}
			}
			jar, err := cookiejar.New(nil)
			if err != nil {
				t.Fatal(err)
			}
			browser := &http.Client{Jar: jar}
			if code := getHTTPStatus(t, browser, page, nil); code != http.StatusOK {
				t.Errorf("the printed address: %d", code)
			}
			if code := getHTTPStatus(t, browser, place+"api/overview", nil); code != http.StatusOK {
				t.Errorf("with the cookie: %d", code)
			}
		},
	},
	{
		finding: "L5", by: workstation, what: "guess the token of sallyport ui, or send it in a cookie of another port",
		stoppedBy: "token of `sallyport ui`",
		run: func(t *testing.T, f *attackFixture, _ actor) {
			page := f.startUI(t)
			place, query, _ := strings.Cut(page, "?")
			if code := getHTTPStatus(t, http.DefaultClient, place+"?token=guess", nil); code != http.StatusForbidden {
				t.Errorf("a guess: %d", code)
			}
			_, token, _ := strings.Cut(query, "token=")
			with := func(cookie string) int {
				return getHTTPStatus(t, http.DefaultClient, place+"api/status", func(r *http.Request) {
					r.Header.Set("Cookie", cookie)
				})
			}
			_, port, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(place, "http://"), "/"), ":")
			if code := with("sallyport-ui-1=" + token); code != http.StatusUnauthorized {
				t.Errorf("the cookie of another port: %d", code)
			}
			if code := with("sallyport-ui-" + port + "=" + token); code != http.StatusOK {
				t.Errorf("the cookie: %d", code)
			}
		},
	},
	{
		finding: "L5", by: workstation, what: "read the token from the arguments of the process",
		stoppedBy: "the token is in no argument",
		run: func(t *testing.T, f *attackFixture, _ actor) {
			page := f.startUI(t)
			_, token, _ := strings.Cut(page, "token=")
			lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
			if err != nil {
				t.Fatal(err)
			}
			pages := 0
			for _, file := range lines {
				raw, err := os.ReadFile(file)
				if err != nil {
					continue // the process has ended
				}
				if bytes.Contains(raw, []byte(token)) {
					t.Errorf("%s has the token: %q", file, raw)
				}
				if bytes.Contains(raw, []byte("sallyport\x00ui")) {
					pages++
				}
			}
			if pages == 0 {
				t.Error("the server's process was not seen: this shows nothing")
			}
		},
	},
	{
		finding: "L6", by: workstation, what: "bundle of a megabyte that unpacks to gigabytes",
		stoppedBy: "`--survey-limit`",
		run: func(t *testing.T, f *attackFixture, _ actor) {
			file := filepath.Join(t.TempDir(), "support.tar.gz")
			if err := os.WriteFile(file, buildArchiveBomb(t), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := f.newCommand(t, nil, "status", "--survey", file)
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), "--survey-limit") {
				t.Errorf("%v: %s", err, out)
			}
			if used := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss >> 10; used > 1024 {
				t.Errorf("the command used %d MiB", used)
			}
			good := filepath.Join(t.TempDir(), "good.tar.gz")
			_, _ = f.runCLI(t, f.operatorEnv(), "doctor", "--bundle", good)
			if out, err := f.runCLI(t, nil, "status", "--survey", good); err != nil {
				t.Errorf("a bundle of this cluster: %v: %s", err, out)
			}
		},
	},
	{
		finding: "L6", by: tenantEditor, what: "find another program's token in a bundle",
		stoppedBy: "surveys keep annotations about networks only",
		run: func(t *testing.T, f *attackFixture, who actor) {
			who.MustApply(t, f, `{apiVersion: v1, kind: Service, metadata: {name: tokens, namespace: evil-x,
  annotations: {example.com/token: s3cr3t, service.nlb.kube-dc.com/bind-on-eip: seen}}, spec: {type: LoadBalancer, ports: [{port: 80}]}}`)
			out, _ := f.runCLI(t, f.operatorEnv(), "survey")
			expectNoText(t, out, "s3cr3t")
			expectText(t, out, `"service.nlb.kube-dc.com/bind-on-eip":"seen"`)
		},
	},
}

// hostileTextAttack is an attack on the operator's terminal by text in an object. The control is harmless text, which
// is shown unchanged.
func hostileTextAttack(does, object, name string) attack {
	return attack{
		finding: "M1", by: tenantEditor, what: does, stoppedBy: "the CLI spells control characters out",
		run: func(t *testing.T, f *attackFixture, who actor) {
			t.Helper()
			kind, _, _ := strings.Cut(name, "/")
			for _, text := range []string{escapeSequences, "harmless"} {
				if err := who.Apply(t, f, fmt.Sprintf(object, text)); err != nil {
					if text == escapeSequences && strings.Contains(err.Error(), "is invalid") {
						continue // the API server refuses the name
					}
					t.Fatal(err)
				}
				f.WaitForObject(t, kind, "evil-x", "loud", func(o *unstructured.Unstructured) bool {
					return harness.FalseReason(o, "Programmed") != ""
				})
				if n := f.runOperatorCommands(t, name, "loud"); n < 2 {
					t.Errorf("%s: %d commands tell of the object: this shows nothing", text, n)
				}
			}
		},
	}
}

// runOperatorCommands runs the commands of an operator, none of which may print control characters, and returns how
// many of them mention an object.
func (f *attackFixture) runOperatorCommands(t *testing.T, object, name string) int32 {
	t.Helper()
	var shown atomic.Int32
	var all sync.WaitGroup
	for _, args := range [][]string{
		{"status"},
		{"doctor"},
		{"explain", object, "-n", "evil-x", "-v", "--no-nodes"},
		{"status", "-o", "json"},
		{"map", "-o", "md"},
		{"plan"},
	} {
		all.Go(func() {
			out, _ := f.runCLI(t, f.operatorEnv(), args...)
			expectNoControlChars(t, strings.Join(args, " "), out)
			if strings.Contains(out, name) {
				shown.Add(1)
			}
		})
	}
	all.Wait()
	return shown.Load()
}

func deploymentManifest(name, container, more string) string {
	return fmt.Sprintf(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: %s, namespace: evil-x}, spec: {replicas: 0, selector: {matchLabels: {app: x}},
  template: {metadata: {labels: {app: x}}, spec: {containers: [{name: %s, image: x, %s}]}}}}`, name, container, more)
}

// warningEvent returns an Event in the attacker's namespace about the Service "own" of a namespace.
func warningEvent(name, about, message string) string {
	return fmt.Sprintf(`{apiVersion: v1, kind: Event, metadata: {name: %s, namespace: evil-x}, type: Warning, reason: Forged, message: %q,
  involvedObject: {apiVersion: v1, kind: Service, namespace: %s, name: own}}`, name, message, about)
}

// operatorEnv returns the environment of an operator's shell, with the addresses of OVN's databases.
func (f *attackFixture) operatorEnv() []string {
	return []string{
		"OVN_NB_DB=" + f.Database("nb", f.Blueprint.Raft),
		"OVN_SB_DB=" + f.Database("sb", f.Blueprint.Raft),
	}
}

// newCommand returns sallyport as the operator runs it.
func (f *attackFixture) newCommand(t *testing.T, environment []string, args ...string) *exec.Cmd {
	t.Helper()
	program, err := filepath.Abs("../../../bin/sallyport")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(append(os.Environ(), "KUBECONFIG="+f.Kubeconfig(), "PATH="+f.Parts.Bin()+":"+os.Getenv("PATH")),
		environment...)
	return cmd
}

// runCLI runs sallyport and returns its output.
func (f *attackFixture) runCLI(t *testing.T, environment []string, args ...string) (string, error) {
	t.Helper()
	out, err := f.newCommand(t, environment, args...).CombinedOutput()
	return string(out), err
}

// startUI starts sallyport ui and returns the address that it prints.
func (f *attackFixture) startUI(t *testing.T) string {
	t.Helper()
	cmd := f.newCommand(t, f.operatorEnv(), "ui")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait() // the exit status does not matter
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(line)[0]
}

// getHTTPStatus returns the HTTP status of a response without reading the body.
func getHTTPStatus(t *testing.T, client *http.Client, address string, edit func(*http.Request)) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	if edit != nil {
		edit(r)
	}
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	return answer.StatusCode
}

// buildArchiveBomb returns a bundle with a survey of hundreds of millions of empty pods.
func buildArchiveBomb(t *testing.T) []byte {
	t.Helper()
	const begin = `{"Taken": "2030-01-01T00:00:00Z", "Cluster": {"Pods": [{}`
	block := strings.Repeat(",{}", 1<<20)
	var out bytes.Buffer
	packed := gzip.NewWriter(&out)
	archive := tar.NewWriter(packed)
	err := archive.WriteHeader(&tar.Header{
		Name: "sallyport/survey.json",
		Mode: 0o600,
		Size: int64(len(begin) + 400*len(block)),
	})
	if err == nil {
		_, err = io.WriteString(archive, begin)
	}
	for n := 0; n < 400 && err == nil; n++ {
		_, err = io.WriteString(archive, block)
	}
	if err = errors.Join(err, archive.Close(), packed.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// expectNoControlChars fails the test if a text contains characters that a terminal interprets, or the forged line.
func expectNoControlChars(t *testing.T, what, text string) {
	t.Helper()
	for _, r := range text {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
			t.Errorf("%s prints %U", what, r)
			return
		}
	}
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "0 errors") {
			t.Errorf("%s prints the line %q", what, line)
		}
	}
}

func expectText(t *testing.T, text string, wanted ...string) {
	t.Helper()
	for _, want := range wanted {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %.2000s", want, text)
		}
	}
}

func expectNoText(t *testing.T, text, unwanted string) {
	t.Helper()
	if strings.Contains(text, unwanted) {
		t.Errorf("%q is in %.2000s", unwanted, text)
	}
}

// findLine returns the first line that begins with a word.
func findLine(text, word string) string {
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(line, word+" ") {
			return strings.TrimSpace(line)
		}
	}
	return ""
}
