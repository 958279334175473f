// Package harness is the code that the end-to-end tests of all themes share: labs with Sallyport, traffic, captures and
// figures.
package harness

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/sallyport/sallyport/internal/lab"
	"github.com/sallyport/sallyport/internal/lab/daemon"
	"github.com/sallyport/sallyport/test/show"
)

// Main runs the tests of a theme, ends the shared lab and prints the theme's lists. It does not return.
func Main(m *testing.M, lists ...*show.List) {
	daemon.Hook()
	flag.Parse()
	log.SetLogger(logr.Discard()) // controller-runtime warns after some time if no logger is set
	if os.Geteuid() != 0 {
		fmt.Fprintln(os.Stderr, "these tests start labs and need root")
		os.Exit(1)
	}
	machine.run()
	code := m.Run()
	endSharedLab()
	machine.printSummary(os.Stdout)
	os.Exit(show.Finish(code, lists...))
}

func endSharedLab() {
	SharedController.StopIfStarted()
	if sharedLab.lab != nil {
		if err := lab.Down(context.Background(), sharedLab.lab.Name); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
}
