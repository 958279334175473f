// Package e2e is Sallyport shown by packets, on labs with real parts.
package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/sallyport/sallyport/internal/lab"
	"github.com/sallyport/sallyport/internal/lab/daemon"
	"github.com/sallyport/sallyport/test/show"
)

// list is what `make show-lab` prints.
var list = show.New("the lab",
	"`make lab` builds and starts; a warm start takes 30 s at most, the end 3 s",
	"pods reach each other across nodes, and Services in a VPC; VPCs with the same addresses do not",
	"the problem: one source policy for a secondary network breaks the default network for that pod",
	"OVN raft: the northbound leader dies under a stream of writes, and none is lost",
	"scale mode: hundreds of fake nodes, thousands of fake pods with addresses from Kube-OVN",
	"ups and downs in a row leave no trace",
	"the lab explains itself: help, errors, progress, docs",
)

var everything = flag.Bool("show", false, "fail when an item of a list did not run")

func TestMain(m *testing.M) {
	daemon.Hook()
	flag.Parse()
	if os.Geteuid() != 0 {
		fmt.Fprintln(os.Stderr, "these tests start labs and need root")
		os.Exit(1)
	}
	code := m.Run()
	endShared()
	if list.Ran() && !list.Print(os.Stdout) && *everything {
		code = 1
	}
	os.Exit(code)
}

func endShared() {
	if sharedLab.lab != nil {
		if err := lab.Down(context.Background(), sharedLab.lab.Name); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
}
