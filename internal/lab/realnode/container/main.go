// Command container is a program of the lab's pods as a container of a real node: the one of lab/NAME where it is
// called NAME.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/sallyport/sallyport/internal/lab/netns"
	"github.com/sallyport/sallyport/internal/lab/program"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:gocritic // the process ends, and its signals with it
	}
}

func run(ctx context.Context) error {
	image := "lab/" + filepath.Base(os.Args[0])
	start, known := program.Lookup(image)
	if !known {
		return fmt.Errorf("no program is called %s; there are: %s", image, strings.Join(program.Images(), " "))
	}
	host, err := os.Hostname() // the pod's name
	if err != nil {
		return err
	}
	env := map[string]string{}
	for _, setting := range os.Environ() {
		key, value, _ := strings.Cut(setting, "=")
		env[key] = value
	}
	return start(ctx, netns.Own(), program.Spec{Name: host, Args: os.Args[1:], Env: env, Log: os.Stdout})
}
