package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/internal/lab/blueprint"
)

// ownRun gives the test an empty /run that nobody else sees: mounts of the test's thread, which ends with the test.
func ownRun(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to have a /run of its own")
	}
	runtime.LockOSThread()
	err := unix.Unshare(unix.CLONE_NEWNS)
	if err == nil {
		err = unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	}
	if err == nil {
		err = unix.Mount("tmpfs", "/run", "tmpfs", 0, "")
	}
	if err != nil {
		t.Skipf("can't have a /run of its own: %v", err)
	}
}

// claimed makes the directory of a lab, with a pid file of that content.
func claimed(t *testing.T, name, pid string) {
	t.Helper()
	if err := claim(name); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dirOf(name), pidFile), []byte(pid+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// sleeper is a process with a program of that name; it lives until the test ends.
func sleeper(t *testing.T, name string) *exec.Cmd {
	t.Helper()
	program, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip(err)
	}
	path := filepath.Join(t.TempDir(), name)
	raw, err := os.ReadFile(program)
	if err := errors.Join(err, os.WriteFile(path, raw, 0o755)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "1000")
	cmd.Args[0] = "sleep" // a program of many names looks here
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

func TestNames(t *testing.T) {
	ownRun(t)
	long := strings.Repeat("a", 32)
	for _, name := range []string{"lab", "a", "1", "a-b", "lab-2", long} {
		if _, err := find(name); err == nil || !strings.Contains(err.Error(), "there is no lab") {
			t.Errorf("%q: %v, want it taken for a name", name, err)
		}
	}
	for _, name := range []string{"", "-a", "a-", "A", "a.b", "a b", "a/b", "..", "a\n", "ä", long + "a"} {
		if _, err := find(name); err == nil || !strings.Contains(err.Error(), "is no name") {
			t.Errorf("%q: %v, want it refused", name, err)
		}
		if err := (Options{Name: name, Blueprint: blueprint.Default()}).check(); err == nil ||
			!strings.Contains(err.Error(), "is no name") {
			t.Errorf("up %q: %v, want it refused", name, err)
		}
	}
}

// A name in brackets, spaces and a Z: all that could be mistaken in /proc/PID/stat.
func TestProcessIsIdentified(t *testing.T) {
	p := sleeper(t, "a) Z (b")
	pid := p.Process.Pid
	plain := sleeper(t, "plain")
	id := identify(pid)
	if prefix := fmt.Sprintf("%d ", pid); !strings.HasPrefix(id, prefix) || id == prefix || id != identify(pid) {
		t.Errorf("%d is identified as %q", pid, id)
	}
	if other := identify(plain.Process.Pid); other == id || other == "" {
		t.Errorf("two processes are %q and %q", id, other)
	}
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Waitid(unix.P_PID, pid, &unix.Siginfo{}, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	if id := identify(pid); id != "" {
		t.Errorf("a zombie is identified as %q", id)
	}
	_ = p.Wait()
	if id := identify(pid); id != "" {
		t.Errorf("a process that is gone is identified as %q", id)
	}
}

func TestOnlyARunningLabIsUp(t *testing.T) {
	ownRun(t)
	pid := sleeper(t, "sleeper").Process.Pid
	claimed(t, "running", identify(pid))
	crashed := map[string]string{
		"reused": fmt.Sprintf("%d 1", pid), // a younger process has the number
		"number": fmt.Sprint(pid), "gone": "4194304 1", "empty": "", "garbage": "x y",
	}
	for name, text := range crashed {
		claimed(t, name, text)
	}
	if labs, err := List(); err != nil || len(labs) != 1+len(crashed) {
		t.Errorf("%v, %v", labs, err)
	}
	if l, err := Open("running"); err != nil || l.PID != pid {
		t.Errorf("%+v, %v", l, err)
	}
	for name := range crashed {
		if _, err := Open(name); err == nil || !strings.Contains(err.Error(), "has crashed") {
			t.Errorf("open %s: %v", name, err)
		}
		if err := claim(name); err == nil {
			t.Errorf("the name %s of a crashed lab is free", name)
		}
		if err := Down(t.Context(), name); err != nil || identify(pid) == "" {
			t.Errorf("down %s: %v; it must not kill another's process", name, err)
		}
	}
	if err := Down(t.Context(), "gone"); err == nil {
		t.Error("a lab that does not exist is ended")
	}
	if err := Down(t.Context(), "running"); err != nil || identify(pid) != "" {
		t.Errorf("down: %v; its process is %q", err, identify(pid))
	}
	if _, err := os.Stat(Root); !os.IsNotExist(err) {
		t.Errorf("%s is left: %v", Root, err)
	}
}
