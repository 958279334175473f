package netns

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// What copies of the test binary are for: the tests, in namespaces of their own, and a single call of Create.
const (
	insideKey = "NETNS_TEST_INSIDE"
	createKey = "NETNS_TEST_CREATE"
)

// whyNot is why there are no namespaces to test in; empty inside them.
var whyNot string

// firstThread is what went wrong in a call from the process's first thread.
var firstThread error

func init() { runtime.LockOSThread() } // keeps TestMain on that thread

// TestMain runs the tests in throw-away network, mount and process namespaces: nothing of a test is left on the
// machine, and none of its packets can leave.
func TestMain(m *testing.M) {
	if name := os.Getenv(createKey); name != "" {
		_, err := Create(name)
		exitWith(err)
	}
	if os.Getenv(insideKey) != "" {
		if err := settleIn(); err != nil {
			exitWith(fmt.Errorf("prepare the test's namespaces: %w", err))
		}
		firstThread = tryFirstThread()
		runtime.UnlockOSThread()
		os.Exit(m.Run())
	}
	whyNot = "needs root, to make network namespaces"
	if os.Geteuid() == 0 {
		code, err := rerunInside()
		if err == nil {
			os.Exit(code)
		}
		whyNot = "can't make namespaces: " + err.Error()
	}
	os.Exit(m.Run())
}

func exitWith(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func rerunInside() (int, error) {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), insideKey+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWPID,
		Pdeathsig:  syscall.SIGKILL, // of this thread, which lives as long as the process
	}
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return max(exit.ExitCode(), 1), nil
	}
	return 0, err
}

func settleIn() error {
	return errors.Join(
		unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount("proc", "/proc", "proc", 0, ""),
		unix.Mount("tmpfs", "/run", "tmpfs", 0, ""),
		Own().LinkUp("lo"),
	)
}

// create makes a namespace that ends with the test.
func create(t *testing.T, name string) NS {
	t.Helper()
	if whyNot != "" {
		t.Skip(whyNot)
	}
	ns, err := Create(name)
	must(t, err)
	t.Cleanup(func() { must(t, ns.Delete()) })
	return ns
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}
