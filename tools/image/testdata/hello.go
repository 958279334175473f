// Command hello is a program for an image.
package main

import "flag"

func main() { flag.Parse() }
