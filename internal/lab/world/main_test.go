package world

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/internal/lab/blueprint"
	"github.com/sallyport/sallyport/internal/lab/netns"
)

// insideKey marks the copy of the test binary that runs in namespaces of its own.
const insideKey = "WORLD_TEST_INSIDE"

// whyNot is why there are no namespaces to test in; empty inside them.
var whyNot string

// TestMain runs the tests in throw-away network, mount and process namespaces: nothing of a test is left on the
// machine, and none of its packets can leave.
func TestMain(m *testing.M) {
	if os.Getenv(insideKey) != "" {
		if err := settleIn(); err != nil {
			fmt.Fprintln(os.Stderr, "prepare the test's namespaces:", err)
			os.Exit(1)
		}
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

func rerunInside() (int, error) {
	runtime.LockOSThread() // the death of this thread is what Pdeathsig waits for
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
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

// settleIn gives the namespaces a /proc of their process numbers and an empty /run.
func settleIn() error {
	if err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	if err := unix.Mount("tmpfs", "/run", "tmpfs", 0, ""); err != nil {
		return fmt.Errorf("mount /run: %w", err)
	}
	return netns.Own().LinkUp("lo")
}

func needInside(t *testing.T) {
	t.Helper()
	if whyNot != "" {
		t.Skip(whyNot)
	}
}

// testBlueprint has a dual-stack network, an IPv4 network and an uplink with a name of the greatest length.
func testBlueprint() blueprint.Blueprint {
	return blueprint.Blueprint{
		Raft: 1,
		Networks: []blueprint.Network{
			{Name: "public", Prefixes: []netip.Prefix{
				netip.MustParsePrefix("198.51.100.0/24"),
				netip.MustParsePrefix("2001:db8:51::/64"),
			}},
			{Name: "cloud", Prefixes: []netip.Prefix{netip.MustParsePrefix("100.65.0.0/16")}},
		},
		Uplinks: []blueprint.Uplink{{
			Name:     "uplink-north",
			Prefixes: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/25")},
		}},
	}
}

var buildOnce = sync.OnceValue(func() error { return Build(context.Background(), testBlueprint()) })

// segments builds the test's world at its first call, and gives its segments with all counters at zero.
func segments(t *testing.T) (public, cloud, uplink blueprint.Segment) {
	t.Helper()
	needInside(t)
	b := testBlueprint()
	if err := b.Check(); err != nil {
		t.Fatal(err)
	}
	if err := buildOnce(); err != nil {
		t.Fatal(err)
	}
	all := b.Segments()
	for _, s := range all {
		if err := ResetCounters(netns.Named(s.Router)); err != nil {
			t.Fatal(err)
		}
	}
	return all[0], all[1], all[2]
}
