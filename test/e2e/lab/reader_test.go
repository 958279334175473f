package lab

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"github.com/sallyport/sallyport/internal/cli"
	"github.com/sallyport/sallyport/internal/lab/blueprint"
	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// buildCommand builds the command as `make build` does.
func buildCommand(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sallyport")
	if out, err := exec.Command("go", "build", "-o", path, "../../../cmd/sallyport").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return path
}

// expectError runs a command that must fail and checks that its message contains the given words.
func expectError(t *testing.T, cmd *exec.Cmd, words ...string) {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Errorf("%s succeeded; wanted an error with %q", strings.Join(cmd.Args, " "), words)
		return
	}
	for _, w := range words {
		if !bytes.Contains(out, []byte(w)) {
			t.Errorf("%s says %q; wanted %q in it", strings.Join(cmd.Args[1:], " "), out, w)
		}
	}
}

func TestLab7ExplainsItself(t *testing.T) {
	item := labItems.Item(t, 7)
	c := harness.SharedLab(t)
	helped := checkHelp(t, cli.New("test"))
	item.AddFigure("%d commands have help with what they do and their flags", helped)
	item.AddFigure("%d errors say what is missing and what to do next", checkErrors(t, c))
	item.AddFigure("%d command lines of docs/howto/lab.md exist with their flags", checkDocs(t))
	checkCommands(t, c, buildCommand(t))
	item.AddFigure("exec, capture, logs, status, env, list and kubeconfig do what they say")
}

// checkHelp checks the help of all commands in the command tree.
func checkHelp(t *testing.T, cmd *cobra.Command) (n int) {
	t.Helper()
	for _, sub := range cmd.Commands() {
		n += checkHelp(t, sub)
	}
	if cmd.Short == "" {
		t.Errorf("%s has no help", cmd.CommandPath())
	}
	var out bytes.Buffer
	cmd.SetOut(&out)
	if err := cmd.Help(); err != nil || !strings.Contains(out.String(), "Usage:") {
		t.Errorf("%s --help: %v\n%s", cmd.CommandPath(), err, out.String())
	}
	return n + 1
}

func checkErrors(t *testing.T, c *harness.Cluster) int {
	t.Helper()
	sallyport := buildCommand(t)
	nobody := exec.Command(sallyport, "lab", "up", "--lab", "nobody")
	nobody.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if err := os.Chmod(filepath.Dir(sallyport), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(filepath.Dir(sallyport)), 0o755); err != nil {
		t.Fatal(err)
	}
	expectError(t, nobody, "needs root", "sudo")

	bare := exec.Command(sallyport, "lab", "up", "--lab", "bare")
	bare.Env = []string{"PATH=" + t.TempDir(), "HOME=" + os.Getenv("HOME")}
	expectError(t, bare, "nft", "apt-get install nftables")

	wrong := filepath.Join(t.TempDir(), "wrong.yaml")
	if err := os.WriteFile(wrong, []byte("networks: [{name: ext-much-too-long-a-name, prefixes: [198.51.100.1/24]}]"),
		0o600); err != nil {
		t.Fatal(err)
	}
	cases := []struct{ arguments, words string }{
		{"up --topology " + wrong, "at most 12 characters;did you mean 198.51.100.0/24?"},
		{"up --lab " + c.Name, "already;lab down --lab"},
		{"up --ovn-raft 2 --lab x", "odd number"},
		{"up --nodes 0 --fake-pods 3 --lab x", "fake node"},
		{"status --lab not-there", "there is no lab;lab up --lab not-there"},
		{"kill node9 --lab " + c.Name, "no process \"node9\";kube-apiserver"},
		{"cut node9 --lab " + c.Name, "no node \"node9\";node3"},
		{"exec nowhere --lab " + c.Name + " -- true", "no pod \"nowhere\";internet;router-ext-public"},
		{"logs nothing --lab " + c.Name, "no log of;lab logs"},
		{"up --lab NotAName", "lower case letters"},
	}
	for _, k := range cases {
		expectError(t, exec.Command(sallyport, append([]string{"lab"}, strings.Fields(k.arguments)...)...),
			strings.Split(k.words, ";")...)
	}
	return len(cases) + 2
}

var commandLine = regexp.MustCompile(`(?m)^(?:\$ |sudo )?\s*(?:eval "\$\()?(?:sudo )?(?:\./)?(?:bin/)?sallyport (lab [^#\n|)"]*)`)

// checkDocs checks every command line of the how-to, including flags, against the command tree.
func checkDocs(t *testing.T) (n int) {
	t.Helper()
	for _, m := range commandLine.FindAllStringSubmatch(harness.ReadFile(t, harness.HowtoDir+harness.LabPage), -1) {
		words, _, _ := strings.Cut(m[1], " -- ")
		cmd, rest, err := cli.New("test").Find(strings.Fields(words))
		if err != nil || cmd.Name() == "lab" {
			t.Errorf("the how-to has a command that does not exist: %s", m[0])
			continue
		}
		if err := cmd.ParseFlags(rest); err != nil {
			t.Errorf("the how-to has %q: %v", m[0], err)
		}
		n++
	}
	if n < 15 {
		t.Errorf("only %d command lines were found in the how-to", n)
	}
	return n
}

var yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// TestDocsAndExamplesApply checks that every topology in the docs and examples can be built and every manifest applied.
// Manifests of how-tos are applied by the test that runs those pages.
func TestDocsAndExamplesApply(t *testing.T) {
	c := harness.SharedSallyport(t)
	var texts []string
	docs, err := filepath.Glob("../../../docs/*/*.md")
	if err != nil {
		t.Fatal(err)
	}
	docs = slices.DeleteFunc(docs, func(file string) bool {
		return strings.HasPrefix(file, harness.HowtoDir) && file != harness.HowtoDir+harness.LabPage
	})
	for _, file := range append(docs, "../../../README.md", "../../../CONTRIBUTING.md") {
		for _, m := range yamlBlock.FindAllStringSubmatch(harness.ReadFile(t, file), -1) {
			texts = append(texts, m[1])
		}
	}
	examples, err := filepath.Glob("../../../examples/*/*.yaml")
	if err != nil || len(examples) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, file := range examples {
		texts = append(texts, harness.ReadFile(t, file))
	}
	for _, text := range texts {
		if strings.Contains(text, "# topology") {
			checkTopology(t, text)
			continue
		}
		c.Apply(t, text)
		waitObjectsProgrammed(t, c, text)
	}
}

// waitObjectsProgrammed waits until every Sallyport object in a manifest is Programmed.
func waitObjectsProgrammed(t *testing.T, c *harness.Cluster, text string) {
	t.Helper()
	objects, err := manifest.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		if slices.Contains([]string{"Project", "EIp", "FIp", "EgressRoute"}, o.GetKind()) {
			c.WaitProgrammed(t, o.GetKind(), o.GetNamespace(), o.GetName())
		}
	}
}

func checkTopology(t *testing.T, text string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "topology.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := blueprint.Load(path)
	if err != nil {
		t.Error(err)
		return
	}
	if err := b.Check(); err != nil {
		t.Errorf("%v\n%s", err, text)
	}
}

// checkCommands runs the commands that inspect a lab.
func checkCommands(t *testing.T, c *harness.Cluster, sallyport string) {
	t.Helper()
	run := func(arguments ...string) string {
		t.Helper()
		cmd := exec.CommandContext(harness.Within(t, harness.Patience), sallyport,
			append([]string{"lab", "--lab", c.Name}, arguments...)...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Errorf("lab %s: %v\n%s", strings.Join(arguments, " "), err, stderr.String())
		}
		return string(out)
	}
	has := func(got string, wanted ...string) {
		t.Helper()
		for _, w := range wanted {
			if !strings.Contains(got, w) {
				t.Errorf("wanted %q in:\n%s", w, got)
			}
		}
	}
	has(run("status"), "node1", "kube-apiserver", "running", "router-ext-public")
	has(run("status", "-o", "json"), `"doors"`)
	has(run("list"), c.Name, "up")
	has(run("kubeconfig"), c.Kubeconfig())
	has(run("env"), "export KUBECONFIG=", "export OVN_NB_DB=")
	has(run("logs"), "kube-ovn-controller")
	has(run("logs", "kube-apiserver"), "Version")
	has(run("exec", "internet", "--", "ip", "-br", "address", "show", "lo"), "203.0.113.10")

	file := filepath.Join(t.TempDir(), "wire.pcap")
	done := make(chan string, 1)
	go func() {
		done <- run("capture", "router-ext-public", "-i", "lan", "-w", file, "-c", "2", "tcp", "port", "80")
	}()
	for received := false; !received; { // until the capture has started and has its packets
		c.ExpectAnswer(t, "client-ext-public", "http://91.224.11.2", "host-ext-public", "172.20.0.10")
		select {
		case <-done:
			received = true
		default:
		}
	}
	if info, err := os.Stat(file); err != nil || info.Size() < 100 {
		t.Errorf("the capture has no packets: %v %v", info, err)
	}
}
