package harness

import (
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

// turn is this process's place among the themes that run at once on the machine.
var turn struct {
	mu   sync.Mutex
	held bool
}

// Alone waits until no test of another theme runs, and keeps others from starting until this one ends. It is for tests that measure
// time: two labs at once are busy for seconds, and so is the engine. Call it first.
func Alone(t *testing.T) {
	t.Helper()
	takeTurn(t, syscall.LOCK_EX)
}

// beside lets a test run next to those of other themes. Whoever gets a lab takes this turn.
func beside(t *testing.T) {
	t.Helper()
	takeTurn(t, syscall.LOCK_SH)
}

// takeTurn locks a file until the test ends. Who waits for the lock holds the gate before it, so that nobody who comes later
// overtakes: shared locks could keep an exclusive one waiting for ever.
func takeTurn(t *testing.T, how int) {
	t.Helper()
	turn.mu.Lock()
	defer turn.mu.Unlock()
	if turn.held {
		return
	}
	gate := lockFile(t, "gate", syscall.LOCK_EX)
	file := lockFile(t, "turn", how)
	_ = gate.Close()
	turn.held = true
	t.Cleanup(func() {
		turn.mu.Lock()
		defer turn.mu.Unlock()
		turn.held = false
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
