package view

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sallyport/sallyport/internal/lab"
	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/internal/lab/parts"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// docReader follows pages one after the other in one lab.
type docReader struct {
	*harness.Cluster
	env            []string
	dir            string // working directory of commands
	stopController func()
	pages          int
	blockCount
}

// blockCount is the number of applied manifests and commands.
type blockCount struct{ applied, commands int }

func countBlocks(list []harness.CodeBlock) (out blockCount) {
	for _, b := range list {
		if b.Kind == "yaml" {
			out.applied++
		} else {
			out.commands += countCommandLines(b.Text)
		}
	}
	return out
}

// TestView5Docs checks that the documentation works as written, from top to bottom.
func TestView5Docs(t *testing.T) {
	item := viewItems.Item(t, 5)
	c := harness.StartLab(t, "howto", harness.LoadTopology(t, "howto.yaml"))
	r := &docReader{Cluster: c, env: readerEnv(t, c), dir: harness.RepositoryRoot}
	t.Cleanup(func() {
		if r.stopController != nil {
			r.stopController()
		}
	})
	begun := time.Now()
	for _, h := range r.listHowtos(t) {
		t.Run(h.page, func(t *testing.T) {
			h.follow(t, harness.ExecutableBlocks(harness.ReadFile(t, harness.HowtoDir+h.page)))
		})
	}
	t.Run("overview.md", func(t *testing.T) {
		r.followOverview(t, harness.ExecutableBlocks(harness.ReadFile(t,
			harness.RepositoryRoot+"/docs/concepts/overview.md")))
	})
	item.AddFigure("%d how-tos and the overview, read from top to bottom in one lab: %d manifests applied, %d commands run, and packets where they should be (%.0f s)",
		r.pages, r.applied, r.commands, time.Since(begun).Seconds())
	item.AddFigure("%s", runDocsTests(t))
	if !show.IsFullSize() {
		item.AddFigure("docs/howto/%s needs labs of its own and is typed in at full size only; here its commands are looked up (TestLab7)", harness.LabPage)
	}
}

// howto is a page to follow.
type howto struct {
	page   string
	follow func(*testing.T, []harness.CodeBlock)
}

// listHowtos returns all pages in the order in which they are read, because later pages use objects of earlier ones. A
// page that is missing here is an error.
func (r *docReader) listHowtos(t *testing.T) []howto {
	t.Helper()
	list := []howto{
		{"install.md", r.followInstall},
		{"addresses.md", r.followAddresses},
		{"adopt.md", r.followAdopt},
		{"nodes.md", r.followNodes},
		{"egress.md", r.followEgress},
		{"look.md", r.followLook},
		{"ui.md", r.followUI},
		{"night.md", r.followNight},
		{"clusters.md", r.followClusters},
		{"cli.md", r.followCLI},
	}
	files, err := filepath.Glob(harness.HowtoDir + "*.md")
	if err != nil || len(files) == 0 {
		t.Fatalf("no how-tos: %v", err)
	}
	for _, file := range files {
		page := filepath.Base(file)
		if page != harness.LabPage && !slices.ContainsFunc(list, func(h howto) bool { return h.page == page }) {
			t.Errorf("nothing shows that what docs/howto/%s says works: add it to the list of this test", page)
		}
	}
	r.pages = len(list)
	return list
}

// readerEnv returns the environment of a reader: a home directory, our command, helm, and the lab. Existing builds are
// reused.
func readerEnv(t *testing.T, c *harness.Cluster) []string {
	t.Helper()
	cache, err := parts.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	home, before := t.TempDir(), os.Getenv("HOME")
	bin := filepath.Join(home, ".local/bin")
	if err := errors.Join(os.MkdirAll(bin, 0o755),
		os.Symlink(filepath.Join(binDir(t), "sallyport"), filepath.Join(bin, "sallyport"))); err != nil {
		t.Fatal(err)
	}
	return append(os.Environ(), "HOME="+home, "SALLYPORT_LAB="+c.Name, "SALLYPORT_CACHE="+cache,
		"GOCACHE="+filepath.Join(before, ".cache/go-build"), "GOPATH="+filepath.Join(before, "go"),
		"PATH="+strings.Join([]string{bin, harness.HelmDir(t), os.Getenv("PATH")}, ":"))
}

// binDir returns the output directory of `make build`.
func binDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../../../bin")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// runBlocks runs blocks and returns their output.
func (r *docReader) runBlocks(t *testing.T, list []harness.CodeBlock) string {
	t.Helper()
	n := countBlocks(list)
	r.applied, r.commands = r.applied+n.applied, r.commands+n.commands
	return harness.RunBash(t, r.dir, r.env, "eval \"$(sallyport lab env)\"\n"+harness.ScriptFromBlocks(list))
}

// countCommandLines counts command lines without comments and continuation lines.
func countCommandLines(text string) (n int) {
	continued := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "#") && !continued {
			n++
		}
		continued = strings.HasSuffix(line, `\`)
	}
	return n
}

// TestView5Try checks that the first command of the README shows what it says, and that the second leaves nothing
// behind.
func TestView5Try(t *testing.T) {
	item := viewItems.Item(t, 5)
	harness.ExpectContains(t, harness.ReadFile(t, harness.RepositoryRoot+"/README.md"), "sudo make packages try\n",
		"`sudo make lab-down`")
	name := fmt.Sprintf("e2e-%d-try", os.Getpid())
	t.Cleanup(func() { _ = lab.Down(context.Background(), name) }) // the lab exists only if a command failed
	begun := time.Now()
	out := harness.RunBash(t, harness.RepositoryRoot, os.Environ(), "make --no-print-directory try LAB="+name)
	took := time.Since(begun)
	if n := strings.Count(out, "web saw 203.0.113.10"); n != 2 {
		t.Errorf("the pod answered %d times; wanted one answer on each of two networks:\n%s", n, out)
	}
	harness.ExpectContains(t, out, "fip.kube-dc.com/web-public condition met", "Answered", "ext-public  router port",
		"make lab-down")
	harness.ExpectContains(t, harness.RunBash(t, harness.RepositoryRoot, os.Environ(),
		"make --no-print-directory lab-down LAB="+name), "lab \""+name+"\" is down")
	if _, err := lab.Open(name); err == nil {
		t.Errorf("the lab is still there")
	}
	item.AddFigure("make try, as the README has it: an answer by each of two networks, the way of the packet and a map after %.0f s", took.Seconds())
}

// TestView5HowtoOfTheLab runs the page of the lab from top to bottom, with smaller labs instead of large ones.
func TestView5HowtoOfTheLab(t *testing.T) {
	if !show.IsFullSize() {
		t.Skip("five labs, one after the other: at full size only")
	}
	item := viewItems.Item(t, 5)
	name := fmt.Sprintf("e2e-%d-page", os.Getpid())
	others := []string{"second", "bgp", "raft", "scale"}
	t.Cleanup(func() {
		for _, of := range append(others, "") {
			// the lab exists only if a command failed
			_ = lab.Down(context.Background(), strings.TrimSuffix(name+"-"+of, "-"))
		}
	})
	page := harness.ReadFile(t, harness.HowtoDir+harness.LabPage)
	for _, of := range others { // other labs of this machine may have these names
		page = strings.NewReplacer("--lab "+of, "--lab "+name+"-"+of, "/run/sallyport/"+of+"/",
			"/run/sallyport/"+name+"-"+of+"/").Replace(page)
	}
	page = strings.ReplaceAll(page, "--fake-nodes 500 --fake-pods 5000", "--fake-nodes 5 --fake-pods 20")
	// it would run until it is interrupted
	page = regexp.MustCompile(`(?m)^sallyport lab capture .*$`).ReplaceAllString(page, "timeout 1 $0 || true")
	dir := t.TempDir()
	if err := os.Symlink(filepath.Join(binDir(t), "../examples"), filepath.Join(dir, "examples")); err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "SALLYPORT_LAB="+name, "PATH="+binDir(t)+":"+os.Getenv("PATH"), "SHELL=/bin/sh")
	out := harness.RunBash(t, dir, env, harness.ScriptFromBlocks(harness.ExecutableBlocks(page)))
	harness.ExpectContains(t, out, "web saw 172.20.", "web saw 203.0.113.10", "I am 10.16.0.200", "Role: leader",
		"lab \""+name+"-scale\" is down")
	item.AddFigure("docs/howto/%s, typed in from top to bottom: five labs, %d commands", harness.LabPage,
		countBlocks(harness.ExecutableBlocks(page)).commands)
}

// followInstall installs the chart with Helm. The programs of the chart's pods run next to the lab, with the
// permissions of the chart.
func (r *docReader) followInstall(t *testing.T, page []harness.CodeBlock) {
	r.runBlocks(t, page[:1])
	c := r.NewController(t, r.Dir, "--leader-election-namespace="+harness.ChartNamespace)
	c.Start(t)
	r.stopController = func() { c.Stop(syscall.SIGTERM) }
	out := r.runBlocks(t, page[1:])
	harness.ExpectContains(t, out, "has been upgraded")
}

// followAddresses checks that the addresses of a tenant answer.
func (r *docReader) followAddresses(t *testing.T, page []harness.CodeBlock) {
	out := r.runBlocks(t, page)
	harness.ExpectContains(t, out, "fip.kube-dc.com/shop condition met", "service/shop condition met", "Programmed")
	r.ExpectAnswer(t, "internet", "http://"+r.ReadStatusField(t, "FIp", "globex-web", "shop", "externalIP"), "shop",
		"203.0.113.10")
	r.ExpectAnswer(t, "internet", "http://"+r.serviceIngress(t, "globex-web", "shop")+":443", "shop", "203.0.113.10")
	harness.ExpectContains(t, out, "fip.kube-dc.com/shop-ipv6 condition met")
	r.ExpectAnswer(t, "internet", "http://["+r.ReadStatusField(t, "FIp", "globex-six", "shop-ipv6", "externalIP")+"]", "shop",
		"2001:db8:113::10")
	r.DeleteAndWait(t, "Project", "globex", "six")
	r.DeleteAndWait(t, "ExternalNetwork", "", "cloud") // later pages describe a network with IPv4
}

// followAdopt checks that the address that was adopted is the same, and answers.
func (r *docReader) followAdopt(t *testing.T, page []harness.CodeBlock) {
	objects := page[:len(page)-1] // the last block has the commands that adopt
	r.runBlocks(t, objects)
	address := r.ReadField(t, "OvnEip", "", "front", "status", "v4Ip")
	out := r.runBlocks(t, page[len(page)-1:])
	harness.ExpectContains(t, out, "outbound: its connections leave through ext-public, as now", "adopted: Project initech/web owns these objects")
	if now := r.ReadStatusField(t, "FIp", "initech-web", "front", "externalIP"); now != address {
		t.Errorf("the floating IP has address %s, and had %s", now, address)
	}
	r.ExpectAnswer(t, "internet", "http://"+address, "front", "203.0.113.10")
	r.DeleteAndWait(t, "Project", "initech", "web")
	r.DeleteAndWait(t, "Namespace", "", "initech")
}

// followClusters divides the prefix, and lets a host on the wire answer for an address of the cluster, as the router of a
// second cluster would.
func (r *docReader) followClusters(t *testing.T, page []harness.CodeBlock) {
	r.dir = harness.RepositoryRoot // that of the page before is gone
	harness.ExpectContains(t, r.runBlocks(t, page), "eip.kube-dc.com/theirs condition met")
	address := r.ReadStatusField(t, "FIp", "globex-web", "shop", "externalIP")
	doctor := func() string {
		return harness.RunBash(t, r.dir, r.env, "eval \"$(sallyport lab env)\"\nsallyport doctor || true")
	}
	if out := doctor(); strings.Contains(out, "AddressDuplicate") {
		t.Errorf("before the second cluster took the address, doctor prints\n%s", out)
	}
	r.runAt(t, "host-ext-public", "ip", "address", "add", address+"/32", "dev", "eth0")
	harness.ExpectContains(t, doctor(), "AddressDuplicate", address)
	r.runAt(t, "host-ext-public", "ip", "address", "del", address+"/32", "dev", "eth0")
	r.runAt(t, "router-ext-public", "ip", "neigh", "flush", "dev", "lan")
}

// followNodes checks that nodes answer through the interface of the request after the steps of the page, and not
// before.
func (r *docReader) followNodes(t *testing.T, page []harness.CodeBlock) {
	r.Apply(t, harness.ReadFile(t, "../../../examples/05-nodes/1-echo.yaml"))
	r.WaitForObject(t, "Pod", "default", "echo", manifest.True("Ready"))
	const asked = "http://192.168.10.11"
	if a, err := r.SendRequest("client-eth1", asked); err == nil {
		t.Errorf("the node answers without the page: %v", a)
	}
	r.runBlocks(t, page[:1])
	if err := r.InstallAgents(harness.Within(t, harness.Patience), "../../../bin/sallyport-agent.yaml",
		filepath.Join(binDir(t), "sallyport-agent")); err != nil {
		t.Fatal(err)
	}
	harness.ExpectContains(t, r.runBlocks(t, page[1:]), "nodepath.kube-dc.com/node1 condition met")
	r.ExpectAnswer(t, "client-eth1", asked, "echo", "")
}

// followEgress checks that pods leave with the addresses that the page states.
func (r *docReader) followEgress(t *testing.T, page []harness.CodeBlock) {
	r.createAnnouncedService(t)
	out := r.runBlocks(t, page)
	harness.ExpectContains(t, out, "egressip.k8s.ovn.org/partners condition met",
		"egressroute.kube-dc.com/partner condition met", "egressservice.k8s.ovn.org/mail condition met")
	r.ExpectAnswer(t, "billing.globex-web", "http://198.51.100.2", "host-ext-public", "198.51.100.200")
	r.ExpectAnswer(t, "billing.globex-web", "http://203.0.113.10", "internet",
		r.ReadStatusField(t, "EgressRoute", "globex-web", "partner", "externalIP"))
	r.ExpectAnswer(t, "mail.globex-web", "http://203.0.113.10", "internet", r.serviceIngress(t, "globex-web", "mail"))
	r.ExpectAnswer(t, "mail.default", "http://"+r.Segment(t, "eth1").ClientSide[0].Peer.Addr().String(), "client-eth1",
		"192.168.10.25")
}

// createAnnouncedService creates what the page assumes on nodes: a Service with an address that MetalLB assigned and
// announces from the node of its pod.
func (r *docReader) createAnnouncedService(t *testing.T) {
	t.Helper()
	err := r.Objects.Apply(harness.Within(t, harness.Patience), `
{apiVersion: v1, kind: Pod, metadata: {name: mail, namespace: default, labels: {app: mail}}, spec: {nodeName: node1, containers: [{name: mail, image: lab/echo}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: mail, namespace: default}, spec: {type: LoadBalancer, selector: {app: mail}, ports: [{port: 25, targetPort: 8080}]}}`)
	if err != nil {
		t.Fatal(err)
	}
	r.WaitForObject(t, "Pod", "default", "mail", manifest.True("Ready"))
	gave := []byte(`{"status":{"loadBalancer":{"ingress":[{"ip":"192.168.10.25"}]}}}`)
	if _, err := r.Client.CoreV1().Services("default").Patch(harness.Within(t, harness.Patience), "mail",
		types.MergePatchType, gave, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	r.runAt(t, "node1", "sysctl", "-qw", "net.ipv4.ip_forward=1")
	r.runAt(t, "node1", "ip", "address", "add", "192.168.10.25/32", "dev", "lo")
}

// serviceIngress returns the address of a tenant's load balancer.
func (r *docReader) serviceIngress(t *testing.T, namespace, name string) string {
	t.Helper()
	s, err := r.Client.CoreV1().Services(namespace).Get(harness.Within(t, harness.Patience), name, metav1.GetOptions{})
	if err != nil || len(s.Status.LoadBalancer.Ingress) == 0 {
		t.Fatalf("Service %s has no address: %v", name, err)
	}
	return s.Status.LoadBalancer.Ingress[0].IP
}

// followCLI checks that kubectl finds the program, that it completes names, and that it has man pages.
func (r *docReader) followCLI(t *testing.T, page []harness.CodeBlock) {
	r.dir = harness.RepositoryRoot
	// reuse what make has built
	if made, err := filepath.Glob("../../../bin/man/*.1"); err == nil && len(made) > 0 && !show.IsFullSize() {
		page[0].Text = strings.Replace(page[0].Text, "make build man\n", "", 1)
	}
	out := r.runBlocks(t, page)
	harness.ExpectContains(t, out, "kubectl-sallyport", "kubectl sallyport [command]", "SALLYPORT-PLAN(1)")
	for typed, wanted := range map[string]string{
		"sallyport __complete pla": "plan\t", "sallyport __complete lab exec ''": "router-ext-public",
		"sallyport __complete lab kill ''":  "ovn-northd",
		"sallyport __complete lab --lab ''": r.Name, "kubectl_complete-sallyport pla": "plan\t",
		"source ~/.local/share/bash-completion/completions/sallyport; complete -p sallyport": "__start_sallyport",
	} {
		harness.ExpectContains(t, r.runBlocks(t, []harness.CodeBlock{{Text: typed + "\n"}}), wanted)
		r.commands--
	}
}

// followLook checks that every view of the cluster, also from a file, contains the tenant and reports no problem.
func (r *docReader) followLook(t *testing.T, page []harness.CodeBlock) {
	r.dir = t.TempDir()
	harness.ExpectContains(t, r.runBlocks(t, page), "globex-web", "nothing is wrong")
}

// followUI checks that the page is served and that pictures show this cluster. Commands that run until interrupted are
// stopped.
func (r *docReader) followUI(t *testing.T, page []harness.CodeBlock) {
	r.dir = t.TempDir()
	for i := range page {
		page[i].Text = regexp.MustCompile(`(?m)^sallyport ui.*$`).ReplaceAllString(page[i].Text,
			"timeout 2 $0 || [ $? = 124 ]")
	}
	harness.ExpectContains(t, r.runBlocks(t, page), "http://127.0.0.1:", "globex-web")
	for _, picture := range []string{"cluster.svg", "web.svg"} {
		harness.ExpectContains(t, harness.ReadFile(t, filepath.Join(r.dir, picture)), "<svg", "globex-web")
	}
}

// followNight makes the router of a network silent and checks that the commands of the page report it with the wording
// of the page.
func (r *docReader) followNight(t *testing.T, page []harness.CodeBlock) {
	r.dir = t.TempDir()
	for i := range page {
		page[i].Text = strings.ReplaceAll(page[i].Text, "198.51.100.14:443",
			r.ReadStatusField(t, "FIp", "globex-web", "shop", "externalIP")+":80")
	}
	harness.ExpectContains(t, r.runBlocks(t, page), "Answered", "As traced", "nothing is wrong")
	r.runAt(t, "router-ext-public", "ip", "link", "set", "lan", "down")
	lost := r.runBlocks(t, []harness.CodeBlock{{Text: strings.TrimSpace(page[0].Text) + " || echo no answer\n"}})
	found := r.runBlocks(t, []harness.CodeBlock{{Text: "sallyport doctor || true\n"}})
	r.runAt(t, "router-ext-public", "ip", "link", "set", "lan", "up")
	harness.ExpectContains(t, lost, "GatewaySilent", "no answer")
	shown := regexp.MustCompile("(?s)```text\n(.*?)```").FindStringSubmatch(harness.ReadFile(t,
		harness.HowtoDir+"night.md"))
	harness.ExpectContains(t, found, strings.TrimSpace(shown[1]))
}

// runAt runs a command in a node or host of the lab.
func (r *docReader) runAt(t *testing.T, where string, argv ...string) {
	t.Helper()
	cmd, err := r.Command("", where, argv...)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", argv, err, out)
	}
}

var docsTestOutput = regexp.MustCompile(`(?s)(\d+) commands on pages.*?(\d+ links on \d+ pages)`)

// runDocsTests runs the tests of the documentation that need no lab, and returns how many links and commands they
// checked.
func runDocsTests(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(harness.Within(t, 5*time.Minute), "go", "test", "-count=1", "-v",
		"../../docs").CombinedOutput()
	m := docsTestOutput.FindSubmatch(out)
	if err != nil || m == nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return fmt.Sprintf("%s lead somewhere, every page is found from docs/README.md, and %s commands on them exist with their flags", m[2], m[1])
}
