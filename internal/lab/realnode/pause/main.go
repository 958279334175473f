// Command pause is what holds the namespaces of a pod on a real node: it waits, and reaps.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGINT, syscall.SIGTERM)
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	for {
		select {
		case <-end:
			return
		case <-children:
			for pid, err := 1, error(nil); pid > 0 && err == nil; {
				pid, err = syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
			}
		}
	}
}
