// Package netnstest runs the tests of a package in network, mount and process namespaces of their own.
package netnstest

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

// insideKey marks the copy of the test binary that runs in the namespaces.
const insideKey = "SALLYPORT_TEST_INSIDE"

// whyNot is why there are no namespaces to test in; empty inside them.
var whyNot string

// Run starts the test binary again in namespaces that end with it: nothing of a test is left on the machine, and none of
// its packets can leave. Inside it calls prepare, then runs the tests. Without root it runs them here, where Need skips
// those that need the namespaces. It returns the exit code.
func Run(m *testing.M, prepare ...func() error) int {
	if os.Getenv(insideKey) != "" {
		if err := settle(prepare); err != nil {
			fmt.Fprintln(os.Stderr, "prepare the test's namespaces:", err)
			return 1
		}
		return m.Run()
	}
	whyNot = "needs root, to make namespaces"
	if os.Geteuid() == 0 {
		code, err := rerunInside()
		if err == nil {
			return code
		}
		whyNot = "can't make namespaces: " + err.Error()
	}
	return m.Run()
}

// Need skips a test if there are no namespaces.
func Need(t *testing.T) {
	t.Helper()
	if whyNot != "" {
		t.Skip(whyNot)
	}
}

func rerunInside() (int, error) {
	runtime.LockOSThread() // Pdeathsig is sent when this thread dies
	defer runtime.UnlockOSThread()
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...) //nolint:gosec // the test binary itself, with its own arguments
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), insideKey+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWPID,
		Pdeathsig:  syscall.SIGKILL,
	}
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return max(exit.ExitCode(), 1), nil
	}
	return 0, err
}

// settle gives the namespaces a /proc of their own processes and an empty /run.
func settle(prepare []func() error) error {
	if err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	if err := unix.Mount("tmpfs", "/run", "tmpfs", 0, ""); err != nil {
		return fmt.Errorf("mount /run: %w", err)
	}
	for _, f := range prepare {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}
