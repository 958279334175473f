// Command guest is what runs in the virtual machine of a node with the kernel's datapath.
package main

import (
	"fmt"
	"os"

	"github.com/sallyport/sallyport/internal/lab/kernelnode"
)

func main() {
	if err := kernelnode.RunGuest(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
