package harness

import (
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/sallyport/sallyport/test/show"
)

// themeLock is the lock of this process among the themes that run at the same time on the machine.
var themeLock struct {
	mu    sync.Mutex
	file  *os.File // locked; nil: this process does not hold it
	quiet bool     // the machine has time for every switch of a lab
}

// RunAlone waits until no test of another theme runs, and prevents others from starting until this test ends. It is for
// tests that measure time: starting two labs at once keeps the machine and the engine busy for seconds. Call it first.
func RunAlone(t *testing.T) {
	t.Helper()
	lockTheme(t, syscall.LOCK_EX, true)
}

// RunQuietly is for tests that measure time and whose limits are wide in CI (TimeLimit). There, test/e2e/run runs two of
// them at a time, and nothing else; two thirds of the machine are idle while one runs. At full size it is RunAlone. Call it
// first.
func RunQuietly(t *testing.T) {
	t.Helper()
	lockTheme(t, show.ChooseSize(syscall.LOCK_EX, syscall.LOCK_SH), true)
}

// runBesideOthers lets a test run in parallel with tests of other themes. Every test that uses a lab calls it.
func runBesideOthers(t *testing.T) {
	t.Helper()
	lockTheme(t, syscall.LOCK_SH, false)
}

// machineIsQuiet reports whether the machine has time for every switch of a lab.
func machineIsQuiet() bool {
	themeLock.mu.Lock()
	defer themeLock.mu.Unlock()
	return show.IsFullSize() || themeLock.file != nil && themeLock.quiet
}

// lockTheme locks a file until the test ends.
func lockTheme(t *testing.T, how int, quiet bool) {
	t.Helper()
	themeLock.mu.Lock()
	defer themeLock.mu.Unlock()
	if themeLock.file != nil {
		return
	}
	describeMachineIfFailed(t)
	themeLock.file, themeLock.quiet = lockInTurn(t, how), quiet
	t.Cleanup(func() {
		themeLock.mu.Lock()
		defer themeLock.mu.Unlock()
		_ = themeLock.file.Close()
		themeLock.file = nil
	})
}

// lockInTurn waits for the lock. A process holds the gate while it waits, so that later processes cannot overtake it:
// shared locks could starve an exclusive one.
func lockInTurn(t *testing.T, how int) *os.File {
	t.Helper()
	gate := lockFile(t, "gate", syscall.LOCK_EX)
	defer gate.Close()
	return lockFile(t, "turn", how)
}

func lockFile(t *testing.T, name string, how int) *os.File {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(os.TempDir(), "sallyport-e2e-"+name+".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(f.Fd()), how); err != nil {
		t.Fatal(err)
	}
	return f
}
