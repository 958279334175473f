package lab

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/lab"
	"github.com/sallyport/sallyport/internal/lab/blueprint"
	"github.com/sallyport/sallyport/internal/lab/netns"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

var ( // in CI the machine may be several times slower
	longestUp   = show.ChooseSize(30*time.Second, 3*time.Minute)
	longestDown = show.ChooseSize(3*time.Second, 30*time.Second)
)

// runMake runs a target of the Makefile.
func runMake(t *testing.T, arguments ...string) string {
	t.Helper()
	cmd := exec.CommandContext(harness.Within(t, 30*time.Minute), "make",
		append([]string{"--no-print-directory", "-C", "../../.."}, arguments...)...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("make %s: %v\n%s", strings.Join(arguments, " "), err, out.String())
	}
	return out.String()
}

var tookPattern = regexp.MustCompile(`is (up|down) after ([0-9.]+)s`)

func parseTook(t *testing.T, output string) time.Duration {
	t.Helper()
	m := tookPattern.FindStringSubmatch(output)
	if m == nil {
		t.Fatalf("the command does not say how long it took:\n%s", output)
	}
	seconds, err := strconv.ParseFloat(m[2], 64)
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(seconds * float64(time.Second))
}

func TestLab1MakeLab(t *testing.T) {
	harness.RunAlone(t)
	item := labItems.Item(t, 1)
	name := fmt.Sprintf("e2e-%d-make", os.Getpid())
	runMake(t, "parts") // the time limit assumes that the parts are built
	t.Cleanup(func() { _ = lab.Down(context.Background(), name) })
	output := runMake(t, "lab", "LAB="+name)
	upTook := parseTook(t, output)
	if upTook > longestUp {
		t.Errorf("the lab was usable after %s; the limit is %s", upTook, longestUp)
	}
	l, err := lab.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	checkUsable(t, l)
	for line := range strings.Lines(output) {
		if strings.Contains(line, " took ") {
			item.AddFigure("%s", strings.TrimSpace(line))
		}
	}
	downTook := parseTook(t, runMake(t, "lab-down", "LAB="+name))
	if downTook > longestDown {
		t.Errorf("the lab was gone after %s; the limit is %s", downTook, longestDown)
	}
	item.AddFigure("up in %.1f s (limit %.0f), down in %.1f s (limit %.0f)", upTook.Seconds(), longestUp.Seconds(),
		downTook.Seconds(), longestDown.Seconds())
}

// checkUsable checks that the lab is usable right after `lab up` has returned: the API answers, Kube-OVN's subnets are
// ready, and every node has tunnels to the others.
func checkUsable(t *testing.T, l *lab.Lab) {
	t.Helper()
	c, err := harness.AttachToLab(l, blueprint.Default())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(harness.Within(t,
		harness.Patience)).Error(); err != nil {
		t.Errorf("the API server is not ready: %v", err)
	}
	for _, subnet := range []string{"ovn-default", "join", "ext-public", "ext-cloud"} {
		o, err := c.Objects.Get(harness.Within(t, harness.Patience), harness.ObjectRef("Subnet", "", subnet))
		if err != nil || !harness.IsReady(o) {
			t.Errorf("Kube-OVN's subnet %s is not ready: %v", subnet, err)
		}
	}
	for _, n := range c.Blueprint.NodeList() {
		tunnels := strings.Fields(c.RunVsctl(t, n.Name, "--bare", "--columns=name", "find", "interface", "type=geneve"))
		if len(tunnels) != c.Blueprint.Nodes-1 {
			t.Errorf("%s has tunnels %v; wanted one to each of the %d other nodes", n.Name, tunnels,
				c.Blueprint.Nodes-1)
		}
	}
}

func TestLab5ScaleMode(t *testing.T) {
	item := labItems.Item(t, 5)
	nodes, pods := show.ChooseSize(500, 50), show.ChooseSize(5000, 300)
	b := blueprint.Default()
	b.Nodes, b.Gateways, b.FakeNodes, b.FakePods = 0, 0, nodes, pods
	begun := time.Now()
	c := harness.StartLab(t, "scale", b)
	upTook := time.Since(begun)
	status, err := c.Status(harness.Within(t, harness.Patience))
	if err != nil {
		t.Fatal(err)
	}
	readyNodes, addresses := c.CountFakeObjects(t)
	if readyNodes != nodes || addresses != pods {
		t.Errorf("%d of %d fake nodes are ready, %d of %d fake pods have an address of their own", readyNodes, nodes,
			addresses, pods)
	}
	item.AddFigure("%d fake nodes, %d fake pods with an address each, in %.0f s, %d MiB", nodes, pods, upTook.Seconds(),
		status.Usage.Memory>>20)
}

func TestLab6UpsAndDownsLeaveNoTrace(t *testing.T) {
	harness.RunAlone(t) // it compares the whole machine before and after
	item := labItems.Item(t, 6)
	rounds := show.ChooseSize(10, 3)
	b := blueprint.Default()
	t.Setenv("TMPDIR", t.TempDir()) // other programs write to the machine's own
	before := collectTraces(t)
	for i := range rounds {
		name := fmt.Sprintf("e2e-%d-round%d", os.Getpid(), i)
		if _, err := harness.BringUpLab(name, b); err != nil {
			t.Fatal(err)
		}
		// Control: while the lab is up, the same check finds traces of it.
		if i == 0 && len(newTraces(before, collectTraces(t))) == 0 {
			t.Error("a running lab leaves no trace in what is checked, so the check can't fail")
		}
		if err := lab.Down(harness.Within(t, harness.Patience), name); err != nil {
			t.Fatal(err)
		}
	}
	// The kernel removes namespaces in the background after the last process has ended.
	deadline := time.Now().Add(10 * time.Second)
	left := newTraces(before, collectTraces(t))
	for len(left) > 0 && time.Now().Before(deadline) {
		left = newTraces(before, collectTraces(t))
	}
	for _, trace := range left {
		t.Errorf("left behind: %s", trace)
	}
	item.AddFigure("%d ups and downs, %d traces left (processes, namespaces, mounts, links, files)", rounds, len(left))
}

// collectTraces returns everything that a lab could leave on a machine, one line each.
func collectTraces(t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for pid, program := range listLabProcesses(t) {
		out["process "+pid+" "+program] = true
		for _, kind := range []string{"net", "mnt", "pid"} {
			if ns, err := os.Readlink(filepath.Join("/proc", pid, "ns", kind)); err == nil {
				out["namespace "+ns] = true
			}
		}
	}
	for line := range strings.Lines(harness.ReadFile(t, "/proc/self/mountinfo")) {
		out["mount "+strings.Fields(line)[4]] = true
	}
	links, err := netns.Own().Links()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		out["link "+l.Attrs().Name] = true
	}
	for _, dir := range []string{"/run", "/var/log", os.TempDir(), "/etc"} {
		_ = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err == nil {
				out["file "+path] = true
			}
			return nil
		})
	}
	return out
}

// listLabProcesses lists the programs that belong to labs, and this test's own children.
func listLabProcesses(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		line := strings.ReplaceAll(string(raw), "\x00", " ")
		if err == nil && (strings.Contains(line, "sallyport") || strings.Contains(line, "/run/")) {
			out[filepath.Base(filepath.Dir(file))] = line
		}
	}
	return out
}

func newTraces(before, after map[string]bool) (out []string) {
	for trace := range after {
		if !before[trace] {
			out = append(out, trace)
		}
	}
	slices.Sort(out)
	return out
}

func TestTwoLabsSideBySide(t *testing.T) {
	b := blueprint.Default()
	b.Nodes, b.Gateways = 2, 1
	first, second := harness.StartLab(t, "twin1", b), harness.StartLab(t, "twin2", b)
	for _, c := range []*harness.Cluster{first, second} {
		c.CreateNamespace(t, "twin", "")
		a := c.RunPod(t, harness.Pod{Namespace: "twin", Name: "a", Node: "node1"})
		target := c.RunPod(t, harness.Pod{Namespace: "twin", Name: "b", Node: "node2"})
		c.ExpectAnswer(t, "a.twin", "http://"+target, "b", a)
	}
}

func TestCrashedLabCanBeRemoved(t *testing.T) {
	b := blueprint.Default()
	b.Nodes, b.Gateways, b.Networks, b.Uplinks = 0, 0, nil, nil
	name := fmt.Sprintf("e2e-%d-crash", os.Getpid())
	c, err := harness.BringUpLab(name, b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lab.Down(context.Background(), name) })
	process, err := os.FindProcess(c.PID)
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Kill(); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for _, err = lab.Open(name); err == nil && time.Now().Before(deadline); {
		_, err = lab.Open(name)
	}
	if err == nil || !strings.Contains(err.Error(), "has crashed") {
		t.Errorf("a crashed lab is said to be: %v", err)
	}
	if _, err := harness.BringUpLab(name, b); err == nil || !strings.Contains(err.Error(), "lab down") {
		t.Errorf("starting a lab over a crashed one must say how to remove it; got: %v", err)
	}
	if err := lab.Down(harness.Within(t, harness.Patience), name); err != nil {
		t.Errorf("remove the crashed lab: %v", err)
	}
	if _, err := os.Stat(c.Dir); err == nil {
		t.Errorf("%s is left", c.Dir)
	}
}
