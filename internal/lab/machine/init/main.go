// Command init is the first program that a machine's kernel starts.
package main

import "github.com/sallyport/sallyport/internal/lab/machine/guest"

func main() { guest.Run() }
