package netns

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"testing"

	"github.com/sallyport/sallyport/internal/lab/netns/netnstest"
)

// createKey marks a copy of the test binary for a single call of Create.
const createKey = "NETNS_TEST_CREATE"

// firstThread is what went wrong in a call from the process's first thread.
var firstThread error

func init() { runtime.LockOSThread() } // keeps TestMain on that thread

func TestMain(m *testing.M) {
	if name := os.Getenv(createKey); name != "" {
		_, err := Create(name)
		exitWith(err)
	}
	os.Exit(netnstest.Run(m, func() error { return Own().LinkUp("lo") }, func() error {
		firstThread = tryFirstThread()
		runtime.UnlockOSThread()
		return nil
	}))
}

func exitWith(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// create makes a namespace that ends with the test.
func create(t *testing.T, name string) NS {
	t.Helper()
	netnstest.Need(t)
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
