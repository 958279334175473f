package netns

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/internal/lab/netns/netnstest"
)

// here names the network namespace of the calling thread.
func here(t *testing.T) string {
	t.Helper()
	name, err := os.Readlink("/proc/thread-self/ns/net")
	if err != nil {
		t.Error(err)
	}
	return name
}

// inside names the namespace that Do enters.
func inside(t *testing.T, ns NS) (name string) {
	t.Helper()
	must(t, ns.Do(func() error { name = here(t); return nil }))
	return name
}

func TestCreatedNamespaceIsThereUntilDeleted(t *testing.T) {
	ns := create(t, "one")
	if got := Named("one"); !got.Exists() || inside(t, got) != inside(t, ns) || inside(t, ns) == here(t) {
		t.Error("one is not a namespace of its own")
	}
	links, err := ns.Links()
	if err != nil || len(links) == 0 || links[0].Attrs().Name != "lo" || links[0].Attrs().Flags&net.FlagUp == 0 {
		t.Errorf("links are %v, %v; want lo, up", links, err)
	}
	first := inside(t, ns)
	if _, err := Create("one"); !errors.Is(err, os.ErrExist) {
		t.Errorf("a second of the name: %v, want it refused", err)
	}
	if inside(t, ns) != first {
		t.Error("the refused second replaced the first")
	}
	must(t, ns.Delete())
	if err := ns.Do(func() error { return nil }); ns.Exists() || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a deleted namespace is entered: %v", err)
	}
	must(t, ns.Delete()) // what is gone already is no error
	must(t, create(t, "one").LinkUp("lo"))
}

// A process without privileges can write the file but not make the namespace.
func TestFailedCreateLeavesNothing(t *testing.T) {
	netnstest.Need(t)
	must(t, os.MkdirAll(Dir, 0o755), os.Chmod(Dir, 0o777))
	try := func(name string, uid uint32) (string, error) {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), createKey+"="+name)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := try("half", 65534); err == nil || !strings.Contains(out, "operation not permitted") {
		t.Errorf("without privileges: %v %s", err, out)
	}
	if left, _ := filepath.Glob(Dir + "/*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if out, err := try("half", 0); err != nil {
		t.Errorf("with privileges: %v %s", err, out)
	}
	must(t, Named("half").Delete())
	if _, err := Create("no/such"); err == nil {
		t.Error("a name with a slash is taken")
	}
}

func TestDoLeavesItsCallersWhereTheyWere(t *testing.T) {
	own, all := here(t), []NS{create(t, "a"), create(t, "b"), create(t, "c")}
	var names []string
	for _, ns := range all {
		names = append(names, inside(t, ns))
	}
	var callers sync.WaitGroup
	for i := range 300 {
		callers.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			err := all[i%3].Do(func() error {
				if got := here(t); got != names[i%3] || unix.Gettid() == unix.Getpid() {
					return fmt.Errorf("in %s, thread %d of %d; want %s, not the first thread", got, unix.Gettid(),
						unix.Getpid(), names[i%3])
				}
				return nil
			})
			if err != nil || here(t) != own {
				t.Errorf("%v; came back to %s, want %s", err, here(t), own)
			}
		})
	}
	callers.Wait()
	if first, err := os.Readlink("/proc/self/ns/net"); err != nil || first != own {
		t.Errorf("the process's first thread is in %s, want %s (%v)", first, own, err)
	}
}

// TestMain runs on the process's first thread, which the runtime can't end: a change would stay there.
func TestDoFromTheFirstThread(t *testing.T) {
	netnstest.Need(t)
	if firstThread != nil {
		t.Error(firstThread)
	}
}

func tryFirstThread() error {
	ns, err := Create("first")
	if err != nil {
		return err
	}
	before, err1 := os.Readlink("/proc/thread-self/ns/net")
	broken := errors.New("broken")
	got := ns.Do(func() error { return broken })
	after, err2 := os.Readlink("/proc/thread-self/ns/net")
	if !errors.Is(got, broken) || before != after || unix.Gettid() != unix.Getpid() {
		return fmt.Errorf("%w; thread %d was in %s and came back to %s", got, unix.Gettid(), before, after)
	}
	return errors.Join(err1, err2, ns.Delete())
}
