// Command sallyport is the command line of Sallyport, also as the kubectl plugin `kubectl sallyport`.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/sallyport/sallyport/internal/cli"
	"github.com/sallyport/sallyport/internal/lab/daemon"
)

var version = "unknown" // set by the linker

func main() {
	daemon.Hook()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	err := cli.New(version).ExecuteContext(ctx)
	stop()
	if err != nil {
		cli.PrintError(os.Stderr, err)
		os.Exit(cli.ExitCode(err))
	}
}
