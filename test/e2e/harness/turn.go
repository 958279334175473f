package harness

import (
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

// themeLock is this process's place among the themes that run at once on the machine.
var themeLock struct {
	mu   sync.Mutex
	held bool
}

// RunAlone waits until no test of another theme runs, and keeps others from starting until this one ends. It is for
// tests that measure time: two labs at once are busy for seconds, and so is the engine. Call it first.
func RunAlone(t *testing.T) {
	t.Helper()
	lockTheme(t, syscall.LOCK_EX)
}

// runBesideOthers lets a test run next to those of other themes. Whoever gets a lab takes this turn.
func runBesideOthers(t *testing.T) {
	t.Helper()
	lockTheme(t, syscall.LOCK_SH)
}

// lockTheme locks a file until the test ends. Who waits for the lock holds the gate before it, so that nobody who comes
// later overtakes: shared locks could keep an exclusive one waiting for ever.
func lockTheme(t *testing.T, how int) {
	t.Helper()
	themeLock.mu.Lock()
	defer themeLock.mu.Unlock()
	if themeLock.held {
		return
	}
	gate := lockFile(t, "gate", syscall.LOCK_EX)
	file := lockFile(t, "turn", how)
	_ = gate.Close()
	themeLock.held = true
	t.Cleanup(func() {
		themeLock.mu.Lock()
		defer themeLock.mu.Unlock()
		themeLock.held = false
		_ = file.Close()
	})
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
