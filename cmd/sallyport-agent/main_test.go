package main

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/test/page"
)

func TestReferencePageHasEveryFlag(t *testing.T) {
	t.Setenv("NODE_NAME", "") // it is the default of a flag
	page.CheckCommandReference(t, "../../docs/reference/agent.md", "The chart sets these flags from its values.",
		newRootCommand())
}

// Settings are written below --sysctl-root: runc refuses mounts below /proc, and a container's own /proc/sys is
// read-only.
func TestSettingsAreWrittenBelowSysctlRoot(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	runtime.LockOSThread() // the thread, and its network namespace, end with the test
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
	root, state := t.TempDir(), t.TempDir()
	setting := filepath.Join(root, "net/ipv4/conf/eth1/rp_filter")
	if err := os.MkdirAll(filepath.Dir(setting), 0o700); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{
		// the state before the agent
		setting: "2", filepath.Join(state, "settings.json"): `{"net.ipv4.conf.eth1.rp_filter": "1"}`,
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := newRootCommand()
	cmd.SetArgs([]string{"clean", "--state-dir", state, "--sysctl-root", root})
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if is, err := os.ReadFile(setting); err != nil || string(is) != "1" {
		t.Errorf("the setting is %q (%v)", is, err)
	}
}
