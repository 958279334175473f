package realnode

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/lab/blueprint"
	"github.com/sallyport/sallyport/internal/lab/netns"
	"github.com/sallyport/sallyport/internal/lab/netns/netnstest"
	"github.com/sallyport/sallyport/internal/lab/proc"
)

const testLab = "/run/sallyport/test"

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == InitName {
		fmt.Fprintln(os.Stderr, RunInit())
		os.Exit(1)
	}
	os.Exit(netnstest.Run(m, func() error { return errors.Join(os.MkdirAll(testLab, 0o755), netns.Own().LinkUp("lo")) }))
}

// newNode is a node with its network namespace, of which nothing runs.
func newNode(t *testing.T) *Node {
	t.Helper()
	netnstest.Need(t)
	hierarchies, err := Hierarchies()
	if errors.Is(err, ErrNoControllers) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(testLab, "data")
	name := fmt.Sprintf("test-%d", time.Now().UnixNano())
	groups := Cgroups{Lab: name, Dir: filepath.Join(testLab, "cgroup"), Hierarchies: hierarchies}
	if _, err := os.Stat(groups.Dir); err != nil {
		if err := groups.Mount(); err != nil {
			t.Fatal(err)
		}
	}
	ns, err := netns.Create("node1")
	if err != nil {
		t.Fatal(err)
	}
	n := &Node{
		Shop: Shop{
			Processes: proc.NewTable(t.TempDir()), Lab: testLab, Data: data, Cgroups: groups,
		},
		Node: blueprint.Node{Name: "node1"}, NS: ns,
	}
	t.Cleanup(func() {
		if err := errors.Join(n.Kill(), ns.Delete(), removeAll(groups), os.RemoveAll(data)); err != nil {
			t.Error(err)
		}
	})
	return n
}

// removeAll removes the groups of a node as RemoveCgroups does, at the place where the test has mounted them.
func removeAll(c Cgroups) error {
	var errs []error
	for _, dir := range c.of("node1") {
		errs = append(errs, removeGroups(filepath.Dir(dir)))
	}
	return errors.Join(errs...)
}

// on runs a shell script on the node and returns what it prints.
func on(t *testing.T, n *Node, script string) string {
	t.Helper()
	spec := n.Wrap(proc.Spec{Argv: []string{"sh", "-ec", script}})
	cmd := exec.Command(spec.Argv[0], spec.Argv[1:]...)
	cmd.Env = append(os.Environ(), spec.Env...)
	var out []byte
	err := n.NS.Do(func() (err error) {
		out, err = cmd.CombinedOutput()
		return err
	})
	if err != nil {
		t.Fatalf("%s: %v: %s", script, err, out)
	}
	return strings.TrimSpace(string(out))
}

func boot(t *testing.T, n *Node) {
	t.Helper()
	if err := n.Boot(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestNodeHasItsOwnOfEverything(t *testing.T) {
	n := newNode(t)
	boot(t, n)
	panicBefore, err := os.ReadFile("/proc/sys/kernel/panic")
	if err != nil {
		t.Fatal(err)
	}
	for script, want := range map[string]string{
		"hostname":          "node1",
		"cat /proc/1/comm":  InitName[:15],
		"ls /sys/class/net": "lo",
		"cat /proc/self/cgroup | cut -d: -f3 | sort -u":               "/",
		"cd /proc/sys/kernel; cat panic; echo 7 >panic; cat panic":    "10\n7",
		"ls /run /var/lib /var/log":                                   "/run:\nopenvswitch\novn\nsallyport\n\n/var/lib:\n\n/var/log:",
		"mkdir -p /etc/cni; echo a >/etc/cni/file; cat /etc/cni/file": "a",
		"test -s /etc/passwd && echo passwords":                       "passwords",
		"ls " + n.Cgroups.Dir + "/memory":                             "",
	} {
		if got := on(t, n, script); got != want {
			t.Errorf("%s: %q, want %q", script, got, want)
		}
	}
	if _, err := os.Stat("/etc/cni/file"); err == nil {
		t.Error("a file of the node is on the machine")
	}
	if after, err := os.ReadFile("/proc/sys/kernel/panic"); err != nil || string(after) != string(panicBefore) {
		t.Errorf("the machine's setting was %q and is %q, %v", panicBefore, after, err)
	}
}

func TestPowerCutEndsAllAndKeepsTheDisk(t *testing.T) {
	n := newNode(t)
	boot(t, n)
	p, err := n.start("sleeper", []string{"sh", "-c", "setsid sleep 1000 & exec sleep 1000"})
	if err != nil {
		t.Fatal(err)
	}
	on(t, n, "echo kept >/var/lib/file; echo lost >/run/file; echo kept >/etc/file")
	members := func() string {
		raw, err := os.ReadFile(filepath.Join(n.Cgroups.of("node1")[0], "cgroup.procs"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(raw))
	}
	// the first one, nsenter, and two that sleep
	if err := n.await(t.Context(), "processes", p, func() bool { return strings.Count(members(), "\n") == 3 }); err != nil {
		t.Fatal(err)
	}
	if err := n.Kill(); err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	if !p.Expected() || p.State().State != "killed" {
		t.Errorf("a process that ended with its node is %+v", p.State())
	}
	if got := members(); got != "" {
		t.Errorf("after the power cut run %q", got)
	}
	boot(t, n)
	if got := on(t, n, "cat /var/lib/file /etc/file; test -e /run/file || echo no /run/file"); got != "kept\nkept\nno /run/file" {
		t.Errorf("after the boot: %q", got)
	}
}

func TestHierarchies(t *testing.T) {
	got, err := parseHierarchies("9:name=systemd:/user\n4:memory:/a/b\n3:cpu,cpuacct:/\n0::/unified\n")
	want := []Hierarchy{{"none,name=systemd", "/user"}, {"memory", "/a/b"}, {"cpu,cpuacct", "/"}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	if _, err := parseHierarchies("0::/user.slice\n"); !errors.Is(err, ErrNoControllers) {
		t.Errorf("a machine with version 2 only: %v", err)
	}
	const mounts = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n" +
		"cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,relatime,cpu,cpuacct 0 0\n" +
		"cgroup /sys/fs/cgroup/systemd cgroup rw,name=systemd 0 0\n"
	for i, want := range []string{"/sys/fs/cgroup/systemd", "", "/sys/fs/cgroup/cpu,cpuacct"} {
		if at := mountPoint(mounts, got[i]); at != want {
			t.Errorf("%v is mounted at %q, want %q", got[i], at, want)
		}
	}
}
